//! A global allocator that takes random samples of stacks twice at the same place: with the
//! `backtrace` crate, into a file, and with memledger, into its trace. `stack-compare` reads both.
//!
//! A sample is an allocation of its own, of a size that nothing else has: `PROBE` + its number. It
//! has no memory, so a sample can also be taken in a signal handler.
//!
//! | variable | what |
//! |---|---|
//! | `STACK_SAMPLES` | the file, where samples are written; none are taken without it |
//! | `STACK_SAMPLES_LIMIT` | the maximum number of samples |
//! | `STACK_SAMPLES_EVERY` | one in this many allocations is sampled |

#[cfg_attr(unix, path = "unix.rs")]
#[cfg_attr(windows, path = "windows.rs")]
mod system;
#[cfg(target_os = "linux")]
mod trampoline;

#[cfg(target_os = "linux")]
pub use trampoline::note_trampoline;

use memledger::TrackingAllocator;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ffi::CStr;
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, AtomicU64, Ordering};

/// The size in bytes of the allocation that is sample 0.
pub const PROBE: usize = 1 << 31;
/// The address of that allocation. It is never read.
const ADDRESS: usize = 1 << 45;
/// The maximum number of frames of a sample: more than memledger takes.
pub const MAX_FRAMES: usize = 320;
/// The size of the file of samples in words. It is sparse, but perhaps not on Windows.
const WORDS: usize = if cfg!(windows) { 1 << 24 } else { 1 << 28 };
/// The first word of the file: the number of words that are used.
const USED: usize = 0;
/// The second: the address of the code to which signal handlers return.
pub const TRAMPOLINE: usize = 1;
/// The third: how much higher than `backtrace`'s a frame is that a signal has interrupted: readers take 1 off
/// each frame, to be in the call or the instruction.
pub const INTERRUPTED: usize = 2;
/// The words before the first sample.
pub const HEADER: usize = 3;

/// What kind of code a sample was taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Place {
    Anywhere,
    Calls,
    Callback,
    Signal,
    Thread,
    Recursion,
    Task,
    Coroutine,
    Library,
    Reloaded,
    Assembly,
}

pub const PLACES: &[(Place, &str)] = &[
    (Place::Anywhere, "anywhere"),
    (Place::Calls, "calls"),
    (Place::Callback, "qsort"),
    (Place::Signal, "signal"),
    (Place::Thread, "thread"),
    (Place::Recursion, "recursion"),
    (Place::Task, "async"),
    (Place::Coroutine, "coroutine"),
    (Place::Library, "library"),
    (Place::Reloaded, "reloaded"),
    (Place::Assembly, "assembly"),
];

/// Which function of the allocator takes the sample: they have different frames of their own.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Kind {
    Alloc,
    AllocZeroed,
    Realloc,
}

struct Thread {
    random: Cell<u64>,
    place: Cell<u8>,
    /// Whether this thread is in the allocator: no sample may be taken.
    is_inside: Cell<bool>,
    /// Whether it allocates for a sample.
    is_probing: Cell<bool>,
    /// Whether allocations are not sampled.
    is_paused: Cell<bool>,
}

thread_local! {
    static THREAD: Thread = const {
        Thread {
            random: Cell::new(0),
            place: Cell::new(0),
            is_inside: Cell::new(false),
            is_probing: Cell::new(false),
            is_paused: Cell::new(false),
        }
    };
}

static FILE: AtomicPtr<AtomicU64> = AtomicPtr::new(std::ptr::null_mut());
static STATE: AtomicU8 = AtomicU8::new(0);
static NEXT: AtomicU32 = AtomicU32::new(0);
static LIMIT: AtomicU32 = AtomicU32::new(0);
static EVERY: AtomicU32 = AtomicU32::new(1);

/// The number of samples that were taken.
pub fn taken() -> u32 {
    NEXT.load(Ordering::Relaxed).min(limit())
}

/// The maximum number of samples.
pub fn limit() -> u32 {
    LIMIT.load(Ordering::Relaxed)
}

