//! The life of each block, passed on as it ends: what a question about single blocks is answered from
//! without another pass.

use super::blocks::SingleBlock;
use super::rules::{Kind, Rule};
use crate::analysis::analyzer::Analyzer;
use crate::analysis::hash::IntMap;
use crate::analysis::observer::{BlockChange, BlockEvent, BlockObserver};

/// At most this many blocks are followed at once, of 28 bytes and more.
const MOST_FOLLOWED: usize = 8 << 20;

/// At most this many moves, and reallocations that are open at once, are kept.
const MOST_RARE: usize = 1 << 20;

/// The mark of an event that is no allocation.
const IS_OTHER: u64 = 1 << 63;

/// A block from when it became live until it ended. A reallocation ends one and begins another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BlockLife {
    /// The number of the event that made it live.
    pub begun: u64,
    /// When that was: the last time in the trace before it, in nanoseconds since the start.
    pub begun_at_ns: u64,
    /// What made it live: an allocation, the second half of a reallocation, or a return.
    pub begun_by: BlockChange,
    /// When it was first allocated, before all its reallocations.
    pub allocated_at_ns: u64,
    /// Where it is.
    pub address: u64,
    /// Its size.
    pub bytes: u64,
    /// The bucket that it counted in last.
    pub bucket: u32,
    /// Which event ended it, when, and how; `None` if it is live at the end.
    pub ended: Option<(u64, u64, BlockChange)>,
}

impl BlockLife {
    /// A life that has not ended, of a block that an event has made live.
    pub fn new(event: &BlockEvent, begun_by: BlockChange) -> Self {
        Self {
            begun: event.number,
            begun_at_ns: event.at_ns,
            begun_by,
            allocated_at_ns: event.allocated_at_ns,
            address: event.address,
            bytes: event.bytes,
            bucket: event.bucket,
            ended: None,
        }
    }

    /// The block if a rule finds it at these positions, which are as many events as the rule has positions,
    /// in their order: what a [`BlockFinder`](super::BlockFinder) finds.
    pub fn found_by(
        &self,
        rule: Rule,
        positions: &[u64],
        moves: &BlockMoves,
    ) -> Option<SingleBlock> {
        // An event that is exactly at a position is before it.
        let era = |event: u64| positions.partition_point(|&position| position < event);
        let (begun, last) = (era(self.begun), positions.len().checked_sub(1)?);
        let ended = self.ended.map(|(event, ..)| era(event));
        let is = |kind| match kind {
            Kind::Live => begun <= last && ended.is_none_or(|era| era > last),
            Kind::Freed => ended == Some(last),
            Kind::Allocated => begun == last && self.begun_by != BlockChange::Returned,
            // No rule is about runs by itself.
            Kind::Left => false,
        };
        let part = rule.parts().iter().position(|part| {
            is(part.kind) && part.begun_in.is_none_or(|era| era as usize == begun)
        })?;
        let kind = rule.parts()[part].kind;
        let (number, at_ns) = match self.ended {
            Some((event, at_ns, _)) if kind == Kind::Freed => (event, at_ns),
            _ => (self.begun, self.begun_at_ns),
        };
        let bucket = match kind {
            Kind::Live => moves.bucket_after(self, positions[last]),
            Kind::Freed | Kind::Left => self.bucket,
            Kind::Allocated => moves.bucket_after(self, self.begun),
        };
        let block = BlockEvent {
            number,
            at_ns,
            address: self.address,
            bytes: self.bytes,
            allocated_at_ns: self.allocated_at_ns,
            bucket,
            ..BlockEvent::default()
        };
        let has_ended = kind == Kind::Freed;
        Some(SingleBlock { block, begun_by: self.begun, has_ended, has_declined: part > 0 })
    }
}

/// A block that counted in another bucket from an event on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BlockMove {
    /// The event that made the block live.
    pub begun: u64,
    /// The event that moved it, and when that was.
    pub event: u64,
    /// In nanoseconds since the start.
    pub at_ns: u64,
    /// The bucket before.
    pub from: u32,
    /// The bucket from then on.
    pub to: u32,
}

impl BlockMove {
    /// A move of the block that event `begun` has made live, by event `event`.
    pub fn new(begun: u64, (event, at_ns): (u64, u64), (from, to): (u32, u32)) -> Self {
        Self { begun, event, at_ns, from, to }
    }
}

/// The moves of a trace: few blocks, if any.
#[derive(Clone, Debug, Default)]
pub struct BlockMoves(IntMap<u64, Vec<BlockMove>>);

impl BlockMoves {
    /// These moves, each block's in their order.
    pub fn new(moves: &[BlockMove]) -> Self {
        let mut all = Self::default();
        moves.iter().for_each(|&one| all.0.entry(one.begun).or_default().push(one));
        all
    }

    /// The moves of the block that event `begun` has made live.
    pub fn of(&self, begun: u64) -> &[BlockMove] {
        self.0.get(&begun).map_or(&[], Vec::as_slice)
    }

    /// The events that made the blocks live that were moved, in no particular order.
    pub fn begun(&self) -> impl Iterator<Item = u64> {
        self.0.keys().copied()
    }

    /// The event that made the block live that event `event` has moved.
    pub fn moved_by(&self, event: u64) -> Option<u64> {
        self.0.values().flatten().find(|one| one.event == event).map(|one| one.begun)
    }

    /// The bucket that a block was in after an event.
    fn bucket_after(&self, life: &BlockLife, event: u64) -> u32 {
        let next = self.of(life.begun).iter().find(|one| one.event > event);
        next.map_or(life.bucket, |one| one.from)
    }
}

