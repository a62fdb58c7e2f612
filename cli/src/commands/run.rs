//! `memledger run`: runs a program and reports after it, however it ended. A program without the tracker
//! gets a library that tracks its `malloc`.

mod child;
mod embedded;
mod live;
mod outputs;
mod preload;
#[cfg(target_os = "linux")]
mod problems;
mod processes;
mod traces;
mod viewed;

use super::completeness::Lack;
use super::condition::{Condition, judge};
use super::needs::Needs;
use super::output::{unwritable, write_to};
use crate::cache::{self, Cache, RunFolder};
use crate::error::{CliError, Outcome};
use crate::quantity;
use crate::symbols::{SymbolArgs, Symbols};
use crate::terminal::{look, note};
use child::{Program, ProgramEnd};
use clap::builder::{PathBufValueParser, TypedValueParser};
use live::{Control, LiveScreen, TerminalStandIn, WatchedProgram};
use memledger_analysis::read::{Ending, ending};
use memledger_analysis::{Position, Report};
use memledger_export::tools::FORMATS;
use memledger_export::{ReportFormat, text};
use preload::Tracking;
use processes::Process;
use std::cmp::Reverse;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use traces::{Trace, Traces};
use viewed::ProgramPage;

const EXAMPLES: &str = "\
Examples:
  memledger run -- target/release/server --port 80   report on stderr at the end
  memledger run --stacks -- ./program              with functions that allocate
  memledger run --findings -- ./program            what to look at first
  memledger run --html run.html -- ./program       also a page for a browser
  memledger run --trace run.memledger --report run.json -- ./program
  memledger run --fail-if 'peak_bytes > 64MiB' -- ./program   exit status 3
  memledger run --top -- ./server                  watch it in this terminal
  memledger run --view -- ./server                 watch it in a browser
  memledger run --follow-children -- sh -c './a; ./b'   report each process
  memledger run --stacks -- python3 script.py      any program: its malloc calls

The program keeps its standard input, output and errors. If it is killed, the report covers \
everything up to the kill: a watcher completes the trace (MEMLEDGER_WATCH=0 turns it off).

The exit status is the program's; 128 + N if signal N ended it, 127 if there is no such program, \
126 if it cannot be run, 125 if it cannot be tracked and was not started. Instead of 0, it is 3 \
if a --fail-if condition held, and 1 if one could not be checked.";

/// The variables that the program finds.
const FILE: &str = "MEMLEDGER_TRACE";
const REPORT: &str = "MEMLEDGER_REPORT";
const STACKS: &str = "MEMLEDGER_STACKS";
const PARENT: &str = "MEMLEDGER_PARENT";
const FOLLOW_FORKS: &str = "MEMLEDGER_FOLLOW_FORKS";
const REPORT_ON_SIGNALS: &str = "MEMLEDGER_REPORT_ON_SIGNALS";
const WATCH: &str = "MEMLEDGER_WATCH";
/// The names of the variables that `memledger run` has set, for a `memledger run` that its program starts.
const SET_BY_RUN: &str = "MEMLEDGER_RUN";
/// Those that it may set.
const MAY_BE_SET: [&str; 9] = [
    FILE,
    REPORT,
    STACKS,
    PARENT,
    FOLLOW_FORKS,
    REPORT_ON_SIGNALS,
    WATCH,
    live::CONTROL,
    live::TOKEN_FILE,
];
/// The loader's, with which it asks for thread-local memory when that is used first.
const AUDIT: &str = "LD_AUDIT";
/// The exit status for a program that was not started, because it cannot be tracked: that of `env` and
/// `timeout`.
const NOT_STARTED: i32 = 125;
/// With these, a program has threads before it could have a watcher.
const UNWATCHED: [&str; 2] = ["MEMLEDGER_HOST", "MEMLEDGER_PERFETTO"];

