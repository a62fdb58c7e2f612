//! The framing of a stream that a relay passes on: how it starts, and where packets end.
//!
//! ```text
//! start                          packet          packet      packet, unfinished
//! |------------------------------|---------------|-----------|-------
//!                                                            ^ whole()
//! ```
//!
//! A relay does not decode. It finds packets in every version of the stream whose packets begin
//! with their size (transports 3 and 4, and our own), and passes other versions on without finding
//! packets.

pub use super::handshake::Start;

use super::handshake::{COMPACT_TRANSPORT, Parsed, TRANSPORT, parse};
use crate::Error;

/// Packets as in [`TRANSPORT`], without sync packets.
const OLD_TRANSPORT: u8 = 3;
/// The smallest size of a packet: two bytes for the size itself, and two for the stream id.
const MIN_PACKET_BYTES: u16 = 4;
/// Bytes of magic number, metadata size, the largest metadata, and the versions.
const MAX_START_BYTES: usize = 4 + 2 + u16::MAX as usize + 2;

/// Finds the packets of a stream that arrives in pieces. A push takes a few nanoseconds per packet.
/// Only the bytes of the start are kept, until it is complete: at most 65 543 bytes.
///
/// # Examples
/// ```
/// use memledger_format::framing::Framing;
///
/// let mut framing = Framing::new();
/// framing.push(b"2CRT\x04\x00\x02\x00\xff\xff")?; // no control port
/// assert!(framing.start().is_none(), "the versions are missing");
/// framing.push(b"\x04\x07")?;
/// assert_eq!(framing.start().map(|start| start.protocol), Some(7));
/// framing.push(b"\x04\x00\xff\x3f\x09\x00")?; // a sync packet, two bytes of another
/// assert_eq!((framing.whole(), framing.len()), (16, 18));
/// # Ok::<(), memledger_format::Error>(())
/// ```
#[derive(Debug)]
pub struct Framing {
    state: State,
    start: Option<Start>,
    length: u64,
    whole: u64,
}

#[derive(Debug)]
enum State {
    /// These bytes of the start have arrived.
    Start(Vec<u8>),
    /// Between packets, or after the first byte of a size.
    Size(Option<u8>),
    /// This many bytes of a packet are missing.
    Packet(u16),
    /// Packets cannot be found, from the start of the stream or from a wrong size on.
    Unknown,
}

impl Default for Framing {
    fn default() -> Self {
        Self::new()
    }
}

impl Framing {
    /// A framing at the beginning of a stream.
    pub fn new() -> Self {
        Self { state: State::Start(Vec::new()), start: None, length: 0, whole: 0 }
    }

    /// The start of the stream; `None` until it is complete.
    pub fn start(&self) -> Option<&Start> {
        self.start.as_ref()
    }

    /// Bytes pushed so far.
    pub fn len(&self) -> u64 {
        self.length
    }

    /// Whether nothing has been pushed.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Bytes up to the end of the last whole packet; 0 while the start is incomplete; all bytes if
    /// packets cannot be found.
    pub fn whole(&self) -> u64 {
        self.whole
    }

