//! Numbers in place of values, as tables of other formats have them.

use rustc_hash::FxHashMap;
use std::hash::Hash;

/// Numbers for values, from 0 in the order in which they are first seen.
pub struct Numbers<T> {
    numbers: FxHashMap<T, u32>,
    /// The values, by number.
    pub all: Vec<T>,
}

impl<T> Default for Numbers<T> {
    fn default() -> Self {
        Self { numbers: FxHashMap::default(), all: Vec::new() }
    }
}

impl<T: Clone + Eq + Hash> Numbers<T> {
    /// The number of this value.
    pub fn of(&mut self, value: T) -> u32 {
        let all = &mut self.all;
        *self.numbers.entry(value).or_insert_with_key(|value| {
            all.push(value.clone());
            all.len() as u32 - 1
        })
    }
}
