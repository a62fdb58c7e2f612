//! Events that the program logs, of any size, in the stream of the thread that logs them.
//!
//! A short event without arrays takes the fast path, as the hook's events do: [`begin`], write,
//! [`end`]. All others take the slow path, [`record`]:
//! ```text
//! fits into the buffer     closing of the context? │ enter? │ event │ pieces of arrays │ terminal
//! does not     old buffer  closing of the context
//!              new buffer  enter? │ event │ pieces of arrays ...
//!              new buffer  ... pieces of arrays │ terminal │ the next events
//! ```
//! The buffers of a long event are taken before any of it is written, and become visible to the
//! worker all at once: an event is complete or lost, and a cycle never ends within one. If a packet
//! with one of its buffers is lost, only this event is lost, since it begins and ends outside any
//! context.
//!
//! Scopes of the program enclose the context of memory events, which is one scope deep: the context
//! is closed before a scope of the program is opened or closed.
#![expect(unsafe_code, reason = "writes events through raw pointers")]

use super::buffer::{Buffer, LARGE};
use super::buffer_pool::{self, MAX_HOOK_BYTES, RESERVED};
use super::enter::{SlowEntry, enter, enter_cold_with, leave, set_guard};
use super::reentrancy::is_untracked;
use super::slot::{Guard, ThreadSlot};
use super::{loss, registry, state, sync};
use crate::platform::clock;
use memledger_format::arrays::{Aux, PIECE_HEAD, Source, piece_head};
use memledger_format::encode::SYNCED_HEADER;
use memledger_format::layout::{
    ARRAYS_END, ENTER_SCOPE, ENTER_SCOPE_AT, LEAVE_SCOPE, LEAVE_SCOPE_AT, SCOPE_AT, UID_SIZE,
};
use std::slice;
use std::sync::atomic::Ordering;

/// The size of the largest event, header included, that takes the fast path: it fits after the
/// cursor of every thread that has room.
pub(crate) const MAX_SHORT_BYTES: usize = MAX_HOOK_BYTES - RESERVED;

// The head of a piece has 32 bits: 8 for its type, 5 for the index of the array, 19 for the size.
const _: () = assert!(LARGE < 1 << 19);

/// Whether an event begins a scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScopeStart {
    None,
    Plain,
    /// With the times at which it begins and ends.
    Timed,
}

/// One event.
pub(crate) struct EventRecord<'a> {
    pub(crate) wire: u16,
    pub(crate) synced: bool,
    pub(crate) has_aux: bool,
    pub(crate) fixed: &'a [u8],
    /// The values of the arrays and strings, one entry for each field.
    pub(crate) aux: &'a [Aux<'a>],
}

/// Whether events that the program logs are recorded at present.
pub(crate) fn is_on() -> bool {
    state::load() & state::LOG != 0
}

/// Begins a short event. Returns the slot of this thread, which has [`MAX_SHORT_BYTES`] bytes of
/// room, and is in a current epoch if the event is synchronised. After `None`, the caller calls
/// [`record`].
#[inline(always)]
pub(crate) fn begin(synced: bool) -> Option<&'static ThreadSlot> {
    let slot = enter()?;
    let may_write =
        if synced { sync::is_current_to_log(slot, slot.stamp()) } else { sync::is_logging() };
    if may_write {
        return Some(slot);
    }
    leave(slot);
    None
}

/// Commits what [`begin`] began: the event ends at `end`.
#[inline(always)]
pub(crate) fn end(slot: &ThreadSlot, end: *mut u8) {
    slot.commit(end);
    leave(slot);
}

/// Records an event, or counts it as lost.
#[inline(never)]
pub(crate) fn record(record: &EventRecord<'_>) {
    if let Some(slot) = enter() {
        record_in(slot, record, ScopeStart::None);
        leave(slot);
    } else if let Some(entry) = enter_to_log() {
        record_in(entry.slot, record, ScopeStart::None);
        entry.leave();
    }
}

/// Opens a scope that begins with an event; returns the argument of [`leave_scope`]. `None` if
/// nothing was recorded.
#[inline(never)]
pub(crate) fn enter_scope(record: &EventRecord<'_>, scope: ScopeStart) -> Option<OpenedScope> {
    let entry = enter_to_log()?;
    let slot = entry.slot;
    let opened = close_owed_scopes(slot).and_then(|level| {
        record_in(slot, record, scope).then(|| {
            slot.depth.store(level + 1, Ordering::Release);
            slot.wanted_depth.set(level + 1);
            OpenedScope { slot, level }
        })
    });
    entry.leave();
    opened
}

/// A scope of the program that was opened.
#[derive(Clone, Copy)]
pub(crate) struct OpenedScope {
    /// The thread in whose stream it was opened.
    slot: &'static ThreadSlot,
    /// The number of scopes that enclose it.
    level: u32,
}

impl std::fmt::Debug for OpenedScope {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Open").field("level", &self.level).finish_non_exhaustive()
    }
}

