//! The stream of one thread: its bytes, and the items parsed from them that wait to be delivered.
//!
//! ```text
//! bytes   | delivered | item | item | item (unfinished) | piece | item | piece | part of an event
//!         0           ^ items[head]                                             ^ parsed
//! ```
//! An item is parsed when all its bytes and its type have arrived, usually with its packet
//! ([`parse`], [`builtin`]). An item has 24 bytes and points into `bytes`, so no event is copied or
//! allocated on its own. An event with array
//! fields is *unfinished* until the terminal after its pieces has arrived. Other events that arrive
//! before the terminal may be complete, but wait for the unfinished event.

mod builtin;
mod damage;
mod parse;
mod sized;

use super::event::Stamp;
use std::collections::VecDeque;

/// The item is an event with a serial.
pub(super) const SYNCED: u8 = 1;
/// The event opens a scope.
pub(super) const ENTERS: u8 = 2;
/// The item closes a scope; it is no event.
pub(super) const LEAVES: u8 = 4;
/// The event's terminal has not arrived yet.
pub(super) const UNFINISHED: u8 = 8;
/// The event was cut off by damage, and is not delivered.
pub(super) const DROPPED: u8 = 16;
/// The event has pieces, which begin at index `aux`.
pub(super) const HAS_PIECES: u8 = 32;
/// The serial in the stream is wrong, because it is higher than that of the thread's next event.
/// `PendingItem::serial` is the serial of that next event, which this event precedes.
pub(super) const MISPLACED: u8 = 64;

/// The item is the time of the next item. `serial` is that time in cycles: counted from the start
/// of the trace if `type_index` is 0, otherwise from the zero of the clock.
pub(super) const STAMPS: u8 = 128;

/// The maximum number of items after an unfinished event. Unreal's own reader drops the event then,
/// too.
const MAX_INSIDE_UNFINISHED: usize = 0x7fff;
/// The capacity in bytes that an empty buffer keeps.
const RESERVED: usize = 1 << 20;

/// An item of a stream that waits to be delivered: an event, the end of a scope, or a time.
pub(super) struct PendingItem {
    pub serial: u64,
    /// The position of the fixed part. A position is a number of bytes since the stream's
    /// beginning, modulo 2^32; fewer bytes than that wait at any time.
    pub at: u32,
    pub type_index: u32,
    pub aux: u32,
    pub flags: u8,
}

impl PendingItem {
    /// The time, if the item is one.
    pub(super) fn stamp(&self) -> Option<Stamp> {
        let stamp = if self.type_index == 0 { Stamp::SinceStart } else { Stamp::Cycle };
        (self.flags & STAMPS != 0).then(|| stamp(self.serial))
    }
}

/// A piece of an array field. The pieces of one event are consecutive, and [`LAST_PIECE`] follows
/// them.
#[derive(Clone, Copy)]
pub(super) struct Piece {
    pub at: u32,
    pub size: u32,
    pub field: u8,
}

const LAST_PIECE: Piece = Piece { at: 0, size: 0, field: u8::MAX };

/// An event whose terminal has not arrived yet.
struct UnfinishedEvent {
    /// Its index in `items`.
    item: usize,
    /// The index of its first piece in `unfinished_pieces`.
    pieces: usize,
}

/// The beginning of a packet's payload.
struct PacketStart {
    at: u32,
    /// The offset of the packet in the input.
    offset: Option<u64>,
}

/// The reason why parsing stopped.
enum Stop {
    End,
    /// Only a part of the next event has arrived.
    Partial,
    Unknown(u16),
    Illegal(String),
}

/// The state of a kind of damage that is reported once for each stream.
#[derive(Clone, Copy, Default, PartialEq)]
enum Notice {
    #[default]
    None,
    Due,
    Made,
}

