//! One thread's events on their way into the order of all.
//!
//! ```text
//!   a thread's blocks  | sent | numbered, not sent | not numbered yet | being written ...
//!                             sent                 at                 end
//! ```
//! The hook leaves an event's epoch where its serial belongs. Here the events of one epoch get
//! their serials, in the place where they lie: a run. What runs come in which order is the
//! [session](super::feeds)'s matter.
#![expect(unsafe_code, reason = "reads and numbers events in the blocks of other threads")]

use crate::trace::format::arrays::PIECE_HEAD;
use crate::trace::format::encode::{
    AUX, AUX_TERMINAL, Declaration, ENTER_SCOPE, ENTER_SCOPE_AT, LEAVE_SCOPE, LEAVE_SCOPE_AT,
    SCOPE_AT,
};
use crate::trace::format::schema::{NO_SYNC, SERIAL_MASK};
use crate::trace::write::declared::{self, Logged};
use crate::trace::write::pages::Block;
use std::hint::select_unpredictable;
use std::ptr::NonNull;
use std::sync::atomic::Ordering;

/// Bits before the serial in the first 8 bytes of an event: those of the uid.
const SERIAL_SHIFT: u32 = 16;
/// The event has a serial.
const SYNCED: u8 = 0x80;

/// The sizes of the events that threads write.
pub(super) struct Shapes {
    /// Of ours, by their first byte.
    ours: [u8; 256],
    /// A guess at those that have a serial: whether such an event has the first of two sizes, by the
    /// lower 6 bits of its first byte; both sizes.
    is_first: u64,
    sizes: [usize; 2],
    /// Of the program's, by the number of their type.
    programs: Vec<Shape>,
}

/// Bytes of an event up to the next, and whether it has a serial.
#[derive(Clone, Copy)]
struct Shape {
    size: usize,
    synced: bool,
}

impl Shapes {
    pub(super) fn new<'a>(types: impl Iterator<Item = &'a &'static Declaration>) -> Self {
        let mut shapes = [0; 256];
        for byte in [ENTER_SCOPE, LEAVE_SCOPE, AUX_TERMINAL << 1] {
            shapes[usize::from(byte)] = 1;
        }
        for byte in [ENTER_SCOPE_AT, LEAVE_SCOPE_AT] {
            shapes[usize::from(byte)] = SCOPE_AT as u8;
        }
        let (mut is_first, mut sizes) = (0, [0; 2]);
        for declaration in types {
            // Of ours, only the worker writes events with arrays.
            if let (Some(size), Ok(first)) = (declaration.size(), u8::try_from(declaration.wire()))
            {
                let synced = if declaration.flags & NO_SYNC == 0 { SYNCED } else { 0 };
                shapes[usize::from(first)] = size | synced;
                // The hook's are the first, of two sizes.
                let size = usize::from(size);
                let place = sizes.iter().position(|&known| known == 0 || known == size);
                if let Some(place) = place.filter(|_| synced != 0 && size >= 8) {
                    sizes[place] = size;
                    is_first |= u64::from(place == 0) << (first & 63);
                }
            }
        }
        Self { ours: shapes, is_first, sizes, programs: Vec::new() }
    }

    /// Adds the next of the program's types.
    pub(super) fn add(&mut self, logged: &Logged) {
        let declared = logged.declared();
        self.programs.push(Shape { size: declared.size(), synced: declared.is_synced() });
    }

    /// Bytes of the first of `events`, and whether it is one of ours; `None` at their end.
    pub(super) fn first(&self, events: &[u8]) -> Option<(usize, bool)> {
        let mut head = [0; 8];
        let known = events.len().min(8);
        head[..known].copy_from_slice(&events[..known]);
        let is_ours = self.ours[usize::from(*events.first()?)] != 0;
        let size = self.of(u64::from_le_bytes(head)).size;
        (1..=events.len()).contains(&size).then_some((size, is_ours))
    }

    /// The shape of what begins with these bytes.
    #[inline(always)]
    fn of(&self, head: u64) -> Shape {
        let shape = self.ours[usize::from(head as u8)];
        if shape == 0 {
            return self.of_programs(head);
        }
        Shape { size: usize::from(shape & !SYNCED), synced: shape & SYNCED != 0 }
    }

    /// Of an event of the program, or a piece of its arrays.
    #[inline(never)]
    fn of_programs(&self, head: u64) -> Shape {
        if head as u8 == AUX << 1 {
            let size = PIECE_HEAD + (head as u32 >> 13) as usize;
            return Shape { size, synced: false };
        }
        let number = declared::number_of(head as u16 >> 1);
        let known = number.and_then(|number| self.programs.get(number));
        debug_assert!(known.is_some(), "threads write events of known types only");
        known.copied().unwrap_or(Shape { size: usize::MAX >> 1, synced: false })
    }
}

