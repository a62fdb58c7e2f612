//! The `memledger` command: reads traces of memledger and of Unreal Engine.
#![forbid(unsafe_code)]

use clap::{CommandFactory, Parser, Subcommand};
use memledger_cli::commands::{
    self, control, diff, events, export, fetch, info, query, report, run, symbolize, top, traces,
    view,
};
use memledger_cli::error::{CliError, Outcome, usage_sentence};
use memledger_cli::terminal::note;
use std::io::{self, Write};
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  memledger report run.utrace                      who holds what, and what is still live
  memledger report run.utrace --by thread --sort peak
  memledger report run.utrace --at peak            the report as it stood at the peak
  memledger report run.utrace --fail-if 'peak_bytes > 64MiB' --fail-if 'live_blocks > 0'
  memledger report run.utrace --fail-if 'live_blocks{scope=\"request\"} > 0'
  memledger report run.utrace --format json | jq .totals
  memledger diff old.memledger new.memledger       what has grown and shrunk
  memledger query run.utrace --rule grown --a 1s --b 2s   what came in that second and stayed
  memledger leaks run.utrace                       what is still live at the end
  memledger view run.utrace --open                 the trace in a browser
  memledger info run.utrace                        what the trace consists of
  memledger events run.utrace --filter 'Memory.*' --limit 20
  memledger export run.memledger --to utrace -o run.utrace
  memledger run --stacks -- ./program --its flags   run it, and report after it
  memledger top 1985                               a program that runs, live in the terminal
  memledger control 1985 send-to 127.0.0.1         steer a program that runs
  zstdcat run.utrace.zst | memledger report -      from standard input
  memledger serve --folder traces                   record what programs send
  memledger traces                                 what has been recorded
  memledger fetch ID -o - | memledger report -     the report of one of them

Exit status:
  0  done
  1  the input is damaged or not whole, or the command failed; what could be read is still printed
  2  the command line is wrong
  3  a --fail-if held";

/// Reads memory traces: who holds what, what is still live, what happened when.
#[derive(Parser)]
#[command(name = "memledger", version, after_help = EXAMPLES, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Totals, peaks, who holds what, what is still live
    Report(report::ReportArgs),
    /// What has changed between two runs, or between two times of one
    Diff(diff::DiffArgs),
    /// Which blocks were allocated, freed or live between moments of the trace
    Query(query::QueryArgs),
    /// Which blocks are still live at the end: the rule leaked of query
    #[command(mut_arg("rule", |rule| rule.default_value("leaked")))]
    Leaks(query::QueryArgs),
    /// The trace in a browser on this machine
    View(view::ViewArgs),
    /// What a trace consists of: header, event types, threads, channels, packets, holes
    Info(info::InfoArgs),
    /// Every event, decoded from the stream alone
    Events(events::EventsArgs),
    /// The same trace in another format: of Unreal, of pprof and other tools, or the compact one
    Export(export::ExportArgs),
    /// The same trace with the functions of its call stacks, to be read on any machine
    Symbolize(symbolize::SymbolizeArgs),
    /// Record the traces that programs send, and serve them to readers
    Serve(commands::serve::ServeArgs),
    /// List the traces of a store
    Traces(traces::TracesArgs),
    /// Get a trace from a store; of a program that still runs, until it ends
    Fetch(fetch::FetchArgs),
    /// Run any program, and report after it, however it ends
    Run(run::RunArgs),
    /// Watch a running program, or a trace that grows, live in a terminal
    Top(top::TopArgs),
    /// Steer a running program: what it records and where that goes
    Control(control::ControlArgs),
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return not_a_command(&error),
    };
    let mut out = io::BufWriter::new(io::stdout().lock());
    let result = match &cli.command {
        Command::Report(args) => report::run(args, &mut out),
        Command::Diff(args) => diff::run(args, &mut out),
        Command::Query(args) | Command::Leaks(args) => query::run(args, &mut out),
        Command::View(args) => view::run(args, &mut out),
        Command::Info(args) => info::run(args, &mut out),
        Command::Events(args) => events::run(args, &mut out),
        Command::Export(args) => export::run(args, &mut out),
        Command::Symbolize(args) => symbolize::run(args, &mut out),
        Command::Serve(args) => commands::serve::run(args, &mut out),
        Command::Traces(args) => traces::run(args, &mut out),
        Command::Fetch(args) => fetch::run(args, &mut out),
        Command::Run(args) => run::run(args, &mut out),
        Command::Top(args) => top::run(args, &mut out),
        Command::Control(args) => control::run(args, &mut out),
    };
    let flushed = out.flush().map_err(CliError::output);
    finish(result.and_then(|outcome| flushed.map(|()| outcome)))
}

/// Prints the help or the version, or says in one sentence what is wrong with the command line.
fn not_a_command(error: &clap::Error) -> ExitCode {
    use clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
    if !error.use_stderr() || error.kind() == DisplayHelpOnMissingArgumentOrSubcommand {
        let _ = error.print();
        return ExitCode::from(if error.use_stderr() { 2 } else { 0 });
    }
    // The innermost command whose arguments these are.
    let mut command = Cli::command();
    for arg in std::env::args_os().skip(1) {
        if let Some(inner) = command.find_subcommand(&arg) {
            command = inner.clone();
        }
    }
    note(&format!("{} (--help has more)", usage_sentence(error, &command)));
    ExitCode::from(2)
}

/// Reports on stderr what went wrong, if anything, and returns the exit status.
fn finish(result: Result<Outcome, CliError>) -> ExitCode {
    let (status, sentence) = match result {
        Ok(Outcome::Done) => return ExitCode::SUCCESS,
        Ok(Outcome::Incomplete(sentence)) => (1, sentence),
        Ok(Outcome::Held(sentence)) => (3, sentence),
        Ok(Outcome::Status(status)) => return ExitCode::from(status),
        // The reader of the output has closed it.
        Err(CliError::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            return ExitCode::SUCCESS;
        }
        Err(error @ CliError::Usage(_)) => (2, error.to_string()),
        Err(error) => (1, error.to_string()),
    };
    note(&sentence);
    ExitCode::from(status)
}