/// Closes a scope, and the scopes inside it that are still open. Has no effect on a closed scope.
#[inline(never)]
pub(crate) fn leave_scope(open: OpenedScope, timed: bool) {
    // NOTE: checked first. While the reentrancy guard is held, the thread's slot is suspended, and
    // `current` would register another one.
    if is_untracked() {
        return;
    }
    let Some(current) = registry::current() else { return };
    let entry = SlowEntry::new(current);
    let slot = entry.slot;
    if slot.guard.load(Ordering::Relaxed) != Guard::OUT {
        // A signal handler has interrupted the hook. The end of the scope around this one closes
        // this one, too.
        return;
    }
    set_guard(slot);
    let is_open = std::ptr::eq(slot, open.slot) && slot.depth.load(Ordering::Relaxed) > open.level;
    if is_open && (sync::is_logging() || state::is_recorded(state::LOG)) {
        slot.wanted_depth.set(open.level);
        // If there is no room, the end of the scope stays owed, and is written when the next scope
        // is opened or closed.
        if slot.is_lease_over() {
            slot.end_lease();
        }
        if slot.has_room() || buffer_pool::make_room(slot) {
            let depth = slot.depth.load(Ordering::Relaxed);
            if timed && depth == open.level + 1 {
                let mut writer = Writer::at_cursor(slot);
                writer.close_context(slot);
                writer.put([LEAVE_SCOPE_AT]);
                writer.put(clock::now().to_le_bytes());
                slot.depth.store(open.level, Ordering::Release);
                slot.commit(writer.at);
            } else {
                close_owed_scopes(slot);
            }
        }
    }
    entry.leave();
}

/// Closes the scopes whose ends are owed, as far as there is room; returns the number of open
/// scopes, or `None` if some ends are still owed.
fn close_owed_scopes(slot: &ThreadSlot) -> Option<u32> {
    let (mut depth, wanted) = (slot.depth.load(Ordering::Relaxed), slot.wanted_depth.get());
    if depth > wanted {
        let mut writer = Writer::at_cursor(slot);
        writer.close_context(slot);
        while depth > wanted && writer.left() > 0 {
            writer.put([LEAVE_SCOPE]);
            depth -= 1;
        }
        slot.depth.store(depth, Ordering::Release);
        slot.commit(writer.at);
    }
    (depth == wanted).then_some(depth)
}

/// Enters the hook on the slow path. The tracker's own code logs nothing, so an event that is
/// logged while it runs is from a signal handler that has interrupted it; that event is lost.
fn enter_to_log() -> Option<SlowEntry> {
    if is_untracked() {
        if is_on() {
            loss::event_without_slot();
        }
        return None;
    }
    enter_cold_with(state::LOG)
}

/// Brings the thread to a current epoch to log; `false` if the event is not to be recorded.
fn synchronize(slot: &ThreadSlot, synced: bool) -> bool {
    if synced {
        return sync::is_current_to_log(slot, slot.stamp()) || sync::synchronize_to_log(slot);
    }
    sync::is_logging() || state::is_recorded(state::LOG)
}

fn record_in(slot: &ThreadSlot, record: &EventRecord<'_>, scope: ScopeStart) -> bool {
    if !synchronize(slot, record.synced) {
        return false;
    }
    let size = record.size(scope);
    // One byte must be left after the event, to close the context.
    let mut writer = Writer::at_cursor(slot);
    if size < writer.left() {
        if scope != ScopeStart::None {
            writer.close_context(slot);
        }
        writer.write(record, slot.epoch(), scope);
        slot.commit(writer.at);
        return true;
    }
    let Some(chain) = buffer_pool::take_chain(slot, size) else {
        loss::event(slot);
        return false;
    };
    // NOTE: synchronises again, because the thread may have waited for the buffers, and the
    // watermark may have passed its epoch meanwhile.
    if !synchronize(slot, record.synced) {
        buffer_pool::release_chain(slot, chain.first);
        return false;
    }
    let epoch = slot.epoch();
    let mut writer = Writer::at_start(chain.first, epoch);
    writer.write(record, epoch, scope);
    if let Some(last) = writer.finish() {
        buffer_pool::publish(slot, &chain, last, writer.at);
    }
    true
}

impl EventRecord<'_> {
    /// Bytes of the event if it is in one buffer.
    fn size(&self, scope: ScopeStart) -> usize {
        let before = match scope {
            ScopeStart::None => 0,
            ScopeStart::Plain => 1,
            ScopeStart::Timed => SCOPE_AT,
        };
        let pieces = self.aux.iter().map(|aux| match aux.size() {
            0 => 0,
            size => PIECE_HEAD + size,
        });
        before
            + if self.synced { SYNCED_HEADER } else { UID_SIZE }
            + self.fixed.len()
            + pieces.sum::<usize>()
            + usize::from(self.has_aux)
    }
}

/// Writes uncommitted bytes of a thread.
struct Writer {
    at: *mut u8,
    /// The end of the bytes that may be written.
    end: *mut u8,
    /// `None` if the thread has no buffer; there is no room then.
    buffer: Option<Buffer>,
}