/// The stream of one thread.
pub(super) struct ThreadStream {
    pub id: u16,
    /// The serials of this stream have no meaning, so each of its events is delivered at once.
    unordered: bool,
    bytes: Vec<u8>,
    /// The position of `bytes[0]`.
    base: u32,
    parsed: usize,
    /// The packets that are not parsed yet; `parsed` is inside the first one.
    packet_starts: VecDeque<PacketStart>,
    /// The positions at which bytes are missing: each is the start of the packet after a loss.
    breaks: VecDeque<u32>,
    items: Vec<PendingItem>,
    /// The first item that was not delivered.
    head: usize,
    pieces: Vec<Piece>,
    unfinished: Vec<UnfinishedEvent>,
    unfinished_pieces: Vec<Piece>,
    /// The position after the last array data of a lost event. More data of that event may follow
    /// there.
    stray_end: Option<u32>,
    stray: usize,
    /// Bytes were lost, so the next packet does not continue the bytes so far.
    lost: bool,
    /// The next byte may be inside an event. Only events with sizes are searched for; others begin
    /// with their packet.
    seeking: bool,
    pub serials: LastSerials,
    pub scopes: OpenScopes,
    pub merging: Merging,
    pub counts: Counts,
}

/// The last two serials that were higher than all serials before them on a stream.
#[derive(Default)]
pub(super) struct LastSerials {
    pub last: u64,
    pub before: u64,
}

/// The scopes that are open on a stream.
#[derive(Default)]
pub(super) struct OpenScopes {
    /// The number of opened scopes whose event has not arrived yet.
    pub entering: u32,
    /// The time of the innermost of them.
    entered_at: Option<Stamp>,
    /// The last time, to which the next one is relative in protocols 5 and 6.
    stamped: u64,
    pub depth: u32,
    unopened_leave: Notice,
}

/// What the merge knows of a stream.
#[derive(Default)]
pub(super) struct Merging {
    /// Parsing waits for the type record of this uid.
    pub blocked: Option<u16>,
    /// The number of syncs since parsing began to wait.
    pub blocked_syncs: u8,
    /// The result of [`held`](ThreadStream::held) when the merge last counted it.
    pub counted: usize,
    /// The key of the stream in the merge's heap.
    pub queued: Option<u64>,
    /// The value of the merge's `losses` when this stream last took it into account.
    pub losses_seen: u64,
}

/// What has come on a stream.
#[derive(Default)]
pub(super) struct Counts {
    pub packets: u64,
    pub bytes: u64,
    pub events: u64,
}

impl ThreadStream {
    pub(super) fn new(id: u16, unordered: bool, losses_seen: u64) -> Self {
        Self {
            id,
            unordered,
            bytes: Vec::new(),
            base: 0,
            parsed: 0,
            packet_starts: VecDeque::new(),
            breaks: VecDeque::new(),
            items: Vec::new(),
            head: 0,
            pieces: Vec::new(),
            unfinished: Vec::new(),
            unfinished_pieces: Vec::new(),
            stray_end: None,
            stray: 0,
            lost: false,
            seeking: false,
            serials: LastSerials::default(),
            scopes: OpenScopes::default(),
            merging: Merging { losses_seen, ..Merging::default() },
            counts: Counts::default(),
        }
    }

    /// Whether nothing waits, and the next packet continues the last one.
    #[inline]
    pub(super) fn is_idle(&self) -> bool {
        self.bytes.is_empty()
            && self.items.is_empty()
            && self.breaks.is_empty()
            && self.scopes.entered_at.is_none()
            && !self.lost
            && !self.unordered
    }

    /// Takes in the payload of one packet. The events in its first `done` bytes were delivered
    /// already; `done` is 0 unless the stream is [idle](Self::is_idle).
    pub(super) fn push(&mut self, payload: &[u8], done: usize, offset: Option<u64>) {
        let at = self.position(self.bytes.len());
        self.packet_starts.push_back(PacketStart { at, offset });
        if std::mem::take(&mut self.lost) {
            self.breaks.push_back(at);
        }
        self.counts.packets += 1;
        self.counts.bytes += payload.len() as u64;
        if done > 0 {
            self.drop_parsed_starts();
            self.base = self.base.wrapping_add(done as u32);
        }
        self.bytes.extend_from_slice(payload.get(done..).unwrap_or_default());
    }

    /// A packet is missing after the bytes so far.
    pub(super) fn packet_lost(&mut self) {
        self.lost = true;
    }

    /// Bytes of memory that the waiting events take, including unused buffer capacity.
    pub(super) fn held(&self) -> usize {
        self.bytes.capacity()
            + self.items.capacity() * size_of::<PendingItem>()
            + (self.pieces.capacity() + self.unfinished_pieces.capacity()) * size_of::<Piece>()
            + self.unfinished.capacity() * size_of::<UnfinishedEvent>()
            + self.packet_starts.capacity() * size_of::<PacketStart>()
            + self.breaks.capacity() * size_of::<u32>()
    }

