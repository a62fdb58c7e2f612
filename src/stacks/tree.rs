//! The tree of call stacks: one table for the process. Nodes are added without locks, and removed
//! all at once, before the next recording.
//!
//! A node is a frame and its caller's node. So two stacks share the nodes of the outer frames that
//! they have in common, and a stack is the number of its innermost frame's node.
//!
//! ```text
//! one mapping   nodes 16 B x 2^21   stack of node u32 x 2^21   node of stack u32 x 2^21   buckets u32 x 2^21
//!               bucket of parent + hash(frame) -> node --next--> node --next--> 0
//! ```
//! A thread writes a node before it links the node into its bucket, so every node in a bucket is
//! complete. Pages that are not used take no memory.
#![expect(unsafe_code, reason = "the table is raw memory")]

mod walk;

pub(crate) use walk::{NewStack, Walk, end, visit_left};

use super::state::MAX_FRAMES;
use crate::platform::os;
use crate::trace::write::watch;
use std::iter;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

/// The roots: how the frames above a stack's outermost frame end.
///
/// The stack is whole.
pub(crate) const COMPLETE: u32 = 1;
/// There are more frames than the limit.
pub(crate) const TOO_DEEP: u32 = 2;
/// The outermost frame is in code without unwind information.
pub(crate) const NO_TABLE: u32 = 3;
/// The next frame is in memory that cannot be read.
pub(crate) const UNREADABLE: u32 = 4;
/// Every stack that has no node of its own, because the table is full.
pub(crate) const OTHER: u32 = 5;
/// The next frame is in a library, and since the list of modules was read the loader has unloaded one.
pub(crate) const LIBRARY_CHANGED: u32 = 6;
const FIRST: u32 = 8;

/// The `CallstackId` of an event whose stack was not taken.
pub(crate) const NO_STACK: u32 = 0;
/// The `CallstackId` of [`OTHER`].
pub(crate) const OTHER_STACK: u32 = 1;
const FIRST_STACK: u32 = 2;

/// The maximum number of nodes. A stack of a large program adds one or two nodes, and a program has
/// some ten thousand stacks.
pub(super) const CAPACITY: usize = 1 << 21;
const BUCKETS: usize = CAPACITY;
/// The children of a node are in 256 buckets.
const SPREAD_BITS: u32 = 8;

/// The number of bits of an address; the bits above it have the number of its module.
pub(crate) const ADDRESS_BITS: u32 = 48;

/// One frame of a stack: a return address, and the number of the module that it is in, 0 for none.
///
/// NOTE: the module is part of the key, because a library can be loaded where another one was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame(u64);

impl Frame {
    pub(crate) fn new(address: u64, module: u16) -> Self {
        Self(address & ((1 << ADDRESS_BITS) - 1) | u64::from(module) << ADDRESS_BITS)
    }

    /// The address and the number of the module.
    pub(crate) fn bits(self) -> u64 {
        self.0
    }

    pub(crate) fn address(self) -> u64 {
        self.0 & ((1 << ADDRESS_BITS) - 1)
    }
}

/// One node. All bytes are 0 until it is written.
struct Node {
    frame: AtomicU64,
    parent: AtomicU32,
    /// The next node of the same bucket.
    next: AtomicU32,
}

/// The four arrays of the mapping.
struct Table {
    nodes: NonNull<Node>,
    /// By node: the number of the stack that ends here, 0 if no event has it.
    stack_of: NonNull<AtomicU32>,
    /// By stack: its node, 0 until it is written.
    node_of: NonNull<AtomicU32>,
    buckets: NonNull<AtomicU32>,
}

static TABLE: AtomicPtr<u8> = AtomicPtr::new(ptr::null_mut());
/// The number of nodes that were requested, which can exceed [`CAPACITY`].
static NODES: AtomicU32 = AtomicU32::new(FIRST);
static STACKS: AtomicU32 = AtomicU32::new(FIRST_STACK);
static REFUSED: AtomicU64 = AtomicU64::new(0);

impl Table {
    const NODE_BYTES: usize = CAPACITY * size_of::<Node>();
    const NUMBER_BYTES: usize = CAPACITY * size_of::<AtomicU32>();
    const BYTES: usize =
        Self::NODE_BYTES + 2 * Self::NUMBER_BYTES + BUCKETS * size_of::<AtomicU32>();

    #[inline(always)]
    fn get() -> Option<Self> {
        let start = TABLE.load(Ordering::Acquire);
        if start.is_null() { Self::map() } else { Self::at(start) }
    }

