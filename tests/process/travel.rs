//! Scopes that travel: to threads, with futures; as the report of a whole process shows them.

use crate::allocator::{Request, hold, while_held};
use crate::harness::{Case, case, churn, leave, scope, start};
use memledger::{
    AllocScope, Name, ScopeContext, ScopeGuard, Scoped, Tag, alloc_scope, group, tag, tagged,
};
use memledger_analysis::{Figures, Report};
use std::hint::black_box;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Poll, Waker};

group! {
    STORAGE = "Storage";
}

const PAGES: Tag = tag!(STORAGE, "pages");

pub(crate) const CASES: &[Case] = &[
    case("a thousand tasks on four threads have each its own bytes", thousand_tasks, |run| {
        let outcome = run.deadline(120).run();
        let report = outcome.quiet().whole();
        assert_eq!(report.losses.scope_misuses, 0);
        let counts = outcome.stdout.lines().map(|line| line.split(' ').map(|n| n.parse().unwrap()));
        let counts: Vec<Vec<u64>> = counts.map(Iterator::collect).collect();
        assert_eq!(counts.len(), TASKS);
        for (task, counted) in counts.iter().enumerate() {
            let row = figures(&report, &["GlobalScope", "tasks", &format!("task {task}")]);
            let reported = [
                row.allocations,
                row.reallocations,
                row.frees,
                row.allocated_bytes,
                row.live_blocks,
                row.live_bytes,
            ];
            assert_eq!(reported[..], counted[..], "task {task}");
        }
        assert!(counts.iter().all(|counted| counted[0] >= YIELDS as u64 && counted[5] > 0));
    }),
    case("a context is entered on other threads", on_other_threads, |run| {
        let report = run.run().quiet().whole();
        assert_eq!(live(&report, &["GlobalScope", "outer"]), 1 + 2 + 4 + 8);
        assert_eq!(live(&report, &["GlobalScope", "outer", "inner"]), 16 + 32);
        assert_eq!(live(&report, &["GlobalScope", "elsewhere"]), 64 + 128);
        assert_eq!(named(&report, &["Storage"], "pages"), 1 + 2 + 4 + 8 + 16 + 32);
        assert_eq!(report.losses.scope_misuses, 0);
    }),
    case(
        "a scope of threads ends before std has freed what it keeps for them",
        not_joined,
        |run| {
            let outcome = run.run();
            outcome.quiet().whole();
            // In std 1.95: the place of the thread's result (48 bytes), the thread's handle (48),
            // and the state of the scope (40) if the thread is the last that has it. So there are
            // three at most.
            let blocks = outcome.stdout.split_whitespace().count();
            assert!(blocks > 0, "{}", outcome.stdout);
        },
    ),
    case(
        "a future keeps its scopes on whichever thread it is polled",
        from_thread_to_thread,
        |run| {
            let report = run.run().quiet().whole();
            assert_eq!(live(&report, &["GlobalScope", "made here", "task"]), THREADS as u64 + 1);
            assert_eq!(
                live(&report, &["GlobalScope", "made here", "task", "inner"]),
                THREADS as u64
            );
            assert_eq!(live(&report, &["GlobalScope", "polled here"]), THREADS as u64);
            assert_eq!(report.losses.scope_misuses, 0);
        },
    ),
    case("memory of a future belongs to it whoever frees or grows it", freed_elsewhere, |run| {
        let report = run.run().quiet().whole();
        let row = figures(&report, &["GlobalScope", "task"]);
        assert_eq!((row.allocations, row.reallocations, row.frees), (2, 1, 2));
        assert_eq!(row.allocated_bytes, 100 + 200 + 400);
    }),
    case("guards inside futures of one thread are each future's own", interleaved, |run| {
        let report = run.run().quiet().whole();
        for task in ["a", "b", "c"] {
            assert_eq!(live(&report, &["GlobalScope", task]), 1, "{task}");
            assert_eq!(live(&report, &["GlobalScope", task, "held"]), 1);
            assert_eq!(live(&report, &["GlobalScope", task, "held", "deeper"]), 10);
        }
        assert_eq!(live(&report, &["GlobalScope", "after"]), 1);
        assert_eq!(report.losses.scope_misuses, 0);
    }),
    case(
        "guards across await without a future of their own are counted and put right",
        unscoped,
        |run| {
            let outcome = run.run();
            let report = outcome.exited(0).whole();
            assert_eq!(report.losses.scope_misuses, 2);
            assert!(outcome.stderr.contains("tests/process/travel.rs"), "{}", outcome.stderr);
            assert_eq!(live(&report, &["GlobalScope", "after"]), 1);
        },
    ),
    case("a future that is dropped or panics leaves the thread where it was", cut_short, |run| {
        let report = run.run().exited(0).whole();
        // Dropped while it waits, with a guard open: its destructors run in its scopes.
        assert_eq!(live(&report, &["GlobalScope", "dropped", "open"]), 2);
        // Dropped before it was polled.
        assert_eq!(live(&report, &["GlobalScope", "never polled"]), 1);
        assert_eq!(live(&report, &["GlobalScope", "panics", "open"]), 1);
        assert_eq!(live(&report, &["GlobalScope", "panics when dropped"]), 1);
        assert_eq!(live(&report, &["GlobalScope", "after"]), 5);
        assert_eq!(report.losses.scope_misuses, 0);
    }),
    case("futures polled within others have the scopes they were made in", within_others, |run| {
        let report = run.run().quiet().whole();
        assert_eq!(live(&report, &["GlobalScope", "outer"]), 3);
        assert_eq!(live(&report, &["GlobalScope", "outer", "awaited"]), 1);
        assert_eq!(live(&report, &["GlobalScope", "outer", "guarded", "blocked on"]), 1);
        assert_eq!(live(&report, &["GlobalScope", "made before"]), 1);
        assert_eq!(report.losses.scope_misuses, 0);
    }),
    case("groups and tags go with a future", owned_futures, |run| {
        let report = run.run().quiet().whole();
        assert_eq!(named(&report, &["Storage"], "Unnamed"), 2 + 4 + 64);
        assert_eq!(named(&report, &["Storage"], "pages"), 8 + 16);
        assert_eq!(live(&report, &["GlobalScope", "grouped"]), 2);
        assert_eq!(live(&report, &["GlobalScope", "grouped", "plain"]), 4 + 8);
        assert_eq!(live(&report, &["GlobalScope", "by macro"]), 2);
        assert_eq!(live(&report, &["GlobalScope", "between"]), 32);
        assert_eq!(live(&report, &["GlobalScope", "grouped by macro"]), 64);
        assert_eq!(report.losses.scope_misuses, 0);
    }),
    case("a guard that a future forgets is counted and does not stay", forgetful, |run| {
        let outcome = run.run();
        let report = outcome.exited(0).whole();
        assert_eq!(report.losses.scope_misuses, 1);
        assert!(outcome.stderr.contains("tests/process/travel.rs"), "{}", outcome.stderr);
        assert_eq!(live(&report, &["GlobalScope", "task", "forgotten"]), 2);
        assert_eq!(live(&report, &["GlobalScope", "after"]), 1);
    }),
    case("a guard that outlives its tag is counted and does not keep it", tag_escapes, |run| {
        let outcome = run.run();
        let report = outcome.exited(0).whole();
        assert_eq!(report.losses.scope_misuses, 4);
        assert_eq!(named(&report, &["Storage"], "pages"), 1 + 2);
        assert_eq!(live(&report, &["GlobalScope", "after"]), 4);
    }),
];

