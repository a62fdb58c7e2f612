//! The hook: records one call of the allocator.
//!
//! The allocator first checks whether anything [is recorded](mode). Each function here then enters
//! the thread's slot and writes its event. A cold function beside it handles the other cases: the
//! first event of a thread, a full buffer, the tracker's own code.
//!
//! PERF: each slow path is a tail call, so that the fast path saves no registers for it: a free
//! saves no registers, and an allocation only those that hold the layout during the inner call. A
//! slow path that is not a tail call costs 0.5 ns for each event.
//!
//! A free is recorded before the inner call, an allocation after it: no other thread can get the address
//! in between. A reallocation is two events, one on each side of the inner call, and the worker
//! does not wait for the thread during that call.
#![expect(unsafe_code, reason = "events are written through raw pointers")]

use super::events::RUST;
#[cfg(c_malloc)]
use super::own_blocks;
use super::record::Writer;
use super::{linked, stats};
use crate::scopes;
use crate::stacks::capture::{self, Registers};
use crate::stacks::tree::NO_STACK;
use crate::trace::write::{self, SlowEntry, ThreadSlot, reserve, shortage, sync};
use std::alloc::{GlobalAlloc, Layout};
use std::sync::atomic::{Ordering, fence};

/// What the hook does.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Nothing is recorded, and the tracker is not active.
    Off,
    Recorded,
    /// Allocations are recorded with their call stacks.
    WithStacks,
}

/// What the hook does now. Costs one load.
#[inline(always)]
pub(crate) fn mode() -> Mode {
    let state = write::state::load_relaxed();
    if state == write::state::OFF {
        return Mode::Off;
    }
    unlikely();
    if state & write::state::STACKS == 0 {
        return Mode::Recorded;
    }
    // The modules and settings that stacks need were stored before the bit was set. x86-64 loads in order.
    if cfg!(not(target_arch = "x86_64")) {
        fence(Ordering::Acquire);
    }
    Mode::WithStacks
}

/// What the hook does with a free.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum FreeMode {
    /// As [`Mode::Off`].
    Off,
    Recorded,
    /// Frees are recorded in their scopes.
    WithScope,
}

/// What the hook does with a free now. Costs one load.
#[inline(always)]
pub(crate) fn free_mode() -> FreeMode {
    // PERF: one comparison with 0 decides, since the option is the sign bit: a test of its own would
    // cost each free without a scope 0.2 to 0.4 ns.
    const { assert!(write::state::FREE_SCOPES == 1 << 31) };
    match write::state::load_relaxed().cast_signed() {
        1.. => {
            unlikely();
            FreeMode::Recorded
        }
        ..0 => {
            unlikely();
            FreeMode::WithScope
        }
        0 => FreeMode::Off,
    }
}

/// PERF: no branch is taken while recording is off. A taken branch costs a cycle, which is 3 % of an
/// allocation and its free.
#[cold]
#[inline(always)]
fn unlikely() {}

/// Records an allocation; returns the block. `ignore_environment` is the setting of the allocator.
#[inline(always)]
pub(crate) fn allocated(pointer: *mut u8, layout: Layout, ignore_environment: &bool) -> *mut u8 {
    #[cold]
    #[inline(never)]
    fn cold(pointer: *mut u8, layout: Layout, ignore_environment: &bool) -> *mut u8 {
        linked::note(*ignore_environment);
        if let Some(entry) = enter_cold(layout.size() as i64) {
            synchronize_and_write_alloc::<RUST>(entry.slot, pointer, layout, NO_STACK);
            entry.leave();
        }
        pointer
    }
    /// The slow path if the thread's epoch is not current for this block, or its stream is in
    /// another context.
    #[inline(never)]
    fn not_current(slot: &ThreadSlot, pointer: *mut u8, layout: Layout) -> *mut u8 {
        synchronize_and_write_alloc::<RUST>(slot, pointer, layout, NO_STACK);
        write::leave(slot);
        pointer
    }
    let Some(slot) = write::enter() else { return cold(pointer, layout, ignore_environment) };
    let stamp = slot.stamp();
    // PERF: one bitwise or bounds both the size and the alignment: it is at least the larger of the
    // two, and at most their sum.
    let size = layout.size() | layout.align();
    if !sync::is_current(slot, stamp, pointer.addr(), size) || !scopes::is_current(slot) {
        return not_current(slot, pointer, layout);
    }
    // SAFETY: `enter` has checked the room.
    let mut writer = unsafe { Writer::new(slot.cursor()) };
    writer.alloc_small(stamp, pointer.addr(), layout.size(), layout.align(), NO_STACK);
    slot.commit(writer.end());
    write::leave(slot);
    pointer
}

