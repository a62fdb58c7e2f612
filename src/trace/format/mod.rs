//! The bytes of a stream, shared by the side that writes and the side that reads.
//!
//! The layers are, from the inside out: event types and the encoding of their values ([`schema`]);
//! the pieces of one *stream* (one thread's events, the type records, or the important events) in
//! packets ([`packet`]); the handshake before the first packet ([`handshake`]). The concatenated
//! pieces of a stream are its bytes; packet boundaries have no meaning above this layer.
//!
//! [`packet::PacketWriter`] encodes payloads: plain, by [`lz4`] or by [`compact`].
//! [`unpack::Unpacker`] decodes them. [`framing`] serves a recorder, which relays a stream.

#[doc(hidden)]
pub mod arrays;
pub(crate) mod channel;
#[cfg(feature = "analysis")]
pub mod compact;
#[cfg(feature = "analysis")]
#[cfg_attr(not(tracking), expect(dead_code, reason = "only the writer uses all of it"))]
pub(crate) mod encode;
#[cfg(feature = "analysis")]
pub mod framing;
#[cfg(feature = "analysis")]
pub mod handshake;
#[cfg(feature = "analysis")]
pub(crate) mod layout;
#[cfg(feature = "analysis")]
pub mod lz4;
#[cfg(feature = "analysis")]
pub mod packet;
pub mod schema;
#[cfg(tracking)]
pub(crate) mod stream_events;
#[cfg(feature = "analysis")]
pub mod unpack;

#[cfg(feature = "analysis")]
pub use handshake::Transport;
