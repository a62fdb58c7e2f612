//! Step 5 of a tick: the events of all threads, each in its place in the order of all.

use super::drain::{Cursor, Occupant};
use super::merge::Piece;
use super::session::Session;
use crate::trace::write::buffer::Buffer;
use crate::trace::write::{backpressure, buffer_pool, registry, reserve};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::sync::atomic::Ordering;

/// After so many bytes of events the sinks get what they have not got of any thread, and the blocks
/// are free again. Small enough to stay in the cache until they are coded, and for all of it to be
/// written at once: what a process that is killed has written should have few holes.
const SEND_EVERY: usize = 256 << 10;

/// What a thread has committed, on its way.
struct Feed {
    cursor: Cursor,
    stream: u16,
    /// Its blocks, oldest first. All but the last are numbered.
    pieces: Vec<Piece>,
}

impl Session {
    /// Numbers and passes on what `cursors` cover, up to the epoch `bound`; whether anything was sent
    /// that no serial tells of.
    pub(super) fn merge(&mut self, cursors: Vec<Cursor>, bound: u64) -> bool {
        let feeds = cursors.into_iter().filter_map(|cursor| self.feed(cursor));
        let mut feeds = feeds.collect::<Vec<_>>();
        let mut queue = BinaryHeap::with_capacity(feeds.len());
        for (index, feed) in feeds.iter_mut().enumerate() {
            if let Some(epoch) = self.next_epoch(feed) {
                queue.push(Reverse((epoch, index)));
            }
        }
        while let Some(mut first) = queue.peek_mut() {
            let Reverse((epoch, index)) = *first;
            let Some(feed) = feeds.get_mut(index).filter(|_| epoch <= bound) else { break };
            if reserve::is_short() {
                break;
            }
            self.mark_before(epoch);
            match self.run(feed, epoch) {
                Some(next) => *first = Reverse((next, index)),
                None => drop(PeekMut::pop(first)),
            }
            if self.unsent >= SEND_EVERY {
                self.send(&mut feeds);
                self.settle();
                self.sync();
                self.world.pulse();
                // NOTE: within a tick, because these blocks can be all that the buffer limit
                // allows.
                backpressure::wake_waiters();
            }
        }
        let sent = self.unsent > 0;
        self.send(&mut feeds);
        feeds.iter().for_each(|feed| self.leave(feed));
        sent
    }

    /// The number of events in the blocks of threads that were not passed on. A reallocation may count
    /// as two.
    pub(super) fn count_uncollected(&self) -> u64 {
        let mut count = 0;
        for (number, slot) in registry::slots().enumerate() {
            let mut block = slot.first.load(Ordering::Acquire);
            let occupant = self.occupants.get(number);
            let mut from = occupant.and_then(|occupant| occupant.drained);
            while let Some(current) = block {
                let (end, next) = slot.committed(current);
                count += Piece::new(current, from.take(), end, 0).count(&self.layouts);
                block = next;
            }
        }
        count
    }

    fn feed(&self, cursor: Cursor) -> Option<Feed> {
        let &Occupant { stream, drained, depth, .. } = self.occupants.get(cursor.number)?;
        let block = cursor.slot.first.load(Ordering::Acquire)?;
        let piece = Piece::new(block, drained, committed(&cursor, block), depth);
        Some(Feed { cursor, stream, pieces: vec![piece] })
    }

    /// Numbers the events of one thread in `epoch`, which is its next; returns the one after.
    fn run(&mut self, feed: &mut Feed, epoch: u64) -> Option<u64> {
        loop {
            let piece = feed.pieces.last_mut()?;
            backpressure::note_progress();
            self.serial = piece.number(epoch, self.serial, &self.layouts);
            self.pass_run(feed.stream, piece);
            let next = self.next_epoch(feed)?;
            if next != epoch || self.unsent >= SEND_EVERY {
                return Some(next);
            }
        }
    }

    /// The epoch of a thread's next event, which may be in another block; `None` if all of them
    /// have been numbered.
    fn next_epoch(&mut self, feed: &mut Feed) -> Option<u64> {
        loop {
            let piece = feed.pieces.last_mut()?;
            if let Some(epoch) = piece.next_epoch(&self.layouts) {
                return Some(epoch);
            }
            self.pass_run(feed.stream, piece);
            if piece.block == feed.cursor.block {
                return None;
            }
            let next = piece.block.next.load(Ordering::Acquire)?;
            let (end, depth) = (committed(&feed.cursor, next), piece.depth());
            feed.pieces.push(Piece::new(next, None, end, depth));
        }
    }

    /// Passes on what has just been numbered, to the sinks that want order.
    fn pass_run(&mut self, stream: u16, piece: &mut Piece) {
        let run = piece.take_run();
        self.unsent += run.len();
        for sink in self.sinks.iter_mut().filter(|sink| !run.is_empty() && sink.wants_order()) {
            sink.packet(stream, run);
        }
    }

    /// Sends what has been numbered, to the sinks that have not got it, and gives blocks back.
    fn send(&mut self, feeds: &mut [Feed]) {
        for feed in feeds {
            for piece in &mut feed.pieces {
                // What stands before an event that is not numbered yet: a switch of context.
                self.pass_run(feed.stream, piece);
                let bytes = piece.take_sent();
                if !bytes.is_empty() {
                    for sink in self.sinks.iter_mut().filter(|sink| !sink.wants_order()) {
                        sink.packet(feed.stream, bytes);
                    }
                    self.keep(feed.stream, bytes);
                }
            }
            let slot = feed.cursor.slot;
            for piece in feed.pieces.drain(..feed.pieces.len() - 1) {
                let next = piece.block.next.load(Ordering::Acquire);
                slot.first.store(next, Ordering::Release);
                buffer_pool::release(slot, piece.block);
            }
        }
        self.unsent = 0;
    }

    /// Notes how far a thread is drained; if it is at its end, retires it.
    fn leave(&mut self, feed: &Feed) {
        let Some(piece) = feed.pieces.last() else { return };
        let last = piece.is_done() && piece.block == feed.cursor.block;
        if last && feed.cursor.finished {
            self.retire(&feed.cursor, piece);
        } else if let Some(occupant) = self.occupants.get_mut(feed.cursor.number) {
            (occupant.drained, occupant.depth) = (piece.rest(), piece.depth());
        }
    }
}

/// The end of what `cursor` covers of a block of its thread.
fn committed(cursor: &Cursor, block: Buffer) -> *mut u8 {
    if block == cursor.block { cursor.end } else { block.committed.load(Ordering::Acquire) }
}
