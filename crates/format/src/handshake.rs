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

use crate::Error;
use std::io::Read;
use std::ops::RangeInclusive;

/// The first four bytes of every stream.
pub const MAGIC: [u8; 4] = *b"2CRT";
/// The first four bytes of the streams of Unreal Engine 4, without metadata.
const OLD_MAGIC: [u8; 4] = *b"ECRT";
/// The start of a stream of Unreal Engine 4 without a magic number: transport 1, protocol 0, and the uid of
/// the type record that must follow.
const NO_MAGIC: [u8; 4] = [1, 0, 0, 0];
/// Unreal's transport: packets per thread with sync packets.
pub const TRANSPORT: u8 = 4;
/// Our own transport: as [`TRANSPORT`], but packets can also be compact. Its number is far from
/// Unreal's, so that Unreal's readers refuse it. Each change of the compact coding needs a new
/// number; 77 was the number of a coding that no release has written.
pub const COMPACT_TRANSPORT: u8 = 78;
/// Our transport for keeping: all packets in chunks ([`packed`](super::packed)). Each change of that
/// coding needs a new number.
pub const PACKED_TRANSPORT: u8 = 79;
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
    /// No packets: the bytes of one stream (Unreal Engine 4.23).
    Raw,
    /// Packets of one stream, whose order is turned around in batches (Unreal Engine 4.24).
    Batch,
    /// Packets per thread, without sync packets (Unreal Engine 4.25 to 4.27, and 5.0 Early Access).
    Thread,
    /// Plain, LZ4 or compact: a fraction of the size, for our own reader only. Files are named
    /// `.memledger`.
    Compact,
    /// All packets in chunks: a tenth of the size, for our own reader only; a program does not write it.
    /// Files are named `.memledger`, too.
    Packed,
}

impl Transport {
    /// The transport with this number on the wire, or `None` if there is none.
    pub const fn from_version(version: u8) -> Option<Self> {
        match version {
            1 => Some(Self::Raw),
            2 => Some(Self::Batch),
            3 => Some(Self::Thread),
            TRANSPORT => Some(Self::Unreal),
            COMPACT_TRANSPORT => Some(Self::Compact),
            PACKED_TRANSPORT => Some(Self::Packed),
            _ => None,
        }
    }

    /// The number on the wire.
    pub const fn version(self) -> u8 {
        match self {
            Self::Raw => 1,
            Self::Batch => 2,
            Self::Thread => 3,
            Self::Unreal => TRANSPORT,
            Self::Compact => COMPACT_TRANSPORT,
            Self::Packed => PACKED_TRANSPORT,
        }
    }

    /// The protocols that a stream of this transport can have.
    fn protocols(self) -> RangeInclusive<u8> {
        match self {
            Self::Raw | Self::Batch => 0..=4,
            Self::Thread => 0..=5,
            Self::Unreal => 0..=7,
            Self::Compact | Self::Packed => 5..=7,
        }
    }
}

/// How the start of a stream begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Magic {
    /// `TRC2`, followed by metadata: Unreal Engine 5, and this crate.
    #[default]
    Trc2,
    /// `TRCE`: Unreal Engine 4.
    Trce,
    /// Nothing: the first recorders did not keep the magic number.
    Missing,
}

/// The contents of the start of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Handshake {
    /// Port of the control server, or `None` if there is none.
    pub control_port: Option<u16>,
    /// Identifies the process.
    pub session_guid: Option<[u8; 16]>,
    /// Identifies this connection of the process.
    pub trace_guid: Option<[u8; 16]>,
    /// How packets are coded.
    pub transport: Transport,
    /// Protocol version: 0 to 7.
    pub protocol: u8,
    /// How it begins. Only streams of Unreal Engine 4 begin differently than ours.
    pub magic: Magic,
}

impl Handshake {
    /// The handshake of the protocol that we write, without ids and without a control server.
    pub fn new(transport: Transport) -> Self {
        let (control_port, protocol, magic) = (None, PROTOCOL, Magic::Trc2);
        Self { control_port, session_guid: None, trace_guid: None, transport, protocol, magic }
    }

    /// The bytes that start a stream.
    pub fn encode(&self) -> Vec<u8> {
        let versions = [self.transport.version(), self.protocol];
        match self.magic {
            Magic::Trc2 => {}
            Magic::Trce => return [&OLD_MAGIC[..], &versions].concat(),
            Magic::Missing => return versions.to_vec(),
        }
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
        bytes.extend(versions);
        bytes
    }

    /// Reads the start of a stream; returns it with its size in bytes. If the stream has no magic
    /// number, also reads its first type record, which shows that it is a stream.
    ///
    /// # Errors
    /// `ErrorKind::NotATrace` with the bytes found instead, `ErrorKind::UnsupportedTrace` with a
    /// version that is not supported, `ErrorKind::Read` with the source's error.
    pub fn decode(source: &mut impl Read) -> Result<(Self, u64), Error> {
        Self::decode_ahead(source).map(|(handshake, size, _)| (handshake, size))
    }

