//! What of the program's memory is in no block of the report.

use crate::coverage::CoverageWord;

/// At most this many reasons are kept.
pub const MAX_REASONS: usize = 16;

/// What may be in no block of the report: memory that the program has not got from an allocator that is
/// recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Untracked {
    /// Why blocks or scopes are known not to be recorded.
    pub reasons: Vec<UntrackedReason>,
    /// The resident memory against the blocks, in the reading of which the largest share is untracked, by
    /// [`CoverageWord`]. `None` if that could not be compared: the trace has no resident memory in it, began
    /// after the process, or has no allocations.
    pub weighed: Option<Weighed>,
    /// The reading of which most is untracked, if that is another one.
    pub largest: Option<Weighed>,
    /// A maximum of RSS that the kernel has counted, if more of it is explained by nothing in the trace than
    /// of what was weighed: it was there between two readings. `None` if all is explained.
    pub unseen_peak: Option<Weighed>,
    /// When memory was last weighed; `None` if it never was.
    pub last_weighed_ns: Option<u64>,
    /// Whether that was at the end of the program.
    pub is_weighed_at_end: bool,
    /// Whether the trace has all live blocks, against which memory can be weighed.
    pub can_be_weighed: bool,
    /// The trace is of Rust's global allocator alone, by its own choice: what C functions allocate is beside
    /// it, and the figures of the allocator are complete.
    pub is_beside: bool,
    /// The programs that the process has started as children, other than by a fork that is followed, and the
    /// numbers of their processes.
    pub started: Vec<(u32, String)>,
    /// Where children are not followed: the first 16 programs that the process has started as children, and
    /// `(fork)` for forks of itself.
    pub not_followed: Vec<String>,
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

#[doc(hidden)]
impl UntrackedReason {
    pub fn new(kind: UntrackedKind, function: String, file: String) -> Self {
        Self { kind, function, file }
    }
}

/// What a reason is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    /// The process was replaced by the program `file`, which has no trace. `function` is when, in
    /// nanoseconds.
    Replaced,
    /// The program `file` was started and has no trace. `function` is the number of its process, or empty for
    /// a shell of C's `system` or `popen`, which was started without the library.
    Child,
    /// The program has asked the loader for a function of another `malloc`, and may call it.
    Handle,
    /// The program's file cannot be read: an allocator in it would not be found.
    Unreadable,
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

impl Untracked {
    /// Whether memory or scopes are untracked, for a known reason or by its weight.
    pub fn is_known(&self) -> bool {
        let is_much = |weighed: &Weighed| weighed.word() == CoverageWord::Incomplete;
        !self.reasons.is_empty() || self.weighed.as_ref().is_some_and(is_much)
    }

    /// Whether there are scopes that are not recorded.
    pub fn has_scopes(&self) -> bool {
        self.has(UntrackedKind::Scopes)
    }

    /// Whether there is a reason of this kind.
    #[doc(hidden)]
    pub fn has(&self, kind: UntrackedKind) -> bool {
        self.reasons.iter().any(|reason| reason.kind == kind)
    }
}

impl Weighed {
    /// The word for so much memory in no block.
    #[doc(hidden)]
    pub fn word(&self) -> CoverageWord {
        let Self { untracked_bytes: unseen, rss_bytes: rss, .. } = *self;
        if unseen > MIB && unseen / 5 > rss / 100 {
            CoverageWord::Incomplete
        } else if unseen >= MIB.max(rss / 100) {
            CoverageWord::CompleteFor
        } else {
            CoverageWord::Complete
        }
    }
}

const MIB: u64 = 1 << 20;
