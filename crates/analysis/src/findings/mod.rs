//! Facts and findings. A fact accuses nobody. A finding has a witness among the blocks that it names.
//!
//! ```text
//! observer.rs  what is collected of single blocks while a trace is read
//! moments.rs   the live bytes of buckets at some moments of a run
//! ages.rs      how long blocks lived
//! shutdown.rs  what a program frees when it ends
//! sets.rs      sites of blocks, and sums over them
//! tree.rs      sites below the functions of the program
//! matrix.rs    in which scopes blocks of which scopes are freed
//! course.rs    how the live bytes of a set went
//! rules.rs     the kinds of findings, each with its witness
//! peak.rs      when a part of the peak is needed for a short time only
//! kept.rs      when the allocator keeps what was freed
//! ```

mod ages;
mod course;
mod kept;
mod matrix;
mod moments;
mod observer;
mod peak;
mod rules;
mod sets;
mod shutdown;
mod thresholds;
mod tree;

pub use observer::FindingsObserver;

use super::analyzer::Analyzer;
use matrix::Matrix;
use memledger_document::internal::{Calls, millionths, sort};
use memledger_document::{Finding, FindingKind, Frames, FreedIn, Report, made};
use rules::Found;
use sets::{Sets, is_in};
use std::cmp::Reverse;
use std::collections::HashSet;
use thresholds::{HELD, MIN_HELD, is_share};

/// A finding of held memory is not said if a larger one has this share of its blocks, in percent.
const SAME: u64 = 80;

impl Analyzer<FindingsObserver> {
    /// Puts the facts and the findings of everything that `report` has into it, which is this analyzer's own
    /// with [`by_bucket`](Self::by_bucket): [`Report::peak_by`] and [`Report::findings`]. Those that would
    /// save most come first: of the memory that is held, if it is much, then of work. If `scope` is given:
    /// findings only of blocks that were allocated in scopes with this text in their path, in upper or lower
    /// case.
    ///
    /// Functions are those of the report, so [`Report::symbolize`] comes first. In a trace with sampled
    /// stacks, findings are of the blocks of the sample.
    ///
    /// Costs time in proportion to buckets, stacks and live blocks. `docs/reading.md` has the witness of each
    /// [`FindingKind`](crate::FindingKind).
    pub fn find(&self, report: &mut Report, scope: Option<&str>) {
        let calls = &Calls::of(report, Frames::Folded);
        let mut peak_by = calls.peak_by();
        let sets = Sets::of(self, calls, scope);
        // The peak is that of all scopes, and these sets are of some.
        if let Some(set) = peak_by.as_mut().filter(|_| scope.is_none()) {
            set.course = Some(sets.course(set));
            set.next.iter_mut().for_each(|next| next.course = Some(sets.course(next)));
        }
        let mut found = sets.left_behind();
        found.extend(sets.no_longer_freed());
        found.extend(sets.queues());
        found.extend(sets.temporary());
        found.extend(sets.again_and_again());
        found.extend(sets.grows_stepwise());
        found.extend(sets.fragmentation());
        let findings = sets.ranked(found);
        (report.peak_by, report.findings) = (peak_by, Some(findings));
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

impl Sets<'_> {
    /// The findings, the most important first: much held memory, work, and less held memory. Of two about the
    /// same held blocks, the larger one.
    fn ranked(&self, mut found: Vec<Found>) -> Vec<Finding> {
        let rank = |found: &Found| {
            let is_held = found.weight_of.is_held();
            let is_much = found.amount >= MIN_HELD && is_share(found.amount, found.whole, HELD);
            let class = if !is_held {
                1
            } else if is_much {
                2
            } else {
                0
            };
            let weight = if is_held { found.amount } else { found.work_ps };
            Reverse((class, weight))
        };
        found.retain(|found| !found.sites.is_empty() || !found.figures.is_empty());
        // What grows step by step is made again and again for that.
        let is_growth = |one: &Found| one.kind == FindingKind::GrowsStepwise;
        let grown: Vec<_> =
            found.iter().filter(|one| is_growth(one)).map(|one| one.sites.clone()).collect();
        found.retain(|one| {
            one.kind != FindingKind::AgainAndAgain
                || !grown.iter().any(|sites| self.is_same(sites, one))
        });
        leave_out_consequences(&mut found);
        sort::by_key(&mut found, |found| {
            (rank(found), found.kind.key(), found.sites.first().copied())
        });
        let mut kept = Vec::<Found>::new();
        for one in found {
            let is_said = one.weight_of.is_held()
                && kept.iter().any(|other| {
                    other.weight_of == one.weight_of && self.is_same(&other.sites, &one)
                });
            if !is_said {
                kept.push(one);
            }
        }
        kept.into_iter().map(|found| self.finding(found)).collect()
    }

    /// Whether these sites have most of the blocks of a finding.
    fn is_same(&self, sites: &[usize], other: &Found) -> bool {
        let of: HashSet<_> = sites.iter().collect();
        let shared: Vec<_> = other.sites.iter().filter(|site| of.contains(site)).copied().collect();
        let bytes = |sites: &[usize]| self.sum(sites, other.weigh);
        is_share(bytes(&shared), bytes(&other.sites), SAME)
    }

    fn finding(&self, found: Found) -> Finding {
        let beside = self.place(&found.beside, |site| site.figures.live_bytes_at_peak);
        let set = self.block_set(&found);
        made!(Finding {
            kind: found.kind,
            place: self.place(&found.sites, found.weigh),
            beside: beside.function.or_else(|| beside.scope.last().cloned()),
            figures: found.figures,
            weight: millionths(found.amount, found.whole),
            weight_of: found.weight_of,
            freed_by: found.freed_by,
            is_of_sample: self.is_of_sample,
            set
        })
    }
}

/// What the allocator keeps because much was live at once, of no place in particular, is said by the finding
/// of what that was: so is the cure.
fn leave_out_consequences(found: &mut Vec<Found>) {
    let at_once = |one: &&Found| matches!(one.kind, FindingKind::Temporary | FindingKind::Queue);
    let most = found.iter().filter(at_once).map(|one| one.amount).max().unwrap_or(0);
    found.retain(|one| {
        let has_place = one.kind != FindingKind::Fragmentation || !one.sites.is_empty();
        has_place || most < one.amount / 2
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_of_a_temporary_set_is_no_finding_of_its_own() {
        let left = |kind, amount, sites: &[usize]| {
            let kept = Found {
                kind: FindingKind::Fragmentation,
                amount: 100,
                sites: sites.to_vec(),
                ..Found::default()
            };
            let mut found = vec![Found { kind, amount, ..Found::default() }, kept];
            leave_out_consequences(&mut found);
            found.len()
        };
        assert_eq!(left(FindingKind::Temporary, 50, &[]), 1);
        assert_eq!(left(FindingKind::Queue, 50, &[]), 1);
        assert_eq!(left(FindingKind::Temporary, 49, &[]), 2);
        assert_eq!(left(FindingKind::LeftBehind, 50, &[]), 2);
        assert_eq!(left(FindingKind::Temporary, 50, &[1]), 2);
    }
}
