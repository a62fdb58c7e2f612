//! The tag of one container.

use super::block::Block;
use crate::alloc::hook;
use crate::scopes::current::containers;
use crate::scopes::{Name, Tag, tree};
use std::alloc::Layout;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};

/// The tag of one container: the number of its node in the tree of contexts. Without feature
/// `enable` it has no bytes, so a container is as large as the plain one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OwnTag {
    /// `NONE` for a container without a tag, which behaves as a plain one.
    node: u32,
}

impl OwnTag {
    /// The tag of a container `C`, which is named after that type if the tag has no name. Costs one
    /// lookup in this thread's cache of nodes if the tag is cached.
    #[inline]
    pub(super) fn of<C: ?Sized>(tag: Tag) -> Self {
        let name = tag.name.map_or_else(own_type_name::<C>, Name::as_str);
        Self { node: containers::tag_node(tag.group().node(), name) }
    }

    /// The tag of this thread's context, which a container takes if it is given no other.
    #[inline]
    pub(super) fn of_thread() -> Self {
        Self { node: containers::tag() }
    }

    /// Runs `body`, which allocates for the container, under this tag. `body` must not run the
    /// program's code, whose allocations would get the tag too.
    #[inline]
    pub(super) fn run<R>(self, body: impl FnOnce() -> R) -> R {
        if self.node == tree::NONE { body() } else { containers::run_with_tag(self.node, body) }
    }

    /// Replaces the tag. Returns whether blocks must be [claimed](Self::claim): the new tag differs
    /// from the old one, and is not `NONE`.
    #[inline]
    pub(super) fn change(&mut self, tag: Self) -> bool {
        let other = tag != *self && tag.node != tree::NONE;
        *self = tag;
        other
    }

    /// Records that a block has this tag from now on, whichever code allocated it.
    #[inline]
    pub(super) fn claim(self, block: Option<Block>) {
        if let Some((start, layout)) = block
            && self.node != tree::NONE
        {
            containers::run_with_tag(self.node, || hook::retag(start.cast_mut(), layout));
        }
    }

    /// Records that a block of this tag belongs to the thread's context from now on, as if this
    /// thread had just allocated it.
    #[inline]
    pub(super) fn release(self, block: Option<Block>) {
        if let Some((start, layout)) = block
            && self.node != tree::NONE
            && self.node != containers::tag()
        {
            hook::retag(start.cast_mut(), layout);
        }
    }

    /// Whether a [claim](Self::claim) would be recorded. Containers check this before a claim that
    /// is expensive to prepare.
    pub(super) fn is_recorded(self) -> bool {
        self.node != tree::NONE && hook::mode() != hook::Mode::Off
    }
}

/// The name of a type without its own path; its parameters keep theirs:
/// `TaggedVec<game::Particle>`.
#[cold]
fn own_type_name<C: ?Sized>() -> &'static str {
    let whole = std::any::type_name::<C>();
    let path = whole.split('<').next().unwrap_or(whole);
    whole.get(path.rfind("::").map_or(0, |at| at + 2)..).unwrap_or(whole)
}

/// Allocates from the global allocator under the table's tag, and remembers the address of the
/// table's block, because the table does not expose it.
///
/// A table holds one block, or two while it grows: it allocates the new block, moves the elements,
/// which calls the program's hasher, and frees the old block. If the hasher panics, the table frees
/// the new block instead. So the table's block is the younger of the last two blocks that are not
/// freed.
///
/// A table gives only a shared reference to its allocator, so the fields that change are atomics,
/// which keep the table `Sync`. Only code with exclusive access to the table writes them.
pub(super) struct TagAllocator {
    node: AtomicU32,
    /// The addresses of the younger and the older block; 0 if there is none.
    held: [AtomicUsize; 2],
}

impl TagAllocator {
    #[inline]
    pub(super) fn new(tag: OwnTag) -> Self {
        Self { node: AtomicU32::new(tag.node), held: [const { AtomicUsize::new(0) }; 2] }
    }

    #[inline]
    pub(super) fn tag(&self) -> OwnTag {
        OwnTag { node: self.node.load(Relaxed) }
    }

    /// Requires exclusive access to the table.
    #[inline]
    pub(super) fn set_tag(&self, tag: OwnTag) {
        self.node.store(tag.node, Relaxed);
    }

    /// The block of a table of this size, if it has one.
    pub(super) fn block(&self, size: usize) -> Option<Block> {
        // A table's block has a larger alignment, but only its address and size matter.
        let layout = Layout::from_size_align(size, 1).ok().filter(|layout| layout.size() > 0)?;
        let start = self.held[0].load(Relaxed);
        (start != 0).then(|| (std::ptr::without_provenance(start), layout))
    }

    pub(super) fn add_block(&self, block: NonNull<[u8]>) {
        let [younger, older] = &self.held;
        older.store(younger.load(Relaxed), Relaxed);
        younger.store(block.addr().get(), Relaxed);
    }

    pub(super) fn remove_block(&self, block: NonNull<u8>) {
        let [younger, older] = &self.held;
        if younger.load(Relaxed) == block.addr().get() {
            younger.store(older.load(Relaxed), Relaxed);
        }
        older.store(0, Relaxed);
    }
}
