//! Numbers in place of values: each value is kept once.

use std::collections::HashMap;
use std::hash::Hash;

/// Gives numbers to values: from 0, in the order in which they are first seen.
#[derive(Debug)]
pub(super) struct Interner<T> {
    numbers: HashMap<T, u32>,
    /// The values, by number.
    pub(super) all: Vec<T>,
}

impl<T> Default for Interner<T> {
    fn default() -> Self {
        Self { numbers: HashMap::new(), all: Vec::new() }
    }
}

impl<T: Clone + Eq + Hash> Interner<T> {
    /// The number of a value, which is added if it is new.
    pub(super) fn number(&mut self, value: T) -> u32 {
        let Self { numbers, all } = self;
        *numbers.entry(value).or_insert_with_key(|value| {
            all.push(value.clone());
            all.len() as u32 - 1
        })
    }
}

impl Interner<String> {
    /// The same, without an allocation if the text is known.
    pub(super) fn text(&mut self, text: &str) -> u32 {
        self.numbers.get(text).copied().unwrap_or_else(|| self.number(text.to_owned()))
    }
}
