//! From where on something is a finding: just there, and just below.

use super::*;

/// Grows a block of 16 bytes four times, copying 240 bytes.
const GROW: Act = Act::Grow { scope: 0, size: 16, steps: 4, in_place: false, kept: true };

#[test]
fn ten_thousand_calls() {
    let grown = |blocks| kinds_of_work(&[(GROW, blocks)]);
    assert_eq!(grown(2_500), ["grows_stepwise"]);
    let churned = |calls| kinds_of_work(&[(Act::Churn { scope: 2, size: 100 }, calls)]);
    assert_eq!(churned(9_999), [""; 0]);
    assert_eq!(churned(10_000), ["again_and_again"]);
    // Few calls for large blocks take as long: their bytes take half of the time at least.
    let large = |size, calls| kinds_of_work(&[(Act::Churn { scope: 2, size }, calls)]);
    assert_eq!(large(49_400, 100), [""; 0]);
    assert_eq!(large(50_000, 100), ["again_and_again"]);
    assert_eq!(large(499, 9_999), [""; 0]);
    assert_eq!(large(500, 9_999), ["again_and_again"]);
}

#[test]
fn a_fifth_of_the_calls() {
    let found = |others| {
        let keep = |scope| (Act::Keep { scope, size: 1_000 }, others);
        kinds_of_work(&[(Act::Churn { scope: 2, size: 100 }, 10_000), keep(0), keep(1)])
    };
    assert_eq!(found(20_000), ["again_and_again"]);
    assert_eq!(found(20_001), [""; 0]);
}

#[test]
fn a_twentieth_of_the_time() {
    let found = |ns| {
        let mut model = Model { shift: Some(0), ..Model::new(true) };
        for _ in 0..10_000 {
            let block = model.alloc(2, 100);
            model.free(block, 2);
        }
        model.pass(ns);
        model.kinds()
    };
    // Each call takes 50 ns, about, and each byte 0.1 ns.
    assert_eq!(found(12_000_000), ["again_and_again"]);
    assert_eq!(found(12_000_001), [""; 0]);
}

#[test]
fn of_work_what_takes_longest_comes_first() {
    let grow = Act::Grow { scope: 1, size: 64 << 10, steps: 6, in_place: false, kept: false };
    let found =
        |count| kinds_of_work(&[(Act::Churn { scope: 2, size: 100 }, count), (grow.clone(), 20)]);
    // Growing copies 79 MiB, which takes 8 ms; 100,000 and 200,000 calls take 5 and 10.
    assert_eq!(found(100_000), ["grows_stepwise", "again_and_again"]);
    assert_eq!(found(200_000), ["again_and_again", "grows_stepwise"]);
}

#[test]
fn a_large_block_grows_in_equal_steps() {
    let found = |next: fn(u64, u64) -> u64| {
        let mut model = Model::new(true);
        let block = model.alloc(0, 256 << 10);
        for step in 2..=7 {
            model.realloc(block, next(step, 256 << 10), true);
        }
        model.kinds()
    };
    assert_eq!(found(|step, size| step * size), ["grows_stepwise"]);
    // The last of the six steps is a large one.
    assert_eq!(found(|step, size| if step == 7 { 8 * size } else { step * size }), [""; 0]);
    // A container doubles.
    assert_eq!(found(|step, size| size << step), [""; 0]);
}

#[test]
fn what_a_program_does_not_free_as_it_ends_is_left_behind() {
    let found = |is_freed_at_end| {
        let mut model = Model::new(true);
        let mut used = std::collections::VecDeque::new();
        for number in 0..4_000 {
            let block = model.alloc(1, 1_000);
            if number % 30 > 0 {
                used.push_back(block);
            }
            if used.len() > 700 {
                let block = used.pop_front().expect("it is there");
                model.free(block, 2);
            }
            model.pass(100);
        }
        if is_freed_at_end {
            used.into_iter().for_each(|block| model.free(block, 2));
        }
        model.found().1
    };
    let left = only(found(true), "left_behind");
    let figures = ["blocks", "freed", "freed_at_end", "one_in"].map(|key| left.figure(key));
    assert_eq!(figures, [Some(134), Some(3_165), Some(701), Some(29)]);
    // Then 834 blocks are live, of which 700 are in use: too many for so few freed ones.
    assert_eq!(found(false), []);
}

