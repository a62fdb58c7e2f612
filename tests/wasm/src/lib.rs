//! What a host calls: allocations in scopes, groups and names, counted by the program itself, too. The
//! results are one JSON document, in the memory of the program.

use memledger::{Ledger, TrackingAllocator, Worker, alloc_scope, group, report::json, tag, tagged};
use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

#[global_allocator]
static ALLOCATOR: TrackingAllocator<Counting> = TrackingAllocator::new(Counting);

group! {
    /// What has the same size on all processors.
    FIXED = "Fixed";
    /// What is larger where pointers are.
    POINTERS = "Pointers";
}

/// Counts what the program does while [`COUNTS`] is set: the tracker works only outside of that.
struct Counting;

static COUNTS: AtomicBool = AtomicBool::new(false);
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
static FREES: AtomicU64 = AtomicU64::new(0);
static REALLOCATIONS: AtomicU64 = AtomicU64::new(0);
static ALLOCATED: AtomicU64 = AtomicU64::new(0);
static LIVE: AtomicU64 = AtomicU64::new(0);
static PEAK: AtomicU64 = AtomicU64::new(0);

fn count(number: &AtomicU64, new: usize, old: usize) {
    if COUNTS.load(Relaxed) {
        number.fetch_add(1, Relaxed);
        ALLOCATED.fetch_add(new as u64, Relaxed);
        let live = LIVE.load(Relaxed) + new as u64 - old as u64;
        LIVE.store(live, Relaxed);
        PEAK.fetch_max(live, Relaxed);
    }
}

// SAFETY: passes everything on.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(&ALLOCATIONS, layout.size(), 0);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(&ALLOCATIONS, layout.size(), 0);
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count(&FREES, 0, layout.size());
        // SAFETY: as above.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(&REALLOCATIONS, size, layout.size());
        // SAFETY: as above.
        unsafe { System.realloc(block, layout, size) }
    }
}

/// Runs the program's own work, and counts it.
fn counted<R>(work: impl FnOnce() -> R) -> R {
    COUNTS.store(true, Relaxed);
    let result = work();
    COUNTS.store(false, Relaxed);
    result
}

/// What stays live.
#[derive(Default)]
struct Kept {
    numbers: Vec<Vec<u64>>,
    text: String,
    words: BTreeMap<u32, u32>,
    pointers: Vec<usize>,
}

fn frame(kept: &mut Kept, number: u32) {
    alloc_scope!("frame");
    {
        alloc_scope!(group: FIXED, "numbers");
        for count in 0..50_u32 {
            let mut numbers = Vec::new();
            numbers.extend((0..count).map(u64::from));
            numbers.push(u64::from(number));
            if count % 10 == 0 {
                kept.numbers[(number % 8) as usize] = numbers
            } else {
                drop(numbers)
            }
        }
    }
    {
        alloc_scope!(group: FIXED, "text");
        kept.text.push_str("some words that are longer than eight bytes");
        let _copy = tagged(tag!(FIXED, "copy"), || black_box(kept.text.clone()));
    }
    let _zeros = tagged(tag!(FIXED, "zeros"), || black_box(vec![0_u8; 1000 + number as usize]));
    alloc_scope!(group: POINTERS, "pointers");
    kept.pointers.push(number as usize);
    kept.words.insert(number, number);
}

/// The work of some frames: the figures of memledger, and the program's own.
pub fn results() -> String {
    // Has what was allocated before, so its figures are not those of the work alone.
    recorded(1);
    let start =
        |builder: memledger::LedgerBuilder| builder.start().err().map(|error| format!("{error:#}"));
    let refusals = [
        start(Ledger::builder().analyze_in_process(true)),
        start(Ledger::builder().worker(Worker::Manual).trace_to_file("run.memledger")),
    ];
    let work = recorded(100);
    let measured = memledger::measure(|| black_box(vec![0_u8; 1000])).1.expect("a measurement");
    // What a recording takes is used again by the next ones.
    let pages = memory_pages();
    for _ in 0..20 {
        recorded(1);
    }
    let more_pages = memory_pages() - pages;
    let refusals = refusals.map(Option::unwrap_or_default);
    format!(
        "{{\"work\": {work}, \"refusals\": {refusals:?}, \"measured\": [{}, {}], \"more_pages\": {more_pages}}}",
        measured.allocations, measured.allocated_bytes
    )
}

#[cfg(target_family = "wasm")]
fn memory_pages() -> usize {
    core::arch::wasm32::memory_size::<0>()
}

/// Only WebAssembly has memory that never shrinks.
#[cfg(not(target_family = "wasm"))]
fn memory_pages() -> usize {
    0
}

fn recorded(frames: u32) -> String {
    let ledger = Ledger::builder().worker(Worker::Manual).analyze_in_process(true).start();
    let ledger = ledger.expect("a ledger");
    for number in [&ALLOCATIONS, &FREES, &REALLOCATIONS, &ALLOCATED, &LIVE, &PEAK] {
        number.store(0, Relaxed);
    }
    let mut kept = counted(|| Kept { numbers: vec![Vec::new(); 8], ..Kept::default() });
    for number in 0..frames {
        counted(|| frame(&mut kept, number));
        ledger.collect();
    }
    ledger.flush();
    let mut report = Vec::new();
    json::write(ledger.snapshot().expect("a snapshot").report(), &mut report).expect("a report");
    let own = format!(
        "{{\"allocations\": {}, \"frees\": {}, \"reallocations\": {}, \"allocated_bytes\": {}, \"live_bytes\": {}, \"peak_bytes\": {}}}",
        ALLOCATIONS.load(Relaxed),
        FREES.load(Relaxed),
        REALLOCATIONS.load(Relaxed),
        ALLOCATED.load(Relaxed),
        LIVE.load(Relaxed),
        PEAK.load(Relaxed)
    );
    drop(kept);
    let problems: Vec<_> = ledger.problems().iter().map(ToString::to_string).collect();
    let report = String::from_utf8(report).expect("text");
    format!("{{\"report\": {report}, \"own\": {own}, \"problems\": {problems:?}}}")
}

#[cfg(target_family = "wasm")]
mod host {
    use std::sync::Mutex;

    #[link(wasm_import_module = "host")]
    unsafe extern "C" {
        /// `performance.now`.
        safe fn now() -> f64;
    }

    static RESULTS: Mutex<String> = Mutex::new(String::new());

    /// Makes the results; returns where they are.
    #[unsafe(no_mangle)]
    extern "C" fn run(with_clock: bool) -> *const u8 {
        if with_clock {
            memledger::set_clock(|| (now() * 1e6) as u64);
        }
        let results = super::results();
        let mut kept = RESULTS.lock().expect("one thread");
        *kept = results;
        kept.as_ptr()
    }

    /// How many bytes they have.
    #[unsafe(no_mangle)]
    extern "C" fn length() -> usize {
        RESULTS.lock().expect("one thread").len()
    }
}
