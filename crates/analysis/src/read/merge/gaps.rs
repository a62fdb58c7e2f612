//! Gaps: which missing events are late, and which are lost.
//!
//! ```text
//! serials   delivered | gap | waiting ...  | gap | waiting ...
//!                     ^ next        ^ watermark
//!                       lost: a hole         late: still waits
//! ```
//! The watermark is the serial of `Memledger.Settled`. In a trace without that event, at each sync
//! it is the highest serial as of two syncs earlier.

use super::super::event::{Hole, Visitor};
use super::super::schemas::Types;
use super::super::serials::BIAS;
use super::super::stream::{MISPLACED, ThreadStream, UNFINISHED};
use super::super::tally::Tally;
use super::Merge;
use std::cmp::Reverse;

/// While a stream has an unfinished event, which may hide the missing one, a gap is declared lost
/// only after this number of syncs.
const MAX_STALLED_SYNCS: u8 = 8;
/// The maximum first serial that is accepted.
pub(super) const MAX_FIRST_SERIAL: u64 = 1 << 56;

impl Merge {
    /// The trace declares its first serial. A writer that declares it also sends watermarks.
    pub(in crate::read) fn declare_first_serial(&mut self, serial: u64) {
        if !self.serials.is_known() && self.next == 0 && serial <= MAX_FIRST_SERIAL {
            self.next = serial + BIAS;
            self.watermark = Some(self.next);
            self.serials.seed(self.next);
        }
    }

    /// Begins with the lowest serial that waits, if no serial was delivered yet.
    pub(super) fn set_first(
        &mut self,
        types: &Types,
        tally: &mut Tally,
        visitor: &mut impl Visitor,
    ) {
        if self.serials.is_collecting() {
            self.decide_first(types, tally, visitor);
        } else if self.next == 0
            && let Some((first, _)) = self.top()
        {
            self.next = first;
            // A first serial below `BIAS` was unwrapped across a wrap of the 24 bits.
            self.bias = if first < BIAS { 0 } else { BIAS };
        }
    }

    /// Declares gaps below the watermark lost.
    pub(super) fn settle_to_watermark(
        &mut self,
        types: &Types,
        tally: &mut Tally,
        visitor: &mut impl Visitor,
    ) {
        if let Some(watermark) = self.watermark {
            self.settle_unless_stalled(watermark, types, tally, visitor);
        }
    }

    /// Declares gaps below `bound` lost, unless an unfinished event may hide the missing ones.
    pub(super) fn settle_unless_stalled(
        &mut self,
        bound: u64,
        types: &Types,
        tally: &mut Tally,
        visitor: &mut impl Visitor,
    ) {
        if self.next == 0 || self.next >= bound || self.top().is_none() {
            return;
        }
        // The missing event may follow one of which only a part has arrived.
        if self.stalled_syncs < MAX_STALLED_SYNCS
            && self.streams.iter().any(ThreadStream::is_stalled)
        {
            return;
        }
        self.deliver_below(bound, types, tally, visitor);
    }

    /// Delivers all events below `bound`, and the events from `bound` up to the next gap.
    pub(super) fn deliver_below(
        &mut self,
        bound: u64,
        types: &Types,
        tally: &mut Tally,
        visitor: &mut impl Visitor,
    ) {
        loop {
            self.deliver(types, tally, visitor);
            let Some((top, _)) = self.top() else { return };
            if self.next == 0 || self.next >= bound {
                return;
            }
            if !self.fill_gap() {
                self.hole(top.min(bound), tally, visitor);
            }
        }
    }

    /// Fills the gap with an event whose own serial is wrong, if there is one: gives it the next
    /// serial.
    fn fill_gap(&mut self) -> bool {
        if self.misplaced == 0 {
            return false;
        }
        for (index, stream) in self.streams.iter_mut().enumerate() {
            let next = self.next;
            if let Some(item) = stream.front_mut().filter(|item| item.flags & MISPLACED != 0) {
                item.flags &= !MISPLACED;
                item.serial = next;
                self.misplaced -= 1;
                if item.flags & UNFINISHED == 0 {
                    stream.merging.queued = Some(next);
                    self.heap.push(Reverse((next, index)));
                    return true;
                }
            }
        }
        false
    }

    /// Reports all serials below `end` as missing, and continues with `end`.
    pub(super) fn hole(&mut self, end: u64, tally: &mut Tally, visitor: &mut impl Visitor) {
        // NOTE: if the unwrapped serials may be wrong, the number of missing events is unknown.
        let count = if self.serials.is_unsure() { 0 } else { end - self.next };
        tally.holes += 1;
        tally.missing_unknown |= count == 0;
        tally.missing = tally.missing.saturating_add(count);
        visitor.hole(Hole { first: self.next.saturating_sub(self.bias), count });
        self.next = end;
    }
}
