//! What one call of the allocator records.
//!
//! The allocator looks first whether anything [is recorded](is_on) at all. Each function here is
//! then the same two steps: enter, write. The unusual ways in (first event of a thread, block
//! full, the tracker's own code) are one cold function beside it.
//!
//! PERF: whatever is not the usual way is the last thing its function does, a tail call, so that
//! the usual way saves no registers for it: a free none, an allocation those that hold the layout
//! during the inner call. With a call in the middle it is 0.5 ns more an event.
#![expect(unsafe_code, reason = "events are written through raw pointers")]

use super::events::{ALLOC, FREE, REALLOC_ALLOC, REALLOC_FREE, Writer};
use super::{linked, stats};
use crate::scopes;
use crate::trace::write::{self, Cold, Slot, serial};
use std::alloc::{GlobalAlloc, Layout};

/// Whether anything is recorded, or the tracker is at work. One load.
#[inline(always)]
pub(crate) fn is_on() -> bool {
    // PERF: off is the way that falls through: a taken branch more is a cycle, 3 % of a pair.
    #[cold]
    #[inline(always)]
    fn unlikely() {}
    let on = !write::is_off();
    if on {
        unlikely();
    }
    on
}

/// A block was allocated, by an allocator that wants the environment ignored or not. Returns the
/// block.
#[inline(always)]
pub(crate) fn allocated(pointer: *mut u8, layout: Layout, ignore_environment: bool) -> *mut u8 {
    #[cold]
    #[inline(never)]
    fn cold(pointer: *mut u8, layout: Layout, ignore_environment: bool) -> *mut u8 {
        linked::note(ignore_environment);
        if let Some(cold) = enter_cold(layout.size() as i64) {
            write_alloc(cold.slot, scopes::switch(cold.slot), serial::next(), pointer, layout);
            cold.leave();
        }
        pointer
    }
    /// In another context than the last event of this thread.
    #[inline(never)]
    fn elsewhere(slot: &Slot, pointer: *mut u8, layout: Layout) -> *mut u8 {
        write_alloc(slot, scopes::switch(slot), serial::next(), pointer, layout);
        write::leave(slot);
        pointer
    }
    /// A marker is due, or the size has an event of its own.
    #[cold]
    #[inline(never)]
    fn with_more(slot: &Slot, serial: u64, pointer: *mut u8, layout: Layout) -> *mut u8 {
        write_alloc(slot, slot.cursor(), serial, pointer, layout);
        write::leave(slot);
        pointer
    }
    let Some(slot) = write::enter() else { return cold(pointer, layout, ignore_environment) };
    if !scopes::is_here(slot) {
        return elsewhere(slot, pointer, layout);
    }
    let serial = serial::next();
    if serial::is_marker_due(serial) || Writer::is_large(layout.size()) {
        return with_more(slot, serial, pointer, layout);
    }
    write_alloc(slot, slot.cursor(), serial, pointer, layout);
    write::leave(slot);
    pointer
}

/// Frees a block, recording it first.
///
/// # Safety
/// That of [`GlobalAlloc::dealloc`].
#[inline(always)]
pub(crate) unsafe fn free<A: GlobalAlloc>(inner: &A, pointer: *mut u8, layout: Layout) {
    #[cold]
    #[inline(never)]
    unsafe fn cold<A: GlobalAlloc>(pointer: *mut u8, layout: Layout, inner: &A) {
        if let Some(cold) = enter_cold(-(layout.size() as i64)) {
            write_free(cold.slot, serial::next(), pointer);
            cold.leave();
        }
        // SAFETY: the caller's promise is passed on.
        unsafe { inner.dealloc(pointer, layout) };
    }
    /// A marker is due.
    #[cold]
    #[inline(never)]
    unsafe fn with_marker<A: GlobalAlloc>(
        pointer: *mut u8,
        layout: Layout,
        inner: &A,
        slot: &Slot,
        serial: u64,
    ) {
        write_free(slot, serial, pointer);
        write::leave(slot);
        // SAFETY: the caller's promise is passed on.
        unsafe { inner.dealloc(pointer, layout) };
    }
    // SAFETY: the caller's promise is passed on, here and below.
    let Some(slot) = write::enter() else { return unsafe { cold(pointer, layout, inner) } };
    // NOTE: before the block is given back. Later, another thread could have received it, and
    // recorded that, before this free was.
    let serial = serial::next();
    if serial::is_marker_due(serial) {
        // SAFETY: as above.
        return unsafe { with_marker(pointer, layout, inner, slot, serial) };
    }
    write_free(slot, serial, pointer);
    write::leave(slot);
    // SAFETY: as above.
    unsafe { inner.dealloc(pointer, layout) };
}

