//! What a test says that goes over its budget.

use crate::block;
use memledger::{Error, alloc_scope, budget, group, tag, tagged};
use std::panic::catch_unwind;

group! { RENDERING = "Rendering"; SCENE = "Scene" in RENDERING; }

#[test]
fn the_text_says_by_how_much_and_who() {
    let kept =
        budget("load level").peak(5000).live(0).allocations(2).reallocations(9).try_run(|| {
            let level = alloc_scope!("level", {
                alloc_scope!("parse");
                block(4000)
            });
            let mesh = tagged(tag!(SCENE, "meshes"), || block(1234));
            drop(alloc_scope!("level", { block(10) }));
            (level, mesh)
        });
    let Err(error) = kept else { panic!("it is over three limits") };
    assert!(matches!(error, Error::OverBudget(_)));
    let expected = "\
the budget \"load level\" is exceeded
  peak           5,244 bytes, 244 more than 5,000
  live           5,234 bytes, 5,234 more than 0
  allocations    3, 1 more than 2

Within it, by scope                         live bytes  blocks  allocated  count
  load level > level > parse                     4,000       1      4,000      1
  load level                                     1,234       1      1,234      1
  load level > level                                 0       0         10      1

By name                                     live bytes  blocks  allocated  count
  Unknown / Unnamed                              4,000       1      4,010      2
  Rendering > Scene / meshes                     1,234       1      1,234      1
";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn a_budget_that_fails_panics_with_the_text_where_it_was_run() {
    let panicked = catch_unwind(|| budget("small").peak(99).run(|| drop(block(100))));
    let text = panicked.unwrap_err().downcast::<String>().unwrap();
    assert!(
        text.starts_with(
            "the budget \"small\" is exceeded\n  peak           100 bytes, 1 more than 99\n"
        ),
        "{text}"
    );
}

#[test]
fn a_budget_within_its_limits_returns_the_result() {
    assert_eq!(budget("exact").peak(100).live(0).run(|| block(100).capacity()), 100);
}

#[test]
fn a_budget_without_limits_is_an_error() {
    let error = budget("empty").try_run(|| ()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "memory could not be measured: the budget \"empty\" has no limit, so nothing can go over it"
    );
}

#[test]
fn a_guard_from_outside_that_is_dropped_within_is_an_error() {
    let outside = memledger::ScopeGuard::enter("outside");
    let error = budget("left").peak(1000).try_run(move || drop(outside)).unwrap_err();
    assert!(matches!(error, Error::Unmeasured(_)));
    assert!(error.to_string().contains("has left its own scope"), "{error}");
    budget("after").live(0).run(|| drop(block(10)));
}

#[test]
fn an_unwrapped_error_has_its_lines() {
    let unwrapped = || budget("small").peak(99).try_run(|| drop(block(100))).unwrap();
    let text = catch_unwind(unwrapped).unwrap_err().downcast::<String>().unwrap();
    let says = "OverBudget: the budget \"small\" is exceeded\n  peak           100 bytes, 1 more than 99\n";
    assert!(text.contains(says), "{text}");
}