/// Arguments of `memledger run`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct RunArgs {
    /// Record call stacks: on, off, or a sample such as sample:512KiB (one per 512 KiB allocated)
    /// [default: MEMLEDGER_STACKS, else off]
    #[arg(long, value_name = "STACKS", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "on", value_parser = stacks)]
    stacks: Option<String>,
    /// Write the report to stderr, off, or a file whose ending selects the format; %p is the process id
    /// [default: MEMLEDGER_REPORT, else stderr]
    #[arg(short = 'o', long, visible_alias = "output", value_name = "FILE", value_parser = PathBufValueParser::new().try_map(ReportTo::parse))]
    report: Option<ReportTo>,
    /// Also write a page for a browser to this file; %p is the process id
    #[arg(long, value_name = "FILE", value_parser = PathBufValueParser::new().try_map(page))]
    html: Option<PathBuf>,
    /// Print findings, each with numbers and a suggestion, instead of tables
    #[arg(long)]
    findings: bool,
    /// Keep the trace in this file; %p is the process id [default: MEMLEDGER_TRACE, else see --keep]
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Keep the trace for other commands, where its name is last
    /// [default: if the report goes to a terminal]
    #[arg(long, overrides_with = "no_keep")]
    keep: bool,
    /// Do not keep the trace, unless --trace says where
    #[arg(long)]
    no_keep: bool,
    /// Exit with status 3 if this holds and the program succeeded; repeatable
    #[arg(long, value_name = "EXPR", value_parser = Condition::of_one_report)]
    fail_if: Vec<Condition>,
    /// Check --fail-if even if some memory was not tracked or scopes were not recorded
    #[arg(long)]
    allow_untracked: bool,
    /// Also report the program's children: those it starts and its forks
    #[arg(long)]
    follow_children: bool,
    /// Watch the program in this terminal, like memledger top; its own output appears when the screen closes
    #[arg(long)]
    top: bool,
    /// Watch the program in a browser, like memledger view, until Ctrl-C after its end
    #[arg(long, conflicts_with = "top")]
    view: bool,
    /// Load this library into programs without the tracker; off leaves them untracked
    /// [default: libmemledger_preload.so beside this command or in ../lib, else the one in this command]
    #[arg(long, value_name = "FILE")]
    preload: Option<PathBuf>,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM")]
    command: Vec<OsString>,
    // NOTE: its heading is that of all arguments after it.
    #[command(flatten)]
    symbols: SymbolArgs,
}

/// Where a report goes.
#[derive(Clone, Debug)]
enum ReportTo {
    Nowhere,
    Stderr,
    File(PathBuf),
}

impl ReportTo {
    fn parse(value: PathBuf) -> Result<Self, String> {
        match value.to_str() {
            Some("off") => Ok(Self::Nowhere),
            Some("stderr") => Ok(Self::Stderr),
            _ if FORMATS.by_path(&value).is_some() => Ok(Self::File(value)),
            _ => {
                let why = FORMATS.why_none(&value);
                Err(format!("a report goes to stderr, off or a file; {why}"))
            }
        }
    }
}

fn page(value: PathBuf) -> Result<PathBuf, String> {
    match FORMATS.by_path(&value) {
        Some(format) if format.name() == "html" => Ok(value),
        _ => Err("the file name of a page must end in .html or .htm".to_owned()),
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
        _ => Err("STACKS is on, off or sample:BYTES, such as sample:512KiB".to_owned()),
    }
}

/// The value of a variable that the user has set.
fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty() && !is_of_outer(name))
}

/// Whether a `memledger run` that has started this one has set the variable: for its program, not for that
/// of this one.
fn is_of_outer(name: &str) -> bool {
    std::env::var(SET_BY_RUN).is_ok_and(|names| names.split(',').any(|set| set == name))
}

