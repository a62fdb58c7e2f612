//! The allocators around the tracker: one outside that counts, one inside that can misbehave.
#![expect(unsafe_code, reason = "global allocators are an unsafe trait")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ptr;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize};
#[cfg(windows)]
use windows_sys::Win32::System::Memory::{MEM_RESERVE, PAGE_NOACCESS, VirtualAlloc};

/// Counts what passes through it, each thread for itself, so that the tracker's own thread and its
/// own work on other threads can be told apart from the program's.
pub(crate) struct Counting<A>(pub(crate) A);

/// What one thread has done.
#[derive(Default)]
pub(crate) struct Counts {
    system_id: AtomicU32,
    allocations: AtomicU64,
    frees: AtomicU64,
    reallocations: AtomicU64,
    allocated_bytes: AtomicU64,
    freed_bytes: AtomicU64,
}

/// Threads that can be counted; with more the figures would differ.
const THREADS: usize = 1 << 16;
static THREAD_COUNTS: [Counts; THREADS] = [const {
    Counts {
        system_id: AtomicU32::new(0),
        allocations: AtomicU64::new(0),
        frees: AtomicU64::new(0),
        reallocations: AtomicU64::new(0),
        allocated_bytes: AtomicU64::new(0),
        freed_bytes: AtomicU64::new(0),
    }
}; THREADS];
static NEXT: AtomicUsize = AtomicUsize::new(0);

/// See [`nobody_counted`].
static NOBODY: AtomicBool = AtomicBool::new(false);

thread_local! {
    static MINE: Cell<Option<&'static Counts>> = const { Cell::new(None) };
    static EXCLUDED: Cell<bool> = const { Cell::new(false) };
    static FAIL_AFTER: Cell<Option<u32>> = const { Cell::new(None) };
    static FAILURES: Cell<u32> = const { Cell::new(0) };
    static HOLD: Cell<Option<Request>> = const { Cell::new(None) };
    static ARENA: Cell<bool> = const { Cell::new(false) };
    static SPARED: Cell<bool> = const { Cell::new(false) };
}

/// All threads together, but one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sum {
    pub(crate) allocations: u64,
    pub(crate) frees: u64,
    pub(crate) reallocations: u64,
    pub(crate) allocated_bytes: u64,
    pub(crate) freed_bytes: u64,
}

/// What all threads but `without` have done so far.
pub(crate) fn counted(without: u32) -> Sum {
    let mut sum = Sum::default();
    for counts in &THREAD_COUNTS {
        if counts.system_id.load(Relaxed) != without {
            sum.allocations += counts.allocations.load(Relaxed);
            sum.frees += counts.frees.load(Relaxed);
            sum.reallocations += counts.reallocations.load(Relaxed);
            sum.allocated_bytes += counts.allocated_bytes.load(Relaxed);
            sum.freed_bytes += counts.freed_bytes.load(Relaxed);
        }
    }
    sum
}

/// The system's ids of all threads that have been counted.
#[cfg(not(target_os = "linux"))]
pub(crate) fn counted_threads() -> impl Iterator<Item = u32> {
    let ids = THREAD_COUNTS.iter().map(|counts| counts.system_id.load(Relaxed));
    ids.take_while(|&id| id != 0)
}

/// Bytes that this thread has allocated and not freed in `body`; below 0 if it freed more.
pub(crate) fn gained(body: impl FnOnce()) -> i64 {
    let held = || {
        mine().map_or(0, |counts| {
            counts.allocated_bytes.load(Relaxed) as i64 - counts.freed_bytes.load(Relaxed) as i64
        })
    };
    let before = held();
    body();
    held() - before
}

/// Runs `body` without counting what any thread does in it.
pub(crate) fn nobody_counted<R>(body: impl FnOnce() -> R) -> R {
    NOBODY.store(true, Relaxed);
    let result = body();
    NOBODY.store(false, Relaxed);
    result
}

/// Runs `body` without counting what this thread does in it.
pub(crate) fn uncounted<R>(body: impl FnOnce() -> R) -> R {
    EXCLUDED.set(true);
    let result = body();
    EXCLUDED.set(false);
    result
}

fn mine() -> Option<&'static Counts> {
    if EXCLUDED.get() || NOBODY.load(Relaxed) {
        return None;
    }
    MINE.get().or_else(|| {
        let counts = THREAD_COUNTS.get(NEXT.fetch_add(1, Relaxed))?;
        counts.system_id.store(crate::harness::thread_id(), Relaxed);
        MINE.set(Some(counts));
        Some(counts)
    })
}

