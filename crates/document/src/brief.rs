//! Findings from the figures of a report alone, and what they share with those of single blocks.

use crate::figures::Figures;
use crate::findings::{Finding, FindingKind, Place, WeightOf};
use crate::report::Report;
use crate::sort;
use std::cmp::Reverse;

/// A finding is about at least this share of the program, in millionths: 1 %. Less than that is not
/// worth a change, whatever it is.
pub const MIN_WEIGHT: u64 = 10_000;

/// The fewest calls of a finding about calls: fewer cost less than 0.1 ms in a whole run.
pub const MIN_CALLS: u64 = 1_000;

/// Short-lived blocks are at least this share of their place, in percent: otherwise the code around
/// them does something else, and a buffer would not help it.
pub const SHORT_LIVED: u64 = 50;

/// Reallocations at one place are a finding from this share of its allocations on, in percent: one for
/// every second block. Without single blocks, it is not known which of them grow.
const REALLOCATED: u64 = 50;

/// Of lines if there are stacks, otherwise of scopes, or of names if there are no scopes.
fn find(report: &Report) -> Vec<Finding> {
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

impl Report {
    /// Findings from the figures of the rows alone, which any report has: the most important first. They
    /// are fewer, and say less, than those of `Analyzer::find`.
    pub fn brief_findings(&self) -> Vec<Finding> {
        let mut found = find(self);
        sort_findings(&mut found);
        found
    }
}

/// `part` of `whole` in millionths.
pub fn millionths(part: u64, whole: u64) -> u64 {
    let share = u128::from(part) * 1_000_000 / u128::from(whole.max(1));
    u64::try_from(share).unwrap_or(u64::MAX)
}

/// Whether `part` is at least `percent` of `whole`, and not nothing.
pub fn is_share(part: u64, whole: u64, percent: u64) -> bool {
    part > 0 && u128::from(part) * 100 >= u128::from(whole) * u128::from(percent)
}

/// Puts those first that would save most: of what is held, then of what is done.
pub fn sort_findings(found: &mut [Finding]) {
    sort::by(found, |a, b| {
        let key = |finding: &Finding| {
            Reverse((finding.is_of_peak(), finding.weight, finding.bytes, finding.calls))
        };
        key(a).cmp(&key(b)).then_with(|| a.place.cmp(&b.place))
    });
}
