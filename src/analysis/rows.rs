//! The arithmetic of rows: counts, live figures, peaks, and each row's state at the total's peak.
//!
//! The rows of a report overlap: one block counts in a scope and in all scopes around it, in a
//! group, a name, a thread and a size class. Most columns add up, so they are kept once, per
//! *cell* (one context on one thread) and per size class, and summed into rows when a report is
//! made. Only a row's own maximum does not add up: for it each row keeps a *series*, 16 bytes
//! with its live bytes and their maximum. An event counts in one cell, one size class, and
//! the series of the rows its block is in.
//!
//! What a cell held when the total reached its peak is found without looking at all cells then:
//! every new maximum of the total has a number, the *epoch*. Before a cell changes for the first
//! time after a new maximum, it keeps what it held as its state at that peak.
//!
//! A measurement's peak has epochs of its own: each cell keeps what it *held* at the last one of
//! every measurement around it. Cells outside measurements have none to keep.
//!
//! The events of one cell that come in a row, a *run*, are told to it, its series and the total
//! together: their sums, and the highest sums on the way, are all that matters to a maximum.

use super::hash::IntMap;

/// The columns that only grow, but for corrections.
///
/// Bytes are summed modulo 2^64: a sane trace never comes near, and in any other the rows still
/// add up to the total.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    pub(super) allocations: u64,
    /// Includes reallocations between their two halves.
    pub(super) frees: u64,
    pub(super) reallocations: u64,
    pub(super) allocated_bytes: u64,
    pub(super) short_lived: u64,
}

// NOTE: what a run adds up can be below zero in between, whatever the counts it is told to.
impl Tally {
    #[inline]
    pub(super) fn allocated(&mut self, bytes: u64) {
        self.allocations += 1;
        self.allocated_bytes = self.allocated_bytes.wrapping_add(bytes);
    }

    #[inline]
    pub(super) fn freed(&mut self, short_lived: bool) {
        self.frees = self.frees.wrapping_add(1);
        self.short_lived += u64::from(short_lived);
    }

    /// The first half of it was counted as a free.
    pub(super) fn reallocated(&mut self, bytes: u64) {
        self.frees = self.frees.wrapping_sub(1);
        self.reallocations = self.reallocations.wrapping_add(1);
        self.allocated_bytes = self.allocated_bytes.wrapping_add(bytes);
    }

    /// Moves a free that was counted here to `there`.
    fn not_freed(&mut self, there: &mut Self) {
        self.frees = self.frees.wrapping_sub(1);
        there.frees = there.frees.wrapping_add(1);
    }

    /// A reallocation did not happen after all.
    pub(super) fn not_reallocated(&mut self, bytes: u64) {
        self.reallocations = self.reallocations.wrapping_sub(1);
        self.allocated_bytes = self.allocated_bytes.wrapping_sub(bytes);
    }

    /// An allocation was of so many more bytes, or fewer.
    pub(super) fn corrected(&mut self, old: u64, new: u64) {
        self.allocated_bytes = self.allocated_bytes.wrapping_sub(old).wrapping_add(new);
    }

    fn add(&mut self, other: &Self) {
        let add = |to: &mut u64, by: u64| *to = to.wrapping_add(by);
        add(&mut self.allocations, other.allocations);
        add(&mut self.frees, other.frees);
        add(&mut self.reallocations, other.reallocations);
        add(&mut self.allocated_bytes, other.allocated_bytes);
        add(&mut self.short_lived, other.short_lived);
    }
}

/// The columns that add up, of one cell or one size class.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) tally: Tally,
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

    #[inline(always)]
    fn change(&mut self, blocks: i64, bytes: i64, epoch: u64) {
        self.keep_peak(epoch);
        self.live_blocks = self.live_blocks.wrapping_add_signed(blocks);
        self.live_bytes = self.live_bytes.wrapping_add_signed(bytes);
    }

    /// What was counted since it stood at `before`.
    #[cfg(feature = "enable")]
    pub(super) fn since(&self, before: &Self) -> Self {
        let (now, then) = (&self.tally, &before.tally);
        let tally = Tally {
            allocations: now.allocations.wrapping_sub(then.allocations),
            frees: now.frees.wrapping_sub(then.frees),
            reallocations: now.reallocations.wrapping_sub(then.reallocations),
            allocated_bytes: now.allocated_bytes.wrapping_sub(then.allocated_bytes),
            short_lived: now.short_lived.wrapping_sub(then.short_lived),
        };
        Self {
            tally,
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
    /// The range of its own entries in [`Book::held`]: start and end.
    held: (u32, u32),
}

/// The live bytes of a measurement, and the number of their latest new maximum.
#[derive(Clone, Copy, Debug, Default)]
struct Measured {
    series: Series,
    epoch: u64,
}

/// What a cell held at the peak of one measurement around it.
#[derive(Clone, Copy, Debug)]
struct Held {
    /// Number of the measurement in [`Book::measured`].
    measured: u32,
    epoch: u64,
    bytes: u64,
}

/// One size class.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Size {
    pub(super) counts: Counts,
    /// The most of its live bytes.
    pub(super) peak: u64,
    /// What left the ledger without a free, and what came back.
    pub(super) left: Moved,
    pub(super) back: Moved,
    /// Blocks that a reallocation moved to another class, and blocks that one moved here.
    pub(super) outgrown: Moved,
    pub(super) grown: Moved,
}

