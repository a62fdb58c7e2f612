//! What one call of the allocator records.
//!
//! Each function here is the same three steps: is anything recorded at all, enter, write. The
//! unusual ways in (first event of a thread, block full, the tracker's own code) are one cold
//! function beside it.
#![expect(unsafe_code, reason = "events are written through raw pointers")]

use super::events::{ALLOC, FREE, REALLOC_ALLOC, REALLOC_FREE, Writer};
use super::{linked, stats};
use crate::scopes;
use crate::trace::write::{self, Cold, Slot, serial};
use std::alloc::{GlobalAlloc, Layout};

/// A block was allocated, by an allocator that wants the environment ignored or not.
#[inline(always)]
pub(crate) fn allocated(pointer: *mut u8, layout: Layout, ignore_environment: bool) {
    #[cold]
    #[inline(never)]
    fn cold(pointer: *mut u8, layout: Layout, ignore_environment: bool) {
        linked::note(ignore_environment);
        if let Some(cold) = enter_cold(layout.size() as i64) {
            write_alloc(cold.slot, pointer, layout);
        }
    }
    if write::is_off() {
        return;
    }
    match write::enter() {
        Some(slot) => {
            write_alloc(slot, pointer, layout);
            write::leave(slot);
        }
        None => cold(pointer, layout, ignore_environment),
    }
}

/// A block is about to be freed.
#[inline(always)]
pub(crate) fn freeing(pointer: *mut u8, layout: Layout) {
    #[cold]
    #[inline(never)]
    fn cold(pointer: *mut u8, layout: Layout) {
        if let Some(cold) = enter_cold(-(layout.size() as i64)) {
            write_free(cold.slot, pointer);
        }
    }
    if write::is_off() {
        return;
    }
    match write::enter() {
        Some(slot) => {
            write_free(slot, pointer);
            write::leave(slot);
        }
        None => cold(pointer, layout),
    }
}

/// Reallocates a block. Both halves are one commit, so a reader sees either both or none.
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
            // SAFETY: the caller's promise is passed on.
            Some(cold) => unsafe { write_realloc(cold.slot, inner, pointer, layout, new_size) },
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
    if write::is_off() {
        // SAFETY: the caller's promise is passed on.
        return unsafe { inner.realloc(pointer, layout, new_size) };
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
fn write_alloc(slot: &Slot, pointer: *mut u8, layout: Layout) {
    let at = scopes::switch(slot);
    let serial = serial::next();
    // SAFETY: `enter` has seen to the room, of which the switch used its part.
    let mut writer = unsafe { Writer::new(at) };
    writer.alloc(ALLOC.wire(), serial, pointer.addr(), layout.size(), layout.align());
    commit(slot, writer, serial::is_marker_due(serial));
}

#[inline(always)]
fn write_free(slot: &Slot, pointer: *mut u8) {
    let serial = serial::next();
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
    // SAFETY: the caller's promise is passed on.
    let new = unsafe { inner.realloc(pointer, layout, new_size) };
    let second = serial::next();
    if new.is_null() {
        writer.alloc(REALLOC_ALLOC.wire(), second, pointer.addr(), layout.size(), layout.align());
        writer.realloc_failed(pointer.addr());
    } else {
        writer.alloc(REALLOC_ALLOC.wire(), second, new.addr(), new_size, layout.align());
    }
    commit(slot, writer, serial::is_marker_due(first) || serial::is_marker_due(second));
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
