//! One thread's stream: its bytes, and the items parsed from them that wait for their turn.
//!
//! ```text
//! bytes   | delivered | item | item | item (open) | aux | item | aux | rest of an event ...
//!         0           ^ items[head]                                  ^ parsed
//! ```
//! Every byte is parsed once, when its packet arrives. An item is 24 bytes and points into
//! `bytes`, so nothing is copied or allocated per event. An event with array fields is *open*
//! until its terminal has come; complete events may lie between the two, and wait behind it.

mod builtin;

use super::event::{Stamp, Visitor};
use super::protocol::Builtin;
use super::schemas::{Protocol, Role, Types};
use super::serials::Serials;
use super::tally::Tally;
use crate::trace::format::schema::FIRST_UID;
use std::collections::VecDeque;

/// The item is an event with a serial.
pub(super) const SYNCED: u8 = 1;
/// The event opens a scope.
pub(super) const ENTERS: u8 = 2;
/// The item closes a scope; it is no event.
pub(super) const LEAVES: u8 = 4;
/// The event's terminal has not come yet.
pub(super) const OPEN: u8 = 8;
/// The event was cut off by damage; the item stands for nothing.
pub(super) const DROPPED: u8 = 16;
/// `aux` is where the event's pieces begin.
pub(super) const HAS_PIECES: u8 = 32;
/// The serial on the wire is wrong, because it is higher than the thread's next one. `serial`
/// is that next one: the event belongs somewhere before it.
pub(super) const MISPLACED: u8 = 64;

/// `serial` is the time of the item behind it, in cycles: since the start of the trace, or, with
/// another `type_index` than 0, the cycle itself.
pub(super) const STAMPS: u8 = 128;

/// Unreal's own reader gives up on an open event after so many others.
const MOST_INSIDE_OPEN: usize = 0x7fff;
/// Capacity that a buffer keeps when it is empty.
const KEPT: usize = 1 << 20;

/// Something of a thread that waits to be delivered.
pub(super) struct Item {
    pub serial: u64,
    /// Position of the fixed part, as all positions of a thread: bytes since its beginning,
    /// modulo 2^32. Less than that waits at any time.
    pub at: u32,
    pub type_index: u32,
    pub aux: u32,
    pub flags: u8,
}

impl Item {
    /// The time it tells, if it is one.
    pub(super) fn stamp(&self) -> Option<Stamp> {
        let stamp = if self.type_index == 0 { Stamp::SinceStart } else { Stamp::Cycle };
        (self.flags & STAMPS != 0).then(|| stamp(self.serial))
    }
}

/// A piece of an array field; the pieces of one event lie together, closed by [`LAST_PIECE`].
#[derive(Clone, Copy)]
pub(super) struct Piece {
    pub at: u32,
    pub size: u32,
    pub field: u8,
}

const LAST_PIECE: Piece = Piece { at: 0, size: 0, field: u8::MAX };

/// An event whose terminal has not come yet.
struct Open {
    /// Its index in `items`.
    item: usize,
    /// Where its pieces begin in `open_pieces`.
    pieces: usize,
}

/// Where a packet's payload begins.
struct Start {
    at: u32,
    /// The offset of the packet in the input.
    offset: Option<u64>,
}

/// Why parsing stopped.
enum Stop {
    End,
    /// An event begins here whose end has not arrived.
    Partial,
    Unknown(u16),
    Illegal(String),
}

/// Whether a kind of damage that is reported once per stream has been.
#[derive(Clone, Copy, PartialEq)]
enum Complaint {
    None,
    Due,
    Made,
}

