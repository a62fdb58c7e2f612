//! What a test says that goes over its budget.

use crate::block;
use memledger::{Budget, BudgetError, ScopeGuard, alloc_scope, budget, group, tag, tagged};
use proptest::prelude::*;
use std::panic::catch_unwind;

group! { RENDERING = "Rendering"; SCENE = "Scene" in RENDERING; }

#[test]
fn the_text_says_by_how_much_and_who() {
    let kept = budget("load level")
        .peak_bytes(5000)
        .live_bytes(0)
        .allocations(2)
        .reallocations(9)
        .try_run(|| {
            let level = alloc_scope!("level", {
                alloc_scope!("parse");
                block(4000)
            });
            let mesh = tagged(tag!(SCENE, "meshes"), || block(1234));
            drop(alloc_scope!("level", { block(10) }));
            (level, mesh)
        });
    let (_, Err(error)) = kept else { panic!("it is over three limits") };
    let BudgetError::Over { figures, .. } = &error else { panic!("{error}") };
    assert_eq!((figures.peak_bytes, figures.live_bytes, figures.allocations), (5244, 5234, 3));
    let expected = "\
the budget \"load level\" is exceeded
  peak_bytes      5,244 bytes, 244 more than 5,000
  live_bytes      5,234 bytes, 5,234 more than 0
  allocations     3, 1 more than 2

Within it, by scope                at peak  live bytes  blocks  allocated  count
  load level > level > parse         4,000       4,000       1      4,000      1
  load level                         1,234       1,234       1      1,234      1
  load level > level                    10           0       0         10      1

By name                            at peak  live bytes  blocks  allocated  count
  Unknown / Unnamed                  4,010       4,000       1      4,010      2
  Rendering > Scene / meshes         1,234       1,234       1      1,234      1
";
    assert_eq!(error.to_string(), expected);
}

/// The message of a budget for code that exceeds it.
fn too_much(budget: Budget, body: impl FnOnce()) -> String {
    budget.try_run(body).1.unwrap_err().to_string()
}

#[test]
fn a_peak_names_who_held_it_then() {
    let text = too_much(budget("import").peak_bytes(4999), || {
        let index = alloc_scope!("index", { block(2000) });
        drop(alloc_scope!("decode", { block(3000) }));
        // Allocates more than the others in total, but never at once.
        (0..10).for_each(|_| drop(alloc_scope!("names", { block(700) })));
        drop(alloc_scope!("late", { block(2500) }));
        drop(index);
    });
    let expected = "\
the budget \"import\" is exceeded
  peak_bytes      5,000 bytes, 1 more than 4,999

Within it, by scope                at peak  live bytes  blocks  allocated  count
  import > decode                    3,000           0       0      3,000      1
  import > index                     2,000           0       0      2,000      1
  import > late                          0           0       0      2,500      1
  import > names                         0           0       0      7,000     10
";
    assert_eq!(text, expected);
}

#[test]
fn reallocations_name_who_made_them() {
    let mut outside = block(10);
    let text = too_much(budget("frame").reallocations(0), || {
        drop(alloc_scope!("large", { block(9000) }));
        alloc_scope!("path", {
            let mut grown = block(10);
            (1..4).for_each(|times| grown.reserve_exact(times * 100));
        });
        outside.reserve_exact(500);
    });
    let expected = "\
the budget \"frame\" is exceeded
  reallocations   4, 4 more than 0; 1 of them of blocks from outside

Within it, by scope          live bytes  blocks  allocated  count  reallocations
  frame > path                        0       0        610      1              3
  frame > large                       0       0      9,000      1              0
";
    assert_eq!(text, expected);
    // If all reallocations are of blocks from outside, there are no others to show.
    let text = too_much(budget("frame").reallocations(0), || outside.reserve_exact(1000));
    let expected = "\
the budget \"frame\" is exceeded
  reallocations   1, 1 more than 0; 1 of them of blocks from outside
";
    assert_eq!(text.trim_end(), expected.trim_end());
}

