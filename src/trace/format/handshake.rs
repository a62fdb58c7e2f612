//! The start of a stream: magic, metadata, and the versions of transport and protocol.
//!
//! ```text
//! offset  size  meaning
//!      0     4  magic "2CRT" (the u32 'TRC2', little-endian)
//!      4     2  N, size of the metadata
//!      6     N  metadata records: u8 size, u8 id, `size` bytes
//!    6+N     1  transport version
//!    7+N     1  protocol version
//! ```

use crate::error::Error;
use std::io::Read;

/// The first four bytes of every stream.
pub const MAGIC: [u8; 4] = *b"2CRT";
/// Unreal's transport: packets per thread with sync packets.
pub const TRANSPORT: u8 = 4;
/// Our own transport: as [`TRANSPORT`], but packets can also be compact. Its number is far from
/// Unreal's, so that Unreal's readers refuse it. Each change of the compact coding needs a new
/// number; 77 was the number of a coding that no release has written.
pub const COMPACT_TRANSPORT: u8 = 78;
/// The protocol we write.
pub const PROTOCOL: u8 = 7;

const CONTROL_PORT: u8 = 0;
const SESSION_GUID: u8 = 1;
const TRACE_GUID: u8 = 2;

/// Which codings packets can have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Transport {
    /// Plain or LZ4, which Unreal's tools can read. Files are named `.utrace`.
    #[default]
    Unreal,
    /// Plain, LZ4 or compact: a fraction of the size, for our own reader only. Files are named
    /// `.memledger`.
    Compact,
}

impl Transport {
    /// The transport with this number on the wire, or `None` if it is neither.
    pub const fn from_version(version: u8) -> Option<Self> {
        match version {
            TRANSPORT => Some(Self::Unreal),
            COMPACT_TRANSPORT => Some(Self::Compact),
            _ => None,
        }
    }

    /// The number on the wire.
    pub const fn version(self) -> u8 {
        match self {
            Self::Unreal => TRANSPORT,
            Self::Compact => COMPACT_TRANSPORT,
        }
    }
}

/// The contents of the start of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handshake {
    /// Port of the control server, or `None` if there is none.
    pub control_port: Option<u16>,
    /// Identifies the process.
    pub session_guid: Option<[u8; 16]>,
    /// Identifies this connection of the process.
    pub trace_guid: Option<[u8; 16]>,
    /// How packets are coded.
    pub transport: Transport,
    /// Protocol version: 5, 6 or 7.
    pub protocol: u8,
}

impl Handshake {
    /// The bytes that start a stream.
    pub fn encode(&self) -> Vec<u8> {
        let mut metadata = vec![2, CONTROL_PORT];
        metadata.extend(self.control_port.unwrap_or(0xffff).to_le_bytes());
        for (id, guid) in [(SESSION_GUID, self.session_guid), (TRACE_GUID, self.trace_guid)] {
            if let Some(guid) = guid {
                metadata.extend([16, id]);
                metadata.extend(guid);
            }
        }
        let mut bytes = MAGIC.to_vec();
        bytes.extend((metadata.len() as u16).to_le_bytes());
        bytes.extend(metadata);
        bytes.extend([self.transport.version(), self.protocol]);
        bytes
    }

    /// Reads the start of a stream; returns it with its size in bytes.
    ///
    /// # Errors
    /// [`Error::NotATrace`] with the bytes found instead, [`Error::UnsupportedTrace`] with a
    /// version that is not supported, [`Error::Read`] with the source's error.
    pub fn decode(source: &mut impl Read) -> Result<(Self, u64), Error> {
        let mut start = [0; 6];
        let got = read_full(source, &mut start)?;
        let Some(magic) = start.get(..4).filter(|_| got >= 4) else {
            return Err(Error::NotATrace(match got {
                0 => "it is empty".into(),
                _ => format!("it has only {got} bytes, fewer than the 8 of the smallest header"),
            }));
        };
        match magic {
            magic if magic == MAGIC => {}
            b"ECRT" => {
                return Err(Error::UnsupportedTrace(
                    "it was written by Unreal Engine 4.26, before transport 4".into(),
                ));
            }
            b"TRC2" | b"TRCE" => {
                return Err(Error::UnsupportedTrace(
                    "its magic is byte-swapped, so a big-endian machine wrote it".into(),
                ));
            }
            [1, 0, 0, 0] => {
                return Err(Error::UnsupportedTrace(
                    "it is an Unreal trace from before the magic number existed".into(),
                ));
            }
            other => {
                return Err(Error::NotATrace(format!(
                    "its first 4 bytes are {:02x} {:02x} {:02x} {:02x} instead of 32 43 52 54",
                    other[0], other[1], other[2], other[3]
                )));
            }
        }
        let size = usize::from(u16::from_le_bytes([start[4], start[5]]));
        let mut rest = vec![0; size + 2];
        let read = read_full(source, &mut rest)?;
        if got < start.len() || read < rest.len() {
            return Err(Error::NotATrace(format!(
                "it ends after {} bytes, inside the header",
                got + read
            )));
        }
        let (metadata, versions) = rest.split_at(size);
        let Some(transport) = Transport::from_version(versions[0]) else {
            return Err(Error::UnsupportedTrace(format!(
                "it uses transport {} and only transport {TRANSPORT} is supported, and our own, \
                 {COMPACT_TRANSPORT}",
                versions[0]
            )));
        };
        if !(5..=7).contains(&versions[1]) {
            return Err(Error::UnsupportedTrace(format!(
                "it uses protocol {} and only protocols 5 to 7 are supported",
                versions[1]
            )));
        }
        let Metadata { control_port, session_guid, trace_guid } = Metadata::decode(metadata);
        let protocol = versions[1];
        let handshake = Self { control_port, session_guid, trace_guid, transport, protocol };
        Ok((handshake, (start.len() + rest.len()) as u64))
    }
}

