//! The events that bring a thread's stream to the context of the thread. They are written before an
//! allocation, and only if the thread's context differs from that of its stream.
#![expect(unsafe_code, reason = "writes events through raw pointers")]

use super::{current, events, tree};
use crate::trace::format::layout::{ENTER_SCOPE, LEAVE_SCOPE};
use crate::trace::write::ThreadSlot;
use std::sync::atomic::Ordering;

/// Whether this thread's stream is in the context of the thread, so that there is nothing to write.
#[inline(always)]
pub(crate) fn is_current(slot: &ThreadSlot) -> bool {
    current::context() == slot.context.get()
}

/// Writes the events that bring this thread's stream to the context of the thread, without
/// committing them. Returns the address for the next event.
#[inline(always)]
pub(crate) fn switch(slot: &ThreadSlot) -> *mut u8 {
    if is_current(slot) { slot.cursor() } else { write(slot, current::context()) }
}

/// The stream has at most one scope open, whose number identifies the whole stack: this function
/// leaves the open scope and enters the new one.
///
/// When the channel is turned on or off, a thread detects that here: at the next change of its
/// context, or in its next buffer.
#[inline(never)]
fn write(slot: &ThreadSlot, context: u32) -> *mut u8 {
    let mut at = slot.cursor();
    let is_open = slot.closing.load(Ordering::Relaxed) != 0;
    let enter = context != tree::ROOT && !events::CHANNEL.is_off();
    slot.context.set(context);
    // SAFETY: `write::enter` has checked that the buffer has room for the largest event and these 8
    // bytes.
    unsafe {
        if is_open {
            at.write(LEAVE_SCOPE);
            at = at.add(1);
        }
        if enter {
            at.write(ENTER_SCOPE);
            at.add(1).cast::<u16>().write_unaligned(events::MEMORY_SCOPE.wire());
            at.add(3).cast::<u32>().write_unaligned(tree::wire_id(context));
            at = at.add(7);
        }
    }
    slot.closing.store(if enter { LEAVE_SCOPE } else { 0 }, Ordering::Release);
    at
}