/// Runs the program, and reports after it.
pub fn run(args: &RunArgs, out: &mut dyn Write) -> Result<Outcome, CliError> {
    let report_to = report_to(args)?;
    let keep = args.trace.clone().or(variable(FILE).map(PathBuf::from));
    let prepared = match prepare(args, &report_to, keep.as_deref()) {
        // The command line is right, but what it asks for is not possible.
        Err(CliError::Failed(sentence)) => {
            note(&sentence);
            return Ok(Outcome::Status(NOT_STARTED));
        }
        prepared => prepared?,
    };
    let Prepared { tracking, traces, aside, control } = prepared;
    let environment = environment(args, &traces, &tracking, control.as_ref());
    let streams = aside.iter().flat_map(TerminalStandIn::streams).collect();
    let (mut live, mut viewed) = (None, None);
    let started = |pid| {
        live = aside.as_ref().zip(control).map(|(aside, control)| {
            let name = args.command[0].to_string_lossy().into_owned();
            let symbols = args.symbols.folders.clone();
            let shown = WatchedProgram { pid, name, traces: Arc::clone(&traces), symbols };
            LiveScreen::open(shown, control, aside)
        });
        viewed = args.view.then(|| {
            let traces = Arc::clone(&traces);
            let find = move || traces.found(pid).into_iter().next();
            ProgramPage::open(find, args.symbols.clone(), keep.is_some())
        });
    };
    let mut ended =
        match child::run(&Program { command: &args.command, environment, streams }, started) {
            Ok(ended) => ended,
            Err(not_run) => return not_run.outcome(&args.command[0]),
        };
    #[cfg(debug_assertions)]
    delay();
    if let Some(live) = opened(live) {
        live.close(ended.status);
    }
    if is_watched() {
        traces.wait_for_watchers(ended.pid);
    }
    ended.show_problems();
    let result = report_on(args, &report_to, &traces, &ended, &tracking);
    if let Some(viewed) = opened(viewed) {
        viewed.close(!traces.found(ended.pid).is_empty());
    }
    let kept = traces.end(ended.pid);
    drop((traces, aside));
    if let Some(trace) = kept {
        trim(&trace);
    }
    let _ = out.flush();
    if ended.status == 0 {
        return result;
    }
    say(result);
    ended.interrupt_like_it();
    Ok(Outcome::Status(ended.status))
}

