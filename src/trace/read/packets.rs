//! From the bytes of a trace to packets, and the way back into step after damage.
//!
//! A header has few bits to recognise it by, so a place where packets begin again is believed
//! only when several packets in a row fit: their streams are plausible, their LZ4 blocks decode,
//! each begins where the one before ends.

use super::decoder::Decoder;
use super::event::Visitor;
use super::source::{Source, WINDOW};
use super::summary::{Packets, Summary, TypeCount};
use crate::error::Error;
use crate::trace::transport::handshake::Handshake;
use crate::trace::transport::lz4;
use crate::trace::transport::packet::{
    ENCODED_HEADER, FIRST_THREAD, HEADER, Header, LAST_THREAD, SYNC,
};
use std::io::Read;

/// Points that convince: a plain packet gives one, an encoded or a sync packet three.
const CONVINCING: u32 = 8;
/// A plain packet smaller than this, or of an unknown stream, gives none: rows of small numbers,
/// as in type records, look like them.
const SMALL_PLAIN: usize = 32;
/// Points that will do when the input ends exactly behind these packets, or is known no further.
const CONVINCING_AT_THE_END: u32 = 3;
/// Packets in a row, none of them small, that make the first one of a new stream credible.
const ENOUGH: u32 = 3;
/// Packets looked at to collect points.
const LONGEST_CHAIN: usize = 32;
/// Stream ids go up one by one, so one this far above all others is not plausible.
const NEW_STREAMS: u16 = 64;
/// Bytes that may be decoded on trial for each byte that is passed over, so that no input can
/// make the search slow.
const TRIAL_BYTES: usize = 64;

/// Reads a trace packet by packet; [`read`](super::read()) is the short form.
pub struct Reader<R> {
    source: Source<R>,
    handshake: Handshake,
    decoder: Decoder,
    packets: Packets,
    skipped: u64,
    truncated: u64,
    /// The highest stream id of a thread so far.
    highest_stream: u16,
    /// Decoded payloads. PERF: as large as one can be, so that it is never resized.
    payload: Vec<u8>,
}

impl<R: Read> Reader<R> {
    /// Reads the start of a trace.
    ///
    /// # Errors
    /// As [`read`](super::read()).
    pub fn open(mut source: R) -> Result<Self, Error> {
        let (handshake, offset) = Handshake::decode(&mut source)?;
        Ok(Self {
            source: Source::new(source, offset),
            decoder: Decoder::new(handshake.protocol),
            handshake,
            packets: Packets::default(),
            skipped: 0,
            truncated: 0,
            highest_stream: FIRST_THREAD,
            payload: vec![0; usize::from(u16::MAX)],
        })
    }

    /// How the trace starts.
    pub fn handshake(&self) -> &Handshake {
        &self.handshake
    }

    /// Reads one packet, or passes over one damaged place, and delivers what can be delivered.
    /// Returns `false` at the end of the input.
    pub fn packet(&mut self, visitor: &mut impl Visitor) -> bool {
        let offset = self.source.offset();
        self.decoder.set_offset(Some(offset));
        let bytes = self.source.ahead(HEADER);
        let Some(&start) = bytes.first_chunk::<HEADER>() else {
            let rest = bytes.len();
            if rest > 0 {
                self.truncate(rest, visitor);
            }
            return false;
        };
        let Some(header) = Header::decode(start) else {
            let what = format!("the {HEADER} bytes at offset {offset} are no packet header");
            return self.resynchronise(&what, visitor);
        };
        if self.source.ahead(header.size).len() < header.size {
            return self.ends_inside(header, visitor);
        }
        if !self.is_credible(&header) {
            let what = format!("the {HEADER} bytes at offset {offset} are no likely packet header");
            return self.resynchronise(&what, visitor);
        }
        let Some(packet) = self.source.buffered().get(..header.size) else { return false };
        if header.stream == SYNC {
            self.packets.sync += 1;
            self.decoder.sync(visitor);
        } else if header.encoded {
            match decode(packet, &mut self.payload) {
                Ok(payload) => {
                    self.packets.encoded += 1;
                    self.decoder.packet(header.stream, payload, visitor);
                }
                Err(what) => return self.damaged(header, &what, visitor),
            }
        } else {
            self.packets.plain += 1;
            let payload = packet.get(HEADER..).unwrap_or_default();
            self.decoder.packet(header.stream, payload, visitor);
        }
        if header.stream <= LAST_THREAD {
            self.highest_stream = self.highest_stream.max(header.stream);
        }
        self.source.consume(header.size);
        true
    }

