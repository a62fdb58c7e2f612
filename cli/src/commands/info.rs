//! `memledger info`: what a trace consists of.

mod facts;
mod json;
mod text;

use super::Format;
use super::completeness::{missing, outcome};
use super::input::{display_name, open_watched, unreadable};
use crate::cache::trace_arg;
use crate::error::{CliError, Outcome};
use facts::Facts;
pub(super) use facts::hex;
use memledger_analysis::Analyzer;
use memledger_analysis::read::read;
use memledger_export::text::lacks;
use memledger_format::handshake::Transport;
use memledger_format::handshake::{Handshake, Magic};
use std::io::Write;
use std::path::PathBuf;

/// Arguments of `memledger info`.
#[derive(Debug, clap::Args)]
pub struct InfoArgs {
    /// The trace; last for that of the last run, - for standard input
    #[arg(value_parser = trace_arg())]
    trace: PathBuf,
    /// Exit with status 0 even if the trace is incomplete (its program runs or was killed)
    #[arg(long)]
    allow_incomplete: bool,
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

/// Runs the command.
pub fn run(args: &InfoArgs, out: &mut dyn Write) -> Result<Outcome, CliError> {
    let name = display_name(&args.trace);
    let mut both = (Facts::default(), Analyzer::new().largest_live(0));
    let summary = read(open_watched(&args.trace)?, &mut both)
        .map_err(|error| unreadable(&args.trace, error))?;
    let (facts, analyzer) = both;
    let lacks = lacks(&analyzer.report());
    match args.format {
        Format::Text => text::write(&name, &facts, &summary, &lacks, out),
        Format::Json => json::write(&facts, &summary, &lacks, out),
    }
    .map_err(CliError::output)?;
    Ok(outcome(missing(&args.trace, &summary), args.allow_incomplete))
}

/// The versions of Unreal Engine that wrote traces that begin like this one; `None` from protocol 5
/// on, whose traces other programs write, too. No trace of these versions is public: all but 4.26 and
/// protocol 4 are known from sources only.
fn engines(handshake: &Handshake) -> Option<&'static str> {
    use Transport::{Batch, Raw};
    Some(match (handshake.transport, handshake.protocol, handshake.magic) {
        (Raw, 0, Magic::Missing) => "a recorder of Unreal Engine 4.23 or earlier",
        (Raw, 0, _) => "Unreal Engine 4.23, probably",
        (Batch, 0, _) => "Unreal Engine 4.24, probably",
        (_, 0 | 1, _) => "Unreal Engine 4.24, or between 4.24 and 4.25",
        (_, 2 | 3, _) => "Unreal Engine 4.25, probably",
        (_, 4, Magic::Trc2) => "Unreal Engine 5.0 Early Access, probably",
        (_, 4, _) => "Unreal Engine 4.26 or 4.27",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: InfoArgs,
    }

    fn info(path: &str, arguments: &[&str]) -> (Result<Outcome, CliError>, String) {
        let arguments = ["info", path].into_iter().chain(arguments.iter().copied());
        let cli = Cli::try_parse_from(arguments).unwrap_or_else(|error| panic!("{error}"));
        let mut out = Vec::new();
        (run(&cli.args, &mut out), String::from_utf8_lossy(&out).into_owned())
    }

    fn sample(name: &str) -> String {
        format!("{}/../tests/samples/{name}.utrace", env!("CARGO_MANIFEST_DIR"))
    }

    #[test]
    fn text_says_what_is_in_the_trace_within_80_columns() {
        let (outcome, out) = info(&sample("mem-2t-40k"), &[]);
        assert!(matches!(outcome, Ok(Outcome::Done)));
        for part in [
            "  format      Unreal Trace, transport 4, protocol 6\n",
            "  program     ref, Linux\n",
            "  bytes       553036, 13.8 for each event\n",
            "  packets     210: 4 plain, 203 encoded, 3 sync, 0 damaged\n",
            "  events      40160\n",
            "  serials     0 to 40012, 0 out of order\n",
            "  holes       none\n",
            "  damage      none\n",
            "       20127     17  Memory.AllocSystem\n",
            "          63     4+  Memory.CallstackSpec\n",
            "       20005        390397       4  4: worker-1\n",
            "  on   Mem",
        ] {
            assert!(out.contains(part), "{part} in\n{out}");
        }
        for line in out.lines().skip(1) {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }

    #[test]
    fn engine_4_is_named_with_its_threads() {
        let (outcome, out) = info(&sample("unreal4/p4-tid-ue426"), &[]);
        assert!(matches!(outcome, Ok(Outcome::Done)));
        for part in [
            "  format      Unreal Trace, transport 3, protocol 4\n",
            "  writer      Unreal Engine 4.26 or 4.27\n",
            "  program     SampleGame, Win64\n",
            "  events      2374\n",
            "       1  1: GameThread\n",
        ] {
            assert!(out.contains(part), "{part} in\n{out}");
        }
        let (_, out) = info(&sample("unreal4/p0-raw"), &["--format", "json"]);
        let value: serde_json::Value =
            serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(value["header"]["engines"], "Unreal Engine 4.23, probably");
        assert_eq!(value["header"]["signs_known"], false);
    }

    #[test]
    fn numbers_of_threads_are_those_that_events_takes() {
        #[derive(Parser)]
        struct Events {
            #[command(flatten)]
            args: crate::commands::events::EventsArgs,
        }
        for name in ["mem-2t-40k", "memledger-small", "ue511-smoke", "unreal4/p4-tid-ue426"] {
            let (_, out) = info(&sample(name), &[]);
            let (_, threads) = out.split_once("as events --thread takes it\n").unwrap_or_default();
            let labels = threads.lines().take_while(|line| !line.is_empty());
            let numbers = labels.filter_map(|line| line.split_once(": ")?.0.rsplit(' ').next());
            let mut count = 0;
            for number in numbers {
                count += 1;
                let trace = sample(name);
                let arguments = ["events", &trace, "--thread", number, "--limit", "1"];
                let cli =
                    Events::try_parse_from(arguments).unwrap_or_else(|error| panic!("{error}"));
                let mut events = Vec::new();
                assert!(crate::commands::events::run(&cli.args, &mut events).is_ok());
                assert!(!events.is_empty(), "thread {number} of {name}");
            }
            assert!(count > 0, "{out}");
        }
    }

    #[test]
    fn json_has_the_same_and_the_fields() {
        let (_, out) = info(&sample("ue511-smoke"), &["--format", "json"]);
        let value: serde_json::Value =
            serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(value["schema"], "memledger.info/1");
        assert_eq!(value["events"], 1149);
        assert_eq!(value["program"], "ref");
        assert_eq!(value["complete"], true);
        let streams = value["streams"].as_array().map_or(0, Vec::len);
        assert_eq!(streams, 4);
        assert_eq!(value["streams"][3]["threads"][0]["name"], "worker-0");
        assert_eq!(value["types"].as_array().map(|types| types.len() > 14), Some(true));
    }

    #[test]
    fn what_makes_figures_incomplete_is_said() {
        let trace = |name: &str| format!("{}/tests/traces/{name}", env!("CARGO_MANIFEST_DIR"));
        let (_, out) = info(&trace("killed.utrace"), &[]);
        assert!(
            out.contains("  LOSSES      the trace has no end: the program was killed"),
            "{out}"
        );
        let (outcome, out) = info(&trace("untracked.memledger"), &[]);
        let (_, json) = info(&trace("untracked.memledger"), &["--format", "json"]);
        assert!(matches!(outcome, Ok(Outcome::Done)), "the trace itself is whole");
        let words = out.split_whitespace().collect::<Vec<_>>().join(" ");
        let sentence = "the program has memory that is in no block seen: /tmp/gotool/gotool is a program \
                        of Go, whose heap is its runtime's";
        assert!(words.contains(&format!("UNTRACKED {sentence}")), "{out}");
        let value: serde_json::Value =
            serde_json::from_str(&json).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(
            (&value["complete"], &value["lacks"][0]["kind"]),
            (&false.into(), &"UNTRACKED".into())
        );
        let said = value["lacks"][0]["sentence"].as_str().unwrap_or_default();
        assert!(said.starts_with(sentence), "{said}");
    }

    #[test]
    fn damage_is_printed_and_makes_it_incomplete() {
        let bytes = std::fs::read(sample("ue511-smoke")).unwrap_or_default();
        let path = std::env::temp_dir().join(format!("memledger-info-{}", std::process::id()));
        assert!(std::fs::write(&path, &bytes[..20_000]).is_ok());
        let (outcome, out) = info(&path.to_string_lossy(), &[]);
        let _ = std::fs::remove_file(&path);
        assert!(matches!(outcome, Ok(Outcome::Incomplete(_))), "{outcome:?}");
        assert!(
            out.contains("  damage      the last 2123 bytes are an unfinished packet\n"),
            "{out}"
        );
        assert!(out.contains("byte 17877: the trace ends inside a packet"), "{out}");
    }
}
