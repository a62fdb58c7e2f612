//! A container has no tag, and is as large as the plain one.

use super::block::Block;
use crate::nothing::does_nothing;
use crate::scopes::Tag;
use std::ptr::NonNull;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct OwnTag;

impl OwnTag {
    #[inline]
    #[expect(clippy::extra_unused_type_parameters, reason = "as with tracking")]
    pub(super) fn of<C: ?Sized>(tag: Tag) -> Self {
        let _ = tag.name;
        Self
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

    does_nothing! {
        pub(super) fn of_thread() -> Self;
        pub(super) fn claim(self, Option<Block>);
        pub(super) fn release(self, Option<Block>);
        pub(super) fn is_recorded(self) -> bool;
    }
}

#[derive(Default)]
pub(super) struct TagAllocator;

impl TagAllocator {
    does_nothing! {
        pub(super) fn new(OwnTag) -> Self;
        pub(super) fn tag(&self) -> OwnTag;
        pub(super) fn set_tag(&self, OwnTag);
        pub(super) fn block(&self, usize) -> Option<Block>;
        pub(super) fn add_block(&self, NonNull<[u8]>);
        pub(super) fn remove_block(&self, NonNull<u8>);
    }
}
