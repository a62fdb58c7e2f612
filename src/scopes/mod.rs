//! Scopes, groups and tags, and the context that they make on each thread.
//!
//! A *context* is a stack of scopes and optionally a tag. All contexts of a program form one tree
//! of numbered nodes ([`tree`]). A thread has the number of its [current] context, and an
//! allocation reads only that number. Entering a scope finds the number of the new stack in a small
//! cache of the thread, which asks the shared tree once for each stack.
//!
//! Entering and leaving write nothing. If the context of a thread differs from that of its stream
//! when it allocates, [`switch`] writes the change before the event.

mod context;
#[cfg(feature = "enable")]
pub(crate) mod current;
#[cfg(feature = "enable")]
mod entries;
#[cfg(feature = "enable")]
pub(crate) mod events;
mod future;
mod group;
#[cfg(feature = "enable")]
pub(crate) mod misuse;
mod name;
mod scope;
#[cfg(feature = "tracing")]
mod spans;
#[cfg(feature = "enable")]
mod switch;
mod tag;
#[cfg(feature = "enable")]
pub(crate) mod tree;

pub use context::{Context, spawn};
pub use future::{AllocScope, Scoped};
pub use group::Group;
pub use name::Name;
#[doc(hidden)]
pub use name::NameOf;
pub use scope::ScopeGuard;
#[cfg(feature = "tracing")]
pub use spans::ScopeLayer;
pub use tag::{Tag, tagged};

#[cfg(feature = "enable")]
pub(crate) use events::CHANNEL;
#[cfg(feature = "enable")]
pub(crate) use switch::{is_current, switch};

/// The number of bytes in use by the tree and by the entry counters of threads.
#[cfg(feature = "enable")]
pub(crate) fn bytes() -> u64 {
    tree::bytes() + entries::bytes()
}