/// The stream of one thread.
pub(super) struct Thread {
    pub stream: u16,
    /// Serials mean nothing here, everything is delivered at once.
    unordered: bool,
    bytes: Vec<u8>,
    /// The position of `bytes[0]`.
    base: u32,
    parsed: usize,
    /// Starts of packets; the first is that of the packet `parsed` lies in.
    starts: VecDeque<Start>,
    /// Starts of packets before which bytes are missing.
    breaks: VecDeque<u32>,
    items: Vec<Item>,
    /// The first item that was not delivered.
    head: usize,
    pieces: Vec<Piece>,
    open: Vec<Open>,
    open_pieces: Vec<Piece>,
    /// The serials of the last two events in line.
    pub last: u64,
    pub before_last: u64,
    /// Scopes entered whose event has not come yet.
    pub entering: u32,
    /// The time of the innermost of them.
    entered_at: Option<Stamp>,
    /// Where the next stamp counts from, in protocols in which they add up.
    stamped: u64,
    pub depth: u32,
    unopened_leave: Complaint,
    /// Where data of an event that was lost may go on: behind what was passed over already.
    stray_at: Option<u32>,
    stray: usize,
    /// Bytes were lost, so the next packet does not continue them.
    lost: bool,
    /// Parsing waits for the type record of this uid.
    pub blocked: Option<u16>,
    /// How many syncs it has waited.
    pub blocked_syncs: u8,
    /// The result of [`held`](Self::held) at its last count.
    pub counted: usize,
    /// The key under which the thread waits in the order's heap.
    pub queued: Option<u64>,
    /// How many losses that may concern any thread it knows of.
    pub losses: u64,
    pub packets: u64,
    pub total_bytes: u64,
    pub events: u64,
}

impl Thread {
    pub(super) fn new(stream: u16, unordered: bool, losses: u64) -> Self {
        Self {
            stream,
            unordered,
            bytes: Vec::new(),
            base: 0,
            parsed: 0,
            starts: VecDeque::new(),
            breaks: VecDeque::new(),
            items: Vec::new(),
            head: 0,
            pieces: Vec::new(),
            open: Vec::new(),
            open_pieces: Vec::new(),
            last: 0,
            before_last: 0,
            entering: 0,
            entered_at: None,
            stamped: 0,
            depth: 0,
            unopened_leave: Complaint::None,
            stray_at: None,
            stray: 0,
            lost: false,
            blocked: None,
            blocked_syncs: 0,
            counted: 0,
            queued: None,
            losses,
            packets: 0,
            total_bytes: 0,
            events: 0,
        }
    }

    /// Whether nothing of what has come is still here, and what comes continues it.
    #[inline]
    pub(super) fn is_idle(&self) -> bool {
        self.bytes.is_empty()
            && self.items.is_empty()
            && self.breaks.is_empty()
            && self.entered_at.is_none()
            && !self.lost
            && !self.unordered
    }

    /// Takes in the payload of one packet, whose first `done` bytes were delivered already: that
    /// may be any only where the thread is idle.
    pub(super) fn push(&mut self, payload: &[u8], done: usize, offset: Option<u64>) {
        let at = self.position(self.bytes.len());
        self.starts.push_back(Start { at, offset });
        if std::mem::take(&mut self.lost) {
            self.breaks.push_back(at);
        }
        self.packets += 1;
        self.total_bytes += payload.len() as u64;
        if done > 0 {
            self.forget_starts();
            self.base = self.base.wrapping_add(done as u32);
        }
        self.bytes.extend_from_slice(payload.get(done..).unwrap_or_default());
    }

    /// A packet is missing after what has come so far.
    pub(super) fn packet_lost(&mut self) {
        self.lost = true;
    }

    /// Bytes of memory that the waiting events take, including unused buffer capacity.
    pub(super) fn held(&self) -> usize {
        self.bytes.capacity()
            + self.items.capacity() * size_of::<Item>()
            + (self.pieces.capacity() + self.open_pieces.capacity()) * size_of::<Piece>()
            + self.open.capacity() * size_of::<Open>()
            + self.starts.capacity() * size_of::<Start>()
            + self.breaks.capacity() * size_of::<u32>()
    }

    /// Releases unused buffer capacity.
    pub(super) fn shrink(&mut self) {
        self.bytes.shrink_to_fit();
        self.items.shrink_to_fit();
        self.pieces.shrink_to_fit();
        self.open_pieces.shrink_to_fit();
        self.open.shrink_to_fit();
        self.starts.shrink_to_fit();
        self.breaks.shrink_to_fit();
    }

    /// The items that were not delivered yet.
    #[inline]
    pub(super) fn waiting(&self) -> &[Item] {
        self.items.get(self.head..).unwrap_or_default()
    }

    /// The first of them, to be changed.
    pub(super) fn front_mut(&mut self) -> Option<&mut Item> {
        self.items.get_mut(self.head)
    }

