//! What an event type is, and how its values lie on the wire.

#[cfg(feature = "enable")]
pub(crate) mod encode;
pub mod schema;
