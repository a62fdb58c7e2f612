//! One thread's events on their way into the order of all.
//!
//! ```text
//!   a thread's blocks  | sent | numbered, not sent | not numbered yet | being written ...
//!                             sent                 at                 end
//! ```
//! The hook leaves an event's epoch where its serial belongs. Here the events of one epoch get
//! their serials, in the place where they lie: a run. What runs come in which order is the
//! [session](super::drain)'s matter.
#![expect(unsafe_code, reason = "reads and numbers events in the blocks of other threads")]

use crate::trace::event::encode::{Declaration, ENTER_SCOPE, LEAVE_SCOPE};
use crate::trace::event::schema::NO_SYNC;
use crate::trace::pages::Block;
use crate::trace::write::registry::EPOCH_BITS;
use std::ptr::NonNull;
use std::sync::atomic::Ordering;

const SERIAL_SHIFT: u32 = 16;
const LOW: u64 = (1 << EPOCH_BITS) - 1;
/// The event has a serial.
const SYNCED: u8 = 0x80;

/// The sizes of the events that threads write, by their first byte.
pub(super) struct Shapes([u8; 256]);

impl Shapes {
    pub(super) fn new<'a>(types: impl Iterator<Item = &'a &'static Declaration>) -> Self {
        let mut shapes = [0; 256];
        shapes[usize::from(ENTER_SCOPE)] = 1;
        shapes[usize::from(LEAVE_SCOPE)] = 1;
        for declaration in types {
            // Only the worker writes events with arrays.
            if let (Some(size), Ok(first)) = (declaration.size(), u8::try_from(declaration.wire()))
            {
                let synced = if declaration.flags & NO_SYNC == 0 { SYNCED } else { 0 };
                shapes[usize::from(first)] = size | synced;
            }
        }
        Self(shapes)
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
}

impl Piece {
    /// What lies between `from` (or the block's start) and `end`, all of it committed. `epoch` is
    /// one at which the thread was there.
    pub(super) fn new(
        block: NonNull<Block>,
        from: Option<(NonNull<u8>, u64)>,
        end: *mut u8,
    ) -> Self {
        let (at, epoch) = match from {
            Some((at, epoch)) => (at.as_ptr(), epoch),
            // SAFETY: blocks are never unmapped, and their headers are atomics.
            None => (Block::start(block), unsafe { block.as_ref() }.epoch.load(Ordering::Acquire)),
        };
        Self { block, at, run: at, sent: at, end, epoch }
    }

    /// Where and when to go on: what [`new`](Self::new) takes.
    pub(super) fn rest(&self) -> Option<(NonNull<u8>, u64)> {
        NonNull::new(self.at).map(|at| (at, self.epoch))
    }

    /// Whether every event has been numbered.
    pub(super) fn is_done(&self) -> bool {
        self.at >= self.end
    }

    /// The epoch of the next synchronised event.
    pub(super) fn next_epoch(&mut self, shapes: &Shapes) -> Option<u64> {
        while let Some((head, shape)) = self.head(shapes) {
            if shape & SYNCED != 0 {
                let low = head >> SERIAL_SHIFT & LOW;
                self.epoch += low.wrapping_sub(self.epoch) & LOW;
                return Some(self.epoch);
            }
            self.skip(shape);
        }
        None
    }

    /// Gives the events of `epoch`, which is the next one, the serials from `serial` on; returns
    /// the first that was not given.
    pub(super) fn number(&mut self, epoch: u64, mut serial: u64, shapes: &Shapes) -> u64 {
        let low = epoch & LOW;
        while let Some((head, shape)) = self.head(shapes) {
            if shape & SYNCED != 0 {
                if head >> SERIAL_SHIFT & LOW != low {
                    break;
                }
                let numbered = head & !(LOW << SERIAL_SHIFT) | (serial & LOW) << SERIAL_SHIFT;
                // SAFETY: an event with a serial has 8 bytes at least (with 3 of its fields), all
                // of them committed, so that the thread does not touch them any more.
                unsafe { self.at.cast::<u64>().write_unaligned(numbered) };
                serial += 1;
            }
            self.skip(shape);
        }
        serial
    }

    /// The first 8 bytes of the next event, and its shape.
    #[inline(always)]
    fn head(&self, shapes: &Shapes) -> Option<(u64, u8)> {
        if self.at >= self.end {
            return None;
        }
        // SAFETY: a block has more than 8 bytes behind its last event, kept free by the hook.
        let head = unsafe { self.at.cast::<u64>().read_unaligned() };
        Some((head, shapes.0[usize::from(head as u8)]))
    }

    #[inline(always)]
    fn skip(&mut self, shape: u8) {
        debug_assert!(shape != 0, "threads write events of known types only");
        let size = if shape == 0 { usize::MAX >> 1 } else { usize::from(shape & !SYNCED) };
        self.at = self.at.wrapping_add(size.min(self.end.addr() - self.at.addr()));
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
