//! The one order of all threads' events.
//!
//! An event whose turn it is when its packet comes goes straight to the visitor (`order/direct.rs`).
//! The others wait in their thread ([`Thread`]).
//!
//! Each thread that has a synchronised event at its front waits in a heap under that event's
//! serial. While the lowest is the next expected one, its thread is delivered as far as it goes:
//! consecutive serials and everything without a serial between them never touch the heap.
//!
//! A gap means that an event is late or lost. It is lost when its serial lies below a bound
//! under which nothing more can come: what `Memledger.Settled` says, or, in a stream without
//! that event, the highest serial that was there two syncs ago. Late events wait for that bound.

mod direct;

use super::event::{Event, Hole, Visitor};
use super::schemas::{Protocol, Role, Types};
use super::serials::{BIAS, Serials};
use super::tally::Tally;
use super::thread::{DROPPED, ENTERS, HAS_PIECES, LEAVES, MISPLACED, OPEN, STAMPS, SYNCED, Thread};
use crate::trace::format::packet::PSEUDO_IMPORTANTS;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Syncs for which a gap is left open while a thread has something whose end is missing.
const PATIENCE: u8 = 8;
/// A first serial above this is not believed.
const HIGHEST_FIRST: u64 = 1 << 56;
/// The default limit for the memory of waiting events, in bytes.
const MOST_HELD: usize = 256 << 20;

/// All threads, and the merge of their events.
pub(super) struct Order {
    threads: Vec<Thread>,
    /// Index in `threads` plus one, by stream id.
    by_stream: Vec<u16>,
    /// Key and index of each thread that waits. An entry whose key is not the thread's `queued`
    /// is out of date.
    heap: BinaryHeap<Reverse<(u64, usize)>>,
    serials: Serials,
    /// The next serial expected; 0 while it is not known where the order begins.
    next: u64,
    /// What is subtracted from serials on their way out.
    bias: u64,
    /// Everything below has been sent, by `Memledger.Settled`.
    settled: Option<u64>,
    /// The highest serials at the last two syncs.
    at_syncs: [u64; 2],
    data_since_sync: bool,
    patience: u8,
    /// Items of all threads that are marked as misplaced.
    misplaced: usize,
    /// How often packets of all threads may have been lost at once. PERF: a thread looks at it
    /// when it has its next packet, so that damage costs the same with many threads.
    losses: u64,
    /// Threads that wait for a type record.
    blocked: usize,
    /// An upper bound of the bytes that all threads hold: updated when a thread gets a packet.
    held: usize,
    /// The limit for `held`, in bytes.
    most_held: usize,
}

impl Order {
    pub(super) fn new() -> Self {
        Self {
            threads: Vec::new(),
            by_stream: Vec::new(),
            heap: BinaryHeap::new(),
            serials: Serials::default(),
            next: 0,
            bias: BIAS,
            settled: None,
            at_syncs: [0; 2],
            data_since_sync: false,
            patience: 0,
            misplaced: 0,
            losses: 0,
            blocked: 0,
            held: 0,
            most_held: MOST_HELD,
        }
    }

    pub(super) fn threads(&self) -> impl Iterator<Item = &Thread> {
        self.threads.iter()
    }

    /// The stream says which serial it begins with. A writer that does will also say how far
    /// everything is sent.
    pub(super) fn first_serial(&mut self, serial: u64) {
        if !self.serials.seen() && self.next == 0 && serial <= HIGHEST_FIRST {
            self.next = serial + BIAS;
            self.settled = Some(self.next);
            self.serials.seed(self.next);
        }
    }

