//! Writes packets in any coding.

use memledger_format::handshake::Transport;
use memledger_format::packed::PackedEncoder;
use memledger_format::packet::{PacketWriter, SYNC};

/// One packet after the other, or chunks of them.
pub(super) enum AnyPackets {
    Packets(Box<PacketWriter>),
    Packed(Box<PackedEncoder>),
}

impl AnyPackets {
    pub(super) fn new(transport: Transport, protocol: u8) -> Self {
        match transport {
            Transport::Packed => Self::Packed(Box::new(PackedEncoder::new(protocol))),
            _ => Self::Packets(Box::new(PacketWriter::new(transport, protocol))),
        }
    }

    /// Appends `payload` as one packet, or as several if it is too large for one.
    pub(super) fn packet(&mut self, stream: u16, payload: &[u8], out: &mut Vec<u8>) {
        match self {
            Self::Packets(packets) => packets.packet(stream, payload, out),
            Self::Packed(packed) => {
                let none = payload.is_empty().then_some(payload);
                let pieces = payload.chunks(u16::MAX.into()).chain(none);
                pieces.for_each(|piece| packed.packet(stream, piece, out));
            }
        }
    }

    pub(super) fn sync(&mut self, out: &mut Vec<u8>) {
        match self {
            Self::Packets(packets) => packets.sync(out),
            Self::Packed(packed) => packed.packet(SYNC, &[], out),
        }
    }

    /// Appends what waits, at the end.
    pub(super) fn finish(&mut self, out: &mut Vec<u8>) {
        if let Self::Packed(packed) = self {
            packed.finish(out);
        }
    }
}
