//! No group has a number.

use super::Group;
use super::tree::NodeNumber;

#[derive(Debug)]
pub(super) struct GroupNode;

impl GroupNode {
    pub(super) const fn new() -> Self {
        Self
    }

    #[inline]
    pub(super) fn number(&self, _: &'static Group) -> NodeNumber {
        NodeNumber
    }
}