/// Records an allocation and, if it is to have one, the call stack of the function that this is
/// inlined into.
#[inline(always)]
pub(crate) fn allocated_with_stack(pointer: *mut u8, layout: Layout, ignore_environment: bool) {
    #[cold]
    #[inline(never)]
    fn cold(pointer: *mut u8, layout: Layout, ignore_environment: bool, at: &Registers) {
        linked::note(ignore_environment);
        if let Some(entry) = enter_cold(layout.size() as i64) {
            let stack = capture::take(entry.slot, layout.size(), at);
            synchronize_and_write_alloc::<RUST>(entry.slot, pointer, layout, stack);
            entry.leave();
        }
    }
    /// As in [`allocated`].
    #[inline(never)]
    fn not_current(slot: &ThreadSlot, pointer: *mut u8, layout: Layout, stack: u32) {
        synchronize_and_write_alloc::<RUST>(slot, pointer, layout, stack);
        write::leave(slot);
    }
    // NOTE: the function with these registers must not have returned when its stack is taken. So a
    // call that takes it must be no tail call: it gets a reference to a local variable.
    let at = Registers::here();
    let Some(slot) = write::enter() else { return cold(pointer, layout, ignore_environment, &at) };
    let stack = capture::take(slot, layout.size(), &at);
    let stamp = slot.stamp();
    let size = layout.size() | layout.align();
    if !sync::is_current(slot, stamp, pointer.addr(), size) || !scopes::is_current(slot) {
        return not_current(slot, pointer, layout, stack);
    }
    // SAFETY: `enter` has checked the room.
    let mut writer = unsafe { Writer::new(slot.cursor()) };
    writer.alloc_small(stamp, pointer.addr(), layout.size(), layout.align(), stack);
    slot.commit(writer.end());
    write::leave(slot);
}

/// Records an allocation in a heap that is not Rust's; `take` gives its call stack. A block of the
/// tracker's own code is remembered instead.
#[inline(always)]
#[cfg(c_malloc)]
pub(crate) fn allocated_in<const HEAP: u8>(
    pointer: *mut u8,
    layout: Layout,
    take: impl FnOnce(&ThreadSlot) -> u32,
) {
    if let Some(slot) = write::enter() {
        let stack = take(slot);
        synchronize_and_write_alloc::<HEAP>(slot, pointer, layout, stack);
        write::leave(slot);
    } else if write::is_untracked() {
        own_blocks::add(pointer);
    } else if let Some(entry) = write::enter_cold() {
        let stack = take(entry.slot);
        synchronize_and_write_alloc::<HEAP>(entry.slot, pointer, layout, stack);
        entry.leave();
    }
}

/// Called when the inner allocator has returned null. The program gets the null; the tracker's own
/// code gets a zeroed block of its reserve.
#[cold]
#[inline(never)]
pub(crate) fn not_allocated(layout: Layout, ignore_environment: bool) -> *mut u8 {
    if !write::is_untracked() {
        return failed(layout.size());
    }
    linked::note(ignore_environment);
    let block = reserve::take(layout);
    if !block.is_null() {
        // SAFETY: the block has at least `layout.size()` bytes. They may have been used before.
        unsafe { block.write_bytes(0, layout.size()) };
        stats::add_own_bytes(layout.size() as i64);
    }
    block
}

/// Counts a null that is returned to the program for a block of `bytes`.
#[cold]
#[inline(never)]
pub(crate) fn failed(bytes: usize) -> *mut u8 {
    if !write::is_untracked() {
        stats::count_failure();
        shortage::note_null(bytes);
    }
    std::ptr::null_mut()
}

