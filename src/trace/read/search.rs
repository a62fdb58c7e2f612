//! Where packets begin again behind damage.
//!
//! A header has few bits to recognise it by, so such a place is believed only when several packets
//! in a row fit: their streams are plausible, their LZ4 blocks decode, their checksums are right,
//! each begins where the one before ends.

use super::decoder::Decoder;
use crate::trace::format::Transport;
use crate::trace::format::packet::{Coding, HEADER, Header, LAST_THREAD, SYNC};
use crate::trace::format::unpack::Unpacker;
use std::ops::Range;

/// Points of an encoded packet that decodes, or of a sync; a plain one whose payload makes sense
/// gives one.
const STRONG: u32 = 3;
/// Points that convince.
/// A compact packet does alone: its checksum is right by chance once in 4 billion.
const CONVINCING: u32 = 8;
/// A plain packet smaller than this gives none: rows of small numbers, as in type records, look
/// like them.
const SMALL_PLAIN: usize = 32;
/// Points that will do when the input ends exactly behind these packets, or is known no further.
pub(super) const CONVINCING_AT_THE_END: u32 = 3;
/// Packets looked at to collect points.
const LONGEST_CHAIN: usize = 32;
/// Stream ids go up one by one, so one this far above all others is not plausible.
const NEW_STREAMS: u16 = 64;
/// Bytes that are skipped unread when the budget of a search is used up.
pub(super) const UNSEEN: usize = 64 << 10;

/// The budget of all searches of a reader, in bytes decoded on trial: an initial amount, and an
/// amount for each byte of input, so that no input can make the reader slow.
const TRIALS: u64 = 64 << 20;
const TRIALS_PER_BYTE: u64 = 64;
/// The minimum cost of trying one position, in bytes.
const LOOK: usize = 4;

/// The cost of searches so far, and their budget, in bytes.
pub(super) struct Trials {
    pub spent: u64,
    granted: u64,
    /// The initial budget, and the most that can be left unspent.
    at_once: u64,
}

impl Default for Trials {
    fn default() -> Self {
        Self::new(TRIALS)
    }
}

impl Trials {
    pub(super) fn new(at_once: u64) -> Self {
        Self { spent: 0, granted: at_once, at_once }
    }

    /// Adds to the budget for `bytes` skipped input bytes.
    #[inline]
    pub(super) fn pay(&mut self, bytes: usize) {
        self.granted =
            (self.granted + bytes as u64 * TRIALS_PER_BYTE).min(self.spent + self.at_once);
    }

    fn left(&self) -> usize {
        (self.granted - self.spent) as usize
    }
}

/// What speaks for packets at some place.
#[derive(Default)]
pub(super) struct Chain {
    pub points: u32,
    first_size: usize,
    first_points: u32,
    /// One of them is encoded, or a sync.
    strong: bool,
    /// The last of them ends where the bytes do.
    pub fills: bool,
    /// What follows them is no packet.
    pub broken: bool,
}

impl Chain {
    fn broken(self) -> Self {
        Self { broken: true, ..self }
    }
}

/// Looks for a place where packets begin.
pub(super) struct Search<'a> {
    decoder: &'a Decoder,
    highest_stream: u16,
    /// Take any stream, though it proves nothing.
    pub any_stream: bool,
    transport: Transport,
    unpacker: &'a mut Unpacker,
    trials: &'a mut Trials,
}

impl<'a> Search<'a> {
    pub(super) fn new(
        decoder: &'a Decoder,
        transport: Transport,
        highest_stream: u16,
        unpacker: &'a mut Unpacker,
        trials: &'a mut Trials,
    ) -> Self {
        Self { decoder, transport, highest_stream, any_stream: false, unpacker, trials }
    }

    /// Whether the budget is used up.
    pub(super) fn is_over(&self) -> bool {
        self.trials.left() < LOOK
    }

    /// The first offset but 0 in `window` from which packets go on; `all` says that the input
    /// ends where the window does.
    pub(super) fn find(&mut self, window: &[u8], all: bool) -> Option<usize> {
        // What looks like a plain packet may be payload that happens to end where a packet does.
        // One that makes no sense is not believed for what comes behind it; for another one there
        // must not be better ones that begin inside.
        let (mut found, mut size, mut first) = self.find_in(window, 1..window.len(), 1, all)?;
        while first < STRONG {
            let inside = found + 1..(found + size).min(window.len());
            let Some(better) = self.find_in(window, inside, first + 1, all) else { break };
            (found, size, first) = better;
        }
        Some(found)
    }

    /// The first offset within `starts` from which packets go on, the first of them with at least
    /// so many points; its size and points.
    fn find_in(
        &mut self,
        window: &[u8],
        mut starts: Range<usize>,
        least: u32,
        all: bool,
    ) -> Option<(usize, usize, u32)> {
        starts.find_map(|start| {
            if self.is_over() {
                return None;
            }
            let chain = self.chain(window.get(start..).unwrap_or_default());
            let convincing = chain.points >= CONVINCING
                || chain.points >= CONVINCING_AT_THE_END && (chain.fills || !all);
            (!chain.broken && convincing && chain.first_points >= least).then_some((
                start,
                chain.first_size,
                chain.first_points,
            ))
        })
    }

    /// Whether packets begin inside the last packet of the input and fill it to its end, or one
    /// does that is convincing alone.
    ///
    /// An input that was simply cut off is more likely, and plain packets alone prove little:
    /// type records are full of small numbers that look like their headers.
    pub(super) fn is_filled(&mut self, last: &[u8]) -> bool {
        (1..last.len()).any(|start| {
            let chain = self.chain(last.get(start..).unwrap_or_default());
            chain.first_points >= CONVINCING || chain.fills && chain.strong && !chain.broken
        })
    }

    /// How well `bytes` look like packets.
    pub(super) fn chain(&mut self, bytes: &[u8]) -> Chain {
        let granted = self.trials.left();
        let Some(mut left) = granted.checked_sub(LOOK) else { return Chain::default().broken() };
        let chain = self.chain_within(bytes, &mut left);
        self.trials.spent += (granted - left) as u64;
        chain
    }

    fn chain_within(&mut self, mut bytes: &[u8], left: &mut usize) -> Chain {
        let mut chain = Chain::default();
        for _ in 0..LONGEST_CHAIN {
            if bytes.is_empty() {
                chain.fills = true;
                break;
            }
            let Some(&start) = bytes.first_chunk() else { break };
            let header = Header::decode(start, self.transport)
                .filter(|header| header.stream == SYNC || header.size > HEADER);
            let Some(header) = header else { return chain.broken() };
            if !self.any_stream && !self.is_expected(header.stream) {
                return chain.broken();
            }
            let Some((packet, rest)) = bytes.split_at_checked(header.size) else { break };
            if !self.unpacker.is_whole(&header, packet, left) {
                return chain.broken();
            }
            let points = match header.coding {
                Coding::Compact => CONVINCING,
                Coding::Plain if header.stream != SYNC => {
                    u32::from(self.makes_sense(header.stream, packet, left))
                }
                _ => STRONG,
            };
            chain.strong |= points >= STRONG;
            if chain.first_size == 0 {
                (chain.first_size, chain.first_points) = (header.size, points);
            }
            chain.points += points;
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

    fn makes_sense(&self, stream: u16, packet: &[u8], left: &mut usize) -> bool {
        let payload = packet.get(HEADER..).unwrap_or_default();
        packet.len() >= SMALL_PLAIN && self.decoder.makes_sense(stream, payload, left)
    }
}
