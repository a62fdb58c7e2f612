//! Parses the items of a stream.

use super::super::event::{Stamp, Visitor};
use super::super::protocol::Builtin;
use super::super::schemas::{Protocol, ReaderRole, Types};
use super::super::serials::Serials;
use super::super::tally::Tally;
use super::{
    ENTERS, MAX_INSIDE_UNFINISHED, MISPLACED, Notice, PendingItem, STAMPS, SYNCED, Stop,
    ThreadStream, UNFINISHED, UnfinishedEvent,
};
use crate::trace::format::schema::FIRST_UID;

impl ThreadStream {
    /// Parses the bytes that have arrived, as far as possible. Returns the number of items that
    /// turned out to be misplaced.
    pub(in crate::trace::read) fn parse(
        &mut self,
        protocol: &Protocol,
        types: &Types,
        serials: &mut Serials,
        tally: &mut Tally,
        visitor: &mut impl Visitor,
    ) -> usize {
        if self.blocked.is_some_and(|uid| types.layout(uid).is_none()) {
            return 0;
        }
        self.blocked = None;
        self.drop_parsed_starts();
        let mut misplaced = 0;
        loop {
            let limit = self.limit();
            let stop = self.parse_to(limit, protocol, types, serials, &mut misplaced);
            self.drop_parsed_starts();
            if self.stray > 0 || self.unopened_leave == Notice::Due {
                self.report_notices(tally, visitor);
            }
            match stop {
                Stop::End | Stop::Partial if limit == self.bytes.len() && !self.lost => break,
                Stop::End | Stop::Partial => {
                    // The next bytes do not continue the bytes before `limit`.
                    self.cross_loss(limit, tally, visitor);
                    if limit == self.bytes.len() {
                        break;
                    }
                }
                Stop::Unknown(uid) => {
                    self.blocked = Some(uid);
                    break;
                }
                Stop::Illegal(what) => self.skip_packet(&what, tally, visitor),
            }
        }
        if self
            .unfinished
            .first()
            .is_some_and(|event| self.items.len() - event.item > MAX_INSIDE_UNFINISHED)
        {
            let unfinished = self.drop_unfinished();
            let what = format!("{unfinished} unfinished events of stream {} do not end", self.id);
            tally.damage(visitor, self.offset(), 0, what);
        }
        misplaced
    }

    /// Parses items up to the byte `limit`, or up to an item that it cannot parse.
    ///
    /// PERF: one long function, because it is the slow path's loop over bytes.
    fn parse_to(
        &mut self,
        limit: usize,
        protocol: &Protocol,
        types: &Types,
        serials: &mut Serials,
        misplaced: &mut usize,
    ) -> Stop {
        loop {
            let Some(rest) = self.bytes.get(self.parsed..limit) else { return Stop::End };
            let Some(&first) = rest.first() else { return Stop::End };
            let (uid, uid_size) = if first & 1 != 0 {
                let Some(&uid) = rest.first_chunk::<2>() else { return Stop::Partial };
                (u16::from_le_bytes(uid) >> 1, 2)
            } else {
                (u16::from(first >> 1), 1)
            };
            if uid < FIRST_UID {
                let builtin = protocol.builtin.get(usize::from(uid)).filter(|_| uid_size == 1);
                let builtin = builtin.copied().unwrap_or(Builtin::Illegal);
                if let Some(stop) = self.builtin(builtin, limit, protocol, types) {
                    return stop;
                }
                continue;
            }
            let Some(layout) = types.layout(uid) else { return Stop::Unknown(uid) };
            let head = uid_size + if layout.synced { 3 } else { 0 };
            let size = head + usize::from(layout.fixed_size);
            if rest.len() < size {
                return Stop::Partial;
            }
            if layout.has_role
                && let Some(known) = types.get(layout.type_index)
                && let ReaderRole::ThreadTiming(offset) = known.role
                && let Some(&base) =
                    rest.get(head + usize::from(offset)..).and_then(|r| r.first_chunk())
            {
                self.stamped = u64::from_le_bytes(base);
            }
            let mut flags = 0;
            let mut serial = 0;
            if layout.synced && !self.unordered {
                let low = rest.get(uid_size..).and_then(|r| r.first_chunk::<3>());
                let Some(&[a, b, c]) = low else { return Stop::Partial };
                serial = serials.unwrap(u32::from_le_bytes([a, b, c, 0]), self.last_serial);
                flags = SYNCED;
                if serial > self.last_serial {
                    self.serial_before_last = self.last_serial;
                    self.last_serial = serial;
                } else {
                    *misplaced += self.out_of_line(serial);
                }
            }
            if self.entering > 0 {
                self.entering = 0;
                self.depth = self.depth.saturating_add(1);
                flags |= ENTERS;
                if let Some(stamp) = self.entered_at.take() {
                    self.push_stamp(stamp);
                }
            }
            let at = self.base.wrapping_add((self.parsed + head) as u32);
            self.items.push(PendingItem {
                serial,
                at,
                type_index: layout.type_index,
                aux: 0,
                flags,
            });
            self.parsed += size;
            if layout.has_aux {
                self.begin_aux();
            }
        }
    }

    /// Adds an item with the time of the next item.
    pub(super) fn push_stamp(&mut self, stamp: Stamp) {
        let (serial, type_index) = match stamp {
            Stamp::SinceStart(cycles) => (cycles, 0),
            Stamp::Cycle(cycle) => (cycle, 1),
        };
        let at = self.position(self.parsed);
        self.items.push(PendingItem { serial, at, type_index, aux: 0, flags: STAMPS });
    }

    /// Handles a serial that is not higher than the last one, which means that one of the two is
    /// wrong. Returns the number of items that it marks as misplaced.
    #[cold]
    fn out_of_line(&mut self, serial: u64) -> usize {
        // The new serial is wrong, or its event is late; the event is delivered out of order.
        if serial <= self.serial_before_last {
            return 0;
        }
        // The new serial is higher than the one before the last, so the last one is wrong.
        self.last_serial = serial;
        let head = self.head;
        let items = self.items.get_mut(head..).unwrap_or_default();
        match items.iter_mut().rev().find(|item| item.flags & SYNCED != 0) {
            Some(item) if item.serial > serial && item.flags & MISPLACED == 0 => {
                item.serial = serial;
                item.flags |= MISPLACED;
                1
            }
            _ => 0,
        }
    }

    #[inline(never)]
    fn begin_aux(&mut self) {
        let Some(index) = self.items.len().checked_sub(1) else { return };
        if let Some(item) = self.items.get_mut(index) {
            item.flags |= UNFINISHED;
        }
        self.unfinished.push(UnfinishedEvent { item: index, pieces: self.unfinished_pieces.len() });
    }
}
