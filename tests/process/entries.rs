//! The number of entries of each scope, as the report of a whole process shows it.

use crate::harness::{Case, TRACE, builder, case, leave, scope, start};
use memledger::{AllocScope, Ledger, Name, ScopeContext, ScopeGuard, alloc_scope};
use memledger_analysis::Report;
use std::pin::pin;
use std::sync::Barrier;
use std::task::Waker;

const LATE: &str = "late.utrace";
const SECOND: &str = "second.utrace";
const SECOND_REPORT: &str = "second.json";

pub(crate) const CASES: &[Case] = &[
    case("entries of eight threads are exact, alive or ended", eight_threads, |run| {
        let report = run.run().quiet().whole();
        // 1000 entries on the first thread, 2000 on the second ...
        assert_eq!(entries(&report, &["hot"]), Some(36_000 + 1));
        for number in 0..NAMES {
            let name = format!("name {number}");
            assert_eq!(entries(&report, &["names", &name]), Some(360 + 1), "{name}");
        }
        assert_eq!(entries(&report, &["names"]), Some(8 + 1));
        assert_eq!(
            entries(&report, &["names", "inside"]),
            None,
            "no row for what allocates nothing"
        );
        assert_eq!(entries(&report, &["at the end of a thread"]), Some(8 * 7));
        assert_eq!(entries(&report, &[]), None, "nobody enters the outermost scope");
    }),
    case("threads that come and go leave no entry out", come_and_go, |run| {
        let report = run.run().quiet().whole();
        assert_eq!(entries(&report, &["short"]), Some(2_000 * 3 + 1));
    }),
    case("a future enters its scope once, a context never", once, |run| {
        let report = run.run().quiet().whole();
        assert_eq!(entries(&report, &["task"]), Some(3));
        assert_eq!(entries(&report, &["task", "inner"]), Some(3 * 5));
        assert_eq!(entries(&report, &["from elsewhere"]), Some(1));
        assert_eq!(entries(&report, &["measured"]), Some(4));
    }),
    case("entries count from where a recording or a stream begins", from_here_on, |run| {
        let outcome = run.run();
        let first = outcome.quiet().whole();
        assert_eq!(entries(&first, &["counted"]), Some(10 + 20 + 30), "since the process began");
        let late = outcome.trace(LATE).0;
        assert_eq!(entries(&late, &["counted"]), Some(30), "since this stream began");
        let second = outcome.whole_as(SECOND, SECOND_REPORT);
        assert_eq!(second.trace.from_process_start, Some(false));
        assert_eq!(entries(&second, &["counted"]), Some(50), "since this recording began");
    }),
    case("of a killed program those entries are known that it has said", killed, |run| {
        let outcome = run.run();
        let (report, _) = outcome.trace(TRACE);
        assert!(!report.trace.complete);
        assert_eq!(entries(&report, &["said"]), Some(12));
        assert_eq!(entries(&report, &["said", "never again"]), Some(1));
        assert!(
            scope(&report, &["GlobalScope", "not said"]).is_none_or(|row| row.entries.is_none())
        );
    }),
    case("what is entered in more scopes than there is room for is other", too_deep, |run| {
        let report = run.run().quiet().whole();
        let other = report.by_scope.iter().find(|row| row.path.last().unwrap() == "(other)");
        assert_eq!(other.unwrap().entries, Some(45 * 3));
    }),
];

/// The number of entries of a scope inside the outermost.
fn entries(report: &Report, path: &[&str]) -> Option<u64> {
    scope(report, &[&["GlobalScope"], path].concat())?.entries
}

const NAMES: usize = 100;

struct AtEnd;

impl Drop for AtEnd {
    fn drop(&mut self) {
        for _ in 0..7 {
            alloc_scope!("at the end of a thread", { leave(17) });
        }
    }
}

thread_local! {
    static AT_END: AtEnd = const { AtEnd };
}

