//! `memledger report`: totals, peaks, who holds what, what is still live.

use super::choice;
use super::completeness::incomplete_unless;
use super::condition::{Condition, judge};
use super::diff::DiffArgs;
use super::input::is_stdin;
use super::moment::{Asked, Moment, asked, positions};
use super::needs::{Collected, Needs};
use super::output::{frames, unwritable, write_to};
use crate::error::{CliError, Outcome, quoted, usage_sentence};
use crate::symbols::{SymbolArgs, symbolize};
use crate::terminal::{look, note};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{ArgAction, Args, FromArgMatches};
use memledger_analysis::dump::text::By;
use memledger_analysis::dump::{ReportFormat, text};
use memledger_analysis::{Frames, Position, Report};
use memledger_export::FORMATS;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io::{self, Write};
use std::path::PathBuf;
use std::slice;

const EXAMPLES: &str = "\
Examples:
  memledger report run.utrace                         the summary and the short tables
  memledger report run.utrace --verbose               everything, also threads and sizes
  memledger report run.utrace --by scope --inclusive=false   each scope for itself
  memledger report run.utrace --filter texture        only rows with that in their name
  memledger report run.utrace --by stack              the call stacks, from main inwards
  memledger report run.utrace --by line --scope load  which lines fill the scope load
  memledger report run.utrace --findings              all findings: what holds memory, what costs time
  memledger report run.utrace --at 1.5s               the report as it stood then
  memledger report run.utrace --from 1s --to 2s       what has grown and shrunk from then to then
  memledger report run.utrace --fail-if 'peak_bytes > 64MiB'   exit 3 if it was more
  memledger report run.utrace --fail-if 'peak_bytes{scope=\"request\"} > 1MiB'   of a scope
  memledger report run.utrace -o run.json             JSON, by the ending of the file
  memledger report run.utrace -o run.html             a page for a browser: timeline, flame graph, findings

TIME is 1.5s, 200ms, nanoseconds without a unit, 50%, start, peak, end or bookmark:NAME.
EXPR compares a number in totals, losses or trace of the JSON report: >, >=, <, <=, =, !=; bytes may
have a unit (KiB, MiB, GiB), times too (ms, s). {scope=\"NAME\"} (or group, name, thread, function, heap) after the
figure takes the rows with this name instead, with all inside them; a NAME may be the end of a path, as
in \"outer > inner\". Of several rows, one is enough. 'complete = false' is a trace that is not whole;
on such a trace no other --fail-if passes.";

/// Arguments of `memledger report`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct ReportArgs {
    /// The trace; - for standard input
    trace: PathBuf,
    /// One table only, by this; stack: the call stacks, as a tree from the outermost function inwards
    #[arg(long, value_parser = choice(&By::ALL, By::name))]
    by: Option<By>,
    /// What the rows are sorted by
    #[arg(long, value_enum, default_value = "at-peak")]
    sort: Sort,
    /// The tree of stacks from the functions that allocate to their callers
    #[arg(long)]
    bottom_up: bool,
    /// Show frames of the standard library and of allocation machinery, and lines of others' code, too
    #[arg(long)]
    all_frames: bool,
    /// Stacks, functions, lines, crates and findings only of scopes with this text in their path
    #[arg(long, value_name = "TEXT")]
    scope: Option<String>,
    /// Whether scopes and groups hold what is inside them (they do; =false: own only)
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true)]
    #[arg(default_value_t = true, default_missing_value = "true", action = ArgAction::Set)]
    inclusive: bool,
    /// Only rows with this text in their name
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
    /// All findings, instead of the first three and tables
    #[arg(long)]
    findings: bool,
    /// The report as it stood at this time
    #[arg(long, value_name = "TIME", value_parser = asked)]
    at: Option<Asked>,
    /// What has changed from this time on, as memledger diff TRACE --at FROM --at TO says it
    #[arg(long, value_name = "TIME", value_parser = asked)]
    #[arg(conflicts_with_all = ["at", "findings", "verbose", "scope", "fail_if", "format", "bottom_up", "sort", "inclusive"])]
    from: Option<Asked>,
    /// The end of that time [default: end]
    #[arg(long, value_name = "TIME", value_parser = asked, requires = "from")]
    to: Option<Asked>,
    /// Show threads, sizes, the largest blocks, bookmarks and how accurate times are, too
    #[arg(short, long)]
    verbose: bool,
    /// Columns of a line (those of the terminal; 80 elsewhere)
    #[arg(long, value_name = "COLUMNS")]
    width: Option<usize>,
    /// Rows of a table, blocks in the list of the largest (10 in text, 100 in JSON)
    #[arg(long, value_name = "N")]
    top: Option<usize>,
    /// Exit with status 3 if this holds; may be given more than once
    #[arg(long, value_name = "EXPR", value_parser = Condition::of_one_report)]
    fail_if: Vec<Condition>,
    /// Exit with status 0 though the trace is not whole: of a program that runs, or was killed
    #[arg(long)]
    allow_incomplete: bool,
    /// Judge --fail-if also if the program has memory in no block seen, or scopes that are not recorded
    #[arg(long)]
    allow_untracked: bool,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    symbols: SymbolArgs,
}

