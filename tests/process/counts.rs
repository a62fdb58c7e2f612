//! What a program has done, counted by itself in a file that it maps: each thread counts before and after
//! each call of the allocator. The kernel keeps that file, however the program ends.
#![expect(unsafe_code, reason = "maps a file and calls the allocator directly")]

use crate::harness::{Outcome, REPORT, Running, scope};
use memledger_analysis::Report;
use std::alloc::{Layout, alloc, dealloc};
use std::ffi::c_void;
use std::fs::{self, File};
use std::hint::black_box;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const COUNTS: &str = "counts";
pub(crate) const THREADS: usize = 9;

/// Where a program notes what all threads had done when it began to end, in the place of a thread.
const FLOOR: usize = THREADS - 1;

/// What one thread has begun and done.
#[repr(C, align(128))]
#[derive(Debug)]
pub(crate) struct Counts {
    allocations: [AtomicU64; 2],
    frees: [AtomicU64; 2],
    allocated: [AtomicU64; 2],
    freed: [AtomicU64; 2],
}

/// The counts of all threads, in the file.
pub(crate) fn map_counts() -> &'static [Counts; THREADS] {
    map_counts_in(COUNTS)
}

/// The same in another file.
pub(crate) fn map_counts_in(name: &str) -> &'static [Counts; THREADS] {
    let size = size_of::<[Counts; THREADS]>();
    let file = File::options().read(true).write(true).create(true).truncate(false).open(name);
    let file = file.unwrap();
    file.set_len(size as u64).unwrap();
    // SAFETY: a mapping of this size, which stays; zeros are valid.
    unsafe { &*map(&file, size).cast() }
}

/// Maps a file of this size, for as long as the process runs.
#[cfg(unix)]
fn map(file: &File, size: usize) -> *mut c_void {
    // SAFETY: a new mapping affects no memory.
    unsafe {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let fd = std::os::fd::AsRawFd::as_raw_fd(file);
        let at = libc::mmap(ptr::null_mut(), size, access, libc::MAP_SHARED, fd, 0);
        assert_ne!(at, libc::MAP_FAILED);
        at
    }
}

/// Maps a file of this size, for as long as the process runs.
#[cfg(windows)]
fn map(file: &File, size: usize) -> *mut c_void {
    use windows_sys::Win32::System::Memory::{
        CreateFileMappingW, FILE_MAP_WRITE, MapViewOfFile, PAGE_READWRITE,
    };
    // SAFETY: a new mapping affects no memory.
    unsafe {
        let handle = std::os::windows::io::AsRawHandle::as_raw_handle(file);
        let object =
            CreateFileMappingW(handle, ptr::null(), PAGE_READWRITE, 0, size as u32, ptr::null());
        let at = MapViewOfFile(object, FILE_MAP_WRITE, 0, 0, size).Value;
        assert!(!at.is_null());
        at
    }
}

fn add(to: &[AtomicU64; 2], which: usize, by: u64) {
    to[which].store(to[which].load(Ordering::Relaxed) + by, Ordering::Release);
}

impl Counts {
    /// Allocates blocks, and frees most of them.
    pub(crate) fn work(&self, blocks: usize) {
        for number in 0..blocks {
            self.allocate(1 + number % 1000, number % 8 != 0);
        }
    }

    /// Allocates blocks of 16 KiB, writes to them, and frees a quarter of them.
    pub(crate) fn fill(&self, blocks: usize) {
        for number in 0..blocks {
            self.allocate(16 << 10, number % 4 == 0);
        }
    }

    /// Allocates a small block, and returns a function that frees it without a count.
    pub(crate) fn leave(&self) -> impl FnOnce() + use<> {
        let layout = Layout::new::<u64>();
        add(&self.allocated, 0, 8);
        add(&self.allocations, 0, 1);
        // SAFETY: the size is not 0.
        let block = unsafe { alloc(layout) }.expose_provenance();
        add(&self.allocations, 1, 1);
        add(&self.allocated, 1, 8);
        // SAFETY: the block has this layout, and the function is called once.
        move || unsafe { dealloc(ptr::with_exposed_provenance_mut(block), layout) }
    }

    /// Allocates a block of this many bytes, at least 8, and frees the one that is in its place.
    pub(crate) fn exchange(&self, place: &AtomicPtr<u8>, bytes: usize) {
        let layout = |bytes| Layout::from_size_align(bytes, 8).unwrap();
        let size = bytes as u64;
        add(&self.allocated, 0, size);
        add(&self.allocations, 0, 1);
        // SAFETY: the size is not 0; a block begins with its size, and who takes it out of its place owns it.
        unsafe {
            let block = black_box(alloc(black_box(layout(bytes))));
            add(&self.allocations, 1, 1);
            add(&self.allocated, 1, size);
            block.cast::<u64>().write(size);
            let before = place.swap(block, Ordering::AcqRel);
            if !before.is_null() {
                let size = before.cast::<u64>().read();
                add(&self.freed, 0, size);
                add(&self.frees, 0, 1);
                dealloc(before, layout(size as usize));
                add(&self.frees, 1, 1);
                add(&self.freed, 1, size);
            }
        }
    }

