//! Copies the live blocks, for a stream that joins a recording.

use super::apply::Model;
use super::attribution::{Context, Contexts, OUTERMOST};
use super::live_set::Block;
use memledger_format::initial_live_set::{
    InitialBlock, InitialLiveSet, InitialOwner, InitialThread,
};

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
