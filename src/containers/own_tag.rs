//! The tag of one container.

#[cfg(tracking)]
use crate::scopes::Name;
use crate::scopes::Tag;
use std::alloc::Layout;

#[cfg(tracking)]
use crate::alloc::hook;
#[cfg(tracking)]
use crate::scopes::{current, tree};

/// A block that a container holds.
pub(super) type Block = (*const u8, Layout);

/// The tag of one container: the number of its node in the tree of contexts. Without feature
/// `enable` it has no bytes, so a container is as large as the plain one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OwnTag {
    /// `NONE` for a container without a tag, which behaves as a plain one.
    #[cfg(tracking)]
    pub(super) node: u32,
}

#[cfg(tracking)]
impl OwnTag {
    /// The tag of a container `C`, which is named after that type if the tag has no name. Costs one
    /// lookup in this thread's cache of nodes if the tag is cached.
    #[inline]
    pub(super) fn of<C: ?Sized>(tag: Tag) -> Self {
        let name = tag.own_name().map_or_else(own_type_name::<C>, Name::as_str);
        Self { node: current::tag_node(tag.group().node(), name) }
    }

    /// The tag of this thread's context, which a container takes if it is given no other.
    #[inline]
    pub(super) fn of_thread() -> Self {
        Self { node: current::tag() }
    }

    /// Runs `body`, which allocates for the container, under this tag. `body` must not run the
    /// program's code, whose allocations would get the tag too.
    #[inline]
    pub(super) fn run<R>(self, body: impl FnOnce() -> R) -> R {
        if self.node == tree::NONE { body() } else { current::run_with_tag(self.node, body) }
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
            current::run_with_tag(self.node, || hook::retag(start.cast_mut(), layout));
        }
    }

    /// Records that a block of this tag belongs to the thread's context from now on, as if this
    /// thread had just allocated it.
    #[inline]
    pub(super) fn release(self, block: Option<Block>) {
        if let Some((start, layout)) = block
            && self.node != tree::NONE
            && self.node != current::tag()
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

#[cfg(not(tracking))]
impl OwnTag {
    #[inline]
    #[expect(clippy::extra_unused_type_parameters, reason = "as with tracking")]
    pub(super) fn of<C: ?Sized>(tag: Tag) -> Self {
        let _ = tag;
        Self {}
    }

    #[inline]
    pub(super) fn of_thread() -> Self {
        Self {}
    }

    #[inline]
    pub(super) fn run<R>(self, body: impl FnOnce() -> R) -> R {
        body()
    }

    #[inline]
    pub(super) fn change(&mut self, tag: Self) -> bool {
        *self = tag;
        false
    }

    #[inline]
    pub(super) fn claim(self, block: Option<Block>) {
        let _ = block;
    }

    #[inline]
    pub(super) fn release(self, block: Option<Block>) {
        let _ = block;
    }

    #[inline]
    pub(super) fn is_recorded(self) -> bool {
        false
    }
}

/// The name of a type without its own path; its parameters keep theirs:
/// `TaggedVec<game::Particle>`.
#[cfg(tracking)]
#[cold]
fn own_type_name<C: ?Sized>() -> &'static str {
    let whole = std::any::type_name::<C>();
    let path = whole.split('<').next().unwrap_or(whole);
    whole.get(path.rfind("::").map_or(0, |at| at + 2)..).unwrap_or(whole)
}

/// The block of a container with this capacity; `None` if such a container holds no block.
#[inline]
pub(super) fn block_of<T>(start: *const T, capacity: usize) -> Option<Block> {
    let layout = Layout::array::<T>(capacity).ok().filter(|layout| layout.size() > 0)?;
    Some((start.cast(), layout))
}
