//! The proof: the report equals what an allocator outside the tracker has counted, to the byte.

use crate::allocator::{Sum, counted, nobody_counted, uncounted};
use crate::harness::{Case, Outcome, REPORT, TRACE, case, heavy_case};
use memledger::{Ledger, LedgerBuilder};
use std::alloc::{Layout, alloc, alloc_zeroed, dealloc, realloc};
use std::hint::black_box;
use std::sync::mpsc;

pub(crate) const CASES: &[Case] = &[
    case("eight threads agree with the report to the byte", work, |run| {
        let operations = std::env::var("TEST_OPERATIONS").unwrap_or("1000000".into());
        check(&run.env("TEST_OPERATIONS", operations).deadline(1800).run());
    }),
    heavy_case("serials that wrap agree with the report to the byte", wrap, |run| {
        let outcome = run.deadline(600).run();
        let (_, summary) = outcome.trace(TRACE);
        assert!(summary.counts.last_serial.unwrap() > 1 << 24);
        check(&outcome);
    }),
];

#[track_caller]
pub(crate) fn check(outcome: &Outcome) {
    let report = outcome.quiet().whole();
    let totals = &report.totals;
    let found = [
        totals.allocations,
        totals.frees,
        totals.reallocations,
        totals.allocated_bytes,
        totals.live_blocks,
        totals.live_bytes,
    ];
    let expected: Vec<_> =
        outcome.stdout.split_whitespace().map(|word| word.parse::<u64>().unwrap()).collect();
    assert_eq!(found, *expected);
    assert_eq!(report.trace.from_process_start, Some(true));
}

/// A recording beside which the program's own count is kept.
pub(crate) struct Exact {
    ledger: Ledger,
}

impl Exact {
    /// Starts a recording to the usual files. The builder must hold no memory of the program: all
    /// that happens in the start itself is the tracker's, and not counted.
    pub(crate) fn start(builder: LedgerBuilder) -> Self {
        // SAFETY: there is no other thread yet.
        #[expect(unsafe_code)]
        unsafe {
            std::env::set_var("MEMLEDGER_TRACE", TRACE);
            std::env::set_var("MEMLEDGER_REPORT", REPORT);
            // A report that is named there starts a watcher.
            std::env::set_var("MEMLEDGER_WATCH", "0");
        }
        let ledger = nobody_counted(|| builder.start().unwrap());
        Self { ledger }
    }

    pub(crate) fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Ends the recording, and returns what the program had done until then.
    pub(crate) fn finish(self) -> Sum {
        // NOTE: not at the start, when it may not have its name yet.
        let sum = counted(worker());
        let _ = uncounted(|| self.ledger.finish());
        sum
    }
}

/// The tracker's thread that collects; 0 if there is none.
#[cfg(not(target_os = "linux"))]
fn worker() -> u32 {
    let is_worker = |&id: &u32| crate::harness::name_of_thread(id) == "memledger";
    crate::allocator::counted_threads().find(is_worker).unwrap_or(0)
}

/// The tracker's thread that collects; 0 if there is none.
#[cfg(target_os = "linux")]
fn worker() -> u32 {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap().path());
    let named = tasks.map(|task| (std::fs::read_to_string(task.join("comm")).unwrap(), task));
    let worker = named.filter(|(name, _)| name == "memledger\n").map(|(_, task)| task).next();
    worker.map_or(0, |task| task.file_name().unwrap().to_str().unwrap().parse().unwrap())
}

/// Events that a program with this count emits, a reallocation being one.
pub(crate) fn events(sum: Sum) -> u64 {
    sum.allocations + sum.frees + sum.reallocations
}

pub(crate) fn print(sum: Sum) {
    let live_blocks = sum.allocations - sum.frees;
    let live_bytes = sum.allocated_bytes - sum.freed_bytes;
    println!(
        "{} {} {} {} {live_blocks} {live_bytes}",
        sum.allocations, sum.frees, sum.reallocations, sum.allocated_bytes
    );
}

/// A block that knows its layout, and is freed by whichever thread drops it.
struct Block {
    start: *mut u8,
    layout: Layout,
}

