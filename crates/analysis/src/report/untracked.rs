//! What of the program's memory is in no block of the report.

use super::types::Report;

/// What may be in no block of the report: memory that the program has not got from an allocator that is
/// recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Untracked {
    /// Why blocks or scopes are known not to be recorded.
    pub reasons: Vec<UntrackedReason>,
    /// The resident memory against the blocks, at the end or at the largest RSS that was looked into,
    /// whichever has more that is untracked. `None` if that could not be compared: the trace has no resident
    /// memory in it, began after the process, or has no allocations.
    pub weighed: Option<Weighed>,
    /// The trace is of Rust's global allocator alone, by its own choice: what C functions allocate is beside
    /// it, and the figures of the allocator are complete.
    pub is_beside: bool,
}

/// A reason why blocks or scopes of the program are not recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UntrackedReason {
    /// What it is.
    pub kind: UntrackedKind,
    /// The function that allocates them; empty if it has no name that programs use.
    pub function: String,
    /// The file that has it; empty if the trace does not say.
    pub file: String,
}

/// What a reason is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UntrackedKind {
    /// The `malloc` that the program calls is another one.
    Malloc,
    /// C++'s `operator new` is that of an allocator's library.
    New,
    /// The program has an allocator in itself, or asks for one by its own names.
    Allocator,
    /// A program of Go, whose runtime asks the system for memory.
    Go,
    /// Another copy of memledger in the program, whose scopes are not recorded. `function` is its version,
    /// `file` that of the copy that records.
    Scopes,
}

/// The resident memory at a moment, against the blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Weighed {
    /// The time.
    pub at_ns: u64,
    /// All that was resident.
    pub rss_bytes: u64,
    /// Anonymous memory that is no stack, no mapping that is a block, not the tracker's, and in no window of
    /// 64 KiB in which a block has ever been. It is at least so much.
    pub untracked_bytes: u64,
}

impl Weighed {
    /// Whether it is so much that figures are wrong without it: more than 1 MiB and 5 %.
    pub fn is_much(&self) -> bool {
        self.untracked_bytes > 1 << 20 && self.untracked_bytes / 5 > self.rss_bytes / 100
    }
}

impl Untracked {
    /// Whether memory or scopes are untracked, for a known reason or by its weight.
    pub fn is_known(&self) -> bool {
        !self.reasons.is_empty() || self.weighed.is_some_and(|weighed| weighed.is_much())
    }

    /// Whether there are scopes that are not recorded.
    pub fn has_scopes(&self) -> bool {
        self.reasons.iter().any(|reason| reason.kind == UntrackedKind::Scopes)
    }

    /// Whether the figures are wrong by that.
    pub fn is_missing(&self) -> bool {
        self.has_scopes() || self.is_known() && !self.is_beside
    }
}

impl Report {
    /// Completes what is untracked, and whether the trace is complete.
    pub(crate) fn judge_untracked(&mut self, has_c_heap: bool) {
        let is_ours = self.trace.from_process_start.is_some();
        self.untracked.is_beside = is_ours && !has_c_heap;
        self.trace.complete &= !self.untracked.is_missing();
    }
}
