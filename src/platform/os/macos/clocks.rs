//! The system's clocks (`man 3 clock_gettime`).

/// *Hook.* Nanoseconds of the monotonic clock, which stops while the system sleeps. It is that of
/// `mach_absolute_time`.
pub(crate) fn now() -> u64 {
    read(libc::CLOCK_UPTIME_RAW)
}

/// *Hook.* What a clock says, in nanoseconds; 0 if there is no such clock.
fn read(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes to a local.
    if unsafe { libc::clock_gettime(clock, &raw mut time) } != 0 {
        return 0;
    }
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}

#[cfg(feature = "perfetto")]
pub(crate) use of_track_events::{clocks, counter, has_steady_counter, since_boot};

#[cfg(feature = "perfetto")]
mod of_track_events {
    use super::{now, read};

    /// *Hook.* Nanoseconds since the system was started, sleep included.
    pub(crate) fn since_boot() -> u64 {
        read(libc::CLOCK_MONOTONIC_RAW)
    }

    /// What the system's clocks say now, in nanoseconds, by the number that Perfetto has for each: real time,
    /// monotonic, the same in coarse and in raw form, and since the system was started.
    pub(crate) fn clocks() -> [(u64, u64); 6] {
        let (real, now, booted) = (read(libc::CLOCK_REALTIME), now(), since_boot());
        [(1, real), (2, real), (3, now), (4, now), (5, now), (6, booted)]
    }

    /// The system's own clock reads the processor's counter, so little is to be gained.
    pub(crate) fn has_steady_counter() -> bool {
        false
    }

    /// *Hook.* Not used, since there is no steady counter.
    #[inline(always)]
    pub(crate) fn counter() -> u64 {
        now()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_does_not_go_back() {
        let first = now();
        assert!(now() >= first && first > 0);
    }
}
