//! The arithmetic of rows: counts, live figures, peaks, and each row's state at the total's peak.
//!
//! The rows of a report overlap: one block counts in a scope and in all scopes around it, in a
//! group, a name, a thread and a size class. Most columns add up, so they are kept once, per
//! *cell* (one context on one thread) and per size class, and summed into rows when a report is
//! made. Only a row's own maximum does not add up: for it each row keeps a *series*, 16 bytes
//! with its live bytes and their maximum. An event touches one cell, one size class, and the
//! series of the rows its block is in.
//!
//! What a cell held when the total reached its peak is found without looking at all cells then:
//! every new maximum of the total has a number, the *epoch*. Before a cell changes for the first
//! time after a new maximum, it keeps what it held as its state at that peak.

use super::hash::IntMap;

/// The columns of one cell that add up.
///
/// Bytes are summed modulo 2^64: a sane trace never comes near, and in any other the rows still
/// add up to the total.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cell {
    pub(super) allocations: u64,
    /// Includes reallocations between their two halves.
    pub(super) frees: u64,
    pub(super) reallocations: u64,
    pub(super) allocated_bytes: u64,
    pub(super) short_lived: u64,
    pub(super) live_blocks: u64,
    pub(super) live_bytes: u64,
    blocks_at_peak: u64,
    bytes_at_peak: u64,
    epoch: u64,
}

impl Cell {
    /// A cell that held nothing at the peak with number `epoch` and before.
    pub(super) fn new(epoch: u64) -> Self {
        Self { epoch, ..Self::default() }
    }

    /// To be called before every change of the live figures.
    #[inline]
    fn keep_peak(&mut self, epoch: u64) {
        if self.epoch != epoch {
            (self.blocks_at_peak, self.bytes_at_peak) = (self.live_blocks, self.live_bytes);
            self.epoch = epoch;
        }
    }

    #[inline]
    fn add(&mut self, bytes: u64, epoch: u64) {
        self.keep_peak(epoch);
        self.live_blocks = self.live_blocks.wrapping_add(1);
        self.live_bytes = self.live_bytes.wrapping_add(bytes);
    }

    #[inline]
    fn subtract(&mut self, bytes: u64, epoch: u64) {
        self.keep_peak(epoch);
        self.live_blocks = self.live_blocks.wrapping_sub(1);
        self.live_bytes = self.live_bytes.wrapping_sub(bytes);
    }

    /// Blocks and bytes at the peak with number `epoch`, the last one.
    pub(super) fn at_peak(&self, epoch: u64) -> (u64, u64) {
        if self.epoch == epoch {
            (self.blocks_at_peak, self.bytes_at_peak)
        } else {
            (self.live_blocks, self.live_bytes)
        }
    }
}

/// One row's live bytes and their maximum.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Series {
    live: u64,
    pub(super) peak: u64,
}

impl Series {
    #[inline]
    fn add(&mut self, bytes: u64) {
        self.live = self.live.wrapping_add(bytes);
        self.peak = self.peak.max(self.live);
    }

    #[inline]
    fn subtract(&mut self, bytes: u64) {
        self.live = self.live.wrapping_sub(bytes);
    }
}

/// All live blocks together.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Total {
    pub(super) live_blocks: u64,
    pub(super) live_bytes: u64,
    pub(super) peak_bytes: u64,
    pub(super) peak_blocks: u64,
    pub(super) blocks_at_peak: u64,
    /// The time of the peak, and its place among all events.
    pub(super) peak_at_ns: u64,
    pub(super) peak_at_event: u64,
    /// How often a new maximum was reached.
    pub(super) epoch: u64,
}

/// The moment of an event.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    pub(super) time: u64,
    pub(super) event: u64,
}

/// The rows a block counts in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'a> {
    /// Number of its cell.
    pub(super) cell: u32,
    /// Its size class.
    pub(super) class: usize,
    /// The series of its thread.
    pub(super) thread: u32,
    /// The series of its scopes, groups and name.
    pub(super) context: &'a [u32],
}

/// Stands for "not in the ledger" in [`Book::moves`].
pub(super) const OUTSIDE: u32 = u32::MAX;

/// Blocks and bytes that went from one cell to another.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Moved {
    pub(super) blocks: u64,
    pub(super) bytes: u64,
}

impl Moved {
    pub(super) fn add(&mut self, blocks: u64, bytes: u64) {
        self.blocks = self.blocks.wrapping_add(blocks);
        self.bytes = self.bytes.wrapping_add(bytes);
    }
}

/// All cells, size classes and series.
#[derive(Debug, Default)]
pub(super) struct Book {
    pub(super) cells: Vec<Cell>,
    pub(super) sizes: [Cell; CLASSES],
    pub(super) size_series: [Series; CLASSES],
    pub(super) series: Vec<Series>,
    pub(super) total: Total,
    /// What moved, by the cells it left and entered; [`OUTSIDE`] for blocks that left the ledger
    /// without a free (replaced by another block, or declared a heap) or came back.
    pub(super) moves: IntMap<(u32, u32), Moved>,
    /// The moves to and from outside by size class: left, came back.
    pub(super) size_moves: [(Moved, Moved); CLASSES],
}

impl Book {
    /// A new series; its number.
    pub(super) fn new_series(&mut self) -> u32 {
        self.series.push(Series::default());
        self.series.len() as u32 - 1
    }

