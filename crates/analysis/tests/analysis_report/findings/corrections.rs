//! Blocks that change their place, their size, or what they are.

use super::only;
use super::places::{found, in_scopes, observing, with_stacks};
use memledger_analysis::{FindingKind, FindingsObserver, Place};
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
    let finding = only(found(feed, None).1, "grows");
    match finding.kind {
        FindingKind::Grows { blocks, growths, .. } => (finding.place, blocks, growths),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_block_that_grows_counts_where_it_has_its_last_name() {
    for (is_kept, grows_after) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut feed = in_scopes(observing());
        for block in 1..=500_u64 {
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
        assert_eq!((place.name.as_deref(), blocks, growths), (Some("trees"), 500, 1_000));
    }
}

#[test]
fn a_block_that_grows_counts_where_it_has_its_last_stack() {
    for is_kept in [false, true] {
        let mut feed = with_stacks(observing());
        for block in 1..=500_u64 {
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
        assert_eq!((place.line, blocks, growths), (Some(20), 500, 1_000));
    }
}

#[test]
fn a_size_that_is_corrected_is_the_size_of_the_block() {
    let mut feed = in_scopes(observing());
    let set = |feed: &mut Observed, address, size| {
        feed.emit("Memledger.LargeSize", 2, &[N(address), N(size)]);
    };
    // An event cannot say more than 32 GiB.
    feed.alloc(2, 0x10, 1 << 34);
    feed.realloc(2, 0x10, 0x20, 1 << 36);
    set(&mut feed, 0x20, 1 << 36);
    // A growth that looks like a shrink until its size is known.
    feed.alloc(2, 0x30, 1 << 36);
    set(&mut feed, 0x30, 1 << 36);
    feed.realloc(2, 0x30, 0x40, (1 << 36) + 8);
    set(&mut feed, 0x40, (1 << 36) + 8);
    let (_, found) = found(&mut feed, None);
    assert!(found.iter().all(|finding| finding.kind_name() != "shrinks"), "{found:#?}");
    let FindingKind::Grows { copied_bytes, largest_bytes, .. } = only(found, "grows").kind else {
        panic!("another kind")
    };
    assert_eq!((copied_bytes, largest_bytes), (1 << 34, 1 << 36));
}

#[test]
fn a_block_below_another_is_at_its_end() {
    let mut feed = in_scopes(observing());
    for _ in 0..1_000 {
        // The block of the round before is still there.
        feed.alloc(2, 0x1000, 100);
        feed.realloc(2, 0x1000, 0x1000, 200);
    }
    let (_, blocks, growths) = grown(&mut feed);
    assert_eq!((blocks, growths), (1_000, 1_000));
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
    let FindingKind::LeftBehind { blocks, mean_age_ns, .. } =
        only(found(&mut feed, None).1, "left_behind").kind
    else {
        panic!("another kind")
    };
    // Now it is 3 s: allocated at 0.2 to 1 s, at 1 s again, and at 2 s.
    let ages = (2..=10).map(|at| 3_000_000_000 - at * 100_000_000).sum::<u64>()
        + 2_000_000_000
        + 1_000_000_000;
    assert_eq!((blocks, mean_age_ns), (11, ages / 11));
}

#[test]
fn live_bytes_at_the_moments_are_those_of_blocks_of_the_program() {
    let mut feed = in_scopes(observing());
    let (mut live, mut expected) = (0, vec![0]);
    for block in 1..=1_500_u64 {
        let at = |of: u64| of << 16;
        feed.alloc(2, at(block), 100);
        live += 100;
        expected.push(live);
        match block % 3 {
            0 => {
                feed.emit("Memory.HeapMarkAlloc", 2, &[N(at(block)), N(1), N(16)]);
                live -= 100;
            }
            1 if block > 1 => {
                feed.emit("Memory.HeapUnmarkAlloc", 2, &[N(at(block - 1)), N(16)]);
                live += 100;
            }
            _ => {}
        }
        expected.push(live);
        if block % 10 == 0 {
            feed.marker(block * 1_000_000);
        }
    }
    let FindingKind::OnlyGrows { moments, .. } = only(found(&mut feed, None).1, "only_grows").kind
    else {
        panic!("another kind")
    };
    assert_eq!(moments.len(), 8);
    assert!(moments.iter().all(|of| expected.contains(&of.live_bytes)), "{moments:?}");
    assert_eq!(moments.last().map(|moment| moment.live_bytes), Some(live));
}
