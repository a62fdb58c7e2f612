//! What is found over a run: growth up to its peak, what its end frees, copies, and what stays after a burst.

use super::*;

/// Grows in steps of 65 ms for as many of them as `steps`, beside code that does something else.
fn growing(steps: u64) -> (Model, Vec<usize>) {
    let mut model = Model::new(true);
    let mut kept = Vec::new();
    for step in 0..steps {
        kept.push(model.alloc(2, 2_000 + step % 7));
        let block = model.alloc(1, 100);
        model.free(block, 2);
        model.pass(1_000);
    }
    (model, kept)
}

fn until(mut model: Model) -> Option<GrowsUntil> {
    let found = model.found().1;
    let grows = found.into_iter().find(|finding| finding.kind_name() == "only_grows")?;
    let FindingKind::OnlyGrows { until, .. } = grows.kind else { panic!("{grows:?}") };
    Some(until)
}

#[test]
fn what_is_freed_when_the_program_ends_has_grown_to_the_peak() {
    let (mut model, kept) = growing(200);
    kept.into_iter().for_each(|block| model.free(block, 3));
    model.pass(100);
    assert_eq!(until(model), Some(GrowsUntil::Peak));
    // Half of it was freed while the program ran.
    let (mut model, kept) = growing(200);
    for (number, block) in kept.into_iter().enumerate() {
        if number == 100 {
            // What the program does between.
            (0..20).for_each(|_| _ = model.alloc(1, 1_000));
            model.pass(1_000);
        }
        model.free(block, 2);
    }
    assert_eq!(until(model), None);
    // It was freed in a third of the run: a queue that is emptied, say.
    let (mut model, kept) = growing(200);
    for block in kept {
        model.free(block, 3);
        model.pass(500);
    }
    assert_eq!(until(model), None);
    // The peak was in the first half, and it stays as it is.
    let (mut model, kept) = growing(200);
    for _ in 0..210 {
        let block = model.alloc(1, 100);
        model.free(block, 2);
        model.pass(1_000);
    }
    kept.into_iter().for_each(|block| model.free(block, 3));
    assert_eq!(until(model), None);
}

#[test]
fn what_grows_to_the_end_says_how_old_it_is() {
    let (model, _) = growing(200);
    let step = 1_000 << 16;
    let ages = GrowsUntil::End { youngest_ns: step, median_ns: 101 * step };
    let until = until(model).expect("it grows");
    assert!(matches!((until, ages), (GrowsUntil::End { .. }, GrowsUntil::End { .. })));
    assert_eq!(until, ages);
}

#[test]
fn a_run_of_less_than_a_second_does_not_grow() {
    // 15 times 65.5 ms, and 16 times.
    assert_eq!(until(growing_by(15)), None);
    assert!(until(growing_by(16)).is_some());
}

/// Grows in so many steps, of hundred blocks each.
fn growing_by(steps: u64) -> Model {
    let mut model = Model::new(true);
    for _ in 0..steps {
        for block in 0..100 {
            model.alloc(2, 1_000 + block % 7);
            let block = model.alloc(1, 100);
            model.free(block, 2);
        }
        model.pass(1_000);
    }
    model
}

#[test]
fn growth_is_seen_beside_a_million_events_at_the_start() {
    // As an interpreter that imports its modules, and then keeps a large block now and then.
    let mut model = Model::new(true);
    for round in 0..20_000_u64 {
        let block = model.alloc(1, 100);
        model.free(block, 3);
        if round % 200 == 0 {
            model.pass(10);
        }
    }
    for step in 0..60 {
        model.alloc(2, 100_000 + step % 3);
        model.pass(1_000);
    }
    assert!(matches!(until(model), Some(GrowsUntil::End { .. })));
}

#[test]
fn a_copy_of_what_stays_is_found() {
    let copied = |blocks: u64| {
        let mut model = Model::new(true);
        let first: Vec<_> = (0..2_000).map(|_| model.alloc(0, 5_000)).collect();
        model.pass(100);
        let second: Vec<_> = (0..blocks).map(|_| model.alloc(2, 10_000_000 / blocks)).collect();
        model.pass(100);
        first.into_iter().chain(second).for_each(|block| model.free(block, 2));
        model.found().1
    };
    let found = only(copied(1_000), "holds_peak");
    let FindingKind::HoldsPeak { first, second } = &found.kind else { panic!("{found:?}") };
    assert_eq!([&*first.name, &*second.name], ["a", "c"]);
    assert_eq!(found.place.scope, ["GlobalScope", "c"]);
    // A few large blocks are no copy of many small ones.
    assert!(copied(100).iter().all(|finding| finding.kind_name() != "holds_peak"));
}

