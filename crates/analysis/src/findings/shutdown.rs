//! What a program frees when it ends: that says nothing of how long a block is needed, nor of who needs it.

use crate::observer::BlockEvent;

/// Frees end a program if what is allocated beside them is less than this share of them: a line of a log for
/// what is closed.
const ALLOCATED_SHARE: u64 = 16;
/// What may be allocated when they begin, and the most that may be allocated between two of them.
const FIRST_CREDIT: u64 = 4 << 10;
const MAX_CREDIT: u64 = 64 << 10;
/// Fewer bytes than that are no end.
const MIN_BYTES: u64 = 64 << 10;
/// The end of a program takes at most this share of its run: a queue that is emptied takes longer.
const LAST_SHARE: u64 = 5;
/// If it takes no longer than this, it may take this share.
const SHORT_NS: u64 = 1_000_000_000;
const SHORT_SHARE: u64 = 2;
/// As long as this may pass from the last free to the end, whatever share that is: a busy machine lets a
/// program wait.
const WAIT_NS: u64 = 250_000_000;

/// Frees after a pause that is longer than this, and than this share of the run so far, are others.
const PAUSE_NS: u64 = 500_000_000;
const PAUSE_SHARE: u64 = 16;
/// The program runs on if this many frees in a row are of blocks that were allocated after the first of these
/// frees.
const RUNS: u32 = 16;

/// The last frees so far, with hardly an allocation between them.
#[derive(Clone, Copy, Debug)]
pub(super) struct LastFrees {
    /// Counts them: the frees of an earlier number were not the last ones.
    number: u32,
    freed_bytes: u64,
    /// How many bytes may be allocated before these frees are not the last ones.
    credit: u64,
    /// The last ones in a row that were of blocks younger than the first of these frees.
    young: u32,
    began_ns: u64,
    last_ns: u64,
}

impl Default for LastFrees {
    fn default() -> Self {
        Self { number: 0, freed_bytes: 0, credit: FIRST_CREDIT, young: 0, began_ns: 0, last_ns: 0 }
    }
}

/// The frees that ended the program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Shutdown {
    number: u32,
    /// What they freed.
    pub(super) bytes: u64,
}

impl Shutdown {
    /// Whether the frees of this number are these.
    pub(super) fn is_of(&self, number: u32) -> bool {
        self.number == number
    }
}

impl LastFrees {
    #[inline(always)]
    pub(super) fn allocated(&mut self, bytes: u64) {
        match self.credit.checked_sub(bytes) {
            Some(credit) => self.credit = credit,
            None => self.reset(),
        }
    }

    /// These frees were not the last ones.
    fn reset(&mut self) {
        *self = Self { number: self.number.wrapping_add(1), ..Self::default() };
    }

    /// A block that was allocated at this time is freed. These frees were not the last ones if there was a
    /// pause before it, or if many such blocks are younger than they are: of an idle loop, say, which
    /// allocates little.
    #[inline(always)]
    pub(super) fn frees(&mut self, allocated_at_ns: u64, at_ns: u64) {
        if self.freed_bytes == 0 {
            return;
        }
        self.young = if allocated_at_ns > self.began_ns { self.young + 1 } else { 0 };
        let pause = at_ns.saturating_sub(self.last_ns);
        if self.young == RUNS || pause > PAUSE_NS.max(at_ns / PAUSE_SHARE) {
            self.reset();
        }
    }

    /// A block was freed; returns which frees this one is of.
    #[inline(always)]
    pub(super) fn freed(&mut self, bytes: u64, at_ns: u64) -> u32 {
        if self.freed_bytes == 0 {
            self.began_ns = at_ns;
        }
        self.last_ns = at_ns;
        self.freed_bytes = self.freed_bytes.saturating_add(bytes);
        self.credit = (self.credit + bytes / ALLOCATED_SHARE).min(MAX_CREDIT);
        self.number
    }

    /// Whether these frees ended a program that ran until `end_ns`.
    pub(super) fn shutdown(&self, end_ns: u64) -> Option<Shutdown> {
        let to_end = |at_ns: u64| end_ns.saturating_sub(at_ns);
        let is_short = to_end(self.began_ns) <= SHORT_NS;
        let share = if is_short { SHORT_SHARE } else { LAST_SHARE };
        let is_last = to_end(self.began_ns) <= end_ns / share
            && to_end(self.last_ns) <= WAIT_NS.max(end_ns / LAST_SHARE);
        let is_end = self.freed_bytes >= MIN_BYTES && is_last;
        is_end.then_some(Shutdown { number: self.number, bytes: self.freed_bytes })
    }
}

/// A number of freed blocks, and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Freed {
    pub(super) blocks: u64,
    pub(super) bytes: u64,
}

impl Freed {
    pub(super) fn add(&mut self, other: &Self) {
        self.blocks = self.blocks.wrapping_add(other.blocks);
        self.bytes = self.bytes.wrapping_add(other.bytes);
    }

    fn less(&self, other: &Self) -> Self {
        Self {
            blocks: self.blocks.wrapping_sub(other.blocks),
            bytes: self.bytes.wrapping_sub(other.bytes),
        }
    }
}

