//! From where on something is a finding: just there, and just below.

use super::*;

/// Code that is no finding itself.
fn other(calls: u64) -> (Act, u64) {
    (Act::Late { scope: 1, size: 100, lag: 3, leak: u64::MAX }, calls)
}

fn late(scope: usize, lag: usize, leak: u64) -> Act {
    Act::Late { scope, size: 100, lag, leak }
}

/// Grows a block of 16 bytes four times, copying 240 bytes.
const GROW: Act =
    Act::Grow { scope: 0, size: 16, steps: 4, in_place: false, gives_back: 0, kept: false };

/// Does what is found by its calls: each this often.
fn by_calls(calls: u64) -> Vec<(Act, u64)> {
    vec![
        (GROW, calls / 4),
        (Act::Churn { scope: 2, size: 100 }, calls),
        (Act::Keep { scope: 3, size: 24 }, calls),
    ]
}

fn sorted(mut kinds: Vec<&str>) -> Vec<&str> {
    kinds.sort_unstable();
    kinds
}

#[test]
fn a_thousand_calls() {
    let with = |acts: Vec<_>| sorted(kinds(&[acts, vec![other(2_000)]].concat()));
    assert_eq!(with(by_calls(999)), [""; 0]);
    assert_eq!(with(by_calls(1_000)), ["grows", "one_size", "short_lived"]);
}

#[test]
fn one_in_a_hundred_calls() {
    let mut model = Model::new(true);
    // What the allocator adds to the blocks of one size is less than 1 % of the peak, too.
    model.alloc(1, 1 << 20);
    assert_eq!(model.play(&[by_calls(1_000), vec![other(100_000)]].concat()).kinds(), [""; 0]);
}

#[test]
fn sixty_four_kib() {
    let grow = |size, steps, gives_back| {
        (Act::Grow { scope: 0, size, steps, in_place: false, gives_back, kept: true }, 2)
    };
    assert_eq!(kinds(&[grow(32_767, 1, 0), other(500)]), [""; 0]);
    assert_eq!(kinds(&[grow(32_768, 1, 0), other(500)]), ["grows"]);
    assert_eq!(kinds(&[grow(65_534, 0, 50), other(500)]), [""; 0]);
    assert_eq!(kinds(&[grow(65_536, 0, 50), other(500)]), ["shrinks"]);
    let keep = |count| {
        let keep = |size| (Act::Keep { scope: 2, size }, count);
        [keep(20), keep(40), other(count)]
    };
    assert_eq!(kinds(&keep(1_092)), [""; 0]);
    assert_eq!(kinds(&keep(1_093)), ["only_grows"]);
}

#[test]
fn one_in_a_hundred_bytes() {
    let changed = |other| {
        let mut model = Model::new(true);
        model.alloc(1, other);
        (0..1_000).for_each(|_| _ = model.alloc(3, 513));
        let (scope, size, steps, in_place, gives_back, kept) = (0, 65_536, 1, false, 50, true);
        let grow = Act::Grow { scope, size, steps, in_place, gives_back, kept };
        sorted(model.play(&[(grow, 1)]).kinds())
    };
    assert_eq!(changed(20 << 20), [""; 0]);
    assert_eq!(changed(2 << 20), ["grows", "rounds_up", "shrinks"]);
    let grown = |other| {
        let mut model = Model::new(true);
        model.alloc(1, other);
        let keep = |size| (Act::Keep { scope: 2, size }, 1_093);
        model.play(&[keep(20), keep(40)]).kinds()
    };
    assert_eq!(grown(20 << 20), [""; 0]);
    assert_eq!(grown(2 << 20), ["only_grows"]);
}