/// Passes each block on when it has ended, in the order of the events that end them, and at the end those
/// that are live, as an observer of an analyzer. A block takes some 50 bytes while it is live.
///
/// ```
/// use memledger::analysis::{Analyzer, BlockLives};
/// use memledger::trace::read::read;
/// use std::fs::File;
///
/// let mut shortest = u64::MAX;
/// let lives = BlockLives::new(|life| {
///     if let Some((_, at_ns, _)) = life.ended {
///         shortest = shortest.min(at_ns - life.allocated_at_ns);
///     }
/// });
/// let mut analyzer = Analyzer::observing(lives);
/// read(File::open("tests/samples/memledger-small.utrace")?, &mut analyzer)?;
/// analyzer.end_lives();
/// assert!(analyzer.observer().is_whole());
/// drop(analyzer);
/// assert_eq!(shortest, 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct BlockLives<F> {
    pass_on: F,
    /// The events that made the live blocks live, with a mark if they are no allocations.
    live: IntMap<(u8, u64), u64>,
    /// When and by what those with a mark became live.
    others: IntMap<(u8, u64), (u64, BlockChange)>,
    /// First halves of reallocations without their second.
    open: IntMap<u64, ()>,
    moves: Vec<BlockMove>,
    last: u64,
    is_whole: bool,
}

impl<F: FnMut(&BlockLife)> BlockLives<F> {
    /// Calls `pass_on` for each block.
    pub fn new(pass_on: F) -> Self {
        Self {
            pass_on,
            live: IntMap::default(),
            others: IntMap::default(),
            open: IntMap::default(),
            moves: Vec::new(),
            last: 0,
            is_whole: true,
        }
    }

    /// Whether the lives say all. They do not if a reallocation has failed or a size was corrected, which
    /// changes what was passed on before, or if more blocks were live than can be followed.
    pub fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// The last event that has changed a block.
    pub fn last_event(&self) -> u64 {
        self.last
    }

    /// The blocks that moved to another bucket.
    pub fn moves(&self) -> &[BlockMove] {
        &self.moves
    }

    /// The first halves of reallocations whose second half is missing, in no particular order.
    pub fn open_reallocs(&self) -> impl Iterator<Item = u64> {
        self.open.keys().copied()
    }

    /// Nothing more is followed.
    #[cold]
    fn give_up(&mut self) {
        self.is_whole = false;
        (self.live, self.others) = (IntMap::default(), IntMap::default());
        (self.open, self.moves) = (IntMap::default(), Vec::new());
    }

    fn begin(&mut self, event: &BlockEvent, change: BlockChange) {
        if self.live.len() >= MOST_FOLLOWED {
            return self.give_up();
        }
        let mut begun = event.number;
        if change != BlockChange::Allocated {
            begun |= IS_OTHER;
            self.others.insert((event.heap, event.address), (event.at_ns, change));
        }
        self.live.insert((event.heap, event.address), begun);
    }

    /// The life of a block, which its event does not end.
    fn life(&mut self, event: &BlockEvent) -> Option<BlockLife> {
        let place = (event.heap, event.address);
        let begun = self.live.remove(&place)?;
        let first = (event.allocated_at_ns, BlockChange::Allocated);
        let (begun_at_ns, begun_by) = match begun & IS_OTHER {
            0 => first,
            _ => self.others.remove(&place).unwrap_or(first),
        };
        let life = BlockLife::new(event, begun_by);
        Some(BlockLife { begun: begun & !IS_OTHER, begun_at_ns, ..life })
    }

    fn end(&mut self, event: &BlockEvent, change: BlockChange) {
        match self.life(event) {
            Some(life) => {
                let ended = Some((event.number, event.at_ns, change));
                (self.pass_on)(&BlockLife { ended, ..life });
            }
            None => self.give_up(),
        }
    }
}

impl<F: FnMut(&BlockLife)> Analyzer<BlockLives<F>> {
    /// Passes the live blocks on, as at the end of the trace.
    pub fn end_lives(&mut self) {
        self.flush();
        if self.is_counting() {
            self.observe_live();
        }
    }
}

impl<F: FnMut(&BlockLife)> BlockObserver for BlockLives<F> {
    fn observe(&mut self, event: &BlockEvent, change: BlockChange) {
        self.last = event.number;
        if !self.is_whole {
            return;
        }
        match change {
            BlockChange::Allocated | BlockChange::Returned => self.begin(event, change),
            BlockChange::Freed { .. } | BlockChange::Left => self.end(event, change),
            BlockChange::ReallocBegun => {
                self.end(event, change);
                self.open.insert(event.number, ());
                if self.open.len() > MOST_RARE {
                    self.give_up();
                }
            }
            BlockChange::Reallocated { begun, .. } => {
                self.open.remove(&begun);
                self.begin(event, change);
            }
            BlockChange::Moved { from } => {
                let begun = self.live.get(&(event.heap, event.address)).map(|of| of & !IS_OTHER);
                let Some(begun) = begun.filter(|_| self.moves.len() < MOST_RARE) else {
                    return self.give_up();
                };
                let at = (event.number, event.at_ns);
                self.moves.push(BlockMove::new(begun, at, (from, event.bucket)));
            }
            BlockChange::ReallocFailed { .. } | BlockChange::Corrected { .. } => self.give_up(),
        }
    }

    fn stop(&mut self, live: &mut dyn Iterator<Item = BlockEvent>) {
        for event in live {
            if !self.is_whole {
                return;
            }
            match self.life(&event) {
                Some(life) => (self.pass_on)(&life),
                None => self.give_up(),
            }
        }
    }
}