/// One row's live bytes and their maximum.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Series {
    live: u64,
    pub(super) peak: u64,
}

impl Series {
    fn add(&mut self, bytes: u64) {
        self.live = self.live.wrapping_add(bytes);
        self.peak = self.peak.max(self.live);
    }

    /// Adds `bytes`, which may be negative; `most` is the highest intermediate sum.
    fn take(&mut self, bytes: i64, most: i64) {
        self.peak = self.peak.max(self.live.wrapping_add_signed(most));
        self.live = self.live.wrapping_add_signed(bytes);
    }

    fn subtract(&mut self, bytes: u64) {
        self.live = self.live.wrapping_sub(bytes);
    }
}

/// What one cell's events in a row have changed, which nobody but the size classes has been told of.
#[derive(Clone, Copy, Debug, Default)]
struct Run {
    cell: u32,
    /// Whether there was an event.
    begun: bool,
    tally: Tally,
    blocks: i64,
    bytes: i64,
    /// The most that both have been, from 0 on.
    most_blocks: i64,
    most_bytes: i64,
    /// With more bytes than this, there is a new maximum of the total.
    room: i64,
    /// Blocks and bytes when the last of these was reached in this run, if one was.
    at_peak: Option<(i64, i64)>,
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
    /// Whether cells keep figures for measurements. Measurements of a trace from elsewhere are not
    /// reported, and hundreds could be around each cell.
    pub(super) measures: bool,
    /// One for each measurement.
    measured: Vec<Measured>,
    /// The figures that cells keep for their measurements, one cell after another.
    held: Vec<Held>,
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

    /// A new measurement; its number.
    pub(super) fn new_measured(&mut self) -> u32 {
        self.measured.push(Measured::default());
        self.measured.len() as u32 - 1
    }

    /// Resets the peak of a measurement.
    #[cfg(feature = "enable")]
    pub(super) fn begin_again(&mut self, measured: u32) {
        let measured = &mut self.measured[measured as usize];
        measured.series.peak = measured.series.live;
        measured.epoch += 1;
    }

    /// The peak bytes of a measurement.
    #[cfg(feature = "enable")]
    pub(super) fn measured_peak(&self, measured: u32) -> u64 {
        self.measured[measured as usize].series.peak
    }

    /// What `cell` held when a measurement around it reached its peak.
    #[cfg(feature = "enable")]
    pub(super) fn held_at_peak(&self, cell: &Cell, measured: u32) -> u64 {
        let (start, end) = cell.held;
        let mut all = self.held[start as usize..end as usize].iter();
        let epoch = self.measured[measured as usize].epoch;
        let kept = all.find(|held| held.measured == measured && held.epoch == epoch);
        kept.map_or(cell.counts.live_bytes, |held| held.bytes)
    }

    /// A new cell within these measurements; its number.
    pub(super) fn new_cell(
        &mut self,
        context: u32,
        thread: u32,
        thread_series: u32,
        measured: impl Iterator<Item = u32>,
    ) -> u32 {
        // It held nothing at the last peak and before.
        let counts = Counts { epoch: self.total.epoch, ..Counts::default() };
        let start = self.held.len() as u32;
        for measured in measured.filter(|_| self.measures) {
            let epoch = self.measured[measured as usize].epoch;
            self.held.push(Held { measured, epoch, bytes: 0 });
        }
        let held = (start, self.held.len() as u32);
        self.cells.push(Cell { counts, context, thread, thread_series, held });
        self.cells.len() as u32 - 1
    }