/// Runs `body`; samples of this thread are in `place` meanwhile.
pub fn within<T>(place: Place, body: impl FnOnce() -> T) -> T {
    let before = THREAD.with(|thread| thread.place.replace(place as u8));
    let result = body();
    THREAD.with(|thread| thread.place.set(before));
    result
}

/// Runs `body`; allocations of this thread are not sampled meanwhile.
pub fn paused<T>(body: impl FnOnce() -> T) -> T {
    let before = THREAD.with(|thread| thread.is_paused.replace(true));
    let result = body();
    THREAD.with(|thread| thread.is_paused.set(before));
    result
}

fn word(index: usize) -> Option<&'static AtomicU64> {
    let file = FILE.load(Ordering::Acquire);
    if file.is_null() || index >= WORDS {
        return None;
    }
    // SAFETY: the file has `WORDS` words, and stays mapped.
    Some(unsafe { &*file.add(index) })
}

#[cold]
fn open() {
    if STATE.compare_exchange(0, 1, Ordering::Relaxed, Ordering::Relaxed).is_err() {
        return;
    }
    // SAFETY: the environment is not changed.
    let variable = |name: &CStr| unsafe {
        let value = libc::getenv(name.as_ptr());
        (!value.is_null()).then(|| CStr::from_ptr(value))
    };
    let number = |name| variable(name)?.to_str().ok()?.parse().ok();
    let Some(path) = variable(c"STACK_SAMPLES") else { return };
    EVERY.store(number(c"STACK_SAMPLES_EVERY").unwrap_or(1), Ordering::Relaxed);
    LIMIT.store(number(c"STACK_SAMPLES_LIMIT").unwrap_or(65_536), Ordering::Relaxed);
    let words = system::map_file(path, WORDS * 8).cast::<AtomicU64>();
    // SAFETY: the file has `WORDS` words, and stays mapped.
    unsafe { (*words).store(HEADER as u64, Ordering::Relaxed) };
    FILE.store(words, Ordering::Release);
}

/// The global allocator.
pub struct Sampling(TrackingAllocator<Inner>);

impl Sampling {
    #[expect(clippy::new_without_default)]
    pub const fn new() -> Self {
        Self(TrackingAllocator::new(Inner))
    }

    /// Takes a sample. May be called in a signal handler.
    pub fn sample(&self) {
        let is_inside = THREAD.with(|thread| thread.is_inside.replace(true));
        if !is_inside {
            self.probe(Kind::Alloc);
            THREAD.with(|thread| thread.is_inside.set(false));
        }
    }

    #[inline(always)]
    fn sample_some(&self, kind: Kind) {
        let every = EVERY.load(Ordering::Relaxed);
        let is_chosen = THREAD.with(|thread| {
            let mut random = thread.random.get();
            if random == 0 {
                random = std::ptr::from_ref(thread).addr() as u64;
            }
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            thread.random.set(random);
            (random >> 33) as u32 % every == 0
                && !thread.is_paused.get()
                && !thread.is_inside.replace(true)
        });
        if is_chosen {
            self.probe(kind);
            THREAD.with(|thread| thread.is_inside.set(false));
        }
    }

    #[inline(never)]
    fn probe(&self, kind: Kind) {
        if STATE.load(Ordering::Relaxed) == 0 {
            open();
        }
        if NEXT.load(Ordering::Relaxed) >= limit() || system::is_trackers_thread() {
            return;
        }
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        if number >= limit() {
            return;
        }
        let mut frames = [0_u64; MAX_FRAMES];
        let mut len = 0;
        // SAFETY: nothing is resolved, so nothing needs the lock. libgcc and LLVM's libunwind have
        // their own.
        unsafe {
            backtrace::trace_unsynchronized(|frame| {
                frames[len] = frame.ip().addr() as u64;
                len += 1;
                len < MAX_FRAMES
            });
        }
        write(number, kind, &frames[..len]);
        let size = PROBE + number as usize;
        THREAD.with(|thread| thread.is_probing.set(true));
        // SAFETY: valid layouts; the blocks have no memory, and are not used.
        unsafe {
            let layout = Layout::from_size_align_unchecked(size, 1);
            let block = match kind {
                Kind::Alloc => self.0.alloc(layout),
                Kind::AllocZeroed => self.0.alloc_zeroed(layout),
                Kind::Realloc => {
                    let before = Layout::from_size_align_unchecked(size - (1 << 30), 1);
                    self.0.realloc(self.0.alloc(before), before, size)
                }
            };
            self.0.dealloc(block, layout);
        }
        THREAD.with(|thread| thread.is_probing.set(false));
    }
}

