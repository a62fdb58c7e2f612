//! The data that is kept for a live block.

use crate::accounts::{AccountKey, class_of};

/// The largest size that is kept: more than any address space of today.
const MAX_SIZE: u64 = (1 << 56) - 1;

/// A live block: 24 bytes, 16 in a chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Block {
    /// At most 2^56 - 1.
    size: u64,
    /// When it was first allocated, in nanoseconds.
    pub(crate) allocated_at: u64,
    /// The number of the bucket (context and thread) that it counts in.
    pub(crate) bucket: u32,
}

impl Block {
    /// In place of a block: there is none.
    pub(super) const NONE: Self = Self { size: u64::MAX, allocated_at: 0, bucket: 0 };

    #[inline]
    pub(super) fn is_none(&self) -> bool {
        self.size == Self::NONE.size
    }

    #[inline]
    pub(crate) fn new(size: u64) -> Self {
        Self { size: size.min(MAX_SIZE), ..Self::default() }
    }

    /// A block that was allocated at `at` nanoseconds and counts in `bucket`.
    #[inline]
    pub(crate) fn allocated(size: u64, at: u64, bucket: u32) -> Self {
        Self { allocated_at: at, bucket, ..Self::new(size) }
    }

    #[inline]
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Larger sizes than 2^56 - 1 are kept as that.
    #[inline]
    pub(crate) fn set_size(&mut self, size: u64) {
        self.size = size.min(MAX_SIZE);
    }

    /// The rows that it counts in.
    #[inline]
    pub(crate) fn key(&self) -> AccountKey {
        AccountKey { bucket: self.bucket, class: class_of(self.size) }
    }
}
