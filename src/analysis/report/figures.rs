//! The figures of a report: those of all blocks, and the columns of a row.

/// All blocks together.
///
/// `live_blocks = allocations - frees + moved_in_blocks - moved_out_blocks`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Totals {
    /// Allocations; a reallocation is none.
    pub allocations: u64,
    /// Frees of known blocks.
    pub frees: u64,
    /// Successful reallocations.
    pub reallocations: u64,
    /// The sizes of all allocations and the new sizes of all reallocations.
    pub allocated_bytes: u64,
    /// Blocks not freed yet.
    pub live_blocks: u64,
    /// Their bytes.
    pub live_bytes: u64,
    /// The largest live bytes at any time.
    pub peak_bytes: u64,
    /// When the peak was first reached, or just before: see [`Report::peak`](super::Report::peak).
    pub peak_bytes_at_ns: u64,
    /// Live blocks then.
    pub blocks_at_peak: u64,
    /// Bytes live at the peak that were allocated in no scope and have no tag.
    pub unnamed_bytes_at_peak: u64,
    /// The largest number of live blocks at any time.
    pub peak_blocks: u64,
    /// Blocks freed by the thread that allocated them before it allocated again.
    pub short_lived: u64,
    /// Memory of the tracker itself, if the writer tells it.
    pub overhead_bytes: Option<u64>,
    /// Blocks that came back into the ledger without an allocation (see `moved_out`).
    pub moved_in: Moves,
    /// Blocks that left the ledger without a free: replaced by another at the same address, or
    /// declared a heap by the program.
    pub moved_out: Moves,
}

/// Blocks that changed their row, and their bytes then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moves {
    /// How many.
    pub blocks: u64,
    /// Their sizes when they moved; where they grew or shrank by that, as they left or came.
    pub bytes: u64,
}

/// The columns of one row.
///
/// `live_blocks = allocations - frees + moved_in.blocks - moved_out.blocks`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Figures {
    /// Allocations; a reallocation is none.
    pub allocations: u64,
    /// Frees of known blocks.
    pub frees: u64,
    /// Successful reallocations.
    pub reallocations: u64,
    /// The sizes of all allocations and the new sizes of all reallocations.
    pub allocated_bytes: u64,
    /// Blocks not freed yet.
    pub live_blocks: u64,
    /// Their bytes.
    pub live_bytes: u64,
    /// The row's own largest live bytes at any time.
    pub peak_bytes: u64,
    /// Its live bytes when the total was at its peak.
    pub live_bytes_at_peak: u64,
    /// Its live blocks then.
    pub live_blocks_at_peak: u64,
    /// Blocks freed by the thread that allocated them before it allocated again.
    pub short_lived: u64,
    /// Blocks that came from another row, or from outside the ledger.
    pub moved_in: Moves,
    /// Blocks that went to another row, or left the ledger without a free (see
    /// [`Totals::moved_out`]).
    pub moved_out: Moves,
}
