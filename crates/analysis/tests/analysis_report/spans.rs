//! A model of queries: it keeps every span of every block, and all live blocks after every event.

use crate::ops::Op;
use memledger_analysis::Position;
use std::collections::{BTreeMap, HashMap};

/// What a block counts under, and its size.
#[derive(Clone, Debug, PartialEq)]
pub struct Owner {
    pub context: usize,
    /// The context whose group and name it has.
    pub tag: usize,
    pub thread: u32,
    pub stack: u32,
    pub size: u64,
}

/// A live block: since the event that made it live.
#[derive(Clone, Debug)]
pub struct Block {
    pub begun: u64,
    /// When it was first allocated.
    pub first: u64,
    /// The event that first allocated it; 0 if it was a heap.
    pub id: u64,
    pub owner: Owner,
}

/// An event that has a place in the scopes of its stream.
#[derive(Clone, Copy, Debug)]
pub struct Act {
    pub event: u64,
    pub stream: u16,
    pub thread: u32,
    pub context: usize,
    pub allocates: bool,
}

/// The end of a span.
#[derive(Clone, Debug)]
pub struct End {
    pub event: u64,
    pub at: u64,
    pub by_realloc: bool,
    pub block: Block,
    /// The event after which it is known that the reallocation has failed.
    pub undone: u64,
}

/// An allocation or reallocation.
#[derive(Clone, Debug)]
pub struct Begun {
    pub event: u64,
    pub owner: Owner,
    /// The event after which it is known that it has failed.
    pub undone: u64,
    /// The event after which its size is known better, and that size.
    pub corrected: (u64, u64),
}

/// The first half of a reallocation: its event, and the block as it was.
pub type Pending = Option<(u64, Block)>;

/// What happens between the operations.
#[derive(Clone, Debug)]
pub enum Step {
    Op(Op),
    Mark(usize),
    Unmark(u64),
    Bookmark(u8),
    /// The first step: frees have scopes, too.
    FreeScopes,
}

/// A thread, its scopes, its open reallocations.
pub type Stream = (u32, Vec<usize>, Vec<Pending>);

#[derive(Default)]
pub struct Model {
    pub live: BTreeMap<u64, Block>,
    pub begun: Vec<Begun>,
    pub ended: Vec<End>,
    pub marked: HashMap<u64, Block>,
    pub streams: HashMap<u16, Stream>,
    pub now: u64,
    /// After each event: the time, and the live blocks.
    pub after: Vec<(u64, Vec<Block>)>,
    /// After each event: the blocks between the halves of their reallocation.
    pub between: Vec<Vec<Block>>,
    /// These blocks now, by the event that is the first half.
    pub halves: BTreeMap<u64, Block>,
    /// Frees have scopes, too.
    pub free_scopes: bool,
    pub acts: Vec<Act>,
    /// The bookmarks that were set, with their events.
    pub bookmarks: Vec<(String, u64)>,
    /// Each time of the trace, with its event.
    pub times: Vec<(u64, u64)>,
    pub over: bool,
}

impl Model {
    pub fn end(&mut self, event: u64, address: u64, by_realloc: bool) -> Option<Block> {
        let block = self.live.remove(&address)?;
        if !self.over {
            let (at, block, undone) = (self.now, block.clone(), u64::MAX);
            self.ended.push(End { event, at, by_realloc, block, undone });
        }
        Some(block)
    }

    pub fn begin(&mut self, address: u64, block: Block, counts: bool) {
        self.end(block.begun, address, false);
        if counts && !self.over {
            let (event, owner, undone) = (block.begun, block.owner.clone(), u64::MAX);
            self.begun.push(Begun { event, owner, undone, corrected: (u64::MAX, 0) });
        }
        self.live.insert(address, block);
    }

    pub fn alloc(&mut self, event: u64, stream: u16, address: u64, size: u64, stack: u32) {
        let (thread, scopes, _) = &self.streams[&stream];
        let (thread, context) = (*thread, scopes.last().copied().unwrap_or(0));
        let owner = Owner { context, tag: context, thread, stack, size };
        self.begin(address, Block { begun: event, first: self.now, id: event, owner }, true);
    }

    /// A free, or the first half of a reallocation.
    pub fn free(&mut self, event: u64, address: u64, by_realloc: bool) -> Option<Block> {
        let freed = self.end(event, address, by_realloc);
        if freed.is_none()
            && let Some(marked) = self.marked.remove(&address)
        {
            // A heap is a block again, and freed at once.
            self.begin(address, Block { begun: event, id: 0, ..marked }, false);
            self.end(event, address, false);
        }
        freed
    }

    /// Notes an event that has a place in the scopes of its stream.
    pub fn act(&mut self, event: u64, stream: u16, allocates: bool) {
        let (thread, scopes, _) = &self.streams[&stream];
        let (thread, context) = (*thread, scopes.last().copied().unwrap_or(0));
        if !self.over {
            self.acts.push(Act { event, stream, thread, context, allocates });
        }
    }

    /// The same for a free, or the first half of a reallocation, before it is applied.
    pub fn act_of_free(&mut self, event: u64, stream: u16, address: u64, by_realloc: bool) {
        let is_live = self.live.contains_key(&address);
        let is_known = is_live || self.marked.contains_key(&address);
        if is_live && by_realloc || is_known && self.free_scopes {
            self.act(event, stream, false);
        }
    }

    /// Notes the state after all events up to `event`.
    pub fn note(&mut self, event: u64) {
        let live: Vec<_> = self.live.values().cloned().collect();
        while self.after.len() as u64 <= event && !self.over {
            self.after.push((self.now, live.clone()));
            self.between.push(self.halves.values().cloned().collect());
        }
    }

    /// After how many events a position is.
    pub fn events_before(&self, position: &Position) -> u64 {
        let all = self.after.len() as u64 - 1;
        match position {
            Position::Time(time) => {
                let later = self.times.iter().find(|(_, at)| at > time);
                later.map_or(all, |(event, _)| event - 1)
            }
            Position::Event(event) => all.min(*event),
            Position::Bookmark(name) => {
                let set = self.bookmarks.iter().find(|(set, _)| set == name);
                set.expect("it is set").1
            }
            _ => all,
        }
    }
}
