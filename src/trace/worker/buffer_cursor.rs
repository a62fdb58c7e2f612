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
mod tests;
