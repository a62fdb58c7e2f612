//! What an analyzer passes on of single blocks.

/// Sees what happens to each block, in the order of the events: for questions that a
/// [`Report`](super::Report), whose rows are sums, cannot answer.
///
/// [`Analyzer::observing`](super::Analyzer::observing) makes an analyzer that calls an observer. The
/// calls stop where the figures of the report stop, so what an observer adds up equals the report. An
/// analyzer without one costs what it cost before.
///
/// ```
/// use memledger_analysis::{Analyzer, BlockChange, BlockEvent, BlockObserver};
/// use memledger_analysis::read::read;
/// use std::fs::File;
///
/// /// The largest block of all.
/// #[derive(Default)]
/// struct Largest(u64);
///
/// impl BlockObserver for Largest {
///     fn observe(&mut self, event: &BlockEvent, _: BlockChange) {
///         self.0 = self.0.max(event.bytes);
///     }
/// }
///
/// let mut analyzer = Analyzer::observing(Largest::default());
/// read(File::open("../../tests/samples/memledger-small.utrace")?, &mut analyzer)?;
/// assert!(analyzer.observer().0 > 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait BlockObserver {
    /// `change` has happened to a block, which is now as `event` has it.
    fn observe(&mut self, event: &BlockEvent, change: BlockChange);

    /// One of the positions of a [`Query`](super::Query), but for the last, is after event `events`.
    fn reached(&mut self, events: u64) {
        let _ = events;
    }

    /// The events of stream `stream` are by `by` from here on: it opened or closed a scope, or belongs to
    /// another thread. `path` gives the names of the open scopes, outermost first. The tracker writes this
    /// just before the first event in another scope, and closes all scopes at the end of each buffer.
    fn scope_changed(&mut self, stream: u16, by: Actor, path: &dyn Fn() -> Vec<String>) {
        let _ = (stream, by, path);
    }

    /// Only a sample of the blocks has a call stack from here on.
    fn sampled(&mut self) {}

    /// The blocks so far were live when the trace began.
    fn joined(&mut self) {}

    /// Event `event` has set a bookmark.
    fn bookmark(&mut self, event: u64) {
        let _ = event;
    }

    /// Counting stops here, where these blocks are live, in no particular order.
    fn stop(&mut self, live: &mut dyn Iterator<Item = BlockEvent>) {
        let _ = live;
    }
}

/// Observes nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NoObserver;

impl BlockObserver for NoObserver {
    #[inline(always)]
    fn observe(&mut self, _: &BlockEvent, _: BlockChange) {}
}

/// A block, and the event that changed it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BlockEvent {
    /// The number of the event, as in [`Position::Event`](super::Position::Event).
    pub number: u64,
    /// When it was: the last time in the trace before it, in nanoseconds since the start.
    pub at_ns: u64,
    /// Where the block is, or was before it was freed.
    pub address: u64,
    /// Its size, or its last size before it was freed.
    pub bytes: u64,
    /// When it was first allocated: the last time in the trace before that.
    pub allocated_at_ns: u64,
    /// The bucket that it counts in: an index of [`Report::by_bucket`](super::Report::by_bucket).
    pub bucket: u32,
    /// The stream that the event is from.
    pub stream: u16,
    /// The root heap that the block is in.
    pub heap: u8,
}

/// What has happened to a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockChange {
    /// It was allocated, or it is first seen here, where it was reallocated.
    Allocated,
    /// It was freed.
    Freed {
        /// By which thread, in which context.
        by: Actor,
        /// Whether its thread had not allocated again.
        short_lived: bool,
    },
    /// The first half of a reallocation: the block counts as freed (one more in `frees`) until the second
    /// half, which is missing if the trace ends or is damaged here.
    ReallocBegun,
    /// The second half of a reallocation: the block is live again, with its new address and size. The
    /// free that was counted for the first half is taken back.
    Reallocated {
        /// The number of the event that was the first half.
        begun: u64,
        /// Its address before.
        from: u64,
        /// Its size before.
        bytes_before: u64,
        /// The bucket that it counted in before: another one if it has got another stack.
        bucket_before: u32,
        /// By which thread, in which context.
        by: Actor,
    },
    /// The reallocation just made on this stream has failed: it counts as none. The block is as it was.
    ReallocFailed {
        /// Whether it is still live; another thread may have freed it.
        is_live: bool,
    },
    /// Its size is known more exactly: an event cannot say more than 32 GiB.
    Corrected {
        /// The size that was counted before.
        bytes_before: u64,
        /// Whether it is still live; another thread may have freed it.
        is_live: bool,
    },
    /// It got another tag: it counts in another bucket from here on.
    Moved {
        /// The bucket before.
        from: u32,
    },
    /// It ends without a free: another block was allocated over it, or it is a heap of other blocks
    /// from here on.
    Left,
    /// A heap of other blocks is a block again; [`BlockChange::Freed`] can follow at once.
    Returned,
}

/// Which thread did something, in which context.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Actor {
    pub(super) thread: u32,
    pub(super) context: u32,
}

impl Actor {
    /// In place of a context: the trace does not say in which one a block was freed.
    pub(super) const NO_CONTEXT: u32 = u32::MAX;
}