#[test]
fn half_of_the_blocks_of_a_place() {
    let churn = (Act::Churn { scope: 2, size: 100 }, 1_000);
    // Four of the others are never freed: the first one, and the last three.
    let with = |count| kinds(&[churn.clone(), (late(2, 3, u64::MAX), count)]);
    assert_eq!(with(1_004), ["short_lived"]);
    assert_eq!(with(1_005), [""; 0]);
    let queue = (Act::Queue { scope: 2, size: 1_000, lag: 100 }, 1_100);
    let with = |count| kinds(&[queue.clone(), (late(2, 3, u64::MAX), count)]);
    assert_eq!(with(1_004), ["freed_elsewhere"]);
    assert_eq!(with(1_005), [""; 0]);
}

#[test]
fn sixty_four_blocks_that_wait_a_millisecond() {
    let queue = |lag| kinds(&[(Act::Queue { scope: 2, size: 2_000, lag }, 1_000)]);
    // One more than may wait is there when one is freed.
    assert_eq!(queue(62), [""; 0]);
    assert_eq!(queue(63), ["freed_elsewhere"]);
    // A channel with a bound, however large what is in it.
    assert_eq!(kinds(&[(Act::Queue { scope: 2, size: 1 << 20, lag: 8 }, 100)]), [""; 0]);
    // Hardly one was freed before the end.
    let freed = |freed| {
        let mut model = Model::new(true);
        let blocks: Vec<_> = (0..100).map(|_| model.alloc(2, 2_000)).collect();
        model.pass(1_000);
        blocks[..freed].iter().for_each(|&block| model.free(block, 3));
        // It is not the end.
        (0..100).for_each(|_| _ = model.alloc(1, 1_000));
        model.kinds()
    };
    assert_eq!(freed(63), [""; 0]);
    assert_eq!(freed(64), ["freed_elsewhere"]);
    let fast = |ns| {
        let mut model = Model::new(true);
        let mut blocks = Vec::new();
        for round in 0..1_000 {
            blocks.push(model.alloc(2, 2_000));
            if round >= 100 {
                model.free(blocks[round - 100], 3);
            }
            model.pass(ns);
        }
        model.kinds()
    };
    assert_eq!(fast(0), [""; 0]);
    assert_eq!(fast(1), ["freed_elsewhere"]);
}

#[test]
fn a_twentieth_of_the_peak_waits() {
    let found = |other| {
        let mut model = Model::new(true);
        model.alloc(1, other);
        model.play(&[(Act::Queue { scope: 2, size: 1_000, lag: 99 }, 1_000)]).kinds()
    };
    assert_eq!(found(1_900_000), ["freed_elsewhere"]);
    assert_eq!(found(1_900_001), [""; 0]);
}

#[test]
fn a_quarter_is_given_back() {
    let shrink = |gives_back| {
        let (scope, size, steps, in_place, kept) = (0, 1 << 20, 0, true, true);
        kinds(&[(Act::Grow { scope, size, steps, in_place, gives_back, kept }, 1), other(500)])
    };
    assert_eq!(shrink(24), [""; 0]);
    assert_eq!(shrink(25), ["shrinks"]);
}

#[test]
fn a_shrink_counts_if_the_block_does_not_grow_again() {
    let found = |sizes: &[u64]| {
        let mut model = Model::new(true);
        let block = model.alloc(0, 1 << 20);
        sizes.iter().for_each(|&size| model.realloc(block, size, true));
        model.play(&[other(500)]).kinds()
    };
    assert_eq!(found(&[1 << 19]), ["shrinks"]);
    assert_eq!(found(&[1 << 19, 1 << 19]), ["shrinks"]);
    assert_eq!(found(&[1 << 19, (1 << 19) + 1]), [""; 0]);
}