/// Where the report goes, and how it is written.
#[derive(Debug, clap::Args)]
struct OutputArgs {
    /// Write to this file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The format of the report [default: by the ending of FILE, else text]
    #[arg(long, value_parser = format_parser())]
    format: Option<Format>,
    /// The same as --format json
    #[arg(long, conflicts_with = "format")]
    json: bool,
    /// A page for a browser in this file: the same as --format html -o FILE
    #[arg(long, value_name = "FILE", conflicts_with_all = ["format", "json", "output"])]
    html: Option<PathBuf>,
}

/// A format of the library's table.
#[derive(Clone, Copy)]
struct Format(&'static dyn ReportFormat);

impl fmt::Debug for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name())
    }
}

fn format_parser() -> impl TypedValueParser<Value = Format> {
    let value = |format: &&dyn ReportFormat| PossibleValue::new(format.name()).help(format.about());
    PossibleValuesParser::new(FORMATS.all().iter().map(value)).try_map(|name| {
        FORMATS.by_name(&name).map(Format).ok_or_else(|| format!("there is no format {name}"))
    })
}

impl OutputArgs {
    /// The format: as asked for, or else by the ending of the file's name.
    fn format(&self) -> &'static dyn ReportFormat {
        let name = if self.json { Some("json") } else { self.html.as_ref().map(|_| "html") };
        let by_name = || FORMATS.by_name(name?);
        let by_path = || FORMATS.by_path(self.output.as_ref()?);
        let format = self.format.map(|format| format.0);
        format.or_else(by_name).or_else(by_path).unwrap_or(FORMATS.default())
    }

    /// The file that the report goes to, if it is not standard output.
    fn file(&self) -> Option<&PathBuf> {
        self.output.as_ref().or(self.html.as_ref())
    }
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(super) enum Sort {
    /// Bytes live at the peak of the whole program
    AtPeak,
    /// Bytes still live
    Live,
    /// The row's own peak
    Peak,
    /// All bytes ever allocated
    Allocated,
    /// Allocations
    Count,
}

impl From<Sort> for text::Sort {
    fn from(sort: Sort) -> Self {
        match sort {
            Sort::AtPeak => Self::AtPeak,
            Sort::Live => Self::Live,
            Sort::Peak => Self::Peak,
            Sort::Allocated => Self::Allocated,
            Sort::Count => Self::Count,
        }
    }
}

/// Reads the trace and prints its report to `out`, or into the file of `-o`.
pub fn run(args: &ReportArgs, out: &mut dyn Write) -> Result<Outcome, CliError> {
    if let Some(from) = &args.from {
        return super::diff::run(&changes(args, from)?, out);
    }
    let until = match &args.at {
        Some(at) => positions(&args.trace, slice::from_ref(at))?.remove(0),
        None => Position::End,
    };
    let (report, summary, problems) = analyze(args, until.clone())?;
    write(args, &report, out)?;
    for problem in &problems {
        note(problem);
    }
    note_unmatched(args, until, &report);

    let incomplete = incomplete_unless(args.allow_untracked, &args.trace, &report, &summary);
    judge(&args.fail_if, &report, incomplete, args.allow_incomplete)
}

/// What `--from` and `--to` ask for: two times of one trace, to be compared.
fn changes(args: &ReportArgs, (from, _): &Asked) -> Result<DiffArgs, CliError> {
    let to = args.to.as_ref().map_or("end", |(to, _)| to);
    let mut words: Vec<OsString> = vec![
        "diff".into(),
        args.trace.clone().into(),
        format!("--at={from}").into(),
        format!("--at={to}").into(),
    ];
    let mut add = |name: &str, value: Option<&OsStr>| {
        if let Some(value) = value {
            words.extend([name.into(), value.to_owned()]);
        }
    };
    let number = |number: Option<usize>| number.map(|number| number.to_string());
    let (top, width) = (number(args.top), number(args.width));
    add("--by", args.by.map(|by| by.name().as_ref()));
    add("--filter", args.filter.as_ref().map(AsRef::as_ref));
    add("--top", top.as_ref().map(AsRef::as_ref));
    add("--width", width.as_ref().map(AsRef::as_ref));
    add("--output", args.output.output.as_ref().map(|path| path.as_os_str()));
    for folder in &args.symbols.folders {
        add("--symbols", Some(folder.as_os_str()));
    }
    let flags = [
        ("--all-frames", args.all_frames),
        ("--allow-incomplete", args.allow_incomplete),
        ("--no-debuginfod", args.symbols.no_debuginfod),
    ];
    words.extend(flags.iter().filter(|(_, is_set)| *is_set).map(|(name, _)| name.into()));
    let command = DiffArgs::augment_args(clap::Command::new("diff"));
    let parsed = command.clone().try_get_matches_from(words);
    parsed
        .and_then(|matches| DiffArgs::from_arg_matches(&matches))
        .map_err(|error| CliError::Usage(usage_sentence(&error, &command)))
}

