//! Who sends: threads, and the streams of packets they send on.
//!
//! Stream ids are used again after a thread has ended, thread ids never. Our writer says with
//! `Memledger.ThreadStart` which thread a stream belongs to from there on; in other traces each
//! stream is a thread of its own.

use super::contexts::OUTERMOST;
use super::hash::IntMap;
use super::live::Block;
use super::rows::Book;

/// No cell found yet for this stream's context and thread.
pub(super) const NO_CELL: u32 = u32::MAX;

/// Scopes open at once that are kept apart; deeper ones are only counted.
const DEEPEST: usize = 1 << 16;

/// Reallocations open at once on one stream.
const MOST_PENDING: usize = 16;

/// One thread of the program.
#[derive(Clone, Debug)]
pub(super) struct Thread {
    pub(super) id: u32,
    pub(super) system_id: Option<u32>,
    pub(super) name: String,
    pub(super) series: u32,
    /// How many allocations it has made, modulo 2^32.
    allocations: u32,
    /// Where the block of its last allocation is, or was when it left the live set.
    pub(super) newest: Place,
}

/// Heap and address.
pub(super) type Place = (u8, u64);

impl Thread {
    /// So many blocks of this thread were allocated, the last of them at `newest`.
    #[inline]
    pub(super) fn allocated(&mut self, blocks: u32, newest: Place) {
        self.allocations = self.allocations.wrapping_add(blocks);
        self.newest = newest;
    }

    /// Whether the block at `place`, which is one of this thread, is that of its last allocation.
    #[inline]
    pub(super) fn is_newest(&self, place: Place) -> bool {
        self.newest == place
    }

    /// The block at `place` leaves the live set and may come back.
    pub(super) fn takes_out(&self, place: Place, block: Block) -> Away {
        let older = u32::from(self.newest != place);
        Away { block, stamp: self.allocations.wrapping_sub(older) }
    }

    /// A block comes back, now at `place`.
    pub(super) fn puts_back(&mut self, place: Place, away: &Away) {
        if away.stamp == self.allocations {
            self.newest = place;
        } else if self.newest == place {
            self.newest = NOWHERE;
        }
    }
}

/// Where no block can be.
const NOWHERE: Place = (0, 0);

/// A block outside of the live set.
#[derive(Clone, Copy, Debug)]
pub(super) struct Away {
    pub(super) block: Block,
    /// How many allocations its thread had made when this was the last of them; any other number
    /// if it was not the last when it left.
    stamp: u32,
}

/// What tells threads apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Key {
    /// The id in a `ThreadStart`.
    Id(u32),
    /// The id of a stream that never said which thread it is.
    Stream(u32),
}

/// All threads seen.
#[derive(Clone, Debug, Default)]
pub(super) struct Threads {
    pub(super) all: Vec<Thread>,
    by_key: std::collections::HashMap<Key, u32>,
}

impl Threads {
    pub(super) fn by_id(&mut self, id: u32, book: &mut Book) -> u32 {
        self.get(Key::Id(id), id, book)
    }

    pub(super) fn by_stream(&mut self, stream: u32, book: &mut Book) -> u32 {
        self.get(Key::Stream(stream), stream, book)
    }

    fn get(&mut self, key: Key, id: u32, book: &mut Book) -> u32 {
        let all = &mut self.all;
        *self.by_key.entry(key).or_insert_with(|| {
            let series = book.new_series();
            all.push(Thread {
                id,
                system_id: None,
                name: String::new(),
                series,
                allocations: 0,
                newest: NOWHERE,
            });
            all.len() as u32 - 1
        })
    }

    /// Notes what was said about a thread. An empty name does not replace one.
    pub(super) fn describe(&mut self, thread: u32, system_id: u32, name: &str) {
        let thread = &mut self.all[thread as usize];
        thread.system_id = Some(system_id);
        if !name.is_empty() {
            thread.name = name.to_owned();
        }
    }
}

/// The first half of a reallocation.
#[derive(Clone, Copy, Debug)]
pub(super) enum Pending {
    /// The old block, no longer live.
    Known(Away),
    /// There was no such block.
    Unknown,
}

/// How the last memory event of a stream made a block live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Made {
    Allocated,
    Reallocated,
    /// By the second half of a reallocation whose first half named no live block.
    ReallocatedUnknown,
}

/// The block that the last memory event of a stream made live.
#[derive(Clone, Copy, Debug)]
pub(super) struct Last {
    pub(super) address: u64,
    pub(super) block: Block,
    pub(super) heap: u8,
    pub(super) made: Made,
}

/// One stream of packets, with what is open on it.
#[derive(Clone, Debug)]
pub(super) struct Stream {
    pub(super) thread: u32,
    /// The cell of its thread and context; [`NO_CELL`] until it is asked for.
    pub(super) cell: u32,
    pub(super) context: u32,
    scopes: Vec<u32>,
    too_deep: u64,
    pending: Vec<Pending>,
    pub(super) last: Option<Last>,
}

impl Stream {
    pub(super) fn new(thread: u32) -> Self {
        Self {
            thread,
            cell: NO_CELL,
            context: OUTERMOST,
            scopes: Vec::new(),
            too_deep: 0,
            pending: Vec::new(),
            last: None,
        }
    }

    /// Opens a scope of any kind in which `context` holds.
    pub(super) fn enter(&mut self, context: u32) {
        if self.scopes.len() < DEEPEST {
            self.scopes.push(self.context);
            self.set_context(context);
        } else {
            self.too_deep += 1;
        }
    }

    /// Closes the innermost scope, if any is open.
    pub(super) fn leave(&mut self) {
        if self.too_deep > 0 {
            self.too_deep -= 1;
        } else if let Some(outer) = self.scopes.pop() {
            self.set_context(outer);
        }
    }

    fn set_context(&mut self, context: u32) {
        if self.context != context {
            (self.context, self.cell) = (context, NO_CELL);
        }
    }

    /// Notes the first half of a reallocation.
    pub(super) fn begin_realloc(&mut self, pending: Pending) {
        if self.pending.len() == MOST_PENDING {
            self.pending.remove(0);
        }
        self.pending.push(pending);
    }

    /// The blocks whose reallocation has begun and not ended.
    #[cfg(feature = "enable")]
    pub(super) fn halfway(&self) -> impl Iterator<Item = Block> {
        self.pending.iter().filter_map(|pending| match pending {
            Pending::Known(away) => Some(away.block),
            Pending::Unknown => None,
        })
    }

    /// The first half of the reallocation that ends now.
    pub(super) fn end_realloc(&mut self) -> Option<Pending> {
        self.pending.pop()
    }
}

/// The cells, by context and thread.
pub(super) type Cells = IntMap<(u32, u32), u32>;
