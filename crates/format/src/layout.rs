//! Where the items of a thread's stream begin and end.
//!
//! ```text
//! item              bytes
//! piece of an array u8 2, u5 field, u19 size, data               (see `arrays`)
//! end of arrays     u8 6
//! enter, leave      u8 8, u8 10
//! with a time       u8 12, u8 14, u64 cycles                     protocol 7
//!                   u8 16, u8 18, u56 cycles                     protocol 7
//!                   u8 16, u8 24, u56 cycles                     protocols 5 and 6
//! event             u16 uid << 1 | 1, u24 serial if it is synchronised, fixed fields
//!                   u8 uid << 1, the same: readers accept it, no writer known to us uses it
//! ```
//! The size of an event needs a table of types, because only type records give the size of its
//! fields. All other items show their own size.

use super::arrays::PIECE_HEAD;
use super::schema::{FIRST_UID, MAYBE_HAS_AUX, NO_SYNC};

/// Bytes of the uid that an event begins with.
pub const UID_SIZE: usize = 2;
/// Bytes of a serial after the uid.
pub const SERIAL_SIZE: usize = 3;

/// A piece of an array.
pub const PIECE: u8 = 1 << 1;
/// Ends the arrays of an event.
pub const ARRAYS_END: u8 = 3 << 1;
/// Opens a scope, whose event is the next item.
pub const ENTER_SCOPE: u8 = 4 << 1;
/// Closes a scope.
pub const LEAVE_SCOPE: u8 = 5 << 1;
/// [`ENTER_SCOPE`], followed by the time in 8 bytes (protocol 7).
pub const ENTER_SCOPE_AT: u8 = 6 << 1;
/// [`LEAVE_SCOPE`], followed by the time in 8 bytes (protocol 7).
pub const LEAVE_SCOPE_AT: u8 = 7 << 1;
/// Bytes of [`ENTER_SCOPE_AT`] or [`LEAVE_SCOPE_AT`], time included.
pub const SCOPE_AT: usize = 9;

/// The layout of the events of one type on a thread's stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventLayout {
    /// Bytes of the fields, without the contents of arrays and strings: at most 255 fields of 8
    /// bytes.
    pub fixed_size: u16,
    /// Whether a serial follows the uid.
    pub synced: bool,
    /// Whether pieces of arrays follow the fields, and an end of arrays.
    pub has_arrays: bool,
}

impl EventLayout {
    /// The layout of a type with these `flags`, whose fields take `fixed_size` bytes.
    pub const fn new(fixed_size: usize, flags: u8) -> Self {
        Self {
            fixed_size: fixed_size as u16,
            synced: flags & NO_SYNC == 0,
            has_arrays: flags & MAYBE_HAS_AUX != 0,
        }
    }

    /// Bytes before the fields: uid and serial.
    pub const fn header(self) -> usize {
        UID_SIZE + if self.synced { SERIAL_SIZE } else { 0 }
    }

    /// Bytes of an event up to the next item.
    pub const fn size(self) -> usize {
        self.header() + self.fixed_size as usize
    }
}

/// One value for each event type, by uid.
#[derive(Debug)]
pub struct ByUid<T>(Vec<Option<T>>);

impl<T> Default for ByUid<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: Copy> ByUid<T> {
    /// Sets the value of the type with this uid.
    pub fn insert(&mut self, uid: u16, value: T) {
        let index = usize::from(uid);
        if self.0.len() <= index {
            self.0.resize(index + 1, None);
        }
        if let Some(entry) = self.0.get_mut(index) {
            *entry = Some(value);
        }
    }

    /// The value of the type with this uid.
    #[inline]
    pub fn get(&self, uid: u16) -> Option<T> {
        self.0.get(usize::from(uid)).copied().flatten()
    }
}

/// The items that a thread's stream consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamItem {
    /// A piece of an array of the last event.
    Piece,
    /// The end of the arrays of the last event.
    ArraysEnd,
    /// The opening of a scope; its event is the next item.
    Enter,
    /// The closing of a scope.
    Leave,
    /// An event of the type with this uid and layout.
    Event(u16, EventLayout),
}

/// The uid of the event that `bytes` begin with, and the size of that uid in bytes. `None` if they
/// begin with another item, or are too short.
#[inline]
pub fn first_uid(bytes: &[u8]) -> Option<(u16, usize)> {
    let first = *bytes.first()?;
    let (uid, size) = if first & 1 != 0 {
        (u16::from_le_bytes(*bytes.first_chunk()?) >> 1, UID_SIZE)
    } else {
        (u16::from(first >> 1), 1)
    };
    (uid >= FIRST_UID).then_some((uid, size))
}

