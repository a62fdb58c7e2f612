//! Delivers waiting events in the order of their serials.

use super::super::event::{Event, Visitor};
use super::super::schemas::{ReaderRole, Types};
use super::super::stream::{
    DROPPED, ENTERS, HAS_PIECES, LEAVES, MISPLACED, STAMPS, SYNCED, ThreadStream, UNFINISHED,
};
use super::super::tally::Tally;
use super::Merge;
use super::gaps::MAX_FIRST_SERIAL;
use crate::read::serials::BIAS;
use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;

impl Merge {
    /// Delivers the first items of a stream that need not wait, and queues the stream under the
    /// next one.
    pub(super) fn advance(
        &mut self,
        index: usize,
        types: &Types,
        tally: &mut Tally,
        visitor: &mut impl Visitor,
    ) {
        self.deliver_front(index, types, tally, visitor);
        let Some(stream) = self.streams.get_mut(index) else { return };
        let key = key(stream);
        if key != stream.merging.queued {
            stream.merging.queued = key;
            if let Some(key) = key {
                self.heap.push(Reverse((key, index)));
            }
        }
    }

    /// The lowest serial that waits, and the index of its stream.
    pub(super) fn top(&mut self) -> Option<(u64, usize)> {
        while let Some(&Reverse((key, index))) = self.heap.peek() {
            if self.streams.get(index).is_some_and(|stream| stream.merging.queued == Some(key)) {
                return Some((key, index));
            }
            self.heap.pop();
        }
        None
    }

    pub(super) fn is_waiting(&mut self) -> bool {
        self.top().is_some()
    }

    /// Delivers everything up to the next gap.
    pub(super) fn deliver(&mut self, types: &Types, tally: &mut Tally, visitor: &mut impl Visitor) {
        while let Some((key, index)) = self.top()
            && key <= self.next
        {
            self.deliver_front(index, types, tally, visitor);
            let Some(stream) = self.streams.get_mut(index) else { return };
            stream.merging.queued = self::key(stream);
            // PERF: one sift instead of a pop and a push.
            match (stream.merging.queued, self.heap.peek_mut()) {
                (Some(key), Some(mut top)) => *top = Reverse((key, index)),
                (None, Some(top)) => drop(PeekMut::pop(top)),
                (_, None) => {}
            }
        }
    }

    /// Delivers the first items of a stream, up to the first one that must wait.
    ///
    /// PERF: one long function, because it is the slow path's loop over items: its state stays in
    /// registers.
    pub(super) fn deliver_front(
        &mut self,
        index: usize,
        types: &Types,
        tally: &mut Tally,
        visitor: &mut impl Visitor,
    ) {
        let Some(stream) = self.streams.get_mut(index) else { return };
        let mut next = self.next;
        let mut aux: Vec<(u8, &[u8])> = Vec::new();
        let mut done = 0;
        let mut events = 0;
        for item in stream.waiting() {
            let flags = item.flags;
            if flags & UNFINISHED != 0 {
                break;
            }
            let mut serial = None;
            if flags & SYNCED != 0 {
                if item.serial == next && flags & MISPLACED == 0 {
                    next += 1;
                } else if item.serial > next {
                    break;
                } else {
                    tally.late += 1;
                }
                if flags & MISPLACED != 0 {
                    self.misplaced -= 1;
                }
                serial = Some(item.serial.saturating_sub(self.bias));
                // A type record of protocol 1 or 2 has a serial, but is no event.
                if flags & DROPPED == 0 {
                    if tally.first_serial.is_none() {
                        tally.first_serial = serial;
                    }
                    tally.last_serial = tally.last_serial.max(serial);
                }
            }
            done += 1;
            if flags & (LEAVES | DROPPED | STAMPS) != 0 {
                if flags & LEAVES != 0 {
                    visitor.leave_scope(stream.id);
                }
                if let Some(stamp) = item.stamp() {
                    visitor.stamp(stream.id, stamp);
                }
                continue;
            }
            let Some(known) = types.get(item.type_index) else { continue };
            let Some(fixed) = stream.bytes_at(item.at, known.fixed_size) else { continue };
            aux.clear();
            if flags & HAS_PIECES != 0 {
                aux.extend(stream.pieces_of(item));
            }
            tally.event(item.type_index);
            events += 1;
            let event = Event {
                event_type: &known.event_type,
                type_index: item.type_index as usize,
                stream: stream.id,
                serial,
                enters_scope: flags & ENTERS != 0,
                fixed,
                aux: &aux,
            };
            visitor.event(&event);
            match known.role {
                ReaderRole::None => {}
                ReaderRole::Settled(offset) => {
                    let watermark = event.unsigned(usize::from(offset), 8);
                    if !self.serials.is_known() && watermark <= MAX_FIRST_SERIAL {
                        self.serials.seed(watermark + BIAS);
                    }
                    // NOTE: only the lower 24 bits are used, so that a damaged value does little
                    // harm.
                    let watermark = self.serials.nearest(watermark as u32);
                    self.serials.reached(watermark);
                    self.watermark = self.watermark.max(Some(watermark));
                }
                // `Records` takes in this important event.
                ReaderRole::FirstSerial(_) => {}
                // `Merge::jump` finds this event.
                ReaderRole::NewTrace => {}
                // Taken in by `ThreadStream::parse`.
                ReaderRole::ThreadTiming(_) => {}
            }
        }
        self.next = next;
        stream.counts.events += events;
        // Damaged input leaves bytes without items in the buffer.
        if done > 0 || stream.waiting().is_empty() {
            stream.delivered(done);
        }
    }
}

/// The serial under which a stream waits: the serial of its first item, if that item is a complete
/// event with a serial.
fn key(stream: &ThreadStream) -> Option<u64> {
    stream
        .waiting()
        .first()
        .filter(|item| item.flags & (UNFINISHED | SYNCED) == SYNCED)
        .map(|i| i.serial)
}
