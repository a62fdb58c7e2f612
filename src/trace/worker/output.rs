//! Where the stream of a recording goes: its sinks, and a short history for a sink that joins soon.

use super::streams::CONTROL;
use crate::error::Error;
use crate::trace::sink::Sink;
use crate::trace::write::slot::ThreadSlot;
use crate::trace::write::{loss, registry};
use memledger_format::stream_events;
use std::sync::atomic::Ordering;

/// The sinks of a recording.
pub(super) struct Output {
    sinks: Vec<Box<dyn Sink>>,
    /// Everything sent so far, while that is within its limit, and a sink may still join.
    history: Option<History>,
    /// Whether packets were sent since the last sync.
    unsynced: bool,
    on_problem: fn(Error),
}

impl Output {
    /// Problems of the sinks are reported to `on_problem`.
    pub(super) fn new(sinks: Vec<Box<dyn Sink>>, on_problem: fn(Error)) -> Self {
        Self { sinks, history: None, unsynced: false, on_problem }
    }

    /// The callback that problems are reported to.
    pub(super) fn on_problem(&self) -> fn(Error) {
        self.on_problem
    }

    pub(super) fn report_problem(&self, error: Error) {
        (self.on_problem)(error);
    }

    /// Keeps everything that is sent from now on, until that exceeds `limit` bytes.
    pub(super) fn keep_history(&mut self, limit: usize) {
        self.history = Some(History { limit, bytes: 0, packets: Vec::new() });
    }

    /// Whether the history has everything sent so far.
    pub(super) fn has_history(&self) -> bool {
        self.history.is_some()
    }

    /// Sends the history to a sink that is about to join.
    pub(super) fn replay(&self, sink: &mut dyn Sink) {
        let packets = self.history.iter().flat_map(|history| &history.packets);
        packets.for_each(|(stream, payload)| sink.packet(*stream, payload));
    }

    pub(super) fn add(&mut self, sink: Box<dyn Sink>) {
        self.sinks.push(sink);
    }

    pub(super) fn sinks(&mut self) -> &mut [Box<dyn Sink>] {
        &mut self.sinks
    }

    /// Sends a packet to all sinks.
    pub(super) fn packet(&mut self, stream: u16, payload: &[u8]) {
        self.packet_to_all(stream, payload);
        self.keep(stream, payload);
    }

    /// Sends a packet to all sinks, but does not keep it in the history: a sink that joins later
    /// gets it from the announcer.
    pub(super) fn announcement(&mut self, stream: u16, payload: &[u8]) {
        self.packet_to_all(stream, payload);
    }

    fn packet_to_all(&mut self, stream: u16, payload: &[u8]) {
        self.unsynced = true;
        for sink in &mut self.sinks {
            sink.packet(stream, payload);
            super::note_taken();
        }
    }

    /// Sends numbered events to the sinks that want them in the order of their serials.
    pub(super) fn in_order(&mut self, stream: u16, events: &[u8]) {
        if !events.is_empty() {
            self.unsynced = true;
            for sink in self.sinks.iter_mut().filter(|sink| sink.wants_order()) {
                sink.packet(stream, events);
                super::note_taken();
            }
        }
    }

    /// Sends numbered events, in larger pieces, to the sinks that do not want them in the order of
    /// their serials.
    pub(super) fn in_pieces(&mut self, stream: u16, events: &[u8]) {
        if !events.is_empty() {
            for sink in self.sinks.iter_mut().filter(|sink| !sink.wants_order()) {
                sink.packet(stream, events);
                super::note_taken();
            }
            self.keep(stream, events);
        }
    }

    fn keep(&mut self, stream: u16, payload: &[u8]) {
        if let Some(history) = &mut self.history
            && !history.add(stream, payload)
        {
            self.history = None;
        }
    }

    /// Ends the group of packets since the last sync, if there are any.
    pub(super) fn sync_if_sent(&mut self) {
        if self.unsynced {
            self.sync();
        }
    }

