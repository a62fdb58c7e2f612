//! The one-byte events of a thread's stream: scopes, array data, and the ends of events.

use super::{
    HAS_PIECES, LAST_PIECE, LEAVES, Notice, PendingItem, Piece, Stop, ThreadStream, UNFINISHED,
};
use crate::read::event::Stamp;
use crate::read::schemas::{Protocol, Types};
use memledger_format::layout::StreamItem;

impl ThreadStream {
    /// Parses an item of `size` bytes that is no event and has arrived. Returns the reason if parsing must
    /// stop.
    pub(super) fn builtin(
        &mut self,
        item: StreamItem,
        size: usize,
        limit: usize,
        protocol: &Protocol,
        types: &Types,
    ) -> Option<Stop> {
        let enters = match item {
            StreamItem::Piece => return self.piece(limit, types),
            StreamItem::ArraysEnd => return self.terminal(),
            _ => item == StreamItem::Enter,
        };
        let rest = self.bytes.get(self.parsed..limit).unwrap_or_default();
        let stamp = match *rest {
            [_, a, b, c, d, e, f, g, ..] if size == 8 => {
                let stamp = u64::from_le_bytes([a, b, c, d, e, f, g, 0]);
                let base = if protocol.stamps_add_up { self.scopes.stamped } else { 0 };
                self.scopes.stamped = base.wrapping_add(stamp);
                Some(Stamp::SinceStart(self.scopes.stamped))
            }
            [_, a, b, c, d, e, f, g, h, ..] if size == 9 => {
                Some(Stamp::Cycle(u64::from_le_bytes([a, b, c, d, e, f, g, h])))
            }
            _ => None,
        };
        self.parsed += size;
        if enters {
            self.scopes.entering = self.scopes.entering.saturating_add(1);
            self.scopes.entered_at = stamp;
        } else if self.scopes.entering > 0 {
            self.scopes.entering -= 1;
            self.scopes.entered_at = None;
        } else if self.scopes.depth > 0 {
            self.scopes.depth -= 1;
            if let Some(stamp) = stamp {
                self.push_stamp(stamp);
            }
            let at = self.position(self.parsed);
            self.items.push(PendingItem { serial: 0, at, type_index: 0, aux: 0, flags: LEAVES });
        } else if self.scopes.unopened_leave == Notice::None {
            self.scopes.unopened_leave = Notice::Due;
        }
        None
    }

    fn piece(&mut self, limit: usize, types: &Types) -> Option<Stop> {
        let rest = self.bytes.get(self.parsed..limit).unwrap_or_default();
        let Some(&header) = rest.first_chunk::<4>() else { return Some(Stop::Partial) };
        let header = u32::from_le_bytes(header);
        let (field, size) = ((header >> 8 & 0x1f) as u8, header >> 13);
        let at = self.position(self.parsed + 4);
        let owner = self.unfinished.last().and_then(|event| self.items.get(event.item));
        let fields =
            owner.and_then(|item| types.get(item.type_index)).map(|t| &t.event_type.fields);
        let fits = fields.is_some_and(|fields| {
            fields.get(usize::from(field)).is_some_and(|field| field.field_type.is_array())
        });
        if fits {
            self.unfinished_pieces.push(Piece { at, size, field });
        } else if self.pass_stray(4 + size as usize) {
            // The loss before this data contains the ends of the unfinished events, too.
            self.drop_unfinished();
        } else {
            return Some(Stop::Illegal(format!(
                "array data for field {field}, which is not an array"
            )));
        }
        self.parsed += 4 + size as usize;
        None
    }

    pub(super) fn terminal(&mut self) -> Option<Stop> {
        match self.unfinished.pop() {
            Some(event) => {
                let start = self.pieces.len();
                self.pieces.extend(self.unfinished_pieces.drain(event.pieces..));
                if let Some(item) = self.items.get_mut(event.item) {
                    item.flags &= !UNFINISHED;
                    if self.pieces.len() > start {
                        item.aux = start as u32;
                        item.flags |= HAS_PIECES;
                        self.pieces.push(LAST_PIECE);
                    }
                }
            }
            None if !self.pass_stray(1) => {
                return Some(Stop::Illegal("the end of an event without its beginning".into()));
            }
            None => {}
        }
        self.parsed += 1;
        None
    }

    /// Whether the next `size` bytes, which are array data or a terminal without an event, may be
    /// the rest of an event whose beginning was lost. Such a rest is at the start of a packet.
    fn pass_stray(&mut self, size: usize) -> bool {
        self.drop_parsed_starts();
        let here = self.position(self.parsed);
        let expected = self.stray_end == Some(here)
            || self.packet_starts.front().is_some_and(|s| s.at == here);
        if expected {
            self.stray += size;
            self.stray_end = Some(self.position(self.parsed + size));
        }
        expected
    }
}