/// The committed part of one block, on its way.
pub(super) struct Piece {
    pub(super) block: NonNull<Block>,
    /// Every synchronised event before is numbered.
    at: *mut u8,
    /// Everything before was taken by [`take_run`](Self::take_run).
    run: *mut u8,
    /// Everything before was taken by [`take_sent`](Self::take_sent).
    sent: *mut u8,
    end: *mut u8,
    /// That of the next synchronised event, or one before.
    epoch: u64,
    /// How many scopes are open at `at`.
    depth: u32,
}

/// How far a thread's present block has come.
#[derive(Clone, Copy)]
pub(super) struct Rest {
    pub(super) at: NonNull<u8>,
    /// An epoch the thread was in there.
    epoch: u64,
}

impl Piece {
    /// What lies between `from` (or the block's start), where so many scopes are open, and `end`,
    /// all of it committed.
    pub(super) fn new(block: NonNull<Block>, from: Option<Rest>, end: *mut u8, depth: u32) -> Self {
        let (at, epoch) = match from {
            Some(Rest { at, epoch }) => (at.as_ptr(), epoch),
            // SAFETY: blocks are never unmapped, and their headers are atomics.
            None => (Block::start(block), unsafe { block.as_ref() }.epoch.load(Ordering::Acquire)),
        };
        Self { block, at, run: at, sent: at, end, epoch, depth }
    }

    /// Where and when to go on: what [`new`](Self::new) takes.
    pub(super) fn rest(&self) -> Option<Rest> {
        NonNull::new(self.at).map(|at| Rest { at, epoch: self.epoch })
    }

    /// How many scopes are open behind what has been numbered.
    pub(super) fn depth(&self) -> u32 {
        self.depth
    }

    /// Whether every event has been numbered.
    pub(super) fn is_done(&self) -> bool {
        self.at >= self.end
    }

    /// The epoch of the next synchronised event.
    pub(super) fn next_epoch(&mut self, shapes: &Shapes) -> Option<u64> {
        while let Some((head, shape)) = self.head(shapes) {
            if shape.synced {
                let low = head >> SERIAL_SHIFT & SERIAL_MASK;
                self.epoch += low.wrapping_sub(self.epoch) & SERIAL_MASK;
                return Some(self.epoch);
            }
            self.enter_or_leave(head as u8);
            self.skip(shape);
        }
        None
    }

    /// Gives the events of `epoch`, which is the next one, the serials from `serial` on; returns
    /// the first that was not given.
    pub(super) fn number(&mut self, epoch: u64, mut serial: u64, shapes: &Shapes) -> u64 {
        let low = epoch & SERIAL_MASK;
        serial = self.number_usual(low, serial, shapes);
        while let Some((head, shape)) = self.head(shapes) {
            if shape.synced {
                if head >> SERIAL_SHIFT & SERIAL_MASK != low {
                    break;
                }
                let numbered = with_serial(head, serial);
                // SAFETY: all bytes of the event are committed, so that the thread does not touch
                // them any more. Ours have 8 at least, the program's 5.
                unsafe {
                    if shape.size >= 8 {
                        self.at.cast::<u64>().write_unaligned(numbered);
                    } else {
                        let serial = numbered.to_le_bytes();
                        self.at.add(2).cast::<[u8; 3]>().write([serial[2], serial[3], serial[4]]);
                    }
                }
                serial += 1;
                self.skip(shape);
                serial = self.number_usual(low, serial, shapes);
            } else {
                self.enter_or_leave(head as u8);
                self.skip(shape);
            }
        }
        serial
    }

