//! Resynchronisation: finds the next packet after damage.
//!
//! ```text
//! damage | ? ? ? ? | packet | packet | packet      each position is tried in turn
//!                  ^ the first position whose chain of packets has enough points
//! ```
//! Few bits of a header identify it as one. So a position is accepted only if a chain of packets
//! begins there: each packet begins where the one before ends, and the stream ids are plausible,
//! the LZ4 blocks decode, and the checksums are right.

pub(super) mod payload;

use super::decoder::Decoder;
use memledger_format::handshake::Transport;
use memledger_format::packet::{Coding, HEADER, Header, LAST_THREAD};
use memledger_format::unpack::Unpacker;
use std::ops::Range;

/// The points of an encoded packet that decodes, and of a sync packet. A plain packet whose payload
/// makes sense has one point.
const STRONG_POINTS: u32 = 3;
/// The points that a chain needs. A single compact packet has as many, because its checksum is
/// right by chance only once in 4 billion cases.
const MIN_POINTS: u32 = 8;
/// A plain packet below this size in bytes has no points, because the small numbers of a type
/// record can look like one.
const MIN_PLAIN_BYTES: usize = 32;
/// The points that a chain needs if it ends at the end of the input, or of the window.
pub(super) const MIN_POINTS_AT_END: u32 = 3;
/// The maximum number of packets of a chain.
const MAX_CHAIN_PACKETS: usize = 32;
/// Writers count stream ids up by one. An id this far above the highest one is not plausible.
const NEW_STREAMS: u16 = 64;
/// The number of bytes that are skipped unread when the budget is used up.
pub(super) const SKIPPED_UNREAD: usize = 64 << 10;

/// The budget of a reader for resynchronisation, in bytes that are decoded on trial: an initial
/// amount, and more for each byte of input. It bounds the time for any input.
const BUDGET: u64 = 64 << 20;
const BUDGET_PER_BYTE: u64 = 64;
/// The minimum cost of a position, in bytes.
const MIN_COST: usize = 4;

/// The budget of a reader: the bytes that were spent so far, and the bytes that were granted.
pub(super) struct ResyncBudget {
    pub spent: u64,
    granted: u64,
    /// The initial budget, which is also the maximum of granted bytes minus spent bytes.
    initial: u64,
}

impl Default for ResyncBudget {
    fn default() -> Self {
        Self::new(BUDGET)
    }
}

impl ResyncBudget {
    pub(super) fn new(initial: u64) -> Self {
        Self { spent: 0, granted: initial, initial }
    }

    /// Adds to the budget for `bytes` skipped input bytes.
    #[inline]
    pub(super) fn grow(&mut self, bytes: usize) {
        self.granted =
            (self.granted + bytes as u64 * BUDGET_PER_BYTE).min(self.spent + self.initial);
    }

    fn left(&self) -> usize {
        (self.granted - self.spent) as usize
    }
}

/// The evidence that packets begin at a position.
#[derive(Default)]
pub(super) struct PacketChain {
    pub points: u32,
    first_size: usize,
    first_points: u32,
    /// Whether one of the packets is encoded, or a sync packet.
    strong: bool,
    /// Whether the last packet ends where the bytes end.
    pub fills: bool,
    /// Whether something other than a packet follows.
    pub broken: bool,
}

impl PacketChain {
    fn broken(self) -> Self {
        Self { broken: true, ..self }
    }
}

/// Searches for the next packet.
pub(super) struct Resync<'a> {
    decoder: &'a Decoder,
    highest_stream: u16,
    /// Accepts any stream id.
    pub any_stream: bool,
    transport: Transport,
    unpacker: &'a mut Unpacker,
    budget: &'a mut ResyncBudget,
}

impl<'a> Resync<'a> {
    pub(super) fn new(
        decoder: &'a Decoder,
        transport: Transport,
        highest_stream: u16,
        unpacker: &'a mut Unpacker,
        budget: &'a mut ResyncBudget,
    ) -> Self {
        Self { decoder, transport, highest_stream, any_stream: false, unpacker, budget }
    }

