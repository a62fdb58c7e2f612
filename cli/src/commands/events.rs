//! `memledger events`: every event, decoded from the stream alone.

mod bookmarks;
mod field;
mod json;
mod printer;
mod stacks;
mod text;

use super::Format;
use super::completeness::damaged;
use super::input::{open, unreadable};
use crate::cache::trace_arg;
use crate::error::{CliError, Outcome};
use crate::symbols::SymbolArgs;
use crate::terminal::note;
use memledger_analysis::read::{Reader, Visitor};
use printer::{NAMED_DAMAGES, Printer};
use stacks::Stacks;
use std::io::Write;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  memledger events run.utrace --limit 100
  memledger events run.memledger --filter '*Alloc*' --stacks
  memledger events run.utrace --filter 'Memory.*Alloc*' --thread 2
  memledger events run.utrace --format json | jq '.events[].name'

A line has the event's serial number (- if it has none), its thread (- if it has none, like the \
tracker's own events), its name and its fields. Addresses are hexadecimal. A bookmark shows its \
text instead of its arguments. A { marks an event that opens a scope.";

/// Arguments of `memledger events`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct EventsArgs {
    /// The trace; last for that of the last run, - for standard input
    #[arg(value_parser = trace_arg())]
    trace: PathBuf,
    /// Only events whose name matches, with * and ?; repeatable
    #[arg(long, value_name = "GLOB")]
    filter: Vec<String>,
    /// Only events of this thread
    #[arg(long, value_name = "ID")]
    thread: Option<u32>,
    /// Stop after N events
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Print the functions of call stacks, innermost first; reads the trace twice
    #[arg(long)]
    stacks: bool,
    /// With --stacks: include frames of the standard library and of allocators
    #[arg(long, requires = "stacks")]
    all_frames: bool,
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
    #[command(flatten)]
    symbols: SymbolArgs,
}

/// Runs the command.
pub fn run(args: &EventsArgs, out: &mut dyn Write) -> Result<Outcome, CliError> {
    let stacks = args.stacks.then(|| Stacks::read(args)).transpose()?;
    let mut reader = Reader::open(open(&args.trace)?).map_err(|e| unreadable(&args.trace, e))?;
    let mut printer = Printer::new(args, stacks, out);
    let json = args.format == Format::Json;
    if json {
        printer.write(|out| out.write_all(br#"{"schema":"memledger.events/1","events":["#));
    }
    while !printer.is_done() && reader.packet(&mut printer) {}
    let missing = if printer.is_done() {
        None
    } else {
        let summary = reader.finish(&mut printer);
        damaged(&args.trace, &summary)
    };
    if json {
        let damaged = missing.is_some();
        printer.write(|out| writeln!(out, "\n],\"damaged\":{damaged}}}"));
    }
    printer.note_unmatched();
    if printer.damages > NAMED_DAMAGES {
        note(&format!("{} more places are damaged", printer.damages - NAMED_DAMAGES));
    }
    match printer.failed {
        Some(error) => Err(CliError::output(error)),
        None => Ok(missing.map_or(Outcome::Done, Outcome::Incomplete)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use std::io;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: EventsArgs,
    }

    fn sample(name: &str) -> String {
        format!("{}/../tests/samples/{name}.utrace", env!("CARGO_MANIFEST_DIR"))
    }

    fn events(arguments: &[&str]) -> (Result<Outcome, CliError>, String) {
        let smoke = sample("ue511-smoke");
        let arguments = ["events", &smoke].into_iter().chain(arguments.iter().copied());
        let cli = Cli::try_parse_from(arguments).unwrap_or_else(|error| panic!("{error}"));
        let mut out = Vec::new();
        (run(&cli.args, &mut out), String::from_utf8_lossy(&out).into_owned())
    }

    #[test]
    fn one_line_for_each_event() {
        let (outcome, out) = events(&[]);
        assert!(matches!(outcome, Ok(Outcome::Done)));
        assert_eq!(out.lines().count(), 1149);
        let line = out.lines().find(|line| line.contains("Memory.Init"));
        let expected = "       -     -  Memory.Init PageSize=4096 MarkerPeriod=4096 Version=2 \
                        MinAlignment=16 SizeShift=3";
        assert_eq!(line, Some(expected));
        assert!(out.contains("\n       1     2  Memory.AllocSystem Address=0x1000 CallstackId=1 "));
        assert!(out.contains(r#" Name="worker-0""#));
        assert_eq!(out.lines().filter(|line| line.ends_with(" {")).count(), 1);
    }

    #[test]
    fn filters_threads_and_limits() {
        let lines = |arguments: &[&str]| events(arguments).1.lines().count();
        assert_eq!(lines(&["--filter", "Memory.*System"]), 568 + 434);
        assert_eq!(lines(&["--filter", "Memory.Init", "--filter", "*.TagSpe?"]), 65);
        assert_eq!(lines(&["--thread", "2"]), 69);
        assert_eq!(lines(&["--thread", "4", "--filter", "$Trace.*"]), 1);
        assert_eq!(lines(&["--limit", "7"]), 7);
        assert_eq!(lines(&["--limit", "0"]), 0);
    }

    #[test]
    fn allocations_have_the_functions_of_their_stacks() {
        let path = sample("ue511-smoke");
        let printed = |arguments: &[&str]| {
            let arguments = [&["events", &path, "--stacks", "--filter", "*AllocSystem"], arguments];
            let cli = Cli::try_parse_from(arguments.concat());
            let cli = cli.unwrap_or_else(|error| panic!("{error}"));
            let mut out = Vec::new();
            assert!(run(&cli.args, &mut out).is_ok());
            String::from_utf8_lossy(&out).into_owned()
        };
        let text = printed(&[]);
        let line = text.lines().find(|line| !line.contains("CallstackId=0"));
        assert!(line.is_some_and(|line| line.contains(" Stack=\"")), "{line:?}");
        let json: serde_json::Value = serde_json::from_str(&printed(&["--format", "json"]))
            .unwrap_or_else(|error| panic!("{error}"));
        let events = json["events"].as_array().map_or(&[][..], Vec::as_slice);
        for event in events {
            assert_eq!(event["fields"]["CallstackId"] != 0, event["stack"].is_array(), "{event}");
        }
        assert!(events.iter().any(|event| !event["stack"].is_null()));
    }

    #[test]
    fn json_is_one_document() {
        for arguments in [&["--format", "json"][..], &["--format", "json", "--limit", "2"]] {
            let (_, out) = events(arguments);
            let value: serde_json::Value =
                serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}"));
            assert_eq!(value["schema"], "memledger.events/1");
            let events = value["events"].as_array().map_or(0, Vec::len);
            assert_eq!(events, if arguments.len() == 2 { 1149 } else { 2 });
            assert_eq!(value["events"][0]["name"], "$Trace.NewTrace");
            assert_eq!(value["events"][0]["serial"], serde_json::Value::Null);
            assert_eq!(value["damaged"], false);
        }
    }

    /// An output that its reader closes after the first bytes.
    struct Closed(usize);

    impl Write for Closed {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 = self.0.checked_sub(1).ok_or(io::ErrorKind::BrokenPipe)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_closed_output_ends_it() {
        for writes in 0..20 {
            let cli = Cli::try_parse_from(["events", &sample("mem-2t-40k")]);
            let cli = cli.unwrap_or_else(|error| panic!("{error}"));
            match run(&cli.args, &mut Closed(writes)) {
                Err(CliError::Output(error)) => assert_eq!(error.kind(), io::ErrorKind::BrokenPipe),
                other => panic!("{other:?}"),
            }
        }
    }
}
