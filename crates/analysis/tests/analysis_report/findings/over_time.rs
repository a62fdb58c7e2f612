//! What is found over a run: copies, what stays after the peak, and what is left behind.

use super::*;

/// Allocates 10 MiB in each of two scopes. Frees those of a scope at its step of 100, if it has one.
fn copied(sizes: [u64; 2], freed: [Option<u64>; 2]) -> Vec<Finding> {
    let mut model = Model::new(true);
    let mut parts: Vec<Vec<usize>> = Vec::new();
    for (scope, size) in [0, 2].into_iter().zip(sizes) {
        parts.push((0..(10 << 20) / size).map(|_| model.alloc(scope, size)).collect());
        model.pass(1_000);
    }
    for step in 0..100 {
        let block = model.alloc(1, 100);
        model.free(block, 3);
        model.pass(1_000);
        for (part, freed) in parts.iter_mut().zip(freed) {
            if freed == Some(step) {
                part.drain(..).for_each(|block| model.free(block, 2));
            }
        }
    }
    model.found().1
}

#[test]
fn a_part_of_the_peak_that_ends_while_the_other_stays_is_temporary() {
    let sizes = [5_000, 5_000];
    let found = only(copied(sizes, [Some(10), None]), "temporary");
    assert_eq!(
        (found.place.scope.last().map(|name| &**name), found.beside.as_deref()),
        (Some("a"), Some("c"))
    );
    let found = only(copied(sizes, [Some(60), Some(10)]), "temporary");
    assert_eq!(
        (found.place.scope.last().map(|name| &**name), found.beside.as_deref()),
        (Some("c"), Some("a"))
    );
    // Both stay, both end at once, and a few large blocks are no copy of many small ones.
    for (sizes, freed) in
        [(sizes, [None, None]), (sizes, [Some(10), Some(10)]), ([5_000, 100_000], [Some(10), None])]
    {
        let found = copied(sizes, freed);
        assert!(found.iter().all(|finding| finding.kind.key() != "temporary"), "{found:#?}");
    }
}

#[test]
fn what_the_end_of_the_program_frees_was_needed_to_the_end() {
    let mut model = Model::new(true);
    let parts =
        [0, 2].map(|scope| (0..2_000).map(|_| model.alloc(scope, 5_000)).collect::<Vec<_>>());
    for _ in 0..100 {
        let block = model.alloc(1, 100);
        model.free(block, 3);
        model.pass(1_000);
    }
    parts.into_iter().flatten().for_each(|block| model.free(block, 2));
    assert_eq!(model.kinds(), [""; 0]);
}

#[test]
fn what_is_left_behind_is_a_tenth_of_a_second_old() {
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
    assert!(!found(1) && found(2));
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
