//! The block that a container holds.

use std::alloc::Layout;

/// Its address and its layout.
pub(super) type Block = (*const u8, Layout);

/// The block of a container with this capacity; `None` if such a container holds no block.
#[inline]
pub(super) fn block_of<T>(start: *const T, capacity: usize) -> Option<Block> {
    let layout = Layout::array::<T>(capacity).ok().filter(|layout| layout.size() > 0)?;
    Some((start.cast(), layout))
}