    /// The same, up to the first event that is not what is guessed of it.
    ///
    /// PERF: where the next event begins depends on the size of this one. To look that up takes as
    /// long as all else together; to guess it is a shift, and whether that was right can be looked up
    /// while the next one is read.
    #[inline(always)]
    fn number_usual(&mut self, low: u64, mut serial: u64, shapes: &Shapes) -> u64 {
        let [first, second] = shapes.sizes;
        // An event of fewer than 8 bytes has neither size.
        let last = self.end.wrapping_sub(7);
        while self.at < last {
            // SAFETY: at least 8 committed bytes begin here, since `at < end - 7`.
            let head = unsafe { self.at.cast::<u64>().read_unaligned() };
            let is_first = shapes.is_first >> (head & 63) & 1 != 0;
            let (if_first, if_second) = (self.at.wrapping_add(first), self.at.wrapping_add(second));
            let next = select_unpredictable(is_first, if_first, if_second);
            let shape = usize::from(shapes.ours[usize::from(head as u8)]);
            let is_right = next.addr() - self.at.addr() == shape ^ usize::from(SYNCED);
            if !is_right || head >> SERIAL_SHIFT & SERIAL_MASK != low || next > self.end {
                break;
            }
            // SAFETY: all bytes of the event are committed, so that the thread does not touch them
            // any more. There are 8 at least, as of both sizes.
            unsafe { self.at.cast::<u64>().write_unaligned(with_serial(head, serial)) };
            serial += 1;
            self.at = next;
        }
        serial
    }

    /// The number of synchronised events that remain.
    pub(super) fn count(mut self, shapes: &Shapes) -> u64 {
        let mut count = 0;
        while let Some((_, shape)) = self.head(shapes) {
            count += u64::from(shape.synced);
            self.skip(shape);
        }
        count
    }

    /// The first 8 bytes of the next event, and its shape.
    #[inline(always)]
    fn head(&self, shapes: &Shapes) -> Option<(u64, Shape)> {
        // NOTE: reads nothing after the end, where the thread writes.
        let head = match self.end.addr().saturating_sub(self.at.addr()) {
            0 => return None,
            1..8 => self.short_head(),
            // SAFETY: at least 8 committed bytes begin here.
            _ => unsafe { self.at.cast::<u64>().read_unaligned() },
        };
        Some((head, shapes.of(head)))
    }

    /// The same for the last event if it has fewer than 8 bytes, padded with zeros.
    #[cold]
    fn short_head(&self) -> u64 {
        let mut head = [0; 8];
        let left = (self.end.addr() - self.at.addr()).min(8);
        // SAFETY: at least `left` committed bytes begin here.
        unsafe { head.as_mut_ptr().copy_from_nonoverlapping(self.at, left) };
        u64::from_le_bytes(head)
    }

    #[inline(always)]
    fn enter_or_leave(&mut self, first: u8) {
        match first {
            ENTER_SCOPE | ENTER_SCOPE_AT => self.depth += 1,
            LEAVE_SCOPE | LEAVE_SCOPE_AT => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
    }

    #[inline(always)]
    fn skip(&mut self, shape: Shape) {
        self.at = self.at.wrapping_add(shape.size.min(self.end.addr() - self.at.addr()));
    }

    /// What has been numbered since it was last asked for.
    pub(super) fn take_run(&mut self) -> &[u8] {
        let start = std::mem::replace(&mut self.run, self.at);
        // SAFETY: committed bytes, which only this piece changes, and not while the slice lives.
        unsafe { std::slice::from_raw_parts(start, self.at.addr() - start.addr()) }
    }

    /// The same, for those who take more at a time.
    pub(super) fn take_sent(&mut self) -> &[u8] {
        let start = std::mem::replace(&mut self.sent, self.at);
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts(start, self.at.addr() - start.addr()) }
    }
}

