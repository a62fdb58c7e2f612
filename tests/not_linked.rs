//! A program whose global allocator is not the tracker is told so, in one sentence.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on shall fail")]

use memledger::{Ledger, Report};
use std::process::Command;

fn main() {
    match std::env::var("TEST_SCENARIO").as_deref() {
        Ok("from_env") => drop(Ledger::from_env()),
        Ok("builder") => {
            let report = Report::file(std::env::var("TEST_REPORT").unwrap());
            let ledger = Ledger::builder().report_on_exit(report).start().unwrap();
            assert!(!ledger.stats().recording);
        }
        Ok("nothing") => {}
        _ => test(),
    }
}

fn test() {
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("report.json");
    let run = |scenario: &str, variable: &str| {
        let output = Command::new(std::env::current_exe().unwrap())
            .env("TEST_SCENARIO", scenario)
            .env("TEST_REPORT", &report)
            .env("MEMLEDGER_REPORT", variable)
            .current_dir(folder.path())
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        assert!(output.stdout.is_empty(), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    for scenario in ["from_env", "builder"] {
        let stderr = run(scenario, "");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
        assert!(stderr.contains("memledger::TrackingAllocator is not this program's global"));
        assert!(stderr.contains("#[global_allocator] static ALLOC: memledger::TrackingAllocator"));
    }
    // A program that does not use the tracker at all is none of our business.
    assert_eq!(run("nothing", "x.json"), "");
    assert!(!folder.path().join("x.json").exists());
    println!("a_program_without_the_allocator_is_told_so ... ok");
}