    /// As [`decode`](Self::decode); also returns the bytes that it read after the start.
    #[doc(hidden)]
    pub fn decode_ahead(source: &mut impl Read) -> Result<(Self, u64, Vec<u8>), Error> {
        let mut head = Vec::new();
        read_up_to(source, &mut head, 6)?;
        let Some(magic) = head.get(..4) else {
            return Err(Error::not_a_trace(match head.len() {
                0 => "it is empty".into(),
                got => format!("it has only {got} bytes, fewer than the 8 of the smallest header"),
            }));
        };
        if matches!(magic, b"TRC2" | b"TRCE") {
            return Err(Error::unsupported(
                "its magic is byte-swapped, so a big-endian machine wrote it",
            ));
        }
        let start = loop {
            match parse(&head)? {
                Parsed::Whole(start) => break start,
                Parsed::UpTo(size) => {
                    read_up_to(source, &mut head, size)?;
                    if head.len() < size {
                        return Err(Error::not_a_trace(format!(
                            "it ends after {} bytes, inside the header",
                            head.len()
                        )));
                    }
                }
            }
        };
        let ahead = head.split_off(start.size as usize);
        Ok((Self::of(&start)?, start.size, ahead))
    }

    /// The start of a stream that can be read.
    fn of(start: &Start) -> Result<Self, Error> {
        let &Start { control_port, session_guid, trace_guid, transport, protocol, magic, .. } =
            start;
        let Some(known) = Transport::from_version(transport) else {
            return Err(Error::unsupported(format!(
                "it uses transport {transport}, but only transports 1 to {TRANSPORT} and our own, {COMPACT_TRANSPORT} and {PACKED_TRANSPORT}, are supported"
            )));
        };
        let protocols = known.protocols();
        if !protocols.contains(&protocol) {
            return Err(Error::unsupported(format!(
                "it uses protocol {protocol}, but only protocols {} to {} are supported in transport {transport}",
                protocols.start(),
                protocols.end()
            )));
        }
        Ok(Self { control_port, session_guid, trace_guid, transport: known, protocol, magic })
    }
}

/// The start of a stream of any version.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Start {
    /// Port of the program's control server, or `None` if there is none.
    pub control_port: Option<u16>,
    /// Identifies the process.
    pub session_guid: Option<[u8; 16]>,
    /// Identifies this connection of the process.
    pub trace_guid: Option<[u8; 16]>,
    /// Transport version; see [`Transport`] for those that can be read.
    pub transport: u8,
    /// Protocol version.
    pub protocol: u8,
    /// How it begins.
    pub magic: Magic,
    /// Bytes up to the first packet: 2 (without a magic number) to 65 543.
    pub size: u64,
}

/// What the first bytes of a stream give.
pub(super) enum Parsed {
    Whole(Start),
    /// More is known when this many bytes are there.
    UpTo(usize),
}

/// The start of the stream that begins with these bytes.
///
/// # Errors
/// `ErrorKind::NotATrace` at the first byte that differs from the magic number, or if no type record follows
/// the start of a stream without one.
pub(super) fn parse(head: &[u8]) -> Result<Parsed, Error> {
    let begin = head.get(..4).unwrap_or(head);
    let is = |magic: [u8; 4]| magic.starts_with(begin);
    let size = head.get(4..6).map(|size| usize::from(u16::from_le_bytes([size[0], size[1]])));
    let (magic, metadata) = match size {
        _ if !(is(MAGIC) || is(OLD_MAGIC) || is(NO_MAGIC)) => {
            return Err(Error::not_a_trace(foreign(head)));
        }
        None => return Ok(Parsed::UpTo(6)),
        Some(_) if is(OLD_MAGIC) => (Magic::Trce, 4..4),
        Some(size) if is(MAGIC) => (Magic::Trc2, 6..6 + size),
        Some(size) => match head.get(6..6 + size) {
            None => return Ok(Parsed::UpTo(6 + size)),
            Some(record) if is_type_record(record) => (Magic::Missing, 0..0),
            Some(_) => {
                return Err(Error::not_a_trace(
                    "it begins with 01 00 00 00, but no type record follows, as it would in a trace \
                     of Unreal Engine 4 without a magic number",
                ));
            }
        },
    };
    let end = metadata.end + 2;
    let Some(&[transport, protocol]) = head.get(metadata.end..end) else {
        return Ok(Parsed::UpTo(end));
    };
    let mut start = Start {
        control_port: None,
        session_guid: None,
        trace_guid: None,
        transport,
        protocol,
        magic,
        size: end as u64,
    };
    start.read_metadata(head.get(metadata).unwrap_or_default());
    Ok(Parsed::Whole(start))
}

impl Start {
    fn read_metadata(&mut self, mut records: &[u8]) {
        while let [size, id, tail @ ..] = records {
            // NOTE: a record that exceeds the metadata is ignored, because analysis needs none of
            // the records.
            let Some((value, next)) = tail.split_at_checked(usize::from(*size)) else { break };
            match (*id, value) {
                (CONTROL_PORT, &[low, high]) => {
                    self.control_port =
                        Some(u16::from_le_bytes([low, high])).filter(|&port| port != 0xffff);
                }
                (SESSION_GUID, _) => self.session_guid = value.try_into().ok(),
                (TRACE_GUID, _) => self.trace_guid = value.try_into().ok(),
                _ => {}
            }
            records = next;
        }
    }
}

