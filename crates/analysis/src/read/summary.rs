//! The summary of a trace that was read.

use super::decoder::{Counts, StreamCounts};
use memledger_format::handshake::Handshake;
use memledger_format::schema::EventType;
use std::io;

/// Packets by their coding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Packets {
    /// Packets whose payload is not encoded.
    pub plain: u64,
    /// Packets whose payload is an LZ4 block.
    pub encoded: u64,
    /// Packets whose payload is compact.
    pub compact: u64,
    /// Packets of chunks of a packed trace.
    pub packed: u64,
    /// Sync packets.
    pub sync: u64,
    /// Packets with a legal header that cannot be decoded, and chunks.
    pub damaged: u64,
}

/// A type and the number of its events.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TypeCount {
    /// The type.
    pub event_type: EventType,
    /// Its events.
    pub events: u64,
}

/// The summary of a trace that was read.
#[derive(Debug)]
#[non_exhaustive]
pub struct Summary {
    /// The start of the trace.
    pub handshake: Handshake,
    /// Bytes read, the start included.
    pub input_bytes: u64,
    /// Packets read.
    pub packets: Packets,
    /// Bytes of the input that belong to no readable packet.
    pub skipped_bytes: u64,
    /// Bytes of an unfinished packet at the end of the input.
    pub truncated_bytes: u64,
    /// Events, holes and damage.
    pub counts: Counts,
    /// All types in order of their indexes.
    pub types: Vec<TypeCount>,
    /// All streams that have had packets, by stream id.
    pub streams: Vec<StreamCounts>,
    /// Whether the pass was ended before the end of the input.
    pub stopped: bool,
    /// The error that ended the source early.
    pub error: Option<io::Error>,
}

impl Summary {
    /// Whether the whole input was read, has its end ([`Counts::ended`]), and nothing is missing or
    /// damaged. Losses that the writer counted are only in a report.
    pub fn is_complete(&self) -> bool {
        let Counts { damages, holes, ended, .. } = self.counts;
        self.error.is_none() && !self.stopped && damages == 0 && holes == 0 && ended
    }
}