/// The first 8 bytes of an event, with this serial in the place of its epoch.
#[inline(always)]
fn with_serial(head: u64, serial: u64) -> u64 {
    head & !(SERIAL_MASK << SERIAL_SHIFT) | (serial & SERIAL_MASK) << SERIAL_SHIFT
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::format::arrays::piece_head;
    use crate::trace::format::schema::FieldType::{AnsiString, U8, U64};
    use crate::trace::write::declared::{Declared, DeclaredField, Family};
    use crate::trace::write::pages;

    static WITH_SERIAL: Declaration =
        Declaration { uid: 40, logger: "A", event: "S", flags: 0, fields: &[("F", U64)] };
    static WITHOUT: Declaration =
        Declaration { uid: 41, logger: "A", event: "N", flags: NO_SYNC, fields: &[("F", U64)] };

    fn shapes() -> Shapes {
        Shapes::new([&WITH_SERIAL, &WITHOUT].iter())
    }

    fn synced(serial_or_epoch: u64, field: u64) -> Vec<u8> {
        let mut event = WITH_SERIAL.wire().to_le_bytes().to_vec();
        event.extend(&serial_or_epoch.to_le_bytes()[..3]);
        event.extend(field.to_le_bytes());
        event
    }

    fn unsynced(field: u64) -> Vec<u8> {
        let mut event = WITHOUT.wire().to_le_bytes().to_vec();
        event.extend(field.to_le_bytes());
        event
    }

    /// A block that was begun in `epoch` and holds these events, and where they end.
    fn block_of(epoch: u64, events: &[Vec<u8>]) -> (NonNull<Block>, *mut u8) {
        let bytes = events.concat();
        let block = pages::take(pages::SMALL).unwrap();
        // SAFETY: the block is ours, and longer than the events.
        unsafe {
            block.as_ref().epoch.store(epoch, Ordering::Relaxed);
            Block::start(block).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        }
        (block, Block::start(block).wrapping_add(bytes.len()))
    }

    /// The bytes after the committed ones belong to the thread: this test makes them unreadable.
    #[test]
    fn nothing_is_read_behind_what_is_committed() {
        const PAGE: usize = 4096;
        let events =
            [synced(7, 1), unsynced(2), vec![ENTER_SCOPE], synced(7, 3), vec![LEAVE_SCOPE]];
        let bytes = events.concat();
        // SAFETY: the pages are this test's own; the second may not be accessed.
        let (block, end) = unsafe {
            let (access, private) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE);
            let flags = private | libc::MAP_ANONYMOUS;
            let pages = libc::mmap(std::ptr::null_mut(), 2 * PAGE, access, flags, -1, 0);
            let end = pages.cast::<u8>().add(PAGE);
            assert_eq!(libc::mprotect(end.cast(), PAGE, libc::PROT_NONE), 0);
            let start = end.sub(bytes.len());
            start.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
            (start, end)
        };
        let mut piece = Piece {
            block: NonNull::dangling(),
            at: block,
            run: block,
            sent: block,
            end,
            epoch: 0,
            depth: 0,
        };
        let shapes = shapes();
        assert_eq!(piece.next_epoch(&shapes), Some(7));
        assert_eq!(piece.number(7, 40, &shapes), 42);
        assert_eq!((piece.next_epoch(&shapes), piece.depth()), (None, 0));
        let run = [synced(40, 1), unsynced(2), vec![ENTER_SCOPE], synced(41, 3), vec![LEAVE_SCOPE]];
        assert_eq!(piece.take_run(), run.concat());
    }

    #[test]
    fn the_events_of_an_epoch_get_serials_and_take_along_what_has_none() {
        let shapes = shapes();
        let events = [
            vec![ENTER_SCOPE],
            unsynced(1),
            synced(7, 0xffff_ffff_ffff_ffff),
            unsynced(2),
            synced(7, 0),
            vec![LEAVE_SCOPE],
            synced(9, 3),
        ];
        let (block, end) = block_of(5, &events);
        let mut piece = Piece::new(block, None, end, 0);
        assert_eq!(piece.next_epoch(&shapes), Some(7));
        // Past the wrap of the serial's 24 bits.
        let serial = (1 << 24) - 1;
        assert_eq!(piece.number(7, serial, &shapes), serial + 2);
        let run = [
            vec![ENTER_SCOPE],
            unsynced(1),
            synced(0xff_ffff, 0xffff_ffff_ffff_ffff),
            unsynced(2),
            synced(0, 0),
            vec![LEAVE_SCOPE],
        ];
        assert_eq!(piece.take_run(), run.concat());
        assert_eq!(piece.next_epoch(&shapes), Some(9));
        assert!(!piece.is_done());
        // The rest, in another tick.
        let mut rest = Piece::new(block, piece.rest(), end, piece.depth());
        assert_eq!(rest.next_epoch(&shapes), Some(9));
        assert_eq!(rest.number(9, 4, &shapes), 5);
        assert_eq!((piece.depth(), rest.depth()), (0, 0));
        assert!(rest.is_done() && rest.next_epoch(&shapes).is_none());
        assert_eq!(rest.take_run(), synced(4, 3));
        assert_eq!(rest.take_sent(), synced(4, 3));
        assert_eq!(piece.take_sent(), run.concat());
        pages::give_back(block);
    }

    #[test]
    fn events_of_the_program_are_numbered_and_their_arrays_left_alone() {
        static TYPES: [Declared; 3] = [
            Declared::new("Test", "Short", 0, &[]),
            Declared::new(
                "Test",
                "WithArray",
                0,
                &[DeclaredField { name: "Name", field_type: AnsiString, family: Family::Regular }],
            ),
            Declared::new(
                "Test",
                "Unsynced",
                NO_SYNC,
                &[DeclaredField { name: "Small", field_type: U8, family: Family::Regular }],
            ),
        ];
        static LOGGED: [Logged; 3] = [
            Logged::new(|| &TYPES[0], &[1]),
            Logged::new(|| &TYPES[1], &[1]),
            Logged::new(|| &TYPES[2], &[1]),
        ];
        let [short, with_array, without] = LOGGED.each_ref().map(Logged::register);
        let mut shapes = shapes();
        let known = (0..).map_while(declared::registered);
        known.for_each(|logged| shapes.add(logged));
        let event = |wire: u16, number: [u8; 3], rest: &[u8]| {
            [&wire.to_le_bytes(), &number[..], rest].concat()
        };
        // Data that would be events, elsewhere.
        let data = [0x06, 0x51, 0, 1, 2, 3, 0x08, 0x0a, 0x55];
        let array = [&piece_head(0, data.len(), 1)[..], &data].concat();
        let events = |first: [u8; 3], second: [u8; 3], third: [u8; 3]| {
            [
                [&[ENTER_SCOPE_AT][..], &[7; 8], &without.to_le_bytes(), &[5]].concat(),
                event(short, first, &[]),
                event(with_array, second, &array),
                array.clone(),
                vec![AUX_TERMINAL << 1],
                event(short, third, &[]),
                [&[LEAVE_SCOPE_AT][..], &[9; 8]].concat(),
            ]
        };
        let (block, end) = block_of(5, &events([7, 0, 0], [7, 0, 0], [9, 0, 0]));
        let mut piece = Piece::new(block, None, end, 0);
        assert_eq!(piece.next_epoch(&shapes), Some(7));
        assert_eq!(piece.number(7, 0x01_02_03, &shapes), 0x01_02_05);
        assert_eq!(piece.next_epoch(&shapes), Some(9));
        assert_eq!(piece.number(9, 0x01_02_05, &shapes), 0x01_02_06);
        assert_eq!(piece.next_epoch(&shapes), None);
        assert!(piece.is_done());
        assert_eq!(piece.take_sent(), events([3, 2, 1], [4, 2, 1], [5, 2, 1]).concat());
        pages::give_back(block);
    }

    #[test]
    fn epochs_are_whole_again_behind_their_low_bits() {
        let shapes = shapes();
        let epochs = [0x1_00ff_fffe, 0x1_00ff_ffff, 0x1_0100_0000, 0x1_01ff_fff0];
        let events = epochs.map(|epoch| synced(epoch, 0));
        let (block, end) = block_of(0x1_00f0_0000, &events);
        let mut piece = Piece::new(block, None, end, 0);
        for (serial, epoch) in epochs.into_iter().enumerate() {
            assert_eq!(piece.next_epoch(&shapes), Some(epoch));
            let serial = serial as u64;
            assert_eq!(piece.number(epoch, serial, &shapes), serial + 1);
        }
        assert!(piece.is_done());
        pages::give_back(block);
    }
}
