//! Scopes, groups and tags, which without a tracker have no bytes, and are never in a context.

#[path = "../../scopes/context.rs"]
mod context;
mod current;
#[path = "../../scopes/future.rs"]
mod future;
#[path = "../../scopes/group.rs"]
mod group;
#[path = "../../scopes/name.rs"]
pub(crate) mod name;
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
#[path = "../../platform/os/version.rs"]
mod version;

#[cfg(feature = "tracing")]
pub use spans::*;
pub use {context::*, future::*, group::*, name::*, scope::*, tag::*};