    /// Delivers what is left and sums up. May be called before the end of the input.
    pub fn finish(mut self, visitor: &mut impl Visitor) -> Summary {
        self.decoder.finish(visitor);
        Summary {
            input_bytes: self.source.offset(),
            packets: self.packets,
            skipped_bytes: self.skipped,
            truncated_bytes: self.truncated,
            counts: self.decoder.counts(),
            types: (self.decoder.types())
                .map(|(event_type, events)| TypeCount { event_type: event_type.clone(), events })
                .collect(),
            streams: self.decoder.streams(),
            error: self.source.take_error(),
            handshake: self.handshake,
        }
    }

    /// Whether a legal header is one: that of a stream never seen before, or of an empty packet,
    /// may be payload that is taken for a header because the size before it is wrong.
    fn is_credible(&mut self, header: &Header) -> bool {
        let mut search = Search::new(&self.decoder, self.highest_stream, &mut self.payload);
        let seen = self.decoder.has_stream(header.stream);
        if header.stream == SYNC || header.size > HEADER && seen {
            return true;
        }
        // NOTE: a live source is not read ahead for this.
        search.any_stream = true;
        let chain = search.chain(self.source.buffered());
        !chain.broken || chain.packets >= ENOUGH || chain.points >= CONVINCING_AT_THE_END
    }

    /// A packet whose LZ4 block is bad. If packets go on behind it, it alone is lost.
    fn damaged(&mut self, header: Header, what: &str, visitor: &mut impl Visitor) -> bool {
        let offset = self.source.offset();
        let what = format!("a packet of stream {} is damaged: {what}", header.stream);
        self.packets.damaged += 1;
        let (window, all) = self.source.window();
        let goes_on = window.get(header.size..).is_some_and(|behind| {
            let chain =
                Search::new(&self.decoder, self.highest_stream, &mut self.payload).chain(behind);
            chain.points >= CONVINCING_AT_THE_END || chain.fills && all
        });
        if !goes_on {
            return self.resynchronise(&what, visitor);
        }
        self.skipped += header.size as u64;
        self.decoder.damage(offset, header.size as u64, what, visitor);
        self.decoder.packet_lost(header.stream, visitor);
        self.source.consume(header.size);
        true
    }

    /// The input ends before the packet does: it was cut off, unless packets go on inside.
    fn ends_inside(&mut self, header: Header, visitor: &mut impl Visitor) -> bool {
        let (window, _) = self.source.window();
        let rest = window.len();
        if Search::new(&self.decoder, self.highest_stream, &mut self.payload).is_filled(window) {
            let what = format!(
                "a packet of stream {} has a size of {}, but other packets begin inside it",
                header.stream, header.size
            );
            return self.resynchronise(&what, visitor);
        }
        self.truncate(rest, visitor);
        false
    }

    fn truncate(&mut self, rest: usize, visitor: &mut impl Visitor) {
        let offset = self.source.offset();
        self.truncated = rest as u64;
        let what = format!("the trace ends inside a packet, {rest} bytes after its start");
        self.decoder.damage(offset, rest as u64, what, visitor);
        self.source.consume(rest);
    }

    /// Passes over bytes until packets begin again.
    fn resynchronise(&mut self, what: &str, visitor: &mut impl Visitor) -> bool {
        let offset = self.source.offset();
        let mut skipped = 0;
        loop {
            let (window, all) = self.source.window();
            let mut search = Search::new(&self.decoder, self.highest_stream, &mut self.payload);
            let (step, found) = match search.find(window, all) {
                Some(start) => (start, true),
                None if all => (window.len(), false),
                // The next window begins with what might be the start of a chain of packets.
                None => (window.len() / 2, false),
            };
            skipped += step as u64;
            self.source.consume(step);
            if found || all {
                break;
            }
        }
        self.skipped += skipped;
        let what = format!("{what}; {skipped} bytes are passed over");
        self.decoder.damage(offset, skipped, what, visitor);
        self.decoder.anything_lost(visitor);
        true
    }
}