/// Lists the existing rows when a flag selects none of them.
fn note_unmatched(args: &ReportArgs, until: Position, report: &Report) {
    let end = report.trace.duration_ns;
    if let (Position::Time(time), Some((asked, _))) = (until, &args.at)
        && time > end.saturating_add(report.trace.time_resolution_ns)
    {
        let end = text::duration(end);
        note(&format!(
            "--at {asked} is after the end of the trace, which is {end} long: this is the report of its end"
        ));
    }
    let is_by_size = args.by == Some(By::Size);
    let Some(filter) =
        args.filter.as_ref().filter(|_| args.output.format().has_options() && !is_by_size)
    else {
        return;
    };
    let names = names_in(report, args);
    let lower = filter.to_lowercase();
    if names.iter().any(|name| name.to_lowercase().contains(&lower)) {
        return;
    }
    note_no_row(filter, &names);
}

/// Says that no row has `filter` in its name, and which name is near it or which there are.
pub(super) fn note_no_row(filter: &str, names: &BTreeSet<String>) {
    let parts = names.iter().flat_map(|name| name.split(" > ").flat_map(|part| part.split(" / ")));
    let instead = match text::nearest(filter, parts) {
        Some(near) => format!("{near:?} is likely meant"),
        None => text::instead_as(filter, names, quoted),
    };
    note(&format!("no row has {filter:?} in its name; {instead}"));
}

/// The names of the rows that a filter can select.
fn names_in(report: &Report, args: &ReportArgs) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let is_shown = |table| args.by.is_none_or(|by| by == table);
    if is_shown(By::Scope) {
        names.extend(report.by_scope.iter().map(|row| row.path.join(" > ")));
    }
    if is_shown(By::Group) {
        names.extend(report.by_group.iter().map(|row| row.group.join(" > ")));
    }
    if is_shown(By::Name) {
        let name = |group: &[String], name: &str| format!("{} / {name}", group.join(" > "));
        names.extend(report.by_name.iter().map(|row| name(&row.group, &row.name)));
    }
    if args.by.is_none() {
        names.extend(report.llm_tags.iter().map(|row| row.path.join(" > ")));
    }
    for (by, rows) in [
        (By::Function, Report::by_function as fn(&Report, Frames) -> _),
        (By::Line, Report::by_line),
        (By::Crate, Report::by_crate),
        (By::Stack, Report::by_function),
    ] {
        if args.by == Some(by) {
            names.extend(rows(report, frames(args.all_frames)).into_iter().map(|row| row.name));
        }
    }
    if is_shown(By::Thread) {
        names.extend(report.by_thread.iter().map(|row| format!("{} ({})", row.name, row.id)));
    }
    if is_shown(By::Heap) {
        names.extend(report.by_heap.iter().map(|row| row.name.clone()));
    }
    names
}

/// Reads the trace for what the format shows.
fn analyze(args: &ReportArgs, until: Position) -> Result<Collected, CliError> {
    let format = args.output.format();
    // A filter selects from the largest blocks, so more of them are kept.
    let largest_live = args.top.unwrap_or(100).max(if format.has_options() { 100 } else { 0 });
    let needs = Needs {
        formats: &[format],
        options: &options(args),
        until,
        scope: args.scope.as_deref(),
        largest_live,
        functions: args.fail_if.iter().any(Condition::needs_symbols),
    };
    needs.read(&args.trace, |report| symbolize(report, &args.symbols))
}

fn write(args: &ReportArgs, report: &Report, out: &mut dyn Write) -> Result<(), CliError> {
    let mut options = options(args);
    let Some(path) = args.output.file() else {
        (options.color, options.width) = look(args.width, options.width, io::stdout());
        return args.output.format().write(report, &options, out).map_err(CliError::output);
    };
    write_to(path, out, |out| {
        args.output.format().write(report, &options, out).map_err(|error| unwritable(path, error))
    })
}

/// What the arguments say of the report as text, for any terminal.
fn options(args: &ReportArgs) -> text::Options {
    let mut options = text::Options::default();
    (options.verbose, options.flags) = (args.verbose, true);
    options.top = args.top.unwrap_or(options.top);
    options.width = args.width.unwrap_or(options.width);
    options.by = args.by;
    let is_file = !is_stdin(&args.trace);
    (options.findings, options.trace) =
        (args.findings, is_file.then(|| args.trace.display().to_string()));
    options.sort = args.sort.into();
    options.inclusive = args.inclusive;
    (options.bottom_up, options.frames) = (args.bottom_up, frames(args.all_frames));
    options.filter.clone_from(&args.filter);
    options.moment =
        args.at.as_ref().filter(|(_, at)| *at != Moment::End).map(|(text, _)| text.clone());
    options
}
