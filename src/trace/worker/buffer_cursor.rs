//! A cursor over the committed events of one buffer, which gives them their serials.
//!
//! ```text
//!   a thread's buffers | sent | numbered, not sent | not numbered yet | being written ...
//!                             sent                 at                 end
//! ```
//! The hook writes an event's epoch in place of its serial. The cursor replaces it, in the buffer,
//! for one run at a time: the events of one epoch. The [merge](super::merge) decides the order of
//! the runs.
#![expect(unsafe_code, reason = "reads and numbers events in the buffers of other threads")]

use super::layouts::{Layouts, Span};
use crate::trace::write::buffer::Buffer;
use memledger_format::layout::{ENTER_SCOPE, ENTER_SCOPE_AT, LEAVE_SCOPE, LEAVE_SCOPE_AT};
use memledger_format::schema::SERIAL_MASK;
use std::sync::atomic::Ordering;

/// Bits before the serial in the first 8 bytes of an event: those of the uid.
const SERIAL_SHIFT: u32 = 16;
/// A cursor over the committed events of one buffer.
pub(super) struct BufferCursor {
    buffer: Buffer,
    /// While a watcher shares the buffers, the events are numbered in a copy: the buffer must keep their
    /// epochs until the file has them.
    #[expect(dead_code, reason = "the pointers below lead into it")]
    copy: Option<Vec<u8>>,
    /// The position of the first event of this cursor: where it is, and bytes from the first event of the
    /// buffer.
    first: *mut u8,
    first_offset: usize,
    /// Every synchronised event before this is numbered.
    at: *mut u8,
    /// [`take_run`](Self::take_run) has returned everything before this.
    run: *mut u8,
    /// [`take_piece`](Self::take_piece) has returned everything before this.
    sent: *mut u8,
    end: *mut u8,
    /// The epoch of the next synchronised event, or of an earlier one.
    epoch: u64,
    /// How many scopes are open at `at`.
    depth: u32,
}

/// How far a thread's present buffer is drained.
#[derive(Clone, Copy, Debug)]
pub(super) struct ResumePoint {
    pub(super) buffer: Buffer,
    /// Bytes from the first event of the buffer.
    pub(super) offset: usize,
    /// An epoch of the thread, no later than that of the event at `offset`.
    pub(super) epoch: u64,
}

impl ResumePoint {
    /// The drained events, if this is a position in `buffer`.
    pub(super) fn before(&self, buffer: Buffer) -> Option<&[u8]> {
        // SAFETY: drained events were committed, and lie within the buffer. Only the worker, which
        // holds this, accesses them, and it does not change them any more.
        let events = || unsafe { std::slice::from_raw_parts(buffer.start(), self.offset) };
        (buffer == self.buffer).then(events)
    }
}

impl BufferCursor {
    /// A cursor for the committed events between `from` (or the start of the buffer), where `depth`
    /// scopes are open, and `end`.
    pub(super) fn new(buffer: Buffer, from: Option<ResumePoint>, end: *mut u8, depth: u32) -> Self {
        let (at, epoch) = match from {
            Some(from) => (buffer.start().wrapping_add(from.offset), from.epoch),
            None => (buffer.start(), buffer.epoch.load(Ordering::Acquire)),
        };
        let first_offset = at.addr() - buffer.start().addr();
        Self {
            buffer,
            copy: None,
            first: at,
            first_offset,
            at,
            run: at,
            sent: at,
            end,
            epoch,
            depth,
        }
    }

    /// The same, which leaves the buffer as it is.
    pub(super) fn copied(self) -> Self {
        let size = self.end.addr().saturating_sub(self.at.addr());
        // SAFETY: these bytes are committed, so the thread does not access them any more.
        let mut copy = unsafe { std::slice::from_raw_parts(self.at, size) }.to_vec();
        let at = copy.as_mut_ptr();
        let end = at.wrapping_add(size);
        Self { copy: Some(copy), first: at, at, run: at, sent: at, end, ..self }
    }

    pub(super) fn buffer(&self) -> Buffer {
        self.buffer
    }

    /// The position at which a later cursor continues, for [`new`](Self::new).
    pub(super) fn resume_point(&self) -> ResumePoint {
        let offset = self.first_offset + self.at.addr().saturating_sub(self.first.addr());
        ResumePoint { buffer: self.buffer, offset, epoch: self.epoch }
    }

    /// How many scopes are open after the events that were numbered.
    pub(super) fn depth(&self) -> u32 {
        self.depth
    }