proptest! {
    #[test]
    fn what_scopes_held_at_the_peak_adds_up_to_it(
        ops in proptest::collection::vec((0_usize..4, 0_u8..4, 1_usize..5000), 1..60),
    ) {
        const SCOPES: [&str; 4] = ["a", "b", "c", "d"];
        let (mut live, mut peak, mut held) = ([0; 4], 0, [0; 4]);
        let mut blocks: Vec<(usize, Vec<u8>)> = Vec::with_capacity(ops.len());
        let text = too_much(budget("model").peak_bytes(0).allocations(0), || {
            // This block is not freed, so that a budget is exceeded.
            let first = (0, 0, 1);
            for (scope, action, bytes) in std::iter::once(first).chain(ops) {
                match action {
                    0 | 1 => {
                        let _scope = ScopeGuard::enter(SCOPES[scope]);
                        blocks.push((scope, block(bytes)));
                        live[scope] += bytes;
                    }
                    2 if blocks.len() > 1 => {
                        let (scope, freed) = blocks.swap_remove(bytes % blocks.len());
                        live[scope] -= freed.capacity();
                    }
                    3 if !blocks.is_empty() => {
                        // The block counts where it was allocated, even if it grows elsewhere.
                        let index = bytes % blocks.len();
                        let (owner, grown) = &mut blocks[index];
                        live[*owner] -= grown.capacity();
                        let guard = ScopeGuard::enter(SCOPES[scope]);
                        grown.reserve_exact(bytes);
                        drop(guard);
                        live[*owner] += grown.capacity();
                    }
                    _ => {}
                }
                if live.iter().sum::<usize>() > peak {
                    (peak, held) = (live.iter().sum(), live);
                }
            }
        });
        let mut shown = [0; 4];
        let rows = text.lines().skip_while(|line| !line.starts_with("Within")).skip(1);
        for row in rows.filter(|row| row.starts_with("  model > ")) {
            let words: Vec<_> = row.split_whitespace().collect();
            let scope = SCOPES.iter().position(|scope| *scope == words[2]).unwrap();
            shown[scope] = words[3].replace(',', "").parse().unwrap();
        }
        prop_assert_eq!(shown, held, "{}", text);
    }
}

#[test]
fn a_budget_that_fails_panics_with_the_text_where_it_was_run() {
    let panicked = catch_unwind(|| budget("small").peak_bytes(99).run(|| drop(block(100))));
    let text = panicked.unwrap_err().downcast::<String>().unwrap();
    assert!(
        text.starts_with(
            "the budget \"small\" is exceeded\n  peak_bytes      100 bytes, 1 more than 99\n"
        ),
        "{text}"
    );
}

#[test]
fn a_budget_within_its_limits_returns_the_result() {
    assert_eq!(budget("exact").peak_bytes(100).live_bytes(0).run(|| block(100).capacity()), 100);
}

#[test]
fn a_budget_without_limits_is_an_error() {
    let error = budget("empty").try_run(|| ()).1.unwrap_err();
    assert_eq!(
        error.to_string(),
        "memory could not be measured: the budget \"empty\" has no limit, so nothing can go over it"
    );
}

#[test]
fn a_guard_from_outside_that_is_dropped_within_is_an_error() {
    let outside = ScopeGuard::enter("outside");
    let error = budget("left").peak_bytes(1000).try_run(move || drop(outside)).1.unwrap_err();
    assert!(matches!(error, BudgetError::Unmeasured(_)));
    assert!(error.to_string().contains("has left its own scope"), "{error}");
    budget("after").live_bytes(0).run(|| drop(block(10)));
}

#[test]
fn an_unwrapped_error_has_its_lines() {
    let unwrapped = || budget("small").peak_bytes(99).try_run(|| drop(block(100))).1.unwrap();
    let text = catch_unwind(unwrapped).unwrap_err().downcast::<String>().unwrap();
    let says = "the budget \"small\" is exceeded\n  peak_bytes      100 bytes, 1 more than 99\n";
    assert!(text.contains(says), "{text}");
}
