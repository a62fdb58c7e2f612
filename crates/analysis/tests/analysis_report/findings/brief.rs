//! Findings from the rows of a report alone.

use super::places::{PROGRAM, churn, with_stacks};
use memledger_analysis::{Analyzer, Figures, Finding, Report};
use memledger_test_support::feed::Names;

/// A report of a program with two scopes and two names. The second of both has what `set` sets.
fn report(set: impl Fn(&mut Figures)) -> Report {
    let mut report = Report::default();
    report.by_scope = vec![Default::default(); 2];
    report.by_name = vec![Default::default(); 2];
    for (at, name) in ["outer", "inner"].into_iter().enumerate() {
        report.by_scope[at].path = vec![name.to_owned()];
        report.by_name[at].name = name.to_owned();
    }
    set(&mut report.by_scope[1].figures);
    set(&mut report.by_name[1].figures);
    report
}

fn kinds(found: &[Finding]) -> Vec<&str> {
    found.iter().map(Finding::kind_name).collect()
}

#[test]
fn a_thousand_calls_that_are_half_of_those_of_the_place() {
    let reallocated = |reallocations, allocations| {
        let report = report(|figures| {
            (figures.reallocations, figures.allocations) = (reallocations, allocations);
        });
        kinds(&report.brief_findings()).contains(&"reallocates")
    };
    let short_lived = |short_lived, frees| {
        let report = report(|figures| {
            (figures.short_lived, figures.frees, figures.allocations) = (short_lived, frees, frees);
        });
        kinds(&report.brief_findings()).contains(&"short_lived")
    };
    for found in [reallocated, short_lived as fn(u64, u64) -> bool] {
        assert!(found(1_000, 2_000) && !found(1_000, 2_001));
        assert!(!found(999, 1_000));
    }
}

#[test]
fn one_in_a_hundred_calls_of_the_program() {
    let found = |others| {
        let mut report = report(|figures| {
            (figures.allocations, figures.frees, figures.short_lived) = (1_000, 1_000, 1_000);
        });
        report.by_scope[0].figures.allocations = others;
        kinds(&report.brief_findings()).len()
    };
    assert_eq!((found(99_000), found(99_001)), (1, 0));
}

#[test]
fn places_are_scopes_or_names_if_there_are_none() {
    let mut report = report(|figures| {
        (figures.allocations, figures.frees, figures.short_lived) = (1_000, 1_000, 1_000);
    });
    let [in_scope] = &report.brief_findings()[..] else { panic!("one") };
    assert_eq!(
        (&in_scope.place.scope[..], &in_scope.place.name),
        (&["inner".to_owned()][..], &None)
    );
    report.by_scope.truncate(1);
    let [of_name] = &report.brief_findings()[..] else { panic!("one") };
    assert_eq!((&of_name.place.scope[..], of_name.place.name.as_deref()), (&[][..], Some("inner")));
}

#[test]
fn places_are_functions_if_there_are_stacks() {
    let mut feed = with_stacks(Analyzer::new());
    churn(&mut feed, 2, 1_000, 1);
    churn(&mut feed, 2, 1_000, 0);
    let mut report = feed.report();
    report.symbolize(&mut Names(PROGRAM, Vec::new()));
    let [found] = &report.brief_findings()[..] else { panic!("one") };
    assert_eq!(
        (found.place.function.as_deref(), &found.place.scope[..]),
        (Some("demo::work"), &[][..])
    );
}
