//! `memledger run`: runs a program that has the tracker, and reports after it, however it ended.

mod child;
mod traces;

use super::completeness::incomplete;
use super::condition::{Condition, judge};
use super::input::{open_watched, unreadable};
use super::output::{unwritable, write_to};
use super::quantity;
use crate::error::{CliError, Outcome};
use crate::symbols::{SymbolArgs, symbolize};
use crate::terminal::note;
use child::{Ended, Program};
use memledger::analysis::Analyzer;
use memledger::dump::{FORMATS, text};
use memledger::trace::read::read;
use std::ffi::OsString;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use traces::Traces;

const EXAMPLES: &str = "\
Examples:
  memledger run -- target/release/server --port 80        a report on stderr after it
  memledger run --stacks -- ./program                     with the functions that allocate
  memledger run --trace run.memledger --report run.json -- ./program
  memledger run --fail-if 'peak_bytes > 64MiB' -- ./program      for CI: exit 3 if it was more
  memledger run --follow-children -- sh -c './a; ./b'     a report of each process

The exit status is the program's own, 128 + N if signal N ended it, 127 if there is no such program and
126 if it cannot be run. If it is 0: 3 if a --fail-if held, and 1 if one could not be checked. The
program has the input, output and errors of this command; what it reads and writes is left alone. If it
is killed, the report has all up to some milliseconds before that.";

/// The variables that the program finds.
const FILE: &str = "MEMLEDGER_FILE";
const REPORT: &str = "MEMLEDGER_REPORT";
const STACKS: &str = "MEMLEDGER_STACKS";
const PARENT: &str = "MEMLEDGER_PARENT";
const FOLLOW_FORKS: &str = "MEMLEDGER_FOLLOW_FORKS";

/// Arguments of `memledger run`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct RunArgs {
    /// Record call stacks: on, off, or a sample of the bytes such as sample:512KiB
    /// [default: MEMLEDGER_STACKS, else off]
    #[arg(long, value_name = "STACKS", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "on", value_parser = stacks)]
    stacks: Option<String>,
    /// Where the report goes: stderr, off, or a file whose ending is its format; %p is the process id
    /// [default: MEMLEDGER_REPORT, else stderr]
    #[arg(long, value_name = "FILE")]
    report: Option<ReportTo>,
    /// Keep the trace in this file; %p is the process id [default: MEMLEDGER_FILE, else a temporary
    /// file]
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Exit with status 3 if this holds and the program succeeded; may be given more than once
    #[arg(long, value_name = "EXPR", value_parser = Condition::of_one_report)]
    fail_if: Vec<Condition>,
    /// Report the programs that the program starts, and its forks, too
    #[arg(long)]
    follow_children: bool,
    #[command(flatten)]
    symbols: SymbolArgs,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    #[arg(value_name = "PROGRAM")]
    command: Vec<OsString>,
}

/// Where a report goes.
#[derive(Clone, Debug)]
enum ReportTo {
    Nowhere,
    Stderr,
    File(PathBuf),
}

impl FromStr for ReportTo {
    type Err = String;

    fn from_str(value: &str) -> Result<Self, String> {
        match value {
            "off" => Ok(Self::Nowhere),
            "stderr" => Ok(Self::Stderr),
            path if FORMATS.by_path(path.as_ref()).is_some() => Ok(Self::File(path.into())),
            _ => Err(format!(
                "a report goes to stderr, off, or a file ending in {}",
                FORMATS.endings()
            )),
        }
    }
}

/// A value of `MEMLEDGER_STACKS`.
fn stacks(value: &str) -> Result<String, String> {
    let is_sample = |bytes: &str| quantity::size(bytes).is_ok_and(|bytes| bytes > 0);
    match value.strip_prefix("sample:") {
        None if matches!(value, "on" | "off") => Ok(value.to_owned()),
        // NOTE: in bytes, which the tracker reads in any version.
        Some(bytes) if is_sample(bytes) => {
            quantity::size(bytes).map(|bytes| format!("sample:{bytes}"))
        }
        _ => Err("stacks are on, off or sample:BYTES, such as sample:512KiB".to_owned()),
    }
}