    /// Takes in a packet of a thread and delivers what has become deliverable.
    pub(super) fn packet(
        &mut self,
        stream: u16,
        payload: &[u8],
        protocol: &Protocol,
        types: &Types,
        tally: &mut Tally,
        visitor: &mut impl Visitor,
    ) {
        let Some(index) = self.thread(stream) else { return };
        self.data_since_sync = true;
        let Some(thread) = self.threads.get_mut(index) else { return };
        if thread.losses != self.losses {
            thread.losses = self.losses;
            thread.packet_lost();
            self.parse(index, protocol, types, tally, visitor);
        }
        let done = self.pass_on(index, payload, protocol, types, tally, visitor);
        let Some(thread) = self.threads.get_mut(index) else { return };
        thread.push(payload, done, tally.offset);
        if done < payload.len() {
            self.parse(index, protocol, types, tally, visitor);
        }
        self.deliver(types, tally, visitor);
        self.settle_explicitly(types, tally, visitor);
        self.count(index);
        if self.held > self.most_held {
            self.limit_memory(types, tally, visitor);
        }
    }

    /// Sets the limit for the memory of waiting events, in bytes.
    pub(super) fn set_most_held(&mut self, bytes: usize) {
        self.most_held = bytes;
    }

    /// Recounts the bytes that a thread holds.
    fn count(&mut self, index: usize) {
        if let Some(thread) = self.threads.get_mut(index) {
            let held = thread.held();
            self.held = self.held.saturating_sub(thread.counted).saturating_add(held);
            thread.counted = held;
        }
    }

    /// Releases the unused buffer capacity of all threads.
    fn shrink(&mut self) {
        for index in 0..self.threads.len() {
            if let Some(thread) = self.threads.get_mut(index) {
                thread.shrink();
            }
            self.count(index);
        }
        self.heap.shrink_to_fit();
    }

    /// Stops waiting for missing events if the waiting ones take too much memory.
    ///
    /// PERF: at least half of the limit is free afterwards, so the work is in proportion to the
    /// input since the last call.
    #[cold]
    fn limit_memory(&mut self, types: &Types, tally: &mut Tally, visitor: &mut impl Visitor) {
        self.shrink();
        if self.held <= self.most_held / 2 {
            return;
        }
        let what = format!(
            "events that wait for others take {} MiB, and a reader of this trace may keep {} MiB: \
             what they wait for is given up",
            self.held >> 20,
            self.most_held >> 20
        );
        tally.damage(visitor, tally.offset, 0, what);
        self.start();
        self.settle(u64::MAX, types, tally, visitor);
        self.shrink();
        if self.held <= self.most_held / 2 {
            return;
        }
        // The remaining events lack their end, or their type.
        for index in 0..self.threads.len() {
            let Some(thread) = self.threads.get_mut(index) else { return };
            self.blocked -= usize::from(thread.blocked.is_some());
            thread.end(tally, visitor);
            self.lead(index, types, tally, visitor);
        }
        self.start();
        self.settle(u64::MAX, types, tally, visitor);
        self.shrink();
    }

    /// A packet of this thread was lost.
    pub(super) fn packet_lost(
        &mut self,
        stream: u16,
        protocol: &Protocol,
        types: &Types,
        tally: &mut Tally,
        visitor: &mut impl Visitor,
    ) {
        let known = self.by_stream.get(usize::from(stream)).copied().unwrap_or(0);
        let Some(index) = usize::from(known).checked_sub(1) else { return };
        if let Some(thread) = self.threads.get_mut(index) {
            thread.packet_lost();
            self.parse(index, protocol, types, tally, visitor);
        }
    }

    /// Packets of any thread may be missing here.
    pub(super) fn anything_lost(&mut self) {
        self.losses += 1;
    }

    /// Whether this stream has had a packet before.
    pub(super) fn has_thread(&self, stream: u16) -> bool {
        self.by_stream.get(usize::from(stream)).is_some_and(|&entry| entry != 0)
    }

