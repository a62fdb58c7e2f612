//! What is alive, copied for a stream that begins in the midst of a recording.

use super::Analyzer;
use super::contexts::OUTERMOST;
use super::live::Block;

/// A live block: 32 bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AliveBlock {
    pub(crate) address: u64,
    pub(crate) size: u64,
    /// Nanoseconds since the start of the trace.
    pub(crate) allocated_at: u64,
    /// Its place in [`Alive::owners`].
    pub(crate) owner: u32,
}

/// Who allocated a block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AliveOwner {
    /// The id of its context in the stream, if it has one.
    pub(crate) tag: Option<i32>,
    /// Its thread's place in [`Alive::threads`].
    pub(crate) thread: u32,
}

/// A thread that may have live blocks.
#[derive(Clone, Debug)]
pub(crate) struct AliveThread {
    pub(crate) id: u32,
    pub(crate) system_id: u32,
    pub(crate) name: String,
}

/// Everything that is alive.
#[derive(Clone, Debug)]
pub(crate) struct Alive {
    /// In no order.
    pub(crate) blocks: Vec<AliveBlock>,
    /// Blocks between the two halves of their reallocation, with the stream it happens on. Their
    /// address is 0: that block is not there any more.
    pub(crate) halfway: Vec<(u16, AliveBlock)>,
    pub(crate) owners: Vec<AliveOwner>,
    pub(crate) threads: Vec<AliveThread>,
}

impl Analyzer {
    /// How many blocks are alive, about.
    pub(crate) fn alive_count(&self) -> usize {
        // NOTE: a count that a hostile stream has driven below zero is no reason to fail.
        (self.book.total.live_blocks as usize).min(1 << 28)
    }

    /// Copies what is alive after all events so far, into `blocks`: 32 bytes a block.
    ///
    /// PERF: where `blocks` has the room and its pages were touched before, a block costs 20 to 30 ns
    /// (10 million of them), otherwise twice as much and more.
    pub(crate) fn alive(&mut self, mut blocks: Vec<AliveBlock>) -> Alive {
        self.settle_steps();
        blocks.clear();
        let copy = |(address, block): (u64, Block)| AliveBlock {
            address,
            size: block.size(),
            allocated_at: block.allocated_at,
            owner: block.owner,
        };
        blocks.extend(self.heaps.iter().flat_map(|heap| heap.iter()).map(copy));
        let halfway = self.streams.iter().enumerate().flat_map(|(stream, state)| {
            state.halfway().map(move |block| (stream as u16, copy((0, block))))
        });
        let halfway = halfway.collect();
        let mut tags = vec![None; self.contexts.contexts.len()];
        for (id, context) in self.contexts.ids() {
            if context != OUTERMOST
                && let Some(tag) = tags.get_mut(context as usize)
            {
                *tag = Some(id);
            }
        }
        let owners = self.book.cells.iter().map(|cell| AliveOwner {
            tag: tags.get(cell.context as usize).copied().flatten(),
            thread: cell.thread,
        });
        let threads = self.threads.all.iter().map(|thread| AliveThread {
            id: thread.id,
            system_id: thread.system_id.unwrap_or(0),
            name: thread.name.clone(),
        });
        Alive { blocks, halfway, owners: owners.collect(), threads: threads.collect() }
    }
}
