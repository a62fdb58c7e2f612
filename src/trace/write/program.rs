//! Events that the program logs, of any size, in the stream of the thread that logs them.
//!
//! A short event without arrays goes the same way as the hook's: [`begin`], write, [`end`]. All
//! others, and whatever is unusual, go through [`record`]:
//! ```text
//! fits into the block      closing of the context? │ enter? │ event │ pieces of arrays │ terminal
//! does not     old block   closing of the context
//!              new block   enter? │ event │ pieces of arrays ...
//!              new block   ... pieces of arrays │ terminal │ what comes next
//! ```
//! The blocks of a long event are taken before anything of it is written, and show to the worker
//! all at once: an event is whole or lost, and a tick never ends within one. Where a packet with one
//! of its blocks is lost, the event is lost and nothing else, since it begins and ends in no context.
//!
//! Scopes of the program lie around the context that memory events stand in, which is one scope
//! deep: it is closed before one of the program's is opened or closed.
#![expect(unsafe_code, reason = "writes events through raw pointers")]

use super::buffer::{self, KEPT, ROOM};
use super::registry::{self, Guard, Slot};
use super::{Cold, enter, enter_cold_with, is_untracked, leave, loss, places, set_guard, state};
use crate::platform::clock;
use crate::trace::format::arrays::{Aux, PIECE_HEAD, Source, piece_head};
use crate::trace::format::encode::{
    AUX_TERMINAL, ENTER_SCOPE, ENTER_SCOPE_AT, LEAVE_SCOPE, LEAVE_SCOPE_AT, SCOPE_AT, SYNCED_HEADER,
};
use crate::trace::write::pages::{Block, LARGE};
use std::ptr::NonNull;
use std::slice;
use std::sync::atomic::Ordering;

/// What fits behind the cursor of a thread that has room, so that nothing else need be looked at:
/// bytes of an event with its head.
pub(crate) const SHORT: usize = ROOM - KEPT;

// The five bits of an index and the size of the largest piece fill the head's 32 bits.
const _: () = assert!(LARGE < 1 << 19);

/// Whether an event stands at the beginning of a scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    None,
    Plain,
    /// With the clock.
    Timed,
}

/// One event.
pub(crate) struct Record<'a> {
    pub(crate) wire: u16,
    pub(crate) synced: bool,
    pub(crate) has_aux: bool,
    pub(crate) fixed: &'a [u8],
    /// By field.
    pub(crate) aux: &'a [Aux<'a>],
}

/// Whether anything that is logged now would be recorded.
pub(crate) fn is_on() -> bool {
    state::load() & state::LOG != 0
}

/// Begins a short event: a slot with [`SHORT`] bytes of room, in the right place of the order.
/// `None` says that [`record`] must see to it.
#[inline(always)]
pub(crate) fn begin(synced: bool) -> Option<&'static Slot> {
    let slot = enter()?;
    let here =
        if synced { places::is_here_to_log(slot, slot.stamp()) } else { places::is_logging() };
    if here {
        return Some(slot);
    }
    leave(slot);
    None
}

/// Ends what [`begin`] began: the event goes up to `end`.
#[inline(always)]
pub(crate) fn end(slot: &Slot, end: *mut u8) {
    slot.commit(end);
    leave(slot);
}

/// Records an event, or counts it as lost.
#[inline(never)]
pub(crate) fn record(record: &Record<'_>) {
    if let Some(slot) = enter() {
        record_in(slot, record, Scope::None);
        leave(slot);
    } else if let Some(cold) = enter_to_log() {
        record_in(cold.slot, record, Scope::None);
        cold.leave();
    }
}

/// Opens a scope with an event at its beginning; returns what [`leave_scope`] takes. `None` if
/// nothing was recorded.
#[inline(never)]
pub(crate) fn enter_scope(record: &Record<'_>, scope: Scope) -> Option<Open> {
    let cold = enter_to_log()?;
    let slot = cold.slot;
    let opened = settle_scopes(slot).and_then(|level| {
        record_in(slot, record, scope).then(|| {
            slot.depth.store(level + 1, Ordering::Release);
            slot.wanted_depth.set(level + 1);
            Open { slot, level }
        })
    });
    cold.leave();
    opened
}

