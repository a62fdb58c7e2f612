//! The clocks of track events, and the processor's counter, with which they are timed.

use super::clocks::read_clock;

/// *Hook.* Nanoseconds since the system was started, sleep included.
pub(crate) fn since_boot() -> u64 {
    read_clock(libc::CLOCK_BOOTTIME)
}

/// What the system's clocks say now, in nanoseconds, by the number that Perfetto has for each: real
/// time, monotonic, the same in coarse and in raw form, and since the system was started.
pub(crate) fn clocks() -> [(u64, u64); 6] {
    let clocks = [
        (1, libc::CLOCK_REALTIME),
        (2, libc::CLOCK_REALTIME_COARSE),
        (3, libc::CLOCK_MONOTONIC),
        (4, libc::CLOCK_MONOTONIC_COARSE),
        (5, libc::CLOCK_MONOTONIC_RAW),
        (6, libc::CLOCK_BOOTTIME),
    ];
    clocks.map(|(number, clock)| (number, read_clock(clock)))
}

/// Whether [`counter`] counts at one rate, whatever the processor does, and never stops.
pub(crate) fn has_steady_counter() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::__cpuid;
        // "Invariant TSC", Intel SDM 19.17.4; AMD has the same bit.
        __cpuid(0x8000_0000).eax >= 0x8000_0007 && __cpuid(0x8000_0007).edx & 1 << 8 != 0
    }
    // Each processor of this kind counts so. One that counts more slowly would not tell events apart.
    #[cfg(target_arch = "aarch64")]
    {
        const SLOWEST: u64 = 1_000_000;
        let ticks_per_second: u64;
        // SAFETY: reads a register that Linux lets every program read.
        unsafe {
            std::arch::asm!("mrs {}, cntfrq_el0", out(reg) ticks_per_second,
                options(pure, nomem, nostack, preserves_flags));
        }
        ticks_per_second >= SLOWEST
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    false
}

/// *Hook.* What the processor counts.
///
/// NOTE: the processor may read it some instructions before or after this place.
#[inline(always)]
pub(crate) fn counter() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has this instruction.
    unsafe {
        std::arch::x86_64::_rdtsc()
    }
    #[cfg(target_arch = "aarch64")]
    {
        let ticks;
        // SAFETY: reads a register that Linux lets every program read.
        unsafe {
            std::arch::asm!("mrs {}, cntvct_el0", out(reg) ticks,
                options(nomem, nostack, preserves_flags));
        }
        ticks
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    super::now()
}
