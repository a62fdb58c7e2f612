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
//!
//! The events of one cell that come in a row are told to its series together: their sum, and the
//! highest sum on the way, are all that matters to a maximum.

use super::hash::IntMap;

/// The columns that add up, of one cell or one size class.
///
/// Bytes are summed modulo 2^64: a sane trace never comes near, and in any other the rows still
/// add up to the total.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
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

impl Counts {
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

    /// What was counted since it stood at `before`.
    #[cfg(feature = "enable")]
    pub(super) fn since(&self, before: &Self) -> Self {
        Self {
            allocations: self.allocations.wrapping_sub(before.allocations),
            frees: self.frees.wrapping_sub(before.frees),
            reallocations: self.reallocations.wrapping_sub(before.reallocations),
            allocated_bytes: self.allocated_bytes.wrapping_sub(before.allocated_bytes),
            live_blocks: self.live_blocks.wrapping_sub(before.live_blocks),
            live_bytes: self.live_bytes.wrapping_sub(before.live_bytes),
            ..Self::default()
        }
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

/// One context on one thread.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cell {
    pub(super) counts: Counts,
    pub(super) context: u32,
    pub(super) thread: u32,
    /// The series of the thread.
    thread_series: u32,
}

/// One size class.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Size {
    pub(super) counts: Counts,
    pub(super) series: Series,
    /// What left the ledger without a free, and what came back.
    pub(super) left: Moved,
    pub(super) back: Moved,
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

    /// Forgets its maximum so far.
    #[cfg(feature = "enable")]
    pub(super) fn begin_again(&mut self) {
        self.peak = self.live;
    }

    #[inline]
    fn take(&mut self, run: &Run) {
        self.peak = self.peak.max(self.live.wrapping_add_signed(run.highest));
        self.live = self.live.wrapping_add_signed(run.sum);
    }

    #[inline]
    fn subtract(&mut self, bytes: u64) {
        self.live = self.live.wrapping_sub(bytes);
    }
}

/// Changes of one cell's live bytes that its series have not been told of.
#[derive(Clone, Copy, Debug, Default)]
struct Run {
    cell: u32,
    sum: i64,
    /// The largest that the sum has been, from 0 on.
    highest: i64,
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

/// Where a block counts: everything else follows from that.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// Number of its cell.
    pub(super) cell: u32,
    /// Its size class.
    pub(super) class: usize,
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
#[derive(Clone, Debug, Default)]
pub(super) struct Book {
    pub(super) cells: Vec<Cell>,
    pub(super) sizes: [Size; CLASSES],
    pub(super) series: Vec<Series>,
    run: Run,
    pub(super) total: Total,
    /// Where the series of each context stand in `lists`: start and end.
    ranges: Vec<(u32, u32)>,
    /// The series of the scopes, groups and names of each context, one after another.
    lists: Vec<u32>,
    /// What moved, by the cells it left and entered; [`OUTSIDE`] for blocks that left the ledger
    /// without a free (replaced by another block, or declared a heap) or came back.
    pub(super) moves: IntMap<(u32, u32), Moved>,
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

    /// A new cell; its number.
    pub(super) fn new_cell(&mut self, context: u32, thread: u32, thread_series: u32) -> u32 {
        // It held nothing at the last peak and before.
        let counts = Counts { epoch: self.total.epoch, ..Counts::default() };
        self.cells.push(Cell { counts, context, thread, thread_series });
        self.cells.len() as u32 - 1
    }

    /// Says which series blocks of `context` count in from now on. An earlier list of the context
    /// stays behind unused.
    pub(super) fn set_series(&mut self, context: u32, list: &[u32]) {
        let context = context as usize;
        if context >= self.ranges.len() {
            self.ranges.resize(context + 1, (0, 0));
        }
        let start = self.lists.len() as u32;
        self.lists.extend_from_slice(list);
        self.ranges[context] = (start, self.lists.len() as u32);
    }