    /// New types are known: threads that waited for one go on.
    pub(super) fn types_added(
        &mut self,
        protocol: &Protocol,
        types: &Types,
        tally: &mut Tally,
        visitor: &mut impl Visitor,
    ) {
        let count = if self.blocked > 0 { self.threads.len() } else { 0 };
        for index in 0..count {
            if self.threads.get(index).is_some_and(|thread| thread.blocked.is_some()) {
                self.parse(index, protocol, types, tally, visitor);
            }
        }
        self.deliver(types, tally, visitor);
    }

    /// Everything that was sent before this moment has arrived.
    pub(super) fn sync(
        &mut self,
        protocol: &Protocol,
        types: &Types,
        tally: &mut Tally,
        visitor: &mut impl Visitor,
    ) {
        if !std::mem::take(&mut self.data_since_sync) {
            return;
        }
        let count = if self.blocked > 0 { self.threads.len() } else { 0 };
        for index in 0..count {
            self.wait_for_type(index, 1, protocol, types, tally, visitor);
        }
        self.start();
        self.deliver(types, tally, visitor);
        let [older, newer] = self.at_syncs;
        self.at_syncs = [newer, self.serials.highest()];
        if self.is_waiting() {
            self.patience = self.patience.saturating_add(1);
            match self.settled {
                Some(_) => self.settle_explicitly(types, tally, visitor),
                None => self.settle_patiently(older, types, tally, visitor),
            }
        } else {
            self.patience = 0;
        }
    }

    /// Nothing more will come: everything is delivered.
    pub(super) fn finish(
        &mut self,
        protocol: &Protocol,
        types: &Types,
        tally: &mut Tally,
        visitor: &mut impl Visitor,
    ) {
        for index in 0..self.threads.len() {
            self.wait_for_type(index, 0, protocol, types, tally, visitor);
            if let Some(thread) = self.threads.get_mut(index) {
                thread.end(tally, visitor);
                self.lead(index, types, tally, visitor);
            }
        }
        self.start();
        self.settle(u64::MAX, types, tally, visitor);
        if let Some(settled) = self.settled.filter(|&settled| self.next < settled)
            && self.next != 0
        {
            self.hole(settled, tally, visitor);
        }
    }

    /// Skips packets with unknown types if their thread has waited for `syncs` syncs.
    fn wait_for_type(
        &mut self,
        index: usize,
        syncs: u8,
        protocol: &Protocol,
        types: &Types,
        tally: &mut Tally,
        visitor: &mut impl Visitor,
    ) {
        while let Some(thread) = self.threads.get_mut(index)
            && thread.blocked.is_some()
        {
            // NOTE: a type may be used first between the moment types are sent and the moment
            // its thread's bytes are: then it is announced only after the next sync.
            if thread.blocked_syncs < syncs {
                thread.blocked_syncs += 1;
                return;
            }
            thread.skip_unknown(tally, visitor);
            self.blocked -= 1;
            self.parse(index, protocol, types, tally, visitor);
            if let Some(thread) = self.threads.get_mut(index) {
                thread.blocked_syncs = syncs;
            }
        }
        if let Some(thread) = self.threads.get_mut(index) {
            thread.blocked_syncs = 0;
        }
    }

    /// The index of the thread of this stream, which is created if it is new.
    fn thread(&mut self, stream: u16) -> Option<usize> {
        let slot = usize::from(stream);
        if self.by_stream.len() <= slot {
            self.by_stream.resize(slot + 1, 0);
        }
        let entry = self.by_stream.get_mut(slot)?;
        if *entry == 0 {
            self.threads.push(Thread::new(stream, stream == PSEUDO_IMPORTANTS, self.losses));
            *entry = u16::try_from(self.threads.len()).ok()?;
        }
        usize::from(*entry).checked_sub(1)
    }

    fn parse(
        &mut self,
        index: usize,
        protocol: &Protocol,
        types: &Types,
        tally: &mut Tally,
        visitor: &mut impl Visitor,
    ) {
        let floor = if self.next == 0 { self.top().map_or(0, |(key, _)| key) } else { self.next };
        self.serials.set_floor(floor);
        if let Some(thread) = self.threads.get_mut(index) {
            self.blocked -= usize::from(thread.blocked.is_some());
            self.misplaced += thread.parse(protocol, types, &mut self.serials, tally, visitor);
            self.blocked += usize::from(thread.blocked.is_some());
            self.lead(index, types, tally, visitor);
        }
    }