/// Runs the program, and reports after it.
pub fn run(args: &RunArgs, out: &mut dyn Write) -> Result<Outcome, CliError> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let report_to = match (&args.report, variable(REPORT)) {
        (Some(report), _) => report.clone(),
        (None, Some(value)) => value
            .to_string_lossy()
            .parse()
            .map_err(|why| CliError::Usage(format!("{REPORT} is {value:?}, but {why}")))?,
        (None, None) => ReportTo::Stderr,
    };
    let keep = args.trace.clone().or(variable(FILE).map(PathBuf::from));
    if args.follow_children
        && let ReportTo::File(path) = &report_to
    {
        traces::check_distinct("--report", path)?;
    }
    let traces = Traces::new(keep.as_deref(), args.follow_children)?;

    let set = |name, value: OsString| (name, Some(value));
    let mut environment = vec![set(FILE, traces.pattern().into()), set(REPORT, "off".into())];
    environment.extend(args.stacks.as_ref().map(|stacks| set(STACKS, stacks.into())));
    if args.follow_children {
        environment.extend([set(FOLLOW_FORKS, "1".into()), (PARENT, None)]);
    } else {
        environment.push(set(PARENT, std::process::id().to_string().into()));
    }
    let ended = match child::run(&Program { command: &args.command, environment }) {
        Ok(ended) => ended,
        Err(not_run) => return not_run.outcome(&args.command[0]),
    };
    let result = report_on(args, &report_to, &traces, &ended);
    drop(traces);
    let _ = out.flush();
    if ended.status == 0 {
        return result;
    }
    match result {
        Ok(Outcome::Held(sentence) | Outcome::Incomplete(sentence)) => note(&sentence),
        Ok(_) => {}
        Err(error) => note(&error.to_string()),
    }
    ended.interrupt_like_it();
    Ok(Outcome::Status(ended.status))
}

/// Reports on each process that has left a trace, and checks the conditions on each. The outcome is that
/// of the program, if it had succeeded.
fn report_on(
    args: &RunArgs,
    to: &ReportTo,
    traces: &Traces,
    ended: &Ended,
) -> Result<Outcome, CliError> {
    let found = traces.found(ended.pid);
    let program = args.command[0].to_string_lossy();
    if found.is_empty() {
        let more = match args.follow_children {
            false => "; for programs that it starts there is --follow-children",
            true => ", nor does a program that it has started",
        };
        let sentence = format!("{program} does not use memledger::TrackingAllocator{more}");
        if args.fail_if.is_empty() {
            note(&sentence);
            return Ok(Outcome::Done);
        }
        return Err(CliError::Failed(format!("{sentence}; so no --fail-if can be checked")));
    }
    let mut result = Ok(Outcome::Done);
    for path in found {
        let next = report_one(args, to, traces, &path);
        result = worse(result, next);
    }
    result
}

/// The outcome that decides the exit status: a condition that held, a failure, what is incomplete.
fn worse(
    first: Result<Outcome, CliError>,
    second: Result<Outcome, CliError>,
) -> Result<Outcome, CliError> {
    let rank = |result: &Result<Outcome, CliError>| match result {
        Ok(Outcome::Done | Outcome::Status(_)) => 0,
        Ok(Outcome::Incomplete(_)) => 1,
        Err(_) => 2,
        Ok(Outcome::Held(_)) => 3,
    };
    let (more, less) = if rank(&second) > rank(&first) { (second, first) } else { (first, second) };
    match less {
        Ok(Outcome::Held(sentence) | Outcome::Incomplete(sentence)) => note(&sentence),
        Err(error) => note(&error.to_string()),
        Ok(_) => {}
    }
    more
}

/// Reports on one process.
fn report_one(
    args: &RunArgs,
    to: &ReportTo,
    traces: &Traces,
    path: &Path,
) -> Result<Outcome, CliError> {
    let mut analyzer = Analyzer::new();
    let summary = read(open_watched(path)?, &mut analyzer).map_err(|error| {
        let error = unreadable(path, error).to_string();
        CliError::Failed(traces.sentence(path, &error, None))
    })?;
    let mut report = analyzer.report();
    let incomplete = incomplete(path, &report, &summary);
    let incomplete = incomplete.map(|sentence| traces.sentence(path, &sentence, Some(&report)));
    let mut options = text::Options::default();
    let format = match to {
        ReportTo::File(path) => FORMATS.by_path(path),
        ReportTo::Stderr => Some(FORMATS.default()),
        ReportTo::Nowhere => None,
    };
    if args.fail_if.iter().any(Condition::needs_symbols)
        || format.is_some_and(|format| format.shows_functions(&report, &options))
    {
        symbolize(&mut report, &args.symbols);
    }
    let format = format.unwrap_or(FORMATS.default());
    match to {
        ReportTo::Nowhere => {}
        ReportTo::Stderr => {
            let mut err = BufWriter::new(io::stderr().lock());
            options.color = io::stderr().is_terminal()
                && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
            let width = terminal_size::terminal_size_of(io::stderr());
            options.width = width.map_or(options.width, |(width, _)| width.0.into());
            // A closed stderr does not change how the program ended.
            let _ = format.write(&report, &options, &mut err).and_then(|()| err.flush());
        }
        ReportTo::File(to) => {
            let to = traces::named(to, report.trace.pid.unwrap_or(0));
            write_to(&to, &mut io::sink(), |file| {
                format.write(&report, &options, file).map_err(|error| unwritable(&to, error))
            })?;
        }
    }
    // The program may have ended as it pleases; only a condition needs all of the trace.
    judge(&args.fail_if, &report, incomplete, args.fail_if.is_empty())
}