// SAFETY: the block is the owner's alone.
#[expect(unsafe_code)]
unsafe impl Send for Block {}

#[expect(unsafe_code, reason = "calls the allocator directly")]
impl Block {
    fn new(size: usize, align: usize, zeroed: bool) -> Self {
        let layout = Layout::from_size_align(size, align).unwrap();
        // SAFETY: the size is not 0.
        let start = black_box(unsafe { if zeroed { alloc_zeroed(layout) } else { alloc(layout) } });
        assert!(!start.is_null());
        // SAFETY: the block has at least one byte.
        unsafe { start.write(size as u8) };
        Self { start, layout }
    }

    fn resize(&mut self, size: usize) {
        // SAFETY: the block has this layout, and the size is not 0.
        let new = black_box(unsafe { realloc(self.start, self.layout, size) });
        assert!(!new.is_null());
        self.start = new;
        self.layout = Layout::from_size_align(size, self.layout.align()).unwrap();
    }
}

#[expect(unsafe_code, reason = "calls the allocator directly")]
impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: the block has this layout and is freed once.
        unsafe { dealloc(self.start, self.layout) };
    }
}

/// A small generator of its own: the run is the same every time, but for the order of threads.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % end
    }
}

const THREADS: usize = 8;

fn work() {
    let operations = std::env::var("TEST_OPERATIONS").unwrap().parse::<usize>().unwrap();
    let exact = Exact::start(Ledger::builder());
    let (senders, receivers): (Vec<_>, Vec<_>) =
        (0..THREADS).map(|_| mpsc::sync_channel::<Block>(256)).unzip();
    let threads: Vec<_> = receivers
        .into_iter()
        .enumerate()
        .map(|(number, receiver)| {
            let senders = senders.clone();
            std::thread::spawn(move || {
                one_thread(number, operations / THREADS, &senders, &receiver)
            })
        })
        .collect();
    drop(senders);
    let kept: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    // Some blocks stay alive.
    std::mem::forget(kept);
    print(exact.finish());
}

fn one_thread(
    number: usize,
    operations: usize,
    senders: &[mpsc::SyncSender<Block>],
    receiver: &mpsc::Receiver<Block>,
) -> Vec<Block> {
    let mut random = Random(0x9e37_79b9_7f4a_7c15 ^ (number as u64 + 1) << 32);
    let mut held: Vec<Block> = Vec::new();
    for step in 0..operations {
        let size = match random.below(100) {
            0 => 1 + random.below(1 << 20),
            1..10 => 1 + random.below(10_000),
            _ => 1 + random.below(200),
        };
        match random.below(10) {
            0..4 => {
                let align = if random.below(8) == 0 { 16 << random.below(8) } else { 8 };
                memledger::alloc_scope!("allocate", {
                    held.push(Block::new(size, align, random.below(5) == 0));
                });
            }
            4..6 if !held.is_empty() => {
                let index = random.below(held.len());
                held[index].resize(size);
            }
            6..8 if !held.is_empty() => {
                let block = held.swap_remove(random.below(held.len()));
                // A full channel is no reason to wait: two threads might for each other.
                let _ = senders[random.below(THREADS)].try_send(block);
            }
            _ => {
                drop(receiver.try_recv());
                if !held.is_empty() {
                    drop(held.swap_remove(random.below(held.len())));
                }
            }
        }
        if held.len() > 1000 {
            held.truncate(500);
        }
        if step % 10_000 == 0 {
            // What std allocates for itself counts as well.
            drop(black_box(
                std::thread::spawn(|| format!("{:?}", std::thread::current().id())).join(),
            ));
        }
    }
    held
}

/// More events than a serial's 24 bits can number.
fn wrap() {
    let exact = Exact::start(Ledger::builder());
    let threads: Vec<_> = (0..THREADS)
        .map(|_| {
            std::thread::spawn(|| {
                for number in 0..(18 << 20) / THREADS / 2 {
                    drop(black_box(Box::new(number)));
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    print(exact.finish());
}
