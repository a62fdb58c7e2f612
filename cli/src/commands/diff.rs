//! `memledger diff`: what has changed between two runs, or between two times of one.

use super::choice;
use super::completeness::incomplete;
use super::condition::{Condition, judge_change};
use super::input::{display_name, is_stdin, open_watched, unreadable};
use super::moment::{TimeArg, TimeSpec, positions, time_arg, unanswered};
use super::output::{frames, unwritable, write_to};
use super::report::Sort;
use crate::cache::trace_arg;
use crate::error::{CliError, Outcome};
use crate::symbols::{SymbolArgs, symbolize_both};
use crate::terminal::{look, note};
use memledger_analysis::read::read;
use memledger_analysis::{Analyzer, DiffBy, Position, Report};
use memledger_export::diff::{Diff, DiffOptions};
use memledger_export::{html::Page, text};
use std::ffi::OsStr;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  memledger diff old.memledger new.memledger     what grew and what shrank
  memledger diff old.memledger new.memledger --by stack --sort allocated
  memledger diff run.memledger --at bookmark:warm --at end   two times, one run
  memledger diff old.memledger new.memledger --format markdown
  memledger diff old.memledger new.memledger -o diff.html   a page for a browser
  memledger diff old.memledger new.memledger --fail-if 'peak_bytes grew > 5%'
  memledger diff old.memledger new.memledger \\
      --fail-if 'allocations{function=\"parse::file\"} grew > 0'

Rows are matched by names and functions, never by addresses or lines, so that two builds can be \
compared; with debug = \"line-tables-only\" in both, even two optimization levels.

EXPR is as in memledger report and applies to the new trace. With grew or shrank after the \
number, it compares the change, in units or in % of the old value.";

/// Arguments of `memledger diff`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct DiffArgs {
    /// The old and the new trace, or one trace with two --at; - for standard input
    #[arg(required = true, num_args = 1..=2, value_name = "OLD NEW", value_parser = trace_arg())]
    traces: Vec<PathBuf>,
    /// Compare as of this time; give it twice for the old and the new trace
    #[arg(long, value_name = "TIME", value_parser = time_arg)]
    at: Vec<TimeArg>,
    /// Print one table only, grouped by this; thread ignores numbers in threads' names
    #[arg(long, value_parser = choice(&DiffBy::ALL, DiffBy::name))]
    by: Option<DiffBy>,
    /// Compare this column [default: at-peak, or live for two times of one trace]
    #[arg(long, value_enum)]
    sort: Option<Sort>,
    /// Count the contents of a scope, group or function in its own row
    #[arg(long)]
    inclusive: bool,
    /// Only rows whose name contains this text
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
    /// Limit each table to N rows
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: usize,
    /// Include frames of the standard library and of allocators
    #[arg(long)]
    all_frames: bool,
    /// Exit with status 3 if this holds; repeatable
    #[arg(long, value_name = "EXPR", value_parser = str::parse::<Condition>)]
    fail_if: Vec<Condition>,
    /// Exit with status 0 even if a trace is incomplete
    #[arg(long)]
    allow_incomplete: bool,
    /// Output format [default: from FILE's ending (html, json, md), else text]
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// Line width in columns [default: the terminal's, or 80]
    #[arg(long, value_name = "COLUMNS")]
    width: Option<usize>,
    /// Write to this file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    symbols: SymbolArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// For people
    Text,
    /// For programs; contains its schema's name
    Json,
    /// A table for a pull request
    Markdown,
    /// A page for a browser: the new trace and what changed
    Html,
}

impl DiffArgs {
    /// The format: as asked for, or else by the ending of the file's name.
    fn format(&self) -> Format {
        let ending = self.output.as_deref().and_then(Path::extension);
        let by_path = match ending.and_then(OsStr::to_str) {
            Some("html" | "htm") => Format::Html,
            Some("json") => Format::Json,
            Some("md") => Format::Markdown,
            _ => Format::Text,
        };
        self.format.unwrap_or(by_path)
    }

    /// An analyzer that has what the format needs of the new trace.
    fn analyzer(&self) -> Analyzer {
        match self.format() {
            Format::Html => Analyzer::new().by_bucket(),
            _ => Analyzer::new().largest_live(0),
        }
    }
}

/// Reads both traces and prints what has changed.
pub fn run(args: &DiffArgs, out: &mut dyn Write) -> Result<Outcome, CliError> {
    let ([mut old, mut new], missing) = reports(args)?;
    let is_timed = args.traces.len() == 1;
    let name = |path: &Path, at: Option<&TimeArg>| match at {
        Some((at, _)) if is_timed => at.clone(),
        Some((at, _)) => format!("{} at {at}", display_name(path)),
        None => display_name(path),
    };
    let newer = args.traces.get(1).unwrap_or(&args.traces[0]);
    let mut options = DiffOptions::default();
    options.names =
        [name(&args.traces[0], args.at.first()), name(newer, args.at.get(1).or(args.at.first()))];
    let by = tables(args, &old, &new);
    if by.iter().any(|by| by.is_of_calls())
        || args.format() == Format::Html
        || args.fail_if.iter().any(Condition::needs_symbols)
    {
        symbolize_both([&mut old, &mut new], &args.symbols);
    }
    note_one_sided(&by, &old, &new, &options.names);
    let by: Vec<_> = by.into_iter().filter(|by| !lacks_stacks(*by, &old, &new)).collect();

    options.sort = match (args.sort, is_timed) {
        (Some(sort), _) => sort.into(),
        (None, true) => Sort::Live.into(),
        (None, false) => Sort::AtPeak.into(),
    };
    (options.top, options.inclusive) = (args.top, args.inclusive);
    options.filter.clone_from(&args.filter);
    options.width = args.width.unwrap_or(options.width);
    if args.output.is_none() {
        (options.color, options.width) = look(args.width, options.width, io::stdout());
    }
    let diff = Diff::new(&old, &new, &by, frames(args.all_frames));
    let path = args.output.as_deref().unwrap_or(Path::new("-"));
    write_to(path, out, |out| {
        let written = match args.format() {
            Format::Text => diff.write_text(&options, out),
            Format::Json => diff.write_json(&options, out),
            Format::Markdown => diff.write_markdown(&options, out),
            Format::Html => write_page(args, &diff, &options, &new, out),
        };
        written.map_err(|error| unwritable(path, error))
    })?;
    judge_change(&args.fail_if, &old, &new, missing, args.allow_incomplete)
}

