//! The life of each block, passed on when it has ended: what every question about blocks is answered from.
//!
//! What is learnt later than an event may change what it was: a reallocation fails, a size is known more
//! exactly. So a life says from which event on it is as it is ([`BlockLife::since`]), and up to which it
//! counts as an allocation and as a free. A block that changes without an end has one life until then and one
//! from there on, with the same beginning:
//!
//! ```text
//!                          first half   second half   it has failed
//! events of a stream   ─────────r─────────────n─────────────f────────────────▶
//! old block            ═════════╡ a free, but not in questions from f on
//! new block                                   ╞═════════════╡ an allocation, but not in questions from f on
//! block that stays                                          ╞════════════════▶ begun as the old block
//! ```
//! A reallocation is held for that until its stream's next event.

use super::rules::{Rule, Span};
use crate::analyzer::Analyzer;
use crate::hash::IntMap;
use crate::observer::{BlockChange, BlockEvent, BlockObserver};
use std::cmp::Reverse;

/// At most this many reallocations are open at once on one stream, as in the analyzer.
const MAX_OPEN: usize = 16;

/// The mark of a block that did not begin with an allocation, or has changed since.
const IS_OTHER: u64 = 1 << 63;

/// A block, from the event that made it what it is until the one that ended or changed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BlockLife {
    /// The number of the event that made it live.
    pub begun: u64,
    /// When that was: the last time in the trace before it, in nanoseconds since the start.
    pub begun_at_ns: u64,
    /// What made it live: an allocation, the second half of a reallocation, or a return.
    pub begun_by: BlockChange,
    /// The event since which it is like this: the one that made it live, or a later one that moved it,
    /// corrected its size, or said that its reallocation has failed.
    pub since: u64,
    /// When it was first allocated, before all its reallocations.
    pub allocated_at_ns: u64,
    /// The number of the event that did that.
    pub first: u64,
    /// Where it is.
    pub address: u64,
    /// Its size.
    pub bytes: u64,
    /// The bucket that it counts in.
    pub bucket: u32,
    /// Which event ended it, when, and how; `None` if it is live at the end. After
    /// [`BlockChange::Moved`], `Corrected` and `ReallocFailed`, another life of the block follows.
    pub ended: Option<(u64, u64, BlockChange)>,
    /// The event since which the same block is another life: of a reallocation, its second half.
    pub next: Option<u64>,
    /// It counts as an allocation in questions whose last position is before this event:
    /// [`BlockLife::ALWAYS`], or 0 if it is none.
    pub allocation_until: u64,
    /// The same for its end, which is then a free.
    pub free_until: u64,
}

impl BlockLife {
    /// The number of no event.
    pub const ALWAYS: u64 = u64::MAX;

    /// A life that has not ended, of a block that an event has made live.
    pub fn new(event: &BlockEvent, begun_by: BlockChange) -> Self {
        let is_allocation = begun_by != BlockChange::Returned;
        Self {
            begun: event.number,
            begun_at_ns: event.at_ns,
            begun_by,
            since: event.number,
            allocated_at_ns: event.allocated_at_ns,
            first: event.number,
            address: event.address,
            bytes: event.bytes,
            bucket: event.bucket,
            ended: None,
            next: None,
            allocation_until: if is_allocation { Self::ALWAYS } else { 0 },
            free_until: Self::ALWAYS,
        }
    }

    /// What rules compare with positions, by the numbers of events.
    pub(super) fn span(&self) -> Span<u64> {
        Span {
            begun: self.begun,
            since: self.since,
            ended: self.ended.map_or(u64::MAX, |(event, ..)| event),
            allocation_until: self.allocation_until,
            free_until: self.free_until,
        }
    }

    /// The block if a rule finds it at these positions, which are as many events as the rule has positions,
    /// in their order.
    pub fn found_by(&self, rule: Rule, positions: &[u64]) -> Option<SingleBlock> {
        let mut at = [u64::MAX; 4];
        let at = at.get_mut(..positions.len())?;
        // An event that is exactly at a position is before it.
        at.iter_mut().zip(positions).for_each(|(at, position)| *at = position.saturating_add(1));
        let part = self.span().found_by(rule.parts(), at)?;
        let has_ended = rule.parts()[part].is_freed();
        Some(SingleBlock { life: *self, has_ended, has_declined: part > 0 })
    }
}

/// One block that a rule has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SingleBlock {
    /// Its life.
    pub life: BlockLife,
    /// Whether the rule has found it because it was freed.
    pub has_ended: bool,
    /// For [`Rule::GrownAndDeclined`]: whether it has declined.
    pub has_declined: bool,
}

impl SingleBlock {
    /// Which event ended it and when, if that is why the rule has found it.
    pub fn freed(&self) -> Option<(u64, u64)> {
        let (event, at_ns, _) = self.life.ended.filter(|_| self.has_ended)?;
        Some((event, at_ns))
    }
}

