//! What containers need: the tag alone, without a scope.

use super::{ContextIds, NONE, current, swap};

/// The tag of this thread, or [`NONE`].
pub(crate) fn tag() -> u32 {
    current().map_or(NONE, |current| current.tag.get())
}

/// The node of a tag; [`NONE`] if the tree is full.
#[inline]
pub(crate) fn tag_node(group: u32, name: &'static str) -> u32 {
    current().map_or(NONE, |current| current.cache.tag(group, name))
}

/// Runs `body`, which enters no scope, with the tag of this node.
#[inline]
pub(crate) fn run_with_tag<R>(tag: u32, body: impl FnOnce() -> R) -> R {
    /// Restores the context even if the body panics.
    struct Restore(ContextIds);
    impl Drop for Restore {
        #[inline]
        fn drop(&mut self) {
            swap(self.0);
        }
    }
    let other = current().filter(|current| current.tag.get() != tag);
    let _restore = other.map(|current| Restore(swap(current.ids_of(current.stack.get(), tag))));
    body()
}