    /// Changes the counts of the block's cell and size class, not the live figures.
    pub(super) fn count(&mut self, place: Place, change: impl Fn(&mut Counts)) {
        change(&mut self.cells[place.cell as usize].counts);
        change(&mut self.sizes[place.class].counts);
    }

    /// A block of `bytes` becomes live; `change` changes the counts of its cell and size class.
    #[inline]
    pub(super) fn open(
        &mut self,
        place: Place,
        bytes: u64,
        moment: Moment,
        change: impl Fn(&mut Counts),
    ) {
        let epoch = self.total.epoch;
        let cell = &mut self.cells[place.cell as usize];
        cell.counts.add(bytes, epoch);
        change(&mut cell.counts);
        self.tell(place.cell, bytes as i64);
        let size = &mut self.sizes[place.class];
        size.counts.add(bytes, epoch);
        change(&mut size.counts);
        size.series.add(bytes);
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
    pub(super) fn close(&mut self, place: Place, bytes: u64, change: impl Fn(&mut Counts)) {
        let epoch = self.total.epoch;
        let cell = &mut self.cells[place.cell as usize];
        cell.counts.subtract(bytes, epoch);
        change(&mut cell.counts);
        self.tell(place.cell, (bytes as i64).wrapping_neg());
        let size = &mut self.sizes[place.class];
        size.counts.subtract(bytes, epoch);
        change(&mut size.counts);
        size.series.subtract(bytes);
        self.total.live_blocks = self.total.live_blocks.wrapping_sub(1);
        self.total.live_bytes = self.total.live_bytes.wrapping_sub(bytes);
    }

    /// Adds to the live bytes of a cell, as its series see them.
    #[inline]
    fn tell(&mut self, cell: u32, change: i64) {
        if self.run.cell != cell {
            self.end_run();
            self.run.cell = cell;
        }
        self.run.sum = self.run.sum.wrapping_add(change);
        self.run.highest = self.run.highest.max(self.run.sum);
    }

    /// Tells the series what they have not been told.
    #[inline(never)]
    pub(super) fn end_run(&mut self) {
        let run = std::mem::take(&mut self.run);
        let Some(cell) = self.cells.get(run.cell as usize) else { return };
        self.series[cell.thread_series as usize].take(&run);
        let (start, end) = self.ranges[cell.context as usize];
        for &series in &self.lists[start as usize..end as usize] {
            self.series[series as usize].take(&run);
        }
    }

    /// Whether the series have been told everything.
    pub(super) fn is_told(&self) -> bool {
        self.run.sum == 0 && self.run.highest == 0
    }

    /// A live block of `bytes` goes from one cell to another of the same thread.
    pub(super) fn transfer(&mut self, from: u32, to: u32, bytes: u64) {
        self.end_run();
        let epoch = self.total.epoch;
        let cell = &mut self.cells[from as usize];
        cell.counts.subtract(bytes, epoch);
        let (start, end) = self.ranges[cell.context as usize];
        for &series in &self.lists[start as usize..end as usize] {
            self.series[series as usize].subtract(bytes);
        }
        let cell = &mut self.cells[to as usize];
        cell.counts.add(bytes, epoch);
        let (start, end) = self.ranges[cell.context as usize];
        for &series in &self.lists[start as usize..end as usize] {
            self.series[series as usize].add(bytes);
        }
        self.moves.entry((from, to)).or_default().add(1, bytes);
    }

    /// Notes that a block leaves the ledger without a free.
    pub(super) fn left(&mut self, place: Place, bytes: u64) {
        self.moves.entry((place.cell, OUTSIDE)).or_default().add(1, bytes);
        self.sizes[place.class].left.add(1, bytes);
    }

    /// Notes that a block that had left is back.
    pub(super) fn came_back(&mut self, place: Place, bytes: u64) {
        self.moves.entry((OUTSIDE, place.cell)).or_default().add(1, bytes);
        self.sizes[place.class].back.add(1, bytes);
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
