//! How a late stream begins: with an initial snapshot of the live set.
//!
//! To any reader of Unreal's memory events these blocks are allocations like all others, on a
//! stream of their own, with the serials just below the first of the stream's other events:
//!
//! ```text
//! serial   first ...                                    join point ...
//!          marker  block block  marker  block ...  marker │ everything that happens from then on
//!          └── in the order in which they were allocated ─┘
//! ```
//! There are always enough serials: each live block, each half of a reallocation, each renaming and
//! each marker of the snapshot represents an event of the recording, which had a serial. Blocks
//! have the times of the recording's markers, and between two of those the recording has had at
//! least as many events as the snapshot.
//!
//! In each packet a header with their thread and the context in which they were allocated precedes
//! the blocks. It is repeated when either changes. If a block was renamed and its new context has
//! no id in the stream, the snapshot also renames it.

use crate::alloc::append::{append_alloc, append_mapping, append_realloc_free, append_update};
use crate::alloc::events::MAPPED;
use crate::alloc::events::RUST;
use crate::error::Error;
use crate::platform::clock;
use crate::scopes::events::MEMORY_SCOPE;
use crate::trace::sink::Sink;
use crate::trace::worker::{
    BLOCKS, CONTROL, JoinPoint, marker_times, own_system_id, preamble, settled_below,
};
use memledger_format::initial_live_set::{InitialBlock, InitialLiveSet};
use memledger_format::layout::{ENTER_SCOPE, LEAVE_SCOPE};
use memledger_format::packet::IMPORTANTS;
use memledger_format::schema::mapping;
use memledger_format::stream_events;
use std::collections::HashMap;

/// A packet is sent after the block with which it reaches this many bytes.
const PACKET: usize = 32 << 10;
/// Packets between two syncs, at which the reader can pass on the events it has.
const SYNC_EVERY: usize = 64;

/// Sends the preamble of a late stream and the snapshot of the live set to `sink`. Without
/// `live_set` the live set is unknown, and the preamble says so.
pub(crate) fn begin(
    live_set: Option<InitialLiveSet>,
    point: JoinPoint,
    sink: &mut dyn Sink,
) -> Result<(), Error> {
    let whole = live_set.is_some() && point.from_process_start;
    // A snapshot without blocks still has markers, from the start of the clock up to the join
    // point.
    let snapshot = LiveSetSnapshot::new(live_set.unwrap_or_default(), &point);
    let first = point.serial.saturating_sub(snapshot.serials);
    let mut importants = preamble(first, whole);
    let (stream, hint) = (u32::from(BLOCKS).into(), u64::from(BLOCKS).into());
    let system_id = own_system_id(BLOCKS).into();
    stream_events::THREAD_INFO
        .append(&[stream, system_id, hint, "memledger live blocks".into()], &mut importants);
    sink.packet(IMPORTANTS, &importants);
    sink.packet(CONTROL, &settled_below(first));
    // Unreal's readers rely on serials only after a group of three syncs.
    for _ in 0..3 {
        sink.sync()?;
    }
    let mut result = Ok(());
    for definitions in point.definitions {
        let mut sent = 0_usize;
        definitions(&mut |stream, packet| {
            sink.packet(stream, packet);
            sent += 1;
            if sent.is_multiple_of(SYNC_EVERY) && result.is_ok() {
                result = sink.sync();
            }
        });
    }
    result?;
    point.streams.iter().for_each(|(stream, start)| sink.packet(*stream, start));
    snapshot.send(first, sink)?;
    sink.packet(CONTROL, &settled_below(point.serial));
    sink.sync()
}

/// The snapshot of the live set, in the order in which it is sent.
struct LiveSetSnapshot {
    live_set: InitialLiveSet,
    start: u64,
    marked_at: u64,
    /// How many serials it takes.
    serials: u64,
}

impl LiveSetSnapshot {
    fn new(mut live_set: InitialLiveSet, point: &JoinPoint) -> Self {
        // NOTE: the old block of a reallocation under way no longer exists, and another block may
        // have its address by now. The snapshot sends the old block with an address that no
        // allocator returns, and frees it at the end.
        let being_reallocated = live_set.being_reallocated.iter_mut().zip(1_u64..);
        live_set.blocks.extend(being_reallocated.map(|((_, block), number)| {
            block.address = number << 3;
            *block
        }));
        live_set
            .blocks
            .sort_unstable_by_key(|block| (block.allocated_at, block.owner, block.address));
        let mut snapshot =
            Self { live_set, start: point.start, marked_at: point.marked_at, serials: 0 };
        let mut markers = 0;
        let mut clock = MarkerClock::new(&snapshot);
        for block in &snapshot.live_set.blocks {
            clock.advance_to(snapshot.time_of(block), |_| markers += 1);
        }
        clock.advance_to(snapshot.marked_at, |_| markers += 1);
        let InitialLiveSet { blocks, being_reallocated, reserved, owners, .. } = &snapshot.live_set;
        let is_renamed = |block: &&InitialBlock| {
            owners.get(block.owner as usize).is_some_and(|owner| owner.renamed.is_some())
        };
        let renamed = blocks.iter().filter(is_renamed).count();
        let others = renamed + being_reallocated.len() + reserved.len();
        snapshot.serials = markers + (blocks.len() + others) as u64;
        snapshot
    }

    /// When a block was allocated, in cycles.
    fn time_of(&self, block: &InitialBlock) -> u64 {
        const { assert!(clock::FREQUENCY == 1_000_000_000, "a cycle is a nanosecond") };
        self.start.saturating_add(block.allocated_at).min(self.marked_at)
    }

