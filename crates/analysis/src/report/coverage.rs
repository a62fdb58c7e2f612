//! Whether a report has all memory of its program: three words, decided here, for every output.
//!
//! The words are a pure function of what the trace has, so the report in the process, the one from the file
//! and the exit status of a command agree.

use super::types::Report;
use super::untracked::{Untracked, UntrackedKind, Weighed};

/// How much of the program's memory the figures have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Coverage {
    /// The word.
    pub word: CoverageWord,
    /// Why it is not [`Complete`](CoverageWord::Complete), the gravest first; empty if it is.
    pub reasons: Vec<CoverageReason>,
}

/// How complete the figures are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum CoverageWord {
    /// Nothing is missing, and less than 1 MiB or 1 % of the resident memory is in no block.
    Complete,
    /// Blocks are complete. Other memory was not weighed to the end, or some of it is in no block: at most 1
    /// MiB or 5 % of the resident memory.
    CompleteFor,
    /// Events, a part of the program's life or the blocks of an allocator are missing, or more memory than
    /// that is in no block.
    #[default]
    Incomplete,
}

/// A reason why figures are not complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CoverageReason {
    /// What it is.
    pub kind: CoverageKind,
    /// How much memory is in no block for this reason, in bytes: at least so much. 0 if that is not known.
    pub bytes: u64,
    /// From when on, in nanoseconds since the trace began; `None` if that is not known.
    pub from_ns: Option<u64>,
    /// Until when.
    pub to_ns: Option<u64>,
}

/// What a reason is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CoverageKind {
    /// Events are missing.
    LostEvents,
    /// A part of the trace could not be read.
    Damage,
    /// The trace has no end.
    NoEnd,
    /// Blocks were freed that were never allocated, or allocated where others were live.
    Contradiction,
    /// The blocks that were live at the start of a forked child are an estimate.
    EstimatedStart,
    /// The process executed a program that is not recorded.
    Replaced,
    /// A child executed a program that is not recorded.
    Child,
    /// Allocators of the program are not recorded.
    Allocator,
    /// Scopes of another copy of memledger are not recorded.
    Scopes,
    /// Resident memory was weighed, and is in no block.
    Unseen,
    /// The kernel has counted a maximum of resident memory that nothing recorded explains.
    UnseenPeak,
    /// Memory was last weighed at `from_ns`, before the end.
    WeighedBeforeEnd,
    /// Memory other than blocks was never weighed.
    NotWeighed,
}

impl CoverageReason {
    fn of(kind: CoverageKind) -> Self {
        Self { kind, bytes: 0, from_ns: None, to_ns: None }
    }
}

impl CoverageKind {
    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::LostEvents => "lost_events",
            Self::Damage => "damage",
            Self::NoEnd => "no_end",
            Self::Contradiction => "contradiction",
            Self::EstimatedStart => "estimated_start",
            Self::Replaced => "replaced",
            Self::Child => "child",
            Self::Allocator => "allocator",
            Self::Scopes => "scopes",
            Self::Unseen => "unseen",
            Self::UnseenPeak => "unseen_peak",
            Self::WeighedBeforeEnd => "weighed_before_end",
            Self::NotWeighed => "not_weighed",
        }
    }

    /// Whether it is about memory in no block, of which the report says how much.
    fn is_unseen(self) -> bool {
        matches!(self, Self::Unseen | Self::UnseenPeak)
    }
}

impl CoverageWord {
    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::CompleteFor => "complete_for",
            Self::Incomplete => "incomplete",
        }
    }

    /// The word for so much memory in no block.
    pub(crate) fn of(weighed: &Weighed) -> Self {
        let Weighed { untracked_bytes: unseen, rss_bytes: rss, .. } = *weighed;
        if unseen > MIB && unseen / 5 > rss / 100 {
            Self::Incomplete
        } else if unseen >= MIB.max(rss / 100) {
            Self::CompleteFor
        } else {
            Self::Complete
        }
    }
}

const MIB: u64 = 1 << 20;

