//! Converts a trace to another transport: the same streams and payloads, coded differently. Or to a trace
//! with only some of its channels.

mod channels;
mod packets;

pub use channels::{ChannelList, convert_channels};

use crate::read::{Reader, Summary, Visitor};
use memledger_format::Error;
use memledger_format::handshake::Transport;
use memledger_format::packet::SYNC;
use packets::AnyPackets;
use std::io::{Read, Write};

/// Pending packets are written when they have at least this number of bytes together, and at the
/// end.
const WRITE_AT: usize = 256 << 10;

/// Ignores all events, because only the packets are converted.
struct Ignore;

impl Visitor for Ignore {
    fn event(&mut self, _: &crate::read::Event<'_>) {}
}

/// Reads a whole trace and writes it to `out` in the coding of `to`. Each packet keeps its stream
/// and its payload; the handshake differs only in the transport.
///
/// Damaged packets of `source` are left out and counted in the summary; all packets before and
/// after them are written. The output does not show where a packet is missing. So if an event began
/// before the missing packet and ended after it, a reader of the output may join the two parts to
/// one event. If `source` fails, all packets before the failure are written, and [`Summary::error`]
/// has the error.
///
/// Costs as much as [`read`](crate::read::read()), because some damage is visible only in
/// the events, plus 5 to 50 ns for the coding of each event; 200 to 400 ns to
/// [`Transport::Packed`].
///
/// # Errors
/// `ErrorKind::NotATrace` if the input is not a trace, `ErrorKind::UnsupportedTrace` if it is a trace
/// of an unsupported version, `ErrorKind::Read` if its start cannot be read: in these cases nothing
/// is written. `ErrorKind::NotConvertible` if the trace is of a protocol below 5 (Unreal Engine 4), whose
/// attachments no later protocol can carry; then nothing is written, either. `ErrorKind::Write` if
/// `out` fails.
///
/// # Examples
/// ```
/// use memledger_analysis::convert::convert;
/// use memledger_format::handshake::Transport;
///
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/samples/mem-2t-40k.utrace");
/// let (plain, mut compact) = (std::fs::read(path)?, Vec::new());
/// let summary = convert(&plain[..], &mut compact, Transport::Compact)?;
/// assert!(summary.is_complete());
/// assert!(compact.len() < plain.len() / 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn convert(source: impl Read, out: impl Write, to: Transport) -> Result<Summary, Error> {
    copy(source, out, Some(to), &mut Ignore, |_, _| Vec::new())
}

/// As [`convert`], or in the same transport if there is no `to`. `visitor` gets all events. `append`
/// gives the packets that follow at the end: stream ids and payloads.
pub(crate) fn copy<V: Visitor>(
    source: impl Read,
    mut out: impl Write,
    to: Option<Transport>,
    visitor: &mut V,
    append: impl FnOnce(&mut V, &Summary) -> Vec<(u16, Vec<u8>)>,
) -> Result<Summary, Error> {
    let mut reader = Reader::open(source)?;
    let protocol = reader.handshake().protocol;
    if protocol < 5 {
        return Err(Error::not_convertible(format!(
            "it is of protocol {protocol}, and no later protocol can carry its attachments and its \
             uids below 16"
        )));
    }
    let to = to.unwrap_or(reader.handshake().transport);
    let mut handshake = reader.handshake().clone();
    handshake.transport = to;
    let mut packets = AnyPackets::new(to, handshake.protocol);
    let mut pending = handshake.encode();
    while reader.packet_with(visitor, &mut |stream, payload| match stream {
        SYNC => packets.sync(&mut pending),
        stream => packets.packet(stream, payload, &mut pending),
    }) {
        if pending.len() >= WRITE_AT {
            out.write_all(&pending).map_err(Error::write)?;
            pending.clear();
        }
    }
    let summary = reader.finish(visitor);
    let appended = append(visitor, &summary);
    for (stream, payload) in &appended {
        packets.packet(*stream, payload, &mut pending);
    }
    if !appended.is_empty() {
        packets.sync(&mut pending);
    }
    packets.finish(&mut pending);
    out.write_all(&pending).and_then(|()| out.flush()).map_err(Error::write)?;
    Ok(summary)
}