fn figures(report: &Report, path: &[&str]) -> Figures {
    scope(report, path).unwrap_or_else(|| panic!("nothing in {path:?}")).figures
}

/// Live blocks, of those that scenarios leave.
fn live(report: &Report, path: &[&str]) -> u64 {
    let figures = figures(report, path);
    assert_eq!(figures.live_bytes, figures.live_blocks * SIZE as u64, "{path:?}");
    figures.live_blocks
}

fn named(report: &Report, group: &[&str], name: &str) -> u64 {
    let row = report.by_name.iter().find(|row| row.group == group && row.name == name);
    row.map_or(0, |row| row.figures.live_blocks)
}

const SIZE: usize = 1_000_003;

fn leave_blocks(blocks: usize) {
    (0..blocks).for_each(|_| leave(SIZE));
}

/// Waits once: what a task does while it gives way to others.
async fn give_way() {
    let mut waited = false;
    std::future::poll_fn(|context| {
        context.waker().wake_by_ref();
        if std::mem::replace(&mut waited, true) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut std::task::Context::from_waker(Waker::noop()))
}

/// Polls until the end, on this thread.
fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = poll(future.as_mut()) {
            return output;
        }
    }
}

const TASKS: usize = 1000;
const YIELDS: usize = 100;

fn thousand_tasks() {
    /// What a task has done, by its own count.
    #[derive(Default)]
    struct Count {
        allocations: u64,
        reallocations: u64,
        frees: u64,
        allocated_bytes: u64,
        live_bytes: u64,
    }

    async fn task(number: usize) -> (Count, Vec<Vec<u8>>) {
        let mut count = Count::default();
        // Capacity for all blocks, so that the vector itself does not grow.
        let mut kept: Vec<Vec<u8>> = Vec::with_capacity(YIELDS);
        count.allocations += 1;
        count.allocated_bytes += (YIELDS * size_of::<Vec<u8>>()) as u64;
        count.live_bytes += (YIELDS * size_of::<Vec<u8>>()) as u64;
        for round in 0..YIELDS {
            let bytes = 1 + (number * 31 + round * 7) % 500;
            kept.push(black_box(Vec::with_capacity(bytes)));
            count.allocations += 1;
            count.allocated_bytes += bytes as u64;
            count.live_bytes += bytes as u64;
            // What the runtime itself allocates for this is not the task's.
            tokio::task::yield_now().alloc_scope("yield").await;
            if round % 3 == 0 {
                // Perhaps on another thread than it was allocated on.
                let grown = &mut kept[round / 2];
                let before = grown.capacity();
                grown.reserve_exact(black_box(before + 100));
                count.reallocations += 1;
                count.allocated_bytes += grown.capacity() as u64;
                count.live_bytes += (grown.capacity() - before) as u64;
            }
            if round % 5 == 0 {
                let freed = kept.pop().unwrap();
                count.frees += 1;
                count.live_bytes -= freed.capacity() as u64;
            }
        }
        (count, kept)
    }

    let _ledger = start();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).build().unwrap();
    let tasks: Vec<_> = alloc_scope!("tasks", {
        let tasks = (0..TASKS).map(|number| {
            let name = Name::intern(&format!("task {number}"));
            runtime.spawn(task(number).alloc_scope(name))
        });
        tasks.collect()
    });
    for task in tasks {
        let (count, mut kept) = runtime.block_on(task).unwrap();
        // Freed by this thread, outside of all scopes.
        let freed = kept.pop().unwrap();
        println!(
            "{} {} {} {} {} {}",
            count.allocations,
            count.reallocations,
            count.frees + 1,
            count.allocated_bytes,
            count.allocations - count.frees - 1,
            count.live_bytes - freed.capacity() as u64,
        );
        std::mem::forget(kept);
    }
}