/// Reallocates a block. Each half is a commit of its own; room for both is there before the first,
/// so the second comes unless recording ends in between.
///
/// # Safety
/// That of [`GlobalAlloc::realloc`].
#[inline(always)]
pub(crate) unsafe fn realloc<A: GlobalAlloc>(
    inner: &A,
    pointer: *mut u8,
    layout: Layout,
    new_size: usize,
) -> *mut u8 {
    #[cold]
    #[inline(never)]
    unsafe fn cold<A: GlobalAlloc>(
        inner: &A,
        pointer: *mut u8,
        layout: Layout,
        new_size: usize,
    ) -> *mut u8 {
        match enter_cold(0) {
            Some(cold) => {
                // SAFETY: the caller's promise is passed on.
                let new = unsafe { write_realloc(cold.slot, inner, pointer, layout, new_size) };
                cold.leave();
                new
            }
            None => {
                // SAFETY: the caller's promise is passed on.
                let new = unsafe { inner.realloc(pointer, layout, new_size) };
                if !new.is_null() && write::in_own_code() {
                    stats::own(new_size as i64 - layout.size() as i64);
                }
                new
            }
        }
    }
    match write::enter() {
        Some(slot) => {
            // SAFETY: the caller's promise is passed on.
            let new = unsafe { write_realloc(slot, inner, pointer, layout, new_size) };
            write::leave(slot);
            new
        }
        // SAFETY: the caller's promise is passed on.
        None => unsafe { cold(inner, pointer, layout, new_size) },
    }
}

/// The slow way in. `own_bytes` is what the tracker's own code gains by this call, if it is it.
fn enter_cold(own_bytes: i64) -> Option<Cold> {
    if write::in_own_code() {
        stats::own(own_bytes);
        return None;
    }
    write::enter_cold()
}

#[inline(always)]
fn write_alloc(slot: &Slot, at: *mut u8, serial: u64, pointer: *mut u8, layout: Layout) {
    // SAFETY: `enter` has seen to the room, of which a switch of context used its part.
    let mut writer = unsafe { Writer::new(at) };
    writer.alloc(ALLOC.wire(), serial, pointer.addr(), layout.size(), layout.align());
    commit(slot, writer, serial::is_marker_due(serial));
}

#[inline(always)]
fn write_free(slot: &Slot, serial: u64, pointer: *mut u8) {
    // SAFETY: `enter` has seen to the room.
    let mut writer = unsafe { Writer::new(slot.cursor()) };
    writer.free(FREE.wire(), serial, pointer.addr());
    commit(slot, writer, serial::is_marker_due(serial));
}

#[inline(always)]
unsafe fn write_realloc<A: GlobalAlloc>(
    slot: &Slot,
    inner: &A,
    pointer: *mut u8,
    layout: Layout,
    new_size: usize,
) -> *mut u8 {
    let at = scopes::switch(slot);
    let first = serial::next();
    // SAFETY: `enter` has seen to the room, which counts both halves.
    let mut writer = unsafe { Writer::new(at) };
    writer.free(REALLOC_FREE.wire(), first, pointer.addr());
    commit(slot, writer, serial::is_marker_due(first));
    // NOTE: the inner call can take seconds (it may copy gigabytes), and nobody shall wait for it:
    // the first half is committed, and meanwhile this thread holds no serial.
    write::pause_inside(slot);
    // SAFETY: the caller's promise is passed on.
    let new = unsafe { inner.realloc(pointer, layout, new_size) };
    if !write::go_on_inside(slot) {
        // Recording has ended in between: the block counts as freed in it.
        return new;
    }
    // SAFETY: nothing else has used the room since.
    let mut writer = unsafe { Writer::new(slot.cursor()) };
    let second = serial::next();
    if new.is_null() {
        writer.alloc(REALLOC_ALLOC.wire(), second, pointer.addr(), layout.size(), layout.align());
        writer.realloc_failed(pointer.addr());
    } else {
        writer.alloc(REALLOC_ALLOC.wire(), second, new.addr(), new_size, layout.align());
    }
    commit(slot, writer, serial::is_marker_due(second));
    new
}

/// Publishes what was written, with a marker behind it if one is due.
#[inline(always)]
fn commit(slot: &Slot, mut writer: Writer, marker_due: bool) {
    if marker_due {
        // SAFETY: the room counts a marker behind every event.
        writer.skip_to(unsafe { serial::marker_at(writer.end()) });
    }
    slot.commit(writer.end());
}
