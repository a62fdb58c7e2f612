//! The figures of rows and of all blocks together, their estimates, and the tables of them.

use crate::figure::Unit::{Bytes, Count, Nanoseconds};
use crate::figure::{Figure, column, figure};

/// The columns of one row. [`FIGURES`] is the table of them.
///
/// `live_blocks = allocations - frees + moved_in.blocks - moved_out.blocks`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Figures {
    /// Allocations; a reallocation is not one.
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
    /// Blocks that came from another row, or from outside the accounts.
    pub moved_in: Moves,
    /// Blocks that went to another row, or left the accounts without a free (see
    /// [`Totals::moved_out`]).
    pub moved_out: Moves,
}

/// All columns of a row, in the order of the JSON. Further ones are added at the end.
#[rustfmt::skip]
pub const FIGURES: &[Figure<Figures>] = &[
    column("allocations", Count, "count", |row| row.allocations.into(),
        "Allocations; a reallocation is not one."),
    figure("frees", Count, |row| row.frees.into(), "Frees of known blocks."),
    column("reallocations", Count, "reallocations", |row| row.reallocations.into(),
        "Reallocations; for a budget, those of blocks from outside as well."),
    column("allocated_bytes", Bytes, "allocated", |row| row.allocated_bytes.into(),
        "The sizes of all allocations, and the new sizes of all reallocations."),
    column("live_blocks", Count, "blocks", |row| row.live_blocks.into(), "Blocks that are not freed yet."),
    column("live_bytes", Bytes, "at end", |row| row.live_bytes.into(), "Their bytes."),
    column("peak_bytes", Bytes, "own peak", |row| row.peak_bytes.into(),
        "The most live bytes at any time, of a row its own."),
    column("live_bytes_at_peak", Bytes, "at peak", |row| row.live_bytes_at_peak.into(),
        "Live bytes when the total was at its peak."),
    figure("live_blocks_at_peak", Count, |row| row.live_blocks_at_peak.into(), "Live blocks then."),
    figure("short_lived", Count, |row| row.short_lived.into(),
        "Blocks that their thread freed before it allocated again."),
];

/// Blocks that changed their row, and their bytes then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Moves {
    /// How many.
    pub blocks: u64,
    /// Their sizes when they moved. For a block that a reallocation moved to another size class:
    /// the old size where it left, the new size where it arrived.
    pub bytes: u64,
}

/// The figures of what moved into a row and out of it. In JSON, they are left out if nothing has.
#[rustfmt::skip]
pub const MOVES: &[Figure<[Moves; 2]>] = &[
    figure("moved_in_blocks", Count, |[into, _]| into.blocks.into(),
        "Blocks that came from another row, or from outside the accounts."),
    figure("moved_in_bytes", Bytes, |[into, _]| into.bytes.into(), "Their bytes then."),
    figure("moved_out_blocks", Count, |[_, out]| out.blocks.into(),
        "Blocks that went to another row, or left the accounts without a free."),
    figure("moved_out_bytes", Bytes, |[_, out]| out.bytes.into(), "Their bytes then."),
];

/// All blocks together. [`TOTALS`] is the table of them.
///
/// `live_blocks = allocations - frees + moved_in_blocks - moved_out_blocks`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Totals {
    /// Allocations; a reallocation is not one.
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
    /// When the peak was first reached, or just before: see [`Report::peak`](crate::Report::peak).
    pub peak_bytes_at_ns: u64,
    /// Live blocks then.
    pub blocks_at_peak: u64,
    /// Bytes live at the peak that were allocated in no scope and have no tag.
    pub unnamed_bytes_at_peak: u64,
    /// The largest number of live blocks at any time.
    pub peak_blocks: u64,
    /// Blocks freed by the thread that allocated them before it allocated again.
    pub short_lived: u64,
    /// Bytes of memory of the tracker itself, if the trace says it.
    pub overhead_bytes: Option<u64>,
    /// Blocks that came back into the accounts without an allocation (see `moved_out`).
    pub moved_in: Moves,
    /// Blocks that left the accounts without a free: replaced by another at the same
    /// address, or declared a heap by the program.
    pub moved_out: Moves,
}

/// The figures of all blocks, in the order of the JSON.
#[rustfmt::skip]
pub const TOTALS: &[Figure<Totals>] = &[
    figure("allocations", Count, |of| of.allocations.into(), "Allocations; a reallocation is not one."),
    figure("frees", Count, |of| of.frees.into(), "Frees of known blocks."),
    figure("reallocations", Count, |of| of.reallocations.into(), "Successful reallocations."),
    figure("allocated_bytes", Bytes, |of| of.allocated_bytes.into(), "The sizes of all allocations."),
    figure("live_blocks", Count, |of| of.live_blocks.into(), "Blocks that are not freed yet."),
    figure("live_bytes", Bytes, |of| of.live_bytes.into(), "Their bytes."),
    figure("peak_bytes", Bytes, |of| of.peak_bytes.into(), "The largest live bytes at any time."),
    figure("peak_bytes_at_ns", Nanoseconds, |of| of.peak_bytes_at_ns.into(), "When that was."),
    figure("blocks_at_peak", Count, |of| of.blocks_at_peak.into(), "Live blocks then."),
    figure("peak_blocks", Count, |of| of.peak_blocks.into(),
        "The largest number of live blocks at any time."),
    figure("short_lived", Count, |of| of.short_lived.into(), "Blocks that their thread freed at once."),
    figure("overhead_bytes", Bytes, |of| of.overhead_bytes, "Bytes of the tracker itself."),
    figure("unnamed_bytes_at_peak", Bytes, |of| of.unnamed_bytes_at_peak.into(),
        "Bytes live at the peak without a scope or a tag."),
];

