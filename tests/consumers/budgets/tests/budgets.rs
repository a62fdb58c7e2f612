//! Tests with budgets: they hold to the byte while other tests allocate on other threads, and in a process of
//! their own.

use budgets::{capitals, lengths};
use memledger::{BudgetError, TrackingAllocator, alloc_scope, budget, measure};

#[global_allocator]
static ALLOC: TrackingAllocator = TrackingAllocator::system();

/// Each test has this many rounds, so that tests overlap; none without the tracker, where no budget can be
/// checked.
fn rounds(number: usize) -> std::ops::Range<usize> {
    0..if memledger::ENABLED { number } else { 0 }
}

#[test]
fn a_word_is_one_block() {
    for _ in rounds(200) {
        let word = budget("one word").allocations(2).live_blocks(2).run(|| capitals("budget"));
        assert_eq!(word, ["BUDGET"]);
    }
}

#[test]
fn words_leave_nothing() {
    for _ in rounds(200) {
        budget("words").live_bytes(0).live_blocks(0).run(|| drop(capitals("one two three")));
    }
}

#[test]
fn figures_do_not_depend_on_other_tests() {
    let mut seen = Vec::new();
    for _ in rounds(200) {
        let (_, figures) = measure(|| alloc_scope!("words", { capitals("a b c d e") }));
        seen.push(figures.expect("this is a test with the allocator"));
    }
    seen.dedup();
    assert!(seen.len() <= 1, "{seen:?}");
}

#[test]
fn a_budget_that_is_too_small_is_exceeded() {
    for _ in rounds(5) {
        let (words, checked) = budget("too small").live_blocks(2).try_run(|| capitals("one two"));
        assert_eq!(words.len(), 2);
        match checked {
            Err(BudgetError::Over { figures, .. }) => assert_eq!(figures.live_blocks, 3),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn threads_of_the_code_have_a_budget_of_their_own() {
    for _ in rounds(20) {
        let found = budget("lengths").live_blocks(1).run(|| lengths(&["one", "two three"]));
        assert_eq!(found, [1, 2]);
    }
}
