//! The clock of the stream: nanoseconds of the monotonic clock, never before the start.

use super::os;
use std::sync::atomic::{AtomicU64, Ordering};

/// Cycles per second, as `$Trace.NewTrace` announces them.
pub(crate) const FREQUENCY: u64 = 1_000_000_000;

static LATEST: AtomicU64 = AtomicU64::new(0);
static PROCESS_START: AtomicU64 = AtomicU64::new(0);

/// The clock now, in cycles. Takes about 20 ns, so the hook reads it only when threads synchronise.
pub(crate) fn now() -> u64 {
    os::now()
}

/// The time at which this process recorded its first event; the first call sets it.
pub(crate) fn process_start() -> u64 {
    let start = PROCESS_START.load(Ordering::Relaxed);
    if start != 0 {
        return start;
    }
    let now = now().max(1);
    match PROCESS_START.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => now,
        Err(earlier) => earlier,
    }
}

/// The clock for the stream: never before the [start of the process](process_start), which the
/// first call sets, and never before an earlier result. The system's clock can go back on machines
/// whose processors disagree about the time; this has been observed.
pub(crate) fn now_since_start() -> u64 {
    let now = now().max(process_start());
    LATEST.fetch_max(now, Ordering::Relaxed).max(now)
}
