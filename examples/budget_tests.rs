//! Budgets in tests: how much memory may a piece of code use?
//!
//! ```text
//! cargo test --example budget_tests
//! cargo run --example budget_tests
//! ```
//! The first runs the tests below, in parallel as all tests. The second shows what one says that
//! goes over its budget.

use memledger::{TrackingAllocator, alloc_scope, budget, group, measure, tag, tagged};
use std::collections::HashMap;

#[global_allocator]
static ALLOC: TrackingAllocator = TrackingAllocator::system();

group! {
    /// How often which word occurs.
    INDEX = "Index";
}

/// Counts words; the text is split up among two threads.
fn count_words(text: &str) -> HashMap<String, usize> {
    let middle = text.len() / 2;
    let middle = text[middle..].find(' ').map_or(text.len(), |space| middle + space);
    let context = memledger::ScopeContext::current();
    let count = |part: &str| {
        alloc_scope!("count", {
            let mut words = HashMap::new();
            for word in part.split_whitespace() {
                *words.entry(word.to_owned()).or_insert(0) += 1;
            }
            words
        })
    };
    let (first, second) = std::thread::scope(|threads| {
        let second = threads.spawn(|| context.run(|| count(&text[middle..])));
        (count(&text[..middle]), second.join().unwrap_or_default())
    });
    alloc_scope!("merge");
    tagged(tag!(INDEX, "words"), || {
        second.into_iter().fold(first, |mut words, (word, times)| {
            *words.entry(word).or_insert(0) += times;
            words
        })
    })
}

fn text() -> String {
    (0..2000).map(|number| format!("word{} ", number % 50)).collect()
}

fn main() {
    let text = text();
    let (words, figures) = measure(|| count_words(&text));
    match figures {
        Ok(figures) => println!(
            "{} words: {} allocations, {} bytes at the peak, {} bytes in the result\n",
            words.len(),
            figures.allocations,
            figures.peak_bytes,
            figures.live_bytes
        ),
        Err(error) => println!("{error}\n"),
    }
    // A budget it cannot keep.
    let small = budget("count words").peak_bytes(4 << 10).live_bytes(0);
    if let (_, Err(error)) = small.try_run(|| count_words(&text)) {
        println!("{error}");
    }
}

#[cfg(all(test, feature = "enable"))]
mod tests {
    use super::*;

    #[test]
    fn counting_leaves_nothing_behind_and_takes_little() {
        let text = text();
        let words = budget("count words")
            .peak_bytes(64 << 10)
            .live_bytes(0)
            .run(|| count_words(&text).len());
        assert_eq!(words, 50);
    }

    #[test]
    fn a_result_has_to_be_paid_for() {
        let text = text();
        budget("count words").live_bytes(16 << 10).run(|| count_words(&text));
    }

    #[test]
    fn looking_words_up_allocates_nothing() {
        let words = count_words(&text());
        let found = budget("look up").allocations(0).reallocations(0).run(|| {
            (0..1000)
                .filter(|_| words.contains_key("word7") && !words.contains_key("word70"))
                .count()
        });
        assert_eq!(found, 1000);
    }
}