    /// Whether every event was numbered.
    pub(super) fn is_done(&self) -> bool {
        self.at >= self.end
    }

    /// Skips the items before the next synchronised event; returns the epoch of that event.
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

    /// Numbers the events of `epoch`, which is the next epoch, with the serials from `serial` on;
    /// returns the first unused serial.
    pub(super) fn number(&mut self, epoch: u64, mut serial: u64, layouts: &Layouts) -> u64 {
        let low = epoch & SERIAL_MASK;
        serial = self.number_fast(low, serial, layouts);
        while let Some((head, span)) = self.head(layouts) {
            if span.synced {
                if head >> SERIAL_SHIFT & SERIAL_MASK != low {
                    break;
                }
                let numbered = with_serial(head, serial);
                // SAFETY: all bytes of the event are committed, so the thread does not access them
                // any more. The tracker's events have at least 8 bytes, the program's at least 5.
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
                serial = self.number_fast(low, serial, layouts);
            } else {
                self.enter_or_leave(head as u8);
                self.skip(span);
            }
        }
        serial
    }

    /// Numbers events as [`number`](Self::number) does, up to the first event that is of another
    /// epoch, or whose guessed size is wrong.
    ///
    /// PERF: where the next event begins depends on the size of this one. Looking up the size takes
    /// as long as everything else; guessing it is a shift, and the guess is checked while the next
    /// event is loaded.
    #[inline(always)]
    fn number_fast(&mut self, low: u64, mut serial: u64, layouts: &Layouts) -> u64 {
        // An event of fewer than 8 bytes has neither of the two guessed sizes.
        let last = self.end.wrapping_sub(7);
        while self.at < last {
            // SAFETY: at least 8 committed bytes begin here, since `at < end - 7`.
            let head = unsafe { self.at.cast::<u64>().read_unaligned() };
            let next = layouts.guess_next(head, self.at);
            let is_right = layouts.is_synced_of(head as u8, next.addr() - self.at.addr());
            if !is_right || head >> SERIAL_SHIFT & SERIAL_MASK != low || next > self.end {
                break;
            }
            // SAFETY: all bytes of the event are committed, so the thread does not access them any
            // more. There are at least 8, since both sizes are.
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
        // NOTE: reads no byte after the end, because the thread writes there.
        let head = match self.end.addr().saturating_sub(self.at.addr()) {
            0 => return None,
            1..8 => self.short_head(),
            // SAFETY: at least 8 committed bytes begin here.
            _ => unsafe { self.at.cast::<u64>().read_unaligned() },
        };
        Some((head, layouts.span(head)))
    }

    /// The first 8 bytes of an item at the end that has fewer than 8, padded with zeros.
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

    /// The events that were numbered since the last call.
    pub(super) fn take_run(&mut self) -> &[u8] {
        let start = std::mem::replace(&mut self.run, self.at);
        // SAFETY: committed bytes, which only this cursor changes, and not while the slice lives.
        unsafe { std::slice::from_raw_parts(start, self.at.addr() - start.addr()) }
    }

    /// Does the same as [`take_run`](Self::take_run), from a position of its own: for a caller that
    /// takes larger pieces, less often.
    pub(super) fn take_piece(&mut self) -> &[u8] {
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
    use crate::trace::write::buffer;
    use crate::trace::write::declared::{self, Declared, DeclaredField, Family, Logged};
    use memledger_format::arrays::piece_head;
    use memledger_format::encode::Declaration;
    use memledger_format::layout::ARRAYS_END;
    use memledger_format::schema::FieldType::{AnsiString, U8, U64};
    use memledger_format::schema::NO_SYNC;

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

    /// A buffer that was begun in `epoch` and holds these events, and where they end.
    fn buffer_of(epoch: u64, events: &[Vec<u8>]) -> (Buffer, *mut u8) {
        let bytes = events.concat();
        let buffer = buffer::take(buffer::SMALL).unwrap();
        // SAFETY: the buffer is the test's own, and longer than the events.
        unsafe {
            buffer.epoch.store(epoch, Ordering::Relaxed);
            buffer.start().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        }
        (buffer, buffer.start().wrapping_add(bytes.len()))
    }

    /// The bytes after the committed ones belong to the thread: this test makes them unreadable.
    #[test]
    fn nothing_is_read_after_what_is_committed() {
        const PAGE: usize = 4096;
        let events =
            [synced(7, 1), unsynced(2), vec![ENTER_SCOPE], synced(7, 3), vec![LEAVE_SCOPE]];
        let bytes = events.concat();
        // SAFETY: the pages are this test's own; the second may not be accessed.
        let (start, end) = unsafe {
            let (access, private) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE);
            let flags = private | libc::MAP_ANONYMOUS;
            let pages = libc::mmap(std::ptr::null_mut(), 2 * PAGE, access, flags, -1, 0);
            let end = pages.cast::<u8>().add(PAGE);
            assert_eq!(libc::mprotect(end.cast(), PAGE, libc::PROT_NONE), 0);
            let start = end.sub(bytes.len());
            start.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
            (start, end)
        };
        let mut cursor = BufferCursor {
            buffer: buffer::take(buffer::SMALL).unwrap(),
            copy: None,
            first: start,
            first_offset: 0,
            at: start,
            run: start,
            sent: start,
            end,
            epoch: 0,
            depth: 0,
        };
        let layouts = layouts();
        assert_eq!(cursor.next_epoch(&layouts), Some(7));
        assert_eq!(cursor.number(7, 40, &layouts), 42);
        assert_eq!((cursor.next_epoch(&layouts), cursor.depth()), (None, 0));
        let run = [synced(40, 1), unsynced(2), vec![ENTER_SCOPE], synced(41, 3), vec![LEAVE_SCOPE]];
        assert_eq!(cursor.take_run(), run.concat());
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
        let (buffer, end) = buffer_of(5, &events);
        let mut cursor = BufferCursor::new(buffer, None, end, 0);
        assert_eq!(cursor.next_epoch(&layouts), Some(7));
        // Past the wrap of the serial's 24 bits.
        let serial = (1 << 24) - 1;
        assert_eq!(cursor.number(7, serial, &layouts), serial + 2);
        let run = [
            vec![ENTER_SCOPE],
            unsynced(1),
            synced(0xff_ffff, 0xffff_ffff_ffff_ffff),
            unsynced(2),
            synced(0, 0),
            vec![LEAVE_SCOPE],
        ];
        assert_eq!(cursor.take_run(), run.concat());
        assert_eq!(cursor.next_epoch(&layouts), Some(9));
        assert!(!cursor.is_done());
        // The rest, in another cycle.
        let mut rest = BufferCursor::new(buffer, Some(cursor.resume_point()), end, cursor.depth());
        assert_eq!(rest.next_epoch(&layouts), Some(9));
        assert_eq!(rest.number(9, 4, &layouts), 5);
        assert_eq!((cursor.depth(), rest.depth()), (0, 0));
        assert!(rest.is_done() && rest.next_epoch(&layouts).is_none());
        assert_eq!(rest.take_run(), synced(4, 3));
        assert_eq!(rest.take_piece(), synced(4, 3));
        assert_eq!(cursor.take_piece(), run.concat());
        buffer::give_back(buffer);
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
        let (buffer, end) = buffer_of(5, &events([7, 0, 0], [7, 0, 0], [9, 0, 0]));
        let mut cursor = BufferCursor::new(buffer, None, end, 0);
        assert_eq!(cursor.next_epoch(&layouts), Some(7));
        assert_eq!(cursor.number(7, 0x01_02_03, &layouts), 0x01_02_05);
        assert_eq!(cursor.next_epoch(&layouts), Some(9));
        assert_eq!(cursor.number(9, 0x01_02_05, &layouts), 0x01_02_06);
        assert_eq!(cursor.next_epoch(&layouts), None);
        assert!(cursor.is_done());
        assert_eq!(cursor.take_piece(), events([3, 2, 1], [4, 2, 1], [5, 2, 1]).concat());
        buffer::give_back(buffer);
    }

    #[test]
    fn epochs_are_completed_from_their_low_bits() {
        let layouts = layouts();
        let epochs = [0x1_00ff_fffe, 0x1_00ff_ffff, 0x1_0100_0000, 0x1_01ff_fff0];
        let events = epochs.map(|epoch| synced(epoch, 0));
        let (buffer, end) = buffer_of(0x1_00f0_0000, &events);
        let mut cursor = BufferCursor::new(buffer, None, end, 0);
        for (serial, epoch) in epochs.into_iter().enumerate() {
            assert_eq!(cursor.next_epoch(&layouts), Some(epoch));
            let serial = serial as u64;
            assert_eq!(cursor.number(epoch, serial, &layouts), serial + 1);
        }
        assert!(cursor.is_done());
        buffer::give_back(buffer);
    }
}