#[test]
fn a_hundred_times_the_own_peak() {
    let found = |live| {
        let mut model = Model::new(true);
        (0..live).for_each(|_| _ = model.alloc(2, 100));
        let churn = (Act::Churn { scope: 2, size: 100 }, 10_000);
        let acts = [churn, (Act::Keep { scope: 0, size: 9_000 }, 300)];
        Model { shift: Some(0), ..model }.play(&acts).kinds()
    };
    // One more is live while it is there, and all of these are allocated, too.
    assert_eq!(found(100), ["again_and_again"]);
    assert_eq!(found(101), [""; 0]);
}

#[test]
fn the_size_to_reserve_is_that_of_nine_in_ten() {
    let reserve = |blocks: &[(u64, u32, u64)]| {
        let grow = |&(size, steps, count): &(u64, u32, u64)| {
            (Act::Grow { scope: 0, size, steps, in_place: false, kept: true }, count)
        };
        let acts: Vec<_> = blocks.iter().map(grow).collect();
        only(Model { shift: Some(0), ..Model::new(true) }.play(&acts).found().1, "grows_stepwise")
            .figure("reserve_bytes")
    };
    assert_eq!(reserve(&[(16, 1, 9_000), (16, 4, 1_000)]), Some(32));
    assert_eq!(reserve(&[(16, 1, 8_990), (16, 4, 1_000)]), Some(256));
    // No more than the largest has.
    assert_eq!(reserve(&[(17, 4, 3_000)]), Some(272));
}

#[test]
fn a_container_that_is_replaced_three_times_grows() {
    let found = |times: u32, first: u64| {
        let mut model = Model::new(true);
        for _ in 0..3_000 {
            let mut block = model.alloc(0, first);
            for time in 1..=times {
                let larger = model.alloc(0, first << time);
                model.free(block, 2);
                block = larger;
            }
            // Something else is allocated before the last one is freed.
            let other = model.alloc(1, 10_000);
            model.free(block, 2);
            model.free(other, 2);
        }
        let found = model.found().1;
        found.into_iter().find(|finding| finding.kind == FindingKind::GrowsStepwise)
    };
    let grows = found(4, 4_000).expect("it grows");
    assert_eq!((grows.figure("blocks"), grows.figure("growths")), (Some(3_000), Some(12_000)));
    assert_eq!(grows.figure("copied_bytes"), Some(3_000 * 60_000));
    assert_eq!(found(2, 4_000), None);
}

#[test]
fn a_large_block_that_is_replaced_eight_times_by_a_little_more_grows() {
    let found = |times: u64, first: u64| {
        let mut model = Model::new(true);
        let mut block = model.alloc(0, first);
        for time in 1..=times {
            let larger = model.alloc(0, first + time * 1_000);
            model.free(block, 2);
            block = larger;
        }
        let found = model.found().1;
        found.into_iter().find(|finding| finding.kind == FindingKind::GrowsStepwise)
    };
    let grows = found(8, 2_000_000).expect("it grows");
    assert_eq!((grows.figure("blocks"), grows.figure("growths")), (Some(1), Some(8)));
    assert_eq!(found(7, 2_000_000), None);
}

#[test]
fn a_queue_holds_a_mebibyte_and_a_twentieth_of_the_peak() {
    let found = |size, beside| {
        let mut model = Model::new(true);
        model.alloc(1, beside);
        model.play(&[(Act::Queue { scope: 2, size, lag: 0, slow: true }, 1_000)]).kinds()
    };
    // One of two rounds frees one.
    assert_eq!(found(2_200, 1), ["queue"]);
    assert_eq!(found(2_000, 1), [""; 0]);
    assert_eq!(found(2_200, 19 << 20), ["queue"]);
    assert_eq!(found(2_200, 21 << 20), [""; 0]);
    // A channel with a bound, however large what is in it.
    assert_eq!(
        kinds(&[(Act::Queue { scope: 2, size: 1 << 20, lag: 8, slow: false }, 100)]),
        [""; 0]
    );
}