    fn send(mut self, first: u64, sink: &mut dyn Sink) -> Result<(), Error> {
        let mut out =
            PacketBuilder { sink, packet: Vec::new(), owner: None, sent: 0, result: Ok(()) };
        let mut heads = HashMap::new();
        let mut serial = first;
        let mut clock = MarkerClock::new(&self);
        for block in &self.live_set.blocks {
            clock.advance_to(self.time_of(block), |cycle| out.marker(&mut serial, cycle));
            let head =
                heads.entry(block.owner).or_insert_with(|| OwnerHeader::new(&self.live_set, block));
            out.block(&mut serial, block, head);
        }
        clock.advance_to(self.marked_at, |cycle| out.marker(&mut serial, cycle));
        out.close();
        for &(address, size) in &self.live_set.reserved {
            append_mapping(serial, address, 0, size, MAPPED, mapping::RESERVED, &mut out.packet);
            serial += 1;
        }
        out.flush();
        for (stream, block) in std::mem::take(&mut self.live_set.being_reallocated) {
            let mut event = Vec::new();
            let owner = self.live_set.owners.get(block.owner as usize);
            let heap = owner.map_or(RUST, |owner| owner.heap);
            append_realloc_free(serial, block.address, heap, &mut event);
            out.sink.packet(stream, &event);
            serial += 1;
        }
        let mut end = Vec::new();
        let blocks = self.live_set.blocks.len() as u64;
        stream_events::LIVE_SET_END.append(&[blocks.into(), self.live_set.missed.into()], &mut end);
        out.sink.packet(BLOCKS, &end);
        out.result
    }
}

/// The clock of the snapshot: advancing it to a later time takes markers.
struct MarkerClock {
    now: u64,
}

impl MarkerClock {
    fn new(snapshot: &LiveSetSnapshot) -> Self {
        Self { now: snapshot.start }
    }

    fn advance_to(&mut self, time: u64, marker: impl FnMut(u64)) {
        if self.now < time {
            marker_times(self.now, time).for_each(marker);
            self.now = time;
        }
    }
}

/// What precedes the blocks of one owner: its thread and its context.
struct OwnerHeader {
    bytes: Vec<u8>,
    opens_scope: bool,
    /// The call stack of its blocks, 0 if they have none.
    callstack: u32,
    /// The root heap of its blocks.
    heap: u8,
    /// If its blocks were renamed: the bytes that open the context they were renamed to.
    renamed: Option<Vec<u8>>,
}

impl OwnerHeader {
    fn new(live_set: &InitialLiveSet, block: &InitialBlock) -> Self {
        let mut bytes = Vec::new();
        let owner = live_set.owners.get(block.owner as usize);
        if let Some(thread) = owner.and_then(|owner| live_set.threads.get(owner.thread as usize)) {
            let system_id = thread.system_id.into();
            stream_events::THREAD_START
                .append(&[thread.id.into(), system_id, (&*thread.name).into()], &mut bytes);
        }
        let enter = |tag: Option<i32>, bytes: &mut Vec<u8>| {
            if let Some(tag) = tag {
                bytes.push(ENTER_SCOPE);
                MEMORY_SCOPE.append(&[(tag as u32).into()], bytes);
            }
        };
        let tag = owner.and_then(|owner| owner.tag);
        enter(tag, &mut bytes);
        let renamed = owner.and_then(|owner| owner.renamed).map(|tag| {
            let mut bytes = Vec::new();
            enter(tag, &mut bytes);
            bytes
        });
        let callstack = owner.map_or(0, |owner| owner.callstack);
        let heap = owner.map_or(RUST, |owner| owner.heap);
        Self { bytes, opens_scope: tag.is_some(), callstack, heap, renamed }
    }
}

/// Builds the packets of blocks and sends them.
struct PacketBuilder<'a> {
    sink: &'a mut dyn Sink,
    packet: Vec<u8>,
    /// The owner of the blocks at the end of the packet, and whether its header has opened a scope.
    owner: Option<(u32, bool)>,
    sent: usize,
    result: Result<(), Error>,
}

impl PacketBuilder<'_> {
    fn block(&mut self, serial: &mut u64, block: &InitialBlock, head: &OwnerHeader) {
        if self.owner.is_none_or(|(owner, _)| owner != block.owner) {
            self.close();
            self.packet.extend_from_slice(&head.bytes);
            self.owner = Some((block.owner, head.opens_scope));
        }
        let (size, packet) = (block.size, &mut self.packet);
        append_alloc(*serial, block.address, head.callstack, size, head.heap, packet);
        *serial += 1;
        if let Some(enter) = &head.renamed {
            self.close();
            self.packet.extend_from_slice(enter);
            append_update(*serial, block.address, &mut self.packet);
            *serial += 1;
            if !enter.is_empty() {
                self.packet.push(LEAVE_SCOPE);
            }
        }
        if self.packet.len() >= PACKET {
            self.flush();
        }
    }

    fn marker(&mut self, serial: &mut u64, cycle: u64) {
        // Markers are on the stream of the blocks, so that no reader has to merge two streams.
        self.packet.extend_from_slice(&stream_events::marker(*serial, cycle));
        *serial += 1;
    }

    fn close(&mut self) {
        if let Some((_, true)) = self.owner.take() {
            self.packet.push(LEAVE_SCOPE);
        }
    }

    fn flush(&mut self) {
        self.close();
        if !self.packet.is_empty() && self.result.is_ok() {
            self.sink.packet(BLOCKS, &self.packet);
            self.sent += 1;
            if self.sent.is_multiple_of(SYNC_EVERY) {
                self.result = self.sink.sync();
            }
        }
        self.packet.clear();
    }
}

#[cfg(test)]
mod tests;
