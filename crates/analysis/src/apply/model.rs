//! The objects that events change: streams, threads, contexts, accounts and live blocks.

mod batch;
mod blocks;
mod corrections;
mod mappings;

use crate::accounts::{Accounts, EventTime};
use crate::attribution::{
    Contexts, DetachedBlock, HeapAddress, IdKind, OUTERMOST, Stream, Streams, TagSpec, Threads,
};
use crate::callstacks::Callstacks;
use crate::cutoff::Cutoff;
use crate::diagnostics::Diagnostics;
use crate::hash::IntMap;
use crate::live_set::{Block, HEAPS, Heaps, Mappings};
use crate::observer::{Actor, BlockChange, BlockEvent, BlockObserver};
use crate::timeline::ThreadPoint;

pub(crate) use mappings::MappedRange;

/// Who allocates, what is live, and the figures of both.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    streams: Streams,
    threads: Threads,
    contexts: Contexts,
    callstacks: Callstacks,
    accounts: Accounts,
    heaps: Heaps,
    mappings: Mappings,
    /// Blocks that `HeapMarkAlloc` took out of the accounts.
    heap_blocks: IntMap<HeapAddress, DetachedBlock>,
    /// Whether the open scopes of a stream are also those of its frees.
    free_scopes: bool,
}

/// The surroundings of an event: its time, and the objects beside the model that count it.
pub(crate) struct ApplyEnv<'a, O> {
    /// Nanoseconds since the start of the trace.
    pub(crate) now: u64,
    /// Whether the trace began after its process: blocks from before are not known.
    pub(crate) began_late: bool,
    pub(crate) cutoff: &'a mut Cutoff,
    pub(crate) diagnostics: &'a mut Diagnostics,
    pub(crate) observer: &'a mut O,
}

impl<O: BlockObserver> ApplyEnv<'_, O> {
    /// The moment of the event that was counted last.
    fn moment(&self) -> EventTime {
        EventTime { time: self.now, event: self.cutoff.events() }
    }

    /// Passes on to the observer what event `number` of a stream has changed.
    #[inline(always)]
    fn observe(
        &mut self,
        (stream, number): (u16, u64),
        (heap, address): HeapAddress,
        block: &Block,
        change: BlockChange,
    ) {
        let event = BlockEvent {
            number,
            at_ns: self.now,
            address,
            bytes: block.size(),
            allocated_at_ns: block.allocated_at,
            bucket: block.bucket,
            stream,
            heap,
        };
        self.observer.observe(&event, change);
    }
}

impl Default for Model {
    fn default() -> Self {
        let mut accounts = Accounts::default();
        Self {
            streams: Streams::default(),
            threads: Threads::default(),
            contexts: Contexts::new(&mut accounts),
            callstacks: Callstacks::default(),
            accounts,
            heaps: Heaps::default(),
            mappings: Mappings::default(),
            heap_blocks: IntMap::default(),
            free_scopes: false,
        }
    }
}

/// Streams, threads and contexts.
impl Model {
    /// The stream with this id, which is added if there is none.
    #[inline]
    fn stream(&mut self, id: u16) -> &mut Stream {
        self.streams.get(id, &mut self.threads, &mut self.accounts)
    }

    /// The stream belongs to the thread with this id from here on.
    pub(crate) fn start_thread(&mut self, stream: u16, id: u32, system_id: u32, name: &str) {
        let thread = self.threads.by_id(id, &mut self.accounts);
        self.threads.describe(thread, system_id, name);
        self.stream(stream);
        self.streams.set_thread(stream, thread);
    }

    /// A stream that is a thread of its own has this name.
    pub(crate) fn name_stream(&mut self, stream: u32, system_id: u32, name: &str) {
        let thread = self.threads.by_stream(stream, &mut self.accounts);
        self.threads.describe(thread, system_id, name);
    }