    fn allocate(&self, bytes: usize, is_freed: bool) {
        let layout = Layout::from_size_align(bytes, 8).unwrap();
        let size = layout.size() as u64;
        add(&self.allocated, 0, size);
        add(&self.allocations, 0, 1);
        // SAFETY: the size is not 0; the block has that many bytes, and is freed once.
        unsafe {
            let block = black_box(alloc(black_box(layout)));
            add(&self.allocations, 1, 1);
            add(&self.allocated, 1, size);
            for page in (0..bytes).step_by(4096) {
                block.add(page).write_volatile(1);
            }
            if is_freed {
                add(&self.freed, 0, size);
                add(&self.frees, 0, 1);
                dealloc(block, layout);
                add(&self.frees, 1, 1);
                add(&self.freed, 1, size);
            }
        }
    }
}

/// Notes what all threads have done: they go on while a report is made in the process.
pub(crate) fn note_floor(counts: &[Counts; THREADS]) {
    let of: [fn(&Counts) -> &[AtomicU64; 2]; 4] =
        [|of| &of.allocations, |of| &of.frees, |of| &of.allocated, |of| &of.freed];
    for of in of {
        let sum = counts[..FLOOR].iter().map(|counts| of(counts)[1].load(Ordering::Acquire)).sum();
        of(&counts[FLOOR])[1].store(sum, Ordering::Release);
    }
}

/// The counts that a program left: of each kind, what it has done at least, and at most.
fn read_counts(outcome: &Outcome, name: &str) -> [[u64; 2]; 4] {
    let bytes = fs::read(outcome.path(name)).unwrap();
    let mut sums = [[0; 2]; 4];
    let threads = bytes.chunks(size_of::<Counts>()).collect::<Vec<_>>();
    let words = |thread: &[u8]| {
        let words = thread.chunks(8).map(|word| u64::from_le_bytes(word.try_into().unwrap()));
        words.collect::<Vec<_>>()
    };
    for thread in &threads[..FLOOR] {
        for (word, sum) in words(thread).into_iter().zip(sums.as_flattened_mut()) {
            *sum += word;
        }
    }
    for (floor, sum) in words(threads[FLOOR]).chunks(2).zip(&mut sums) {
        if floor[1] > 0 {
            sum[1] = floor[1];
        }
    }
    sums
}

/// The report has what the program has counted; if threads were at work, each may have been within one call.
#[track_caller]
pub(crate) fn counts_agree(outcome: &Outcome, report: &Report, at_work: bool) {
    counts_agree_in(COUNTS, outcome, report, at_work);
}

/// The same for counts in another file.
#[track_caller]
pub(crate) fn counts_agree_in(file: &str, outcome: &Outcome, report: &Report, at_work: bool) {
    let row = scope(report, &["GlobalScope", "counted"]).expect("the scope").figures;
    let freed = row.allocated_bytes - row.live_bytes;
    let figures = [row.allocations, row.frees, row.allocated_bytes, freed];
    let names = ["allocations", "frees", "allocated bytes", "freed bytes"];
    for ((figure, [begun, done]), name) in
        figures.into_iter().zip(read_counts(outcome, file)).zip(names)
    {
        assert!((done..=begun).contains(&figure), "{name}: {figure} of {done} to {begun}");
        assert!(at_work || begun == done, "{name}: {begun} begun, {done} done");
        assert!(figure > 0, "{name}");
    }
}

/// Checks a program that has ended: its trace and its report are whole, and have what it did.
#[track_caller]
pub(crate) fn check(outcome: &Outcome, at_work: bool) {
    let report = outcome.whole();
    assert_eq!(report.trace.from_process_start, Some(true));
    assert_eq!(report.trace.pid, Some(outcome.pid));
    counts_agree(outcome, &report, at_work);
}

#[track_caller]
pub(crate) fn reported(running: Running) -> Outcome {
    let path = running.path(REPORT);
    let outcome = running.wait();
    wait_for_report(&path);
    outcome
}

#[track_caller]
pub(crate) fn wait_for_report(path: &std::path::Path) {
    let until = Instant::now() + Duration::from_secs(60);
    while !fs::read_to_string(path).is_ok_and(|report| report.ends_with("}\n")) {
        assert!(Instant::now() < until, "no report");
        std::thread::yield_now();
    }
}