fn add(counter: &AtomicU64, amount: u64) {
    // NOTE: in one step, since a signal handler may count on the same thread.
    counter.fetch_add(amount, Relaxed);
}

// SAFETY: every call is passed on unchanged.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Counting<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise is passed on.
        allocated(unsafe { self.0.alloc(layout) }, layout)
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise is passed on.
        allocated(unsafe { self.0.alloc_zeroed(layout) }, layout)
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        stay_inside(Request::Free);
        if let Some(counts) = mine() {
            add(&counts.frees, 1);
            add(&counts.freed_bytes, layout.size() as u64);
        }
        // SAFETY: the caller's promise is passed on.
        unsafe { self.0.dealloc(pointer, layout) };
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: the caller's promise is passed on.
        let new = unsafe { self.0.realloc(pointer, layout, new_size) };
        if !new.is_null()
            && let Some(counts) = mine()
        {
            add(&counts.reallocations, 1);
            add(&counts.allocated_bytes, new_size as u64);
            add(&counts.freed_bytes, layout.size() as u64);
        }
        new
    }
}

fn allocated(pointer: *mut u8, layout: Layout) -> *mut u8 {
    if !pointer.is_null()
        && let Some(counts) = mine()
    {
        add(&counts.allocations, 1);
        add(&counts.allocated_bytes, layout.size() as u64);
    }
    pointer
}

/// An allocation of this many bytes crashes the program inside the inner allocator.
pub(crate) static CRASHES_AT: AtomicUsize = AtomicUsize::new(usize::MAX);

/// The system's allocator, until a scenario asks for something else.
pub(crate) struct Faulty;

/// Runs `body`, in which this thread's allocations (and reallocations) fail after the first
/// `after`; returns how many failed.
pub(crate) fn failing_after(after: u32, body: impl FnOnce()) -> u32 {
    FAILURES.set(0);
    FAIL_AFTER.set(Some(after));
    body();
    FAIL_AFTER.set(None);
    FAILURES.get()
}

/// How many allocations of other threads succeed before the failures begin.
static OTHERS_LEFT: AtomicU64 = AtomicU64::new(u64::MAX);
/// How many allocations then fail, and how many have failed so far.
static OTHERS_TO_FAIL: AtomicU64 = AtomicU64::new(0);
static OTHERS_FAILED: AtomicU64 = AtomicU64::new(0);

/// Runs `body`, while allocations and reallocations of all threads but this one fail: `failures` of
/// them, after the first `after`. Returns how many failed.
pub(crate) fn trackers_fail_after(after: u64, failures: u64, body: impl FnOnce()) -> u64 {
    SPARED.set(true);
    OTHERS_FAILED.store(0, Relaxed);
    OTHERS_TO_FAIL.store(failures, Relaxed);
    OTHERS_LEFT.store(after, Release);
    body();
    OTHERS_LEFT.store(u64::MAX, Release);
    OTHERS_FAILED.load(Relaxed)
}

fn others_fail() -> bool {
    if OTHERS_LEFT.load(Acquire) == u64::MAX || SPARED.get() {
        return false;
    }
    let count = |counter: &AtomicU64| {
        counter.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok()
    };
    let fails = !count(&OTHERS_LEFT) && count(&OTHERS_TO_FAIL);
    OTHERS_FAILED.fetch_add(u64::from(fails), Relaxed);
    fails
}

fn fails() -> bool {
    if others_fail() {
        return true;
    }
    match FAIL_AFTER.get() {
        None => false,
        Some(0) => {
            FAILURES.set(FAILURES.get() + 1);
            true
        }
        Some(left) => {
            FAIL_AFTER.set(Some(left - 1));
            false
        }
    }
}

/// Runs `body`, in which this thread allocates from an arena: addresses that are never given
/// back, taken by one atomic addition. Safe in a signal handler, unlike `malloc`.
pub(crate) fn in_arena<R>(body: impl FnOnce() -> R) -> R {
    let before = ARENA.replace(true);
    let result = body();
    ARENA.set(before);
    result
}

/// What a thread asks the allocator for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Request {
    Reallocation,
    /// A new block with this alignment, in bytes.
    Aligned(usize),
    /// A free, which stays outside the tracker.
    Free,
}

/// The progress of the thread whose request is [held up](held_up_at).
static HELD: AtomicU32 = AtomicU32::new(FREE);
const FREE: u32 = 0;
const WANTED: u32 = 1;
const INSIDE: u32 = 2;

