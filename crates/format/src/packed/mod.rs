//! Packed files: all packets of a trace in chunks, for keeping. A memory event takes about a byte.
//! [`docs/format.md`] describes every byte.
//!
//! A chunk decodes to exactly the packets that it was made of, sync packets included, without any
//! other chunk; so a damaged one loses only its own events, and a reader can begin at any.
//!
//! ```text
//! chunk    header (`chunk.rs`), one range-coded body (`range.rs`)
//! body     packet, packet …: stream and size (`packets.rs`), then events and runs of bytes
//! event    by what the events before it let expect (`model.rs`, `blocks.rs`, `code.rs`)
//! run      literal bytes and matches with earlier runs (`bytes.rs`)
//! ```
//! An event has a shape of [`compact`](super::compact); what has none is a run of bytes. `code.rs`
//! is both the encoder and the decoder of an event: the range coder takes a bit and gives it back,
//! or ignores it and gives the one that it reads.
//!
//! [`docs/format.md`]: https://github.com/memledger/memledger/blob/main/docs/format.md
#![forbid(unsafe_code)]

mod blocks;
mod bytes;
mod chunk;
mod code;
mod decode;
mod encode;
mod event;
mod model;
mod packets;
mod probs;
mod range;

pub use chunk::{
    CHUNK_HEADER, CHUNK_MAGIC, ChunkHeader, MAX_CHUNK_BYTES, MAX_CHUNK_EVENTS, MAX_CHUNK_PACKETS,
    MAX_CHUNK_PAYLOAD, chunks, find_chunk,
};
pub use decode::ChunkDecoder;
pub use encode::PackedEncoder;
