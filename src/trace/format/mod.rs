//! The bytes of a stream, shared by the side that writes and the side that reads.
//!
//! From the inside out: what an event type is and how its values lie on the wire ([`schema`]);
//! the pieces of one *stream* (one thread's events, the type records, or the important events) in
//! packets ([`packet`]); the handshake before the first packet ([`handshake`]). Put end to end, the
//! pieces of a stream are its bytes; packet boundaries have no meaning above this layer.
//!
//! [`packet::PacketWriter`] codes payloads, as they are, by [`lz4`] or [`compact`];
//! [`unpack::Unpacker`] gives them back. [`boundaries`] serves a recorder, which passes a stream on.

#[doc(hidden)]
pub mod arrays;
#[cfg(feature = "analysis")]
pub mod boundaries;
#[cfg(feature = "analysis")]
pub mod compact;
#[cfg(feature = "enable")]
pub(crate) mod encode;
#[cfg(feature = "analysis")]
pub mod handshake;
#[cfg(feature = "analysis")]
pub(crate) mod layout;
#[cfg(feature = "analysis")]
pub mod lz4;
#[cfg(feature = "analysis")]
pub mod packet;
pub mod schema;
#[cfg(feature = "enable")]
pub(crate) mod stream_events;
#[cfg(feature = "analysis")]
pub mod unpack;

#[cfg(feature = "analysis")]
pub use handshake::Transport;
