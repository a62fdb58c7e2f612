//! Scopes from `tracing` spans, as the report of a whole process shows them.

use crate::harness::{Case, case, leave, start};
use memledger::{ScopeGuard, ScopeLayer, Tag, alloc_scope, group, tag, tagged};
use memledger_analysis::Report;
use std::pin::Pin;
use std::sync::Barrier;
use std::task::{Poll, Waker};
use tracing::{Instrument, Level, Span, field, info_span, subscriber};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::prelude::*;

group! {
    STORAGE = "Storage";
}

const PAGES: Tag = tag!(STORAGE, "pages");

pub(crate) const CASES: &[Case] = &[
    case("a span is a scope, with the value of a field inside", names_and_values, |run| {
        let report = run.run().quiet().whole();
        assert_eq!(left(&report, &["load", "Mesh", "rock_07"]), 1);
        assert_eq!(left(&report, &["load", "Mesh", "rock_07", "vertices"]), 1);
        assert_eq!(left(&report, &["load", "Mesh", "rock_07", "Texture"]), 2);
        assert_eq!(left(&report, &["Mesh", "rock_08"]), 2);
        assert_eq!(left(&report, &["numbered", "17"]), 1);
        assert_eq!(left(&report, &["shown", "a/b"]), 1);
        assert_eq!(left(&report, &["late"]), 1);
        assert_eq!(left(&report, &["late", "now"]), 1);
        assert_eq!(left(&report, &["late", "then"]), 1);
        assert_eq!(left(&report, &["outermost"]), 1);
        assert_eq!(left(&report, &[]), 1);
        assert_eq!(report.losses.scope_misuses, 0);
    }),
    case("a span may be entered within itself and left in any order", any_order, |run| {
        let report = run.run().quiet().whole();
        assert_eq!(left(&report, &["a"]), 4);
        assert_eq!(left(&report, &["a", "b"]), 2);
        assert_eq!(left(&report, &["c"]), 1);
        assert_eq!(left(&report, &[]), 2);
        assert_eq!(report.losses.scope_misuses, 0);
    }),
    case("a span is entered on several threads at once", several_threads, |run| {
        let report = run.run().quiet().whole();
        assert_eq!(left(&report, &["shared"]), 2 * THREADS);
        assert_eq!(left(&report, &["shared", "own"]), THREADS);
        assert_eq!(left(&report, &[]), THREADS);
        assert_eq!(report.losses.scope_misuses, 0);
    }),
    case("an instrumented future is in its span at every poll", instrumented, |run| {
        let report = run.run().quiet().whole();
        assert_eq!(left(&report, &["request", "7"]), THREADS + 1);
        assert_eq!(left(&report, &["request", "7", "inner"]), THREADS);
        assert_eq!(left(&report, &["polled here"]), THREADS);
        assert_eq!(report.losses.scope_misuses, 0);
    }),
    case("a span keeps the tag of the thread unless it was made with one", tags, |run| {
        let report = run.run().quiet().whole();
        let blocks = report.largest_live.iter().filter(|block| block.bytes == SIZE as u64);
        assert_eq!(blocks.filter(|block| block.name == "pages").count(), 3);
        assert_eq!(left(&report, &["plain"]), 2);
        assert_eq!(left(&report, &["tagged"]), 2);
    }),
    case("a span that is filtered out is no scope", filtered, |run| {
        let report = run.run().quiet().whole();
        assert_eq!(left(&report, &["on"]), 2);
        assert_eq!(left(&report, &["on", "inner"]), 1);
    }),
    case("a guard that is left open in a span is counted and closed with it", left_open, |run| {
        let outcome = run.run();
        let report = outcome.exited(0).whole();
        assert_eq!(report.losses.scope_misuses, 1);
        assert!(outcome.stderr.contains("tests/process/spans.rs"), "{}", outcome.stderr);
        assert_eq!(left(&report, &["span", "forgotten"]), 1);
        assert_eq!(left(&report, &[]), 1);
    }),
];

const SIZE: usize = 1_000_003;
const THREADS: usize = 4;

/// Blocks that scenarios leave in this scope of `GlobalScope`. What the registry of spans
/// allocates is in scopes, too.
fn left(report: &Report, path: &[&str]) -> usize {
    let blocks = report.largest_live.iter().filter(|block| block.bytes == SIZE as u64);
    blocks.filter(|block| block.path[1..] == *path).count()
}

/// A recording, and the layer on all threads.
fn begin() -> memledger::Ledger {
    let ledger = start();
    let layer = ScopeLayer::new().instance_field("name").instance_field("id");
    subscriber::set_global_default(tracing_subscriber::registry().with(layer)).unwrap();
    ledger
}

