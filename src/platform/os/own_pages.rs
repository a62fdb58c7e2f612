//! The pages that the tracker has mapped, and those that allocators have, to tell them from others.

use super::{KeepErrno, is_kernel_closed, pages};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The most mappings that are kept. A program with 500 threads at once has some 2,000 of the tracker.
const MAX_MAPPINGS: usize = 8192;

/// Mappings, which can be changed at any time.
pub(crate) struct Mappings {
    /// PERF: pages of this table that are not used are not resident.
    all: [Mapping; MAX_MAPPINGS],
    /// How many were added so far.
    added: AtomicUsize,
}

struct Mapping {
    start: AtomicUsize,
    /// [`FREE`], or [`TAKEN`] while it is added.
    bytes: AtomicUsize,
}

const FREE: usize = 0;
const TAKEN: usize = 1;

static OWN: Mappings = Mappings::new();

/// What allocators have mapped whose functions are recorded: blocks, what is free, and their tables.
#[cfg(c_mmap)]
pub(crate) static OF_ALLOCATORS: Mappings = Mappings::new();

/// What the tracker's own code has mapped by C's functions.
#[cfg(c_mmap)]
pub(crate) fn own_mappings() -> &'static Mappings {
    &OWN
}

impl Mappings {
    const fn new() -> Self {
        let all = [const { Mapping { start: AtomicUsize::new(0), bytes: AtomicUsize::new(FREE) } };
            MAX_MAPPINGS];
        Self { all, added: AtomicUsize::new(0) }
    }

    /// *Hook.* Adds a mapping, unless there are too many.
    pub(crate) fn add(&self, start: usize, bytes: usize) {
        let first = self.added.fetch_add(1, Ordering::Relaxed);
        for at in 0..MAX_MAPPINGS {
            let Some(mapping) = self.all.get((first + at) % MAX_MAPPINGS) else { return };
            let taken =
                mapping.bytes.compare_exchange(FREE, TAKEN, Ordering::Relaxed, Ordering::Relaxed);
            if taken.is_ok() {
                mapping.start.store(start, Ordering::Relaxed);
                mapping.bytes.store(bytes, Ordering::Release);
                return;
            }
        }
    }

    /// *Hook.* Removes the mappings, and the parts of mappings, that are at these addresses.
    ///
    /// NOTE: who looks at the mappings meanwhile may miss one that is cut.
    pub(crate) fn remove(&self, start: usize, bytes: usize) {
        let end = start.saturating_add(bytes);
        for mapping in self.used() {
            let Some((from, to)) = mapping.range().filter(|(from, to)| *from < end && start < *to)
            else {
                continue;
            };
            mapping.bytes.store(FREE, Ordering::Relaxed);
            if from < start {
                self.add(from, start - from);
            }
            if end < to {
                self.add(end, to - end);
            }
        }
    }

    fn used(&self) -> impl Iterator<Item = &Mapping> {
        self.all.iter().take(self.added.load(Ordering::Relaxed))
    }

    /// The start and the bytes of each mapping.
    pub(super) fn ranges(&self) -> impl Iterator<Item = (u64, u64)> {
        let ranges = self.used().filter_map(Mapping::range);
        ranges.map(|(start, end)| (start as u64, (end - start) as u64))
    }
}

impl Mapping {
    /// Where it starts and ends, if it is one.
    fn range(&self) -> Option<(usize, usize)> {
        let bytes = self.bytes.load(Ordering::Acquire);
        let start = self.start.load(Ordering::Relaxed);
        (bytes > TAKEN).then(|| (start, start.saturating_add(bytes)))
    }
}

/// *Hook.* Maps `bytes` of zeroed pages; `None` if the system has none, or may not be asked.
pub(crate) fn map(bytes: usize) -> Option<NonNull<u8>> {
    if is_kernel_closed() {
        return None;
    }
    let _errno = KeepErrno::new();
    let mapped = pages::map_pages(bytes)?;
    OWN.add(mapped.as_ptr().addr(), bytes);
    Some(mapped)
}

/// *Hook.* Unmaps pages of [`map`] that no other thread has seen.
pub(crate) fn unmap(start: NonNull<u8>, bytes: usize) {
    let _errno = KeepErrno::new();
    OWN.remove(start.as_ptr().addr(), bytes);
    pages::unmap_pages(start, bytes);
}

/// The start and the bytes of each mapping of the tracker.
pub(super) fn own_pages() -> impl Iterator<Item = (u64, u64)> {
    OWN.ranges()
}

/// Whether an address is in one of these ranges, which are sorted.
#[cfg(not(any(target_os = "linux", wasm)))]
pub(super) fn is_in(ranges: &[(u64, u64)], address: u64) -> bool {
    let next = ranges.partition_point(|(start, _)| *start <= address);
    let last = next.checked_sub(1).and_then(|last| ranges.get(last));
    last.is_some_and(|(start, bytes)| address - start < *bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_mappings_are_removed_and_their_places_are_used_again() {
        static MAPPINGS: Mappings = Mappings::new();
        let all = || {
            let mut all = MAPPINGS.ranges().collect::<Vec<_>>();
            all.sort_unstable();
            all
        };
        MAPPINGS.add(0x1000, 0x4000);
        MAPPINGS.add(0x8000, 0x1000);
        MAPPINGS.remove(0x2000, 0x1000);
        assert_eq!(all(), [(0x1000, 0x1000), (0x3000, 0x2000), (0x8000, 0x1000)]);
        MAPPINGS.remove(0x4000, 0x5000);
        assert_eq!(all(), [(0x1000, 0x1000), (0x3000, 0x1000)]);
        MAPPINGS.remove(0, usize::MAX);
        assert_eq!(all(), []);
        (0..3 * MAX_MAPPINGS).for_each(|at| {
            MAPPINGS.add(at << 12, 0x1000);
            MAPPINGS.remove(at.saturating_sub(9) << 12, 0x1000);
        });
        assert_eq!(all().len(), 9);
        // Those for which there is no room are not kept.
        (0..2 * MAX_MAPPINGS).for_each(|at| MAPPINGS.add((1 << 40) + (at << 12), 0x1000));
        assert_eq!(all().len(), MAX_MAPPINGS);
    }
}
