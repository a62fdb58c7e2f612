//! The merge: one order of the events of all streams.
//!
//! ```text
//! packet -> fast path: events in order ------------------------------------------> visitor
//!        -> ThreadStream: events that wait -> heap by serial of the first event -> visitor
//!                                             ^ next: the expected serial
//! ```
//! An event whose serial is the next one when its packet arrives goes to the visitor directly
//! ([`fast_path`]). Other events wait in their stream ([`ThreadStream`]).
//!
//! Each stream whose first event has a serial is in the heap under that serial. If the lowest
//! serial is the next one, its stream is delivered up to the next gap ([`deliver`]): consecutive
//! serials, and the events without a serial between them, do not touch the heap.
//!
//! A gap is a serial whose event is missing: late or lost. The event is lost if its serial is below
//! the watermark, because no event below the watermark can still arrive ([`gaps`]). Otherwise it
//! may be late, and the merge waits for it.

mod deliver;
mod fast_path;
mod gaps;
mod memory;
mod start;

use super::event::Visitor;
use super::schemas::{Protocol, Types};
use super::serials::{BIAS, Serials};
use super::stream::ThreadStream;
use super::tally::Tally;
use memledger_format::packet::PSEUDO_IMPORTANTS;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A trace of protocols 0 to 4 has no syncs. Its reader makes one after this many bytes of payloads,
/// or after serials have advanced by a quarter of [`Serials::half`]. A gap is given up after two or three
/// syncs. By then each thread has been sent: in one turn, a writer sends at most some MiB.
const ROUND_BYTES: usize = 8 << 20;

/// All streams, and the merge of their events.
pub(super) struct Merge {
    streams: Vec<ThreadStream>,
    /// The index in `streams` plus one, by stream id.
    index_by_id: Vec<u16>,
    /// The key and the index of each stream that waits. An entry is out of date if its key differs
    /// from the stream's `queued`.
    heap: BinaryHeap<Reverse<(u64, usize)>>,
    serials: Serials,
    /// The next serial to deliver; 0 before the first one is known.
    next: u64,
    /// The visitor gets serials minus this.
    bias: u64,
    /// All events with a lower serial have been sent: the serial of the last `Memledger.Settled`.
    watermark: Option<u64>,
    /// The highest serials at the last two syncs.
    at_syncs: [u64; 2],
    data_since_sync: bool,
    /// Bytes of payloads since the last round; only of protocols 0 to 4, whose traces have no syncs.
    round_bytes: usize,
    /// The number of consecutive syncs, up to the last one, at which events waited.
    stalled_syncs: u8,
    /// The number of items in all streams that are marked as misplaced.
    misplaced: usize,
    /// The number of losses that may concern any stream. PERF: each stream compares this number
    /// when it gets its next packet, so that the cost of damage does not depend on the number of
    /// streams.
    losses: u64,
    /// The number of streams that wait for a type record.
    blocked: usize,
    /// An upper bound of the bytes that all streams hold, updated when a stream gets a packet.
    held: usize,
    /// The limit for `held`, in bytes.
    memory_limit: usize,
}

impl Merge {
    pub(super) fn new(serials: Serials) -> Self {
        Self {
            streams: Vec::new(),
            index_by_id: Vec::new(),
            heap: BinaryHeap::new(),
            serials,
            next: 0,
            bias: BIAS,
            watermark: None,
            at_syncs: [0; 2],
            data_since_sync: false,
            round_bytes: 0,
            stalled_syncs: 0,
            misplaced: 0,
            losses: 0,
            blocked: 0,
            held: 0,
            memory_limit: memory::DEFAULT_LIMIT,
        }
    }

    pub(super) fn streams(&self) -> impl Iterator<Item = &ThreadStream> {
        self.streams.iter()
    }