    /// Delivers what stands at a thread's front and waits for nothing; queues what is behind it.
    fn lead(&mut self, index: usize, types: &Types, tally: &mut Tally, visitor: &mut impl Visitor) {
        self.run(index, types, tally, visitor);
        let Some(thread) = self.threads.get_mut(index) else { return };
        let key = key(thread);
        if key != thread.queued {
            thread.queued = key;
            if let Some(key) = key {
                self.heap.push(Reverse((key, index)));
            }
        }
    }

    /// Sets where the order begins: with the lowest serial that is there.
    fn start(&mut self) {
        if self.next == 0
            && let Some((first, _)) = self.top()
        {
            self.next = first;
            // Serials from before the first one seen exist only if there was a wrap between.
            self.bias = if first < BIAS { 0 } else { BIAS };
        }
    }

    /// The lowest serial that waits, and its thread.
    fn top(&mut self) -> Option<(u64, usize)> {
        while let Some(&Reverse((key, index))) = self.heap.peek() {
            if self.threads.get(index).is_some_and(|thread| thread.queued == Some(key)) {
                return Some((key, index));
            }
            self.heap.pop();
        }
        None
    }

    fn is_waiting(&mut self) -> bool {
        self.top().is_some()
    }

    /// Delivers everything up to the next gap.
    fn deliver(&mut self, types: &Types, tally: &mut Tally, visitor: &mut impl Visitor) {
        while let Some((key, index)) = self.top()
            && key <= self.next
        {
            self.run(index, types, tally, visitor);
            let Some(thread) = self.threads.get_mut(index) else { return };
            thread.queued = self::key(thread);
            // PERF: one sift instead of a pop and a push.
            match (thread.queued, self.heap.peek_mut()) {
                (Some(key), Some(mut top)) => *top = Reverse((key, index)),
                (None, Some(top)) => drop(std::collections::binary_heap::PeekMut::pop(top)),
                (_, None) => {}
            }
        }
    }

    /// Declares gaps below the bound that the stream itself states.
    fn settle_explicitly(&mut self, types: &Types, tally: &mut Tally, visitor: &mut impl Visitor) {
        if let Some(settled) = self.settled {
            self.settle_patiently(settled, types, tally, visitor);
        }
    }

    fn settle_patiently(
        &mut self,
        bound: u64,
        types: &Types,
        tally: &mut Tally,
        visitor: &mut impl Visitor,
    ) {
        if self.next == 0 || self.next >= bound || self.top().is_none() {
            return;
        }
        // What is missing may be hidden behind an event that has only partly arrived.
        if self.patience < PATIENCE && self.threads.iter().any(Thread::is_stalled) {
            return;
        }
        self.settle(bound, types, tally, visitor);
    }

    /// Delivers what lies below `bound`, and what follows it without a gap.
    fn settle(&mut self, bound: u64, types: &Types, tally: &mut Tally, visitor: &mut impl Visitor) {
        loop {
            self.deliver(types, tally, visitor);
            let Some((top, _)) = self.top() else { return };
            if self.next == 0 || self.next >= bound {
                return;
            }
            if !self.fill_gap() {
                self.hole(top.min(bound), tally, visitor);
            }
        }
    }

    /// Puts an event whose serial is known to be wrong in the place of the missing one.
    fn fill_gap(&mut self) -> bool {
        if self.misplaced == 0 {
            return false;
        }
        for (index, thread) in self.threads.iter_mut().enumerate() {
            let next = self.next;
            if let Some(item) = thread.front_mut().filter(|item| item.flags & MISPLACED != 0) {
                item.flags &= !MISPLACED;
                item.serial = next;
                self.misplaced -= 1;
                if item.flags & OPEN == 0 {
                    thread.queued = Some(next);
                    self.heap.push(Reverse((next, index)));
                    return true;
                }
            }
        }
        false
    }