    #[cold]
    fn map() -> Option<Self> {
        let pages = os::map(Self::BYTES)?;
        let stored = TABLE.compare_exchange(
            ptr::null_mut(),
            pages.as_ptr(),
            Ordering::AcqRel,
            Ordering::Acquire,
        );
        match stored {
            Ok(_) => Self::at(pages.as_ptr()),
            Err(existing) => {
                os::unmap(pages, Self::BYTES);
                Self::at(existing)
            }
        }
    }

    #[inline(always)]
    fn at(start: *mut u8) -> Option<Self> {
        Some(Self {
            nodes: NonNull::new(start)?.cast(),
            stack_of: NonNull::new(start.wrapping_add(Self::NODE_BYTES))?.cast(),
            node_of: NonNull::new(start.wrapping_add(Self::NODE_BYTES + Self::NUMBER_BYTES))?
                .cast(),
            buckets: NonNull::new(start.wrapping_add(Self::NODE_BYTES + 2 * Self::NUMBER_BYTES))?
                .cast(),
        })
    }

    #[inline(always)]
    fn node(&self, number: u32) -> Option<&'static Node> {
        // SAFETY: the index is checked; zeroed pages are valid nodes and are never unmapped.
        ((number as usize) < CAPACITY).then(|| unsafe { self.nodes.add(number as usize).as_ref() })
    }

    fn stack_of(&self, node: u32) -> Option<&'static AtomicU32> {
        let node = node as usize;
        // SAFETY: the index is checked; zeroed pages are valid numbers and are never unmapped.
        (node < CAPACITY).then(|| unsafe { self.stack_of.add(node).as_ref() })
    }

    fn node_of(&self, stack: u32) -> Option<&'static AtomicU32> {
        let stack = stack as usize;
        // SAFETY: as in `stack_of`.
        (stack < CAPACITY).then(|| unsafe { self.node_of.add(stack).as_ref() })
    }

    #[inline(always)]
    fn bucket(&self, parent: u32, frame: Frame) -> &'static AtomicU32 {
        // PERF: children are near their parents, so few pages are in use, and those that are needed
        // together are near each other.
        let place = frame.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - SPREAD_BITS);
        self.bucket_at(parent as usize + place as usize)
    }

    #[inline(always)]
    fn bucket_at(&self, number: usize) -> &'static AtomicU32 {
        // SAFETY: the index is below `BUCKETS`; zeroed pages are valid and are never unmapped.
        unsafe { self.buckets.add(number % BUCKETS).as_ref() }
    }
}

/// The node of `frame` called from `parent`, which is added if it is new. [`OTHER`] if the table is
/// full, which is counted.
#[inline]
pub(crate) fn child(parent: u32, frame: Frame) -> u32 {
    if parent == OTHER {
        return OTHER;
    }
    find_or_add(parent, frame).unwrap_or_else(|| {
        REFUSED.fetch_add(1, Ordering::Relaxed);
        OTHER
    })
}

#[inline]
fn find_or_add(parent: u32, frame: Frame) -> Option<u32> {
    let table = Table::get()?;
    let bucket = table.bucket(parent, frame);
    let find = |mut number: u32, end: u32| {
        while number != end {
            let node = table.node(number)?;
            if node.frame.load(Ordering::Relaxed) == frame.0
                && node.parent.load(Ordering::Relaxed) == parent
            {
                return Some(number);
            }
            number = node.next.load(Ordering::Relaxed);
        }
        None
    };
    let mut head = bucket.load(Ordering::Acquire);
    if let Some(found) = find(head, 0) {
        return Some(found);
    }
    if NODES.load(Ordering::Relaxed) as usize >= CAPACITY {
        return None;
    }
    let number = NODES.fetch_add(1, Ordering::Relaxed);
    let node = table.node(number)?;
    node.frame.store(frame.0, Ordering::Relaxed);
    node.parent.store(parent, Ordering::Relaxed);
    loop {
        node.next.store(head, Ordering::Relaxed);
        match bucket.compare_exchange(head, number, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => return Some(number),
            Err(newer) => {
                // The nodes from `head` on were compared already. A node that is not linked is lost.
                if let Some(found) = find(newer, head) {
                    return Some(found);
                }
                head = newer;
            }
        }
    }
}

pub(crate) fn frame(node: u32) -> Frame {
    frame_of(node).map_or(Frame(0), |(frame, _)| frame)
}