impl Coverage {
    /// Judges a report, all of whose other fields are there. `is_damaged`: a part of the trace could not be
    /// read. `is_running`: the program has no end yet.
    pub(crate) fn of(report: &Report, is_damaged: bool, is_running: bool) -> Self {
        let Report { losses, trace, untracked, .. } = report;
        let lost = losses.lost_events > 0 || losses.lost_unknown || losses.serial_holes > 0;
        let facts = [
            (lost, CoverageKind::LostEvents),
            (is_damaged, CoverageKind::Damage),
            (!trace.ended && !is_running, CoverageKind::NoEnd),
            (losses.contradictions() > 0, CoverageKind::Contradiction),
            (trace.missed_at_start > 0, CoverageKind::EstimatedStart),
            (untracked.has(UntrackedKind::Replaced), CoverageKind::Replaced),
            (untracked.has(UntrackedKind::Child), CoverageKind::Child),
            (untracked.has_allocators() && !untracked.is_beside, CoverageKind::Allocator),
            (untracked.has_scopes(), CoverageKind::Scopes),
        ];
        let facts = facts.into_iter().filter(|(is, _)| *is);
        let mut found: Vec<_> =
            facts.map(|(_, kind)| (CoverageWord::Incomplete, CoverageReason::of(kind))).collect();
        if !untracked.is_beside {
            found.extend(untracked.unseen());
            let not_weighed = untracked.not_weighed(trace.ended, trace.duration_ns);
            found.extend(not_weighed.filter(|_| !is_running));
        }
        let word = found.iter().map(|(word, _)| *word).max();
        let mut reasons: Vec<_> = found.into_iter().map(|(_, reason)| reason).collect();
        // What is known of an allocator is why its memory is in no block.
        reasons.sort_by_key(|reason| reason.kind.is_unseen());
        Self { word: word.unwrap_or(CoverageWord::Complete), reasons }
    }

    /// Something is missing.
    pub(super) fn add(&mut self, kind: CoverageKind) {
        self.word = CoverageWord::Incomplete;
        self.reasons.insert(0, CoverageReason::of(kind));
    }

    /// How much memory is in no block, in bytes: at least so much.
    pub fn unseen_bytes(&self) -> u64 {
        self.reasons.iter().map(|reason| reason.bytes).max().unwrap_or(0)
    }

    /// Whether what is missing is only memory of which [`unseen_bytes`](Self::unseen_bytes) says how much.
    /// Then the figures of blocks are exact, and those of all memory are within an interval.
    pub fn is_bounded(&self) -> bool {
        use CoverageKind::{NotWeighed, Unseen, UnseenPeak, WeighedBeforeEnd};
        let bounded = [Unseen, UnseenPeak, WeighedBeforeEnd, NotWeighed];
        self.reasons.iter().all(|reason| bounded.contains(&reason.kind))
    }

    /// Whether what is missing is only memory: of allocators that are not recorded, or in no block.
    pub fn is_memory_only(&self) -> bool {
        use CoverageKind::{Allocator, NotWeighed, Scopes, Unseen, UnseenPeak, WeighedBeforeEnd};
        let memory = [Allocator, Scopes, Unseen, UnseenPeak, WeighedBeforeEnd, NotWeighed];
        self.reasons.iter().all(|reason| memory.contains(&reason.kind))
    }
}

type Found = (CoverageWord, CoverageReason);

impl Untracked {
    /// What was weighed and is in no block, and the maximum that nothing explains, each if it is enough to
    /// be said.
    fn unseen(&self) -> impl Iterator<Item = Found> {
        let all = [
            (CoverageKind::Unseen, self.weighed.as_ref()),
            (CoverageKind::Unseen, self.largest.as_ref()),
            (CoverageKind::UnseenPeak, self.unseen_peak.as_ref()),
        ];
        let all = all.into_iter().filter_map(|(kind, weighed)| Some((kind, weighed?)));
        all.map(|(kind, weighed)| {
            let (bytes, at_ns) = (weighed.untracked_bytes, weighed.at_ns);
            let reason = CoverageReason { kind, bytes, from_ns: None, to_ns: Some(at_ns) };
            (CoverageWord::of(weighed), reason)
        })
        .filter(|(word, _)| *word > CoverageWord::Complete)
    }

    /// That memory was not weighed, or not to the end.
    fn not_weighed(&self, is_ended: bool, end_ns: u64) -> Option<Found> {
        let (kind, from_ns) = match (self.can_be_weighed, self.last_weighed_ns) {
            (false, _) => return None,
            (true, None) => (CoverageKind::NotWeighed, None),
            (true, Some(_)) if self.is_weighed_at_end || !is_ended => return None,
            (true, last) => (CoverageKind::WeighedBeforeEnd, last),
        };
        let reason = CoverageReason { kind, bytes: 0, from_ns, to_ns: Some(end_ns) };
        Some((CoverageWord::CompleteFor, reason))
    }
}

impl Untracked {
    /// Whether there is an allocator that is known not to be recorded.
    fn has_allocators(&self) -> bool {
        use UntrackedKind::{Child, Replaced, Scopes};
        self.reasons.iter().any(|reason| ![Scopes, Replaced, Child].contains(&reason.kind))
    }
}
