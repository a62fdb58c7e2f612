//! From what the processor counts to nanoseconds since the system was started.

use crate::platform::os::Instant;
use crate::platform::{os, ticks};
use std::time::Duration;

/// The time after which the clocks are compared again.
const COMPARE_EVERY: Duration = Duration::from_millis(1);

/// Relates two clocks by comparing them now and then.
pub(super) struct Clock {
    /// The first and the last comparison.
    first: (u64, u64),
    last: (u64, u64),
    /// Nanoseconds for each tick, times 2^32.
    rate: u64,
    /// What the time since the system was started is ahead of the monotonic clock: the time that the
    /// system has slept.
    asleep: u64,
    /// When the clocks were last compared; `None` if not since the session began.
    compared: Option<Instant>,
}

impl Clock {
    pub(super) fn new() -> Self {
        ticks::choose();
        let now = ticks::pair();
        Self { first: now, last: now, rate: 1 << 32, asleep: 0, compared: None }
    }

    /// Compares the clocks again, if that was not done just before.
    pub(super) fn compare_if_due(&mut self) {
        if self.is_due() {
            self.compared = Some(Instant::now());
            self.relate(ticks::pair());
            self.asleep = os::since_boot().saturating_sub(os::now());
        }
    }

    /// NOTE: while the two comparisons are near each other the rate is inexact, so there must be no event
    /// after the last one.
    fn is_due(&self) -> bool {
        let nanos = Duration::from_nanos(self.last.1.saturating_sub(self.first.1));
        nanos < COMPARE_EVERY || self.compared.is_none_or(|time| time.elapsed() > COMPARE_EVERY)
    }

    /// The nanoseconds since the system was started, of a time of the monotonic clock.
    pub(super) fn of_monotonic(&self, nanos: u64) -> u64 {
        nanos.saturating_add(self.asleep)
    }

    fn relate(&mut self, now: (u64, u64)) {
        self.last = now;
        let ticks = now.0.wrapping_sub(self.first.0);
        let nanos = now.1.saturating_sub(self.first.1);
        if let Some(rate) = (u128::from(nanos) << 32).checked_div(ticks.into()) {
            self.rate = u64::try_from(rate).unwrap_or(1 << 32);
        }
    }

    /// The nanoseconds of a time near the last comparison.
    pub(super) fn nanos(&self, ticks: u64) -> u64 {
        let scaled = |distance: u64| ((u128::from(distance) * u128::from(self.rate)) >> 32) as u64;
        match self.last.0.checked_sub(ticks) {
            Some(before) => self.last.1.saturating_sub(scaled(before)),
            None => self.last.1.saturating_add(scaled(ticks - self.last.0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_between_two_comparisons_are_interpolated() {
        let mut clock =
            Clock { first: (1000, 50), last: (1000, 50), rate: 1 << 32, asleep: 0, compared: None };
        // Four ticks for each nanosecond.
        clock.relate((1000 + 4_000_000_000, 50 + 1_000_000_000));
        assert_eq!(clock.nanos(1000 + 2_000_000_000), 50 + 500_000_000);
        assert_eq!(clock.nanos(1000 + 4_000_000_400), 50 + 1_000_000_100);
        // Before the system was started there is nothing.
        assert_eq!(clock.nanos(0), 0);
    }

    /// Counters of AArch64 have ticks of 1 to 52 ns.
    #[test]
    fn times_of_a_slow_counter_are_exact_to_a_tick() {
        for ticks_per_second in [19_200_000, 25_000_000, 62_500_000, 1_000_000_000_u64] {
            let tick = 1_000_000_000_u64.div_ceil(ticks_per_second);
            let ticks = |nanos: u64| nanos * (ticks_per_second / 100_000) / 10_000;
            let start = 7_000_000_123;
            let first = (ticks(start), start);
            let mut clock = Clock { first, last: first, rate: 1 << 32, asleep: 0, compared: None };
            let mut last = start;
            // The first comparisons can be in one tick.
            for compared in
                [start + 3, start + 30, start + 900, start + 40_000, start + 900_000_077]
            {
                clock.relate((ticks(compared), compared));
                for part in 0..=10 {
                    let time = last + (compared - last) * part / 10;
                    let found = clock.nanos(ticks(time));
                    assert!(
                        found.abs_diff(time) <= 2 * tick,
                        "{ticks_per_second}: {found}, {time}"
                    );
                }
                last = compared;
            }
        }
    }

    #[test]
    fn the_clocks_are_compared_until_the_rate_is_exact() {
        let mut clock = Clock::new();
        clock.compared = Some(Instant::now() + Duration::from_secs(60));
        clock.last = (clock.first.0 + 7, clock.first.1 + 999_999);
        assert!(clock.is_due());
        clock.last.1 += 1;
        assert!(!clock.is_due());
    }
}
