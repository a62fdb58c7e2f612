//! Single blocks of some buckets, and the history of one block.

use super::rules::{Kind, Rule};
use crate::analysis::cutoff::Position;
use crate::analysis::hash::IntMap;
use crate::analysis::observer::{BlockChange, BlockEvent, BlockObserver};
use std::cmp::Reverse;

/// At most this many blocks are followed at once, of 96 bytes.
const MOST_FOLLOWED: usize = 8 << 20;

/// One block that a rule has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SingleBlock {
    /// The block when the rule found it; its event is the one that ended it, or the last before the position.
    pub block: BlockEvent,
    /// The event that made it live: its allocation, or its last reallocation.
    pub begun_by: u64,
    /// Whether it has ended, by event [`block.number`](BlockEvent::number).
    pub has_ended: bool,
    /// For [`Rule::GrownAndDeclined`]: whether it has declined.
    pub has_declined: bool,
}

/// Finds the largest single blocks of some buckets, as an observer of an analyzer without eras.
#[derive(Clone, Debug)]
pub struct BlockFinder {
    rule: Rule,
    /// Times and events, or the end.
    positions: Vec<Position>,
    /// Which buckets are wanted; all if it is empty.
    is_wanted: Vec<bool>,
    most: usize,
    /// How many positions have been passed.
    era: usize,
    last: u64,
    is_over: bool,
    is_full: bool,
    live: IntMap<(u8, u64), Followed>,
    /// By stream: blocks between the halves of their reallocation, and the last that was reallocated.
    open: IntMap<u16, Vec<(u64, Followed)>>,
    reallocated: IntMap<u16, (u64, Followed, u64)>,
    found: Vec<SingleBlock>,
}

#[derive(Clone, Copy, Debug)]
struct Followed {
    block: BlockEvent,
    begun_by: u64,
    era: usize,
}

impl BlockFinder {
    /// Finds the `most` largest blocks of these buckets (of all, if there are none) that `rule` finds at
    /// the positions, which are times, events or the end.
    pub fn new(rule: Rule, positions: &[Position], buckets: &[u32], most: usize) -> Self {
        let mut positions = positions.to_vec();
        positions.truncate(rule.times());
        positions.resize(rule.positions(), Position::End);
        let wanted = buckets.iter().max().map_or(0, |&last| last as usize + 1);
        let mut is_wanted = vec![false; wanted];
        buckets.iter().for_each(|&bucket| is_wanted[bucket as usize] = true);
        Self {
            rule,
            positions,
            is_wanted,
            most,
            era: 0,
            last: 0,
            is_over: false,
            is_full: false,
            live: IntMap::default(),
            open: IntMap::default(),
            reallocated: IntMap::default(),
            found: Vec::new(),
        }
    }

    /// Whether what follows in the trace does not matter.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Whether there were more live blocks than can be followed, so that some are not found.
    pub fn is_full(&self) -> bool {
        self.is_full
    }

    /// The largest blocks, the largest first. All events were read, or [`is_over`](Self::is_over).
    pub fn blocks(&mut self) -> &[SingleBlock] {
        self.finish();
        self.found.sort_unstable_by_key(order);
        self.found.truncate(self.most);
        &self.found
    }

    fn finish(&mut self) {
        if self.is_over {
            return;
        }
        self.is_over = true;
        let live = std::mem::take(&mut self.live);
        let number = self.last;
        for followed in live.into_values() {
            let block = BlockEvent { number, ..followed.block };
            self.keep(Kind::Live, &block, &followed);
        }
    }

    fn is_wanted(&self, bucket: u32) -> bool {
        let is_wanted = self.is_wanted.get(bucket as usize).copied();
        is_wanted.unwrap_or(self.is_wanted.is_empty())
    }

