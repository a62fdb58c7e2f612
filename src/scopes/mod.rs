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
mod entries;
#[cfg(feature = "enable")]
pub(crate) mod events;
mod future;
mod group;
mod name;
mod scope;
#[cfg(feature = "tracing")]
mod spans;
#[cfg(feature = "enable")]
mod switch;
mod tag;
#[cfg(feature = "enable")]
pub(crate) mod thread;
mod travel;

pub use future::{AllocScope, Scoped};
pub use group::Group;
pub use name::Name;
#[doc(hidden)]
pub use name::NameOf;
pub use scope::ScopeGuard;
#[cfg(feature = "tracing")]
pub use spans::ScopeLayer;
pub use tag::{Tag, tagged};
pub use travel::{Context, spawn};

#[cfg(feature = "enable")]
pub(crate) use events::CHANNEL;
#[cfg(feature = "enable")]
pub(crate) use switch::{is_here, switch};