fn on_other_threads() {
    let _ledger = start();
    let context = alloc_scope!("outer", { tagged(PAGES, ScopeContext::current) });
    alloc_scope!("elsewhere");
    context.run(|| leave_blocks(1));
    leave_blocks(64);
    std::thread::scope(|threads| {
        // NOTE: joined one by one, because a scope of threads does not wait for their last frees. A
        // recording that ends at once has up to three blocks more: see `not_joined`.
        let one = threads.spawn(move || {
            alloc_scope!("the thread's own");
            let _entered = context.enter();
            leave_blocks(2);
            alloc_scope!("inner", { leave_blocks(16) });
        });
        let other = threads.spawn(move || context.run(|| leave_blocks(4)));
        one.join().unwrap();
        other.join().unwrap();
    });
    let thread = context.run(|| {
        memledger::spawn(|| {
            leave_blocks(8);
            alloc_scope!("inner", { leave_blocks(32) });
        })
    });
    thread.join().unwrap();
    leave_blocks(128);
}

/// What a thread returns. If the thread is not joined, this is dropped on it, right before the
/// scope of threads may end.
struct NextFreeIsHeld;

impl Drop for NextFreeIsHeld {
    fn drop(&mut self) {
        hold(Request::Free);
    }
}

/// Holds a thread between the end of its scope and its first free after that; prints the sizes of
/// the blocks that std keeps for the thread, allocated in "threads". They are alive then, so the
/// report counts them, correctly. They are gone when the thread has ended.
fn not_joined() {
    let ledger = start();
    let alive = || {
        let snapshot = ledger.snapshot().unwrap();
        let blocks = snapshot.report().largest_live.iter();
        let blocks = blocks.filter(|block| block.path == ["GlobalScope", "threads"]);
        blocks.map(|block| block.bytes.to_string()).collect::<Vec<_>>()
    };
    let may_end = AtomicBool::new(false);
    alloc_scope!("threads", {
        std::thread::scope(|threads| {
            let handle = threads.spawn(|| {
                while !may_end.load(Ordering::Acquire) {
                    std::thread::yield_now();
                }
                NextFreeIsHeld
            });
            // Before the thread returns: the last of the two drops the result.
            drop(handle);
            may_end.store(true, Ordering::Release);
        });
    });
    while_held(|| println!("{}", alive().join(" ")));
    while !alive().is_empty() {
        std::thread::yield_now();
    }
}

