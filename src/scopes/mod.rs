//! Scopes, groups and tags, which together are the context of each thread.
//!
//! A *context* is a stack of scopes and optionally a tag. All contexts of a program form one tree
//! of numbered nodes ([`tree`]). A thread stores the number of its [current] context, and an
//! allocation reads only that number. To enter a scope, a thread looks up the number of the new
//! stack in a small cache of its own, which is filled from the shared tree.
//!
//! Entering and leaving a scope write nothing to the stream. When a thread allocates, and its
//! context is not the one that was last written to its stream, [`switch`] writes the change before
//! the event.

mod context;
pub(crate) mod current;
mod entries;
pub(crate) mod events;
mod future;
mod group;
pub(crate) mod misuse;
pub(crate) mod name;
mod scope;
#[cfg(feature = "tracing")]
mod span_scopes;
#[cfg(feature = "tracing")]
mod spans;
mod switch;
mod tag;
pub(crate) mod tree;

pub use context::{ScopeContext, spawn};
pub use future::{AllocScope, Scoped};
pub use group::Group;
pub use name::Name;
pub use scope::ScopeGuard;
#[cfg(feature = "tracing")]
pub use spans::ScopeLayer;
pub use tag::{Tag, tagged};

pub(crate) use events::{CHANNEL, FREE_CHANNEL};
pub(crate) use switch::{is_current, switch};

/// The number of bytes in use by the tree and by the entry counters of threads.
pub(crate) fn bytes() -> u64 {
    tree::bytes() + entries::bytes()
}
