//! The context of every thread is the same one.

use super::tree::NodeNumber;

#[derive(Clone, Copy, Debug)]
pub(super) struct Site;

#[derive(Clone, Copy, Debug)]
pub(super) struct ContextIds;

impl ContextIds {
    #[inline]
    pub(super) fn untagged(self) -> Self {
        self
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Entered;

#[inline]
pub(super) fn here() -> Site {
    Site
}

#[inline]
pub(super) fn capture() -> ContextIds {
    ContextIds
}

#[inline]
pub(super) fn enter(_: &'static str, _: Site) -> Entered {
    Entered
}

#[inline]
pub(super) fn enter_tag(_: NodeNumber, _: &'static str) -> Entered {
    Entered
}

#[inline]
pub(super) fn enter_with_tag(_: &'static str, _: NodeNumber, _: &'static str, _: Site) -> Entered {
    Entered
}

#[inline]
pub(super) fn enter_context(_: ContextIds) -> Entered {
    Entered
}

#[inline]
pub(super) fn leave(_: Entered, _: Site) {}

#[inline]
pub(super) fn swap(ids: ContextIds) -> ContextIds {
    ids
}

#[inline]
pub(super) fn expect(_: ContextIds, _: ContextIds, _: Site) {}

#[inline]
pub(super) fn with_scope(ids: ContextIds, _: &'static str) -> ContextIds {
    ids
}

#[inline]
pub(super) fn with_tag(ids: ContextIds, _: NodeNumber, _: &'static str) -> ContextIds {
    ids
}