/// How many columns of a row add up: all but its own peak.
pub(crate) const SUMS: usize = FIGURES.len() - 1;

/// The column with this key.
#[doc(hidden)]
pub const fn by_key(key: &str) -> &'static Figure<Figures> {
    let mut at = 0;
    while !is_same(FIGURES[at].key.as_bytes(), key.as_bytes()) {
        at += 1;
    }
    &FIGURES[at]
}

const fn is_same(a: &[u8], b: &[u8]) -> bool {
    let mut at = 0;
    while at < a.len() && at < b.len() && a[at] == b[at] {
        at += 1;
    }
    at == a.len() && at == b.len()
}

impl Figure<Figures> {
    /// Its number in a row.
    pub fn number(&self, row: &Figures) -> u64 {
        (self.of)(row).unwrap_or_default()
    }

    /// Whether the rows of a list add up to the figure of the total.
    pub fn adds_up(&self) -> bool {
        self.key != "peak_bytes"
    }
}

impl Figures {
    /// The columns that add up, in the order of [`FIGURES`], the row's own peak, and the moves.
    pub(crate) fn all_mut(&mut self) -> [&mut u64; SUMS + 5] {
        [
            &mut self.allocations,
            &mut self.frees,
            &mut self.reallocations,
            &mut self.allocated_bytes,
            &mut self.live_blocks,
            &mut self.live_bytes,
            &mut self.live_bytes_at_peak,
            &mut self.live_blocks_at_peak,
            &mut self.short_lived,
            &mut self.peak_bytes,
            &mut self.moved_in.blocks,
            &mut self.moved_in.bytes,
            &mut self.moved_out.blocks,
            &mut self.moved_out.bytes,
        ]
    }

    /// The columns that add up.
    pub(crate) fn sums(&self) -> [u64; SUMS] {
        [
            self.allocations,
            self.frees,
            self.reallocations,
            self.allocated_bytes,
            self.live_blocks,
            self.live_bytes,
            self.live_bytes_at_peak,
            self.live_blocks_at_peak,
            self.short_lived,
        ]
    }

    /// Adds the columns of `other` that add up: all but the peaks and the moves. Sums beyond
    /// `u64::MAX` wrap.
    ///
    /// PERF: field by field. With loops over them, a report by function took a tenth more instructions.
    #[inline]
    pub fn add(&mut self, other: &Self) {
        self.allocations = self.allocations.wrapping_add(other.allocations);
        self.frees = self.frees.wrapping_add(other.frees);
        self.reallocations = self.reallocations.wrapping_add(other.reallocations);
        self.allocated_bytes = self.allocated_bytes.wrapping_add(other.allocated_bytes);
        self.live_blocks = self.live_blocks.wrapping_add(other.live_blocks);
        self.live_bytes = self.live_bytes.wrapping_add(other.live_bytes);
        self.live_bytes_at_peak = self.live_bytes_at_peak.wrapping_add(other.live_bytes_at_peak);
        self.live_blocks_at_peak = self.live_blocks_at_peak.wrapping_add(other.live_blocks_at_peak);
        self.short_lived = self.short_lived.wrapping_add(other.short_lived);
    }

    /// Adds what moved. NOTE: moves between the two rows stay in it.
    #[doc(hidden)]
    pub fn add_moves(&mut self, other: &Self) {
        for (sum, of) in
            [(&mut self.moved_in, other.moved_in), (&mut self.moved_out, other.moved_out)]
        {
            sum.add(of.blocks, of.bytes);
        }
    }
}

impl Moves {
    #[doc(hidden)]
    pub fn add(&mut self, blocks: u64, bytes: u64) {
        self.blocks = self.blocks.wrapping_add(blocks);
        self.bytes = self.bytes.wrapping_add(bytes);
    }
}

/// A figure of the whole, estimated from a sample of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Estimate {
    /// The estimate; without bias.
    pub value: u64,
    /// The lower and upper end of an interval that covers the figure 95 times in 100.
    pub low: u64,
    /// See `low`.
    pub high: u64,
}

/// Estimates of the columns of a row, from a sample: all of [`Figures`] but the row's own peak, which a
/// sample does not show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
#[expect(missing_docs, reason = "they have the names of the columns")]
pub struct Estimates {
    pub allocations: Estimate,
    pub frees: Estimate,
    pub reallocations: Estimate,
    pub allocated_bytes: Estimate,
    pub live_blocks: Estimate,
    pub live_bytes: Estimate,
    pub live_bytes_at_peak: Estimate,
    pub live_blocks_at_peak: Estimate,
    pub short_lived: Estimate,
}

impl Estimates {
    pub(crate) fn all_mut(&mut self) -> [&mut Estimate; SUMS] {
        [
            &mut self.allocations,
            &mut self.frees,
            &mut self.reallocations,
            &mut self.allocated_bytes,
            &mut self.live_blocks,
            &mut self.live_bytes,
            &mut self.live_bytes_at_peak,
            &mut self.live_blocks_at_peak,
            &mut self.short_lived,
        ]
    }

    /// The estimates themselves, as figures of a row.
    pub fn values(&self) -> Figures {
        let mut figures = Figures::default();
        let all = figures.all_mut().into_iter().zip(self.all());
        all.for_each(|(figure, (_, estimate))| *figure = estimate.value);
        figures
    }

    /// The keys and estimates, in the order of the JSON.
    pub fn all(&self) -> impl Iterator<Item = (&'static str, Estimate)> {
        let mut copy = *self;
        let estimates = copy.all_mut().map(|estimate| *estimate);
        let columns = FIGURES.iter().filter(|column| column.adds_up());
        columns.map(|column| column.key).zip(estimates)
    }
}