    /// Takes in a packet of a stream, and delivers all events that no longer have to wait.
    pub(super) fn packet(
        &mut self,
        id: u16,
        payload: &[u8],
        protocol: &Protocol,
        types: &mut Types,
        tally: &mut Tally,
        visitor: &mut impl Visitor,
    ) {
        let Some(index) = self.find_or_add(id, protocol) else { return };
        self.data_since_sync = true;
        let Some(stream) = self.streams.get_mut(index) else { return };
        if stream.merging.losses_seen != self.losses {
            stream.merging.losses_seen = self.losses;
            stream.packet_lost();
            self.parse(index, protocol, types, tally, visitor);
        }
        let known = types.len();
        let done = match protocol.has_sizes() {
            true => 0,
            false => self.deliver_directly(index, payload, protocol, types, tally, visitor),
        };
        let Some(stream) = self.streams.get_mut(index) else { return };
        stream.push(payload, done, tally.offset);
        if done < payload.len() {
            self.parse(index, protocol, types, tally, visitor);
        }
        if types.len() != known {
            self.types_added(protocol, types, tally, visitor);
        }
        self.deliver(types, tally, visitor);
        self.settle_to_watermark(types, tally, visitor);
        self.count_memory(index);
        if self.held > self.memory_limit {
            self.limit_memory(types, tally, visitor);
        }
        if protocol.has_sizes() {
            self.round_bytes += payload.len();
            let [_, last] = self.at_syncs;
            let advanced = self.serials.progress(last) >= self.serials.half() / 4;
            if self.round_bytes >= ROUND_BYTES || advanced {
                self.round_bytes = 0;
                self.sync(protocol, types, tally, visitor);
            }
        }
    }

    /// A packet of this stream has ended, and with it its last event (transport 2).
    pub(super) fn packet_ends(&mut self, id: u16, tally: &mut Tally, visitor: &mut impl Visitor) {
        let known = self.index_by_id.get(usize::from(id)).copied().unwrap_or(0);
        let index = usize::from(known).checked_sub(1);
        if let Some(stream) = index.and_then(|index| self.streams.get_mut(index)) {
            stream.end_packet(tally, visitor);
        }
    }

    /// A packet of this stream was lost.
    pub(super) fn packet_lost(
        &mut self,
        id: u16,
        protocol: &Protocol,
        types: &mut Types,
        tally: &mut Tally,
        visitor: &mut impl Visitor,
    ) {
        let known = self.index_by_id.get(usize::from(id)).copied().unwrap_or(0);
        let Some(index) = usize::from(known).checked_sub(1) else { return };
        if let Some(stream) = self.streams.get_mut(index) {
            stream.packet_lost();
            self.parse(index, protocol, types, tally, visitor);
        }
    }

    /// Packets of any stream may be missing here.
    pub(super) fn any_packet_lost(&mut self) {
        self.losses += 1;
    }

    /// Whether this stream has had a packet before.
    pub(super) fn has_stream(&self, id: u16) -> bool {
        self.index_by_id.get(usize::from(id)).is_some_and(|&entry| entry != 0)
    }

    /// New types are known, so streams that wait for one may continue.
    pub(super) fn types_added(
        &mut self,
        protocol: &Protocol,
        types: &mut Types,
        tally: &mut Tally,
        visitor: &mut impl Visitor,
    ) {
        // A stream that continues can declare a type that another one waits for. Each round but the
        // last adds a type.
        loop {
            let known = types.len();
            let count = if self.blocked > 0 { self.streams.len() } else { 0 };
            for index in 0..count {
                if self.streams.get(index).is_some_and(|stream| stream.merging.blocked.is_some()) {
                    self.parse(index, protocol, types, tally, visitor);
                }
            }
            if types.len() == known {
                break;
            }
        }
        self.deliver(types, tally, visitor);
    }