    /// Whether the budget is used up.
    pub(super) fn is_over(&self) -> bool {
        self.budget.left() < MIN_COST
    }

    /// The first offset above 0 in `window` at which a chain of packets begins. `all` means that
    /// the input ends where the window does.
    pub(super) fn find(&mut self, window: &[u8], all: bool) -> Option<usize> {
        // Bytes of a payload can look like a plain packet that ends, by chance, where a real packet
        // ends. So a plain packet has no points if its payload makes no sense, and it is not
        // accepted if a packet with more points begins inside it.
        let (mut found, mut size, mut first) = self.find_in(window, 1..window.len(), 1, all)?;
        while first < STRONG_POINTS {
            let inside = found + 1..(found + size).min(window.len());
            let Some(better) = self.find_in(window, inside, first + 1, all) else { break };
            (found, size, first) = better;
        }
        Some(found)
    }

    /// The first offset in `starts` at which a chain begins whose first packet has at least `least`
    /// points; and the size and the points of that packet.
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
            let convincing = chain.points >= MIN_POINTS
                || chain.points >= MIN_POINTS_AT_END && (chain.fills || !all);
            (!chain.broken && convincing && chain.first_points >= least).then_some((
                start,
                chain.first_size,
                chain.first_points,
            ))
        })
    }

    /// Whether packets begin inside the last packet of the input: either packets that end where the
    /// input ends, or one that has enough points alone.
    ///
    /// The condition is strict, because it is more likely that the input was cut off. Plain packets
    /// alone prove little, because type records are full of small numbers that look like headers of
    /// plain packets.
    pub(super) fn is_filled(&mut self, last: &[u8]) -> bool {
        (1..last.len()).any(|start| {
            let chain = self.chain(last.get(start..).unwrap_or_default());
            chain.first_points >= MIN_POINTS || chain.fills && chain.strong && !chain.broken
        })
    }

    /// The chain of packets that `bytes` begin with.
    pub(super) fn chain(&mut self, bytes: &[u8]) -> PacketChain {
        let granted = self.budget.left();
        let Some(mut left) = granted.checked_sub(MIN_COST) else {
            return PacketChain::default().broken();
        };
        let chain = self.chain_within(bytes, &mut left);
        self.budget.spent += (granted - left) as u64;
        chain
    }

    fn chain_within(&mut self, mut bytes: &[u8], left: &mut usize) -> PacketChain {
        let mut chain = PacketChain::default();
        for _ in 0..MAX_CHAIN_PACKETS {
            if bytes.is_empty() {
                chain.fills = true;
                break;
            }
            let Some(&start) = bytes.first_chunk() else { break };
            let header = Header::decode(start, self.transport)
                .filter(|header| header.is_sync(self.transport) || header.size > HEADER);
            let Some(header) = header else { return chain.broken() };
            if !self.any_stream && !self.is_expected(header.stream) {
                return chain.broken();
            }
            let Some((packet, rest)) = bytes.split_at_checked(header.size) else { break };
            if !self.unpacker.is_whole(&header, packet, left) {
                return chain.broken();
            }
            let points = match header.coding {
                Coding::Compact => MIN_POINTS,
                Coding::Plain if !header.is_sync(self.transport) => {
                    u32::from(self.is_plausible(header.stream, packet, left))
                }
                _ => STRONG_POINTS,
            };
            chain.strong |= points >= STRONG_POINTS;
            if chain.first_size == 0 {
                (chain.first_size, chain.first_points) = (header.size, points);
            }
            chain.points += points;
            bytes = rest;
            if chain.points >= MIN_POINTS {
                break;
            }
        }
        chain
    }

    fn is_expected(&self, stream: u16) -> bool {
        let special = stream > LAST_THREAD && self.transport != Transport::Thread;
        special || stream <= self.highest_stream.saturating_add(NEW_STREAMS)
    }

    fn is_plausible(&self, stream: u16, packet: &[u8], left: &mut usize) -> bool {
        let payload = packet.get(HEADER..).unwrap_or_default();
        packet.len() >= MIN_PLAIN_BYTES && self.decoder.is_plausible(stream, payload, left)
    }
}
