//! What the tracker takes for itself is never the program's, and the other way round.

use crate::allocator::{nobody_counted, uncounted};
use crate::exactness::{self, Exact};
use crate::harness::{Case, builder, case, churn, scope, start};
use memledger::{ErrorKind, Ledger, Name, ReportTo, Worker};

pub(crate) const CASES: &[Case] = &[
    case("start, a hundred snapshots and finish leave the program's account alone", all, |run| {
        let outcome = run.run();
        exactness::check(&outcome);
        let report = outcome.whole();
        assert!(
            report.by_thread.iter().all(|row| row.name != "memledger"),
            "{:?}",
            report.by_thread
        );
        assert!(report.totals.overhead_bytes.unwrap() > 0);
    }),
    case("a manual worker's work is the tracker's too", all_manual, |run| {
        exactness::check(&run.run());
    }),
    case(
        "what is handed to and fro with the environment's ledger stays whose it is",
        calls,
        |run| {
            let outcome = run.tracked().run();
            let report = outcome.exited(0).whole();
            let calls = &scope(&report, &["GlobalScope", "calls"]).unwrap().figures;
            assert_eq!((calls.live_blocks, calls.live_bytes), (0, 0), "{calls:?}");
            assert!(calls.allocations > 0);
        },
    ),
    case("what is handed to a start in code stays whose it is", code, |run| {
        let outcome = run.run();
        let report = outcome.exited(0).whole();
        let calls = &scope(&report, &["GlobalScope", "calls"]).unwrap().figures;
        assert_eq!((calls.live_blocks, calls.live_bytes), (0, 0), "{calls:?}");
        assert!(calls.allocations > 0);
    }),
    case("a hundred recordings do not pile up memory", hundred, |run| {
        run.run().quiet();
    }),
];

fn look(ledger: &Ledger) {
    // Some of it runs on other threads; the program's are idle meanwhile.
    nobody_counted(|| {
        let snapshot = ledger.snapshot().unwrap();
        assert!(snapshot.figures().live_bytes > 0);
        ledger.flush();
        ledger.collect();
        assert!(ledger.stats().events > 0);
    });
}

fn work(exact: Exact) {
    for round in 0..100 {
        look(exact.ledger());
        memledger::alloc_scope!(Name::intern(&format!("round {round}")), { churn(100) });
        std::thread::spawn(|| churn(10)).join().unwrap();
        assert_eq!(exact.ledger().problems(), []);
        let second = uncounted(|| Ledger::builder().start());
        assert!(matches!(&second, Err(error) if error.kind() == ErrorKind::AlreadyStarted));
    }
    exactness::print(exact.finish());
}

fn all() {
    work(Exact::start(Ledger::builder()));
}

fn all_manual() {
    work(Exact::start(Ledger::builder().worker(Worker::Manual)));
}

fn calls() {
    memledger::alloc_scope!("calls");
    let bad = Ledger::builder().trace_to_file("no/such/folder.utrace").start();
    drop(bad.unwrap());
    let bad = Ledger::builder().channels(["memory", "c pu"]).start();
    assert!(matches!(&bad, Err(error) if error.kind() == ErrorKind::InvalidChannels));
    drop(bad);
    let ledger = builder().trace_to_file("other.utrace").start().unwrap();
    for _ in 0..10 {
        drop(ledger.snapshot());
        ledger.flush();
        ledger.stats();
        drop(ledger.problems());
        drop(Ledger::from_env());
        let args = ["-tracefile=x.utrace", "-tracereport=y.txt", "-trace=memory", "rest"];
        drop(Ledger::from_args(args.map(Into::into)));
    }
    let report = ledger.snapshot().unwrap().report().clone();
    drop((report, ledger));
}

fn code() {
    memledger::alloc_scope!("calls");
    let bad = Ledger::builder().trace_to_file("no/such/folder.utrace").start();
    assert!(matches!(&bad, Err(error) if error.kind() == ErrorKind::File));
    drop(bad);
    let bad = Ledger::builder().report_on_exit(ReportTo::file("x.pdf")).start();
    assert!(matches!(&bad, Err(error) if error.kind() == ErrorKind::InvalidSetting));
    drop(bad);
    let bad = Ledger::builder().channels(["c pu"]).start();
    assert!(matches!(&bad, Err(error) if error.kind() == ErrorKind::InvalidChannels));
    drop(bad);
    let ledger = start();
    let args = ["-tracefile=x.utrace", "-tracereport=y.txt", "-trace=memory", "rest"];
    let (second, rest) = Ledger::from_args(args.map(Into::into));
    assert_eq!(rest, ["rest"]);
    drop((second, rest));
    let snapshot = ledger.snapshot();
    assert_eq!(ledger.problems().len(), 1, "from_args was told that a ledger runs");
    drop(snapshot);
    let _ = ledger.finish();
}

fn hundred() {
    let round = || {
        let ledger = start();
        churn(100);
        std::thread::spawn(|| churn(10)).join().unwrap();
        let overhead = ledger.stats().overhead_bytes;
        drop(ledger);
        overhead
    };
    let rounds = (0..100).map(|_| round()).collect::<Vec<_>>();
    // What a round needs at its most depends on when the worker runs, by some 100 KiB. What is kept is in
    // each.
    let least = |rounds: &[u64]| rounds.iter().copied().min().unwrap();
    let (first, last) = (least(&rounds[2..50]), least(&rounds[50..]));
    assert!(last < first + 30_000, "{first} {last}: {rounds:?}");
}