    /// The stream opens a scope that changes no context.
    pub(crate) fn enter_other(&mut self, stream: u16) {
        let stream = self.stream(stream);
        stream.enter(stream.context);
    }

    /// The stream opens the scope of the context with this id.
    pub(crate) fn enter(&mut self, stream: u16, id: i32) {
        let context = self.contexts.by_id(id, &mut self.accounts);
        self.stream(stream).enter(context);
    }

    /// The stream opens a scope with the context of the block at an address.
    pub(crate) fn enter_of_block(&mut self, stream: u16, heap: usize, address: u64) {
        let block = usable_heap(heap).and_then(|heap| self.heaps.get(heap, address));
        let context = block.map_or(OUTERMOST, |block| self.accounts.owner(block.bucket).context);
        // The scope is that of the block, whichever heap the block is in.
        let context = self.contexts.in_heap(context, 0, &mut self.accounts);
        self.stream(stream).enter(context);
    }

    /// Who allocates on the stream.
    #[inline]
    pub(crate) fn actor(&mut self, stream: u16) -> Actor {
        self.stream(stream).actor()
    }

    /// The stream closes its innermost scope.
    pub(crate) fn leave(&mut self, stream: u16) {
        self.stream(stream).leave();
    }

    /// From here on, the open scopes of a stream are also those of its frees, or are not.
    pub(crate) fn set_free_scopes(&mut self, recorded: bool) {
        self.free_scopes = recorded;
    }

    /// A `TagSpec`; `kind_and_owner` are the fields that only our writer has.
    pub(crate) fn announce(
        &mut self,
        id: i32,
        parent: i32,
        name: &str,
        kind_and_owner: Option<(u8, i32)>,
    ) {
        if kind_and_owner.is_some() {
            self.contexts.set_has_kinds();
        }
        let (kind, owner) = kind_and_owner
            .map_or((IdKind::Scope, -1), |(kind, owner)| (IdKind::from_wire(kind), owner));
        self.contexts.announce(id, TagSpec { kind, parent, owner, name: name.into() });
    }

    /// What the ids of scopes, tags and heaps refer to.
    pub(crate) fn contexts_mut(&mut self) -> &mut Contexts {
        &mut self.contexts
    }

    /// What the ids of stacks refer to.
    pub(crate) fn callstacks_mut(&mut self) -> &mut Callstacks {
        &mut self.callstacks
    }

    /// Applies the events that the accounts have combined.
    #[inline]
    pub(crate) fn flush(&mut self) {
        if !self.accounts.is_flushed() {
            self.accounts.flush();
        }
    }

    /// See [`Streams::reset_last_blocks`].
    pub(crate) fn reset_last_blocks(&mut self) {
        self.streams.reset_last_blocks();
    }
}

/// What reports are made from.
impl Model {
    pub(crate) fn contexts(&self) -> &Contexts {
        &self.contexts
    }

    pub(crate) fn threads(&self) -> &Threads {
        &self.threads
    }

    pub(crate) fn callstacks(&self) -> &Callstacks {
        &self.callstacks
    }

    pub(crate) fn accounts(&self) -> &Accounts {
        &self.accounts
    }

    /// What a thread holds and has allocated, by its number.
    pub(crate) fn thread_point(&self, number: u32) -> ThreadPoint {
        let tracker = self.threads.get(number).peak;
        let (live_bytes, allocated_bytes) = self.accounts.of_thread(number, tracker);
        ThreadPoint { live_bytes, allocated_bytes }
    }

    pub(crate) fn accounts_mut(&mut self) -> &mut Accounts {
        &mut self.accounts
    }

    pub(crate) fn heaps(&self) -> &Heaps {
        &self.heaps
    }

    pub(crate) fn streams(&self) -> &Streams {
        &self.streams
    }
}

/// `heap` as the number of a root heap, if there is such a heap.
fn usable_heap(heap: usize) -> Option<u8> {
    (heap < HEAPS).then_some(heap as u8)
}
