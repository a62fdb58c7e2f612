//! Streams that begin in the midst of a recording, and those that end there.
//!
//! A stream that begins late starts between two events of the order: what came before is told by
//! whoever keeps account, as blocks that are alive; what comes after is sent as to all others. Each
//! thread's stream goes on in the midst of a block, so what that block has opened is opened again.
#![expect(unsafe_code, reason = "reads the blocks of threads")]

use super::drain::{Occupant, marker_times, packets};
use super::layouts::Layouts;
use super::merge::Rest;
use super::session::{Session, Trailer, settled_below};
use super::streams::{CONTROL, WORKER};
use crate::error::Error;
use crate::platform::clock;
use crate::trace::format::layout::{ENTER_SCOPE, Item, LEAVE_SCOPE};
use crate::trace::format::packet::{IMPORTANTS, TYPES};
use crate::trace::format::stream_events;
use crate::trace::sink::Sink;
use crate::trace::sink::queue::Queued;
use crate::trace::write::declared;
use crate::trace::write::registry;
use crate::trace::write::slot::ThreadSlot;
use std::sync::atomic::Ordering;

/// The place in the order where a stream begins.
pub(crate) struct JoinPoint {
    /// The serial of the next event.
    pub(crate) serial: u64,
    /// The start of the clock, and the time of the last marker, in cycles.
    pub(crate) start: u64,
    pub(crate) marked_at: u64,
    /// Whether the recording knows everything since the start of the process.
    pub(crate) from_process_start: bool,
    /// What each stream starts with: thread information, and the scopes that are open on it.
    pub(crate) streams: Vec<(u16, Vec<u8>)>,
}

impl Session {
    /// Adds a sink whose stream begins here, right behind a tick. `begin` tells it, on the sink's
    /// own thread, what is specific to this place; the rest is told here.
    pub(crate) fn join_late(
        &mut self,
        mut sink: Queued,
        begin: impl FnOnce(JoinPoint, &mut dyn Sink) -> Result<(), Error> + Send + 'static,
    ) {
        let point = self.tell_known(&mut sink);
        sink.later(Box::new(move |sink| begin(point, sink)));
        self.sinks.push(Box::new(sink));
    }

    /// The same, on this thread, for a sink without a queue.
    pub(crate) fn join_here(
        &mut self,
        mut sink: Box<dyn Sink>,
        begin: impl FnOnce(JoinPoint, &mut dyn Sink) -> Result<(), Error>,
    ) {
        let point = self.tell_known(&mut *sink);
        match begin(point, &mut *sink) {
            Ok(()) => self.sinks.push(sink),
            Err(error) => (self.on_problem)(error),
        }
    }

    /// Goes on with the clock of another recording, which began at `start`, in cycles.
    pub(crate) fn go_on_from(&mut self, start: u64, from_process_start: bool) {
        self.start = start;
        self.from_process_start = from_process_start;
    }

    /// The start of the clock in cycles, and whether everything is known since the process began.
    pub(crate) fn began(&self) -> (u64, bool) {
        (self.start, self.from_process_start)
    }

    /// Tells a sink what all streams begin with; returns what is specific to this place.
    fn tell_known(&mut self, sink: &mut dyn Sink) -> JoinPoint {
        // Brings the figures up to date, because the late stream reports them as those before its
        // start.
        self.tell_figures();
        sink.packet(TYPES, &self.type_records());
        sink.packet(IMPORTANTS, &self.about_program());
        self.importants.replay(sink);
        JoinPoint {
            serial: self.serial,
            start: self.start,
            marked_at: self.marked_at,
            from_process_start: self.from_process_start,
            streams: self.open_streams(),
        }
    }

    /// Ends the stream of one sink, right behind a tick, as if the recording ended here.
    pub(crate) fn end_one(&mut self, number: u64, trailer: &Trailer) {
        let closings = self.closings();
        let mut serial = self.serial;
        let mut markers = Vec::new();
        for cycle in marker_times(self.marked_at, clock::now_since_start()) {
            markers.extend(stream_events::marker(serial, cycle));
            serial += 1;
        }
        for sink in self.sinks.iter_mut().filter(|sink| sink.number() == number) {
            closings.iter().for_each(|(stream, bytes)| sink.packet(*stream, bytes));
            sink.packet(WORKER, &markers);
            sink.packet(CONTROL, &settled_below(serial));
            sink.packet(WORKER, &trailer.report(serial));
            if let Err(error) = sink.finish() {
                (self.on_problem)(error);
            }
        }
        self.sinks.retain(|sink| sink.number() != number);
    }

    /// How each stream starts for a reader that has seen none of it.
    fn open_streams(&self) -> Vec<(u16, Vec<u8>)> {
        let mut before = Vec::new();
        self.instruments.iter().for_each(|instrument| instrument.figures_before(&mut before));
        let before = packets(&before).into_iter().map(|packet| (CONTROL, packet));
        let open = |(slot, occupant): (&ThreadSlot, &Occupant)| {
            let mut bytes = occupant.start.clone();
            with_sent(slot, occupant, |sent| {
                let open = still_open(sent, &self.layouts);
                // Those that were entered in earlier blocks, of which nothing is known any more.
                let before = (occupant.depth as usize).saturating_sub(open.len());
                (0..before).for_each(|_| goes_on(&mut bytes));
                for scope in open {
                    match scope {
                        Some(scope) => bytes.extend_from_slice(scope),
                        None => goes_on(&mut bytes),
                    }
                }
            });
            (occupant.stream, bytes)
        };
        before.chain(self.occupied().map(open)).collect()
    }