/// Runs `body` on a thread of its own, whose next reallocation stays inside the inner allocator
/// while `meanwhile` runs.
pub(crate) fn held_up(body: impl FnOnce() + Send, meanwhile: impl FnOnce()) {
    held_up_at(Request::Reallocation, body, meanwhile);
}

/// The same at the next such request.
pub(crate) fn held_up_at(request: Request, body: impl FnOnce() + Send, meanwhile: impl FnOnce()) {
    std::thread::scope(|scope| {
        scope.spawn(|| {
            hold(request);
            body();
            HOLD.set(None);
        });
        while_held(meanwhile);
    });
}

/// Has the next such request of this thread wait for the end of [`while_held`].
pub(crate) fn hold(request: Request) {
    HELD.store(WANTED, Release);
    HOLD.set(Some(request));
}

/// Waits until a thread is held, then runs `meanwhile` and lets the thread continue.
pub(crate) fn while_held(meanwhile: impl FnOnce()) {
    while HELD.load(Acquire) != INSIDE {
        std::thread::yield_now();
    }
    meanwhile();
    HELD.store(FREE, Release);
}

fn stay_inside(request: Request) {
    if HOLD.get() == Some(request) && HELD.load(Acquire) == WANTED {
        HELD.store(INSIDE, Release);
        while HELD.load(Acquire) == INSIDE {
            // NOTE: a system call, so that the thread is nowhere near the hook's own code.
            std::thread::yield_now();
        }
    }
}

const ARENA_BYTES: usize = 1 << 44;
static ARENA_START: AtomicPtr<u8> = AtomicPtr::new(ptr::null_mut());
static ARENA_USED: AtomicUsize = AtomicUsize::new(0);

/// Reserves the arena's addresses (16 TiB, none of it in memory until it is touched).
pub(crate) fn reserve_arena() {
    // SAFETY: a fresh private mapping touches no memory of anyone.
    #[cfg(unix)]
    let start = unsafe {
        libc::mmap(
            ptr::null_mut(),
            ARENA_BYTES,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        )
    };
    #[cfg(unix)]
    assert_ne!(start, libc::MAP_FAILED, "no address space for the arena");
    // NOTE: a touch of these is a crash.
    // SAFETY: new addresses do not affect existing memory.
    #[cfg(windows)]
    let start = unsafe { VirtualAlloc(ptr::null(), ARENA_BYTES, MEM_RESERVE, PAGE_NOACCESS) };
    assert!(!start.is_null(), "no address space for the arena");
    ARENA_START.store(start.cast(), Relaxed);
}

fn arena(layout: Layout) -> *mut u8 {
    let align = layout.align().max(16);
    let Some(bytes) = layout.size().checked_add(align) else { return ptr::null_mut() };
    let mut used = ARENA_USED.load(Relaxed);
    loop {
        let Some(end) = used.checked_add(bytes).filter(|&end| end <= ARENA_BYTES) else {
            return ptr::null_mut();
        };
        match ARENA_USED.compare_exchange_weak(used, end, Relaxed, Relaxed) {
            Ok(_) => break,
            Err(now) => used = now,
        }
    }
    let start = ARENA_START.load(Relaxed).wrapping_add(used);
    start.wrapping_add(start.align_offset(align))
}

fn is_in_arena(pointer: *mut u8) -> bool {
    let start = ARENA_START.load(Relaxed).addr();
    start != 0 && (start..start + ARENA_BYTES).contains(&pointer.addr())
}

// SAFETY: blocks come from the system's allocator or from fresh pages, and go back to where they
// came from.
unsafe impl GlobalAlloc for Faulty {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if fails() {
            return ptr::null_mut();
        }
        if layout.size() == CRASHES_AT.load(Relaxed) {
            // SAFETY: none. This is the crash.
            unsafe { std::hint::black_box(16 as *mut u8).write_volatile(1) };
        }
        stay_inside(Request::Aligned(layout.align()));
        if ARENA.get() {
            return arena(layout);
        }
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if fails() {
            return ptr::null_mut();
        }
        if ARENA.get() {
            return arena(layout);
        }
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        if !is_in_arena(pointer) {
            // SAFETY: the caller's promise is passed on.
            unsafe { System.dealloc(pointer, layout) };
        }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        if fails() {
            return ptr::null_mut();
        }
        stay_inside(Request::Reallocation);
        if is_in_arena(pointer) {
            // Only the address changes; scenarios do not look into such blocks.
            return Layout::from_size_align(new_size, layout.align())
                .map_or(ptr::null_mut(), arena);
        }
        // SAFETY: the caller's promise is passed on.
        unsafe { System.realloc(pointer, layout, new_size) }
    }
}
