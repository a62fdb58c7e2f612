//! Delays that tests ask for, at the points where processes and threads wait for each other.

#[cfg(debug_assertions)]
use super::os;
#[cfg(debug_assertions)]
use std::sync::OnceLock;
#[cfg(debug_assertions)]
use std::sync::atomic::{AtomicU64, Ordering};
#[cfg(debug_assertions)]
use std::time::Duration;

/// Sleeps for up to 200 ms if the environment has a seed for that, a random time for each process and call.
/// Nothing in builds without debug assertions.
#[inline]
pub(crate) fn delay() {
    #[cfg(debug_assertions)]
    {
        static SEED: OnceLock<Option<u64>> = OnceLock::new();
        static CALLS: AtomicU64 = AtomicU64::new(0);
        let of_tests = || os::secure_env(c"TEST_DELAYS")?.to_str()?.parse::<u64>().ok();
        let Some(seed) = *SEED.get_or_init(of_tests) else { return };
        let number = u64::from(os::process_id()) << 32 | CALLS.fetch_add(1, Ordering::Relaxed);
        let mixed = (seed ^ number).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let random = (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 32;
        os::sleep(Duration::from_millis(random % 201));
    }
}