/// Frees a block, recording it first; if `SCOPE`, in the scope that this thread is in.
///
/// # Safety
/// That of [`GlobalAlloc::dealloc`].
#[inline(always)]
pub(crate) unsafe fn free<A: GlobalAlloc, const SCOPE: bool, const HEAP: u8>(
    inner: &A,
    pointer: *mut u8,
    layout: Layout,
) {
    #[cold]
    #[inline(never)]
    unsafe fn cold<A: GlobalAlloc, const SCOPE: bool, const HEAP: u8>(
        pointer: *mut u8,
        layout: Layout,
        inner: &A,
    ) {
        // What C functions allocate for the tracker's own code is not among its bytes.
        let own_bytes = if HEAP == RUST { -(layout.size() as i64) } else { 0 };
        if let Some(entry) = enter_cold(own_bytes) {
            synchronize_and_write_free::<SCOPE, HEAP>(entry.slot, pointer, layout);
            entry.leave();
        } else if reserve::holds(pointer) {
            return reserve::give_back(pointer, layout);
        }
        // SAFETY: the caller makes the same promise.
        unsafe { inner.dealloc(pointer, layout) };
    }
    /// The slow path if the thread's epoch is not current for this block, or, if `SCOPE`, its stream
    /// is in another context.
    #[inline(never)]
    unsafe fn not_current<A: GlobalAlloc, const SCOPE: bool, const HEAP: u8>(
        pointer: *mut u8,
        layout: Layout,
        inner: &A,
        slot: &ThreadSlot,
    ) {
        synchronize_and_write_free::<SCOPE, HEAP>(slot, pointer, layout);
        write::leave(slot);
        // SAFETY: the caller makes the same promise.
        unsafe { inner.dealloc(pointer, layout) };
    }
    let Some(slot) = write::enter() else {
        // SAFETY: the caller makes the same promise, here and below.
        return unsafe { cold::<A, SCOPE, HEAP>(pointer, layout, inner) };
    };
    // NOTE: the event is written before the block is freed. After that, another thread could get
    // the block and record its allocation before this free.
    let stamp = slot.stamp();
    if !sync::is_current(slot, stamp, pointer.addr(), layout.size())
        || SCOPE && !scopes::is_current(slot)
    {
        // SAFETY: as above.
        return unsafe { not_current::<A, SCOPE, HEAP>(pointer, layout, inner, slot) };
    }
    write_free::<HEAP>(slot, slot.cursor(), stamp, pointer);
    write::leave(slot);
    // SAFETY: as above.
    unsafe { inner.dealloc(pointer, layout) };
}

/// Reallocates a block, and records that as two events, each committed on its own. The buffer has
/// room for both before the first is written, so the second one follows unless recording ends in
/// between.
///
/// # Safety
/// That of [`GlobalAlloc::realloc`].
#[inline(always)]
pub(crate) unsafe fn realloc<A: GlobalAlloc, const HEAP: u8>(
    inner: &A,
    pointer: *mut u8,
    layout: Layout,
    new_size: usize,
) -> *mut u8 {
    #[cold]
    #[inline(never)]
    unsafe fn cold<A: GlobalAlloc, const HEAP: u8>(
        inner: &A,
        pointer: *mut u8,
        layout: Layout,
        new_size: usize,
    ) -> *mut u8 {
        // SAFETY: the caller makes the same promise.
        unsafe { realloc_cold::<A, HEAP>(inner, pointer, layout, new_size, |_| NO_STACK) }
    }
    match write::enter() {
        Some(slot) => {
            // SAFETY: the caller makes the same promise.
            let new = unsafe {
                write_realloc::<A, HEAP>(slot, inner, pointer, layout, new_size, |_| NO_STACK)
            };
            write::leave(slot);
            new
        }
        // SAFETY: the caller makes the same promise.
        None => unsafe { cold::<A, HEAP>(inner, pointer, layout, new_size) },
    }
}

