//! From one transport to another: the same stream of events, coded differently.

use crate::error::Error;
use crate::trace::format::Transport;
use crate::trace::format::handshake::Handshake;
use crate::trace::format::packet::{PacketWriter, SYNC};
use crate::trace::read::{Reader, Summary, Visitor};
use std::io::{Read, Write};

/// Packets are written when this many bytes of them are waiting, and at the end.
const WRITE_AT: usize = 256 << 10;

/// Nothing is done with the events: what counts are the packets.
struct Ignore;

impl Visitor for Ignore {
    fn event(&mut self, _: &crate::trace::read::Event<'_>) {}
}

/// Reads a whole trace and writes it to `out` in the coding of `to`: packet by packet the same
/// streams and payloads, from the same start.
///
/// What is damaged in `source` is left out and stands in the summary; everything before and behind
/// it is written. A source that fails on the way is [`Summary::error`], after everything before
/// was written.
///
/// Costs the reading ([`read`](crate::trace::read::read())), because what is damaged shows in the
/// events, and 5 to 50 ns an event for the coding.
///
/// # Errors
/// [`Error::NotATrace`] and [`Error::UnsupportedTrace`] say what the input is instead,
/// [`Error::Read`] that not even its start could be read; nothing is written then.
/// [`Error::Write`] says that `out` failed.
///
/// # Examples
/// ```
/// use memledger::trace::convert::convert;
/// use memledger::trace::format::Transport;
///
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/samples/mem-2t-40k.utrace");
/// let (plain, mut compact) = (std::fs::read(path)?, Vec::new());
/// let summary = convert(&plain[..], &mut compact, Transport::Compact)?;
/// assert!(summary.is_complete());
/// assert!(compact.len() < plain.len() / 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn convert(source: impl Read, mut out: impl Write, to: Transport) -> Result<Summary, Error> {
    let mut reader = Reader::open(source)?;
    let handshake = Handshake { transport: to, ..reader.handshake().clone() };
    let mut packets = PacketWriter::new(to, handshake.protocol);
    let mut pending = handshake.encode();
    while reader.packet_with(&mut Ignore, &mut |stream, payload| match stream {
        SYNC => packets.sync(&mut pending),
        stream => packets.packet(stream, payload, &mut pending),
    }) {
        if pending.len() >= WRITE_AT {
            out.write_all(&pending).map_err(Error::Write)?;
            pending.clear();
        }
    }
    out.write_all(&pending).and_then(|()| out.flush()).map_err(Error::Write)?;
    Ok(reader.finish(&mut Ignore))
}