    /// Whether something has come whose end has not, so that more may be hidden behind it.
    pub(super) fn is_stalled(&self) -> bool {
        self.blocked.is_some() || self.waiting().first().is_some_and(|i| i.flags & OPEN != 0)
    }

    /// The bytes from the position `at`.
    #[inline]
    pub(super) fn bytes_at(&self, at: u32, size: usize) -> Option<&[u8]> {
        let start = at.wrapping_sub(self.base) as usize;
        self.bytes.get(start..)?.get(..size)
    }

    /// The pieces of an item's arrays.
    pub(super) fn pieces_of(&self, item: &Item) -> impl Iterator<Item = (u8, &[u8])> {
        let pieces = match item.flags & HAS_PIECES {
            0 => &[],
            _ => self.pieces.get(item.aux as usize..).unwrap_or_default(),
        };
        pieces
            .iter()
            .take_while(|piece| piece.field != LAST_PIECE.field)
            .map(|p| (p.field, self.bytes_at(p.at, p.size as usize).unwrap_or_default()))
    }

    /// Drops the first `count` waiting items, and their bytes when enough have gathered.
    pub(super) fn delivered(&mut self, count: usize) {
        self.head += count;
        if self.head == self.items.len() {
            self.items.clear();
            self.head = 0;
            self.pieces.clear();
            if self.items.capacity() > KEPT / size_of::<Item>() {
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
            self.bytes.shrink_to(KEPT);
        } else if needed >= 4096 && needed >= self.bytes.len() / 2 {
            self.bytes.drain(..needed);
        } else {
            return;
        }
        self.base = self.base.wrapping_add(needed as u32);
        self.parsed -= needed;
    }

    /// PERF: at least half of the items go, so each is moved once on average.
    fn drop_items(&mut self) {
        self.items.drain(..self.head);
        for open in &mut self.open {
            open.item -= self.head;
        }
        self.head = 0;
        let pieces = |item: &&mut Item| item.flags & HAS_PIECES != 0;
        let first = self.items.iter_mut().filter(pieces).map(|item| item.aux).min();
        let first = first.map_or(self.pieces.len(), |first| first as usize);
        self.pieces.drain(..first);
        for item in self.items.iter_mut().filter(pieces) {
            item.aux -= first as u32;
        }
    }

    /// Parses what has arrived, as far as possible. Returns how many items turned out to be
    /// misplaced.
    pub(super) fn parse(
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
        self.forget_starts();
        let mut misplaced = 0;
        loop {
            let limit = self.limit();
            let stop = self.parse_to(limit, protocol, types, serials, &mut misplaced);
            self.forget_starts();
            if self.stray > 0 || self.unopened_leave == Complaint::Due {
                self.complain(tally, visitor);
            }
            match stop {
                Stop::End | Stop::Partial if limit == self.bytes.len() && !self.lost => break,
                Stop::End | Stop::Partial => {
                    // What follows, now or later, does not continue what is here.
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
        if self.open.first().is_some_and(|open| self.items.len() - open.item > MOST_INSIDE_OPEN) {
            let open = self.drop_open();
            let what = format!("{open} unfinished events of stream {} do not end", self.stream);
            tally.damage(visitor, self.offset(), 0, what);
        }
        misplaced
    }

    #[cold]
    fn complain(&mut self, tally: &mut Tally, visitor: &mut impl Visitor) {
        let (stream, stray) = (self.stream, std::mem::take(&mut self.stray));
        if stray > 0 {
            let what = format!("{stray} bytes of stream {stream} continue an event that was lost");
            tally.damage(visitor, self.offset(), stray, what);
        }
        if self.unopened_leave == Complaint::Due {
            self.unopened_leave = Complaint::Made;
            let what = format!("stream {stream} leaves a scope that it has not entered");
            tally.damage(visitor, self.offset(), 0, what);
        }
    }

    /// Gives up waiting for the type of the event where parsing stands.
    pub(super) fn skip_unknown(&mut self, tally: &mut Tally, visitor: &mut impl Visitor) {
        if let Some(uid) = self.blocked.take() {
            self.blocked_syncs = 0;
            self.skip_packet(&format!("it has an event of unknown type {uid}"), tally, visitor);
        }
    }

    /// No more bytes will come: what is incomplete is dropped.
    pub(super) fn end(&mut self, tally: &mut Tally, visitor: &mut impl Visitor) {
        self.blocked = None;
        let end = self.bytes.len();
        self.cross_loss(end, tally, visitor);
    }

    fn position(&self, index: usize) -> u32 {
        self.base.wrapping_add(index as u32)
    }

    /// Where parsing must stop because bytes are missing, or the end.
    fn limit(&self) -> usize {
        match self.breaks.front() {
            Some(at) => at.wrapping_sub(self.base) as usize,
            None => self.bytes.len(),
        }
    }

    /// Forgets the starts of packets that are parsed, but for the last of them.
    fn forget_starts(&mut self) {
        while self
            .starts
            .get(1)
            .is_some_and(|s| s.at.wrapping_sub(self.base) as usize <= self.parsed)
        {
            self.starts.pop_front();
        }
    }

    fn offset(&self) -> Option<u64> {
        self.starts.front().and_then(|start| start.offset)
    }

    /// Drops the event that the bytes before `limit` end within.
    fn cross_loss(&mut self, limit: usize, tally: &mut Tally, visitor: &mut impl Visitor) {
        let rest = limit - self.parsed;
        let open = self.drop_open();
        if rest > 0 || open > 0 {
            let stream = self.stream;
            let what = match rest {
                0 => format!("{open} unfinished events of stream {stream} have lost their ends"),
                _ => format!("stream {stream} breaks off {rest} bytes into an event"),
            };
            tally.damage(visitor, self.offset(), rest, what);
        }
        self.entering = 0;
        self.entered_at = None;
        self.parsed = limit;
        self.forget_starts();
        while self.breaks.front().is_some_and(|at| at.wrapping_sub(self.base) as usize <= limit) {
            self.breaks.pop_front();
        }
    }

    /// Drops the rest of the packet in which parsing stands.
    fn skip_packet(&mut self, what: &str, tally: &mut Tally, visitor: &mut impl Visitor) {
        let next = match self.starts.get(1) {
            Some(start) => start.at.wrapping_sub(self.base) as usize,
            None => self.bytes.len(),
        };
        let (stream, skipped) = (self.stream, next - self.parsed);
        self.drop_open();
        let what = format!(
            "the last {skipped} bytes of a packet of stream {stream} cannot be read: {what}"
        );
        tally.damage(visitor, self.offset(), skipped, what);
        self.entering = 0;
        self.entered_at = None;
        self.parsed = next;
        self.forget_starts();
    }

    fn drop_open(&mut self) -> usize {
        let count = self.open.len();
        for open in self.open.drain(..) {
            if let Some(item) = self.items.get_mut(open.item) {
                item.flags = DROPPED;
            }
        }
        self.open_pieces.clear();
        count
    }

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
                && let Role::ThreadTiming(offset) = known.role
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
                serial = serials.unwrap(u32::from_le_bytes([a, b, c, 0]), self.last);
                flags = SYNCED;
                if serial > self.last {
                    self.before_last = self.last;
                    self.last = serial;
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
            self.items.push(Item { serial, at, type_index: layout.type_index, aux: 0, flags });
            self.parsed += size;
            if layout.has_aux {
                self.begin_aux();
            }
        }
    }

    /// The next item happens at this time.
    fn push_stamp(&mut self, stamp: Stamp) {
        let (serial, type_index) = match stamp {
            Stamp::SinceStart(cycles) => (cycles, 0),
            Stamp::Cycle(cycle) => (cycle, 1),
        };
        let at = self.position(self.parsed);
        self.items.push(Item { serial, at, type_index, aux: 0, flags: STAMPS });
    }

    /// A serial does not go up from the one before: one of the two is wrong. Returns how many
    /// items it makes misplaced.
    #[cold]
    fn out_of_line(&mut self, serial: u64) -> usize {
        // The new one is wrong, or late; its turn has passed when it is reached.
        if serial <= self.before_last {
            return 0;
        }
        // The new one is in line with the one before the last, so the last was wrong.
        self.last = serial;
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
            item.flags |= OPEN;
        }
        self.open.push(Open { item: index, pieces: self.open_pieces.len() });
    }
}
