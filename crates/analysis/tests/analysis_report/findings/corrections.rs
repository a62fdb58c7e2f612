//! Blocks that change their place, their size, or what they are.

use super::only;
use super::places::{found, in_scopes, observing, with_stacks};
use memledger_analysis::{FindingsObserver, Place};
use memledger_test_support::feed::{Feed, V::N};

type Observed = Feed<FindingsObserver>;

/// Tags of the names `plants` and `trees` in scope `a`.
const PLANTS: i32 = 301;
const TREES: i32 = 302;

fn within(feed: &mut Observed, tag: i32, act: impl FnOnce(&mut Observed)) {
    feed.enter(2, tag);
    act(feed);
    feed.leave(2);
}

/// Gives a block the tag that is open.
fn retag(feed: &mut Observed, address: u64) {
    feed.emit("Memory.UpdateAlloc", 2, &[N(address), N(0)]);
}

/// Where blocks have grown, how many, and how often.
fn grown(feed: &mut Observed) -> (Place, u64, u64) {
    let finding = only(found(feed, None).1, "grows_stepwise");
    let figure = |key| finding.figure(key).expect("a figure");
    let (blocks, growths) = (figure("blocks"), figure("growths"));
    (finding.place, blocks, growths)
}

#[test]
fn a_block_that_grows_counts_where_it_has_its_last_name() {
    for (is_kept, grows_after) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut feed = in_scopes(observing());
        for block in 1..=5_000_u64 {
            let [first, second, last] = [0, 0x1000, 0x2000].map(|at| block << 16 | at);
            within(&mut feed, PLANTS, |feed| {
                feed.alloc(2, first, 100);
                feed.realloc(2, first, second, 200);
            });
            if grows_after {
                within(&mut feed, TREES, |feed| retag(feed, second));
            }
            feed.realloc(2, second, last, 400);
            if !grows_after {
                within(&mut feed, TREES, |feed| retag(feed, last));
            }
            if !is_kept {
                feed.free(2, last);
            }
        }
        let (place, blocks, growths) = grown(&mut feed);
        assert_eq!((place.name.as_deref(), blocks, growths), (Some("trees"), 5_000, 10_000));
    }
}

#[test]
fn a_block_that_grows_counts_where_it_has_its_last_stack() {
    for is_kept in [false, true] {
        let mut feed = with_stacks(observing());
        for block in 1..=5_000_u64 {
            let [first, second, last] = [0, 0x1000, 0x2000].map(|at| block << 16 | at);
            feed.alloc_at(2, first, 100, 1);
            feed.realloc_free(2, first);
            feed.realloc_alloc_at(2, second, 200, 1);
            feed.realloc_free(2, second);
            feed.realloc_alloc_at(2, last, 400, 3);
            if !is_kept {
                feed.free(2, last);
            }
        }
        let (place, blocks, growths) = grown(&mut feed);
        assert_eq!((&*place.source.lines, blocks, growths), (&[20][..], 5_000, 10_000));
    }
}

#[test]
fn a_size_that_is_corrected_is_the_size_of_the_block() {
    let mut feed = in_scopes(observing());
    let set = |feed: &mut Observed, address, size| {
        feed.emit("Memledger.LargeSize", 2, &[N(address), N(size)]);
    };
    feed.enter(2, TREES);
    // An event cannot say more than 32 GiB.
    feed.alloc(2, 0x10, 1 << 34);
    feed.realloc(2, 0x10, 0x20, 1 << 36);
    set(&mut feed, 0x20, 1 << 36);
    for block in 1..=64_u64 {
        feed.alloc(2, block << 20, 1 << 20);
        feed.realloc(2, block << 20, (block << 20) + 16, 2 << 20);
    }
    let finding = only(found(&mut feed, None).1, "grows_stepwise");
    let figures = ["blocks", "copied_bytes", "largest_bytes"].map(|key| finding.figure(key));
    assert_eq!(figures, [Some(65), Some((1 << 34) + (64 << 20)), Some(1 << 36)]);
}

#[test]
fn a_block_below_another_is_at_its_end() {
    let mut feed = in_scopes(observing());
    feed.enter(2, TREES);
    for _ in 0..10_000 {
        // The block of the round before is still there.
        feed.alloc(2, 0x1000, 100);
        feed.realloc(2, 0x1000, 0x1000, 200);
    }
    let (_, blocks, growths) = grown(&mut feed);
    assert_eq!((blocks, growths), (10_000, 10_000));
}

#[test]
fn the_age_of_what_is_left_is_that_of_live_blocks() {
    let mut feed = in_scopes(observing());
    let mut now = 0;
    let mut pass = |feed: &mut Observed, ns| {
        now += ns;
        feed.marker(now);
    };
    let address = |block: u64| block << 16;
    feed.enter(2, TREES);
    for block in 0..300 {
        feed.alloc(2, 0x8000, 100);
        feed.alloc(2, 0x9000, 100);
        feed.free(2, 0x8000);
        feed.free(2, 0x9000);
        if block % 30 == 0 {
            pass(&mut feed, 100_000_000);
            feed.alloc(2, address(block / 30 + 1), 8_000);
        }
    }
    // At 1 s: one block ends below another, and one is a heap for a while.
    feed.alloc(2, address(1), 8_000);
    feed.emit("Memory.HeapMarkAlloc", 2, &[N(address(2)), N(1), N(16)]);
    pass(&mut feed, 1_000_000_000);
    feed.emit("Memory.HeapUnmarkAlloc", 2, &[N(address(2)), N(16)]);
    feed.leave(2);
    // At 2 s: one gets another name.
    within(&mut feed, PLANTS, |feed| feed.alloc(2, address(11), 8_000));
    within(&mut feed, TREES, |feed| retag(feed, address(11)));
    pass(&mut feed, 1_000_000_000);
    let finding = only(found(&mut feed, None).1, "left_behind");
    let figure = |key| finding.figure(key).expect("a figure");
    let (blocks, mean_age_ns) = (figure("blocks"), figure("mean_age_ns"));
    // Now it is 3 s: allocated at 0.2 to 1 s, at 1 s again, and at 2 s.
    let ages = (2..=10).map(|at| 3_000_000_000 - at * 100_000_000).sum::<u64>()
        + 2_000_000_000
        + 1_000_000_000;
    assert_eq!((blocks, mean_age_ns), (11, ages / 11));
}