    /// The thread whose cell this is.
    pub(super) fn thread_of(&self, cell: u32) -> u32 {
        self.cells[cell as usize].thread
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
    pub(super) fn count(&mut self, place: Place, change: impl Fn(&mut Tally)) {
        self.turn_to(place.cell);
        change(&mut self.run.tally);
        change(&mut self.sizes[place.class].counts.tally);
    }

    /// A block of `bytes` becomes live; `change` changes the counts of its cell and size class.
    #[inline]
    pub(super) fn open(
        &mut self,
        place: Place,
        bytes: u64,
        moment: Moment,
        change: impl Fn(&mut Tally),
    ) {
        self.apply(place, 1, bytes as i64, moment, change);
    }

    /// A block of `bytes` stops being live; `change` changes the counts of its cell and class.
    #[inline]
    pub(super) fn close(&mut self, place: Place, bytes: u64, change: impl Fn(&mut Tally)) {
        let moment = Moment { time: 0, event: 0 };
        self.apply(place, -1, (bytes as i64).wrapping_neg(), moment, change);
    }

    /// Blocks and bytes become live, or stop being so where they are negative; `change` changes the
    /// counts of their cell and size class.
    #[inline(always)]
    pub(super) fn apply(
        &mut self,
        place: Place,
        blocks: i64,
        bytes: i64,
        moment: Moment,
        change: impl Fn(&mut Tally),
    ) {
        self.turn_to(place.cell);
        let run = &mut self.run;
        run.blocks += blocks;
        run.most_blocks = run.most_blocks.max(run.blocks);
        run.bytes = run.bytes.wrapping_add(bytes);
        run.most_bytes = run.most_bytes.max(run.bytes);
        change(&mut run.tally);
        let size = &mut self.sizes[place.class % CLASSES];
        size.counts.change(blocks, bytes, self.total.epoch);
        size.peak = size.peak.max(size.counts.live_bytes);
        change(&mut size.counts.tally);
        if run.bytes > run.room {
            run.room = run.bytes;
            run.at_peak = Some((run.blocks, run.bytes));
            self.total.epoch += 1;
            (self.total.peak_at_ns, self.total.peak_at_event) = (moment.time, moment.event);
        }
    }

    /// From here on the run is one of `cell`.
    #[inline(always)]
    fn turn_to(&mut self, cell: u32) {
        if self.run.cell != cell || !self.run.begun {
            self.begin_run(cell);
        }
    }

    #[inline(never)]
    fn begin_run(&mut self, cell: u32) {
        self.end_run();
        let total = &self.total;
        let room = total.peak_bytes.wrapping_sub(total.live_bytes) as i64;
        self.run = Run { cell, begun: true, room, ..Run::default() };
    }

    /// Tells cell, series and total what they have not been told.
    pub(super) fn end_run(&mut self) {
        let run = std::mem::take(&mut self.run);
        let Some(cell) = self.cells.get_mut(run.cell as usize).filter(|_| run.begun) else {
            return;
        };
        let total = &mut self.total;
        let counts = &mut cell.counts;
        let before = counts.live_bytes;
        if let Some((blocks, bytes)) = run.at_peak {
            total.peak_bytes = total.live_bytes.wrapping_add_signed(bytes);
            total.blocks_at_peak = total.live_blocks.wrapping_add_signed(blocks);
            counts.blocks_at_peak = counts.live_blocks.wrapping_add_signed(blocks);
            counts.bytes_at_peak = counts.live_bytes.wrapping_add_signed(bytes);
            counts.epoch = total.epoch;
        }
        counts.change(run.blocks, run.bytes, total.epoch);
        counts.tally.add(&run.tally);
        let most_blocks = total.live_blocks.wrapping_add_signed(run.most_blocks);
        total.peak_blocks = total.peak_blocks.max(most_blocks);
        total.live_blocks = total.live_blocks.wrapping_add_signed(run.blocks);
        total.live_bytes = total.live_bytes.wrapping_add_signed(run.bytes);
        self.series[cell.thread_series as usize].take(run.bytes, run.most_bytes);
        let (start, end) = self.ranges[cell.context as usize];
        for &series in &self.lists[start as usize..end as usize] {
            self.series[series as usize].take(run.bytes, run.most_bytes);
        }
        self.measure(run.cell, before, run.bytes, run.most_bytes);
    }

    /// Adds `bytes`, which may be negative, to the measurements around a cell that held `before`
    /// bytes; `most` is the highest intermediate sum.
    #[inline(always)]
    fn measure(&mut self, cell: u32, before: u64, bytes: i64, most: i64) {
        let (start, end) = self.cells[cell as usize].held;
        for held in &mut self.held[start as usize..end as usize] {
            let measured = &mut self.measured[held.measured as usize];
            let peak = measured.series.peak;
            measured.series.take(bytes, most);
            if measured.series.peak > peak {
                measured.epoch += 1;
                (held.epoch, held.bytes) = (measured.epoch, before.wrapping_add_signed(most));
            } else if held.epoch != measured.epoch {
                (held.epoch, held.bytes) = (measured.epoch, before);
            }
        }
    }

    /// Whether all has been told.
    pub(super) fn is_told(&self) -> bool {
        !self.run.begun
    }

    /// A live block of `bytes` goes from one cell to another of the same thread.
    pub(super) fn transfer(&mut self, from: u32, to: u32, bytes: u64) {
        self.end_run();
        let epoch = self.total.epoch;
        let cell = &mut self.cells[from as usize];
        let before = cell.counts.live_bytes;
        cell.counts.change(-1, (bytes as i64).wrapping_neg(), epoch);
        let (start, end) = self.ranges[cell.context as usize];
        for &series in &self.lists[start as usize..end as usize] {
            self.series[series as usize].subtract(bytes);
        }
        self.measure(from, before, (bytes as i64).wrapping_neg(), 0);
        let cell = &mut self.cells[to as usize];
        let before = cell.counts.live_bytes;
        cell.counts.change(1, bytes as i64, epoch);
        let (start, end) = self.ranges[cell.context as usize];
        for &series in &self.lists[start as usize..end as usize] {
            self.series[series as usize].add(bytes);
        }
        self.measure(to, before, bytes as i64, bytes as i64);
        self.moves.entry((from, to)).or_default().add(1, bytes);
    }

    /// A block between the halves of its reallocation gets a new size. If that is in another class,
    /// the block moves there, and so does the free that its first half was counted as.
    pub(super) fn changed_size(&mut self, old: u64, new: u64) {
        let classes = [class_of(old), class_of(new)];
        if let Ok([from, to]) = self.sizes.get_disjoint_mut(classes) {
            from.outgrown.add(1, old);
            to.grown.add(1, new);
            from.counts.tally.not_freed(&mut to.counts.tally);
        }
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
    let doublings = (bytes.saturating_sub(1) | 15).ilog2() - 3;
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

    /// Measurement 0 contains 1 and 2; one cell for each, and one cell outside.
    #[cfg(feature = "enable")]
    #[test]
    fn what_cells_held_at_the_peak_of_a_measurement_is_what_they_held() {
        const AROUND: [&[u32]; 4] = [&[], &[0], &[1, 0], &[2, 0]];
        let mut book = Book { measures: true, ..Book::default() };
        let thread = book.new_series();
        (0..3).for_each(|number| assert_eq!(book.new_measured(), number));
        book.set_series(0, &[]);
        // The live bytes of each cell, now and at the peak of each measurement.
        let (mut live, mut peaks) = ([0_u64; 4], [(0_u64, [0_u64; 4]); 3]);
        let mut blocks = Vec::new();
        let mut random = 7_u64;
        for event in 0..20_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let (action, cell, bytes) =
                (random >> 33 & 7, random >> 40 & 3, 1 + (random >> 45 & 0x3ff));
            // The last cell is created between the changes.
            let cell = cell.min(if event < 5000 { 2 } else { 3 }) as u32;
            while book.cells.len() as u32 <= cell {
                let around = AROUND[book.cells.len()].iter().copied();
                book.new_cell(0, 0, thread, around);
            }
            let grow = |live: &mut [u64; 4], peaks: &mut [(u64, [u64; 4]); 3], by: u64| {
                live[cell as usize] += by;
                for (number, peak) in (0..).zip(peaks) {
                    let is_in = |cell: &usize| AROUND[*cell].contains(&number);
                    let sum = (0..4).filter(is_in).map(|cell| live[cell]).sum::<u64>();
                    if sum > peak.0 {
                        *peak = (sum, *live);
                    }
                }
            };
            match action {
                0..4 => {
                    let place = Place { cell, class: class_of(bytes) };
                    book.open(place, bytes, Moment { time: 0, event }, |_| {});
                    grow(&mut live, &mut peaks, bytes);
                    blocks.push((cell, bytes));
                }
                4..6 if !blocks.is_empty() => {
                    let (from, bytes) = blocks.swap_remove(random as usize % blocks.len());
                    book.close(Place { cell: from, class: class_of(bytes) }, bytes, |_| {});
                    live[from as usize] -= bytes;
                }
                6 if !blocks.is_empty() => {
                    let index = random as usize % blocks.len();
                    let (from, bytes) = blocks[index];
                    book.transfer(from, cell, bytes);
                    blocks[index].0 = cell;
                    live[from as usize] -= bytes;
                    grow(&mut live, &mut peaks, bytes);
                }
                _ => {}
            }
            if event == 10_000 {
                book.end_run();
                book.begin_again(0);
                peaks[0] = (live[1] + live[2] + live[3], live);
            }
            if event % 97 == 0 {
                book.end_run();
                for (number, (peak, held)) in (0..).zip(peaks) {
                    assert_eq!(book.measured_peak(number), peak, "{number} at {event}");
                    for (index, cell) in book.cells.iter().enumerate() {
                        if AROUND[index].contains(&number) {
                            let found = book.held_at_peak(cell, number);
                            assert_eq!(found, held[index], "{number}, cell {index} at {event}");
                        }
                    }
                }
            }
        }
    }

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
