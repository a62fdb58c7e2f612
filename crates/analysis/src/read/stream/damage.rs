//! Bytes of a stream that cannot be delivered: drops them, and reports the damage.

use super::super::event::Visitor;
use super::super::tally::Tally;
use super::{DROPPED, Notice, ThreadStream};

impl ThreadStream {
    #[cold]
    pub(super) fn report_notices(&mut self, tally: &mut Tally, visitor: &mut impl Visitor) {
        let (id, stray) = (self.id, std::mem::take(&mut self.stray));
        if stray > 0 {
            let what = format!("{stray} bytes of stream {id} continue an event that was lost");
            tally.damage(visitor, self.offset(), stray, what);
        }
        if self.scopes.unopened_leave == Notice::Due {
            self.scopes.unopened_leave = Notice::Made;
            let what = format!("stream {id} leaves a scope that it has not entered");
            tally.damage(visitor, self.offset(), 0, what);
        }
    }

    /// Stops waiting for the type of the next event, and drops the rest of its packet.
    pub(in crate::read) fn skip_unknown(&mut self, tally: &mut Tally, visitor: &mut impl Visitor) {
        if let Some(uid) = self.merging.blocked.take() {
            self.merging.blocked_syncs = 0;
            self.seeking = true;
            self.skip_packet(&format!("it has an event of unknown type {uid}"), tally, visitor);
        }
    }

    /// The stream has ended: drops the last event if it is incomplete.
    pub(in crate::read) fn end(&mut self, tally: &mut Tally, visitor: &mut impl Visitor) {
        self.merging.blocked = None;
        let end = self.bytes.len();
        self.cross_loss(end, tally, visitor);
    }

    /// Continues after a loss: bytes are missing at `limit`, so drops the event that is cut off
    /// there, and all unfinished events.
    pub(super) fn cross_loss(
        &mut self,
        limit: usize,
        tally: &mut Tally,
        visitor: &mut impl Visitor,
    ) {
        let rest = limit - self.parsed;
        let unfinished = self.drop_unfinished();
        if rest > 0 || unfinished > 0 {
            let id = self.id;
            let what = match rest {
                0 => format!("{unfinished} unfinished events of stream {id} have lost their ends"),
                _ => format!("stream {id} breaks off {rest} bytes into an event"),
            };
            tally.damage(visitor, self.offset(), rest, what);
        }
        self.scopes.entering = 0;
        self.scopes.entered_at = None;
        self.seeking = true;
        self.parsed = limit;
        self.drop_parsed_starts();
        while self.breaks.front().is_some_and(|at| at.wrapping_sub(self.base) as usize <= limit) {
            self.breaks.pop_front();
        }
    }

    /// Drops the rest of the current packet.
    pub(super) fn skip_packet(
        &mut self,
        what: &str,
        tally: &mut Tally,
        visitor: &mut impl Visitor,
    ) {
        let next = match self.packet_starts.get(1) {
            Some(start) => start.at.wrapping_sub(self.base) as usize,
            None => self.bytes.len(),
        };
        let (id, skipped) = (self.id, next - self.parsed);
        self.drop_unfinished();
        let what =
            format!("the last {skipped} bytes of a packet of stream {id} cannot be read: {what}");
        tally.damage(visitor, self.offset(), skipped, what);
        self.scopes.entering = 0;
        self.scopes.entered_at = None;
        self.parsed = next;
        self.drop_parsed_starts();
    }

    /// Drops all unfinished events; returns their number.
    pub(super) fn drop_unfinished(&mut self) -> usize {
        let count = self.unfinished.len();
        for event in self.unfinished.drain(..) {
            if let Some(item) = self.items.get_mut(event.item) {
                item.flags = DROPPED;
            }
        }
        self.unfinished_pieces.clear();
        count
    }
}
