//! Writes the context of a thread to its stream. This is done before an allocation, and only if the
//! thread's context differs from the one that was last written.
#![expect(unsafe_code, reason = "writes events through raw pointers")]

use super::{current, events, tree};
use crate::trace::write::ThreadSlot;
use memledger_format::layout::{ENTER_SCOPE, LEAVE_SCOPE};
use std::sync::atomic::Ordering;

/// Whether the context that was last written to this thread's stream is the thread's current one,
/// so that nothing has to be written.
#[inline(always)]
pub(crate) fn is_current(slot: &ThreadSlot) -> bool {
    current::context() == slot.context.get()
}

/// If the context of this thread has changed, writes the events that change it on the thread's
/// stream, without committing them. Returns the address for the next event.
#[inline(always)]
pub(crate) fn switch(slot: &ThreadSlot) -> *mut u8 {
    if is_current(slot) { slot.cursor() } else { write(slot, current::context()) }
}

/// Writes the events: leaves the scope that is open on the stream, and enters the new one. At most
/// one scope is open on a stream, because the number in its event identifies the whole stack.
///
/// A thread detects here that the channel was turned on or off: at the next change of its context,
/// or in its next buffer.
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