/// Writes a page of the new report, and what has changed.
fn write_page(
    args: &DiffArgs,
    diff: &Diff<'_>,
    options: &DiffOptions,
    new: &Report,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut shown = text::Options::default();
    let at = args.at.get(1).or(args.at.first()).filter(|(_, at)| *at != TimeSpec::End);
    shown.moment = at.map(|(text, _)| text.clone());
    Page::new(new, &shown).with_diff(diff, options).write_html(out)
}

/// The old and the new report, and what is missing from them.
fn reports(args: &DiffArgs) -> Result<([Report; 2], Option<String>), CliError> {
    let (reports, missing) = match (&*args.traces, &*args.at) {
        ([trace], [_, _]) => analyzed(args, trace, &positions(trace, &args.at)?)?,
        ([_], _) => {
            return Err(CliError::Usage(
                "nothing to compare the trace with; give a second one, or two times: --at TIME --at TIME"
                    .to_owned(),
            ));
        }
        (_, [_, _, _, ..]) => {
            return Err(CliError::Usage("--at can be given at most twice".to_owned()));
        }
        ([old, new, ..], at) => {
            if is_stdin(old) && is_stdin(new) {
                return Err(CliError::Usage(
                    "only one of the traces can be standard input".to_owned(),
                ));
            }
            let mut both = (Vec::new(), Vec::new());
            for (trace, at) in [(old, at.first()), (new, at.get(1).or(at.first()))] {
                let positions = match at {
                    Some(at) => positions(trace, std::slice::from_ref(at))?,
                    None => vec![Position::End],
                };
                let (reports, missing) = analyzed(args, trace, &positions)?;
                both.0.extend(reports);
                both.1.extend(missing);
            }
            both
        }
        ([], _) => (Vec::new(), Vec::new()),
    };
    let reports = <[Report; 2]>::try_from(reports)
        .map_err(|_| CliError::Usage("two reports are compared".to_owned()))?;
    Ok((reports, (!missing.is_empty()).then(|| missing.join("; "))))
}

/// The reports of a trace at these positions, and what is missing from it.
fn analyzed(
    args: &DiffArgs,
    trace: &Path,
    positions: &[Position],
) -> Result<(Vec<Report>, Vec<String>), CliError> {
    let mut analyzer = args.analyzer().reports_at(positions);
    let summary =
        read(open_watched(trace)?, &mut analyzer).map_err(|error| unreadable(trace, error))?;
    analyzer.problems().iter().for_each(|problem| note(problem));
    analyzer.reached().map_err(|why| unanswered(why, &[]))?;
    let reports = analyzer.reports();
    let missing = reports.last().and_then(|report| incomplete(trace, report, &summary));
    Ok((reports, missing.into_iter().collect()))
}

/// The tables that are asked for, or those that say most.
fn tables(args: &DiffArgs, old: &Report, new: &Report) -> Vec<DiffBy> {
    if let Some(by) = args.by {
        return vec![by];
    }
    let any = |has: fn(&Report) -> bool| has(old) || has(new);
    let mut tables = Vec::new();
    if any(|report| report.by_scope.len() > 1) {
        tables.push(DiffBy::Scope);
    }
    if any(|report| report.by_name.len() > 1) {
        tables.push(DiffBy::Name);
    }
    if any(|report| !report.by_stack.is_empty()) {
        tables.push(DiffBy::Function);
    }
    if tables.is_empty() {
        tables.push(DiffBy::Thread);
    }
    tables
}

/// Whether a table is of call stacks, which one of the traces does not have: then all would be new or gone.
fn lacks_stacks(by: DiffBy, old: &Report, new: &Report) -> bool {
    by.is_of_calls() && (old.by_stack.is_empty() || new.by_stack.is_empty())
}

/// Says which of the traces lacks what the other has.
fn note_one_sided(by: &[DiffBy], old: &Report, new: &Report, names: &[String; 2]) {
    if by.iter().any(|by| lacks_stacks(*by, old, new)) {
        let lacking = match (old.by_stack.is_empty(), new.by_stack.is_empty()) {
            (true, true) => "neither trace has".to_owned(),
            (true, _) => format!("{} does not have", names[0]),
            _ => format!("{} does not have", names[1]),
        };
        note(&format!(
            "{lacking} call stacks, so functions are not compared; MEMLEDGER_STACKS=on records them"
        ));
    }
    let has_scopes = [old, new].map(|report| report.by_scope.len() > 1);
    if by.contains(&DiffBy::Scope) && has_scopes[0] != has_scopes[1] {
        let lacking = &names[usize::from(has_scopes[0])];
        note(&format!("{lacking} has no scopes, so those of the other are all new or gone"));
    }
    if old.stack_sampling_bytes != new.stack_sampling_bytes
        && !old.by_stack.is_empty()
        && !new.by_stack.is_empty()
        && by.iter().any(|by| by.is_of_calls())
    {
        note(
            "the call stacks of the two traces are sampled differently, which adds noise to the differences",
        );
    }
}
