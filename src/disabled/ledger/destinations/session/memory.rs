//! The memory part of a session, in a build without the feature `report`: there is none.

use crate::dump::InProcessAnalyzer;
use crate::perfetto::MemoryWriter;
use memledger_format::protobuf::perfetto::sequence::Moment;
use std::convert::Infallible;
use std::time::Duration;

pub(super) struct SessionMemory(Infallible);

impl SessionMemory {
    pub(super) fn new(analyzer: InProcessAnalyzer, _: Duration) -> Self {
        analyzer.is_none()
    }
}

impl MemoryWriter for SessionMemory {
    fn allocated(&mut self, _: (u32, u32, &str), _: u32, _: (i64, i64), _: &mut Vec<u8>) {
        match self.0 {}
    }

    fn sync(&mut self, _: Moment, _: &mut Vec<u8>) {
        match self.0 {}
    }

    fn restart(&mut self, _: Moment, _: &mut Vec<u8>) {
        match self.0 {}
    }

    fn finish(&mut self, _: Moment, _: &mut Vec<u8>) {
        match self.0 {}
    }
}
