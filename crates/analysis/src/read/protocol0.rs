//! Protocols 0 to 4 (Unreal Engine 4.23 to 4.27, and 5.0 Early Access): events with a size in their
//! header, and what may follow their fields.
//!
//! ```text
//! event     header | fields | attachment | pieces, 0x00     only if the type may have arrays
//!                  |<--- size -------->|
//! piece     u32 0x80 | field | size << 8, data
//!
//! protocol  header of an event                      of a type record
//! 0         u16 uid, u16 size                       u16 0, u16 size
//! 1         u16 uid, u16 size, u16 serial           u16 0, u16 size, u16 serial
//! 2         u16 uid, u16 size, u24 serial *         u16 0, u16 size, u24 serial
//! 3         u16 uid, u16 size, u24 serial *         u16 0, u16 size
//! 4         u16 uid << 1 | 1, u16 size, u24 serial *    u16 1, u16 size
//!           u8 2, u8 6: enters, leaves a scope; u8 4, u8 8: the same, and u56 cycles
//! *  no serial if the type has `NO_SYNC`
//! ```
//! The highest bits of a uid are flags that have no use here: two bits in protocol 0, one in 1 to 3.
//! After the magic number `TRC2`, the arrays and their end are *inside* the size of an important
//! event of protocol 4, and unused bytes may follow them.

use super::resync::payload::begins_near_start;
use super::schemas::{Protocol, TypeInfo, Types};
use memledger_format::schema::{IMPORTANT, NO_SYNC};
use std::ops::RangeInclusive;

/// The uids of types.
pub(super) const UIDS: RangeInclusive<u16> = 1..=0x7fff;
/// Set in the first byte of a piece of an array; the other bits are the index of its field.
pub(super) const PIECE: u8 = 0x80;
/// Bytes before the data of a piece.
pub(super) const PIECE_HEAD: usize = 4;
/// Ends the pieces of an event.
pub(super) const PIECES_END: u8 = 0;

/// Bytes without a header; the largest header has 7.
const HEADER: usize = 4;
/// No known writer makes an attachment of more bytes. Used only to find events after damage.
const MAX_LIKELY_ATTACHMENT: usize = 8192;
/// After damage, the number of consecutive legal events that mark the start of an event, and the
/// number of items within which they must come.
const MIN_LEGAL_EVENTS: usize = 3;
const MAX_LEGAL_ITEMS: usize = 16;

/// The flags of a type as they apply to the layout of its events.
pub(super) fn layout_flags(protocol: &Protocol, flags: u8) -> u8 {
    match protocol.version {
        0 => NO_SYNC,
        1 => flags & !NO_SYNC,
        4 if flags & IMPORTANT != 0 && protocol.arrays_inside == Some(true) => flags | NO_SYNC,
        _ => flags,
    }
}

/// What a thread's stream consists of.
#[derive(Clone, Copy)]
pub(super) enum Item {
    /// The opening or the closing of a scope, and its size in bytes.
    Scope {
        enters: bool,
        size: usize,
    },
    TypeRecord(Head),
    Event(Head, TypeInfo),
}

/// The header of an event or a type record.
#[derive(Clone, Copy)]
pub(super) struct Head {
    /// Bytes of the header.
    pub size: usize,
    /// Bytes of the fields and the attachment.
    pub body: usize,
    /// The serial, if there is one.
    pub serial: Option<u32>,
}

/// Why bytes begin with no item that is known.
pub(super) enum NoItem {
    End,
    Partial,
    Unknown(u16),
    Illegal(String),
}

/// The item at the start of `bytes`, which contain its header.
pub(super) fn first_item(bytes: &[u8], protocol: &Protocol, types: &Types) -> Result<Item, NoItem> {
    let Some(&first) = bytes.first() else { return Err(NoItem::End) };
    if protocol.version == 4 && first & 1 == 0 {
        let (enters, size) = match first {
            2 => (true, 1),
            4 => (true, 8),
            6 => (false, 1),
            8 => (false, 8),
            _ => return Err(NoItem::Illegal(format!("no event starts with byte 0x{first:02x}"))),
        };
        return Ok(Item::Scope { enters, size });
    }
    let Some(&[u0, u1, s0, s1]) = bytes.first_chunk() else { return Err(NoItem::Partial) };
    let tag = u16::from_le_bytes([u0, u1]);
    let uid = match protocol.version {
        0 => tag & 0x3fff,
        1..=3 => tag & 0x7fff,
        _ => tag >> 1,
    };
    let info = types.info(uid);
    let synced = match (uid, info) {
        (0, _) => matches!(protocol.version, 1 | 2),
        (_, Some(info)) => info.layout.synced,
        (_, None) => return Err(NoItem::Unknown(uid)),
    };
    let serial_size = match (synced, protocol.version) {
        (false, _) => 0,
        (true, 1) => 2,
        (true, _) => 3,
    };
    let size = HEADER + serial_size;
    let Some(serial) = bytes.get(HEADER..size) else { return Err(NoItem::Partial) };
    let serial = synced.then(|| serial.iter().rfold(0, |all, &byte| all << 8 | u32::from(byte)));
    let head = Head { size, body: usize::from(u16::from_le_bytes([s0, s1])), serial };
    Ok(match info.filter(|_| uid != 0) {
        None => Item::TypeRecord(head),
        Some(info) if head.body < usize::from(info.layout.fixed_size) => {
            return Err(NoItem::Illegal(format!(
                "an event of type {uid} has {} bytes instead of {}",
                head.body, info.layout.fixed_size
            )));
        }
        Some(info) => Item::Event(head, info),
    })
}