#[test]
fn a_queue_has_one_direction_and_an_order() {
    // Each thread frees what the other has allocated, as with a cache that both fill.
    let mut model = Model::new(true);
    let mut addresses = std::collections::VecDeque::new();
    for round in 0..4_000_u64 {
        let (own, address) = (2 + (round % 2) as u16, (1 << 40) + (round << 16));
        model.feed().enter(own, SCOPES[0].0);
        model.feed().alloc(own, address, 2_000);
        addresses.push_back(address);
        if round % 3 == 0 {
            let first = addresses.pop_front().expect("one");
            model.feed().free(own, first);
        }
        model.feed().leave(own);
        model.pass(10);
    }
    let mut report = model.feed().report();
    model.feed().analyzer.find(&mut report, None);
    assert_eq!(report.findings, Some(Vec::new()));
    // Some are kept, and those that come later are passed on: nothing of what is kept waits.
    let mut model = Model::new(true);
    (0..1_000).for_each(|_| _ = model.alloc(2, 2_000));
    for _ in 0..900 {
        let block = model.alloc(2, 2_000);
        model.free(block, 3);
        model.pass(10);
    }
    assert_eq!(model.kinds(), [""; 0]);
}

#[test]
fn ten_are_left_behind_and_twenty_are_freed_for_each() {
    let found = |rounds, leak, size| {
        kinds(&[(Act::Late { scope: 1, size, lag: 1, leak }, rounds)]).contains(&"left_behind")
    };
    // Of a block in each round, the one that is freed next is live at the end, too.
    assert!(!found(1_600, 200, 8_000));
    assert!(found(1_601, 200, 8_000));
    assert!(!found(2_000, 20, 8_000));
    assert!(found(2_000, 22, 8_000));
    // 64 KiB.
    assert!(!found(1_601, 200, 6_553));
    assert!(found(1_601, 200, 6_554));
}

#[test]
fn what_is_left_behind_is_old() {
    let is_left_behind = |acts: &[(usize, u64, u64)]| {
        let late =
            |&(lag, leak, rounds): &_| (Act::Late { scope: 1, size: 8_000, lag, leak }, rounds);
        kinds(&acts.iter().map(late).collect::<Vec<_>>()).contains(&"left_behind")
    };
    // All but the first are freed later, and those that are live at the end are young.
    assert!(!is_left_behind(&[(70, u64::MAX, 2_000)]));
    // Half of the freed ones live a short time, but one in twenty as long as what is left.
    assert!(is_left_behind(&[(3, 100, 9_000), (4, u64::MAX, 9_000)]));
    assert!(!is_left_behind(&[(3, 100, 9_000), (4_000, u64::MAX, 9_000)]));
}

#[test]
fn what_has_no_scope_has_no_siblings() {
    let mut model = Model::new(true);
    for round in 0..9_000 {
        let address = 1 << 30 | round << 16;
        model.feed().alloc(2, address, 8_000);
        if round % 100 > 0 {
            model.feed().free(2, address);
        }
        if round % 5 == 0 {
            model.pass(1_000);
        }
    }
    let mut report = model.feed().report();
    model.feed().analyzer.find(&mut report, None);
    assert_eq!(report.findings, Some(Vec::new()));
}

#[test]
fn work_comes_before_what_holds_little() {
    let late = |size| (Act::Late { scope: 1, size, lag: 1, leak: 100 }, 9_000);
    let found = |size| {
        // A run of half a second, of which the calls take 6 %.
        let churn = (Act::Churn { scope: 0, size: 100 }, 600_000);
        Model { shift: Some(2), ..Model::new(true) }.play(&[late(size), churn]).kinds()
    };
    assert_eq!(found(20_000), ["left_behind", "again_and_again"]);
    assert_eq!(found(2_000), ["again_and_again", "left_behind"]);
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
