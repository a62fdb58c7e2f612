//! Threads: many, short, at once, and one that starts and stops recording all the time.

use crate::allocator::{Request, held_up_at};
use crate::harness::{Case, builder, case, churn, leave, left, resident_bytes, scope, start};
use memledger::{Ledger, ReportTo, alloc_scope};
use parking_lot::Mutex;
use std::cell::RefCell;
use std::collections::HashSet;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::time::Duration;

pub(crate) const CASES: &[Case] = &[
    case("eight threads free what others allocated", exchange, |run| {
        let report = run.run().quiet().whole();
        assert!(report.totals.allocations > 80_000);
        let senders = report.by_thread.iter().filter(|row| row.name == "sender").count();
        assert_eq!(senders, 8);
    }),
    case("thread names and ids are right", names, |run| {
        let report = run.run().quiet().whole();
        for (bytes, name) in [
            (1_000_003, "main"),
            (1_000_033, "Ünïcode"),
            (1_000_037, "exactly 15 byte"),
            // Names of Windows are UTF-16, and Linux has files that name threads.
            #[cfg(target_os = "linux")]
            (1_000_039, r"no\xffutf8"),
            #[cfg(target_os = "linux")]
            (1_000_081, "named late"),
        ] {
            let block = report.largest_live.iter().find(|block| block.bytes == bytes).unwrap();
            assert_eq!(block.thread, name);
        }
    }),
    case("thousands of short threads have ids of their own and bounded memory", short, |run| {
        let outcome = run.env("TEST_THREADS", SHORT.to_string()).deadline(60).run();
        let report = outcome.quiet().whole();
        let ids: HashSet<_> = report.by_thread.iter().map(|row| row.id).collect();
        assert_eq!(ids.len(), report.by_thread.len());
        assert!(report.by_thread.len() >= SHORT, "{}", report.by_thread.len());
        let each = report.by_thread.iter().filter(|row| row.name == "short").count();
        assert_eq!(each, SHORT);
        let grown = outcome.stdout.trim().parse::<u64>().unwrap();
        assert!(grown < 40_000, "grew by {grown} KiB");
    }),
    case("two thousand threads alive at once", alive_at_once, |run| {
        let outcome = run.deadline(60).run();
        let report = outcome.quiet().whole();
        assert_eq!(left(&report, 1_000_003), 100, "as many as are listed");
        let threads = report.by_thread.iter().filter(|row| row.name == "alive").collect::<Vec<_>>();
        assert_eq!(threads.len(), 2000);
        assert!(threads.iter().all(|row| row.figures.live_bytes >= 1_000_003));
    }),
    case("ledgers start and finish while eight threads allocate", start_stop, |run| {
        // Each start waits until every thread was outside the hook: on a machine that is very busy
        // with other things, a minute for all of them.
        let outcome = run
            .env("TEST_ROUNDS", if cfg!(target_os = "linux") { "300" } else { "30" })
            .deadline(300)
            .run();
        outcome.quiet();
        for name in ["first", "middle", "last"] {
            let report = outcome.whole_as(&format!("{name}.utrace"), &format!("{name}.json"));
            assert_eq!(report.losses.unmatched_frees, 0);
        }
    }),
    case(
        "blocks that destructors of thread-locals free are freed by their thread",
        destructors,
        |run| {
            let report = run.run().quiet().whole();
            let row = scope(&report, &["GlobalScope", "kept by a thread"]).unwrap().figures;
            assert_eq!((row.allocations, row.frees, row.live_blocks), (2 * 50, 2 * 50, 0));
            let threads = report.by_thread.iter().filter(|row| row.name == "has values");
            let figures: Vec<_> = threads.map(|row| row.figures).collect();
            assert_eq!(figures.len(), 50);
            assert!(figures.iter().all(|row| row.frees >= 2), "{figures:?}");
        },
    ),
    case("threads that take turns reach the peak that they reach together", turns, |run| {
        // Their events share no memory, so only the turns say in which order they happened.
        let report = run.run().quiet().whole();
        let row = report.by_scope.iter().find(|row| row.path.ends_with(&["turns".into()])).unwrap();
        assert_eq!(row.figures.peak_bytes, 2 * 10 * 1000);
        assert_eq!(row.figures.live_bytes, 0);
        let rows = report.by_scope.iter().filter(|row| row.path.ends_with(&["alone".into()]));
        let alone = rows.map(|row| row.figures.peak_bytes).collect::<Vec<_>>();
        assert_eq!(alone, [10 * 1000], "one after the other, never together");
    }),
    #[cfg(unix)]
    case("a thread whose first allocation is in its last moments is retired", late_first, |run| {
        // Otherwise their buffers are never given back, and the child waits in vain.
        let report = run.run().quiet().whole();
        assert!(report.by_thread.len() >= 500);
    }),
    case("the tracker works while parking_lot grows its table", table_grows, |run| {
        let outcome = run.run();
        let report = outcome.quiet().whole();
        let (late, _) = outcome.trace("late.utrace");
        assert!(late.trace.complete);
        let work = scope(&report, &["GlobalScope", "work"]).unwrap().figures;
        assert!(work.allocations >= 4 * 10_000, "{work:?}");
        // The table and its buckets, which parking_lot keeps.
        for report in [report, late] {
            let grows = scope(&report, &["GlobalScope", "grows"]).unwrap().figures;
            assert!(grows.live_blocks >= 2, "{grows:?}");
        }
    }),
];

