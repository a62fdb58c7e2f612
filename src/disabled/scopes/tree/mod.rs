//! No name is kept, and no group has a number.

use super::Group;
use crate::nothing::{Nothing, does_nothing};

pub(crate) type NodeNumber = Nothing;

does_nothing! {
    pub(super) fn intern(&str) -> &'static str = "(other)";
    pub(super) fn intern_utf16(&[u16]) -> &'static str = "(other)";
}

#[derive(Debug)]
pub(super) struct GroupNode;

impl GroupNode {
    pub(super) const fn new() -> Self {
        Self
    }

    does_nothing! { pub(super) fn number(&self, &'static Group) -> NodeNumber; }
}
