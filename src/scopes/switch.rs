//! What the stream is told of the context a thread is in: only what changed, only when it matters.
#![expect(unsafe_code, reason = "writes events through raw pointers")]

use super::{context, events, thread};
use crate::trace::format::layout::{ENTER_SCOPE, LEAVE_SCOPE};
use crate::trace::write::ThreadSlot;
use std::sync::atomic::Ordering;

/// Whether this thread's stream stands in the context the thread is in: there is nothing to write.
#[inline(always)]
pub(crate) fn is_here(slot: &ThreadSlot) -> bool {
    thread::context() == slot.context.get()
}

/// Writes what brings this thread's stream into the context the thread is in, at the slot's
/// cursor, uncommitted; returns where the next event goes.
#[inline(always)]
pub(crate) fn switch(slot: &ThreadSlot) -> *mut u8 {
    if is_here(slot) { slot.cursor() } else { write(slot, thread::context()) }
}

/// Depth on the wire is 0 or 1: what is open is closed, then the new context opened, whatever
/// its depth; its number says the rest.
///
/// Where the channel was turned on or off, a thread looks here for the first time: when its context
/// changes, or with its next block.
#[inline(never)]
fn write(slot: &ThreadSlot, context: u32) -> *mut u8 {
    let mut at = slot.cursor();
    let open = slot.closing.load(Ordering::Relaxed) != 0;
    let enter = context != context::ROOT && !events::CHANNEL.is_off();
    slot.context.set(context);
    // SAFETY: `enter` has seen to the room, which counts these 8 bytes.
    unsafe {
        if open {
            at.write(LEAVE_SCOPE);
            at = at.add(1);
        }
        if enter {
            at.write(ENTER_SCOPE);
            at.add(1).cast::<u16>().write_unaligned(events::MEMORY_SCOPE.wire());
            at.add(3).cast::<u32>().write_unaligned(context::wire_id(context));
            at = at.add(7);
        }
    }
    slot.closing.store(if enter { LEAVE_SCOPE } else { 0 }, Ordering::Release);
    at
}
