//! The initial live set: a copy of the live blocks, for a stream that joins a recording.

use super::apply::Model;
use super::attribution::{Context, Contexts, OUTERMOST};
use super::live_set::Block;

/// A live block: 32 bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct InitialBlock {
    /// Its first byte.
    pub address: u64,
    /// In bytes.
    pub size: u64,
    /// Nanoseconds since the start of the trace.
    pub allocated_at: u64,
    /// The index of its owner in [`InitialLiveSet::owners`].
    pub owner: u32,
}

/// Who allocated a block.
#[derive(Clone, Copy, Debug)]
pub struct InitialOwner {
    /// The id of the context that the block was allocated in, if that context has one. For a
    /// renamed block: the id of any context with the same scopes.
    pub tag: Option<i32>,
    /// `None` if the block was not renamed. Otherwise the id of any context with its new name, if
    /// one has an id.
    pub renamed: Option<Option<i32>>,
    /// The index of its thread in [`InitialLiveSet::threads`].
    pub thread: u32,
    /// An id that the stream has for the stack of its blocks; 0 if they have none.
    pub callstack: u32,
    /// The root heap of its blocks.
    pub heap: u8,
}

/// A thread that may have live blocks.
#[derive(Clone, Debug)]
pub struct InitialThread {
    /// Its number in the trace.
    pub id: u32,
    /// Its number in the system.
    pub system_id: u32,
    /// Its name; empty if it has none.
    pub name: String,
}

/// Everything that is live.
#[derive(Clone, Debug, Default)]
pub struct InitialLiveSet {
    /// In no order.
    pub blocks: Vec<InitialBlock>,
    /// Blocks between the two halves of their reallocation, each with the stream of the
    /// reallocation. Their address is 0: the old block no longer exists.
    pub being_reallocated: Vec<(u16, InitialBlock)>,
    /// What mappings have reserved: addresses and sizes.
    pub reserved: Vec<(u64, u64)>,
    /// Of all blocks.
    pub owners: Vec<InitialOwner>,
    /// Of all owners.
    pub threads: Vec<InitialThread>,
    /// How many events after the copy are missing: in the child of a fork, those of threads that did not wait for the fork.
    pub missed: u64,
}

/// The ids that contexts have in the stream. The context of a renamed block need not have an id:
/// the program may never have allocated in the block's scopes with its new tag.
struct Ids<'a> {
    all: &'a Contexts,
    by_context: Vec<Option<i32>>,
    /// By scope and by name: the id of any context with that scope or name.
    by_scope: Vec<Option<i32>>,
    by_name: Vec<Option<i32>>,
}

impl<'a> Ids<'a> {
    fn new(all: &'a Contexts) -> Self {
        let mut ids = Self {
            all,
            by_context: vec![None; all.len()],
            by_scope: vec![None; all.scopes().nodes().len()],
            by_name: vec![None; all.names().len()],
        };
        // The outermost context is the one outside all scopes and tags, whatever its id.
        for (id, context) in all.ids().filter(|(_, context)| *context != OUTERMOST) {
            let Context { scope, name, .. } = all.get(context);
            ids.by_context[context as usize] = Some(id);
            ids.by_scope[scope as usize] = Some(id);
            ids.by_name[name as usize] = Some(id);
        }
        ids
    }

    /// How the snapshot makes a block of this context: the id of the context to allocate it in and,
    /// if the block must then be renamed, the id of the context to rename it to.
    fn of(&self, context: u32) -> (Option<i32>, Option<Option<i32>>) {
        // The ids are those of contexts in the first heap.
        let context = self.all.in_first_heap(context).unwrap_or(context);
        if context == OUTERMOST {
            return (None, None);
        }
        let exact = self.by_context[context as usize];
        let Context { scope, name, .. } = self.all.get(context);
        let outermost = self.all.get(OUTERMOST);
        let renamed =
            exact.is_none().then(|| self.by_name[name as usize].filter(|_| name != outermost.name));
        let allocated =
            exact.or_else(|| self.by_scope[scope as usize].filter(|_| scope != outermost.scope));
        (allocated, renamed)
    }
}

impl Model {
    /// The approximate number of live blocks.
    pub(super) fn live_block_count(&self) -> usize {
        // NOTE: bounded, because a hostile stream can drive the count below zero.
        (self.accounts().total().live_blocks as usize).min(1 << 28)
    }

    /// Copies everything that is live, into `blocks`: 32 bytes a block.
    ///
    /// PERF: with 10 million blocks, each costs 20 to 30 ns if `blocks` has the capacity and its
    /// pages were touched before, otherwise at least twice as much.
    pub(super) fn initial_live_set(&self, mut blocks: Vec<InitialBlock>) -> InitialLiveSet {
        blocks.clear();
        let copy = |address: u64, block: Block| InitialBlock {
            address,
            size: block.size(),
            allocated_at: block.allocated_at,
            owner: block.bucket,
        };
        blocks.extend(self.heaps().iter().map(|(_, address, block)| copy(address, block)));
        let being_reallocated =
            self.streams().all().iter().enumerate().flat_map(|(stream, state)| {
                state.being_reallocated().map(move |block| (stream as u16, copy(0, block)))
            });
        let being_reallocated = being_reallocated.collect();
        let ids = Ids::new(self.contexts());
        let stacks = self.callstacks().ids();
        let owners = self.accounts().buckets().map(|bucket| {
            let (tag, renamed) = ids.of(bucket.context);
            let callstack = stacks[bucket.stack as usize];
            let heap = self.contexts().get(bucket.context).heap;
            InitialOwner { tag, renamed, thread: bucket.thread, callstack, heap }
        });
        let threads = self.threads().all().iter().map(|thread| InitialThread {
            id: thread.id,
            system_id: thread.system_id.unwrap_or(0),
            name: thread.name.clone(),
        });
        InitialLiveSet {
            blocks,
            being_reallocated,
            reserved: self.reserved().collect(),
            owners: owners.collect(),
            threads: threads.collect(),
            missed: 0,
        }
    }
}
