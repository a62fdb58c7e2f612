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

use super::layouts::{Layouts, Span};
use crate::trace::format::layout::{ENTER_SCOPE, ENTER_SCOPE_AT, LEAVE_SCOPE, LEAVE_SCOPE_AT};
use crate::trace::format::schema::SERIAL_MASK;
use crate::trace::write::buffer::Buffer;
use std::ptr::NonNull;
use std::sync::atomic::Ordering;

/// Bits before the serial in the first 8 bytes of an event: those of the uid.
const SERIAL_SHIFT: u32 = 16;
/// The committed part of one block, on its way.
pub(super) struct Piece {
    pub(super) block: Buffer,
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
    pub(super) fn new(block: Buffer, from: Option<Rest>, end: *mut u8, depth: u32) -> Self {
        let (at, epoch) = match from {
            Some(Rest { at, epoch }) => (at.as_ptr(), epoch),
            None => (block.start(), block.epoch.load(Ordering::Acquire)),
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
    pub(super) fn next_epoch(&mut self, layouts: &Layouts) -> Option<u64> {
        while let Some((head, span)) = self.head(layouts) {
            if span.synced {
                let low = head >> SERIAL_SHIFT & SERIAL_MASK;
                self.epoch += low.wrapping_sub(self.epoch) & SERIAL_MASK;
                return Some(self.epoch);
            }
            self.enter_or_leave(head as u8);
            self.skip(span);
        }
        None
    }

    /// Gives the events of `epoch`, which is the next one, the serials from `serial` on; returns
    /// the first that was not given.
    pub(super) fn number(&mut self, epoch: u64, mut serial: u64, layouts: &Layouts) -> u64 {
        let low = epoch & SERIAL_MASK;
        serial = self.number_usual(low, serial, layouts);
        while let Some((head, span)) = self.head(layouts) {
            if span.synced {
                if head >> SERIAL_SHIFT & SERIAL_MASK != low {
                    break;
                }
                let numbered = with_serial(head, serial);
                // SAFETY: all bytes of the event are committed, so that the thread does not touch
                // them any more. Ours have 8 at least, the program's 5.
                unsafe {
                    if span.size >= 8 {
                        self.at.cast::<u64>().write_unaligned(numbered);
                    } else {
                        let serial = numbered.to_le_bytes();
                        self.at.add(2).cast::<[u8; 3]>().write([serial[2], serial[3], serial[4]]);
                    }
                }
                serial += 1;
                self.skip(span);
                serial = self.number_usual(low, serial, layouts);
            } else {
                self.enter_or_leave(head as u8);
                self.skip(span);
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
    fn number_usual(&mut self, low: u64, mut serial: u64, layouts: &Layouts) -> u64 {
        // An event of fewer than 8 bytes has neither size.
        let last = self.end.wrapping_sub(7);
        while self.at < last {
            // SAFETY: at least 8 committed bytes begin here, since `at < end - 7`.
            let head = unsafe { self.at.cast::<u64>().read_unaligned() };
            let next = layouts.guess_next(head, self.at);
            let is_right = layouts.is_synced_of(head as u8, next.addr() - self.at.addr());
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
    pub(super) fn count(mut self, layouts: &Layouts) -> u64 {
        let mut count = 0;
        while let Some((_, span)) = self.head(layouts) {
            count += u64::from(span.synced);
            self.skip(span);
        }
        count
    }

    /// The first 8 bytes of the next event, and its span.
    #[inline(always)]
    fn head(&self, layouts: &Layouts) -> Option<(u64, Span)> {
        // NOTE: reads nothing after the end, where the thread writes.
        let head = match self.end.addr().saturating_sub(self.at.addr()) {
            0 => return None,
            1..8 => self.short_head(),
            // SAFETY: at least 8 committed bytes begin here.
            _ => unsafe { self.at.cast::<u64>().read_unaligned() },
        };
        Some((head, layouts.of(head)))
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
    fn skip(&mut self, span: Span) {
        self.at = self.at.wrapping_add(span.size.min(self.end.addr() - self.at.addr()));
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
    use crate::trace::format::encode::Declaration;
    use crate::trace::format::layout::ARRAYS_END;
    use crate::trace::format::schema::FieldType::{AnsiString, U8, U64};
    use crate::trace::format::schema::NO_SYNC;
    use crate::trace::write::buffer;
    use crate::trace::write::declared::{self, Declared, DeclaredField, Family, Logged};

    static WITH_SERIAL: Declaration =
        Declaration { uid: 40, logger: "A", event: "S", flags: 0, fields: &[("F", U64)] };
    static WITHOUT: Declaration =
        Declaration { uid: 41, logger: "A", event: "N", flags: NO_SYNC, fields: &[("F", U64)] };

    fn layouts() -> Layouts {
        Layouts::new([&WITH_SERIAL, &WITHOUT].iter())
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
    fn block_of(epoch: u64, events: &[Vec<u8>]) -> (Buffer, *mut u8) {
        let bytes = events.concat();
        let block = buffer::take(buffer::SMALL).unwrap();
        // SAFETY: the block is ours, and longer than the events.
        unsafe {
            block.epoch.store(epoch, Ordering::Relaxed);
            block.start().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        }
        (block, block.start().wrapping_add(bytes.len()))
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
            block: buffer::take(buffer::SMALL).unwrap(),
            at: block,
            run: block,
            sent: block,
            end,
            epoch: 0,
            depth: 0,
        };
        let layouts = layouts();
        assert_eq!(piece.next_epoch(&layouts), Some(7));
        assert_eq!(piece.number(7, 40, &layouts), 42);
        assert_eq!((piece.next_epoch(&layouts), piece.depth()), (None, 0));
        let run = [synced(40, 1), unsynced(2), vec![ENTER_SCOPE], synced(41, 3), vec![LEAVE_SCOPE]];
        assert_eq!(piece.take_run(), run.concat());
    }

    #[test]
    fn the_events_of_an_epoch_get_serials_and_take_along_what_has_none() {
        let layouts = layouts();
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
        assert_eq!(piece.next_epoch(&layouts), Some(7));
        // Past the wrap of the serial's 24 bits.
        let serial = (1 << 24) - 1;
        assert_eq!(piece.number(7, serial, &layouts), serial + 2);
        let run = [
            vec![ENTER_SCOPE],
            unsynced(1),
            synced(0xff_ffff, 0xffff_ffff_ffff_ffff),
            unsynced(2),
            synced(0, 0),
            vec![LEAVE_SCOPE],
        ];
        assert_eq!(piece.take_run(), run.concat());
        assert_eq!(piece.next_epoch(&layouts), Some(9));
        assert!(!piece.is_done());
        // The rest, in another tick.
        let mut rest = Piece::new(block, piece.rest(), end, piece.depth());
        assert_eq!(rest.next_epoch(&layouts), Some(9));
        assert_eq!(rest.number(9, 4, &layouts), 5);
        assert_eq!((piece.depth(), rest.depth()), (0, 0));
        assert!(rest.is_done() && rest.next_epoch(&layouts).is_none());
        assert_eq!(rest.take_run(), synced(4, 3));
        assert_eq!(rest.take_sent(), synced(4, 3));
        assert_eq!(piece.take_sent(), run.concat());
        buffer::give_back(block);
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
        let mut layouts = layouts();
        for (number, logged) in (0..).map_while(|n| Some((n, declared::registered(n)?))) {
            layouts.add(declared::uid_of(number), logged.declared().layout());
        }
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
                vec![ARRAYS_END],
                event(short, third, &[]),
                [&[LEAVE_SCOPE_AT][..], &[9; 8]].concat(),
            ]
        };
        let (block, end) = block_of(5, &events([7, 0, 0], [7, 0, 0], [9, 0, 0]));
        let mut piece = Piece::new(block, None, end, 0);
        assert_eq!(piece.next_epoch(&layouts), Some(7));
        assert_eq!(piece.number(7, 0x01_02_03, &layouts), 0x01_02_05);
        assert_eq!(piece.next_epoch(&layouts), Some(9));
        assert_eq!(piece.number(9, 0x01_02_05, &layouts), 0x01_02_06);
        assert_eq!(piece.next_epoch(&layouts), None);
        assert!(piece.is_done());
        assert_eq!(piece.take_sent(), events([3, 2, 1], [4, 2, 1], [5, 2, 1]).concat());
        buffer::give_back(block);
    }

    #[test]
    fn epochs_are_whole_again_behind_their_low_bits() {
        let layouts = layouts();
        let epochs = [0x1_00ff_fffe, 0x1_00ff_ffff, 0x1_0100_0000, 0x1_01ff_fff0];
        let events = epochs.map(|epoch| synced(epoch, 0));
        let (block, end) = block_of(0x1_00f0_0000, &events);
        let mut piece = Piece::new(block, None, end, 0);
        for (serial, epoch) in epochs.into_iter().enumerate() {
            assert_eq!(piece.next_epoch(&layouts), Some(epoch));
            let serial = serial as u64;
            assert_eq!(piece.number(epoch, serial, &layouts), serial + 1);
        }
        assert!(piece.is_done());
        buffer::give_back(block);
    }
}
