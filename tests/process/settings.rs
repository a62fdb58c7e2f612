//! Misspelt settings, and the text that settings may hold.

use crate::files::check_told;
use crate::harness::{Case, Outcome, REPORT, TRACE, case, churn};
use memledger::Ledger;

pub(crate) const CASES: &[Case] = &[
    case("a channel that is nearly one is told with the name that is meant", plain, |run| {
        let outcome = run.tracked().env("MEMLEDGER_CHANNELS", "memry,scope").run();
        check_told(&outcome, &["[\"memry\"]", "likely meant: [\"Memory\"]"]);
        let outcome = outcome.again().tracked().env("MEMLEDGER_CHANNELS", "memory,gpu").run();
        check_told(&outcome, &["[\"gpu\"]", "it has [", "\"Memory\"", "\"Scope\""]);
    }),
    case("a variable that is none is told with the one that is meant", plain, |run| {
        let outcome = run.env("MEMLEDGER_TRAEC", TRACE).run();
        check_told(&outcome, &["MEMLEDGER_TRAEC is set", "MEMLEDGER_TRACE is likely meant"]);
        let outcome = outcome.again().env("MEMLEDGER_OUTPUT", TRACE).run();
        check_told(
            &outcome,
            &["MEMLEDGER_OUTPUT is set", "MEMLEDGER_CHANNELS, MEMLEDGER_STACKS, "],
        );
    }),
    case("channels where a file is named, and a file where channels are", plain, |run| {
        let outcome = run.run();
        for (name, value, why) in [
            ("MEMLEDGER_TRACE", "memory,scope", "channels are named by MEMLEDGER_CHANNELS"),
            ("MEMLEDGER_TRACE", "default", "channels are named by MEMLEDGER_CHANNELS"),
            ("MEMLEDGER_CHANNELS", "run.memledger", "a file is named by MEMLEDGER_TRACE"),
            ("MEMLEDGER_CHANNELS", "folder/run", "a file is named by MEMLEDGER_TRACE"),
        ] {
            let outcome = outcome.again().env("MEMLEDGER_REPORT", REPORT).env(name, value).run();
            check_told(&outcome, &[name, value, why]);
            assert_eq!(outcome.files(), [REPORT]);
            let report =
                serde_json::from_str::<serde_json::Value>(&outcome.report(REPORT)).unwrap();
            assert!(report["totals"]["allocations"].as_u64() > Some(1000), "all is recorded");
        }
    }),
    case("buffers, and what happens when they are full, are set from outside", plain, |run| {
        let run = run.env("MEMLEDGER_BUFFER_LIMIT", "128KiB").env("MEMLEDGER_ON_FULL", "drop");
        let outcome = run.env("MEMLEDGER_REPORT", REPORT).run();
        outcome.exited(0);
        for (name, value) in
            [("BUFFER_LIMIT", "1KiB"), ("ON_FULL", "never"), ("ANALYZE_IN_PROCESS", "yes")]
        {
            let name = format!("MEMLEDGER_{name}");
            let run = outcome.again().env("MEMLEDGER_REPORT", REPORT).env(&name, value);
            check_told(&run.run(), &[&name, value, "the default"]);
        }
    }),
    case("such a variable is told once though the code asks again", twice, |run| {
        let run = run.env("MEMLEDGER_TRAEC", TRACE).env("MEMLEDGER_TRACE", TRACE);
        let outcome = run.env("MEMLEDGER_REPORT", REPORT).run();
        check_told(&outcome, &["MEMLEDGER_TRAEC is set"]);
    }),
    case("a name with nothing to put in is told", plain, |run| {
        let outcome =
            run.env("MEMLEDGER_TRACE", "x-%z.utrace").env("MEMLEDGER_REPORT", "off").run();
        check_told(&outcome, &["%z in the name x-%z.utrace", "%p (process id)"]);
        assert_eq!(outcome.files(), ["x-%z.utrace"]);
    }),
    case("nothing from outside steers the terminal", plain, |run| {
        let outcome = run.tracked().env("MEMLEDGER_HOST", "a\u{1b}[31mb").run();
        is_harmless(&outcome, "MEMLEDGER_HOST");
        for (name, value) in [
            ("MEMLEDGER_TRACE", "no/a\u{1b}[31mb.utrace"),
            ("MEMLEDGER_TRACE", "%q\u{9b}31m.utrace"),
            ("MEMLEDGER_REPORT", "no/a\u{1b}]0;b\u{7}.json"),
            ("MEMLEDGER_CHANNELS", "a\u{1b}[31mb"),
            ("MEMLEDGER_CONTROL", "\u{1b}[31m"),
            ("MEMLEDGER_CONTROL_FOLDER", "a\u{1b}[31mb"),
            ("MEMLEDGER_FILE_MODE", "\u{1b}[31m"),
            ("MEMLEDGER_\u{1b}[31m", "1"),
        ] {
            let run = outcome.again().env("MEMLEDGER_CONTROL", "0");
            is_harmless(&run.env("MEMLEDGER_REPORT", REPORT).env(name, value).run(), name);
        }
    }),
];

#[track_caller]
fn is_harmless(outcome: &Outcome, name: &str) {
    assert!(!outcome.stderr.is_empty(), "{name} is told");
    let steering = |c: char| c.is_control() && c != '\n';
    assert!(!outcome.stderr.contains(steering), "{name}: {:?}", outcome.stderr);
    outcome.exited(0);
}

fn plain() {
    churn(1000);
}

fn twice() {
    drop(Ledger::from_env());
    drop(Ledger::builder().start());
}