impl Writer {
    /// A writer that begins after the bytes that the thread has committed.
    fn at_cursor(slot: &ThreadSlot) -> Self {
        let (at, buffer) = (slot.cursor(), slot.buffer.get());
        // NOTE: not the slot's limit, because `close_owed_scopes` may have written beyond it.
        let end = buffer.map_or(at, |buffer| buffer.end().wrapping_sub(RESERVED));
        Self { at, end, buffer }
    }

    /// A writer at the start of a buffer that is not published yet, for a thread in `epoch`.
    fn at_start(buffer: Buffer, epoch: u64) -> Self {
        buffer.epoch.store(epoch, Ordering::Relaxed);
        let end = buffer.end().wrapping_sub(RESERVED);
        Self { at: buffer.start(), end, buffer: Some(buffer) }
    }

    fn left(&self) -> usize {
        self.end.addr().saturating_sub(self.at.addr())
    }

    /// Appends `size` bytes, which `write` fills; fewer if fewer are left.
    fn put_with(&mut self, size: usize, write: impl FnOnce(&mut [u8])) {
        let size = size.min(self.left());
        // SAFETY: `size` bytes are left in the buffer. Only this thread accesses bytes that are not
        // committed. Pages are zero at first, so the bytes are initialised.
        write(unsafe { slice::from_raw_parts_mut(self.at, size) });
        self.at = self.at.wrapping_add(size);
    }

    /// PERF: the compiler knows the size, so that these are stores, not calls.
    #[inline(always)]
    fn put<const N: usize>(&mut self, bytes: [u8; N]) {
        self.put_with(N, |out| {
            if let Some(out) = out.first_chunk_mut() {
                *out = bytes;
            }
        });
    }

    /// Closes the context of memory events, if one is open.
    fn close_context(&mut self, slot: &ThreadSlot) {
        let closing = slot.closing.load(Ordering::Relaxed);
        if closing != 0 {
            self.put([closing]);
            slot.closing.store(0, Ordering::Relaxed);
        }
        // The next memory event opens its own context.
        slot.context.set(0);
    }

    /// Stores where a buffer of a chain ends; returns the buffer.
    fn finish(&self) -> Option<Buffer> {
        self.buffer.inspect(|buffer| buffer.committed.store(self.at, Ordering::Relaxed))
    }

    /// Continues in the next buffer of the chain.
    fn next(&mut self, epoch: u64) {
        if let Some(next) = self.finish().and_then(|buffer| buffer.next.load(Ordering::Relaxed)) {
            *self = Self::at_start(next, epoch);
        }
    }

    /// Writes the event. The buffers have room for it.
    fn write(&mut self, record: &EventRecord<'_>, epoch: u64, scope: ScopeStart) {
        match scope {
            ScopeStart::None => {}
            ScopeStart::Plain => self.put([ENTER_SCOPE]),
            ScopeStart::Timed => {
                self.put([ENTER_SCOPE_AT]);
                self.put(clock::now().to_le_bytes());
            }
        }
        self.put(record.wire.to_le_bytes());
        if record.synced {
            let [low, middle, high, ..] = epoch.to_le_bytes();
            self.put([low, middle, high]);
        }
        self.put_with(record.fixed.len(), |out| out.copy_from_slice(&record.fixed[..out.len()]));
        for (index, &aux) in record.aux.iter().enumerate() {
            self.write_aux(index, aux, epoch);
        }
        if record.has_aux {
            if self.left() == 0 {
                self.next(epoch);
            }
            self.put([ARRAYS_END]);
        }
    }

    fn write_aux(&mut self, index: usize, aux: Aux<'_>, epoch: u64) {
        let element = aux.element();
        let mut rest = aux.size();
        let mut source = Source::new(aux);
        while rest > 0 {
            if self.left() < PIECE_HEAD + element {
                self.next(epoch);
            }
            let room = self.left().saturating_sub(PIECE_HEAD);
            let size = rest.min(room - room % element);
            if size == 0 {
                // There is no next buffer: the chain was measured wrongly.
                debug_assert!(false, "{rest} bytes of an array have no room");
                return;
            }
            self.put(piece_head(index, size, 1));
            self.put_with(size, |out| source.fill(out));
            rest -= size;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_writer_ends_before_its_buffer_does_whatever_was_written_for_owed_scopes() {
        for owed in [3900, 3940, 3960, 4000, 4016, 5000] {
            let thread = std::thread::spawn(move || {
                let (slot, _) = registry::current().unwrap();
                set_guard(slot);
                assert!(buffer_pool::make_room(slot));
                let buffer = slot.buffer.get().unwrap();
                slot.depth.store(owed, Ordering::Relaxed);
                close_owed_scopes(slot);
                let writer = Writer::at_cursor(slot);
                assert!(writer.at.addr() + writer.left() <= buffer.end().addr() - RESERVED);
                // These scopes were never opened.
                slot.depth.store(0, Ordering::Relaxed);
                slot.commit(buffer.start());
                leave(slot);
            });
            thread.join().unwrap();
        }
    }
}
