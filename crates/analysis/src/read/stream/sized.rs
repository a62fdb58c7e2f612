//! Parses the items of a stream of protocols 0 to 4, whose events have a size in their header.

use super::{DROPPED, HAS_PIECES, LAST_PIECE, PendingItem, Piece, SYNCED, Stop, ThreadStream};
use crate::read::event::{ATTACHMENT, Visitor};
use crate::read::protocol0::{
    Head, Item, NoItem, PIECE, PIECE_HEAD, PIECES_END, find_events, first_item, has_arrays_inside,
    piece,
};
use crate::read::records::add_type;
use crate::read::schemas::{Protocol, ReaderRole, TypeInfo, Types};
use crate::read::serials::{BIAS, Serials};
use crate::read::tally::Tally;
use memledger_format::layout::StreamItem;

impl ThreadStream {
    /// Parses items up to the byte `limit`, or up to an item that it cannot parse.
    #[expect(clippy::too_many_arguments, reason = "the state of the reader is in separate parts")]
    pub(super) fn parse_sized(
        &mut self,
        limit: usize,
        protocol: &Protocol,
        types: &mut Types,
        serials: &mut Serials,
        misplaced: &mut usize,
        tally: &mut Tally,
        visitor: &mut impl Visitor,
    ) -> Stop {
        if std::mem::take(&mut self.seeking) {
            self.seek(self.parsed, limit, None, protocol, types, tally, visitor);
        }
        loop {
            if !self.unfinished.is_empty() {
                match self.piece_or_end(limit, types) {
                    Some(stop) => return stop,
                    None => continue,
                }
            }
            let Some(rest) = self.bytes.get(self.parsed..limit) else { return Stop::End };
            let (head, info) = match first_item(rest, protocol, types) {
                Ok(Item::Scope { size, .. }) if rest.len() < size => return Stop::Partial,
                Ok(Item::Scope { enters, size }) => {
                    let item = if enters { StreamItem::Enter } else { StreamItem::Leave };
                    self.builtin(item, size, limit, protocol, types);
                    continue;
                }
                Ok(Item::TypeRecord(head)) => {
                    let Some(record) = rest.get(head.size..head.size + head.body) else {
                        return Stop::Partial;
                    };
                    match protocol.type_record(record) {
                        Ok(new) => add_type(new, protocol, types, tally, visitor),
                        Err(what) => return Stop::Illegal(what),
                    };
                    self.skip(head, serials, misplaced);
                    continue;
                }
                Ok(Item::Event(head, info)) => (head, info),
                Err(NoItem::End) => return Stop::End,
                Err(NoItem::Partial) => return Stop::Partial,
                // A trace of protocol 0 has one stream, so no other stream declares the type.
                Err(NoItem::Unknown(uid)) if protocol.version == 0 => {
                    return Stop::Illegal(format!("an event has the unknown type {uid}"));
                }
                Err(NoItem::Unknown(uid)) => return Stop::Unknown(uid),
                Err(NoItem::Illegal(what)) => return Stop::Illegal(what),
            };
            if rest.len() < head.size + head.body {
                return Stop::Partial;
            }
            if let Some(stop) = self.sized_event(head, info, protocol, types, serials, misplaced) {
                return stop;
            }
        }
    }

    /// Passes a type record, which may have a serial.
    fn skip(&mut self, head: Head, serials: &mut Serials, misplaced: &mut usize) {
        if let Some(low) = head.serial {
            let serial = self.number(low, serials, misplaced);
            let (at, flags) = (self.position(self.parsed), SYNCED | DROPPED);
            self.items.push(PendingItem { serial, at, type_index: 0, aux: 0, flags });
        }
        self.parsed += head.size + head.body;
    }

    /// Parses one event, of which all but the arrays after it has arrived.
    fn sized_event(
        &mut self,
        head: Head,
        info: TypeInfo,
        protocol: &Protocol,
        types: &Types,
        serials: &mut Serials,
        misplaced: &mut usize,
    ) -> Option<Stop> {
        let fixed = usize::from(info.layout.fixed_size);
        let inside = has_arrays_inside(head, info, protocol, types);
        self.unfinished_pieces.clear();
        if inside {
            let start = self.parsed + head.size + fixed;
            if let Err(what) = self.pieces_inside(start, head.body - fixed, info, types) {
                return Some(Stop::Illegal(what));
            }
        } else if head.body > fixed {
            let at = self.position(self.parsed + head.size + fixed);
            let size = (head.body - fixed) as u32;
            self.unfinished_pieces.push(Piece { at, size, field: ATTACHMENT });
        }
        if info.has_role
            && let Some(known) = types.get(info.type_index)
            && let ReaderRole::ThreadTiming(offset) = known.role
        {
            self.base_timestamp(self.parsed + head.size + usize::from(offset));
        }
        let mut flags = 0;
        let mut serial = 0;
        if let Some(low) = head.serial {
            serial = self.number(low, serials, misplaced);
            flags = SYNCED;
        }
        flags |= self.enter_scope();
        let at = self.position(self.parsed + head.size);
        self.items.push(PendingItem { serial, at, type_index: info.type_index, aux: 0, flags });
        self.parsed += head.size + head.body;
        if info.layout.has_arrays && !inside {
            self.begin_aux();
            if let Some(event) = self.unfinished.last_mut() {
                event.pieces = 0;
            }
        } else if !self.unfinished_pieces.is_empty() {
            let aux = self.pieces.len() as u32;
            self.pieces.append(&mut self.unfinished_pieces);
            self.pieces.push(LAST_PIECE);
            if let Some(item) = self.items.last_mut() {
                item.aux = aux;
                item.flags |= HAS_PIECES;
            }
        }
        None
    }