    /// Takes in a sync packet: everything that was sent before it has arrived.
    pub(super) fn sync(
        &mut self,
        protocol: &Protocol,
        types: &mut Types,
        tally: &mut Tally,
        visitor: &mut impl Visitor,
    ) {
        if !std::mem::take(&mut self.data_since_sync) {
            return;
        }
        let count = if self.blocked > 0 { self.streams.len() } else { 0 };
        for index in 0..count {
            self.wait_for_type(index, 1, protocol, types, tally, visitor);
        }
        self.set_first(types, tally, visitor);
        self.deliver(types, tally, visitor);
        let [older, newer] = self.at_syncs;
        self.at_syncs = [newer, self.serials.highest()];
        if self.is_waiting() {
            self.stalled_syncs = self.stalled_syncs.saturating_add(1);
            match self.watermark {
                Some(_) => self.settle_to_watermark(types, tally, visitor),
                None => self.settle_unless_stalled(older, types, tally, visitor),
            }
        } else {
            self.stalled_syncs = 0;
        }
    }

    /// The input has ended: delivers everything.
    pub(super) fn finish(
        &mut self,
        protocol: &Protocol,
        types: &mut Types,
        tally: &mut Tally,
        visitor: &mut impl Visitor,
    ) {
        for index in 0..self.streams.len() {
            self.wait_for_type(index, 0, protocol, types, tally, visitor);
            if let Some(stream) = self.streams.get_mut(index) {
                stream.end(tally, visitor);
                self.advance(index, types, tally, visitor);
            }
        }
        self.set_first(types, tally, visitor);
        self.deliver_below(u64::MAX, types, tally, visitor);
        if let Some(watermark) = self.watermark.filter(|&watermark| self.next < watermark)
            && self.next != 0
        {
            self.hole(watermark, tally, visitor);
        }
    }

    /// Skips packets with events of unknown types once their stream has waited for `syncs` syncs.
    fn wait_for_type(
        &mut self,
        index: usize,
        syncs: u8,
        protocol: &Protocol,
        types: &mut Types,
        tally: &mut Tally,
        visitor: &mut impl Visitor,
    ) {
        while let Some(stream) = self.streams.get_mut(index)
            && stream.merging.blocked.is_some()
        {
            // NOTE: in each cycle the writer sends types, then the bytes of threads, then a sync.
            // If a thread writes the first event of a type between the first two, the event is sent
            // in this cycle and its type in the next one, after the sync.
            if stream.merging.blocked_syncs < syncs {
                stream.merging.blocked_syncs += 1;
                return;
            }
            stream.skip_unknown(tally, visitor);
            self.blocked -= 1;
            self.parse(index, protocol, types, tally, visitor);
            if let Some(stream) = self.streams.get_mut(index) {
                stream.merging.blocked_syncs = syncs;
            }
        }
        if let Some(stream) = self.streams.get_mut(index) {
            stream.merging.blocked_syncs = 0;
        }
    }

    /// The index of the stream with this id; adds the stream if it is new.
    fn find_or_add(&mut self, id: u16, protocol: &Protocol) -> Option<usize> {
        let slot = usize::from(id);
        if self.index_by_id.len() <= slot {
            self.index_by_id.resize(slot + 1, 0);
        }
        let entry = self.index_by_id.get_mut(slot)?;
        if *entry == 0 {
            self.streams.push(ThreadStream::new(
                id,
                id == PSEUDO_IMPORTANTS && !protocol.has_sizes(),
                self.losses,
            ));
            *entry = u16::try_from(self.streams.len()).ok()?;
        }
        usize::from(*entry).checked_sub(1)
    }

    fn parse(
        &mut self,
        index: usize,
        protocol: &Protocol,
        types: &mut Types,
        tally: &mut Tally,
        visitor: &mut impl Visitor,
    ) {
        let floor = if self.next == 0 { self.top().map_or(0, |(key, _)| key) } else { self.next };
        self.serials.set_floor(floor);
        if let Some(stream) = self.streams.get_mut(index) {
            self.blocked -= usize::from(stream.merging.blocked.is_some());
            self.misplaced += stream.parse(protocol, types, &mut self.serials, tally, visitor);
            self.blocked += usize::from(stream.merging.blocked.is_some());
            self.advance(index, types, tally, visitor);
        }
    }
}
