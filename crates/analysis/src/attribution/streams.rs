//! The streams of packets, with the scopes and reallocations that are open on each.

use super::contexts::OUTERMOST;
use super::threads::{DetachedBlock, Threads};
use crate::accounts::Accounts;
use crate::live_set::Block;
use crate::observer::Actor;

/// In place of a bucket: the bucket of this stream's context and thread is not looked up yet.
pub(crate) const NO_BUCKET: u32 = u32::MAX;

/// The maximum number of open scopes that are distinguished; deeper ones are only counted.
const MAX_OPEN_SCOPES: usize = 1 << 16;

/// The maximum number of open reallocations on one stream; beyond that the oldest is dropped.
const MAX_PENDING: usize = 16;

/// The first half of a reallocation.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PendingRealloc {
    /// The old block, no longer live; where it was, and the number of the event.
    Known { old: DetachedBlock, from: u64, begun: u64 },
    /// There was no such block.
    Unknown,
    /// Addresses of a mapping that take no memory yet.
    Reserved,
}

/// How the last memory event of a stream made a block live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MadeBy {
    Allocation,
    Reallocation,
    /// The second half of a reallocation whose first half named no live block.
    ReallocationOfUnknown,
}

/// The block that the last memory event of a stream made live.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LastBlock {
    pub(crate) address: u64,
    pub(crate) block: Block,
    pub(crate) heap: u8,
    pub(crate) made_by: MadeBy,
}

/// One stream of packets, with its open scopes and reallocations.
#[derive(Clone, Debug)]
pub(crate) struct Stream {
    pub(crate) thread: u32,
    /// The bucket of its thread and context; [`NO_BUCKET`] until it is looked up.
    bucket: u32,
    /// The same in another root heap than the first, and that heap.
    other_bucket: u32,
    other_heap: u8,
    pub(crate) context: u32,
    scopes: Vec<u32>,
    too_deep: u64,
    pending: Vec<PendingRealloc>,
    pub(crate) last: Option<LastBlock>,
}

impl Stream {
    fn new(thread: u32) -> Self {
        Self {
            thread,
            bucket: NO_BUCKET,
            other_bucket: NO_BUCKET,
            other_heap: 0,
            context: OUTERMOST,
            scopes: Vec::new(),
            too_deep: 0,
            pending: Vec::new(),
            last: None,
        }
    }

    /// Opens a scope of any kind, with the context `context` inside.
    pub(crate) fn enter(&mut self, context: u32) {
        if self.scopes.len() < MAX_OPEN_SCOPES {
            self.scopes.push(self.context);
            self.set_context(context);
        } else {
            self.too_deep += 1;
        }
    }

    /// Closes the innermost scope, if any is open.
    pub(crate) fn leave(&mut self) {
        if self.too_deep > 0 {
            self.too_deep -= 1;
        } else if let Some(outer) = self.scopes.pop() {
            self.set_context(outer);
        }
    }

    fn set_context(&mut self, context: u32) {
        if self.context != context {
            self.context = context;
            self.reset_bucket();
        }
    }

    fn reset_bucket(&mut self) {
        (self.bucket, self.other_bucket) = (NO_BUCKET, NO_BUCKET);
    }

    /// The bucket of what the stream allocates now in this root heap; [`NO_BUCKET`] if it is not looked
    /// up yet.
    #[inline]
    pub(crate) fn bucket_in(&self, heap: u8) -> u32 {
        if heap == 0 {
            self.bucket
        } else if heap == self.other_heap {
            self.other_bucket
        } else {
            NO_BUCKET
        }
    }

    /// Sets what [`bucket_in`](Self::bucket_in) returns.
    pub(crate) fn set_bucket_in(&mut self, heap: u8, bucket: u32) {
        if heap == 0 {
            self.bucket = bucket;
        } else {
            (self.other_heap, self.other_bucket) = (heap, bucket);
        }
    }

    /// Who allocates on the stream now.
    #[inline]
    pub(crate) fn actor(&self) -> Actor {
        Actor { thread: self.thread, context: self.context }
    }

    /// Who frees on the stream now; without a context unless `has_scopes`.
    #[inline]
    pub(crate) fn freer(&self, has_scopes: bool) -> Actor {
        let context = if has_scopes { self.context } else { Actor::NO_CONTEXT };
        Actor { thread: self.thread, context }
    }

    /// Notes the first half of a reallocation.
    pub(crate) fn begin_realloc(&mut self, pending: PendingRealloc) {
        if self.pending.len() == MAX_PENDING {
            self.pending.remove(0);
        }
        self.pending.push(pending);
    }

    /// The first half of the reallocation that would end now.
    pub(crate) fn pending(&self) -> Option<PendingRealloc> {
        self.pending.last().copied()
    }

    /// Takes out the first half of the reallocation that ends now.
    pub(crate) fn end_realloc(&mut self) -> Option<PendingRealloc> {
        self.pending.pop()
    }

    /// The blocks between the two halves of their reallocation.
    pub(crate) fn being_reallocated(&self) -> impl Iterator<Item = Block> {
        self.pending.iter().filter_map(|pending| match pending {
            PendingRealloc::Known { old, .. } => Some(old.block),
            PendingRealloc::Unknown | PendingRealloc::Reserved => None,
        })
    }
}

/// All streams seen, by their ids.
#[derive(Clone, Debug, Default)]
pub(crate) struct Streams(Vec<Stream>);

impl Streams {
    /// The stream with this id, which is added if there is none.
    #[inline]
    pub(crate) fn get(
        &mut self,
        id: u16,
        threads: &mut Threads,
        accounts: &mut Accounts,
    ) -> &mut Stream {
        let index = usize::from(id);
        if index >= self.0.len() {
            self.add(index, threads, accounts);
        }
        &mut self.0[index]
    }

    #[cold]
    #[inline(never)]
    fn add(&mut self, last: usize, threads: &mut Threads, accounts: &mut Accounts) {
        for id in self.0.len()..=last {
            let thread = threads.by_stream(id as u32, accounts);
            self.0.push(Stream::new(thread));
        }
    }

    /// The stream with this id, which exists.
    #[inline]
    pub(crate) fn existing(&mut self, id: u16) -> &mut Stream {
        &mut self.0[usize::from(id)]
    }

    /// The stream with this id, which exists, belongs to `thread` from here on.
    pub(crate) fn set_thread(&mut self, id: u16, thread: u32) {
        let stream = self.existing(id);
        if stream.thread != thread {
            *stream = Stream::new(thread);
        }
    }

    /// All streams, by their ids.
    pub(crate) fn all(&self) -> &[Stream] {
        &self.0
    }

    /// Forgets the last block of each stream.
    pub(crate) fn reset_last_blocks(&mut self) {
        for stream in &mut self.0 {
            stream.last = None;
        }
    }
}