/// How files begin that are no traces, and what they are.
const FOREIGN: [(&[u8], &str); 8] = [
    (b"<!DO", "it is an HTML page"),
    (b"<!do", "it is an HTML page"),
    (b"<htm", "it is an HTML page"),
    (b"{", "it is a JSON document"),
    (b"PK\x03\x04", "it is a zip file"),
    (b"\x7fELF", "it is a program; 'memledger run --trace FILE -- PROGRAM' makes a trace"),
    (b"\x1f\x8b", "it is compressed; 'zcat FILE | memledger report -' reads it"),
    (b"\x28\xb5\x2f\xfd", "it is compressed; 'zstdcat FILE | memledger report -' reads it"),
];

/// What a file is that begins with these bytes.
fn foreign(start: &[u8]) -> String {
    if let Some((_, what)) = FOREIGN.iter().find(|(bytes, _)| start.starts_with(bytes)) {
        return (*what).to_owned();
    }
    // The key of a packet, and soon a byte that is in no text.
    let is_text = |byte: &u8| byte.is_ascii_graphic() || byte.is_ascii_whitespace();
    if start.first() == Some(&b'\n') && !start.iter().take(6).all(is_text) {
        return "it looks like a file of Perfetto, which ui.perfetto.dev and \
                trace_processor_shell read"
            .to_owned();
    }
    let bytes: Vec<_> = start.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    format!("it begins with {} instead of 32 43 52 54", bytes.join(" "))
}

/// Whether `record` can be the first type record of a stream of protocol 0: it declares a uid, and
/// its fields and names fill it.
fn is_type_record(record: &[u8]) -> bool {
    let Some((&[u0, u1, fields, _, logger, event], rest)) = record.split_first_chunk() else {
        return false;
    };
    let Some((fields, names)) = rest.split_at_checked(6 * usize::from(fields)) else {
        return false;
    };
    let field_names = fields.chunks(6).map(|field| usize::from(field[5])).sum::<usize>();
    [u0, u1] != [0, 0] && names.len() == usize::from(logger) + usize::from(event) + field_names
}

/// Reads until `bytes` has this size, or the source ends.
fn read_up_to(source: &mut impl Read, bytes: &mut Vec<u8>, size: usize) -> Result<(), Error> {
    let missing = size.saturating_sub(bytes.len()) as u64;
    source.by_ref().take(missing).read_to_end(bytes).map(drop).map_err(Error::read)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    fn ours() -> Handshake {
        Handshake {
            control_port: None,
            session_guid: Some([7; 16]),
            trace_guid: Some([9; 16]),
            transport: Transport::Unreal,
            protocol: PROTOCOL,
            magic: Magic::Trc2,
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
    fn our_transports_have_their_own_numbers() {
        for (transport, number) in [(Transport::Compact, 78), (Transport::Packed, 79)] {
            let start = Handshake { transport, ..ours() };
            let bytes = start.encode();
            assert_eq!(bytes[46..], [number, 7]);
            assert_eq!(Handshake::decode(&mut &bytes[..]).unwrap(), (start, 48));
        }
    }

    #[test]
    fn round_trip_and_every_truncation() {
        let bytes = ours().encode();
        assert_eq!(Handshake::decode(&mut &bytes[..]).unwrap(), (ours(), 48));
        for end in 0..bytes.len() {
            let error = Handshake::decode(&mut &bytes[..end]).unwrap_err();
            assert!(matches!(error.kind(), ErrorKind::NotATrace), "{end}: {error}");
        }
    }

    #[test]
    fn foreign_starts_are_named() {
        for (start, says) in [
            (&b"TRC2\x04\0\x02\0\xff\xff\x04\x06"[..], "big-endian"),
            (b"OggS\0\x02\0\0", "it begins with 4f 67 67 53 instead of 32 43 52 54"),
            (b"\x7fELF\x02\x01\x01\0", "this is not a trace: it is a program; 'memledger run"),
            (b"<!DOCTYPE html>", "this is not a trace: it is an HTML page"),
            (b"{\"schema\": 1}", "it is a JSON document"),
            // A packet of 65 bytes with the number of a sequence; one with a time; a text.
            (b"\n\x41\x50\x01\x68\x01", "ui.perfetto.dev and trace_processor_shell read"),
            (b"\n\x80\x01\x40\xa0\x8d", "it looks like a file of Perfetto"),
            (b"\n# a text", "it begins with 0a 23 20 61"),
            (b"\x28\xb5\x2f\xfd\x04", "zstdcat"),
            (b"2CRT\0\0\x03\x07", "transport 3"),
            (
                b"2CRT\0\0\x4d\x07",
                "transport 77, but only transports 1 to 4 and our own, 78 and 79, are supported",
            ),
            (b"2CRT\0\0\x04\x08", "protocol 8"),
        ] {
            let error = Handshake::decode(&mut &start[..]).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }
}
