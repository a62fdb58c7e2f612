//! The figures of a whole report and of its rows, by the names that they have in its JSON.

use crate::commands::by::By;
use memledger_analysis::{
    CallRow, FIGURES, Figure, FindingKind, Frames, HeapRow, LOSSES, MOVES, Moves, NameRow, Report,
    SCOPE_FIGURES, ScopeRow, TOTALS, TRACE, ThreadRow, Unit, stable_function,
};
use memledger_export::text::shown_heap;
use std::cell::OnceCell;

/// The number of all findings.
const FINDINGS: &str = "findings";

/// A selector of rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector {
    pub of: By,
    /// The name of the row, or the last elements of its path.
    pub name: String,
    /// The group of a name.
    pub group: Option<String>,
}

/// The figures of a report.
pub struct Figures<'a> {
    report: &'a Report,
    functions: OnceCell<Vec<CallRow>>,
}

/// The figures of a row: the inclusive ones, where it has them.
#[derive(Clone, Copy)]
pub struct Row<'a> {
    of: By,
    figures: &'a memledger_analysis::Figures,
    scope: Option<&'a ScopeRow>,
}

/// The figure of a table with this key.
fn find<T>(table: &'static [Figure<T>], key: &str, of: &T) -> Option<u64> {
    let figure = table.iter().find(|figure| figure.key == key && is_compared(figure))?;
    (figure.of)(of)
}

impl Row<'_> {
    /// A figure of the row. `None` if it does not have it.
    pub fn figure(&self, key: &str) -> Option<u64> {
        let moved = [self.figures.moved_in, self.figures.moved_out];
        find(FIGURES, key, self.figures)
            .filter(|_| self.of.has_peak() || key != "peak_bytes")
            .or_else(|| find(MOVES, key, &moved))
            .or_else(|| find(SCOPE_FIGURES, key, self.scope?))
    }
}

impl<'a> Figures<'a> {
    pub fn of(report: &'a Report) -> Self {
        Self { report, functions: OnceCell::new() }
    }

    /// A figure of the whole report; `true` is 1. `None` if the report does not have it.
    pub fn total(&self, key: &str) -> Option<u64> {
        let Report { totals, losses, trace, .. } = self.report;
        find(TOTALS, key, totals)
            .or_else(|| find(MOVES, key, &[totals.moved_in, totals.moved_out]))
            .or_else(|| find(LOSSES, key, losses))
            .or_else(|| find(TRACE, key, trace))
            .or_else(|| self.findings(key))
    }

    /// The number of all findings, or of those of a kind. `None` if they were not looked for.
    fn findings(&self, key: &str) -> Option<u64> {
        let kinds = findings_of(key)?;
        let found = self.report.findings.as_ref()?.iter();
        Some(found.filter(|finding| kinds.contains(&finding.kind)).count() as u64)
    }

    /// By how many blocks the figures can be wrong.
    pub fn missed_at_start(&self) -> u64 {
        self.report.trace.missed_at_start
    }

    /// All rows by this, each with the name that it has in the text report.
    pub fn rows(&self, of: By) -> Vec<(String, Row<'_>)> {
        let Report { by_scope, by_group, by_name, by_thread, by_heap, .. } = self.report;
        let row = |name, figures, scope| (name, Row { of, figures, scope });
        match of {
            By::Scope => {
                by_scope.iter().map(|r| row(r.path.join(" > "), &r.inclusive, Some(r))).collect()
            }
            By::Group => {
                by_group.iter().map(|r| row(r.group.join(" > "), &r.inclusive, None)).collect()
            }
            By::Name => {
                let name = |r: &NameRow| format!("{} / {}", r.group.join(" > "), r.name);
                by_name.iter().map(|r| row(name(r), &r.figures, None)).collect()
            }
            By::Thread => {
                let name = |r: &ThreadRow| match &*r.name {
                    "" => format!("thread {}", r.id),
                    name => name.to_owned(),
                };
                by_thread.iter().map(|r| row(name(r), &r.figures, None)).collect()
            }
            By::Heap => {
                let name = |r: &HeapRow| shown_heap(&r.name).to_owned();
                by_heap.iter().map(|r| row(name(r), &r.figures, None)).collect()
            }
            By::Function => {
                let rows = self.functions.get_or_init(|| self.report.by_function(Frames::Folded));
                let name = |r: &CallRow| stable_function(&r.name).into_owned();
                rows.iter().map(|r| row(name(r), &r.inclusive, None)).collect()
            }
        }
    }

    /// The rows that `selector` selects.
    pub fn select(&self, selector: &Selector) -> Vec<(String, Row<'_>)> {
        let Selector { of, name, group } = selector;
        // The heap of malloc is C in JSON.
        let name = if *of == By::Heap { shown_heap(name) } else { name };
        let chosen = |label: &str| match group {
            None => is_end(label, name, of.separator()),
            Some(group) => label
                .strip_suffix(name)
                .and_then(|rest| rest.strip_suffix(" / "))
                .is_some_and(|path| is_end(path, group, " > ")),
        };
        let mut rows = self.rows(*of);
        rows.retain(|(label, _)| chosen(label));
        rows
    }
}

/// Whether `path` is `end`, or ends with it at an element boundary.
fn is_end(path: &str, end: &str, separator: &str) -> bool {
    path.strip_suffix(end).is_some_and(|rest| rest.is_empty() || rest.ends_with(separator))
}

/// The kinds that this key is about, if it is about findings.
pub fn findings_of(key: &str) -> Option<Vec<FindingKind>> {
    let is = |kind: &&FindingKind| key == FINDINGS || key == kind.key();
    let kinds: Vec<_> = FindingKind::ALL.iter().filter(is).copied().collect();
    (!kinds.is_empty()).then_some(kinds)
}

/// Whether something can be compared with a figure.
fn is_compared<T>(figure: &Figure<T>) -> bool {
    !matches!(figure.unit, Unit::Id | Unit::Part)
}

/// All figures of the whole report, or of rows.
pub fn known_figures(of: Option<By>) -> Vec<(&'static str, Unit)> {
    fn known<T>(table: &'static [Figure<T>]) -> impl Iterator<Item = (&'static str, Unit)> {
        table.iter().filter(|figure| is_compared(figure)).map(|figure| (figure.key, figure.unit))
    }
    let Some(of) = of else {
        let totals = known(TOTALS).chain(known::<[Moves; 2]>(MOVES));
        let kinds = FindingKind::ALL.iter().map(|kind| kind.key()).chain([FINDINGS]);
        let findings = kinds.map(|key| (key, Unit::Count));
        return totals.chain(known(LOSSES)).chain(known(TRACE)).chain(findings).collect();
    };
    let of_scopes = if of == By::Scope { SCOPE_FIGURES } else { &[] };
    let columns = known(FIGURES).filter(|(key, _)| of.has_peak() || *key != "peak_bytes");
    columns.chain(known(MOVES)).chain(known(of_scopes)).collect()
}
