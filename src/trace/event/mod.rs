//! What an event type is, and how its values lie on the wire.

#[doc(hidden)]
pub mod arrays;
#[cfg(feature = "enable")]
#[doc(hidden)]
pub mod declared;
#[cfg(feature = "enable")]
pub(crate) mod encode;
pub mod schema;
