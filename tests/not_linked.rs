//! A program whose global allocator is not the tracker gets one sentence that says so.
#![expect(clippy::unwrap_used, reason = "a test that cannot continue fails")]

use memledger::events::{channel, event, log};
use memledger::{Ledger, ReportTo, UnmeasuredKind, budget, measure};
use memledger_analysis::read::{self, Event, Visitor};
use std::collections::BTreeMap;
use std::fs::File;
use std::process::Command;

channel! { GAME = "Game"; }
event! { Number = "Test"."Number" { Number: u64 } }

/// The numbers that each stream has logged.
#[derive(Default)]
struct Numbers(BTreeMap<u16, Vec<u64>>);

impl Visitor for Numbers {
    fn event(&mut self, event: &Event<'_>) {
        if event.event_type.is("Test", "Number") {
            self.0.entry(event.stream).or_default().push(event.unsigned(0, 8));
        }
    }
}

fn main() {
    match std::env::var("TEST_SCENARIO").as_deref() {
        Ok("from_env") => drop(Ledger::from_env()),
        Ok("builder") => {
            let report = ReportTo::file(std::env::var("TEST_REPORT").unwrap());
            let ledger = Ledger::builder().report_on_exit(report).start().unwrap();
            assert!(!ledger.stats().recording);
        }
        Ok("log") => {
            let trace = std::env::var("TEST_REPORT").unwrap();
            let ledger = Ledger::builder().trace_to_file(trace).channels(["memory", "game"]);
            let ledger = ledger.start().unwrap();
            let log = || (0..1000).for_each(|number| log!(GAME, Number { Number: number }));
            let threads = [std::thread::spawn(log), std::thread::spawn(log)];
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            drop(ledger);
        }
        Ok("nothing") => {}
        Ok("measure") => {
            let mut times = 0;
            let error = measure(|| times += 1).1.unwrap_err();
            assert_eq!(error.kind(), UnmeasuredKind::NotGlobalAllocator, "{error}");
            assert!(
                error.to_string().contains("is not this program's global allocator"),
                "{error}"
            );
            let refused = std::panic::catch_unwind(|| budget("any").peak_bytes(1 << 40).run(|| ()));
            let text = refused.unwrap_err().downcast::<String>().unwrap();
            assert!(text.contains("#[global_allocator] static ALLOC"), "{text}");
            // Beside a ledger, too.
            let report = ReportTo::file(std::env::var("TEST_REPORT").unwrap());
            let _ledger = Ledger::builder().report_on_exit(report).start().unwrap();
            assert!(measure(|| times += 1).1.is_err());
            assert_eq!(times, 2);
        }
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
        assert!(!report.exists(), "nothing stays behind of a report that is not made");
    }
    assert_eq!(run("from_env", "x.json").lines().count(), 1);
    assert!(!folder.path().join("x.json").exists());
    assert_eq!(run("measure", "").lines().filter(|line| line.starts_with("memledger:")).count(), 1);
    // What it logs itself is recorded all the same.
    assert_eq!(run("log", ""), "");
    let mut numbers = Numbers::default();
    let summary = read::read(File::open(&report).unwrap(), &mut numbers).unwrap();
    assert!(summary.is_complete());
    assert!(numbers.0.values().eq([&(0..1000).collect::<Vec<_>>(); 2]));
    // A program that does not use the tracker at all is none of our business.
    assert_eq!(run("nothing", "x.json"), "");
    assert!(!folder.path().join("x.json").exists());
    println!("a_program_without_the_allocator_is_told_so ... ok");
}