#[test]
fn the_size_to_reserve_is_that_of_nine_in_ten() {
    let reserve = |blocks: &[(u64, u32, u64)]| {
        let grow = |&(size, steps, count): &(u64, u32, u64)| {
            let (scope, in_place, gives_back, kept) = (0, false, 0, true);
            (Act::Grow { scope, size, steps, in_place, gives_back, kept }, count)
        };
        let acts: Vec<_> = blocks.iter().map(grow).chain([other(500)]).collect();
        match only(Model::new(true).play(&acts).found().1, "grows").kind {
            FindingKind::Grows { reserve_bytes, .. } => reserve_bytes,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(reserve(&[(16, 1, 1_800), (16, 4, 200)]), 32);
    assert_eq!(reserve(&[(16, 1, 1_790), (16, 4, 200)]), 256);
    // No more than the largest has.
    assert_eq!(reserve(&[(17, 4, 500)]), 272);
}

/// Blocks of these sizes in one place, all live, in a program that does other things after that.
fn filled(sizes: &[(u64, u64)]) -> Model {
    let mut model = Model::new(true);
    for &(size, count) in sizes {
        (0..count).for_each(|_| _ = model.alloc(3, size));
    }
    model
}

#[test]
fn blocks_of_one_small_size() {
    let found = |sizes: &[_]| filled(sizes).play(&[other(2_000)]).kinds();
    assert_eq!(found(&[(24, 1_000), (16, 111)]), ["one_size"]);
    assert_eq!(found(&[(24, 1_000), (16, 112)]), [""; 0]);
    assert_eq!(found(&[(32, 1_000)]), ["one_size"]);
    assert_eq!(found(&[(256, 1_000)]), ["one_size"]);
    assert_eq!(found(&[(257, 1_000)]), [""; 0]);
}

#[test]
fn one_size_says_nothing_of_blocks_that_change_or_end_at_once() {
    let mut model = filled(&[(24, 2_000)]);
    model.realloc(0, 32, true);
    assert_eq!(model.play(&[other(2_000)]).kinds(), [""; 0]);
    let found = |count| {
        let churn = (Act::Churn { scope: 3, size: 24 }, count);
        filled(&[(24, 1_000)]).play(&[churn, other(2_000)]).kinds()
    };
    assert_eq!(found(999), ["one_size"]);
    assert_eq!(found(1_000), ["short_lived"]);
}

#[test]
fn a_size_just_above_a_class() {
    let found = |size| filled(&[(size, 1_100)]).play(&[other(500)]).kinds();
    assert_eq!(found(513), ["rounds_up"]);
    assert_eq!(found(512), [""; 0]);
    // Above 448, but there allocators have more classes.
    assert_eq!(found(450), [""; 0]);
    // 6 % above 512.
    assert_eq!(found(542), ["rounds_up"]);
    assert_eq!(found(543), [""; 0]);
}

/// Whether blocks of 8,000 bytes are left behind.
fn is_left_behind(acts: &[(usize, u64, u64)]) -> bool {
    let late = |&(lag, leak, rounds): &_| (Act::Late { scope: 1, size: 8_000, lag, leak }, rounds);
    kinds(&acts.iter().map(late).collect::<Vec<_>>()).contains(&"left_behind")
}

#[test]
fn ten_are_left_behind_and_twenty_are_freed_for_each() {
    // Of a block in each round, the one that is freed next is live at the end, too.
    let found = |rounds, leak| is_left_behind(&[(1, leak, rounds)]);
    assert!(!found(1_600, 200));
    assert!(found(1_601, 200));
    assert!(!found(2_000, 20));
    assert!(found(2_000, 22));
}

#[test]
fn what_is_left_behind_is_old() {
    // All but the first are freed later, and those that are live at the end are young.
    assert!(!is_left_behind(&[(50, u64::MAX, 2_000)]));
    // The freed ones lived less than 2^28 ns; the others are twice and eight times as old on average.
    let found = |rounds, leak| {
        let mut acts = vec![(1, u64::MAX, rounds); 5];
        acts.push((1, leak, rounds));
        is_left_behind(&acts)
    };
    assert!(!found(80, 12));
    assert!(found(320, 24));
    // Half of the freed ones lived that long only, but one in twenty up to 16 times as long.
    assert!(!is_left_behind(&[(3, 100, 2_000), (80, u64::MAX, 2_000)]));
}

#[test]
fn what_is_left_behind_has_sixty_four_kib() {
    let found = |size| kinds(&[(Act::Late { scope: 1, size, lag: 1, leak: 200 }, 1_601)]);
    assert_eq!(found(6_553), [""; 0]);
    assert_eq!(found(6_554), ["left_behind"]);
}

#[test]
fn what_has_no_scope_has_no_siblings() {
    let mut model = Model::new(true);
    for round in 0..2_000 {
        let address = 1 << 30 | round << 8;
        model.feed().alloc(2, address, 100);
        if round % 100 > 0 {
            model.feed().free(2, address);
        }
        if round % 5 == 0 {
            model.pass(1_000);
        }
    }
    let report = model.feed().report();
    let found = model.feed().analyzer.find(&report, None);
    let kinds: Vec<_> = found.iter().map(Finding::kind_name).collect();
    assert_eq!(kinds, ["short_lived"]);
}

/// A part of a run: in each of its rounds, this many bytes are allocated and kept, and this much time passes.
type Part = (u64, u64, u64);

fn growing(parts: &[Part]) -> Vec<&'static str> {
    let mut model = Model::new(true);
    for &(rounds, bytes, ns) in parts {
        for round in 0..rounds {
            if bytes > 0 {
                // Of two sizes, so that they are not of one.
                model.alloc(2, bytes + round % 2 * 2);
            }
            let block = model.alloc(1, 100);
            model.free(block, 3);
            if round % 10 == 0 {
                model.pass(ns);
            }
        }
    }
    model.kinds()
}

#[test]
fn a_table_that_is_filled_at_the_start_does_not_grow() {
    assert_eq!(growing(&[(2_000, 100, 1_000)]), ["only_grows"]);
    // At the start by events and by time; by time only, and by events only.
    assert_eq!(growing(&[(1_000, 200, 1_000), (1_000, 20, 1_000)]), [""; 0]);
    assert_eq!(growing(&[(1_800, 100, 10), (200, 100, 10_000)]), [""; 0]);
    assert_eq!(growing(&[(300, 20, 100_000), (700, 200, 10), (1_000, 20, 10)]), [""; 0]);
}

#[test]
fn what_goes_up_and_down_does_not_only_grow() {
    let mut model = Model::new(true);
    for round in 0..8 {
        let blocks: Vec<_> = (0..100).map(|at| model.alloc(2, 1_000 * (round + 1) + at)).collect();
        for block in blocks.into_iter().filter(|_| round < 7) {
            model.free(block, 2);
        }
        for _ in 0..100 {
            let block = model.alloc(1, 100);
            model.free(block, 3);
        }
        model.pass(10_000);
    }
    assert_eq!(model.kinds(), [""; 0]);
}

#[test]
fn a_short_run_has_no_moments() {
    let mut model = Model::new(true);
    (0..20).for_each(|_| _ = model.alloc(2, 10_000));
    assert_eq!(model.kinds(), [""; 0]);
}

#[test]
fn what_is_held_comes_first() {
    let mut model = Model::new(true);
    model.alloc(1, 4 << 20);
    let keep = |size| (Act::Keep { scope: 2, size }, 2_000);
    let churn = (Act::Churn { scope: 0, size: 100 }, 2_000);
    // Its share is smaller.
    assert_eq!(model.play(&[keep(80), keep(120), churn]).kinds(), ["only_grows", "short_lived"]);
}

#[test]
fn scopes_of_frees_are_sorted_by_blocks() {
    let acts = [
        (Act::Handoff { scope: 0, size: 10 }, 100),
        (Act::Churn { scope: 1, size: 1_000 }, 50),
        (Act::Handoff { scope: 1, size: 10 }, 25),
    ];
    let mut model = Model::new(true).play(&acts);
    model.found();
    assert_eq!(
        model.freed_in(None).iter().map(|row| row.blocks).collect::<Vec<_>>(),
        [100, 50, 25]
    );
}