/// A scope of the program that was opened.
#[derive(Clone, Copy)]
pub(crate) struct Open {
    /// In whose stream.
    slot: &'static Slot,
    /// How many were open around it.
    level: u32,
}

impl std::fmt::Debug for Open {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Open").field("level", &self.level).finish_non_exhaustive()
    }
}

/// Closes a scope, and those inside it that were not; nothing if it is closed already.
#[inline(never)]
pub(crate) fn leave_scope(open: Open, timed: bool) {
    let Some((slot, late)) = registry::current().filter(|_| !is_untracked()) else { return };
    let cold = Cold { slot, late };
    if slot.guard.load(Ordering::Relaxed) != Guard::OUT {
        // A signal handler has interrupted the hook. The scope around this one closes it.
        return;
    }
    set_guard(slot);
    let is_open = std::ptr::eq(slot, open.slot) && slot.depth.load(Ordering::Relaxed) > open.level;
    if is_open && (places::is_logging() || state::goes_on_with(state::LOG)) {
        slot.wanted_depth.set(open.level);
        // Without room it stays owed, to whatever opens or closes a scope next.
        if slot.is_lease_over() {
            places::end_lease(slot);
        }
        if slot.has_room() || buffer::make_room(slot) {
            let depth = slot.depth.load(Ordering::Relaxed);
            if timed && depth == open.level + 1 && slot.bytes_left() + ROOM > KEPT + SCOPE_AT {
                let mut at = At::of_block(slot);
                at.close_context(slot);
                at.put([LEAVE_SCOPE_AT]);
                at.put(clock::now().to_le_bytes());
                slot.depth.store(open.level, Ordering::Release);
                slot.commit(at.at);
            } else {
                settle_scopes(slot);
            }
        }
    }
    cold.leave();
}

/// Closes scopes that should be closed, as far as there is room; returns how many are open, `None`
/// if those are too many still.
fn settle_scopes(slot: &Slot) -> Option<u32> {
    let (mut depth, wanted) = (slot.depth.load(Ordering::Relaxed), slot.wanted_depth.get());
    if depth > wanted {
        let mut at = At::of_block(slot);
        at.close_context(slot);
        while depth > wanted && at.left() > 0 {
            at.put([LEAVE_SCOPE]);
            depth -= 1;
        }
        slot.depth.store(depth, Ordering::Release);
        slot.commit(at.at);
    }
    (depth == wanted).then_some(depth)
}

/// The slow way in. The tracker's own code logs nothing: who does is a signal handler that has
/// interrupted it.
fn enter_to_log() -> Option<Cold> {
    if is_untracked() {
        if is_on() {
            loss::event_without_slot();
        }
        return None;
    }
    enter_cold_with(state::LOG)
}

/// Whether the thread may log now, and is in the right place of the order to.
fn arrive(slot: &Slot, synced: bool) -> bool {
    if synced {
        return places::is_here_to_log(slot, slot.stamp()) || places::come_to_log(slot);
    }
    places::is_logging() || state::goes_on_with(state::LOG)
}

fn record_in(slot: &Slot, record: &Record<'_>, scope: Scope) -> bool {
    if !arrive(slot, record.synced) {
        return false;
    }
    let size = record.size(scope);
    // One byte more, to close the context.
    let mut at = At::of_block(slot);
    if size < at.left() {
        if scope != Scope::None {
            at.close_context(slot);
        }
        at.write(record, slot.epoch(), scope);
        slot.commit(at.at);
        return true;
    }
    let Some(chain) = buffer::take_chain(slot, size) else {
        loss::event(slot);
        return false;
    };
    // NOTE: again. The thread may have waited for the blocks, and the worker gone on meanwhile.
    if !arrive(slot, record.synced) {
        buffer::release_chain(slot, chain.first);
        return false;
    }
    let epoch = slot.epoch();
    let mut at = At::start_of(chain.first, epoch);
    at.write(record, epoch, scope);
    at.finish();
    buffer::publish(slot, &chain, at.block, at.at);
    true
}

