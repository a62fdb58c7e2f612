//! Counts words. The library marks whose memory is whose; without tracking, that is no code at all.

use memledger::{alloc_scope, group, tag, tagged};
use std::collections::HashMap;

group! {
    /// Who owns the memory of this library in every program: users can look for it by this name.
    pub WORDS = "Words";
    /// What lives as long as a [`Counter`].
    pub INDEX = "Index" in WORDS;
}

/// How often each word occurred.
#[derive(Debug, Default)]
pub struct Counter {
    times: HashMap<String, u64>,
}

impl Counter {
    /// Counts the words of a text.
    pub fn add(&mut self, text: &str) {
        alloc_scope!(group: WORDS, "add");
        let words = text.split_whitespace().map(str::to_lowercase).collect::<Vec<_>>();
        tagged(tag!(INDEX, "times"), || {
            for word in words {
                *self.times.entry(word).or_default() += 1;
            }
        });
    }

    /// How often a word occurred, in lower case.
    pub fn times(&self, word: &str) -> u64 {
        self.times.get(word).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use memledger::{TrackingAllocator, budget};

    #[global_allocator]
    static ALLOC: TrackingAllocator = TrackingAllocator::system();

    #[test]
    fn a_word_that_is_known_takes_no_memory() {
        let mut counter = Counter::default();
        counter.add("one two one");
        budget("known").live_bytes(0).run(|| counter.add("two one"));
        assert_eq!((counter.times("one"), counter.times("two")), (3, 2));
    }
}
