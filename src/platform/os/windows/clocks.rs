//! The system's clocks.

use std::sync::atomic::{AtomicU64, Ordering};
use windows_sys::Win32::System::Performance::{QueryPerformanceCounter, QueryPerformanceFrequency};

/// *Hook.* Nanoseconds of the monotonic clock, which also runs while the system sleeps.
pub(crate) fn now() -> u64 {
    static PER_SECOND: AtomicU64 = AtomicU64::new(0);
    let (mut ticks, mut per_second) = (0, PER_SECOND.load(Ordering::Relaxed));
    // SAFETY: the calls write to locals, and never fail on this system.
    unsafe {
        if per_second == 0 {
            let mut found = 0;
            QueryPerformanceFrequency(&raw mut found);
            per_second = found.max(1) as u64;
            PER_SECOND.store(per_second, Ordering::Relaxed);
        }
        QueryPerformanceCounter(&raw mut ticks);
    }
    nanoseconds(ticks as u64, per_second)
}

/// PERF: without a division of 128 bits, which takes longer than to read the clock.
fn nanoseconds(ticks: u64, per_second: u64) -> u64 {
    const SECOND: u64 = 1_000_000_000;
    if SECOND.is_multiple_of(per_second) {
        return ticks.wrapping_mul(SECOND / per_second);
    }
    let (seconds, rest) = (ticks / per_second, ticks % per_second);
    seconds.wrapping_mul(SECOND).wrapping_add(rest.wrapping_mul(SECOND) / per_second)
}

#[cfg(feature = "perfetto")]
pub(crate) use of_track_events::{clocks, counter, has_steady_counter, since_boot};

#[cfg(feature = "perfetto")]
mod of_track_events {
    use windows_sys::Win32::Foundation::FILETIME;
    use windows_sys::Win32::System::SystemInformation::GetSystemTimePreciseAsFileTime;

    /// *Hook.* Nanoseconds since the system was started, sleep included.
    pub(crate) fn since_boot() -> u64 {
        super::now()
    }

    /// What the system's clocks say now, in nanoseconds, by the number that Perfetto has for each: real time,
    /// monotonic, the same in coarse and in raw form, and since the system was started.
    pub(crate) fn clocks() -> [(u64, u64); 6] {
        let (real, now) = (real_time(), super::now());
        [(1, real), (2, real), (3, now), (4, now), (5, now), (6, now)]
    }

    /// Nanoseconds since 1970.
    fn real_time() -> u64 {
        /// From 1601, where this system's time begins, to 1970, in units of 100 ns.
        const TO_1970: u64 = 116_444_736_000_000_000;
        let mut time = FILETIME { dwLowDateTime: 0, dwHighDateTime: 0 };
        // SAFETY: the call writes to a local.
        unsafe { GetSystemTimePreciseAsFileTime(&raw mut time) };
        let units = u64::from(time.dwHighDateTime) << 32 | u64::from(time.dwLowDateTime);
        units.saturating_sub(TO_1970) * 100
    }

    /// The system's own clock is the processor's counter where that is steady, so nothing is to be gained.
    pub(crate) fn has_steady_counter() -> bool {
        false
    }

    /// *Hook.* Not used, since there is no steady counter.
    #[inline(always)]
    pub(crate) fn counter() -> u64 {
        super::now()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_of_any_frequency_are_nanoseconds() {
        assert_eq!(nanoseconds(123, 10_000_000), 12_300);
        assert_eq!(nanoseconds(3_579_545 * 1_000_000 + 3, 3_579_545), 1_000_000_000_000_838);
        let first = now();
        assert!(now() >= first && first > 0);
    }
}