    /// Takes the next bytes of the stream.
    ///
    /// # Errors
    /// `ErrorKind::NotATrace` at the first byte that differs from the magic number, or if no type
    /// record follows the start of a stream without one; never after the [`start`](Self::start) is complete.
    pub fn push(&mut self, mut bytes: &[u8]) -> Result<(), Error> {
        self.length += bytes.len() as u64;
        if let State::Start(head) = &mut self.state {
            let old = head.len();
            let missing = MAX_START_BYTES.saturating_sub(old);
            head.extend_from_slice(bytes.get(..missing).unwrap_or(bytes));
            let Parsed::Whole(start) = parse(head)? else { return Ok(()) };
            let used = (start.size as usize).saturating_sub(old);
            bytes = bytes.get(used..).unwrap_or_default();
            self.whole = start.size;
            let framed = [OLD_TRANSPORT, TRANSPORT, COMPACT_TRANSPORT].contains(&start.transport);
            self.state = if framed { State::Size(None) } else { State::Unknown };
            self.start = Some(start);
        }
        let mut at = self.length - bytes.len() as u64;
        while !bytes.is_empty() {
            let used = match &mut self.state {
                State::Packet(missing) => {
                    let used = bytes.len().min(usize::from(*missing));
                    *missing -= used as u16;
                    if *missing == 0 {
                        self.state = State::Size(None);
                        self.whole = at + used as u64;
                    }
                    used
                }
                State::Size(low @ None) => {
                    *low = bytes.first().copied();
                    1
                }
                State::Size(Some(low)) => {
                    let high = bytes.first().copied().unwrap_or_default();
                    self.state = match u16::from_le_bytes([*low, high]) {
                        size @ MIN_PACKET_BYTES.. => State::Packet(size - 2),
                        _ => State::Unknown,
                    };
                    1
                }
                State::Start(_) | State::Unknown => {
                    self.whole = self.length;
                    return Ok(());
                }
            };
            at += used as u64;
            bytes = bytes.get(used..).unwrap_or_default();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handshake::Transport;
    use crate::handshake::{Handshake, Magic};
    use proptest::prelude::*;

    fn start(transport: Transport) -> Vec<u8> {
        let handshake = Handshake {
            control_port: Some(1985),
            session_guid: Some([3; 16]),
            trace_guid: Some([4; 16]),
            transport,
            protocol: 7,
            magic: Magic::Trc2,
        };
        handshake.encode()
    }

    #[test]
    fn the_start_is_that_of_the_handshake() {
        for transport in [Transport::Unreal, Transport::Compact] {
            let bytes = start(transport);
            let mut framing = Framing::new();
            framing.push(&bytes).unwrap();
            let (handshake, size) = Handshake::decode(&mut &bytes[..]).unwrap();
            assert_eq!(
                framing.start(),
                Some(&Start {
                    control_port: handshake.control_port,
                    session_guid: handshake.session_guid,
                    trace_guid: handshake.trace_guid,
                    transport: transport.version(),
                    protocol: 7,
                    magic: Magic::Trc2,
                    size,
                })
            );
            assert_eq!(framing.whole(), size);
        }
    }

    #[test]
    fn the_largest_start_is_taken_and_kept_no_longer() {
        let mut bytes = b"2CRT\xff\xff".to_vec();
        bytes.resize(bytes.len() + 65_535, 0);
        bytes.extend([4, 7, 4, 0, 0xff, 0x3f, 9]);
        let mut framing = Framing::new();
        framing.push(&bytes).unwrap();
        assert_eq!(framing.start().unwrap().size, 65_543);
        assert_eq!((framing.whole(), framing.len()), (65_547, 65_548));
    }

    #[test]
    fn what_is_no_trace_is_refused_at_its_first_wrong_byte() {
        for (bytes, says) in [
            (&b"G"[..], "begins with 47 instead"),
            (b"GET / HTTP/1.1\r\n", "47 45 54 20"),
            (b"2CRX", "32 43 52 58"),
            (b"ECRX", "45 43 52 58"),
            (b"\0\0\0\0\0\0\0\0", "00 00 00 00"),
        ] {
            let error = Framing::new().push(bytes).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
        for bytes in [&b""[..], b"2", b"2CRT", b"E", b"ECRT\x03"] {
            let mut framing = Framing::new();
            framing.push(bytes).unwrap();
            assert_eq!((framing.start(), framing.whole()), (None, 0));
        }
    }

    #[test]
    fn old_and_future_streams_pass() {
        let mut old = Framing::new();
        old.push(b"ECRT\x03\x04\x05\x00\x02\x00\x99\x05").unwrap();
        assert_eq!((old.start().unwrap().protocol, old.whole()), (4, 11));
        let mut batches = Framing::new();
        batches.push(b"ECRT\x02\x00\x00\x00\x06\x00\x02\x00").unwrap();
        assert_eq!((batches.start().unwrap().transport, batches.whole()), (2, 12));
        let mut future = Framing::new();
        future.push(b"2CRT\0\0\x09\x0a\x05\x00").unwrap();
        assert_eq!((future.start().unwrap().transport, future.whole()), (9, 10));
    }

    #[test]
    fn without_a_magic_number_a_type_record_must_follow() {
        let bytes = b"\x01\0\0\0\x08\0\x01\0\0\0\x01\x01ABxyz";
        for piece in [1, 3, 100] {
            let mut framing = Framing::new();
            bytes.chunks(piece).for_each(|piece| framing.push(piece).unwrap());
            let start = framing.start().unwrap();
            assert_eq!((start.transport, start.protocol, start.size), (1, 0, 2));
            assert_eq!((framing.whole(), framing.len()), (17, 17));
        }
        let mut framing = Framing::new();
        framing.push(&bytes[..13]).unwrap();
        assert_eq!((framing.start(), framing.whole()), (None, 0));
        let error = Framing::new().push(b"\x01\0\0\0\x03\0xyz").unwrap_err();
        assert!(error.to_string().contains("no type record follows"), "{error}");
    }

    #[test]
    fn a_size_no_packet_has_ends_the_knowledge_and_nothing_else() {
        let mut framing = Framing::new();
        framing.push(&start(Transport::Unreal)).unwrap();
        framing.push(&[4, 0, 0xff, 0x3f, 3, 0]).unwrap();
        assert_eq!(framing.whole(), 52);
        framing.push(&[1, 2, 3]).unwrap();
        assert_eq!((framing.whole(), framing.len()), (57, 57));
    }

    proptest! {
        #[test]
        fn pieces_make_no_difference(
            sizes in prop::collection::vec(4_u16..600, 0..20),
            cut in 0_usize..600,
            pieces in prop::collection::vec(1_usize..300, 1..200),
        ) {
            // The simple model: the sum of the packet sizes that fit.
            let mut bytes = start(Transport::Unreal);
            let mut ends = vec![bytes.len()];
            for size in sizes {
                bytes.extend(size.to_le_bytes());
                bytes.resize(bytes.len() + usize::from(size) - 2, 7);
                ends.push(bytes.len());
            }
            bytes.truncate(bytes.len().saturating_sub(cut).max(ends[0]));
            let whole = ends.iter().rfind(|&&end| end <= bytes.len()).unwrap();
            let mut framing = Framing::new();
            let mut rest = &bytes[..];
            for piece in pieces.iter().cycle() {
                let (now, later) = rest.split_at((*piece).min(rest.len()));
                framing.push(now).unwrap();
                rest = later;
                if rest.is_empty() {
                    break;
                }
            }
            prop_assert_eq!(framing.whole(), *whole as u64);
            prop_assert_eq!(framing.len(), bytes.len() as u64);
        }
    }
}
