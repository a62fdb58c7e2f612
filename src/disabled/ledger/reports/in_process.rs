//! The analyzer of the process itself, in a build without the feature `report`: there is none.

use crate::error::Error;
use crate::ledger::recording::stats::HeapFigures;
use memledger_format::initial_live_set::{InitialBlock, InitialLiveSet};
use std::convert::Infallible;

/// Never made.
#[derive(Clone)]
pub(crate) struct InProcessAnalyzer(Infallible);

pub(in crate::ledger) fn figures() -> Option<HeapFigures> {
    None
}

impl InProcessAnalyzer {
    pub(in crate::ledger) fn new() -> Option<Self> {
        None
    }

    /// Where one is asked for, there is none.
    pub(in crate::ledger) fn is_none(&self) -> ! {
        match self.0 {}
    }

    pub(in crate::ledger) fn set_limit(&self, _: u64) {
        match self.0 {}
    }

    pub(in crate::ledger) fn try_initial_live_set(&self) -> Option<InitialLiveSet> {
        match self.0 {}
    }

    pub(in crate::ledger) fn reserve_blocks(&self) -> Result<Vec<InitialBlock>, Error> {
        match self.0 {}
    }

    pub(in crate::ledger) fn initial_live_set(&self, _: Vec<InitialBlock>) -> InitialLiveSet {
        match self.0 {}
    }
}

impl crate::trace::sink::Sink for InProcessAnalyzer {
    fn packet(&mut self, _: u16, _: &[u8]) {
        match self.0 {}
    }

    fn sync(&mut self) -> Result<(), Error> {
        match self.0 {}
    }

    fn finish(&mut self) -> Result<(), Error> {
        match self.0 {}
    }
}
