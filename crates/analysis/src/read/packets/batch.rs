//! The packets of transport 2, which come in batches, each with its last packet first.
//!
//! A batch is over when a packet does not have a higher serial than the packet before. Then its
//! packets are decoded, from the last to the first.

use super::super::event::Visitor;
use crate::read::decoder::Decoder;
use memledger_format::packet::TYPES;

/// The bit of a serial that says that the packet is encoded.
const ENCODED: u16 = 0x8000;
/// The maximum size of a batch in bytes. The engines decode at most 8 KiB of a packet, and have few
/// packets in a batch; damage can join batches.
const MAX_BYTES: usize = 64 << 20;

/// The packets of the current batch.
#[derive(Default)]
pub(super) struct Batch {
    /// The payloads, one after the other.
    bytes: Vec<u8>,
    /// Where each payload begins, and the offset of its packet in the input.
    starts: Vec<(usize, u64)>,
    last: u16,
}

impl Batch {
    /// Takes in a packet. If it is the first one of the next batch, decodes the batch so far.
    pub(super) fn packet(
        &mut self,
        serial: u16,
        offset: u64,
        payload: &[u8],
        decoder: &mut Decoder,
        visitor: &mut impl Visitor,
    ) {
        let serial = serial & !ENCODED;
        if serial <= self.last || self.bytes.len() + payload.len() > MAX_BYTES {
            self.end(decoder, visitor);
            decoder.set_offset(Some(offset));
        }
        self.last = serial;
        self.starts.push((self.bytes.len(), offset));
        self.bytes.extend_from_slice(payload);
    }

    /// Decodes the packets so far. The last batch ends with the input.
    pub(super) fn end(&mut self, decoder: &mut Decoder, visitor: &mut impl Visitor) {
        for (start, offset) in self.starts.drain(..).rev() {
            decoder.set_offset(Some(offset));
            decoder.packet(TYPES, self.bytes.get(start..).unwrap_or_default(), visitor);
            decoder.packet_ends(TYPES, visitor);
            self.bytes.truncate(start);
        }
    }
}
