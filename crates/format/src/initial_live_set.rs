//! The initial live set: a copy of the live blocks, for a stream that joins a recording.

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
    /// How many events after the copy are missing: in the child of a fork, those of threads that did not wait
    /// for the fork.
    pub missed: u64,
}