/// The item that `bytes` begin with, and its size in bytes, which may be more than the length of
/// `bytes`. `layout` finds the layout of a type. `None` if `bytes` are empty or too short for a
/// size, if no item begins like this, or if the type is unknown.
#[inline]
pub fn first_item(
    bytes: &[u8],
    protocol: u8,
    layout: impl FnOnce(u16) -> Option<EventLayout>,
) -> Option<(StreamItem, usize)> {
    let first = *bytes.first()?;
    if let Some((uid, uid_size)) = first_uid(bytes) {
        let layout = layout(uid)?;
        return Some((StreamItem::Event(uid, layout), layout.size() - UID_SIZE + uid_size));
    }
    Some(match first {
        PIECE => {
            let size = u32::from_le_bytes(*bytes.first_chunk()?) >> 13;
            (StreamItem::Piece, PIECE_HEAD + size as usize)
        }
        ARRAYS_END => (StreamItem::ArraysEnd, 1),
        ENTER_SCOPE => (StreamItem::Enter, 1),
        LEAVE_SCOPE => (StreamItem::Leave, 1),
        _ => scope_with_time(first, protocol)?,
    })
}

/// The item that opens or closes a scope and has a time, and its size in bytes.
fn scope_with_time(first: u8, protocol: u8) -> Option<(StreamItem, usize)> {
    Some(match (first, protocol) {
        (ENTER_SCOPE_AT, 7) => (StreamItem::Enter, SCOPE_AT),
        (LEAVE_SCOPE_AT, 7) => (StreamItem::Leave, SCOPE_AT),
        (16, _) => (StreamItem::Enter, 8),
        (18, 7) | (24, ..7) => (StreamItem::Leave, 8),
        _ => return None,
    })
}

/// Splits `bytes` after their first item: the item, its bytes, and the rest. `None` if
/// [`first_item`] returns `None`, or if the item is not whole.
#[inline]
pub fn split_item(
    bytes: &[u8],
    protocol: u8,
    layout: impl FnOnce(u16) -> Option<EventLayout>,
) -> Option<(StreamItem, &[u8], &[u8])> {
    let (item, size) = first_item(bytes, protocol, layout)?;
    let (bytes, rest) = bytes.split_at_checked(size)?;
    Some((item, bytes, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layout_counts_uid_serial_and_fields() {
        let synced = EventLayout::new(17, MAYBE_HAS_AUX);
        assert_eq!((synced.header(), synced.size(), synced.has_arrays), (5, 22, true));
        let unsynced = EventLayout::new(4, NO_SYNC);
        assert_eq!((unsynced.header(), unsynced.size(), unsynced.has_arrays), (2, 6, false));
    }

    #[test]
    fn every_item_is_found_with_its_size() {
        let mut layouts = ByUid::default();
        layouts.insert(70, EventLayout::new(8, 0));
        let first = |bytes: &[u8], protocol| first_item(bytes, protocol, |uid| layouts.get(uid));
        let event = (70_u16 << 1 | 1).to_le_bytes();
        let synced = EventLayout::new(8, 0);
        for (bytes, found) in [
            (&event[..], Some((StreamItem::Event(70, synced), 13))),
            (&[event[0]], None),
            (&[0x8f, 0], None),
            (&[70 << 1], Some((StreamItem::Event(70, synced), 12))),
            (&[71 << 1], None),
            // A uid of two bytes that is that of another item.
            (&[ENTER_SCOPE | 1, 0], None),
            (&[2, 0, 0xa0, 0], Some((StreamItem::Piece, 4 + 0x500))),
            (&[2, 0, 0xa0], None),
            (&[6], Some((StreamItem::ArraysEnd, 1))),
            (&[8], Some((StreamItem::Enter, 1))),
            (&[10], Some((StreamItem::Leave, 1))),
            (&[12], Some((StreamItem::Enter, 9))),
            (&[14], Some((StreamItem::Leave, 9))),
            (&[16], Some((StreamItem::Enter, 8))),
            (&[18], Some((StreamItem::Leave, 8))),
            (&[24], None),
            (&[0], None),
            (&[], None),
        ] {
            assert_eq!(first(bytes, 7), found, "{bytes:?}");
        }
        for protocol in [5, 6] {
            assert_eq!(first(&[16], protocol), Some((StreamItem::Enter, 8)));
            assert_eq!(first(&[24], protocol), Some((StreamItem::Leave, 8)));
            assert_eq!(first(&[12], protocol), None);
            assert_eq!(first(&[18], protocol), None);
        }
    }
}
