//! The merge of all threads' events into one order, by epoch and then by thread.

use super::buffer_cursor::BufferCursor;
use super::checkpoint::Announced;
use super::layouts::Layouts;
use super::output::Output;
use super::streams::{CONTROL, WORKER};
use super::threads::{CommittedRange, Threads};
use super::timeline::Timeline;
use super::watch::Watch;
use super::watermark::Watermark;
use crate::trace::write::{backpressure, reserve};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::sync::atomic::Ordering;

/// After this many bytes of events, all sinks get the events that they have not got, and the
/// buffers are freed. This is small enough for the events to stay in the cache until they are
/// coded, and for one write of the file: the trace of a process that is killed has few holes.
const SEND_EVERY: usize = 256 << 10;

/// The committed events of one thread.
struct ThreadStream {
    range: CommittedRange,
    stream: u16,
    /// A cursor for each of its buffers, oldest first. All but the last are at their end.
    cursors: Vec<BufferCursor>,
}

/// One merge of what all threads have committed.
pub(super) struct Merge<'a> {
    pub(super) threads: &'a mut Threads,
    pub(super) timeline: &'a mut Timeline,
    pub(super) watermark: &'a mut Watermark,
    pub(super) output: &'a mut Output,
    pub(super) layouts: &'a Layouts,
    /// What was announced is part of the checkpoints.
    pub(super) watch: Option<(&'a Watch, Announced)>,
}

impl Merge<'_> {
    /// Numbers and sends the events of `ranges` up to the epoch `watermark`.
    pub(super) fn run(mut self, ranges: Vec<CommittedRange>, watermark: u64) {
        let streams = ranges.into_iter().filter_map(|range| {
            let (stream, cursor) = self.threads.resume(&range)?;
            Some(ThreadStream { range, stream, cursors: vec![cursor] })
        });
        let mut streams = streams.collect::<Vec<_>>();
        let mut unsent = 0;
        let mut queue = BinaryHeap::with_capacity(streams.len());
        for (index, stream) in streams.iter_mut().enumerate() {
            if let Some(epoch) = self.next_epoch(stream, &mut unsent) {
                queue.push(Reverse((epoch, index)));
            }
        }
        while let Some(mut first) = queue.peek_mut() {
            let Reverse((epoch, index)) = *first;
            let Some(stream) = streams.get_mut(index).filter(|_| epoch <= watermark) else { break };
            if reserve::is_half_used() {
                break;
            }
            self.mark_before(epoch);
            match self.number(stream, epoch, &mut unsent) {
                Some(next) => *first = Reverse((next, index)),
                None => drop(PeekMut::pop(first)),
            }
            if unsent >= SEND_EVERY {
                self.send(&mut streams, &mut unsent);
                self.output.packet(CONTROL, &self.timeline.settle());
                self.output.sync();
                self.commit(&streams);
                self.watermark.join_global();
                // NOTE: wakes the threads within the cycle, because the buffers freed here can be
                // all that the limit allows.
                backpressure::wake_waiters();
            }
        }
        self.send(&mut streams, &mut unsent);
        streams.iter().for_each(|stream| self.store_progress(stream));
    }

    /// Makes a checkpoint of what the file has now, if there is a watcher, and releases the buffers.
    fn commit(&mut self, streams: &[ThreadStream]) {
        let Some((watch, announced)) = self.watch else { return };
        for stream in streams {
            if let Some(cursor) = stream.cursors.last() {
                self.threads.note_drained(&stream.range, cursor);
            }
        }
        watch.commit(self.threads, self.timeline, self.output, announced);
    }

    /// Writes markers for the times between the events so far and those of `epoch`.
    fn mark_before(&mut self, epoch: u64) {
        if self.watermark.has_time_in(epoch.saturating_sub(1)) {
            for cycle in self.watermark.take_times_before(epoch) {
                for marker in self.timeline.mark(cycle) {
                    self.output.packet(WORKER, &marker);
                }
            }
        }
    }

    /// Numbers the events of one thread in `epoch`, which is the epoch of its next event; returns
    /// the epoch of the first event that remains.
    fn number(&mut self, stream: &mut ThreadStream, epoch: u64, unsent: &mut usize) -> Option<u64> {
        loop {
            let cursor = stream.cursors.last_mut()?;
            backpressure::note_progress();
            let next = cursor.number(epoch, self.timeline.next_serial(), self.layouts);
            self.timeline.set_next_serial(next);
            self.send_run(stream.stream, cursor, unsent);
            let next = self.next_epoch(stream, unsent)?;
            if next != epoch || *unsent >= SEND_EVERY {
                return Some(next);
            }
        }
    }

    /// The epoch of a thread's next event, which may be in another buffer; `None` if all its events
    /// were numbered.
    fn next_epoch(&mut self, stream: &mut ThreadStream, unsent: &mut usize) -> Option<u64> {
        loop {
            let cursor = stream.cursors.last_mut()?;
            if let Some(epoch) = cursor.next_epoch(self.layouts) {
                return Some(epoch);
            }
            self.send_run(stream.stream, cursor, unsent);
            if stream.range.is_last(cursor.buffer()) {
                return None;
            }
            let next = cursor.buffer().next.load(Ordering::Acquire)?;
            let next = self.threads.cursor(&stream.range, next, cursor.depth());
            stream.cursors.push(next);
        }
    }

    /// Sends the events that were just numbered to the sinks that want them in order.
    fn send_run(&mut self, stream: u16, cursor: &mut BufferCursor, unsent: &mut usize) {
        let run = cursor.take_run();
        *unsent += run.len();
        self.output.in_order(stream, run);
    }

    /// Sends the numbered events to the sinks that have not got them, and frees buffers.
    fn send(&mut self, streams: &mut [ThreadStream], unsent: &mut usize) {
        for stream in streams {
            for cursor in &mut stream.cursors {
                // Items without a serial, such as a switch of context, can precede the next event
                // that is not numbered.
                self.send_run(stream.stream, cursor, unsent);
                self.output.in_pieces(stream.stream, cursor.take_piece());
            }
            let slot = stream.range.slot();
            for cursor in stream.cursors.drain(..stream.cursors.len() - 1) {
                self.threads.give_back(slot, cursor.buffer());
            }
        }
        *unsent = 0;
    }

    /// Stores how far a thread is drained; retires the thread if it has ended there.
    fn store_progress(&mut self, stream: &ThreadStream) {
        let Some(cursor) = stream.cursors.last() else { return };
        let is_at_end = cursor.is_done() && stream.range.is_last(cursor.buffer());
        if is_at_end && stream.range.is_finished() {
            self.threads.retire(&stream.range, cursor, self.output);
        } else {
            self.threads.note_drained(&stream.range, cursor);
        }
    }
}
