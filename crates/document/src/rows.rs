//! The rows of a report.

use crate::estimate::{Weights, weight};
use crate::figure::{Figure, Unit, figure};
use crate::figures::{Estimates, Figures};
use crate::symbolizer::SourceFrame;
use crate::tree::StackEnd;
use std::cmp::Ordering;

/// The name of the outermost scope.
pub const GLOBAL_SCOPE: &str = "GlobalScope";
/// What texts show of it.
pub const WHOLE_PROGRAM: &str = "(whole program)";

/// One scope stack.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScopeRow {
    /// Names from the outermost scope inwards.
    pub path: Vec<String>,
    /// How often this very scope was entered while it was recorded, on all threads; a future or a
    /// span counts once. `None` for the outermost scope, which is never entered; in traces of
    /// writers that do not count entries; and in a trace without its end that has no count yet,
    /// because our writer reports counts once a second.
    pub entries: Option<u64>,
    /// What was allocated in this very scope.
    pub figures: Figures,
    /// The same together with all scopes inside it.
    pub inclusive: Figures,
    /// The size of the largest live block of this very scope.
    pub largest_live_bytes: u64,
}

/// What else a row of a scope has.
#[rustfmt::skip]
pub const SCOPE_FIGURES: &[Figure<ScopeRow>] = &[
    figure("entries", Unit::Count, |of| of.entries, "How often this very scope was entered."),
    figure("largest_live_bytes", Unit::Bytes, |row| row.largest_live_bytes.into(),
        "The size of its largest live block."),
];

/// One group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct GroupRow {
    /// Names from the outermost group inwards.
    pub group: Vec<String>,
    /// The memory with a tag of this very group.
    pub figures: Figures,
    /// The same together with all groups inside it.
    pub inclusive: Figures,
}

/// One name of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct NameRow {
    /// Names of the groups from the outermost inwards.
    pub group: Vec<String>,
    /// The name.
    pub name: String,
    /// The memory with this name.
    pub figures: Figures,
}

/// One thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ThreadRow {
    /// Its id in the trace, never used for another thread.
    pub id: u32,
    /// Its name, empty if it has none.
    pub name: String,
    /// The operating system's id, if the trace says it.
    pub system_id: Option<u32>,
    /// What it allocated.
    pub figures: Figures,
}

/// One root heap: an address space of its own, such as that of Rust's allocator, or of C's `malloc`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HeapRow {
    /// Its number in the trace.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// Its blocks.
    pub figures: Figures,
}

/// One class of sizes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SizeRow {
    /// The smallest size in it.
    pub min_bytes: u64,
    /// The largest; `None` in the last class.
    pub max_bytes: Option<u64>,
    /// Blocks of this size class. A block that grows or shrinks into another class moves: its old
    /// class counts it in `moved_out` with the old size, and its new class counts it in `moved_in`
    /// with the new size. The new class also counts the reallocation and all later changes.
    pub figures: Figures,
}

/// What is known of a stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum StackKind {
    /// Its frames.
    #[default]
    Known,
    /// It was not taken: stacks were off, or the block is not in the sample.
    NotTaken,
    /// Any stack that the program had no memory for.
    Other,
    /// The trace does not say what it is.
    Unknown,
}

/// One call stack.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StackRow {
    /// What is known of it.
    pub kind: StackKind,
    /// Its frames, innermost first: each an index of [`Report::frames`](crate::Report::frames).
    pub frames: Vec<u32>,
    /// How it ends at its outermost frame.
    pub end: StackEnd,
    /// The blocks whose last allocation or reallocation had this stack. In a sampled trace these are
    /// the blocks of the sample.
    pub figures: Figures,
    #[doc(hidden)]
    pub weights: Option<Box<Weights>>,
}

impl StackRow {
    /// Estimates for all blocks with this stack, if the trace has only a sample of them.
    pub fn estimates(&self) -> Option<Estimates> {
        self.weights.as_ref().map(|weights| weights.estimates())
    }
}

/// One combination of scope stack, group and name, thread, root heap and call stack.
///
/// The five are indices of the report's lists. Its own peak and moves are not kept: these columns are 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BucketRow {
    /// Its scope stack: an index of [`Report::by_scope`](crate::Report::by_scope).
    pub scope: usize,
    /// Its group and name: an index of [`Report::by_name`](crate::Report::by_name).
    pub name: usize,
    /// The thread that allocates: an index of [`Report::by_thread`](crate::Report::by_thread).
    pub thread: usize,
    /// Its root heap: an index of [`Report::by_heap`](crate::Report::by_heap).
    pub heap: usize,
    /// Its call stack: an index of [`Report::by_stack`](crate::Report::by_stack), if that has it.
    pub stack: Option<usize>,
    /// Its blocks. In a sampled trace, a bucket with a stack has the blocks of the sample.
    pub figures: Figures,
    #[doc(hidden)]
    pub weights: Option<Box<Weights>>,
    /// The mean distance of samples in bytes; 0 if it has every block.
    #[doc(hidden)]
    pub sampling: u64,
}

impl BucketRow {
    /// How many blocks a block of this size in this bucket counts for in the
    /// [estimates](Self::estimates): 1 if the bucket has every block.
    pub fn weight(&self, bytes: u64) -> f64 {
        if self.sampling > 0 { weight(bytes, self.sampling) } else { 1.0 }
    }

    /// Estimates for all blocks with this stack in this scope, with this name, on this thread, if the
    /// trace has only a sample of them.
    pub fn estimates(&self) -> Option<Estimates> {
        self.weights.as_ref().map(|weights| weights.estimates())
    }
}

/// One frame of some stacks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Frame {
    /// The file that its code is in: an index of [`Report::modules`](crate::Report::modules). `None`
    /// if it is in none that the trace names.
    pub module: Option<usize>,
    /// Where the byte before its return address is: bytes from the base of the module, or the
    /// address in no module.
    pub offset: u64,
    /// Whether it is a guess: it was found by a frame pointer because the code that it has called has no
    /// unwind information, or it is further out than such a frame.
    pub is_guess: bool,
    /// The functions there, innermost first; empty until
    /// [`Report::symbolize`](crate::Report::symbolize) finds some.
    pub functions: Vec<SourceFrame>,
}

/// One live block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LiveBlock {
    /// Where it is now.
    pub address: u64,
    /// Its size now.
    pub bytes: u64,
    /// The name of the thread that first allocated it, empty if it has none.
    pub thread: String,
    /// That thread's id.
    pub thread_id: u32,
    /// Its group.
    pub group: Vec<String>,
    /// Its name within the group.
    pub name: String,
    /// The scope stack it was first allocated in.
    pub path: Vec<String>,
    /// When it was first allocated: the last time in the trace before that.
    pub allocated_at_ns: u64,
    /// The stack of its last allocation or reallocation: an index of
    /// [`Report::by_stack`](crate::Report::by_stack), if that has it.
    pub stack: Option<usize>,
}

/// The order of rows before their names are compared.
pub fn order(a: &Figures, b: &Figures) -> Ordering {
    (b.live_bytes, b.allocated_bytes).cmp(&(a.live_bytes, a.allocated_bytes))
}