/// The largest blocks of those that were found, the largest first; of the same size, the oldest first.
#[derive(Clone, Debug)]
pub struct LargestBlocks {
    most: usize,
    blocks: Vec<SingleBlock>,
}

impl LargestBlocks {
    /// None yet, and at most `most`.
    pub fn new(most: usize) -> Self {
        Self { most, blocks: Vec::new() }
    }

    /// Adds a block, which is kept if it is one of the largest.
    pub fn add(&mut self, single: SingleBlock) {
        self.blocks.push(single);
        // The list is cut back at twice the length, so that this is rare.
        if self.blocks.len() >= self.most.saturating_mul(2).max(64) {
            self.blocks();
        }
    }

    /// The largest so far.
    pub fn blocks(&mut self) -> &[SingleBlock] {
        self.blocks.sort_unstable_by_key(|single| {
            let BlockLife { bytes, allocated_at_ns, address, .. } = single.life;
            (Reverse(bytes), allocated_at_ns, address, single.freed())
        });
        self.blocks.truncate(self.most);
        &self.blocks
    }
}

/// How a block has become what it is, where that does not follow from its first allocation.
#[derive(Clone, Copy, Debug)]
struct Start {
    begun_at_ns: u64,
    begun_by: BlockChange,
    since: u64,
    first: u64,
    allocation_until: u64,
}

/// The reallocations of one stream that later events may say more of.
#[derive(Clone, Debug, Default)]
struct Reallocs {
    /// The blocks that first halves have ended.
    open: Vec<BlockLife>,
    /// The block that the last reallocation has ended, until it is known that this has not failed.
    last: Option<BlockLife>,
}

/// The live blocks, and when they began.
#[derive(Clone, Debug, Default)]
pub(super) struct Lives {
    /// The events that made the live blocks live, with a mark if there is more to say.
    live: IntMap<(u8, u64), u64>,
    /// Of those with a mark.
    others: IntMap<(u8, u64), Start>,
    /// By stream.
    reallocs: Vec<Reallocs>,
}

impl Lives {
    fn reallocs(&mut self, stream: u16) -> &mut Reallocs {
        let index = usize::from(stream);
        if index >= self.reallocs.len() {
            self.reallocs.resize_with(index + 1, Reallocs::default);
        }
        &mut self.reallocs[index]
    }

    /// The life so far of the block that an event is about.
    fn life(&self, event: &BlockEvent) -> Option<BlockLife> {
        let place = (event.heap, event.address);
        let marked = *self.live.get(&place)?;
        let has_more = marked & IS_OTHER != 0;
        Some(life(event, marked, has_more.then(|| self.others.get(&place).copied()).flatten()))
    }

    fn begin(&mut self, event: &BlockEvent, change: BlockChange, first: u64) {
        let place = (event.heap, event.address);
        if change == BlockChange::Allocated {
            self.live.insert(place, event.number);
        } else {
            self.go_on(event, &BlockLife { first, ..BlockLife::new(event, change) });
        }
    }

    fn go_on(&mut self, event: &BlockEvent, life: &BlockLife) {
        let BlockLife { begun, begun_at_ns, begun_by, since, first, allocation_until, .. } = *life;
        let place = (event.heap, event.address);
        self.live.insert(place, begun | IS_OTHER);
        self.others.insert(place, Start { begun_at_ns, begun_by, since, first, allocation_until });
    }

    #[inline]
    fn end(&mut self, event: &BlockEvent, change: BlockChange) -> Option<BlockLife> {
        let place = (event.heap, event.address);
        let marked = self.live.remove(&place)?;
        let has_more = marked & IS_OTHER != 0;
        let life = life(event, marked, has_more.then(|| self.others.remove(&place)).flatten());
        Some(BlockLife { ended: Some((event.number, event.at_ns, change)), ..life })
    }

    /// It is known that the last reallocation of a stream has not failed.
    #[inline]
    fn settle(&mut self, stream: u16, pass_on: &mut impl FnMut(&BlockLife)) {
        let reallocs = self.reallocs.get_mut(usize::from(stream));
        if let Some(before) = reallocs.and_then(|reallocs| reallocs.last.take()) {
            pass_on(&before);
        }
    }

    /// Passes on the lives that this ends.
    #[inline]
    pub(super) fn observe(
        &mut self,
        event: &BlockEvent,
        change: BlockChange,
        pass_on: &mut impl FnMut(&BlockLife),
    ) {
        match change {
            BlockChange::Allocated | BlockChange::Returned => {
                self.settle(event.stream, pass_on);
                self.begin(event, change, event.number);
            }
            BlockChange::Freed { .. } | BlockChange::Left => {
                self.settle(event.stream, pass_on);
                self.end(event, change).iter().for_each(pass_on);
            }
            BlockChange::ReallocBegun => {
                self.settle(event.stream, pass_on);
                let ended = self.end(event, change);
                let open = &mut self.reallocs(event.stream).open;
                if open.len() == MAX_OPEN {
                    pass_on(&open.remove(0));
                }
                open.extend(ended);
            }
            BlockChange::Reallocated { begun, .. } => {
                self.settle(event.stream, pass_on);
                let reallocs = self.reallocs(event.stream);
                let is_it = |life: &BlockLife| life.ended.is_some_and(|(event, ..)| event == begun);
                let mut first = event.number;
                if let Some(at) = reallocs.open.iter().rposition(is_it) {
                    let before = reallocs.open.remove(at);
                    first = before.first;
                    reallocs.last = Some(BlockLife { next: Some(event.number), ..before });
                }
                self.begin(event, change, first);
            }
            change => self.observe_rare(event, change, pass_on),
        }
    }

