//! A container has no tag, and is as large as the plain one.

use super::block::Block;
use crate::scopes::Tag;
use std::ptr::NonNull;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OwnTag;

impl OwnTag {
    #[inline]
    #[expect(clippy::extra_unused_type_parameters, reason = "as with tracking")]
    pub(super) fn of<C: ?Sized>(tag: Tag) -> Self {
        let _ = tag.own_name();
        Self
    }

    #[inline]
    pub(super) fn of_thread() -> Self {
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

    #[inline]
    pub(super) fn claim(self, _: Option<Block>) {}

    #[inline]
    pub(super) fn release(self, _: Option<Block>) {}

    #[inline]
    pub(super) fn is_recorded(self) -> bool {
        false
    }
}

pub(super) struct TagAllocator;

impl TagAllocator {
    #[inline]
    pub(super) fn new(_: OwnTag) -> Self {
        Self
    }

    #[inline]
    pub(super) fn tag(&self) -> OwnTag {
        OwnTag
    }

    #[inline]
    pub(super) fn set_tag(&self, _: OwnTag) {}

    #[inline]
    pub(super) fn block(&self, _: usize) -> Option<Block> {
        None
    }

    #[inline]
    pub(super) fn add_block(&self, _: NonNull<[u8]>) {}

    #[inline]
    pub(super) fn remove_block(&self, _: NonNull<u8>) {}
}