/// Adds a sample to the file: a word with the highest bit, then its frames.
fn write(number: u32, kind: Kind, frames: &[u64]) {
    let Some(used) = word(USED) else { return };
    let start = used.fetch_add(frames.len() as u64 + 1, Ordering::Relaxed) as usize;
    let place = THREAD.with(|thread| thread.place.get());
    for (i, frame) in frames.iter().enumerate() {
        word(start + 1 + i).inspect(|word| word.store(*frame, Ordering::Relaxed));
    }
    let head = Head { number, frames: frames.len(), kind: kind as u8, place };
    word(start).inspect(|word| word.store(head.word(), Ordering::Relaxed));
}

/// The first word of a sample in the file.
#[derive(Clone, Copy, Debug)]
pub struct Head {
    pub number: u32,
    pub frames: usize,
    pub kind: u8,
    pub place: u8,
}

impl Head {
    fn word(self) -> u64 {
        let small = u64::from(self.kind) << 56 | u64::from(self.place) << 48;
        1 << 63 | small | (self.frames as u64) << 32 | u64::from(self.number)
    }

    /// `None` for a word that is none: an address.
    pub fn parse(word: u64) -> Option<Self> {
        (word >> 63 == 1).then_some(Self {
            number: word as u32,
            frames: (word >> 32) as u16 as usize,
            place: (word >> 48) as u8,
            kind: (word >> 56) as u8 & 0x7f,
        })
    }
}

/// Has no memory for samples.
struct Inner;

fn is_probe(size: usize) -> bool {
    size >= PROBE - (1 << 30) && THREAD.with(|thread| thread.is_probing.get())
}

fn address(size: usize) -> *mut u8 {
    std::ptr::without_provenance_mut(ADDRESS + size % (1 << 30) * 64)
}

// SAFETY: blocks are the system's, but those of samples, which nothing uses.
unsafe impl GlobalAlloc for Inner {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_probe(layout.size()) {
            return address(layout.size());
        }
        // SAFETY: the caller makes the same guarantee.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if is_probe(layout.size()) {
            return address(layout.size());
        }
        // SAFETY: the caller makes the same guarantee.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if !is_probe(layout.size()) {
            // SAFETY: the caller makes the same guarantee.
            unsafe { System.dealloc(block, layout) }
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        if is_probe(new_size) {
            return address(new_size);
        }
        // SAFETY: the caller makes the same guarantee.
        unsafe { System.realloc(block, layout, new_size) }
    }
}

/// Calls the tracker. A signal handler takes no sample meanwhile: the tracker would lose it, and count
/// that. NOTE: and LLVM's unwind information is wrong in an epilogue with two tail calls, which the
/// tracker has, so libgcc would crash there.
#[inline(always)]
fn call<T>(call: impl FnOnce() -> T) -> T {
    let before = THREAD.with(|thread| thread.is_inside.replace(true));
    let result = call();
    THREAD.with(|thread| thread.is_inside.set(before));
    result
}

// SAFETY: all calls go to the tracker unchanged; some are preceded by a sample.
unsafe impl GlobalAlloc for Sampling {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.sample_some(Kind::Alloc);
        // SAFETY: the caller makes the same guarantee.
        call(|| unsafe { self.0.alloc(layout) })
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        self.sample_some(Kind::AllocZeroed);
        // SAFETY: the caller makes the same guarantee.
        call(|| unsafe { self.0.alloc_zeroed(layout) })
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller makes the same guarantee.
        call(|| unsafe { self.0.dealloc(block, layout) })
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        self.sample_some(Kind::Realloc);
        // SAFETY: the caller makes the same guarantee.
        call(|| unsafe { self.0.realloc(block, layout, new_size) })
    }
}