    /// A new series that starts as a copy of another.
    pub(super) fn copy_series(&mut self, of: u32) -> u32 {
        self.series.push(self.series[of as usize]);
        self.series.len() as u32 - 1
    }

    /// Changes the counts of the block's cell and size class, not the live figures.
    pub(super) fn count(&mut self, place: Place<'_>, change: impl Fn(&mut Cell)) {
        change(&mut self.cells[place.cell as usize]);
        change(&mut self.sizes[place.class]);
    }

    /// A block of `bytes` becomes live; `change` changes the counts of its cell and size class.
    #[inline]
    pub(super) fn open(
        &mut self,
        place: Place<'_>,
        bytes: u64,
        moment: Moment,
        change: impl Fn(&mut Cell),
    ) {
        let epoch = self.total.epoch;
        let cell = &mut self.cells[place.cell as usize];
        cell.add(bytes, epoch);
        change(cell);
        let cell = &mut self.sizes[place.class];
        cell.add(bytes, epoch);
        change(cell);
        self.size_series[place.class].add(bytes);
        self.series[place.thread as usize].add(bytes);
        for &series in place.context {
            self.series[series as usize].add(bytes);
        }
        let total = &mut self.total;
        total.live_blocks = total.live_blocks.wrapping_add(1);
        total.live_bytes = total.live_bytes.wrapping_add(bytes);
        total.peak_blocks = total.peak_blocks.max(total.live_blocks);
        if total.live_bytes > total.peak_bytes {
            total.peak_bytes = total.live_bytes;
            total.blocks_at_peak = total.live_blocks;
            (total.peak_at_ns, total.peak_at_event) = (moment.time, moment.event);
            total.epoch += 1;
        }
    }

    /// A block of `bytes` stops being live; `change` changes the counts of its cell and class.
    #[inline]
    pub(super) fn close(&mut self, place: Place<'_>, bytes: u64, change: impl Fn(&mut Cell)) {
        let epoch = self.total.epoch;
        let cell = &mut self.cells[place.cell as usize];
        cell.subtract(bytes, epoch);
        change(cell);
        let cell = &mut self.sizes[place.class];
        cell.subtract(bytes, epoch);
        change(cell);
        self.size_series[place.class].subtract(bytes);
        self.series[place.thread as usize].subtract(bytes);
        for &series in place.context {
            self.series[series as usize].subtract(bytes);
        }
        self.total.live_blocks = self.total.live_blocks.wrapping_sub(1);
        self.total.live_bytes = self.total.live_bytes.wrapping_sub(bytes);
    }

    /// A live block of `bytes` goes to another context. Thread and size class stay.
    pub(super) fn transfer(&mut self, from: Place<'_>, to: Place<'_>, bytes: u64) {
        let epoch = self.total.epoch;
        self.cells[from.cell as usize].subtract(bytes, epoch);
        for &series in from.context {
            self.series[series as usize].subtract(bytes);
        }
        self.cells[to.cell as usize].add(bytes, epoch);
        for &series in to.context {
            self.series[series as usize].add(bytes);
        }
        self.moves.entry((from.cell, to.cell)).or_default().add(1, bytes);
    }

    /// Notes that a block leaves the ledger without a free.
    pub(super) fn left(&mut self, place: Place<'_>, bytes: u64) {
        self.moves.entry((place.cell, OUTSIDE)).or_default().add(1, bytes);
        self.size_moves[place.class].0.add(1, bytes);
    }

    /// Notes that a block that had left is back.
    pub(super) fn came_back(&mut self, place: Place<'_>, bytes: u64) {
        self.moves.entry((OUTSIDE, place.cell)).or_default().add(1, bytes);
        self.size_moves[place.class].1.add(1, bytes);
    }
}

/// How many size classes there are: 0-16, 17-32, 33-64 ... bytes up to 1 GiB, and above.
pub(super) const CLASSES: usize = 28;

/// The size class of a block of `bytes`.
#[inline]
pub(super) fn class_of(bytes: u64) -> usize {
    let doublings = u64::BITS - (bytes.saturating_sub(1) >> 4).leading_zeros();
    (doublings as usize).min(CLASSES - 1)
}

/// The smallest and the largest size in `class`; the last class has no largest.
pub(super) fn class_bounds(class: usize) -> (u64, Option<u64>) {
    let min = if class == 0 { 0 } else { (8 << class) + 1 };
    (min, (class + 1 < CLASSES).then(|| 16 << class))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_lies_within_the_bounds_of_its_class() {
        let edges = (0..40).flat_map(|bit| [(1_u64 << bit) - 1, 1 << bit, (1 << bit) + 1]);
        for bytes in edges.chain([0, u64::MAX]) {
            let (min, max) = class_bounds(class_of(bytes));
            assert!(min <= bytes && max.is_none_or(|max| bytes <= max), "{bytes}");
        }
        assert_eq!(class_bounds(0), (0, Some(16)));
        assert_eq!(class_bounds(1), (17, Some(32)));
        assert_eq!(class_bounds(2), (33, Some(64)));
        assert_eq!(class_bounds(CLASSES - 1), ((1 << 30) + 1, None));
        assert_eq!(class_of((1 << 35) - 1), CLASSES - 1, "where the size field saturates");
    }
}