    /// Keeps a block if the rule finds it.
    fn keep(&mut self, kind: Kind, block: &BlockEvent, followed: &Followed) {
        let is_last_era = self.era + 1 == self.positions.len() || kind == Kind::Live;
        let part = self.rule.parts().iter().position(|part| {
            part.kind == kind && part.begun_in.is_none_or(|era| era as usize == followed.era)
        });
        if let Some(part) = part.filter(|_| is_last_era && self.is_wanted(block.bucket)) {
            let Followed { begun_by, .. } = *followed;
            let has_ended = kind == Kind::Freed;
            let has_declined = part > 0;
            self.found.push(SingleBlock { block: *block, begun_by, has_ended, has_declined });
            if self.found.len() >= self.most.saturating_mul(2).max(1024) {
                self.found.sort_unstable_by_key(order);
                self.found.truncate(self.most);
            }
        }
    }

    fn begin(&mut self, event: &BlockEvent, kind: Option<Kind>) {
        let followed = Followed { block: *event, begun_by: event.number, era: self.era };
        if let Some(kind) = kind {
            self.keep(kind, event, &followed);
        }
        if self.live.len() < MOST_FOLLOWED {
            self.live.insert((event.heap, event.address), followed);
        } else {
            self.is_full = true;
        }
    }

    fn end(&mut self, event: &BlockEvent) -> Option<Followed> {
        let followed = self.live.remove(&(event.heap, event.address))?;
        self.keep(Kind::Freed, event, &followed);
        Some(followed)
    }
}

fn order(single: &SingleBlock) -> impl Ord + use<> {
    let BlockEvent { bytes, allocated_at_ns, address, number, .. } = single.block;
    (Reverse(bytes), allocated_at_ns, address, number)
}

impl BlockObserver for BlockFinder {
    fn observe(&mut self, event: &BlockEvent, change: BlockChange) {
        while let Some(position) = self.positions.get(self.era)
            && !self.is_over
            && match *position {
                Position::Time(time) => event.at_ns > time,
                Position::Event(last) => event.number > last,
                Position::Bookmark(_) | Position::End => false,
            }
        {
            match self.era + 1 == self.positions.len() {
                true => self.finish(),
                false => self.era += 1,
            }
        }
        if self.is_over {
            return;
        }
        self.last = event.number;
        match change {
            BlockChange::Allocated => self.begin(event, Some(Kind::Allocated)),
            BlockChange::Returned => self.begin(event, None),
            BlockChange::Freed { .. } | BlockChange::Left => {
                self.end(event);
            }
            BlockChange::ReallocBegun => {
                if let Some(followed) = self.end(event) {
                    self.open.entry(event.stream).or_default().push((event.number, followed));
                }
            }
            BlockChange::Reallocated { begun, .. } => {
                let open = self.open.entry(event.stream).or_default();
                if let Some(at) = open.iter().rposition(|(number, _)| *number == begun) {
                    let (begun, followed) = open.swap_remove(at);
                    self.reallocated.insert(event.stream, (begun, followed, event.number));
                }
                self.begin(event, Some(Kind::Allocated));
            }
            BlockChange::ReallocFailed { is_live } => {
                let Some((begun, before, made)) = self.reallocated.remove(&event.stream) else {
                    return;
                };
                let is_undone = |single: &SingleBlock| match single.has_ended {
                    true => single.block.number == begun,
                    false => single.begun_by == made,
                };
                self.found.retain(|single| !is_undone(single));
                if let Some(live) = self.live.get_mut(&(event.heap, event.address))
                    && is_live
                {
                    (live.era, live.begun_by) = (before.era, before.begun_by);
                }
            }
            BlockChange::Corrected { is_live, .. } => {
                let found = self
                    .found
                    .iter_mut()
                    .rev()
                    .find(|single| !single.has_ended && single.block.address == event.address);
                found.into_iter().for_each(|single| single.block.bytes = event.bytes);
                let live = self.live.get_mut(&(event.heap, event.address)).filter(|_| is_live);
                live.into_iter().for_each(|live| live.block.bytes = event.bytes);
            }
            BlockChange::Moved { .. } => {
                if let Some(live) = self.live.get_mut(&(event.heap, event.address)) {
                    live.block.bucket = event.bucket;
                }
            }
        }
    }

    fn stop(&mut self, _: &mut dyn Iterator<Item = BlockEvent>) {
        self.finish();
    }
}

