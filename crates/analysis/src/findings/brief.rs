//! Findings from the figures of a report alone.

use super::thresholds::{MIN_CALLS, MIN_WEIGHT, SHORT_LIVED};
use super::thresholds::{is_share, millionths};
use crate::columns::Figures;
use crate::report::Report;
use crate::report::{Finding, FindingKind, Place, WeightOf};

/// Reallocations at one place are a finding from this share of its allocations on, in percent: one for
/// every second block. Without single blocks, it is not known which of them grow.
const REALLOCATED: u64 = 50;

/// Of lines if there are stacks, otherwise of scopes, or of names if there are no scopes.
pub(super) fn find(report: &Report) -> Vec<Finding> {
    let is_of_sample = report.stack_sampling_bytes.is_some();
    let mut found = Vec::new();
    let rows: Vec<(Place, Figures)> = if !report.by_stack.is_empty() {
        lines(report)
    } else if report.by_scope.len() > 1 {
        let place = |path: &Vec<String>| Place { scope: path.clone(), ..Place::default() };
        report.by_scope.iter().map(|row| (place(&row.path), row.figures)).collect()
    } else {
        let rows = report.by_name.iter().map(|row| {
            let (group, name) = (row.group.clone(), Some(row.name.clone()));
            (Place { group, name, ..Place::default() }, row.figures)
        });
        rows.collect()
    };
    let mut whole = Figures::default();
    rows.iter().for_each(|(_, figures)| whole.add(figures));
    let all = whole.allocations.wrapping_add(whole.reallocations);
    for (place, figures) in rows {
        let Figures { short_lived, allocations, reallocations, frees, .. } = figures;
        let is_enough = |calls: u64| calls >= MIN_CALLS && millionths(calls, all) >= MIN_WEIGHT;
        let mut add = |kind, calls: u64| {
            let (place, weight) = (place.clone(), millionths(calls, all));
            let weight_of = WeightOf::Calls;
            found.push(Finding { kind, place, bytes: 0, calls, weight, weight_of, is_of_sample });
        };
        if is_enough(reallocations) && is_share(reallocations, allocations, REALLOCATED) {
            add(FindingKind::Reallocates { reallocations, allocations }, reallocations);
        }
        if is_enough(short_lived) && is_share(short_lived, frees, SHORT_LIVED) {
            let kind = FindingKind::ShortLived { blocks: short_lived, of: frees, bytes: None };
            add(kind, short_lived);
        }
    }
    found
}

/// Functions of the program's own code. In a sampled trace: without the blocks that have no stack.
fn lines(report: &Report) -> Vec<(Place, Figures)> {
    let rows = report.by_own_function().into_iter();
    let rows = rows.filter(|row| !row.name.starts_with('('));
    rows.map(|row| (Place { function: Some(row.name), ..Place::default() }, row.figures)).collect()
}
