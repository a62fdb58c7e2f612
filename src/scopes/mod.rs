//! Which context is this thread in? Scopes, groups, tags, and the tree that names them.
//!
//! A *context* is a stack of scopes and, where there is one, a tag. All contexts of a program form
//! one tree of numbered nodes ([`context`]); a thread knows the number of the one it is in, and
//! that is all an allocation looks at. Entering a scope finds the number of the new stack in a
//! small cache of this thread; the shared tree is asked once per stack and thread.
//!
//! Nothing is written when a scope is entered or left. When a thread allocates in another context
//! than the one its stream stands in, [`switch`] writes the difference in front of the event.

#[cfg(feature = "enable")]
pub(crate) mod context;
#[cfg(feature = "enable")]
pub(crate) mod events;
mod group;
mod name;
mod scope;
mod tag;
#[cfg(feature = "enable")]
pub(crate) mod thread;

pub use group::Group;
pub use name::Name;
#[doc(hidden)]
pub use name::NameOf;
pub use scope::ScopeGuard;
pub use tag::{Tag, tagged};

#[cfg(feature = "enable")]
pub(crate) use switch::{enable, switch};

#[cfg(feature = "enable")]
mod switch {
    use super::{context, events, thread};
    use crate::trace::event::encode::{ENTER_SCOPE, LEAVE_SCOPE};
    use crate::trace::write::Slot;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// Whether the channel is on.
    static ENABLED: AtomicBool = AtomicBool::new(true);

    /// Turns the channel on or off; only while nothing is recorded.
    pub(crate) fn enable(enabled: bool) {
        ENABLED.store(enabled, Ordering::Release);
    }

    /// Writes what brings this thread's stream into the context the thread is in, at the slot's
    /// cursor, uncommitted; returns where the next event goes.
    #[inline(always)]
    pub(crate) fn switch(slot: &Slot) -> *mut u8 {
        let context = thread::context();
        if context == slot.context.get() { slot.cursor() } else { write(slot, context) }
    }

    /// Depth on the wire is 0 or 1: what is open is closed, then the new context opened, whatever
    /// its depth; its number says the rest.
    #[inline(never)]
    fn write(slot: &Slot, context: u32) -> *mut u8 {
        let mut at = slot.cursor();
        let open = slot.context.replace(context) != context::ROOT;
        if !ENABLED.load(Ordering::Relaxed) {
            return at;
        }
        // SAFETY: `enter` has seen to the room, which counts these 9 bytes.
        #[expect(unsafe_code)]
        unsafe {
            if open {
                at.write(LEAVE_SCOPE);
                at = at.add(1);
            }
            if context != context::ROOT {
                at.write(ENTER_SCOPE);
                at.add(1).cast::<u16>().write_unaligned(events::MEMORY_SCOPE.wire());
                at.add(3).cast::<u32>().write_unaligned(context::wire_id(context));
                at = at.add(7);
            }
        }
        let closing = if context == context::ROOT { 0 } else { LEAVE_SCOPE };
        slot.closing.store(closing, Ordering::Release);
        at
    }
}
