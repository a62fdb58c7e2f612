//! Heap profiles of a program, while it runs and at its end.

use crate::harness::{Case, case, churn};
use memledger::control::{Client, Command};
use memledger::{ErrorKind, Ledger, Stacks, alloc_scope};
use memledger_test_support::pprof::{Profile, Sample};
use std::fs;
use std::hint::black_box;

/// A size that nothing else has.
const SIZE: u64 = 1_000_003;
const SCOPE: &str = "GlobalScope > profiled";
const FUNCTION: &str = "holds_one_block";
const FILE: &str = "heap.pb.gz";

pub(crate) const CASES: &[Case] = &[
    case("a profile has the blocks that are live, their functions and their labels", live, |run| {
        // The debug information of this program is read twice.
        let outcome = run.deadline(240).env("MEMLEDGER_STACKS", "on").run();
        outcome.quiet();
        for file in [FILE, "control.pb.gz"] {
            let profile = Profile::decode(&fs::read(outcome.path(file)).unwrap());
            assert_holds_the_block(&profile);
            assert!(profile.nanoseconds[0] > 1_500_000_000_000_000_000, "it has a time");
            assert_eq!(profile.comments.len(), 1, "{:?}", profile.comments);
            #[cfg(unix)]
            assert_is_mapped(&profile, &fs::read_to_string(outcome.path("maps")).unwrap());
        }
    }),
    case("the report on exit can be a profile", at_exit, |run| {
        let outcome = run.env("MEMLEDGER_REPORT", FILE).env("MEMLEDGER_STACKS", "on").run();
        outcome.quiet();
        let profile = Profile::decode(&fs::read(outcome.path(FILE)).unwrap());
        assert_holds_the_block(&profile);
        assert_eq!(profile.comments.len(), 1, "{:?}", profile.comments);
    }),
    case("profiles leave nothing behind", many, |run| {
        run.deadline(240).run().quiet();
    }),
    case("without accounts in the process there is no profile", without_accounts, |run| {
        run.run().quiet();
    }),
];

/// The program's code is where the system has mapped it.
#[cfg(unix)]
fn assert_is_mapped(profile: &Profile, maps: &str) {
    let code = maps.lines().find(|line| line.contains(" r-xp ")).unwrap();
    let [start, limit, offset] = profile.mappings[0].range;
    let expected = format!("{start:x}-{limit:x} r-xp {offset:08x} ");
    assert!(code.starts_with(&expected), "{expected} in\n{maps}");
}

fn assert_holds_the_block(profile: &Profile) {
    let inuse_space = profile.types.iter().position(|[name, _]| name == "inuse_space").unwrap();
    let label = |key: &'static str| move |sample: &Sample| sample.labels[key].clone();
    assert_eq!(profile.sums(inuse_space, label("scope"))[SCOPE], SIZE);
    let mut samples = profile.samples.iter();
    let sample = samples.find(|sample| sample.values[inuse_space] == SIZE).unwrap();
    assert!(sample.functions[0].contains(FUNCTION), "{:?}", sample.functions);
    assert_eq!((&*sample.labels["group"], &*sample.labels["thread"]), ("Unknown", "main"));
    assert_eq!((&*profile.default_type, profile.period), ("inuse_space", 1));
    // Locations of the program are in its mapping, which is the first.
    let program = std::env::current_exe().unwrap();
    let mapping = &profile.mappings[0];
    assert_eq!(mapping.path, program.to_str().unwrap());
    assert!(mapping.build_id.len() >= 16 && mapping.has_functions, "{}", mapping.build_id);
}

#[inline(never)]
fn holds_one_block() -> Vec<u8> {
    Vec::with_capacity(black_box(SIZE as usize))
}

fn live() {
    let ledger = Ledger::builder().control("0").analyze_in_process(true).start().unwrap();
    let block = alloc_scope!("profiled", { black_box(holds_one_block()) });
    churn(1000);
    fs::write(FILE, ledger.pprof().unwrap()).unwrap();
    let address = ledger.control_address().unwrap().to_string();
    let mut client = Client::connect(&address).unwrap();
    fs::write("control.pb.gz", client.profile().unwrap()).unwrap();
    assert!(Client::connect(&address).unwrap().send(&Command::Status).is_ok());
    #[cfg(unix)]
    fs::copy("/proc/self/maps", "maps").unwrap();
    drop(block);
    let after = Profile::decode(&ledger.pprof().unwrap());
    assert!(!after.sums(3, |sample| sample.labels["scope"].clone()).contains_key(SCOPE));
}

fn at_exit() {
    alloc_scope!("profiled", { std::mem::forget(black_box(holds_one_block())) });
    churn(1000);
}

fn many() {
    let ledger = Ledger::builder().analyze_in_process(true).stacks(Stacks::On).start().unwrap();
    drop(ledger.pprof().unwrap());
    let live = || {
        let snapshot = ledger.snapshot().unwrap();
        let (totals, losses) = (&snapshot.report().totals, &snapshot.report().losses);
        assert_eq!((losses.unmatched_frees, losses.duplicate_allocations), (0, 0));
        (totals.live_bytes, totals.live_blocks, totals.allocations)
    };
    let before = live();
    for _ in 0..10 {
        drop(black_box(ledger.pprof().unwrap()));
    }
    let after = live();
    assert_eq!((before.0, before.1), (after.0, after.1));
    assert_eq!(after.2 - before.2, 10, "the bytes are the program's, and nothing else is");
}

fn without_accounts() {
    let ledger = Ledger::builder().trace_to_file("run.memledger").start().unwrap();
    assert!(matches!(&ledger.pprof(), Err(error) if error.kind() == ErrorKind::NotAnalyzed));
    drop(ledger);
    let none = Ledger::builder().analyze_in_process(true).start().unwrap();
    assert!(none.pprof().is_ok());
}