#[test]
fn two_parts_that_come_together_are_no_copy() {
    let mut model = Model::new(true);
    for _ in 0..2_000 {
        model.alloc(0, 5_000);
        model.alloc(2, 5_000);
    }
    let found = model.found().1;
    assert!(found.iter().all(|finding| finding.kind_name() != "holds_peak"), "{found:#?}");
}

/// A table that is there `before` a burst, or comes with it, and a run of as many `steps` after it.
fn burst(before: bool, steps: u64) -> Vec<&'static str> {
    let mut model = Model::new(true);
    if before {
        model.alloc(2, 3 << 20);
        model.pass(100);
    }
    let blocks: Vec<_> = (0..4_000).map(|_| model.alloc(0, 2_000)).collect();
    if !before {
        model.alloc(2, 3 << 20);
    }
    model.pass(100);
    blocks.into_iter().for_each(|block| model.free(block, 2));
    for _ in 0..steps {
        let block = model.alloc(1, 100);
        model.free(block, 3);
        model.pass(1_000);
    }
    model.kinds()
}

#[test]
fn what_stays_after_a_burst_came_with_it() {
    assert_eq!(burst(false, 100), ["stays_after_peak"]);
    assert_eq!(burst(true, 100), [""; 0]);
    // The program ends before it is known whether it stays.
    assert_eq!(burst(false, 10), [""; 0]);
}

#[test]
fn what_is_left_behind_is_a_quarter_of_a_second_old() {
    let found = |ns| {
        let mut model = Model::new(true);
        let late = Act::Late { scope: 1, size: 8_000, lag: 1, leak: 100 };
        for round in 0..2_000 {
            model.step(0, &late, round);
            model.pass(ns);
        }
        model.kinds().contains(&"left_behind")
    };
    // The mean age is that of half of the run.
    assert!(!found(3) && found(5));
}

#[test]
fn what_grows_in_phases_does_not_only_grow() {
    // Bytes in each of eight parts, of hundred rounds each.
    let found = |parts: [u64; 8]| {
        let mut model = Model::new(true);
        for bytes in parts {
            for round in 0..100 {
                model.alloc(2, bytes + round % 7);
                let block = model.alloc(1, 100);
                model.free(block, 2);
                model.pass(100);
            }
        }
        until(model).is_some()
    };
    assert!(found([2_000; 8]));
    // Not so steep in one part, and steeper in one.
    assert!(found([2_000, 2_000, 2_000, 1_200, 2_000, 2_000, 2_000, 2_000]));
    assert!(!found([2_000, 2_000, 2_000, 500, 2_000, 2_000, 2_000, 2_000]));
    assert!(!found([2_000, 2_000, 2_000, 2_000, 2_000, 8_000, 2_000, 2_000]));
    // What the program begins with does not count.
    assert!(found([5_000, 2_000, 2_000, 2_000, 2_000, 2_000, 2_000, 2_000]));
}

#[test]
fn what_is_left_behind_comes_again() {
    // In which of 2,000 rounds one is left; after them, the program is idle.
    let found = |is_left: fn(u64) -> bool, idle: u64| {
        let mut model = Model::new(true);
        for round in 0..2_000 {
            let block = model.alloc(1, 8_000);
            let other = model.alloc(0, 100);
            model.free(other, 3);
            if !is_left(round) {
                model.free(block, 3);
            }
            model.pass(50);
        }
        for _ in 0..10 {
            model.pass(idle);
        }
        model.kinds().contains(&"left_behind")
    };
    assert!(found(|round| round % 40 == 0, 0));
    assert!(found(|round| round % 40 == 0, 100_000));
    // Filled at once, at the start and later.
    assert!(!found(|round| round < 50, 0));
    assert!(!found(|round| (1_400..1_450).contains(&round), 0));
}

#[test]
fn few_blocks_are_a_copy_if_they_are_as_large() {
    let found = |bytes: u64| {
        let mut model = Model::new(true);
        let first = model.alloc(0, 10 << 20);
        model.alloc(1, 100);
        model.pass(100);
        let second = model.alloc(2, bytes);
        model.pass(100);
        [first, second].into_iter().for_each(|block| model.free(block, 2));
        model.kinds().contains(&"holds_peak")
    };
    assert!(found(10 << 20));
    assert!(!found(13 << 20));
}
