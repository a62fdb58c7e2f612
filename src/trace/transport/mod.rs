//! The outermost layer of the stream: the handshake at its start, then packets.
//!
//! Only this module knows header bytes. A packet carries a piece of one *stream* (one thread's
//! events, the type records, or the important events); the pieces of a stream, put end to end,
//! are its bytes, and packet boundaries have no meaning above this layer.
//!
//! [`packet::PacketWriter`] codes payloads, as they are, by [`lz4`] or [`compact`];
//! [`unpack::Unpacker`] gives them back. [`boundaries`] is for whoever passes a stream on.

pub mod boundaries;
pub mod compact;
pub mod handshake;
pub mod lz4;
pub mod packet;
pub mod unpack;

pub use handshake::Transport;