fn eight_threads() {
    let ledger = start();
    let names = (0..NAMES).map(|number| Name::intern(&format!("name {number}")));
    let names = &names.collect::<Vec<_>>()[..];
    let (counted, ended) = (&Barrier::new(9), &Barrier::new(5));
    std::thread::scope(|threads| {
        let run = |thread: usize| {
            threads.spawn(move || {
                // Those of the threads that are alive at the end leave before they count.
                AT_END.with(|_| ());
                if thread >= 4 {
                    drop(AtEnd);
                }
                alloc_scope!("names");
                for round in 0..1000 * (thread + 1) {
                    {
                        let _name = ScopeGuard::enter(names[round % NAMES]);
                        alloc_scope!("inside", {});
                    }
                    let _ = ScopeContext::current();
                }
                drop(ScopeGuard::enter("unused"));
                // Outside the scope that the thread is in.
                let elsewhere = std::thread::spawn(move || {
                    for _ in 0..1000 * (thread + 1) {
                        alloc_scope!("hot", {});
                    }
                });
                elsewhere.join().unwrap();
                counted.wait();
                if thread >= 4 {
                    ended.wait();
                }
            })
        };
        let mut running = (0..8).map(run).collect::<Vec<_>>();
        counted.wait();
        // The destructors of the threads have run.
        running.drain(..4).for_each(|thread| thread.join().unwrap());
        alloc_scope!("hot", { leave(1) });
        alloc_scope!("names", {
            for name in names {
                let _name = ScopeGuard::enter(*name);
                leave(1);
            }
        });
        let _ = ledger.finish();
        // Not earlier: the entries of their destructors are not part of this recording.
        ended.wait();
    });
}

fn come_and_go() {
    let _ledger = start();
    for _ in 0..1_000 {
        let threads = [(); 2].map(|()| {
            std::thread::spawn(|| {
                for _ in 0..3 {
                    alloc_scope!("short", {});
                }
            })
        });
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    }
    alloc_scope!("short", { leave(1) });
}

fn once() {
    let _ledger = start();
    for _ in 0..3 {
        let mut waits = 4;
        let task = std::future::poll_fn(move |_| {
            alloc_scope!("inner", { leave(1) });
            waits -= 1;
            if waits < 0 { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
        });
        let mut task = pin!(task.alloc_scope("task"));
        let mut waker = std::task::Context::from_waker(Waker::noop());
        while task.as_mut().poll(&mut waker).is_pending() {}
    }
    // The row exists for the scopes inside it.
    let context = alloc_scope!("from elsewhere", { ScopeContext::current() });
    for _ in 0..100 {
        context.run(|| leave(1));
    }
    for _ in 0..4 {
        memledger::measure(|| leave(1)).1.unwrap();
    }
}

fn from_here_on() {
    let enter = |times: usize| {
        (0..times).for_each(|_| alloc_scope!("counted", {}));
        alloc_scope!("counted", { leave(1) });
    };
    let ledger = start();
    enter(9);
    enter(19);
    let late = ledger.trace_to_file(LATE).unwrap();
    enter(29);
    late.stop();
    let _ = ledger.finish();
    enter(39);
    let second = Ledger::builder()
        .trace_to_file(SECOND)
        .report_on_exit(memledger::ReportTo::file(SECOND_REPORT))
        .start()
        .unwrap();
    enter(49);
    let _ = second.finish();
}

fn killed() {
    let ledger = builder().start().unwrap();
    for number in 0..12 {
        alloc_scope!("said", {
            leave(1);
            if number == 3 {
                alloc_scope!("never again", { leave(1) });
            }
        });
    }
    ledger.flush();
    alloc_scope!("not said", { leave(1) });
    std::process::abort();
}

fn too_deep() {
    fn enter(levels: usize) {
        if levels > 0 {
            alloc_scope!("level", {
                leave(1);
                enter(levels - 1);
            });
        }
    }
    let _ledger = start();
    (0..3).for_each(|_| enter(300));
}
