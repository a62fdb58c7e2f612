//! The sync words of the process: the global clock, the clock of the log, and the region clocks.
//! The rules by which threads read and advance them are those of [`order`](super::order).
#![expect(unsafe_code, reason = "a page that children do not have")]

use super::order::{self, STOP};
use crate::platform::os;
use crate::platform::whole_pages::{LARGEST_PAGE, WholePages};
use crossbeam_utils::CachePadded;
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// PERF: one static, so that its address is looked up once.
static CLOCKS: WholePages<Clocks> = WholePages::new(Clocks {
    global: CachePadded::new(AtomicU64::new(0)),
    log: CachePadded::new(AtomicU64::new(0)),
    regions: [const { AtomicU64::new(0) }; 1 << 14],
});

/// NOTE: whole pages, the first of which is cleared in children, as the [state](super::state) is. A clock of
/// 0 is that of no thread, so each thread then checks the state.
#[repr(C)]
struct Clocks {
    global: CachePadded<AtomicU64>,
    /// The clock that threads join when the program logs a synchronised event. It has a STOP bit of
    /// its own, since the hook's events can be off while the program's are recorded.
    log: CachePadded<AtomicU64>,
    /// Regions less than 16 GiB apart have different words. Regions farther apart can share one,
    /// which only makes their threads synchronise more often than needed. The array has 128 KiB of
    /// addresses; only its used pages take memory.
    regions: [AtomicU64; 1 << 14],
}

/// Bytes of addresses in a region. Smaller regions separate the threads of an allocator that mixes
/// their blocks; larger regions make a new epoch cheaper, because a thread writes it to the word of
/// each region that it uses.
const REGION: usize = 1 << 20;

#[inline(always)]
pub(super) fn global() -> &'static AtomicU64 {
    &CLOCKS.global
}

/// The clock that threads join for synchronised events of the program.
#[inline(always)]
pub(super) fn log() -> &'static AtomicU64 {
    &CLOCKS.log
}

#[inline(always)]
pub(super) fn region(address: usize) -> &'static AtomicU64 {
    &CLOCKS.regions[address / REGION % CLOCKS.regions.len()]
}

/// The clocks of all regions in which a block lies.
pub(super) fn regions(
    address: usize,
    size: usize,
) -> impl Iterator<Item = &'static AtomicU64> + Clone {
    let first = address / REGION;
    let last = (address + size.saturating_sub(1)) / REGION;
    let words = &CLOCKS.regions;
    (first..=last).take(words.len()).map(|number| &words[number % words.len()])
}

/// Clears the clocks in all children of forks.
///
/// # Safety
/// No other thread changes them meanwhile.
pub(super) unsafe fn clear_in_children() -> io::Result<()> {
    // SAFETY: the page has nothing but clocks; the caller makes the same promise.
    unsafe { os::clear_in_children(NonNull::from(&CLOCKS).cast(), LARGEST_PAGE) }
}

/// Makes every thread check the state of the recording before its next event.
pub(super) fn stop() {
    CLOCKS.global.fetch_or(STOP, Ordering::SeqCst);
    CLOCKS.log.fetch_or(STOP, Ordering::SeqCst);
}

/// Makes every thread check the state before its next event about memory; `false` if they do so anyway.
pub(super) fn hold() -> bool {
    CLOCKS.global.fetch_or(STOP, Ordering::SeqCst) & STOP == 0
}

/// Reverts [`hold`].
pub(super) fn release() {
    CLOCKS.global.fetch_and(!STOP, Ordering::SeqCst);
}

/// Reverts [`stop`] for the program's events, and for the hook's events if `hook`.
pub(super) fn resume(hook: bool) {
    if hook {
        CLOCKS.global.fetch_and(!STOP, Ordering::SeqCst);
    } else {
        CLOCKS.global.fetch_or(STOP, Ordering::SeqCst);
    }
    CLOCKS.log.fetch_and(!STOP, Ordering::SeqCst);
}

/// Whether no thread has joined the global clock since the worker last joined it.
pub(crate) fn is_quiet() -> bool {
    order::owner(CLOCKS.global.load(Ordering::Acquire)) == order::WORKER
}

/// Begins a cycle of the worker: advances the global clock to an epoch after `latest` and after its
/// own, and returns that epoch.
pub(crate) fn begin_cycle(latest: u64) -> u64 {
    order::begin_cycle(&CLOCKS.global, latest)
}
