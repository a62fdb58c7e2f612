//! A program can refuse to be started by its environment, and still ask for it.
#![expect(clippy::unwrap_used, reason = "a test that cannot continue fails")]

use memledger::{Ledger, TrackingAllocator};
use std::process::Command;

#[global_allocator]
static ALLOC: TrackingAllocator = TrackingAllocator::system().ignore_environment();

fn main() {
    match std::env::var("TEST_SCENARIO").as_deref() {
        Ok("nothing") => {}
        Ok("from_env") => drop(Ledger::from_env()),
        _ => test(),
    }
}

fn test() {
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("report.json");
    let run = |scenario: &str| {
        let output = Command::new(std::env::current_exe().unwrap())
            .env("TEST_SCENARIO", scenario)
            .env("MEMLEDGER_REPORT", &report)
            .output()
            .unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    };
    run("nothing");
    assert!(!report.exists());
    run("from_env");
    let report = std::fs::read(&report).unwrap();
    let report: serde_json::Value = serde_json::from_slice(&report).unwrap();
    assert_eq!(report["trace"]["from_process_start"], true);
    assert_eq!(report["trace"]["complete"], true);
    println!("a_program_can_refuse_to_be_started_by_its_environment ... ok");
}