/// Freed blocks, and how many of them the last frees have freed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FreedBlocks {
    pub(super) all: Freed,
    last: Freed,
    /// Which frees were the last ones when `last` was counted.
    number: u32,
}

impl FreedBlocks {
    /// A block was freed by these frees.
    #[inline(always)]
    pub(super) fn count(&mut self, bytes: u64, number: u32) {
        if self.number != number {
            (self.last, self.number) = (Freed::default(), number);
        }
        let freed = Freed { blocks: 1, bytes };
        self.all.add(&freed);
        self.last.add(&freed);
    }

    /// Adds blocks that were freed later.
    pub(super) fn add(&mut self, later: &Self) {
        if self.number != later.number {
            (self.last, self.number) = (Freed::default(), later.number);
        }
        self.all.add(&later.all);
        self.last.add(&later.last);
    }

    /// What the end of the program has freed of them.
    pub(super) fn at_shutdown(&self, shutdown: Option<Shutdown>) -> Freed {
        let is_last = shutdown.is_some_and(|shutdown| shutdown.number == self.number);
        if is_last { self.last } else { Freed::default() }
    }

    /// What was freed while the program ran.
    pub(super) fn before(&self, shutdown: Option<Shutdown>) -> Freed {
        self.all.less(&self.at_shutdown(shutdown))
    }
}

/// A block, and where it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Located {
    pub(super) address: u64,
    pub(super) bytes: u64,
    pub(super) allocated_at_ns: u64,
    pub(super) lived_ns: u64,
    pub(super) bucket: u32,
    pub(super) heap: u8,
}

/// The blocks of the last frees: what a program has until it frees all when it ends.
#[derive(Clone, Debug, Default)]
pub(super) struct LastFreed {
    /// Which frees: see [`LastFrees`].
    pub(super) number: u32,
    pub(super) began_ns: u64,
    /// The event of the first one.
    pub(super) began: u64,
    pub(super) blocks: Vec<Located>,
}

impl LastFreed {
    /// The frees of this number have freed a block.
    #[inline(always)]
    pub(super) fn add(&mut self, event: &BlockEvent, number: u32) {
        if self.number != number || self.blocks.is_empty() {
            (self.number, self.began_ns, self.began) = (number, event.at_ns, event.number);
            self.blocks.clear();
        }
        let BlockEvent { address, bytes, allocated_at_ns, bucket, heap, .. } = *event;
        let lived_ns = event.at_ns.saturating_sub(allocated_at_ns);
        self.blocks.push(Located { address, bytes, allocated_at_ns, lived_ns, bucket, heap });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_frees_are_those_with_hardly_an_allocation_between_them() {
        let ms = |ms: u64| ms * 1_000_000;
        let mut last = LastFrees::default();
        let mut blocks = FreedBlocks::default();
        for at in 0..1_000 {
            last.allocated(1_000);
            blocks.count(1_000, last.freed(1_000, ms(at)));
        }
        assert_eq!(last.shutdown(ms(1_000)), None);
        (0..100).for_each(|_| last.allocated(1_000));
        for at in 1_000..1_100 {
            blocks.count(1_000, last.freed(1_000, ms(at)));
            // What an end allocates is little.
            last.allocated(60);
        }
        let shutdown = last.shutdown(ms(1_100));
        assert_eq!(shutdown.map(|shutdown| shutdown.bytes), Some(100_000));
        assert_eq!(blocks.at_shutdown(shutdown), Freed { blocks: 100, bytes: 100_000 });
        assert_eq!(blocks.before(shutdown), Freed { blocks: 1_000, bytes: 1_000_000 });
        // They are no end if more than a fifth of the run follows and a quarter of a second, or if the
        // program allocates again.
        assert!(last.shutdown(ms(1_349)).is_some());
        assert_eq!(last.shutdown(ms(1_500)), None);
        assert!(LastFrees { last_ns: ms(1_490), ..last }.shutdown(ms(1_500)).is_some());
        (0..1_000).for_each(|_| last.allocated(60));
        assert_eq!(last.shutdown(ms(1_100)), None);
        // A short program may take half of its time, and wait for the rest of it.
        let short = LastFrees { freed_bytes: 100_000, began_ns: ms(60), last_ns: ms(65), ..last };
        assert!(short.shutdown(ms(100)).is_some());
        assert!(short.shutdown(ms(125)).is_none());
        // Nor are they if younger blocks are freed after them, or if the program pauses.
        let before = LastFrees { began_ns: 1_000, last_ns: 1_000, freed_bytes: 100_000, ..last };
        let mut idle = before;
        for number in 0..RUNS + 4 {
            assert_eq!(idle.number, last.number);
            idle.frees(if number == 3 { 900 } else { 1_001 }, 1_002);
        }
        assert_eq!((idle.number, idle.freed_bytes), (last.number + 1, 0));
        let frees_after = |pause: u64| {
            let mut idle = before;
            idle.frees(900, 1_000 + pause);
            idle.number - last.number
        };
        assert_eq!([PAUSE_NS, PAUSE_NS + 1].map(frees_after), [0, 1]);
        let mut sum = FreedBlocks::default();
        sum.count(5, 0);
        sum.add(&blocks);
        assert_eq!((sum.all.blocks, sum.at_shutdown(shutdown).blocks), (1_101, 100));
    }
}
