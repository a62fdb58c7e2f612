//! The limit for the memory of waiting events.

use super::super::event::Visitor;
use super::super::schemas::Types;
use super::super::tally::Tally;
use super::Merge;

/// The default limit, in bytes.
pub(super) const DEFAULT_LIMIT: usize = 256 << 20;

impl Merge {
    /// Sets the limit for the memory of waiting events, in bytes.
    pub(in crate::read) fn set_memory_limit(&mut self, bytes: usize) {
        self.memory_limit = bytes;
    }

    /// Updates `held` with the bytes that this stream holds now.
    pub(super) fn count_memory(&mut self, index: usize) {
        if let Some(stream) = self.streams.get_mut(index) {
            let held = stream.held();
            self.held = self.held.saturating_sub(stream.merging.counted).saturating_add(held);
            stream.merging.counted = held;
        }
    }

    /// Releases the unused buffer capacity of all streams.
    fn shrink(&mut self) {
        for index in 0..self.streams.len() {
            if let Some(stream) = self.streams.get_mut(index) {
                stream.shrink();
            }
            self.count_memory(index);
        }
        self.heap.shrink_to_fit();
    }

    /// Stops waiting for missing events if the waiting ones take too much memory.
    ///
    /// PERF: at least half of the limit is free afterwards. So each call is paid for by the input
    /// since the last call, and the total work is in proportion to the input.
    #[cold]
    pub(super) fn limit_memory(
        &mut self,
        types: &Types,
        tally: &mut Tally,
        visitor: &mut impl Visitor,
    ) {
        self.shrink();
        if self.held <= self.memory_limit / 2 {
            return;
        }
        let what = format!(
            "events that wait for others take {} MiB, but a reader of this trace may keep {} MiB: the events that they wait for are given up",
            self.held >> 20,
            self.memory_limit >> 20
        );
        tally.damage(visitor, tally.offset, 0, what);
        self.set_first(types, tally, visitor);
        self.deliver_below(u64::MAX, types, tally, visitor);
        self.shrink();
        if self.held <= self.memory_limit / 2 {
            return;
        }
        // The remaining events lack their end, or their type.
        for index in 0..self.streams.len() {
            let Some(stream) = self.streams.get_mut(index) else { return };
            self.blocked -= usize::from(stream.merging.blocked.is_some());
            stream.end(tally, visitor);
            self.advance(index, types, tally, visitor);
        }
        self.set_first(types, tally, visitor);
        self.deliver_below(u64::MAX, types, tally, visitor);
        self.shrink();
    }
}