    /// Ends a group of packets, and removes sinks that have ended.
    pub(super) fn sync(&mut self) {
        self.unsynced = false;
        self.sinks.retain_mut(|sink| match sink.sync() {
            Ok(()) => !sink.has_ended(),
            Err(error) => {
                (self.on_problem)(error);
                false
            }
        });
    }

    /// Ends the streams of all sinks, and keeps the sinks.
    pub(super) fn finish(&mut self) {
        for sink in &mut self.sinks {
            if let Err(error) = sink.finish() {
                (self.on_problem)(error);
            }
        }
    }

    /// Bytes of the file that a watcher can continue; `None` if there is none any more.
    pub(super) fn watched_bytes(&self) -> Option<u64> {
        self.sinks.iter().find_map(|sink| sink.watched_bytes())
    }

    /// Whether packets were sent since the last sync.
    pub(super) fn is_unsynced(&self) -> bool {
        self.unsynced
    }

    /// In a watcher: keeps only the file, which is cut to `bytes` and continues there. The other sinks are
    /// those of the process that has ended.
    pub(super) fn continue_at(&mut self, bytes: u64) -> Result<(), Error> {
        for mut sink in std::mem::take(&mut self.sinks) {
            if sink.watched_bytes().is_some() && self.sinks.is_empty() {
                sink.cut(bytes)?;
                self.sinks.push(sink);
            } else {
                // NOTE: threads that do not exist here may hold its locks.
                std::mem::forget(sink);
            }
        }
        self.history = None;
        Ok(())
    }

    /// In a watcher of another process than that whose sinks these are: has only `file`.
    pub(super) fn replace(&mut self, file: Box<dyn Sink>) {
        // NOTE: threads that do not exist here may hold their locks.
        self.sinks.drain(..).for_each(std::mem::forget);
        self.sinks.push(file);
    }

    /// Whether there is a sink with this number.
    pub(super) fn has_sink(&self, number: u64) -> bool {
        self.sinks.iter().any(|sink| sink.number() == number)
    }

    /// Ends the stream of one sink with `last` packets, and removes the sink.
    pub(super) fn finish_one(&mut self, number: u64, last: &[(u16, Vec<u8>)]) {
        for sink in self.sinks.iter_mut().filter(|sink| sink.number() == number) {
            last.iter().for_each(|(stream, payload)| sink.packet(*stream, payload));
            if let Err(error) = sink.finish() {
                (self.on_problem)(error);
            }
        }
        self.sinks.retain(|sink| sink.number() != number);
    }

    /// Removes all sinks without ending their streams.
    pub(super) fn clear(&mut self) {
        self.sinks.clear();
    }

    /// Reports the events that could not be recorded since the last call.
    pub(super) fn report_losses(&mut self) {
        for slot in registry::slots() {
            self.report_losses_of(slot);
        }
        self.report_loss(0, loss::take_without_slot());
    }

    /// Reports the events that one thread could not record.
    pub(super) fn report_losses_of(&mut self, slot: &ThreadSlot) {
        if slot.lost.load(Ordering::Relaxed) > 0 {
            let lost = slot.lost.swap(0, Ordering::Relaxed);
            self.report_loss(slot.thread_id.load(Ordering::Relaxed), lost);
        }
    }

    /// Reports lost events of the thread with this id, 0 for a thread without one.
    pub(super) fn report_loss(&mut self, thread: u32, lost: u64) {
        if lost > 0 {
            loss::reported(lost);
            let mut event = Vec::new();
            stream_events::LOST.append(&[thread.into(), lost.into()], &mut event);
            self.packet(CONTROL, &event);
        }
    }
}

/// Packets that were sent already, for a sink that joins later.
struct History {
    limit: usize,
    bytes: usize,
    packets: Vec<(u16, Box<[u8]>)>,
}

impl History {
    /// Adds a packet; `false` if the history would exceed its limit.
    fn add(&mut self, stream: u16, payload: &[u8]) -> bool {
        self.bytes += payload.len() + size_of::<(u16, Box<[u8]>)>();
        if self.bytes <= self.limit {
            self.packets.push((stream, payload.into()));
        }
        self.bytes <= self.limit
    }
}
