//! The context of every thread is the same one.

use super::tree::NodeNumber;
use crate::nothing::{Nothing, does_nothing};

pub(super) type Site = Nothing;
pub(super) type Entered = Nothing;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ContextIds;

impl ContextIds {
    does_nothing! { pub(super) fn untagged(self) -> Self; }
}

does_nothing! {
    pub(super) fn here() -> Site;
    pub(super) fn capture() -> ContextIds;
    pub(super) fn enter(&'static str, Site) -> Entered;
    pub(super) fn enter_tag(NodeNumber, &'static str) -> Entered;
    pub(super) fn enter_with_tag(&'static str, NodeNumber, &'static str, Site) -> Entered;
    pub(super) fn enter_context(ContextIds) -> Entered;
    pub(super) fn leave(Entered, Site);
    pub(super) fn swap(ContextIds) -> ContextIds;
    pub(super) fn expect(ContextIds, ContextIds, Site);
    pub(super) fn with_scope(ContextIds, &'static str) -> ContextIds;
    pub(super) fn with_tag(ContextIds, NodeNumber, &'static str) -> ContextIds;
}