const THREADS: usize = 5;

fn from_thread_to_thread() {
    let _ledger = start();
    let task = alloc_scope!("made here", {
        async {
            leave(SIZE);
            for _ in 0..THREADS {
                give_way().await;
                leave(SIZE);
                alloc_scope!("inner", { leave(SIZE) });
            }
        }
        .alloc_scope("task")
    });
    let mut task = Box::pin(task);
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

fn freed_elsewhere() {
    let _ledger = start();
    let task = async {
        let grown = black_box(Vec::<u8>::with_capacity(100));
        give_way().await;
        (grown, black_box(vec![1_u8; 200]))
    };
    let (mut grown, freed) = block_on(task.alloc_scope("task"));
    alloc_scope!("other");
    std::thread::spawn(move || drop(freed)).join().unwrap();
    grown.reserve_exact(black_box(400));
    drop(black_box(grown));
}

/// Polls these in turn, on this thread, until all are ready.
fn run_in_turn<F: Future>(mut tasks: Vec<Pin<Box<F>>>) {
    while !tasks.is_empty() {
        tasks.retain_mut(|task| poll(task.as_mut()).is_pending());
    }
}

fn interleaved() {
    async fn task() {
        leave(SIZE);
        let _held = ScopeGuard::enter("held");
        give_way().await;
        leave(SIZE);
        for _ in 0..10 {
            let _deeper = ScopeGuard::enter("deeper");
            give_way().await;
            leave(SIZE);
        }
    }
    let _ledger = start();
    run_in_turn(["a", "b", "c"].map(|name| Box::pin(task().alloc_scope(name))).into());
    alloc_scope!("after", { leave(SIZE) });
}

fn unscoped() {
    async fn task(name: &'static str) {
        let _guard = ScopeGuard::enter(name);
        give_way().await;
        churn(10);
    }
    let _ledger = start();
    run_in_turn(["a", "b"].map(|name| Box::pin(task(name))).into());
    alloc_scope!("after", { leave(SIZE) });
}

/// Leaves a block when it is dropped.
struct LeavesBlock;

impl Drop for LeavesBlock {
    fn drop(&mut self) {
        leave(SIZE);
    }
}

fn cut_short() {
    let _ledger = start();
    let after = || alloc_scope!("after", { leave(SIZE) });
    let task = async {
        let _guard = ScopeGuard::enter("open");
        leave(SIZE);
        let _drops = LeavesBlock;
        std::future::pending::<()>().await;
    };
    let mut task = Box::pin(task.alloc_scope("dropped"));
    assert!(poll(task.as_mut()).is_pending());
    after();
    drop(task);
    after();

    let captured = LeavesBlock;
    drop(async move { drop(captured) }.alloc_scope("never polled"));
    after();

    let task = async {
        let _guard = ScopeGuard::enter("open");
        give_way().await;
        leave(SIZE);
        panic!("in poll");
    };
    let mut task = Box::pin(task.alloc_scope("panics"));
    assert!(poll(task.as_mut()).is_pending());
    catch_unwind(AssertUnwindSafe(|| poll(task.as_mut()))).unwrap_err();
    after();

    struct Panics;
    impl Drop for Panics {
        fn drop(&mut self) {
            leave(SIZE);
            panic!("in drop");
        }
    }
    let captured = Panics;
    let task = async move { drop(captured) }.alloc_scope("panics when dropped");
    catch_unwind(AssertUnwindSafe(|| drop(task))).unwrap_err();
    after();
}

fn within_others() {
    let _ledger = start();
    let before = async { leave(SIZE) }.alloc_scope("made before");
    let outer = async {
        leave(SIZE);
        async {
            give_way().await;
            leave(SIZE);
        }
        .alloc_scope("awaited")
        .await;
        leave(SIZE);
        before.await;
        alloc_scope!("guarded", {
            let inner = async {
                give_way().await;
                leave(SIZE);
            };
            block_on(inner.alloc_scope("blocked on"));
        });
        leave(SIZE);
    };
    block_on(outer.alloc_scope("outer"));
}

fn owned_futures() {
    let _ledger = start();
    let task = async {
        leave_blocks(2);
        let plain = async {
            leave_blocks(4);
            let tagged: Scoped<_> = async {
                give_way().await;
                leave_blocks(8);
            }
            .alloc_tagged(PAGES);
            tagged.await;
        };
        plain.alloc_scope("plain").await;
    };
    block_on(task.alloc_scope_in_group(&STORAGE, "grouped"));
    let context = tagged(PAGES, ScopeContext::current);
    block_on(async { leave_blocks(16) }.in_context(context));
    // The scope of an `async` block is around its polls.
    let mut task = pin!(alloc_scope!("by macro", async {
        leave_blocks(1);
        give_way().await;
        leave_blocks(1);
    }));
    assert!(poll(task.as_mut()).is_pending());
    alloc_scope!("between", leave_blocks(32));
    assert!(poll(task).is_ready());
    let blocks = 64;
    block_on(alloc_scope!(group: STORAGE, "grouped by macro", async move { leave_blocks(blocks) }));
}

fn forgetful() {
    let _ledger = start();
    let task = async {
        std::mem::forget(ScopeGuard::enter("forgotten"));
        leave(SIZE);
        give_way().await;
        leave(SIZE);
    };
    block_on(task.alloc_scope("task"));
    alloc_scope!("after", { leave(SIZE) });
}

fn tag_escapes() {
    let _ledger = start();
    let guard = tagged(PAGES, || {
        leave(SIZE);
        ScopeGuard::enter("escapes")
    });
    alloc_scope!("after", { leave(SIZE) });
    drop(guard);
    alloc_scope!("after", { leave(SIZE) });
    // The other way round: left while a tag of later is in force.
    let guard = ScopeGuard::enter("outer");
    tagged(PAGES, || {
        leave_blocks(2);
        drop(guard);
    });
    alloc_scope!("after", { leave_blocks(2) });
}
