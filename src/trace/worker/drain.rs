//! One tick: what every thread has committed gets its place in the order, and goes to the sinks.
//!
//! The order of a tick is a rule, since an event must never come before what it refers to:
//! 1. find the epoch up to which all events are committed,
//! 2. read every thread's commit cursor,
//! 3. read the tables of names and threads,
//! 4. send the important events that come of 3,
//! 5. number and send the threads' events up to 1 and 2.

use super::merge::{Piece, Rest};
use super::session::{SERIAL, Session, settled_below};
use super::streams::{CONTROL, WORKER};
use crate::platform::clock;
use crate::platform::os;
use crate::trace::format::layout::LEAVE_SCOPE;
use crate::trace::format::stream_events;
use crate::trace::write::buffer::Buffer;
use crate::trace::write::slot::{FINISHED, LIVE, ThreadSlot};
use crate::trace::write::{backpressure, buffer_pool, loss, registry, reserve};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Unreal's readers up to 5.5 drop a marker that comes 60 s or more after the last one, and all
/// later markers. So two markers are at most this many cycles apart.
const MARKER_SPACING: u64 = 50 * clock::FREQUENCY;

/// After this many cycles without events the worker writes a marker. On a busy machine a tick may
/// come seconds late.
const MARKER_AT_LEAST: u64 = 45 * clock::FREQUENCY;
const _: () = assert!(MARKER_AT_LEAST < MARKER_SPACING);
/// How often the worker looks for threads that ended without notice, and writes figures to the
/// stream.
const LOOK_AROUND: Duration = Duration::from_secs(1);
/// A packet of figures is complete at this many bytes; its last event may exceed them.
const PACKET: usize = 16 << 10;

/// The times of the markers from the last one, at `from`, to one at `to`.
pub(crate) fn marker_times(from: u64, to: u64) -> impl Iterator<Item = u64> {
    let between = to.saturating_sub(from).saturating_sub(1) / MARKER_SPACING;
    (1..=between).map(move |number| from + number * MARKER_SPACING).chain([to])
}

/// What the worker knows of the occupant of one slot.
#[derive(Clone, Default)]
pub(super) struct Occupant {
    /// The stream its packets carry, 0 before its first.
    pub(super) stream: u16,
    /// How far its first block is drained; `None` for its start.
    pub(super) drained: Option<Rest>,
    /// How many scopes are open there.
    pub(super) depth: u32,
    /// What its stream starts with, for sinks that come later.
    pub(super) start: Vec<u8>,
}

/// A thread's commit cursor as it stood at step 2.
pub(super) struct Cursor {
    pub(super) slot: &'static ThreadSlot,
    pub(super) number: usize,
    pub(super) block: Buffer,
    pub(super) end: *mut u8,
    pub(super) finished: bool,
}

impl Session {
    /// Collects once. Waits for threads that are inside the hook for `patience`.
    pub(crate) fn tick(&mut self, patience: Duration) {
        backpressure::note_awake();
        if self.failed {
            return;
        }
        let is_time = self.last_look.elapsed() >= LOOK_AROUND;
        if is_time {
            registry::finish_dead();
            self.last_look = Instant::now();
        }
        let bound = self.world.tick(patience);
        let mut sent = self.collect(bound);
        if is_time {
            sent |= self.tell_figures();
        }
        if self.serial > self.settled {
            self.settle();
            sent = true;
        }
        if sent {
            self.sync();
        }
        if reserve::is_touched() {
            self.give_up();
        }
    }

    /// Has the next tick write all figures that have changed, for a caller that wants to see them.
    pub(crate) fn want_figures(&mut self) {
        self.last_look = self.last_look.checked_sub(LOOK_AROUND).unwrap_or(self.last_look);
    }

    /// Steps 2 to 5; whether anything was sent.
    pub(super) fn collect(&mut self, bound: u64) -> bool {
        let cursors = self.read_cursors();
        let starts = cursors.iter().filter_map(|cursor| self.introduce(cursor)).collect::<Vec<_>>();
        let mut sent = self.announce();
        for (stream, start) in starts {
            self.packet(stream, &start);
            sent = true;
        }
        sent |= self.merge(cursors, bound);
        self.mark_until(bound);
        buffer_pool::all_collected();
        sent | self.tell_losses()
    }