/// Short threads. Under Wine each takes some milliseconds.
const SHORT: usize = if cfg!(windows) { 2_000 } else { 20_000 };

/// Threads that leave blocks to the destructors of their values, of which one begins only then.
fn destructors() {
    struct Frees(Option<Box<[u8]>>);
    impl Drop for Frees {
        fn drop(&mut self) {
            let _ = LATE.try_with(|late| drop(black_box(late.replace(None))));
            drop(self.0.take());
        }
    }
    thread_local! {
        static VALUE: RefCell<Frees> = const { RefCell::new(Frees(None)) };
        static LATE: RefCell<Option<Box<[u8]>>> = const { RefCell::new(None) };
    }
    let _ledger = start();
    for _ in 0..50 {
        let body = || {
            alloc_scope!("kept by a thread");
            VALUE.with_borrow_mut(|value| value.0 = Some(black_box([1_u8; 1003].into())));
            LATE.set(Some(black_box([1_u8; 1005].into())));
        };
        std::thread::Builder::new().name("has values".into()).spawn(body).unwrap().join().unwrap();
    }
}

/// `parking_lot` keeps waiting threads in a table. When a thread waits for the first time and the
/// table is too small, the thread locks every bucket and allocates a larger table. Meanwhile
/// `parking_lot` can neither park nor wake a thread, so code that an allocation runs, or waits for,
/// must not need it.
///
/// Here the thread stays in that allocation while others allocate and the recording gets another
/// file. Then the hook records the allocation, with the buckets still locked.
fn table_grows() {
    /// `Bucket` of `parking_lot_core`: no other type that the thread allocates has this alignment.
    const BUCKETS: Request = Request::Aligned(64);
    /// The first table has room for that many waiting threads.
    const FIRST: usize = 5;
    let wait_a_moment = |mutex: &Mutex<()>| {
        assert!(mutex.try_lock_for(Duration::from_millis(1)).is_none());
    };
    let ledger = builder().analyze_in_process(true).start().unwrap();
    let mutex = &Mutex::new(());
    let held = mutex.lock();
    let has_waited = &Barrier::new(FIRST + 1);
    let half_done = &Barrier::new(4 + 1);
    std::thread::scope(|threads| {
        for _ in 0..FIRST {
            threads.spawn(move || {
                wait_a_moment(mutex);
                has_waited.wait();
                drop(mutex.lock());
            });
        }
        has_waited.wait();
        let grow = || {
            alloc_scope!("grows");
            wait_a_moment(mutex);
        };
        held_up_at(BUCKETS, grow, || {
            let work = move || {
                alloc_scope!("work");
                churn(5_000);
                half_done.wait();
                churn(5_000);
            };
            (0..4).for_each(|_| drop(threads.spawn(work)));
            half_done.wait();
            ledger.collect();
            assert!(ledger.snapshot().is_some());
            ledger.trace_to_file("late.utrace").unwrap();
            ledger.flush();
        });
        drop(held);
    });
}

/// Two threads, in turns: both allocate, then both free; or each does both before the other.
fn turns() {
    let _ledger = start();
    let turn = AtomicUsize::new(0);
    let wait_for = |number| {
        while turn.load(Ordering::Acquire) != number {
            std::hint::spin_loop();
        }
    };
    let body = |thread: usize| {
        let mut kept = Vec::with_capacity(10);
        for round in 0..10 {
            let take_turn = |number: usize, work: &mut dyn FnMut()| {
                let number = 6 * round + 2 * number + thread;
                wait_for(number);
                work();
                turn.store(number + 1, Ordering::Release);
            };
            let fill =
                |kept: &mut Vec<_>| kept.extend((0..10).map(|_| black_box([0_u8; 1000]).to_vec()));
            take_turn(0, &mut || alloc_scope!("turns", { fill(&mut kept) }));
            take_turn(1, &mut || kept.clear());
            take_turn(2, &mut || {
                alloc_scope!("alone", { fill(&mut kept) });
                kept.clear();
            });
        }
    };
    std::thread::scope(|scope| (0..2).for_each(|thread| drop(scope.spawn(move || body(thread)))));
}

