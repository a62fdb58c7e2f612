//! In which scopes blocks of which scopes are freed.

use super::observer::FindingsObserver;
use super::shutdown::Freed;
use crate::analyzer::Analyzer;
use crate::observer::Actor;
use memledger_document::internal::sort;
use memledger_document::{FreedIn, Report, made};
use std::cmp::Reverse;
use std::collections::HashMap;

/// What was freed, by the row of the allocating scope, and by who freed it.
#[derive(Default)]
pub(super) struct Matrix(HashMap<(usize, Actor), Freed>);

impl Matrix {
    /// Adds blocks that were allocated in the scope of this row.
    pub(super) fn add(&mut self, scope: usize, by: Actor, freed: Freed) {
        self.0.entry((scope, by)).or_default().add(&freed);
    }

    /// The rows, those with the most blocks first, without what was freed in an unknown scope. Threads
    /// and tags count together.
    pub(super) fn rows(
        &self,
        analyzer: &Analyzer<FindingsObserver>,
        report: &Report,
    ) -> Vec<FreedIn> {
        let mut sums = HashMap::<(&[String], Vec<String>), Freed>::new();
        for ((row, by), freed) in &self.0 {
            if let Some(allocated) = report.by_scope.get(*row)
                && let Some(freed_in) = analyzer.scope_path(*by)
            {
                sums.entry((&allocated.path, freed_in)).or_default().add(freed);
            }
        }
        let rows = sums.into_iter().map(|((allocated_in, freed_in), freed)| {
            let (blocks, bytes) = (freed.blocks, freed.bytes);
            made!(FreedIn { allocated_in: allocated_in.to_vec(), freed_in, blocks, bytes })
        });
        let mut rows: Vec<_> = rows.collect();
        sort::by(&mut rows, |a, b| {
            let key = |row: &FreedIn| Reverse((row.blocks, row.bytes));
            let names = |row: &FreedIn| (row.allocated_in.clone(), row.freed_in.clone());
            key(a).cmp(&key(b)).then_with(|| names(a).cmp(&names(b)))
        });
        rows
    }
}
