//! A cheap hash for the analyzer's own small keys: one wide multiplication, folded.
//!
//! The key is mixed with a number that differs from run to run, so that a prepared trace cannot
//! make every block collide. No result depends on it: everything read out of a table is sorted.

use std::hash::{BuildHasher, Hasher, RandomState};

const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// A number for [`fold`] that cannot be known beforehand.
pub(super) fn random_seed() -> u64 {
    RandomState::new().hash_one(0_u64)
}

/// Well-mixed bits of `key`.
#[inline]
pub(super) fn fold(key: u64, seed: u64) -> u64 {
    let wide = u128::from(key ^ seed) * u128::from(FACTOR);
    (wide as u64) ^ ((wide >> 64) as u64)
}

/// Builds [`FoldHasher`]s for a `HashMap` whose keys are integers or tuples of them.
#[derive(Clone, Debug)]
pub struct FoldHash(u64);

impl Default for FoldHash {
    fn default() -> Self {
        Self(random_seed())
    }
}

impl BuildHasher for FoldHash {
    type Hasher = FoldHasher;

    #[inline]
    fn build_hasher(&self) -> FoldHasher {
        FoldHasher(self.0)
    }
}

/// Folds every integer written to it.
#[derive(Debug)]
pub struct FoldHasher(u64);

impl Hasher for FoldHasher {
    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u8(&mut self, value: u8) {
        self.write_u64(u64::from(value));
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(u64::from(value));
    }

    fn write_i32(&mut self, value: i32) {
        self.write_u64(u64::from(value as u32));
    }

    #[inline]
    fn write_u64(&mut self, value: u64) {
        self.0 = fold(value, self.0);
    }
}

/// A map with integer keys. Never iterate it where the order could show in a result.
pub type IntMap<K, V> = std::collections::HashMap<K, V, FoldHash>;
