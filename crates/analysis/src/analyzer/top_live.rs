//! Who holds the most, without allocating.

use super::Analyzer;
use crate::build::{HeldBy, TopHolder, TopLive};
use crate::observer::BlockObserver;
use std::fmt;

#[doc(hidden)]
impl<O: BlockObserver> Analyzer<O> {
    /// Sets aside memory for [`visit_top_live`](Self::visit_top_live), for what there is up to now.
    pub fn reserve_top_live(&self, top: &mut TopLive) {
        top.reserve(&self.model);
    }

    /// See [`TopLive::visit`]. Allocates nothing.
    pub fn visit_top_live(
        &self,
        top: &mut TopLive,
        (by, at_peak): (HeldBy, bool),
        most: usize,
        visit: &mut dyn FnMut(u64, u64, &TopHolder<'_>) -> fmt::Result,
    ) -> Result<bool, fmt::Error> {
        top.visit((&self.model, by, at_peak), most, visit)
    }
}
