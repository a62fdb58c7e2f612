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
  memledger run --stacks -- ./program --its flags   run a program, then report
  memledger report run.utrace                   who holds memory, what is live
  memledger report run.utrace --by thread --sort peak
  memledger report run.utrace --at peak         the report as of the peak
  memledger report run.utrace --fail-if 'peak_bytes > 64MiB'
  memledger report run.utrace --format json | jq .totals
  memledger diff old.memledger new.memledger    what grew and what shrank
  memledger query run.utrace --rule grown --a 1s --b 2s   blocks that stayed
  memledger leaks run.utrace                    blocks still live at the end
  memledger view run.utrace --open              explore the trace in a browser
  memledger info run.utrace                     what the trace contains
  memledger events run.utrace --filter 'Memory.*' --limit 20
  memledger export run.memledger --to utrace -o run.utrace
  memledger top 1985                            watch a running program
  memledger control 1985 send-to 127.0.0.1      control a running program
  zstdcat run.utrace.zst | memledger report -   read standard input
  memledger serve --folder traces               record what programs send
  memledger traces                              list what has been recorded
  memledger fetch ID -o - | memledger report -  report one recorded trace

Exit status:
  0  success
  1  the input is damaged or incomplete, or the command failed; what could be
     read is still printed
  2  the command line is wrong
  3  a --fail-if condition held";

/// Tracks the memory of programs: who holds it, what is still live, what happened when.
#[derive(Parser)]
#[command(name = "memledger", bin_name = "memledger", version, after_help = EXAMPLES, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run any program and report on its memory, however it ends
    Run(run::RunArgs),
    /// Print totals, peaks, who holds memory and what is still live
    Report(report::ReportArgs),
    /// Compare two traces, or two times of one trace
    Diff(diff::DiffArgs),
    /// Find the blocks that were allocated, freed or live between given times
    Query(query::QueryArgs),
    /// Find the blocks that are still live at the end (query --rule leaked)
    #[command(mut_arg("rule", |rule| rule.default_value("leaked")))]
    Leaks(query::QueryArgs),
    /// Explore a trace in a browser on this machine
    View(view::ViewArgs),
    /// Describe a trace: header, event types, threads, channels, packets, gaps
    Info(info::InfoArgs),
    /// Print every event
    Events(events::EventsArgs),
    /// Convert a trace to another format: Unreal Trace, pprof, Perfetto and others
    Export(export::ExportArgs),
    /// Add function names to a trace, so that any machine can show them
    Symbolize(symbolize::SymbolizeArgs),
    /// Record the traces that programs send, and serve them to clients
    Serve(commands::serve::ServeArgs),
    /// List the traces of a store
    Traces(traces::TracesArgs),
    /// Copy a trace from a store; follow it while its program runs
    Fetch(fetch::FetchArgs),
    /// Watch a running program in the terminal
    Top(top::TopArgs),
    /// Control a running program: what it records, and where to
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

/// Whether the reader of the output has closed it.
fn is_closed(error: &io::Error) -> bool {
    /// What Windows says of a named pipe, which some shells have in the place of `|`.
    const PIPE_NOT_CONNECTED: i32 = 233;
    let is_named_pipe = cfg!(windows) && error.raw_os_error() == Some(PIPE_NOT_CONNECTED);
    is_named_pipe || error.kind() == io::ErrorKind::BrokenPipe
}

/// Reports on stderr what went wrong, if anything, and returns the exit status.
fn finish(result: Result<Outcome, CliError>) -> ExitCode {
    let (status, sentence) = match result {
        Ok(Outcome::Done) => return ExitCode::SUCCESS,
        Ok(Outcome::Incomplete(sentence)) => (1, sentence),
        Ok(Outcome::Held(sentence)) => (3, sentence),
        Ok(Outcome::Status(status)) => match u8::try_from(status) {
            Ok(status) => return ExitCode::from(status),
            Err(_) => std::process::exit(status),
        },
        Err(CliError::Output(error)) if is_closed(&error) => return ExitCode::SUCCESS,
        Err(error @ CliError::Usage(_)) => (2, error.to_string()),
        Err(error) => (1, error.to_string()),
    };
    note(&sentence);
    ExitCode::from(status)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Clap wraps the text after the options: a paragraph is one line, and an example fits into a terminal.
    #[test]
    fn the_text_after_the_options_is_wrapped_once() {
        let cli = Cli::command();
        for command in std::iter::once(&cli).chain(cli.get_subcommands()) {
            let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let lines: Vec<_> = text.lines().collect();
            for pair in lines.windows(2) {
                let is_text = |line: &str| !line.is_empty() && !line.starts_with(' ');
                assert!(!is_text(pair[0]) || !is_text(pair[1]), "wrapped by hand: {pair:?}");
            }
            for line in lines.iter().filter(|line| line.starts_with(' ')) {
                assert!(line.len() <= 80, "{} columns: {line}", line.len());
            }
        }
    }
}