    /// Parses a piece of the arrays after an event, or their end.
    fn piece_or_end(&mut self, limit: usize, types: &Types) -> Option<Stop> {
        let rest = self.bytes.get(self.parsed..limit).unwrap_or_default();
        match rest.first() {
            None => return Some(Stop::End),
            Some(&PIECES_END) => return self.terminal(),
            Some(&first) if first & PIECE == 0 => {
                return Some(Stop::Illegal(format!("no array starts with byte 0x{first:02x}")));
            }
            Some(_) => {}
        }
        let Some((field, size)) = piece(rest) else { return Some(Stop::Partial) };
        let owner = self.unfinished.last().and_then(|event| self.items.get(event.item));
        if !owner.is_some_and(|item| is_array(types, item.type_index, field)) {
            return Some(Stop::Illegal(format!(
                "array data for field {field}, which is not an array"
            )));
        }
        if rest.len() < PIECE_HEAD + size {
            return Some(Stop::Partial);
        }
        let at = self.position(self.parsed + PIECE_HEAD);
        self.unfinished_pieces.push(Piece { at, size: size as u32, field });
        self.parsed += PIECE_HEAD + size;
        None
    }

    /// Parses the arrays inside an event, in the `size` bytes from `start`.
    fn pieces_inside(
        &mut self,
        start: usize,
        size: usize,
        info: TypeInfo,
        types: &Types,
    ) -> Result<(), String> {
        let broken =
            || format!("the arrays of an event of type {} cannot be read", info.type_index);
        let mut at = start;
        loop {
            let rest = self.bytes.get(at..start + size).ok_or_else(broken)?;
            match rest.first() {
                Some(&PIECES_END) => return Ok(()),
                Some(&first) if first & PIECE != 0 => {}
                _ => return Err(broken()),
            }
            let (field, size) = piece(rest).ok_or_else(broken)?;
            if !is_array(types, info.type_index, field) || rest.len() < PIECE_HEAD + size {
                return Err(broken());
            }
            let piece = Piece { at: self.position(at + PIECE_HEAD), size: size as u32, field };
            self.unfinished_pieces.push(piece);
            at += PIECE_HEAD + size;
        }
    }

    /// Passes over bytes until events begin again, and reports them. `what` is what is wrong at
    /// `from`, the first byte that can be the start of an event.
    #[cold]
    #[expect(clippy::too_many_arguments, reason = "the state of the reader is in separate parts")]
    pub(super) fn seek(
        &mut self,
        from: usize,
        limit: usize,
        what: Option<&str>,
        protocol: &Protocol,
        types: &Types,
        tally: &mut Tally,
        visitor: &mut impl Visitor,
    ) {
        let rest = self.bytes.get(from..limit).unwrap_or_default();
        let next = from + find_events(rest, protocol, types).unwrap_or(rest.len());
        // If nothing was found, events begin somewhere in the next bytes.
        self.seeking = next == limit;
        let (id, skipped) = (self.id, next - self.parsed);
        self.drop_unfinished();
        self.scopes.entering = 0;
        self.scopes.entered_at = None;
        if skipped > 0 {
            let what = what.unwrap_or("they are not the start of an event");
            let what = format!("{skipped} bytes of stream {id} cannot be read: {what}");
            tally.damage(visitor, self.offset(), skipped, what);
        }
        self.parsed = next;
        self.drop_parsed_starts();
    }

    /// The packet has ended, and with it the last event (transport 2). Drops up to three unused
    /// bytes; more of them are damage.
    pub(in crate::read) fn end_packet(&mut self, tally: &mut Tally, visitor: &mut impl Visitor) {
        let rest = self.bytes.len() - self.parsed;
        if rest > 3 && !self.seeking {
            let what = format!("stream {} breaks off {rest} bytes into an event", self.id);
            tally.damage(visitor, self.offset(), rest, what);
        }
        self.seeking = false;
        self.parsed = self.bytes.len();
        self.drop_parsed_starts();
    }

    /// Unwraps the serials that were collected. `jump` is the index of an item and the serial from
    /// which the serials after it go on. Returns the number of items that are misplaced.
    pub(in crate::read) fn number_collected(
        &mut self,
        jump: Option<(usize, u64)>,
        serials: &mut Serials,
    ) -> usize {
        self.drop_items();
        let mut misplaced = 0;
        let items = std::mem::take(&mut self.items);
        self.items.reserve_exact(items.len());
        for (index, mut item) in items.into_iter().enumerate() {
            if item.flags & SYNCED != 0 {
                item.serial = self.number((item.serial - BIAS) as u32, serials, &mut misplaced);
            }
            self.items.push(item);
            if let Some((_, serial)) = jump.filter(|&(last, _)| last == index) {
                serials.seed(serial);
                serials.set_floor(serial);
            }
        }
        misplaced
    }
}

fn is_array(types: &Types, type_index: u32, field: u8) -> bool {
    let fields = types.get(type_index).map(|known| &known.event_type.fields);
    fields
        .and_then(|fields| fields.get(usize::from(field)))
        .is_some_and(|f| f.field_type.is_array())
}
