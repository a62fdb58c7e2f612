//! The bytes of a trace, shared by the side that writes and the side that reads.
//!
//! The layers of a stream are, from the inside out: event types and the encoding of their values
//! ([`schema`]); the pieces of one *stream* (one thread's events, the type records, or the important events)
//! in packets ([`packet`]); the handshake before the first packet ([`handshake`]). The concatenated pieces of
//! a stream are its bytes; packet boundaries have no meaning above this layer.
//!
//! [`packet::PacketWriter`] encodes payloads: plain, by [`lz4`] or by [`compact`].
//! [`unpack::Unpacker`] decodes them. [`framing`] serves a recorder, which relays a stream.
//!
//! The format is that of Unreal Trace. `memledger-analysis` reads it, `memledger` writes it.
#![warn(missing_debug_implementations, missing_docs, clippy::unwrap_used)]
#![forbid(unsafe_code)]
// Without them, helpers of what they bring have no user.
#![cfg_attr(not(feature = "packed"), allow(dead_code, unused_imports))]

#[cfg(feature = "packets")]
pub mod compact;
mod error;
#[cfg(feature = "packets")]
pub mod framing;
#[cfg(feature = "packets")]
pub mod handshake;
#[cfg(feature = "packets")]
pub mod lz4;
#[cfg(feature = "packed")]
pub mod packed;
#[cfg(feature = "packets")]
pub mod packet;
pub mod schema;
#[cfg(feature = "packets")]
pub mod unpack;

pub use error::{Error, ErrorKind};

mod records;

// For the other crates of memledger only: no interface.
#[doc(hidden)]
pub mod arrays;
#[doc(hidden)]
pub mod callstacks;
#[doc(hidden)]
pub mod channel;
#[doc(hidden)]
pub mod encode;
#[doc(hidden)]
pub mod initial_live_set;
#[doc(hidden)]
pub mod layout;
#[doc(hidden)]
pub mod protobuf;
#[doc(hidden)]
pub mod stream_events;
#[doc(hidden)]
pub mod timed_stream;
#[doc(hidden)]
pub mod words;