fn exchange() {
    let _ledger = start();
    let (channels, receivers): (Vec<_>, Vec<_>) =
        (0..8).map(|_| mpsc::channel::<Box<[u8]>>()).unzip();
    let threads: Vec<_> = receivers
        .into_iter()
        .enumerate()
        .map(|(number, receiver)| {
            let next = channels[(number + 1) % 8].clone();
            let body = move || {
                for step in 0..10_000 {
                    let size = 1 + (step * 7 + number) % 512;
                    let block = black_box(vec![0_u8; size].into_boxed_slice());
                    if next.send(block).is_err() {
                        break;
                    }
                    drop(receiver.try_recv());
                }
                drop(next);
                receiver.iter().for_each(drop);
            };
            std::thread::Builder::new().name("sender".into()).spawn(body).unwrap()
        })
        .collect();
    drop(channels);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

fn names() {
    let ledger = start();
    leave(1_000_003);
    for (name, bytes) in [("Ünïcode", 1_000_033), ("exactly 15 bytes and more", 1_000_037)] {
        let builder = std::thread::Builder::new().name(name.into());
        builder.spawn(move || leave(bytes)).unwrap().join().unwrap();
    }
    if cfg!(target_os = "linux") {
        let rename = |name: &[u8]| std::fs::write("/proc/thread-self/comm", name).unwrap();
        std::thread::scope(|scope| {
            let not_text = scope.spawn(|| {
                rename(b"no\xffutf8");
                leave(1_000_039);
            });
            not_text.join().unwrap();
            // It has the name of this thread until the worker knows it; then it is looked at at its end.
            let late = scope.spawn(|| {
                leave(1_000_081);
                (0..3).for_each(|_| ledger.flush());
                rename(b"named late");
            });
            late.join().unwrap();
        });
    }
    drop(ledger);
}

pub(crate) fn short() {
    let count = std::env::var("TEST_THREADS").unwrap().parse::<usize>().unwrap();
    let _ledger = start();
    let spawn = || {
        let builder = std::thread::Builder::new().name("short".into()).stack_size(64 << 10);
        builder.spawn(|| drop(black_box(vec![1_u8; 100]))).unwrap()
    };
    // Some at a time, so that ends and starts overlap.
    let batch = |size: usize| {
        let threads: Vec<_> = (0..size).map(|_| spawn()).collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    };
    batch(16);
    let before = resident_bytes() >> 10;
    let mut left = count - 16;
    while left > 0 {
        let size = left.min(16);
        batch(size);
        left -= size;
    }
    println!("{}", (resident_bytes() >> 10).saturating_sub(before));
}

fn alive_at_once() {
    let _ledger = start();
    let ready = Arc::new(Barrier::new(2001));
    let threads: Vec<_> = (0..2000)
        .map(|_| {
            let ready = ready.clone();
            let builder = std::thread::Builder::new().name("alive".into()).stack_size(64 << 10);
            let body = move || {
                leave(1_000_003);
                ready.wait();
                churn(20);
            };
            builder.spawn(body).unwrap()
        })
        .collect();
    ready.wait();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

fn start_stop() {
    let rounds = std::env::var("TEST_ROUNDS").unwrap().parse::<usize>().unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let threads: Vec<_> = (0..8)
        .map(|_| {
            let stop = stop.clone();
            std::thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    memledger::alloc_scope!("work", { churn(100) });
                }
            })
        })
        .collect();
    for round in 0..rounds {
        let name = match round {
            0 => "first",
            _ if round == rounds / 2 => "middle",
            _ if round == rounds - 1 => "last",
            _ => {
                let ledger = Ledger::builder().start().unwrap();
                let _ = ledger.finish();
                continue;
            }
        };
        let ledger = Ledger::builder()
            .trace_to_file(format!("{name}.utrace"))
            .report_on_exit(ReportTo::file(format!("{name}.json")));
        drop(ledger.start().unwrap());
    }
    stop.store(true, Ordering::Relaxed);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

/// Threads of C that allocate nothing but in the destructor of a key.
#[cfg(unix)]
#[expect(unsafe_code, reason = "system calls")]
fn late_first() {
    static SET: AtomicBool = AtomicBool::new(false);
    static mut KEY: libc::pthread_key_t = 0;
    extern "C" fn destroy(_: *mut libc::c_void) {
        drop(black_box(vec![1_u8; 100]));
    }
    extern "C" fn body(_: *mut libc::c_void) -> *mut libc::c_void {
        assert!(SET.load(Ordering::Acquire));
        // SAFETY: the key exists; the value is a number.
        unsafe { libc::pthread_setspecific(KEY, std::ptr::without_provenance(1)) };
        std::ptr::null_mut()
    }
    let ledger = start();
    // SAFETY: the destructor has the required form; the key is written before any thread starts.
    unsafe { assert_eq!(libc::pthread_key_create(&raw mut KEY, Some(destroy)), 0) };
    SET.store(true, Ordering::Release);
    for _ in 0..500 {
        // SAFETY: plain calls on locals; `body` takes no argument.
        unsafe {
            let mut thread = std::mem::zeroed();
            let none = std::ptr::null();
            let started = libc::pthread_create(&raw mut thread, none, body, std::ptr::null_mut());
            assert_eq!(started, 0);
            libc::pthread_join(thread, std::ptr::null_mut());
        }
    }
    while ledger.recent_stats().buffer_bytes > 100 * 4096 {
        ledger.flush();
        std::thread::yield_now();
    }
}
