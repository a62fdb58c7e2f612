//! Whether a report has all memory of its program: three words, and the reasons.

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
    #[doc(hidden)]
    pub fn of(kind: CoverageKind) -> Self {
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
}

impl Coverage {
    /// Something is missing.
    pub(crate) fn add(&mut self, kind: CoverageKind) {
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
