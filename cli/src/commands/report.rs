//! `memledger report`: totals, peaks, who holds what, what is still live.

use super::choice;
use super::completeness::Lack;
use super::condition::{Condition, judge};
use super::diff::DiffArgs;
use super::input::is_stdin;
use super::moment::{TimeArg, TimeSpec, positions, time_arg};
use super::needs::{Collected, Needs};
use super::output::{frames, unwritable, write_to};
use crate::cache::{name_of, trace_arg};
use crate::error::{CliError, Outcome, quoted, usage_sentence};
use crate::symbols::{SymbolArgs, symbolize};
use crate::terminal::{look, note};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{ArgAction, Args, FromArgMatches};
use memledger_analysis::{Frames, Position, Report};
use memledger_export::text::By;
use memledger_export::tools::FORMATS;
use memledger_export::{ReportFormat, text};
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::slice;

const EXAMPLES: &str = "\
Examples:
  memledger report run.utrace                    the summary and short tables
  memledger report run.utrace --verbose          also threads, sizes and more
  memledger report run.utrace --by scope --inclusive=false   without children
  memledger report run.utrace --filter texture   only rows with this name
  memledger report run.utrace --by stack         call stacks, from main inwards
  memledger report run.utrace --by line --scope load   the lines in scope load
  memledger report run.utrace --findings         what to look at first
  memledger report run.utrace --at 1.5s          the report as of this time
  memledger report run.utrace --from 1s --to 2s  what grew and what shrank
  memledger report run.utrace --fail-if 'peak_bytes > 64MiB'   exit status 3
  memledger report run.utrace --fail-if 'live_bytes{scope=\"request\"} > 1MiB'
  memledger report run.utrace -o run.json        JSON, by the file's ending
  memledger report run.utrace -o run.html        a page for a browser

TIME is 1.5s, 200ms, nanoseconds without a unit, 50%, start, peak, end or bookmark:NAME.

EXPR compares a number from totals, losses or trace of the JSON report by >, >=, <, <=, = or !=. \
Bytes take units (KiB, MiB, GiB), and so do times (ms, s). {scope=\"NAME\"} after the number (or \
group, name, thread, function, heap) selects the rows of that name, with everything inside them; \
NAME may be the end of a path, as in \"outer > inner\". If several rows match, one is enough. \
'complete = false' holds for an incomplete trace; no other --fail-if passes on one.";

/// Arguments of `memledger report`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct ReportArgs {
    /// The trace; last for that of the last run, - for standard input
    #[arg(value_parser = trace_arg())]
    trace: PathBuf,
    /// Print one table only, grouped by this; stack prints a tree of call stacks
    #[arg(long, value_parser = choice(&By::ALL, By::name))]
    by: Option<By>,
    /// Sort rows by this column
    #[arg(long, value_enum, default_value = "at-peak")]
    sort: Sort,
    /// Start the tree of stacks at the functions that allocate
    #[arg(long)]
    bottom_up: bool,
    /// Include frames of the standard library and of allocators, and lines of dependencies
    #[arg(long)]
    all_frames: bool,
    /// Only stacks, functions, lines, crates and findings in scopes whose path contains this text
    #[arg(long, value_name = "TEXT")]
    scope: Option<String>,
    /// Count the contents of a scope or group in its own row; =false counts them separately
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true)]
    #[arg(default_value_t = true, default_missing_value = "true", action = ArgAction::Set)]
    inclusive: bool,
    /// Only rows whose name contains this text
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
    /// Print all findings instead of the first three and the tables
    #[arg(long)]
    findings: bool,
    /// Report as of this time
    #[arg(long, value_name = "TIME", value_parser = time_arg)]
    at: Option<TimeArg>,
    /// Print what changed since this time, like memledger diff TRACE --at FROM --at TO
    #[arg(long, value_name = "TIME", value_parser = time_arg)]
    #[arg(conflicts_with_all = ["at", "findings", "verbose", "scope", "fail_if", "format", "bottom_up", "sort", "inclusive"])]
    from: Option<TimeArg>,
    /// With --from: the second time [default: end]
    #[arg(long, value_name = "TIME", value_parser = time_arg, requires = "from")]
    to: Option<TimeArg>,
    /// Also print threads, sizes, the largest blocks, bookmarks and the accuracy of times
    #[arg(short, long)]
    verbose: bool,
    /// Line width in columns [default: the terminal's, or 80]
    #[arg(long, value_name = "COLUMNS")]
    width: Option<usize>,
    /// Limit tables and the list of the largest blocks to N rows [default: 10 in text, 100 in JSON]
    #[arg(long, value_name = "N")]
    top: Option<usize>,
    /// Exit with status 3 if this holds; repeatable
    #[arg(long, value_name = "EXPR", value_parser = Condition::of_one_report)]
    fail_if: Vec<Condition>,
    /// Exit with status 0 even if the trace is incomplete (its program runs or was killed)
    #[arg(long)]
    allow_incomplete: bool,
    /// Check --fail-if even if some memory was not tracked or scopes were not recorded
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
    /// The report's format [default: from FILE's ending, else text]
    #[arg(long, value_parser = format_parser())]
    format: Option<Format>,
    /// Same as --format json
    #[arg(long, conflicts_with = "format")]
    json: bool,
    /// Write a page for a browser; same as --format html -o FILE
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

    /// Refuses a file whose ending is that of a format of `memledger export` alone.
    fn refuse_exported(&self, trace: &Path) -> Result<(), CliError> {
        let is_chosen = self.json || self.format.is_some();
        let path = self.output.as_ref().filter(|_| !is_chosen);
        match path.and_then(|path| Some((path.display(), FORMATS.exported(path)?))) {
            None => Ok(()),
            Some((path, to)) => Err(CliError::Usage(format!(
                "{path} is not the name of a report: memledger export {} --to {to} -o {path} writes such a file",
                trace.display()
            ))),
        }
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
    args.output.refuse_exported(&args.trace)?;
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

    let lack = Lack::of(args.allow_untracked, &args.trace, &report, &summary);
    judge(&args.fail_if, &report, lack, args.allow_incomplete)
}

/// What `--from` and `--to` ask for: two times of one trace, to be compared.
fn changes(args: &ReportArgs, (from, _): &TimeArg) -> Result<DiffArgs, CliError> {
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
            "--at {asked} is after the end of the trace, which is {end} long: this is the report as of its end"
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
        findings: args.fail_if.iter().any(Condition::needs_findings),
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
    (options.findings, options.trace) = (args.findings, is_file.then(|| name_of(&args.trace)));
    options.sort = args.sort.into();
    options.inclusive = args.inclusive;
    (options.bottom_up, options.frames) = (args.bottom_up, frames(args.all_frames));
    options.filter.clone_from(&args.filter);
    options.moment =
        args.at.as_ref().filter(|(_, at)| *at != TimeSpec::End).map(|(text, _)| text.clone());
    options
}
