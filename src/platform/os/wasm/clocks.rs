//! The time, which only the host has.

use std::ops::Add;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// The function that the host has given; 0 for none.
static CLOCK: AtomicUsize = AtomicUsize::new(0);

/// From now on, `clock` says the time.
pub(crate) fn set_clock(clock: fn() -> u64) {
    CLOCK.store(clock as usize, Ordering::Relaxed);
}

/// *Hook.* Nanoseconds by the function that the host has given; 0 without one.
pub(crate) fn now() -> u64 {
    match CLOCK.load(Ordering::Relaxed) {
        0 => 0,
        // SAFETY: `set_clock` has stored a function of this type.
        clock => unsafe { std::mem::transmute::<usize, fn() -> u64>(clock)() },
    }
}

/// The time for limits and intervals of the tracker, in the place of std's, which panics here.
///
/// NOTE: each look counts as 1 ms, whatever the clock says. No other thread runs meanwhile, so what is waited
/// for does not come: without time that passes, a wait with a limit would never end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Instant(Duration);

impl Instant {
    pub(crate) fn now() -> Self {
        // Begins at an hour, so that there is a time before the first.
        static LOOKS: AtomicU64 = AtomicU64::new(3_600_000);
        Self(Duration::from_millis(LOOKS.fetch_add(1, Ordering::Relaxed)))
    }

    pub(crate) fn elapsed(&self) -> Duration {
        Self::now().0.saturating_sub(self.0)
    }

    pub(crate) fn checked_sub(&self, less: Duration) -> Option<Self> {
        self.0.checked_sub(less).map(Self)
    }

    pub(crate) fn checked_duration_since(&self, earlier: Self) -> Option<Duration> {
        self.0.checked_sub(earlier.0)
    }

    pub(crate) fn saturating_duration_since(&self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    fn add(self, more: Duration) -> Self {
        Self(self.0.saturating_add(more))
    }
}

/// Returns at once: nothing else would run meanwhile.
pub(crate) fn sleep(_time: Duration) {}

#[cfg(feature = "perfetto")]
pub(crate) use of_track_events::{clocks, counter, has_steady_counter, since_boot};

#[cfg(feature = "perfetto")]
mod of_track_events {
    use super::now;

    /// *Hook.* The host's clock is the only one, here and below.
    pub(crate) fn since_boot() -> u64 {
        now()
    }

    /// What the clocks say now, in nanoseconds, by the number that Perfetto has for each.
    pub(crate) fn clocks() -> [(u64, u64); 6] {
        [1, 2, 3, 4, 5, 6].map(|clock| (clock, now()))
    }

    pub(crate) fn has_steady_counter() -> bool {
        false
    }

    /// *Hook.* Not used, since there is no steady counter.
    pub(crate) fn counter() -> u64 {
        now()
    }
}
