//! Numbers in place of values: each value is kept once.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, RandomState};

/// Gives numbers to values: from 0, in the order in which they are first seen.
#[derive(Debug)]
pub struct Interner<T, S = RandomState> {
    numbers: HashMap<T, u32, S>,
    /// The values, by number.
    pub all: Vec<T>,
}

impl<T, S: Default> Default for Interner<T, S> {
    fn default() -> Self {
        Self { numbers: HashMap::default(), all: Vec::new() }
    }
}

impl<T: Clone + Eq + Hash, S: BuildHasher> Interner<T, S> {
    /// The number of a value, which is added if it is new.
    pub fn number(&mut self, value: T) -> u32 {
        let Self { numbers, all } = self;
        *numbers.entry(value).or_insert_with_key(|value| {
            all.push(value.clone());
            all.len() as u32 - 1
        })
    }
}

impl<S: BuildHasher> Interner<String, S> {
    /// The same, without an allocation if the text is known.
    pub fn text(&mut self, text: &str) -> u32 {
        self.numbers.get(text).copied().unwrap_or_else(|| self.number(text.to_owned()))
    }
}
