//! Whether stacks are taken, and of which allocations. The worker and the settings write it; the
//! hook reads it.

use crate::trace::write::state;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The maximum number of frames of a stack, which is Unreal's.
pub(crate) const MAX_FRAMES: u8 = 255;

static MEAN_BYTES: AtomicU64 = AtomicU64::new(0);
static FRAME_LIMIT: AtomicU32 = AtomicU32::new(MAX_FRAMES as u32);

/// The most bytes that the tree of stacks can be allowed: 3 million stacks of usual programs.
pub(crate) const MAX_MEMORY: u64 = 64 << 20;
static MEMORY_LIMIT: AtomicU64 = AtomicU64::new(MAX_MEMORY);

/// Sets the mean number of bytes between two stacks that are taken, 0 for a stack of every
/// allocation, the maximum number of frames, and the most bytes of the tree.
pub(crate) fn configure(mean_bytes: u64, frame_limit: u8, memory_limit: u64) {
    MEAN_BYTES.store(mean_bytes, Ordering::Relaxed);
    FRAME_LIMIT.store(frame_limit.max(1).into(), Ordering::Relaxed);
    MEMORY_LIMIT.store(memory_limit, Ordering::Relaxed);
}

/// The mean number of bytes between two stacks that are taken; 0: every allocation has a stack.
#[inline(always)]
pub(crate) fn mean_bytes() -> u64 {
    MEAN_BYTES.load(Ordering::Relaxed)
}

/// The maximum number of frames of a stack, 1 to 255.
#[inline(always)]
pub(crate) fn frame_limit() -> u32 {
    FRAME_LIMIT.load(Ordering::Relaxed)
}

/// The number of bytes that the tree of stacks may take.
pub(crate) fn memory_limit() -> u64 {
    MEMORY_LIMIT.load(Ordering::Relaxed)
}

/// Lets the hook take stacks. The modules must have been read.
pub(crate) fn turn_on() {
    state::set_option(state::STACKS, true);
}

/// Makes the hook take no stacks. A hook that is under way may still take one.
pub(crate) fn turn_off() {
    state::set_option(state::STACKS, false);
}
