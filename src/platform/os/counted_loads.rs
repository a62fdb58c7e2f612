//! How often the loader has loaded and unloaded a file, on a system whose loader calls a function for each.

use super::Memory;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

static LOADS: AtomicU32 = AtomicU32::new(0);
static UNLOADS: AtomicU32 = AtomicU32::new(0);
static IS_WATCHED: AtomicBool = AtomicBool::new(false);

/// The bases of the files that were loaded with the program: none of them is ever unloaded.
pub(super) const MAX_LASTING: usize = 1024;
static LASTING: [AtomicUsize; MAX_LASTING] = [const { AtomicUsize::new(0) }; MAX_LASTING];
static LASTING_COUNT: AtomicUsize = AtomicUsize::new(0);

/// From now on, the loader's calls are counted.
pub(super) fn set_watched() {
    IS_WATCHED.store(true, Ordering::Release);
}

pub(super) fn count_load() {
    LOADS.fetch_add(1, Ordering::AcqRel);
}

pub(super) fn count_unload() {
    UNLOADS.fetch_add(1, Ordering::AcqRel);
}

/// Notes the base of a file that was loaded with the program, by one thread before `main`.
pub(super) fn add_lasting(base: usize) {
    let count = LASTING_COUNT.load(Ordering::Relaxed);
    if let Some(place) = LASTING.get(count) {
        place.store(base, Ordering::Relaxed);
        LASTING_COUNT.store(count + 1, Ordering::Release);
    }
}

/// *Hook.* A number that is another one after the loader has unloaded a file; always 0 where the system does
/// not say.
#[inline(always)]
pub(crate) fn unloads() -> u32 {
    UNLOADS.load(Ordering::Acquire)
}

/// *Hook.* How many files the loader has loaded; always 0 where the system does not say.
pub(crate) fn loads() -> u32 {
    LOADS.load(Ordering::Acquire)
}

/// A number that is another one after the loader has loaded or unloaded a file; `None` where the system does
/// not say.
pub(crate) fn loader_state(_memory: &Memory) -> Option<u64> {
    let state = u64::from(loads()) << 32 | u64::from(unloads());
    IS_WATCHED.load(Ordering::Acquire).then_some(state)
}

/// Whether the file with this base was loaded with the program.
pub(crate) fn is_lasting(base: u64) -> bool {
    let mut known = LASTING.iter().take(LASTING_COUNT.load(Ordering::Acquire));
    known.any(|lasting| lasting.load(Ordering::Relaxed) as u64 == base)
}