/// Whether the arrays of an event are inside its size.
pub(super) fn has_arrays_inside(
    head: Head,
    info: TypeInfo,
    protocol: &Protocol,
    types: &Types,
) -> bool {
    protocol.version == 4
        && info.layout.has_arrays
        && types.get(info.type_index).is_some_and(|known| known.event_type.is_important())
        // NOTE: without the magic number an attachment of such an event would be taken for its
        // arrays. No writer makes one.
        && protocol.arrays_inside.unwrap_or(head.body > usize::from(info.layout.fixed_size))
}

/// The header of the piece that `bytes` begin with: the index of its field, and the size of its
/// data. `None` if too few bytes have arrived.
pub(super) fn piece(bytes: &[u8]) -> Option<(u8, usize)> {
    let head = u32::from_le_bytes(*bytes.first_chunk()?);
    Some((head as u8 & !PIECE, (head >> 8) as usize))
}

/// The first offset at which events begin, as far as that can be known from the types: some
/// consecutive legal events, or fewer up to the end of `bytes`.
pub(super) fn find_events(bytes: &[u8], protocol: &Protocol, types: &Types) -> Option<usize> {
    (0..bytes.len()).find(|&start| {
        bytes.get(start..).is_some_and(|bytes| begins_with_events(bytes, protocol, types))
    })
}

/// Whether events of known types begin somewhere in the payload of a packet. Subtracts the cost in
/// bytes from `budget`.
pub(super) fn is_plausible(
    payload: &[u8],
    protocol: &Protocol,
    types: &Types,
    budget: &mut usize,
) -> bool {
    begins_near_start(payload, budget, |start| find_events(start, protocol, types).is_some())
}

fn begins_with_events(mut bytes: &[u8], protocol: &Protocol, types: &Types) -> bool {
    let mut events = 0;
    for _ in 0..MAX_LEGAL_ITEMS {
        let size = match first_item(bytes, protocol, types) {
            Ok(Item::Scope { size, .. }) => Some(size),
            Ok(Item::TypeRecord(head)) => {
                let record = bytes.get(head.size..head.size + head.body);
                if record.is_some_and(|record| protocol.type_record(record).is_err()) {
                    return false;
                }
                events += usize::from(record.is_some());
                record.map(|_| head.size + head.body)
            }
            Ok(Item::Event(head, info)) => {
                if head.body - usize::from(info.layout.fixed_size) > MAX_LIKELY_ATTACHMENT {
                    return false;
                }
                let mut size = Some(head.size + head.body);
                if info.layout.has_arrays && !has_arrays_inside(head, info, protocol, types) {
                    let Ok(whole) = with_pieces(bytes, head, info, types) else { return false };
                    size = whole;
                }
                events += usize::from(size.is_some_and(|size| size <= bytes.len()));
                size
            }
            Err(NoItem::End | NoItem::Partial) => return events > 0,
            Err(NoItem::Unknown(_) | NoItem::Illegal(_)) => return false,
        };
        if events >= MIN_LEGAL_EVENTS {
            return true;
        }
        match size.and_then(|size| bytes.get(size..)) {
            Some(rest) => bytes = rest,
            // The last item may continue in the next packet.
            None => return events > 0,
        }
    }
    false
}

/// The size of an event with the pieces of its arrays; `Ok(None)` if they are not whole, an error if
/// they are no pieces.
fn with_pieces(
    bytes: &[u8],
    head: Head,
    info: TypeInfo,
    types: &Types,
) -> Result<Option<usize>, ()> {
    let mut at = head.size + head.body;
    let fields = types.get(info.type_index).map_or(0, |known| known.event_type.fields.len());
    // A field has at most one piece.
    for _ in 0..=fields {
        match bytes.get(at) {
            None => return Ok(None),
            Some(&PIECES_END) => return Ok(Some(at + 1)),
            Some(_) => {}
        }
        let Some((field, size)) = bytes.get(at..).and_then(piece) else { return Ok(None) };
        if bytes[at] & PIECE == 0 || usize::from(field) >= fields {
            return Err(());
        }
        at += PIECE_HEAD + size;
    }
    Err(())
}