/// The contents of the metadata records.
#[derive(Default)]
pub(super) struct Metadata {
    pub(super) control_port: Option<u16>,
    pub(super) session_guid: Option<[u8; 16]>,
    pub(super) trace_guid: Option<[u8; 16]>,
}

impl Metadata {
    pub(super) fn decode(mut records: &[u8]) -> Self {
        let mut metadata = Self::default();
        while let [size, id, tail @ ..] = records {
            // NOTE: a record that exceeds the metadata is ignored, because analysis needs none of
            // the records.
            let Some((value, next)) = tail.split_at_checked(usize::from(*size)) else { break };
            match (*id, value) {
                (CONTROL_PORT, &[low, high]) => {
                    metadata.control_port =
                        Some(u16::from_le_bytes([low, high])).filter(|&port| port != 0xffff);
                }
                (SESSION_GUID, _) => metadata.session_guid = value.try_into().ok(),
                (TRACE_GUID, _) => metadata.trace_guid = value.try_into().ok(),
                _ => {}
            }
            records = next;
        }
        metadata
    }
}

/// Fills `buffer` until the source ends; returns the number of bytes.
fn read_full(source: &mut impl Read, buffer: &mut [u8]) -> Result<usize, Error> {
    let mut filled = 0;
    while filled < buffer.len() {
        match source.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Error::Read(error)),
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ours() -> Handshake {
        Handshake {
            control_port: None,
            session_guid: Some([7; 16]),
            trace_guid: Some([9; 16]),
            transport: Transport::Unreal,
            protocol: PROTOCOL,
        }
    }

    #[test]
    fn exact_bytes() {
        let bytes = ours().encode();
        assert_eq!(bytes.len(), 48);
        assert_eq!(bytes[..10], [0x32, 0x43, 0x52, 0x54, 40, 0, 2, 0, 0xff, 0xff]);
        assert_eq!(bytes[46..], [4, 7]);
    }

    #[test]
    fn the_compact_transport_has_its_own_number() {
        let compact = Handshake { transport: Transport::Compact, ..ours() };
        let bytes = compact.encode();
        assert_eq!(bytes[46..], [78, 7]);
        assert_eq!(Handshake::decode(&mut &bytes[..]).unwrap(), (compact, 48));
    }

    #[test]
    fn round_trip_and_every_truncation() {
        let bytes = ours().encode();
        assert_eq!(Handshake::decode(&mut &bytes[..]).unwrap(), (ours(), 48));
        for end in 0..bytes.len() {
            let error = Handshake::decode(&mut &bytes[..end]).unwrap_err();
            assert!(matches!(error, Error::NotATrace(_)), "{end}: {error}");
        }
    }

    #[test]
    fn foreign_starts_are_named() {
        for (start, says) in [
            (&b"TRC2\x04\0\x02\0\xff\xff\x04\x06"[..], "big-endian"),
            (b"\x7fELF\x02\x01\x01\0", "7f 45 4c 46"),
            (b"2CRT\0\0\x03\x07", "transport 3"),
            (
                b"2CRT\0\0\x4d\x07",
                "transport 77 and only transport 4 is supported, and our own, 78",
            ),
            (b"2CRT\0\0\x04\x08", "protocol 8"),
        ] {
            let error = Handshake::decode(&mut &start[..]).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }
}