/// What has happened to one block, from its allocation on: an observer.
#[derive(Clone, Debug)]
pub struct BlockHistory {
    /// An event of the block.
    event: u64,
    /// Of blocks that were reallocated or moved, before the event.
    before: IntMap<(u8, u64), Vec<HistoryEntry>>,
    /// Blocks between the halves of their reallocation.
    open: IntMap<u64, Vec<HistoryEntry>>,
    history: Vec<HistoryEntry>,
    /// Where the block is, or the first half of its reallocation.
    at: Option<(u8, u64)>,
    realloc: Option<u64>,
}

/// One event of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HistoryEntry {
    /// The block after the event. The number of an allocation before a reallocation may be unknown: 0.
    pub block: BlockEvent,
    /// What happened.
    pub change: BlockChange,
}

impl BlockHistory {
    /// The history of the block that event `event` has changed.
    pub fn new(event: u64) -> Self {
        let (before, open) = (IntMap::default(), IntMap::default());
        Self { event, before, open, history: Vec::new(), at: None, realloc: None }
    }

    /// Whether the block has ended, so that what follows does not matter.
    pub fn is_over(&self) -> bool {
        !self.history.is_empty() && self.at.is_none() && self.realloc.is_none()
    }

    /// What has happened to the block; nothing if the event has changed none.
    pub fn entries(&self) -> &[HistoryEntry] {
        &self.history
    }

    /// Follows all blocks that are reallocated or moved.
    fn observe_before(&mut self, event: &BlockEvent, change: BlockChange) {
        let key = (event.heap, event.address);
        let entry = HistoryEntry { block: *event, change };
        let first = |block: BlockEvent| {
            let block = BlockEvent { number: 0, at_ns: event.allocated_at_ns, ..block };
            vec![HistoryEntry { block, change: BlockChange::Allocated }]
        };
        match change {
            BlockChange::ReallocBegun => {
                let mut entries = self.before.remove(&key).unwrap_or_else(|| first(*event));
                entries.push(entry);
                self.open.insert(event.number, entries);
            }
            BlockChange::Reallocated { begun, .. } => {
                let mut entries = self.open.remove(&begun).unwrap_or_default();
                entries.push(entry);
                self.before.insert(key, entries);
            }
            BlockChange::Moved { from } => {
                let entries = self.before.entry(key);
                let entries =
                    entries.or_insert_with(|| first(BlockEvent { bucket: from, ..*event }));
                entries.push(entry);
            }
            BlockChange::Freed { .. } | BlockChange::Left => {
                self.before.remove(&key);
            }
            _ => {
                if let Some(entries) = self.before.get_mut(&key) {
                    entries.push(entry);
                }
            }
        }
    }
}

impl BlockObserver for BlockHistory {
    fn observe(&mut self, event: &BlockEvent, change: BlockChange) {
        if self.is_over() || event.number < self.event {
            if !self.is_over() {
                self.observe_before(event, change);
            }
            return;
        }
        let key = (event.heap, event.address);
        let entry = HistoryEntry { block: *event, change };
        if event.number == self.event && self.history.is_empty() {
            // NOTE: a block that was allocated over ends with the event that allocates another.
            if change == BlockChange::Left {
                self.before.remove(&key);
                return;
            }
            let before = match change {
                BlockChange::Reallocated { begun, .. } => self.open.remove(&begun),
                _ => self.before.remove(&key),
            };
            self.history = before.unwrap_or_default();
            (self.before, self.open) = (IntMap::default(), IntMap::default());
        } else {
            let continues = match change {
                BlockChange::Reallocated { begun, .. } => self.realloc == Some(begun),
                _ => self.at == Some(key),
            };
            if !continues {
                return;
            }
        }
        self.history.push(entry);
        self.at = Some(key);
        self.realloc = None;
        match change {
            BlockChange::Freed { .. } | BlockChange::Left => self.at = None,
            BlockChange::ReallocBegun => (self.at, self.realloc) = (None, Some(event.number)),
            _ => {}
        }
    }
}