impl Record<'_> {
    /// Bytes it takes where it is not divided.
    fn size(&self, scope: Scope) -> usize {
        let before = match scope {
            Scope::None => 0,
            Scope::Plain => 1,
            Scope::Timed => SCOPE_AT,
        };
        let pieces = self.aux.iter().map(|aux| match aux.size() {
            0 => 0,
            size => PIECE_HEAD + size,
        });
        before
            + if self.synced { SYNCED_HEADER } else { 2 }
            + self.fixed.len()
            + pieces.sum::<usize>()
            + usize::from(self.has_aux)
    }
}

/// Where in which block the thread is writing what it has not committed yet.
struct At {
    at: *mut u8,
    /// Behind the last byte that may be written.
    end: *mut u8,
    block: NonNull<Block>,
}

impl At {
    /// Behind what the thread has committed.
    fn of_block(slot: &Slot) -> Self {
        let at = slot.cursor();
        let end = at.wrapping_add(slot.bytes_left() + ROOM - KEPT);
        Self { at, end, block: slot.block.get().unwrap_or(NonNull::dangling()) }
    }

    /// At the start of a block that nobody knows of yet, for a thread in `epoch`.
    fn start_of(block: NonNull<Block>, epoch: u64) -> Self {
        // SAFETY: blocks are never unmapped.
        let header = unsafe { block.as_ref() };
        header.epoch.store(epoch, Ordering::Relaxed);
        let end = block.as_ptr().cast::<u8>();
        let end = end.wrapping_add(header.size.load(Ordering::Relaxed) as usize - KEPT);
        Self { at: Block::start(block), end, block }
    }

    fn left(&self) -> usize {
        self.end.addr().saturating_sub(self.at.addr())
    }

    /// Has `size` more bytes written by `write`, of those that are left.
    fn put_with(&mut self, size: usize, write: impl FnOnce(&mut [u8])) {
        let size = size.min(self.left());
        // SAFETY: so many bytes are left in the block, which nobody but this thread looks at behind
        // what is committed; pages are zero at first, so they are initialised.
        write(unsafe { slice::from_raw_parts_mut(self.at, size) });
        self.at = self.at.wrapping_add(size);
    }

    /// PERF: of a size that the compiler knows, so that these are stores and no calls.
    #[inline(always)]
    fn put<const N: usize>(&mut self, bytes: [u8; N]) {
        self.put_with(N, |out| {
            if let Some(out) = out.first_chunk_mut() {
                *out = bytes;
            }
        });
    }

    /// Closes the context that memory events stand in, if that is open.
    fn close_context(&mut self, slot: &Slot) {
        let closing = slot.closing.load(Ordering::Relaxed);
        if closing != 0 {
            self.put([closing]);
            slot.closing.store(0, Ordering::Relaxed);
        }
        // Whatever comes next opens its own.
        slot.context.set(0);
    }

    /// Notes how far a block of a chain is written.
    fn finish(&self) -> &Block {
        // SAFETY: blocks are never unmapped.
        let header = unsafe { self.block.as_ref() };
        header.committed.store(self.at, Ordering::Relaxed);
        header
    }

    /// Goes on in the next block of the chain.
    fn next(&mut self, epoch: u64) {
        if let Some(next) = NonNull::new(self.finish().next.load(Ordering::Relaxed)) {
            *self = Self::start_of(next, epoch);
        }
    }

    /// Writes the event, for which the blocks have room.
    fn write(&mut self, record: &Record<'_>, epoch: u64, scope: Scope) {
        match scope {
            Scope::None => {}
            Scope::Plain => self.put([ENTER_SCOPE]),
            Scope::Timed => {
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
            self.put([AUX_TERMINAL << 1]);
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
                // There is no next block: the chain was measured wrongly.
                debug_assert!(false, "{rest} bytes of an array have no room");
                return;
            }
            self.put(piece_head(index, size, 1));
            self.put_with(size, |out| source.fill(out));
            rest -= size;
        }
    }
}
