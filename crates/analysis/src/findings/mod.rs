//! What a person would look for in a report, found: each finding with its figures, its place, and what
//! it would save.
//!
//! ```text
//! observer.rs  what is collected of single blocks while a trace is read
//! moments.rs   the live bytes of buckets at some moments of a run
//! shutdown.rs  what a program frees when it ends
//! places.rs    buckets that are one place: a function, or a scope with a name
//! matrix.rs    in which scopes blocks of which scopes are freed
//! rules.rs     when something at a place is a finding, and its figures
//! left.rs      blocks that are left behind, while most of their siblings end
//! peak.rs      when the peak is that of two parts of the program at once
//! kept.rs      when the allocator keeps what was freed
//! ```

mod kept;
mod left;
mod matrix;
mod moments;
mod observer;
mod peak;
mod places;
mod rules;
mod shutdown;
mod thresholds;

pub use observer::FindingsObserver;

use super::analyzer::Analyzer;
use matrix::Matrix;
use memledger_document::internal::{Calls, sort_findings};
use memledger_document::{Finding, Frames, FreedIn, Report};
use places::{Places, is_in};

impl Analyzer<FindingsObserver> {
    /// The findings of everything that `report` has, which is this analyzer's own with
    /// [`by_bucket`](Self::by_bucket). Those that would save most come first: of the memory that is held,
    /// then of calls. If `scope` is given: only of blocks that were allocated in scopes with this text in
    /// their path, in upper or lower case.
    ///
    /// Functions are those of the report, so [`Report::symbolize`] comes first. In a trace with sampled
    /// stacks, findings are of the blocks of the sample.
    ///
    /// Costs time in proportion to buckets, stacks and sizes, as a report does. The figures are
    /// explained with each [`FindingKind`](crate::FindingKind); `docs/reading.md` has the thresholds.
    pub fn find(&self, report: &Report, scope: Option<&str>) -> Vec<Finding> {
        let calls = &Calls::of(report, Frames::Folded);
        let mut places = Places::of(self, calls, scope);
        rules::add_ages(&mut places, self);
        let left = left::find(self, report, &places);
        let mut found = rules::find(calls, &places, &left);
        found.extend(peak::find(self, calls, &places));
        found.extend(kept::find(self, calls, &places));
        sort_findings(&mut found);
        found
    }

    /// Who frees what another allocates: blocks by the scopes in which they were allocated and freed, the
    /// most first, those of one scope together. If `scope` is given: only of blocks that were allocated in
    /// scopes with this text in their path, as in [`find`](Self::find). Empty in a trace that does not say
    /// in which scopes blocks are freed (the channel `freescope`); what was freed while it did not is left
    /// out.
    ///
    /// Costs time in proportion to buckets.
    pub fn freed_in(&self, report: &Report, scope: Option<&str>) -> Vec<FreedIn> {
        let scope = scope.map(str::to_lowercase);
        let mut matrix = Matrix::default();
        for (bucket, by, freed) in self.observer().freed() {
            if let Some(row) = report.by_bucket.get(bucket as usize)
                && let Some(allocated) = report.by_scope.get(row.scope)
                && is_in(&allocated.path, scope.as_deref())
            {
                matrix.add(row.scope, by, freed.all);
            }
        }
        matrix.rows(self, report)
    }
}