/// Does what [`realloc`] does, and records the call stack at these registers: see [`capture::take`].
///
/// # Safety
/// That of [`GlobalAlloc::realloc`].
#[inline(always)]
pub(crate) unsafe fn realloc_with_stack<A: GlobalAlloc, const HEAP: u8>(
    inner: &A,
    pointer: *mut u8,
    layout: Layout,
    new_size: usize,
    at: &Registers,
) -> *mut u8 {
    let take = |slot: &ThreadSlot| capture::take(slot, new_size, at);
    let Some(slot) = write::enter() else {
        // SAFETY: the caller makes the same promise.
        return unsafe { realloc_cold::<A, HEAP>(inner, pointer, layout, new_size, take) };
    };
    // SAFETY: as above.
    let new = unsafe { write_realloc::<A, HEAP>(slot, inner, pointer, layout, new_size, take) };
    write::leave(slot);
    new
}

/// The slow path of a reallocation. If the tracker records it, `take` gives its call stack.
///
/// # Safety
/// That of [`GlobalAlloc::realloc`].
#[inline(always)]
unsafe fn realloc_cold<A: GlobalAlloc, const HEAP: u8>(
    inner: &A,
    pointer: *mut u8,
    layout: Layout,
    new_size: usize,
    take: impl FnOnce(&ThreadSlot) -> u32,
) -> *mut u8 {
    match enter_cold(0) {
        Some(entry) => {
            // SAFETY: the caller makes the same promise.
            let new = unsafe {
                write_realloc::<A, HEAP>(entry.slot, inner, pointer, layout, new_size, take)
            };
            entry.leave();
            new
        }
        // SAFETY: the caller makes the same promise.
        None if write::is_untracked() => unsafe { realloc_own(inner, pointer, layout, new_size) },
        // SAFETY: as above.
        None => unsafe { inner.realloc(pointer, layout, new_size) },
    }
}

/// Reallocates a block of the tracker's own code. If the inner allocator has memory, the new block
/// is from there, even if the old one is from the reserve. Otherwise the new block is from the
/// reserve.
///
/// # Safety
/// That of [`GlobalAlloc::realloc`].
#[cold]
#[inline(never)]
unsafe fn realloc_own<A: GlobalAlloc>(
    inner: &A,
    pointer: *mut u8,
    layout: Layout,
    new_size: usize,
) -> *mut u8 {
    let from_reserve = reserve::holds(pointer);
    // SAFETY: the caller guarantees that the new size is valid for a layout, too.
    let new_layout = unsafe { Layout::from_size_align_unchecked(new_size, layout.align()) };
    let mut new = if from_reserve {
        // SAFETY: the size is not 0.
        unsafe { inner.alloc(new_layout) }
    } else {
        // SAFETY: the caller makes the same guarantee.
        unsafe { inner.realloc(pointer, layout, new_size) }
    };
    if new.is_null() || from_reserve {
        if new.is_null() {
            new = reserve::take(new_layout);
        }
        if new.is_null() {
            return new;
        }
        // SAFETY: both blocks have at least the copied number of bytes; the old one is returned to
        // the allocator that it came from.
        unsafe {
            new.copy_from_nonoverlapping(pointer, layout.size().min(new_size));
            if from_reserve {
                reserve::give_back(pointer, layout);
            } else {
                inner.dealloc(pointer, layout);
            }
        }
    }
    stats::add_own_bytes(new_size as i64 - layout.size() as i64);
    new
}

/// Records that a live block belongs to the tag of this thread from now on.
///
/// The program calls this, not the allocator. But the event concerns the block, so it is ordered
/// relative to the block's allocation and free.
#[cfg(feature = "containers")]
pub(crate) fn retag(pointer: *mut u8, layout: Layout) {
    fn record(slot: &ThreadSlot, pointer: *mut u8, layout: Layout) {
        if synchronize(slot, pointer, layout) {
            // SAFETY: `enter` has checked the room, which includes a change of context.
            let mut writer = unsafe { Writer::new(scopes::switch(slot)) };
            writer.update(slot.stamp(), pointer.addr());
            slot.commit(writer.end());
        }
    }
    if mode() == Mode::Off {
        return;
    }
    if let Some(slot) = write::enter() {
        record(slot, pointer, layout);
        write::leave(slot);
    } else if let Some(entry) = enter_cold(0) {
        record(entry.slot, pointer, layout);
        entry.leave();
    }
}