    /// Reports that everything up to `end` is missing, and goes on from there.
    fn hole(&mut self, end: u64, tally: &mut Tally, visitor: &mut impl Visitor) {
        // NOTE: if serials were unwrapped uncertainly, the number between them is unknown, too.
        let count = if self.serials.is_unsure() { 0 } else { end - self.next };
        tally.holes += 1;
        tally.missing_unknown |= count == 0;
        tally.missing = tally.missing.saturating_add(count);
        visitor.hole(Hole { first: self.next.saturating_sub(self.bias), count });
        self.next = end;
    }

    /// Delivers the items at the front of a thread as far as they wait for nothing.
    fn run(&mut self, index: usize, types: &Types, tally: &mut Tally, visitor: &mut impl Visitor) {
        let Some(thread) = self.threads.get_mut(index) else { return };
        let mut next = self.next;
        let mut aux: Vec<(u8, &[u8])> = Vec::new();
        let mut done = 0;
        let mut events = 0;
        for item in thread.waiting() {
            let flags = item.flags;
            if flags & OPEN != 0 {
                break;
            }
            let mut serial = None;
            if flags & SYNCED != 0 {
                if item.serial == next && flags & MISPLACED == 0 {
                    next += 1;
                } else if item.serial > next {
                    break;
                } else {
                    tally.late += 1;
                }
                if flags & MISPLACED != 0 {
                    self.misplaced -= 1;
                }
                serial = Some(item.serial.saturating_sub(self.bias));
                if tally.first_serial.is_none() {
                    tally.first_serial = serial;
                }
                tally.last_serial = tally.last_serial.max(serial);
            }
            done += 1;
            if flags & (LEAVES | DROPPED | STAMPS) != 0 {
                if flags & LEAVES != 0 {
                    visitor.leave_scope(thread.stream);
                }
                if let Some(stamp) = item.stamp() {
                    visitor.stamp(thread.stream, stamp);
                }
                continue;
            }
            let Some(known) = types.get(item.type_index) else { continue };
            let Some(fixed) = thread.bytes_at(item.at, known.fixed_size) else { continue };
            aux.clear();
            if flags & HAS_PIECES != 0 {
                aux.extend(thread.pieces_of(item));
            }
            tally.event(item.type_index);
            events += 1;
            let event = Event {
                event_type: &known.event_type,
                type_index: item.type_index as usize,
                stream: thread.stream,
                serial,
                enters_scope: flags & ENTERS != 0,
                fixed,
                aux: &aux,
            };
            visitor.event(&event);
            match known.role {
                Role::None => {}
                Role::Settled(offset) => {
                    let settled = event.unsigned(usize::from(offset), 8);
                    if !self.serials.seen() && settled <= HIGHEST_FIRST {
                        self.serials.seed(settled + BIAS);
                    }
                    // NOTE: only the lower bits are believed, so that a damaged one does little.
                    let settled = self.serials.nearest(settled as u32);
                    self.serials.reached(settled);
                    self.settled = self.settled.max(Some(settled));
                }
                // It belongs among the important events.
                Role::FirstSerial(_) => {}
                // Taken in where it was parsed.
                Role::ThreadTiming(_) => {}
            }
        }
        self.next = next;
        thread.events += events;
        // Unreadable input leaves bytes in the buffer, but no items.
        if done > 0 || thread.waiting().is_empty() {
            thread.delivered(done);
        }
    }
}

/// The serial under which a thread waits: that of the complete event at its front.
fn key(thread: &Thread) -> Option<u64> {
    thread.waiting().first().filter(|item| item.flags & (OPEN | SYNCED) == SYNCED).map(|i| i.serial)
}
