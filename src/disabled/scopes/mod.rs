//! Scopes, groups and tags, which without a tracker have no bytes, and are never in a context.

#[path = "../../scopes/context.rs"]
mod context;
mod current;
#[path = "../../scopes/future.rs"]
mod future;
#[path = "../../scopes/group.rs"]
mod group;
mod group_node;
#[path = "../../scopes/name.rs"]
mod name;
#[path = "../../scopes/scope.rs"]
mod scope;
#[cfg(feature = "tracing")]
mod span_scopes;
#[cfg(feature = "tracing")]
#[path = "../../scopes/spans.rs"]
mod spans;
#[path = "../../scopes/tag.rs"]
mod tag;
mod tree;

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