/// Sleeps for up to 200 ms if tests ask for that, as the tracker does (`src/platform/delays.rs`).
#[cfg(debug_assertions)]
fn delay() {
    let seed = std::env::var("TEST_DELAYS").ok().and_then(|seed| seed.parse::<u64>().ok());
    let mixed =
        seed.map(|seed| (seed ^ u64::from(std::process::id())).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    std::thread::sleep(std::time::Duration::from_millis(
        mixed.map_or(0, |mixed| (mixed >> 32) % 201),
    ));
}

/// Where the run is kept, if it is to be.
fn run_folder(args: &RunArgs, to: &ReportTo) -> Option<RunFolder> {
    let is_seen = matches!(to, ReportTo::Stderr) && io::stderr().is_terminal();
    if args.no_keep || !(args.keep || is_seen) {
        return None;
    }
    let cache = Cache::from_environment().ok_or_else(|| format!("{} is off", cache::VARIABLE));
    let folder = cache.and_then(|cache| RunFolder::new(&cache, Path::new(&args.command[0])));
    let failed = |why| note(&format!("the trace is not kept: {why}"));
    folder
        .map_err(|why| {
            if args.keep {
                failed(why)
            }
        })
        .ok()
}

/// Removes what was kept before this trace, as far as there is too much.
fn trim(trace: &Path) {
    if let Some(cache) = Cache::from_environment() {
        cache.trim();
    }
    if fs::symlink_metadata(trace).is_err() {
        note(&format!("the trace is not kept: it is larger than {} allows", cache::VARIABLE));
    }
}

/// What is there before the program starts.
struct Prepared {
    tracking: Tracking,
    traces: Arc<Traces>,
    aside: Option<TerminalStandIn>,
    control: Option<Control>,
}

fn prepare(args: &RunArgs, to: &ReportTo, keep: Option<&Path>) -> Result<Prepared, CliError> {
    let tracking = preload::tracking(&args.command, args.preload.as_deref());
    let tracking = tracking.map_err(CliError::Failed)?;
    let report = match to {
        ReportTo::File(path) => Some(&**path),
        ReportTo::Stderr | ReportTo::Nowhere => None,
    };
    outputs::check(&args.command, &outputs::of(keep, report, args.html.as_deref()))?;
    outputs::choose_temporary_folder()?;
    let traces = Arc::new(Traces::new(keep, args.follow_children, run_folder(args, to))?);
    let aside = args.top.then(TerminalStandIn::new).transpose()?;
    let control = args.top.then(Control::new).transpose()?;
    Ok(Prepared { tracking, traces, aside, control })
}

/// Where the report goes: as the arguments say, or else as the variable does.
fn report_to(args: &RunArgs) -> Result<ReportTo, CliError> {
    let to = match (&args.report, variable(REPORT)) {
        (Some(report), _) => report.clone(),
        (None, Some(value)) => ReportTo::parse(value.clone().into())
            .map_err(|why| CliError::Usage(format!("{REPORT} is {value:?}, but {why}")))?,
        (None, None) => ReportTo::Stderr,
    };
    if args.follow_children {
        if let ReportTo::File(path) = &to {
            traces::check_distinct("--report", path)?;
        }
        if let Some(path) = &args.html {
            traces::check_distinct("--html", path)?;
        }
    }
    Ok(to)
}

/// Whether the program gets a watcher, which completes the trace if nothing in the program can do so any
/// more.
fn is_watched() -> bool {
    cfg!(target_os = "linux")
        && variable(WATCH).is_none_or(|value| value != "0")
        && UNWATCHED.into_iter().all(|name| variable(name).is_none())
}

/// How the environment of the program differs from that of this command.
fn environment(
    args: &RunArgs,
    traces: &Traces,
    tracking: &Tracking,
    control: Option<&Control>,
) -> Vec<(&'static str, Option<OsString>)> {
    let set = |name, value: OsString| (name, Some(value));
    let of_outer = MAY_BE_SET.into_iter().filter(|name| is_of_outer(name));
    let mut environment: Vec<_> = of_outer.map(|name| (name, None)).collect();
    environment.extend([set(FILE, traces.pattern().into()), set(REPORT, "off".into())]);
    environment.extend(args.stacks.as_ref().map(|stacks| set(STACKS, stacks.into())));
    // So that the trace has its end, too.
    if variable(REPORT_ON_SIGNALS).is_none() {
        environment.push(set(REPORT_ON_SIGNALS, "1".into()));
    }
    if let Tracking::Preloaded(libraries) = tracking {
        environment.push(set(preload::VARIABLE, libraries.clone()));
    }
    environment.extend((is_watched() && variable(WATCH).is_none()).then(|| set(WATCH, "1".into())));
    environment.extend(control.into_iter().flat_map(Control::environment));
    if args.follow_children {
        environment.extend([set(FOLLOW_FORKS, "1".into()), (PARENT, None)]);
    } else {
        environment.push(set(PARENT, std::process::id().to_string().into()));
    }
    let names = environment.iter().filter_map(|(name, value)| value.as_ref().and(Some(*name)));
    let names: Vec<_> = names.filter(|name| MAY_BE_SET.contains(name)).collect();
    environment.push(set(SET_BY_RUN, names.join(",").into()));
    environment
}

/// What shows the program while it runs; why it could not be opened is said after the program.
fn opened<T>(companion: Option<Result<T, CliError>>) -> Option<T> {
    companion?.map_err(|error| note(&error.to_string())).ok()
}

/// Reports on each process that has left a trace, and checks the conditions on each. The outcome is that
/// of the program, if it had succeeded.
fn report_on(
    args: &RunArgs,
    to: &ReportTo,
    traces: &Traces,
    ended: &ProgramEnd,
    tracking: &Tracking,
) -> Result<Outcome, CliError> {
    let found = traces.programs(ended.pid);
    let program = args.command[0].to_string_lossy();
    if found.is_empty() {
        let more = match args.follow_children {
            false => "; --follow-children also records the programs that it starts",
            true => ", nor does a program that it has started",
        };
        let sentence = match tracking {
            Tracking::Own => format!(
                "{program} has left no trace, though it has memledger::TrackingAllocator: it does not use the \
                 environment, or its trace was deleted or renamed{more}"
            ),
            Tracking::Unknown => {
                format!("{program} does not use memledger::TrackingAllocator{more}")
            }
            Tracking::Preloaded(_) if std::env::var_os(AUDIT).is_some() => format!(
                "{program} has left no trace: memory cannot be tracked while {AUDIT} is set{more}"
            ),
            Tracking::Preloaded(_) => format!(
                "{program} has left no trace: it has its own malloc, it ended before it allocated, or \
                 its trace was deleted or renamed{more}"
            ),
        };
        let sentence = match &ended.signal {
            Some(signal) => format!("{signal} has ended {program}; {sentence}"),
            None => sentence,
        };
        if args.fail_if.is_empty() {
            note(&sentence);
            return Ok(Outcome::Done);
        }
        return Err(CliError::Failed(format!("{sentence}; so no --fail-if can be checked")));
    }
    let is_unused =
        matches!(to, ReportTo::Nowhere) && args.html.is_none() && args.fail_if.is_empty();
    // PERF: to read all of a trace can take a third of the program's time.
    if is_unused && found.iter().all(is_whole) {
        return Ok(Outcome::Done);
    }
    let (mut result, mut shown) = (Ok(Outcome::Done), Vec::new());
    // Most processes of a run have files in common, such as libc.
    let mut symbols = Symbols::new(&args.symbols);
    for trace in &found {
        let of = (trace, &*found, ended.pid);
        let next = report_one(args, to, traces, of, &mut symbols, &mut shown);
        result = worse(result, next);
    }
    // A closed stderr does not change how the program ended.
    let _ = show(shown, matches!(to, ReportTo::Stderr));
    result
}

/// Writes the report on the process that held most first, what was replaced last, and then the processes.
fn show(mut shown: Vec<Shown>, is_asked: bool) -> io::Result<()> {
    let processes: Vec<_> = shown.iter().map(|of| of.process.clone()).collect();
    shown.sort_by_key(|of| Reverse((of.is_last, of.peak_bytes)));
    let mut err = BufWriter::new(io::stderr().lock());
    shown.iter().try_for_each(|of| err.write_all(&of.text))?;
    if processes.len() > 1 && is_asked {
        processes::write(&processes, &mut err)?;
    }
    err.flush()
}

/// What is shown of one program.
struct Shown {
    process: Process,
    text: Vec<u8>,
    /// Whether it is the last program of its process.
    is_last: bool,
    peak_bytes: u64,
}

impl Shown {
    /// The whole report if that is asked for, or could not be written where it should.
    fn of(
        report: &Report,
        options: &text::Options,
        is_last: bool,
        is_asked: bool,
        is_unwritten: bool,
    ) -> Self {
        let (mut text, end) = (Vec::new(), "replaced by the next program (exec)");
        // NOTE: a `Vec` takes all.
        let _ = match is_asked || is_unwritten {
            true if is_last || is_unwritten => FORMATS.default().write(report, options, &mut text),
            true => text::write_line(report, options, end, &mut text),
            false => Ok(()),
        };
        let (process, peak_bytes) = (Process::of(report), report.totals.peak_bytes);
        Self { process, text, is_last, peak_bytes }
    }
}

/// Whether a trace has its end, which says that no event was lost.
fn is_whole(trace: &Trace) -> bool {
    let ending = File::open(&trace.path).and_then(|file| ending(&file));
    matches!(ending, Ok(Some(Ending { is_there: true, lost_events: 0, .. })))
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
    say(less);
    more
}

/// Says an outcome that does not decide the exit status.
fn say(result: Result<Outcome, CliError>) {
    match result {
        Ok(Outcome::Held(sentence) | Outcome::Incomplete(sentence)) => note(&sentence),
        Err(error) => note(&error.to_string()),
        Ok(_) => {}
    }
}

/// Reports on one program. What goes to stderr is added to `shown`: of one that was replaced, a line.
fn report_one(
    args: &RunArgs,
    to: &ReportTo,
    traces: &Traces,
    (trace, all, pid): (&Trace, &[Trace], u32),
    symbols: &mut Symbols<'_>,
    shown: &mut Vec<Shown>,
) -> Result<Outcome, CliError> {
    let path = &*trace.path;
    let format = match to {
        ReportTo::File(path) => FORMATS.by_path(path),
        ReportTo::Stderr if trace.number > 0 => None,
        ReportTo::Stderr => Some(FORMATS.default()),
        ReportTo::Nowhere => None,
    };
    let page = args.html.as_ref().and_then(|path| FORMATS.by_path(path));
    let formats: Vec<_> = format.into_iter().chain(page).collect();
    let mut options = text::Options::default();
    (options.findings, options.trace) = (args.findings, traces.kept(path, pid));
    let needs = Needs {
        formats: &formats,
        options: &options,
        until: Position::End,
        scope: None,
        largest_live: 100,
        functions: args.fail_if.iter().any(Condition::needs_symbols),
        findings: args.fail_if.iter().any(Condition::needs_findings),
    };
    let (mut report, summary, _) = needs
        .read(path, |report| symbols.find(report))
        .map_err(|error| CliError::Failed(traces.sentence(path, &format!("{error:#}"), None)))?;
    report.judge_children(|pid| !args.follow_children || traces.has_left(all, pid));
    let mut lack = Lack::of(args.allow_untracked, path, &report, &summary);
    lack.sentence = lack.sentence.map(|sentence| traces.sentence(path, &sentence, Some(&report)));
    let mut written = Ok(());
    if let (Some(path), Some(page)) = (&args.html, page) {
        written = write_report(page, &report, path, trace.number);
    }
    // Unless they were asked for, the findings are those of the page only.
    if !args.findings && format.is_some_and(|format| !format.shows_findings(&options)) {
        report.findings = None;
    }
    if let (ReportTo::File(to), Some(format)) = (to, format) {
        written = written.and(write_report(format, &report, to, trace.number));
    }
    (options.color, options.width) = look(None, options.width, io::stderr());
    let is_asked = matches!(to, ReportTo::Stderr);
    shown.push(Shown::of(&report, &options, trace.number == 0, is_asked, written.is_err()));
    let written = written.map(|()| Outcome::Done).map_err(|error| {
        CliError::Failed(format!("{error}; the trace is kept: {}", traces.keep(path).display()))
    });
    // The program may have ended as it pleases; only a condition needs all of the trace.
    worse(written, judge(&args.fail_if, &report, lack, args.fail_if.is_empty()))
}

/// Writes the report to a file, in whose name %p is the process id. It is numbered as the trace is.
fn write_report(
    format: &dyn ReportFormat,
    report: &Report,
    to: &Path,
    number: u32,
) -> Result<(), CliError> {
    let to = traces::numbered(to, report.trace.pid.unwrap_or(0), number);
    write_to(&to, &mut io::sink(), |file| {
        let options = text::Options::default();
        format.write(report, &options, file).map_err(|error| unwritable(&to, error))
    })
}