fn names_and_values() {
    let _ledger = begin();
    let mesh = alloc_scope!("load", { info_span!("Mesh", size = 3, name = "rock_07", id = 1) });
    mesh.in_scope(|| {
        leave(SIZE);
        alloc_scope!("vertices", { leave(SIZE) });
        info_span!("Texture").in_scope(|| leave(SIZE));
    });
    info_span!(parent: &mesh, "Texture").in_scope(|| leave(SIZE));
    for _ in 0..2 {
        info_span!("Mesh", name = String::from("rock_08")).in_scope(|| leave(SIZE));
    }
    info_span!("numbered", id = 17).in_scope(|| leave(SIZE));
    let path = std::path::Path::new("a/b");
    info_span!("shown", name = %path.display()).in_scope(|| leave(SIZE));
    let late = info_span!("late", name = field::Empty);
    late.in_scope(|| leave(SIZE));
    for value in ["now", "then"] {
        late.record("name", value);
        late.record("other", "no such field");
        late.in_scope(|| leave(SIZE));
    }
    late.in_scope(|| info_span!(parent: None, "outermost").in_scope(|| leave(SIZE)));
    leave(SIZE);
}

fn any_order() {
    let _ledger = begin();
    let [a, c] = [info_span!("a"), info_span!("c")];
    let b = a.in_scope(|| info_span!("b"));
    // Within itself.
    a.in_scope(|| {
        b.in_scope(|| {
            leave(SIZE);
            a.in_scope(|| leave(SIZE));
            leave(SIZE);
        });
        leave(SIZE);
    });
    leave(SIZE);
    // The outer one first, with one between that is left last.
    let entered_a = a.enter();
    let entered_c = c.enter();
    let again = a.enter();
    leave(SIZE);
    drop(entered_c);
    leave(SIZE);
    drop(entered_a);
    let entered_c = c.enter();
    drop(again);
    leave(SIZE);
    drop(entered_c);
    leave(SIZE);
}

fn several_threads() {
    let _ledger = begin();
    let shared = info_span!("shared");
    let all_in = Barrier::new(THREADS);
    std::thread::scope(|threads| {
        for _ in 0..THREADS {
            threads.spawn(|| {
                shared.in_scope(|| {
                    all_in.wait();
                    leave(SIZE);
                    info_span!("own").in_scope(|| leave(SIZE));
                    all_in.wait();
                    leave(SIZE);
                });
                leave(SIZE);
            });
        }
    });
}

fn instrumented() {
    fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut std::task::Context::from_waker(Waker::noop()))
    }
    let _ledger = begin();
    let task = async {
        leave(SIZE);
        let mut polls = 0;
        std::future::poll_fn(|_| {
            polls += 1;
            if polls > 1 {
                leave(SIZE);
                info_span!("inner").in_scope(|| leave(SIZE));
            }
            if polls > THREADS { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    };
    let mut task = Box::pin(task.instrument(info_span!("request", id = 7)));
    assert!(poll(task.as_mut()).is_pending());
    for last in (0..THREADS).rev() {
        let polled = std::thread::spawn(move || {
            alloc_scope!("polled here");
            assert_eq!(poll(task.as_mut()).is_ready(), last == 0);
            leave(SIZE);
            task
        });
        task = polled.join().unwrap();
    }
}

fn tags() {
    let _ledger = begin();
    let plain = info_span!("plain");
    let with_tag = tagged(PAGES, || info_span!("tagged"));
    plain.in_scope(|| leave(SIZE));
    tagged(PAGES, || plain.in_scope(|| leave(SIZE)));
    with_tag.in_scope(|| leave(SIZE));
    std::thread::scope(|threads| {
        threads.spawn(|| with_tag.in_scope(|| leave(SIZE)));
    });
}

fn filtered() {
    let _ledger = start();
    let layers = tracing_subscriber::registry().with(LevelFilter::INFO).with(ScopeLayer::new());
    subscriber::with_default(layers, || {
        info_span!("on").in_scope(|| {
            leave(SIZE);
            tracing::span!(Level::DEBUG, "off").in_scope(|| {
                leave(SIZE);
                info_span!("inner").in_scope(|| leave(SIZE));
            });
        });
        Span::none().in_scope(|| ());
    });
}

fn left_open() {
    let _ledger = begin();
    info_span!("span").in_scope(|| {
        std::mem::forget(ScopeGuard::enter("forgotten"));
        leave(SIZE);
    });
    leave(SIZE);
}
