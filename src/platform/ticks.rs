//! The fastest clock: what the processor counts, in units of its own.
//!
//! It takes half the time of `clock::now`. To convert these times, compare both clocks from time to time
//! ([`pair`]).

use super::os;
use std::sync::atomic::{AtomicU8, Ordering};

const UNKNOWN: u8 = 0;
const COUNTER: u8 = 1;
const SYSTEM: u8 = 2;

static SOURCE: AtomicU8 = AtomicU8::new(UNKNOWN);

/// Decides whether the processor's counter is a clock. Before, it is not used.
pub(crate) fn choose() {
    if SOURCE.load(Ordering::Relaxed) == UNKNOWN {
        let source = if os::has_steady_counter() { COUNTER } else { SYSTEM };
        SOURCE.store(source, Ordering::Relaxed);
    }
}

/// The time now, in units that [`pair`] relates to nanoseconds.
#[inline(always)]
pub(crate) fn now() -> u64 {
    if SOURCE.load(Ordering::Relaxed) == COUNTER { os::counter() } else { os::now() }
}

/// The same moment in these units, and in nanoseconds since the system was started
/// (`CLOCK_BOOTTIME`).
pub(crate) fn pair() -> (u64, u64) {
    // The thread can lose the processor between two readings, so the shortest of three attempts counts.
    let attempt = |_| {
        let before = now();
        let nanos = os::since_boot();
        let after = now();
        (after.wrapping_sub(before), before.wrapping_add(after.wrapping_sub(before) / 2), nanos)
    };
    let best = (0..3).map(attempt).min_by_key(|(width, ..)| *width);
    best.map_or((0, 0), |(_, ticks, nanos)| (ticks, nanos))
}