    /// Releases unused buffer capacity.
    pub(super) fn shrink(&mut self) {
        self.bytes.shrink_to_fit();
        self.items.shrink_to_fit();
        self.pieces.shrink_to_fit();
        self.unfinished_pieces.shrink_to_fit();
        self.unfinished.shrink_to_fit();
        self.packet_starts.shrink_to_fit();
        self.breaks.shrink_to_fit();
    }

    /// The items that were not delivered yet.
    #[inline]
    pub(super) fn waiting(&self) -> &[PendingItem] {
        self.items.get(self.head..).unwrap_or_default()
    }

    /// The first item that was not delivered yet, for a change.
    pub(super) fn front_mut(&mut self) -> Option<&mut PendingItem> {
        self.items.get_mut(self.head)
    }

    /// Whether an event has arrived only in part, so that other events may be missing after it.
    pub(super) fn is_stalled(&self) -> bool {
        self.merging.blocked.is_some()
            || self.waiting().first().is_some_and(|i| i.flags & UNFINISHED != 0)
    }

    /// The bytes from the position `at`.
    #[inline]
    pub(super) fn bytes_at(&self, at: u32, size: usize) -> Option<&[u8]> {
        let start = at.wrapping_sub(self.base) as usize;
        self.bytes.get(start..)?.get(..size)
    }

    /// The pieces of an item's arrays.
    pub(super) fn pieces_of(&self, item: &PendingItem) -> impl Iterator<Item = (u8, &[u8])> {
        let pieces = match item.flags & HAS_PIECES {
            0 => &[],
            _ => self.pieces.get(item.aux as usize..).unwrap_or_default(),
        };
        pieces
            .iter()
            .take_while(|piece| piece.field != LAST_PIECE.field)
            .map(|p| (p.field, self.bytes_at(p.at, p.size as usize).unwrap_or_default()))
    }

    /// Drops the first `count` waiting items. Drops their bytes when these are at least half of the
    /// buffer.
    pub(super) fn delivered(&mut self, count: usize) {
        self.head += count;
        if self.head == self.items.len() {
            self.items.clear();
            self.head = 0;
            self.pieces.clear();
            if self.items.capacity() > RESERVED / size_of::<PendingItem>() {
                self.items.shrink_to(0);
            }
        } else if self.head >= 1024 && self.head >= self.items.len() / 2 {
            self.drop_items();
        }
        let needed = match self.items.get(self.head) {
            Some(item) => item.at.wrapping_sub(self.base) as usize,
            None => self.parsed,
        };
        if needed == self.bytes.len() {
            self.bytes.clear();
            self.bytes.shrink_to(RESERVED);
        } else if needed >= 4096 && needed >= self.bytes.len() / 2 {
            self.bytes.drain(..needed);
        } else {
            return;
        }
        self.base = self.base.wrapping_add(needed as u32);
        self.parsed -= needed;
    }

    /// Drops the delivered items. PERF: at least half of all items are dropped, so an item is moved
    /// about once on average.
    fn drop_items(&mut self) {
        self.items.drain(..self.head);
        for event in &mut self.unfinished {
            event.item -= self.head;
        }
        self.head = 0;
        let pieces = |item: &&mut PendingItem| item.flags & HAS_PIECES != 0;
        let first = self.items.iter_mut().filter(pieces).map(|item| item.aux).min();
        let first = first.map_or(self.pieces.len(), |first| first as usize);
        self.pieces.drain(..first);
        for item in self.items.iter_mut().filter(pieces) {
            item.aux -= first as u32;
        }
    }

    fn position(&self, index: usize) -> u32 {
        self.base.wrapping_add(index as u32)
    }

    /// The index at which parsing must stop: where bytes are missing, or at the end.
    fn limit(&self) -> usize {
        match self.breaks.front() {
            Some(at) => at.wrapping_sub(self.base) as usize,
            None => self.bytes.len(),
        }
    }

    /// Drops the entries of packets before the one that is being parsed.
    fn drop_parsed_starts(&mut self) {
        while self
            .packet_starts
            .get(1)
            .is_some_and(|s| s.at.wrapping_sub(self.base) as usize <= self.parsed)
        {
            self.packet_starts.pop_front();
        }
    }

    fn offset(&self) -> Option<u64> {
        self.packet_starts.front().and_then(|start| start.offset)
    }
}
