//! Packed files: all packets of a trace in chunks, for keeping. A memory event takes about a byte.
//! `memledger export --packed` makes such a file of a trace.
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
#![doc = include_str!("FORMAT.md")]
#![forbid(unsafe_code)]

// PERF: what was tried, with a program that parses Rust sources with `syn`, with call stacks, in bytes an
// event with a shape (0.74 as it was then):
// - Chunks of 65,000, 260,000, 520,000 and 1.5 million events (without runs): 0.70, 0.61, 0.58, 0.57.
// - Predictions by the last 6, 3, 2 and 1 tokens; by 4, 2 and 1; by 4 and 1; by 3 only: 0.612, 0.608, 0.621,
//   0.642.
// - Tables of 8,192, 16,384, 32,768 and 65,536 slots: 0.79, 0.77, 0.75, 0.74, all as fast.
// - Without what came after a layout at any site: 0.02 more. Call stacks by LZ4 as in a compact file: 0.27
//   more.
//
// The token of 87 % of all events is predicted. In two thirds of the frees among them, the site has one live
// block; of the rest, 71 % take the oldest, 15 % the one after that freed last, 6 % the newest. An allocation
// takes the block of its size that was freed last in 48 % of all cases, another one in 8 %, is at one of the
// ends in 31 %, and stays in place in 4 %.

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
