//! Losses and contradictions in a trace.

use super::coverage;
use crate::read::{Damage, Hole};
use memledger_document::internal::TakenStacks;
use memledger_document::{Coverage, CoverageWord, Losses, Report, StackEnd};

/// The maximum number of problems that are kept; further ones are dropped.
const MAX_PROBLEMS: usize = 32;

/// Losses and problems so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Diagnostics {
    losses: Losses,
    lost: LostEvents,
    damaged: bool,
    /// Whether the writer's own report was seen.
    has_report: bool,
    /// Whether the reader has reached the end of the trace.
    ended: bool,
    problems: Vec<String>,
}

/// The number of lost events, from three sources.
#[derive(Clone, Copy, Debug, Default)]
struct LostEvents {
    /// The sum of `Memledger.Lost`.
    noted: u64,
    /// The number in `Memledger.Report`.
    reported: u64,
    /// Missing serials.
    missing: u64,
}

impl Diagnostics {
    /// Keeps a sentence about a contradiction.
    #[cold]
    pub(super) fn problem(&mut self, what: String) {
        if self.problems.len() < MAX_PROBLEMS && !self.problems.contains(&what) {
            self.problems.push(what);
        }
    }

    pub(super) fn problems(&self) -> &[String] {
        &self.problems
    }

    /// A block was allocated over a live one.
    pub(super) fn duplicate_allocation(&mut self) {
        self.losses.duplicate_allocations += 1;
    }

    /// An unknown block was freed. If `began_late`, the block may be from before the trace.
    pub(super) fn unknown_free(&mut self, began_late: bool) {
        *self.unknown_frees(began_late) += 1;
    }

    /// The last free of an unknown block did not happen: takes back its count.
    pub(super) fn no_unknown_free(&mut self, began_late: bool) {
        let frees = self.unknown_frees(began_late);
        *frees = frees.saturating_sub(1);
    }

    fn unknown_frees(&mut self, began_late: bool) -> &mut u64 {
        if began_late {
            &mut self.losses.frees_of_earlier_blocks
        } else {
            &mut self.losses.unmatched_frees
        }
    }

    /// The writer noted lost events.
    pub(super) fn lost(&mut self, events: u64) {
        self.lost.noted = self.lost.noted.saturating_add(events);
    }

    /// The reader found events missing.
    pub(super) fn hole(&mut self, hole: Hole) {
        self.losses.serial_holes += 1;
        self.losses.lost_unknown |= hole.count == 0;
        self.lost.missing = self.lost.missing.saturating_add(hole.count);
    }

    /// The reader could not read a part of the input.
    pub(super) fn damage(&mut self, damage: &Damage) {
        self.damaged = true;
        self.losses.truncated_bytes = self.losses.truncated_bytes.saturating_add(damage.skipped);
        self.problem(damage.what.clone());
    }

    /// The reader reached the end of the trace, if it is `whole`.
    pub(super) fn end(&mut self, whole: bool) {
        self.ended = whole;
    }

    /// The writer's own report; `false` if there was one before.
    pub(super) fn set_reported(&mut self, lost: u64, scope_misuses: u64) -> bool {
        if self.has_report {
            return false;
        }
        self.has_report = true;
        self.lost.reported = lost;
        self.losses.scope_misuses = scope_misuses;
        true
    }

    /// Whether the writer's own report was seen.
    pub(super) fn has_report(&self) -> bool {
        self.has_report
    }

    /// Puts the losses into a report; `refused` blocks were not kept.
    pub(super) fn fill(&self, report: &mut Report, refused: u64) {
        let LostEvents { noted, reported, missing } = self.lost;
        let lost_events = noted.max(reported).saturating_add(missing).saturating_add(refused);
        report.losses = self.losses;
        report.losses.lost_events = lost_events;
        count_stacks(&mut report.losses, report.by_stack.taken());
        report.trace.ended = self.has_report || self.ended;
        report.trace.coverage = self.coverage(report, false);
        report.trace.complete = report.trace.coverage.word == CoverageWord::Complete;
    }

    /// How complete a report is; `is_running`: the program has no end yet.
    pub(super) fn coverage(&self, report: &Report, is_running: bool) -> Coverage {
        coverage::judge(report, self.damaged, is_running)
    }
}

/// Counts the stacks that are not whole.
fn count_stacks(losses: &mut Losses, taken: &TakenStacks) {
    let of = |end: StackEnd| taken.by_end[end as usize];
    (losses.stacks_other, losses.stacks_guessed) = (taken.other, taken.guessed);
    (losses.stacks_cut, losses.stacks_cut_bytes) = taken.cut;
    losses.stacks_over_frame_limit = of(StackEnd::FrameLimit);
    losses.stacks_without_unwind_information = of(StackEnd::NoUnwindInformation);
    losses.stacks_unreadable = of(StackEnd::UnreadableMemory);
    losses.stacks_in_changed_libraries = of(StackEnd::LibraryChanged);
}