    /// Step 2: how far each thread has got.
    fn read_cursors(&mut self) -> Vec<Cursor> {
        let mut cursors = Vec::new();
        for (number, slot) in registry::slots().enumerate() {
            if self.occupants.len() <= number {
                self.occupants.push(Occupant::default());
            }
            // NOTE: the state first: of a finished thread everything is committed.
            let state = slot.state.load(Ordering::Acquire);
            if state != LIVE && state != FINISHED {
                continue;
            }
            let finished = state == FINISHED;
            let Some(mut block) = slot.first.load(Ordering::Acquire) else {
                if finished {
                    self.take_losses_of(slot);
                    registry::free(slot);
                }
                continue;
            };
            let end = loop {
                match slot.committed(block) {
                    (end, None) => break end,
                    (_, Some(next)) => block = next,
                }
            };
            cursors.push(Cursor { slot, number, block, end, finished });
        }
        cursors
    }

    /// Gives a new thread its stream and its name; returns what its stream starts with.
    fn introduce(&mut self, cursor: &Cursor) -> Option<(u16, Vec<u8>)> {
        let occupant = self.occupants.get_mut(cursor.number)?;
        if occupant.stream != 0 {
            return None;
        }
        let stream = self.streams.take()?;
        backpressure::note_progress();
        occupant.stream = stream;
        (occupant.drained, occupant.depth) = (None, 0);
        let slot = cursor.slot;
        let id = slot.thread_id.load(Ordering::Relaxed);
        let system_id = slot.system_id.load(Ordering::Relaxed);
        let name = if system_id == os::process_id() {
            *b"main\0\0\0\0\0\0\0\0\0\0\0\0"
        } else {
            // A thread records its first events before it is given its name, so ask again.
            let alive = if cursor.finished { None } else { os::thread_name_of(system_id) };
            alive.unwrap_or_else(|| slot.name())
        };
        let size = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
        let name = String::from_utf8_lossy(&name[..size]);
        let hint = id.into();
        self.importants.add(
            &stream_events::THREAD_INFO,
            &[u32::from(stream).into(), system_id.into(), hint, (&*name).into()],
        );
        let mut start = Vec::new();
        stream_events::THREAD_START
            .append(&[id.into(), system_id.into(), (&*name).into()], &mut start);
        occupant.start.clone_from(&start);
        Some((stream, start))
    }

    /// The last of a finished thread, of which all but `piece` is sent: closes what is open, frees
    /// its block, stream and slot.
    pub(super) fn retire(&mut self, cursor: &Cursor, piece: &Piece) {
        let Some(occupant) = self.occupants.get_mut(cursor.number) else { return };
        let stream = std::mem::take(occupant).stream;
        if piece.depth() > 0 {
            self.packet(stream, &vec![LEAVE_SCOPE; piece.depth() as usize]);
        }
        self.take_losses_of(cursor.slot);
        cursor.slot.first.store(None, Ordering::Release);
        buffer_pool::release(cursor.slot, piece.block);
        self.streams.give_back(stream);
        registry::free(cursor.slot);
    }

    /// Sends the figures that have changed; returns whether there were any.
    pub(super) fn tell_figures(&mut self) -> bool {
        let mut events = Vec::new();
        for instrument in &mut self.instruments {
            instrument.figures(&mut events);
        }
        for packet in packets(&events) {
            self.packet(CONTROL, &packet);
        }
        !events.is_empty()
    }

    pub(super) fn tell_losses(&mut self) -> bool {
        let before = loss::total();
        for slot in registry::slots() {
            self.take_losses_of(slot);
        }
        self.tell_loss(0, loss::take_without_slot());
        loss::total() != before
    }

    fn take_losses_of(&mut self, slot: &ThreadSlot) {
        if slot.lost.load(Ordering::Relaxed) > 0 {
            let lost = slot.lost.swap(0, Ordering::Relaxed);
            self.tell_loss(slot.thread_id.load(Ordering::Relaxed), lost);
        }
    }