/// The slow path of `write::enter`. If the tracker's own code makes the call, `own_bytes` is the
/// change of the tracker's own memory.
fn enter_cold(own_bytes: i64) -> Option<SlowEntry> {
    if write::is_untracked() {
        stats::add_own_bytes(own_bytes);
        return None;
    }
    write::enter_cold()
}

/// Makes the thread's epoch current for an event about this block; `false` if the event is not
/// recorded.
#[inline(always)]
fn synchronize(slot: &ThreadSlot, pointer: *mut u8, layout: Layout) -> bool {
    sync::is_current(slot, slot.stamp(), pointer.addr(), layout.size())
        || sync::synchronize(slot, pointer.addr(), layout.size())
}

#[inline(always)]
fn synchronize_and_write_alloc<const HEAP: u8>(
    slot: &ThreadSlot,
    pointer: *mut u8,
    layout: Layout,
    stack: u32,
) {
    if synchronize(slot, pointer, layout) {
        write_alloc::<HEAP>(slot, scopes::switch(slot), pointer, layout, stack);
    }
}

#[inline(always)]
fn write_alloc<const HEAP: u8>(
    slot: &ThreadSlot,
    at: *mut u8,
    pointer: *mut u8,
    layout: Layout,
    stack: u32,
) {
    // SAFETY: `enter` has checked the room, which includes a change of context.
    let mut writer = unsafe { Writer::new(at) };
    writer.alloc_in::<HEAP, false>(
        slot.stamp(),
        pointer.addr(),
        layout.size(),
        layout.align(),
        stack,
    );
    slot.commit(writer.end());
}

#[inline(always)]
fn synchronize_and_write_free<const SCOPE: bool, const HEAP: u8>(
    slot: &ThreadSlot,
    pointer: *mut u8,
    layout: Layout,
) {
    if synchronize(slot, pointer, layout) {
        let at = if SCOPE { scopes::switch(slot) } else { slot.cursor() };
        write_free::<HEAP>(slot, at, slot.stamp(), pointer);
    }
}

#[inline(always)]
fn write_free<const HEAP: u8>(slot: &ThreadSlot, at: *mut u8, stamp: u64, pointer: *mut u8) {
    // SAFETY: `enter` has checked the room, which includes a change of context.
    let mut writer = unsafe { Writer::new(at) };
    writer.free_in::<HEAP, false>(stamp, pointer.addr());
    slot.commit(writer.end());
}

#[inline(always)]
unsafe fn write_realloc<A: GlobalAlloc, const HEAP: u8>(
    slot: &ThreadSlot,
    inner: &A,
    pointer: *mut u8,
    layout: Layout,
    new_size: usize,
    take: impl FnOnce(&ThreadSlot) -> u32,
) -> *mut u8 {
    if !synchronize(slot, pointer, layout) {
        // SAFETY: the caller makes the same promise.
        return unsafe { inner.realloc(pointer, layout, new_size) };
    }
    // SAFETY: `enter` has checked the room, which includes both halves.
    let mut writer = unsafe { Writer::new(scopes::switch(slot)) };
    writer.free_in::<HEAP, true>(slot.stamp(), pointer.addr());
    slot.commit(writer.end());
    // NOTE: the inner call can take seconds, because it may copy gigabytes, and no other thread
    // waits for it: the first half is committed, and the second half has a later epoch.
    write::pause_inside(slot);
    // SAFETY: the caller makes the same promise.
    let new = unsafe { inner.realloc(pointer, layout, new_size) };
    write::resume_inside(slot);
    // A reallocation that failed leaves the block where it was allocated.
    let stack = if new.is_null() { NO_STACK } else { take(slot) };
    let (address, size) = if new.is_null() { (pointer, layout.size()) } else { (new, new_size) };
    if !sync::synchronize(slot, address.addr(), size) {
        // Recording has ended in between: in the recording, the block is freed.
        return new;
    }
    // SAFETY: `enter` has checked the room for both halves; a new buffer that `synchronize` may
    // have taken has the room, too.
    let mut writer = unsafe { Writer::new(slot.cursor()) };
    writer.alloc_in::<HEAP, true>(slot.stamp(), address.addr(), size, layout.align(), stack);
    if new.is_null() {
        writer.realloc_failed(pointer.addr());
    }
    slot.commit(writer.end());
    new
}