    /// What closes everything that was opened, on each thread's stream.
    pub(super) fn closings(&self) -> Vec<(u16, Vec<u8>)> {
        let open = self.occupied().filter(|(_, occupant)| occupant.depth > 0);
        let close = |occupant: &Occupant| vec![LEAVE_SCOPE; occupant.depth as usize];
        open.map(|(_, occupant)| (occupant.stream, close(occupant))).collect()
    }

    fn occupied(&self) -> impl Iterator<Item = (&'static ThreadSlot, &Occupant)> {
        registry::slots().zip(&self.occupants).filter(|(_, occupant)| occupant.stream != 0)
    }
}

/// Hands over what was sent of a thread's present block.
fn with_sent(slot: &ThreadSlot, occupant: &Occupant, body: impl FnOnce(&[u8])) {
    if let Some(block) = slot.first.load(Ordering::Acquire)
        && let Some(Rest { at: end, .. }) = occupant.drained
        && block.contains(end.as_ptr())
    {
        let start = block.start();
        let size = end.as_ptr().addr().saturating_sub(start.addr());
        // SAFETY: it lies within the block, and what was drained was committed: nobody but the
        // worker, which this is, touches it any more.
        body(unsafe { std::slice::from_raw_parts(start, size) });
    }
}

/// Opens a scope without saying which.
fn goes_on(out: &mut Vec<u8>) {
    out.push(ENTER_SCOPE);
    stream_events::SCOPE_GOES_ON.append(&[], out);
}

/// What `events` have opened and not closed: the bytes of each scope, if it is one of ours. Those of
/// the program may have a serial that lies before the stream, and arrays of any length.
fn still_open<'a>(events: &'a [u8], layouts: &Layouts) -> Vec<Option<&'a [u8]>> {
    let mut open = Vec::new();
    let mut rest = events;
    while let Some((item, bytes, after)) = layouts.split(rest) {
        match item {
            Item::Enter => open.push((rest, bytes.len())),
            Item::Leave => drop(open.pop()),
            _ => {}
        }
        rest = after;
    }
    let scope = |(events, enter): (&'a [u8], usize)| match layouts.split(events.get(enter..)?)? {
        (Item::Event(uid, _), event, _) if declared::number_of(uid).is_none() => {
            events.get(..enter + event.len())
        }
        _ => None,
    };
    open.into_iter().map(scope).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::format::encode::Declaration;
    use crate::trace::format::layout::{ENTER_SCOPE_AT, LEAVE_SCOPE_AT};
    use crate::trace::format::schema::FieldType::U32;
    use crate::trace::format::schema::NO_SYNC;

    #[test]
    fn what_is_open_is_found_whatever_was_closed_before() {
        static SCOPE: Declaration =
            Declaration { uid: 40, logger: "A", event: "N", flags: NO_SYNC, fields: &[("F", U32)] };
        let layouts = Layouts::new([&SCOPE].iter());
        let event = |field: u32| {
            let mut bytes = Vec::new();
            SCOPE.append(&[field.into()], &mut bytes);
            bytes
        };
        let enter = |field| [vec![ENTER_SCOPE], event(field)].concat();
        let open = |events: &[Vec<u8>]| {
            let bytes = events.concat();
            let open = still_open(&bytes, &layouts).into_iter();
            open.map(|scope| scope.unwrap_or_default().to_vec()).collect::<Vec<_>>()
        };
        let leave = || vec![LEAVE_SCOPE];
        let nothing = Vec::<Vec<u8>>::new();
        assert_eq!(open(&[]), nothing);
        assert_eq!(open(&[enter(1), event(5)]), [enter(1)]);
        assert_eq!(open(&[enter(1), event(5), leave()]), nothing);
        assert_eq!(open(&[enter(1), leave(), enter(2), enter(3), event(1)]), [enter(2), enter(3)]);
        // The scope's own event is the last that there is, or not there yet.
        assert_eq!(open(&[event(5), enter(2)]), [enter(2)]);
        assert_eq!(open(&[event(5), vec![ENTER_SCOPE]]), [Vec::<u8>::new()]);
        // What was opened in an earlier block is closed in this one.
        assert_eq!(open(&[leave(), enter(2)]), [enter(2)]);
        // With a time.
        let timed = [vec![ENTER_SCOPE_AT], vec![7; 8], event(9)].concat();
        let left = [vec![LEAVE_SCOPE_AT], vec![8; 8]].concat();
        assert_eq!(open(&[enter(1), timed.clone()]), [enter(1), timed.clone()]);
        assert_eq!(open(&[enter(1), timed, left]), [enter(1)]);
    }
}