    pub(super) fn tell_loss(&mut self, thread: u32, lost: u64) {
        if lost > 0 {
            loss::reported(lost);
            let mut event = Vec::new();
            stream_events::LOST.append(&[thread.into(), lost.into()], &mut event);
            self.packet(CONTROL, &event);
        }
    }

    /// Says that everything collected has been sent.
    pub(super) fn settle(&mut self) {
        self.settled = self.serial;
        SERIAL.store(self.serial, Ordering::Relaxed);
        self.packet(CONTROL, &settled_below(self.serial));
    }

    /// Writes markers for the times between the events so far and those of `epoch`.
    pub(super) fn mark_before(&mut self, epoch: u64) {
        if self.world.has_moment_in(epoch.saturating_sub(1)) {
            self.world.moments_before(epoch).for_each(|cycle| self.mark(cycle));
        }
    }

    /// Writes a marker behind the events up to `bound`, if there were any since the last marker, or
    /// that is long ago.
    fn mark_until(&mut self, bound: u64) {
        let idle = self.world.last_moment().saturating_sub(self.marked_at);
        let due = self.serial != self.marked || idle >= MARKER_AT_LEAST;
        if due && self.world.has_moment_in(bound) {
            self.world.moments_before(bound + 1).for_each(|cycle| self.mark(cycle));
        }
    }

    /// Writes a marker, preceded by others if the last one is long ago because the program was
    /// stopped.
    pub(super) fn mark(&mut self, cycle: u64) {
        for cycle in marker_times(self.marked_at, cycle) {
            self.packet(WORKER, &stream_events::marker(self.serial, cycle));
            self.serial += 1;
        }
        self.marked_at = cycle;
        self.marked = self.serial;
    }
}

/// The events, in packets of about [`PACKET`] bytes.
pub(super) fn packets(events: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut packets = Vec::<Vec<u8>>::new();
    for event in events {
        match packets.last_mut().filter(|packet| packet.len() < PACKET) {
            Some(packet) => packet.extend_from_slice(event),
            None => packets.push(event.clone()),
        }
    }
    packets
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use crate::trace::sink::Sink;
    use std::sync::{Arc, Mutex};

    /// Records the times of all markers.
    #[derive(Clone, Default)]
    struct Markers(Arc<Mutex<Vec<u64>>>);

    impl Sink for Markers {
        fn packet(&mut self, stream: u16, payload: &[u8]) {
            if stream == WORKER {
                assert_eq!(payload[..2], stream_events::MARKER.wire().to_le_bytes());
                let cycle = payload[payload.len() - 8..].try_into().unwrap();
                self.0.lock().unwrap().push(u64::from_le_bytes(cycle));
            }
        }

        fn sync(&mut self) -> Result<(), Error> {
            Ok(())
        }
    }

    #[test]
    fn no_two_markers_are_more_than_50_seconds_apart() {
        const SECOND: u64 = clock::FREQUENCY;
        let markers = Markers::default();
        let sinks: Vec<Box<dyn Sink>> = vec![Box::new(markers.clone())];
        let mut session = Session::new(sinks, Vec::new(), false, |error| panic!("{error}"));
        let start = session.start;
        let mut now = start;
        let mut tick = |session: &mut Session, pause: u64| {
            now += pause;
            session.world.note(now);
            session.mark_until(0);
            now
        };
        // Ten idle minutes, in which ticks come up to four seconds late.
        for number in 0..300 {
            tick(&mut session, if number % 7 == 0 { 4 * SECOND } else { SECOND / 100 * 167 });
        }
        let idle = markers.0.lock().unwrap().len();
        assert!(idle < 30, "{idle} markers");
        // The program was stopped for an hour.
        let end = tick(&mut session, 3600 * SECOND);
        let times = [vec![start], markers.0.lock().unwrap().clone()].concat();
        let longest = times.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap();
        assert!(longest <= 50 * SECOND, "{longest} ns");
        assert!(times.is_sorted());
        assert_eq!(times.last(), Some(&end));
        assert_eq!(session.serial - session.first_serial, times.len() as u64 - 1);
    }
}
