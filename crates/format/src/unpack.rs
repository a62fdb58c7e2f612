//! Decodes a packet in any coding to its payload: the counterpart of
//! [`PacketWriter`](super::packet::PacketWriter).

use super::compact;
use super::lz4;
use super::packet::{Coding, ENCODED_HEADER, HEADER, Header};

/// Decodes packets, into a buffer of its own.
#[derive(Debug)]
pub struct Unpacker {
    /// PERF: it has the largest size from the start, so it is never resized.
    payload: Vec<u8>,
    compact: Option<compact::CompactDecoder>,
}

impl Default for Unpacker {
    fn default() -> Self {
        Self::new()
    }
}

impl Unpacker {
    /// An unpacker. The decoder for compact packets is made when the first one arrives.
    pub fn new() -> Self {
        Self { payload: vec![0; usize::from(u16::MAX)], compact: None }
    }

    /// The payload of `packet`, which includes its header.
    ///
    /// # Errors
    /// One clause that says what is wrong with the packet.
    pub fn payload<'a>(
        &'a mut self,
        header: &Header,
        packet: &'a [u8],
    ) -> Result<&'a [u8], String> {
        match header.coding {
            Coding::Plain => Ok(packet.get(HEADER..).unwrap_or_default()),
            Coding::Lz4 => {
                let (block, size) = lz4_block(packet).ok_or("it has no LZ4 block")?;
                let payload = self.payload.get_mut(..size).ok_or("it has no LZ4 block")?;
                lz4::decode(block, payload)?;
                Ok(payload)
            }
            Coding::Compact => {
                self.compact.get_or_insert_with(compact::CompactDecoder::new).decode(packet)
            }
        }
    }

    /// Whether `packet` can be decoded as its header says. Subtracts the number of bytes that the
    /// check processes from `budget`; returns `false` without a check if `budget` is less than
    /// that.
    pub fn is_whole(&mut self, header: &Header, packet: &[u8], budget: &mut usize) -> bool {
        let cost = match header.coding {
            Coding::Plain => 0,
            Coding::Lz4 => lz4_block(packet).map_or(0, |(_, size)| size),
            Coding::Compact => packet.len(),
        };
        let Some(left) = budget.checked_sub(cost) else { return false };
        *budget = left;
        match header.coding {
            Coding::Compact => compact::CompactDecoder::is_whole(packet),
            _ => self.payload(header, packet).is_ok(),
        }
    }
}

/// The LZ4 block of a packet, and the number of bytes that it decodes to.
fn lz4_block(packet: &[u8]) -> Option<(&[u8], usize)> {
    let size = packet.get(HEADER..)?.first_chunk::<2>()?;
    Some((packet.get(ENCODED_HEADER..)?, usize::from(u16::from_le_bytes(*size))))
}