/// The number of the stack whose innermost frame is `node`: the `CallstackId` of its events.
#[inline]
pub(crate) fn stack_id(node: u32) -> u32 {
    if node == OTHER {
        return OTHER_STACK;
    }
    number_of_stack(node).unwrap_or(OTHER_STACK)
}

#[inline]
fn number_of_stack(node: u32) -> Option<u32> {
    let table = Table::get()?;
    let stack_of = table.stack_of(node)?;
    let known = stack_of.load(Ordering::Acquire);
    if known != 0 {
        return Some(known);
    }
    // NOTE: there are as many numbers of stacks as nodes. Two threads that need the same number at
    // once take two, of which one is in no event.
    let number = STACKS.fetch_add(1, Ordering::Relaxed);
    table.node_of(number)?.store(node, Ordering::Release);
    if let Some(logs) = watch::watched_logs() {
        // NOTE: before any event can have the number.
        logs.stacks.add(number, words_of(node));
    }
    match stack_of.compare_exchange(0, number, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => Some(number),
        Err(theirs) => Some(theirs),
    }
}

/// In the word of a root: no frame has this bit.
const ROOT: u64 = 1 << 63;
const _: () = assert!((MAX_FRAMES as usize) < watch::STACK_WORDS);

/// *Hook.* A stack for a watcher: the addresses of its frames, innermost first, and its root.
fn words_of(node: u32) -> impl Iterator<Item = u64> {
    let mut next = Some(node);
    iter::from_fn(move || {
        let at = next?;
        let frame = frame_of(at);
        next = frame.map(|(_, parent)| parent);
        Some(frame.map_or(ROOT | u64::from(at), |(frame, _)| frame.address()))
    })
}

/// How many stacks had no node since the last call, because the table is full.
pub(crate) fn take_refused() -> u64 {
    REFUSED.swap(0, Ordering::Relaxed)
}

/// Removes all nodes. Requires that recording is paused and no thread is inside a hook.
///
/// NOTE: a destination of an ended recording that is still being written may then lack stacks. Its
/// walk ends, because a parent has a lower number than its child or is 0.
pub(super) fn forget() {
    let nodes = NODES.load(Ordering::Relaxed).min(CAPACITY as u32);
    let stacks = STACKS.load(Ordering::Relaxed).min(CAPACITY as u32);
    let Some(table) = Table::get().filter(|_| nodes > FIRST) else { return };
    // The roots, too, have numbers of stacks.
    for number in COMPLETE..nodes {
        let Some(node) = table.node(number) else { break };
        for field in [&node.parent, &node.next].into_iter().chain(table.stack_of(number)) {
            field.store(0, Ordering::Relaxed);
        }
    }
    let of_stacks = (FIRST_STACK..stacks).filter_map(|stack| table.node_of(stack));
    let used = BUCKETS.min(nodes as usize + (1 << SPREAD_BITS));
    let all = of_stacks.chain((0..used).map(|number| table.bucket_at(number)));
    all.for_each(|number| number.store(0, Ordering::Relaxed));
    NODES.store(FIRST, Ordering::Relaxed);
    STACKS.store(FIRST_STACK, Ordering::Release);
}

/// The number of bytes in use by the table, without its buckets if it is empty.
pub(crate) fn bytes() -> u64 {
    if TABLE.load(Ordering::Relaxed).is_null() {
        return 0;
    }
    let nodes = (NODES.load(Ordering::Relaxed) as usize).min(CAPACITY);
    let stacks = (STACKS.load(Ordering::Relaxed) as usize).min(CAPACITY);
    let buckets = nodes.min(BUCKETS);
    (nodes * (size_of::<Node>() + size_of::<u32>()) + (stacks + buckets) * size_of::<u32>()) as u64
}

/// The number of stacks so far, or `None` if no stack was taken yet.
fn stacks() -> Option<u32> {
    let started = !TABLE.load(Ordering::Acquire).is_null();
    started.then(|| STACKS.load(Ordering::Acquire).min(CAPACITY as u32))
}

/// The node of a stack; 0 if it is not written yet.
fn node_of(stack: u32) -> u32 {
    let table = Table::get();
    table.and_then(|table| table.node_of(stack)).map_or(0, |node| node.load(Ordering::Acquire))
}

/// The frame of a node that is not a root, and its parent.
fn frame_of(node: u32) -> Option<(Frame, u32)> {
    let node = Table::get()?.node(node).filter(|_| node >= FIRST)?;
    Some((Frame(node.frame.load(Ordering::Relaxed)), node.parent.load(Ordering::Relaxed)))
}