    /// The event changes a block and does not end it.
    #[cold]
    fn observe_rare(
        &mut self,
        event: &BlockEvent,
        change: BlockChange,
        pass_on: &mut impl FnMut(&BlockLife),
    ) {
        let number = event.number;
        let ended = Some((number, event.at_ns, change));
        let life = self.life(event);
        let life = life.map(|life| BlockLife { ended, next: Some(number), free_until: 0, ..life });
        match (change, life) {
            (BlockChange::Moved { from }, Some(life)) => {
                pass_on(&BlockLife { bucket: from, ..life });
                // It was allocated in the bucket before.
                self.go_on(event, &BlockLife { since: number, allocation_until: 0, ..life });
            }
            (BlockChange::Corrected { bytes_before, is_live: true }, Some(life)) => {
                let allocation_until = life.allocation_until.min(number);
                pass_on(&BlockLife { bytes: bytes_before, allocation_until, ..life });
                self.go_on(event, &BlockLife { since: number, ..life });
            }
            (BlockChange::ReallocFailed { is_live }, life) => {
                let before = self.reallocs(event.stream).last.take();
                let Some(before) = before else { return };
                pass_on(&BlockLife { free_until: number, ..before });
                if let Some(life) = life.filter(|_| is_live) {
                    pass_on(&BlockLife { allocation_until: number, ..life });
                    self.go_on(event, &BlockLife { since: number, allocation_until: 0, ..before });
                }
            }
            // NOTE: a block of more than 32 GiB that has ended before its size was known keeps the size that
            // it ended with.
            _ => {}
        }
    }

    /// All that is not passed on yet, as it is if the end is here: reallocations of which more could be said,
    /// and then the live blocks, each with the time of the end.
    pub(super) fn stop(
        &self,
        live: &mut dyn Iterator<Item = BlockEvent>,
        mut pass_on: impl FnMut(&BlockLife, u64),
    ) {
        for of_stream in &self.reallocs {
            for life in of_stream.open.iter().chain(&of_stream.last) {
                let at_ns = life.ended.map_or(0, |(_, at_ns, _)| at_ns);
                pass_on(life, at_ns);
            }
        }
        for event in live {
            self.life(&event).iter().for_each(|life| pass_on(life, event.at_ns));
        }
    }
}

/// A life from what is kept of its block.
#[inline]
fn life(event: &BlockEvent, marked: u64, start: Option<Start>) -> BlockLife {
    let begun = marked & !IS_OTHER;
    let life = BlockLife::new(event, BlockChange::Allocated);
    let begun_at_ns = event.allocated_at_ns;
    let life = BlockLife { begun, begun_at_ns, since: begun, first: begun, ..life };
    start.map_or(life, |start| {
        let Start { begun_at_ns, begun_by, since, first, allocation_until } = start;
        BlockLife { begun_at_ns, begun_by, since, first, allocation_until, ..life }
    })
}

/// Passes each block on when it has ended, and at the end those that are live, as an observer of an analyzer.
/// A block takes some 50 bytes while it is live.
///
/// ```
/// use memledger_analysis::{Analyzer, BlockLives};
/// use memledger_analysis::read::read;
/// use std::fs::File;
///
/// let mut shortest = u64::MAX;
/// let lives = BlockLives::new(|life| {
///     if let Some((_, at_ns, _)) = life.ended {
///         shortest = shortest.min(at_ns - life.allocated_at_ns);
///     }
/// });
/// let mut analyzer = Analyzer::observing(lives);
/// read(File::open("../../tests/samples/memledger-small.utrace")?, &mut analyzer)?;
/// analyzer.end_lives();
/// drop(analyzer);
/// assert_eq!(shortest, 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct BlockLives<F> {
    pass_on: F,
    lives: Lives,
    last: u64,
}

impl<F: FnMut(&BlockLife)> BlockLives<F> {
    /// Calls `pass_on` for each block.
    pub fn new(pass_on: F) -> Self {
        Self { pass_on, lives: Lives::default(), last: 0 }
    }

    /// The last event that has changed a block.
    pub fn last_event(&self) -> u64 {
        self.last
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
        self.lives.observe(event, change, &mut self.pass_on);
    }

    fn stop(&mut self, live: &mut dyn Iterator<Item = BlockEvent>) {
        let Self { pass_on, lives, .. } = self;
        lives.stop(live, |life, _| pass_on(life));
    }
}