/// Decodes the LZ4 block of an encoded packet into `buffer`.
fn decode<'a>(packet: &[u8], buffer: &'a mut [u8]) -> Result<&'a [u8], String> {
    let short = || "it has no LZ4 block".to_owned();
    let &size = packet.get(HEADER..).and_then(|rest| rest.first_chunk::<2>()).ok_or_else(short)?;
    let block = packet.get(ENCODED_HEADER..).ok_or_else(short)?;
    let payload = buffer.get_mut(..usize::from(u16::from_le_bytes(size))).ok_or_else(short)?;
    lz4::decode(block, payload)?;
    Ok(payload)
}

/// What speaks for packets at some place.
#[derive(Default)]
struct Chain {
    packets: u32,
    points: u32,
    /// One of them is encoded, or a sync.
    strong: bool,
    /// The last of them ends where the bytes do.
    fills: bool,
    /// What follows them is no packet.
    broken: bool,
}

impl Chain {
    fn broken(self) -> Self {
        Self { broken: true, ..self }
    }
}

/// Looks for a place where packets begin.
struct Search<'a> {
    decoder: &'a Decoder,
    highest_stream: u16,
    /// Take any stream, though it proves nothing.
    any_stream: bool,
    /// Room to decode into.
    scratch: &'a mut [u8],
    /// How many more bytes may be decoded on trial.
    trial: usize,
}

impl<'a> Search<'a> {
    fn new(decoder: &'a Decoder, highest_stream: u16, scratch: &'a mut [u8]) -> Self {
        Self { decoder, highest_stream, any_stream: false, scratch, trial: WINDOW }
    }

    /// The first offset but 0 in `window` from which packets go on; `all` says that the input
    /// ends where the window does.
    fn find(&mut self, window: &[u8], all: bool) -> Option<usize> {
        (1..window.len()).find(|&start| {
            self.trial = self.trial.saturating_add(TRIAL_BYTES);
            let chain = self.chain(window.get(start..).unwrap_or_default());
            !chain.broken
                && (chain.points >= CONVINCING
                    || chain.points >= CONVINCING_AT_THE_END && (chain.fills || !all))
        })
    }

    /// Whether packets begin inside the last packet of the input and fill it to its end.
    ///
    /// An input that was simply cut off is more likely, and plain packets alone prove little:
    /// type records are full of small numbers that look like their headers.
    fn is_filled(&mut self, last: &[u8]) -> bool {
        (1..last.len()).any(|start| {
            self.trial = self.trial.saturating_add(TRIAL_BYTES);
            let chain = self.chain(last.get(start..).unwrap_or_default());
            chain.fills && chain.strong && !chain.broken
        })
    }

    /// How well `bytes` look like packets.
    fn chain(&mut self, mut bytes: &[u8]) -> Chain {
        let mut chain = Chain::default();
        for _ in 0..LONGEST_CHAIN {
            if bytes.is_empty() {
                chain.fills = true;
                break;
            }
            let Some(&start) = bytes.first_chunk() else { break };
            let header = Header::decode(start).filter(|h| h.stream == SYNC || h.size > HEADER);
            let Some(header) = header else { return chain.broken() };
            if !self.any_stream && !self.is_expected(header.stream) {
                return chain.broken();
            }
            let Some((packet, rest)) = bytes.split_at_checked(header.size) else { break };
            if header.encoded && !self.decodes(packet) {
                return chain.broken();
            }
            let strong = header.encoded || header.stream == SYNC;
            chain.strong |= strong;
            chain.points += match strong {
                true => 3,
                false => {
                    u32::from(header.size >= SMALL_PLAIN && self.decoder.has_stream(header.stream))
                }
            };
            let expected = header.size >= SMALL_PLAIN && self.is_expected(header.stream);
            chain.packets += u32::from(strong || expected);
            bytes = rest;
            if chain.points >= CONVINCING {
                break;
            }
        }
        chain
    }

    fn is_expected(&self, stream: u16) -> bool {
        stream > LAST_THREAD || stream <= self.highest_stream.saturating_add(NEW_STREAMS)
    }

    fn decodes(&mut self, packet: &[u8]) -> bool {
        let size = packet.get(HEADER..).and_then(|rest| rest.first_chunk::<2>());
        let size = size.map_or(0, |&size| usize::from(u16::from_le_bytes(size)));
        let Some(left) = self.trial.checked_sub(size) else { return false };
        self.trial = left;
        decode(packet, self.scratch).is_ok()
    }
}
