//! Parses the items of a stream.

use super::super::event::{Stamp, Visitor};
use super::super::schemas::{Protocol, ReaderRole, TypeInfo, Types};
use super::super::serials::{BIAS, Serials};
use super::super::tally::Tally;
use super::{
    ENTERS, MAX_INSIDE_UNFINISHED, MISPLACED, Notice, PendingItem, STAMPS, SYNCED, Stop,
    ThreadStream, UNFINISHED, UnfinishedEvent,
};
use memledger_format::layout::{PIECE, SERIAL_SIZE, StreamItem, UID_SIZE, first_item, first_uid};

impl ThreadStream {
    /// Parses the bytes that have arrived, as far as possible. Returns the number of items that
    /// turned out to be misplaced.
    pub(in crate::read) fn parse(
        &mut self,
        protocol: &Protocol,
        types: &mut Types,
        serials: &mut Serials,
        tally: &mut Tally,
        visitor: &mut impl Visitor,
    ) -> usize {
        if self.merging.blocked.is_some_and(|uid| types.layout(uid).is_none()) {
            return 0;
        }
        self.merging.blocked = None;
        self.drop_parsed_starts();
        let mut misplaced = 0;
        loop {
            let limit = self.limit();
            let misplaced = &mut misplaced;
            let stop = if protocol.has_sizes() {
                self.parse_sized(limit, protocol, types, serials, misplaced, tally, visitor)
            } else {
                self.parse_to(limit, protocol, types, serials, misplaced)
            };
            self.drop_parsed_starts();
            if self.stray > 0 || self.scopes.unopened_leave == Notice::Due {
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
                    self.merging.blocked = Some(uid);
                    break;
                }
                Stop::Illegal(what) if protocol.has_sizes() => {
                    let from = self.parsed + 1;
                    self.seek(from, limit, Some(&what), protocol, types, tally, visitor);
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
            let mut info = TypeInfo::default();
            let find = |uid| {
                info = types.info(uid)?;
                Some(info.layout)
            };
            let Some((item, size)) = first_item(rest, protocol.version, find) else {
                return no_item(rest, types);
            };
            if rest.len() < size {
                return Stop::Partial;
            }
            let StreamItem::Event(_, layout) = item else {
                if let Some(stop) = self.builtin(item, size, limit, protocol, types) {
                    return stop;
                }
                continue;
            };
            let head = size - usize::from(layout.fixed_size);
            let mut flags = 0;
            let mut serial = 0;
            if layout.synced && !self.unordered {
                let low =
                    rest.get(head - SERIAL_SIZE..).and_then(|r| r.first_chunk::<SERIAL_SIZE>());
                let Some(&[a, b, c]) = low else { return Stop::Partial };
                serial = self.number(u32::from_le_bytes([a, b, c, 0]), serials, misplaced);
                flags = SYNCED;
            }
            if info.has_role
                && let Some(known) = types.get(info.type_index)
                && let ReaderRole::ThreadTiming(offset) = known.role
            {
                self.base_timestamp(self.parsed + head + usize::from(offset));
            }
            flags |= self.enter_scope();
            let at = self.base.wrapping_add((self.parsed + head) as u32);
            self.items.push(PendingItem { serial, at, type_index: info.type_index, aux: 0, flags });
            self.parsed += size;
            if layout.has_arrays {
                self.begin_aux();
            }
        }
    }

    /// Takes in the serial of the next item, of which `low` is in the stream. Returns it unwrapped,
    /// if the first serial of the trace is known.
    ///
    /// PERF: inlined, because it is needed for each event.
    #[inline(always)]
    pub(super) fn number(&mut self, low: u32, serials: &mut Serials, misplaced: &mut usize) -> u64 {
        if serials.is_collecting() {
            serials.collect();
            return BIAS + u64::from(low);
        }
        let serial = serials.unwrap(low, self.serials.last);
        if serial > self.serials.last {
            self.serials.before = self.serials.last;
            self.serials.last = serial;
        } else {
            *misplaced += self.out_of_line(serial);
        }
        serial
    }

    /// If a scope was opened, the next event opens it: returns the flag for that event.
    #[inline]
    pub(super) fn enter_scope(&mut self) -> u8 {
        if self.scopes.entering == 0 {
            return 0;
        }
        self.scopes.entering = 0;
        self.scopes.depth = self.scopes.depth.saturating_add(1);
        if let Some(stamp) = self.scopes.entered_at.take() {
            self.push_stamp(stamp);
        }
        ENTERS
    }

    /// The time that the next one is relative to is at this index.
    #[cold]
    pub(super) fn base_timestamp(&mut self, index: usize) {
        if let Some(&base) = self.bytes.get(index..).and_then(|rest| rest.first_chunk()) {
            self.scopes.stamped = u64::from_le_bytes(base);
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
        if serial <= self.serials.before {
            return 0;
        }
        // The new serial is higher than the one before the last, so the last one is wrong.
        self.serials.last = serial;
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
    pub(super) fn begin_aux(&mut self) {
        let Some(index) = self.items.len().checked_sub(1) else { return };
        if let Some(item) = self.items.get_mut(index) {
            item.flags |= UNFINISHED;
        }
        self.unfinished.push(UnfinishedEvent { item: index, pieces: self.unfinished_pieces.len() });
    }
}

/// Why `rest` begins with no item: nothing or too little has arrived, an unknown type, or bytes
/// that no item begins with.
#[cold]
fn no_item(rest: &[u8], types: &Types) -> Stop {
    let Some(&first) = rest.first() else { return Stop::End };
    match first_uid(rest) {
        Some((uid, _)) if types.info(uid).is_none() => Stop::Unknown(uid),
        None if first & 1 != 0 && rest.len() < UID_SIZE => Stop::Partial,
        None if first == PIECE => Stop::Partial,
        _ => Stop::Illegal(format!("no event starts with byte 0x{first:02x}")),
    }
}
