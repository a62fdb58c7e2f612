//! Size classes of blocks: which sizes each has, and its figures.

use super::bucket::Counts;
use super::moves::Moved;

/// The number of size classes: 0-16, 17-32, 33-64 ... bytes up to 1 GiB, and above.
pub(crate) const CLASSES: usize = 28;
/// The number of the last size class.
pub(crate) const LAST_CLASS: usize = CLASSES - 1;

/// The figures of one size class.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SizeClassFigures {
    pub(crate) counts: Counts,
    /// The maximum of its live bytes.
    pub(crate) peak: u64,
    /// Blocks that left the accounts without a free, and blocks that returned.
    pub(crate) left: Moved,
    pub(crate) returned: Moved,
    /// Blocks that a reallocation moved from this class to another, and blocks that one moved to
    /// this class.
    pub(crate) resized_out: Moved,
    pub(crate) resized_in: Moved,
}

/// The size class of a block of `bytes`.
#[inline]
pub(crate) fn class_of(bytes: u64) -> usize {
    let doublings = (bytes.saturating_sub(1) | 15).ilog2() - 3;
    (doublings as usize).min(CLASSES - 1)
}

/// The smallest and the largest size in `class`; the last class has no largest.
pub(crate) fn class_bounds(class: usize) -> (u64, Option<u64>) {
    let min = if class == 0 { 0 } else { (8 << class) + 1 };
    (min, (class + 1 < CLASSES).then(|| 16 << class))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_lies_within_the_bounds_of_its_class() {
        let edges = (0..40).flat_map(|bit| [(1_u64 << bit) - 1, 1 << bit, (1 << bit) + 1]);
        for bytes in edges.chain([0, u64::MAX]) {
            let (min, max) = class_bounds(class_of(bytes));
            assert!(min <= bytes && max.is_none_or(|max| bytes <= max), "{bytes}");
        }
        assert_eq!(class_bounds(0), (0, Some(16)));
        assert_eq!(class_bounds(1), (17, Some(32)));
        assert_eq!(class_bounds(2), (33, Some(64)));
        assert_eq!(class_bounds(CLASSES - 1), ((1 << 30) + 1, None));
        assert_eq!(class_of((1 << 35) - 1), CLASSES - 1, "where the size field saturates");
    }
}
