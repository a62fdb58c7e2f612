//! One recording: what it knows from its start to its end, and whom it tells.
#![expect(unsafe_code, reason = "holds pointers into the blocks of threads")]

use super::Instrument;
use super::drain::Occupant;
use super::layouts::Layouts;
use super::replay::{History, Importants};
use super::streams::{CONTROL, StreamIds, WORKER, own_system_id};
use super::world::World;
use crate::error::Error;
use crate::platform::{clock, os};
use crate::trace::format::packet::{IMPORTANTS, TYPES};
use crate::trace::format::stream_events;
use crate::trace::sink::Sink;
use crate::trace::write::buffer;
use crate::trace::write::declared;
use crate::trace::write::{loss, quiesce, registry, reserve};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long `Session::give_up` waits for threads inside the hook.
const PATIENCE_WITH_HOOKS: Duration = Duration::from_millis(100);

/// The serial of the next event, in all recordings of the process.
pub(super) static SERIAL: AtomicU64 = AtomicU64::new(0);

/// How many events have been collected since the start of the process.
pub(crate) fn collected() -> u64 {
    SERIAL.load(Ordering::Relaxed)
}

/// What the stream says at its end.
pub(crate) struct Trailer {
    pub(crate) overhead_bytes: u64,
    pub(crate) scope_misuses: u64,
    pub(crate) failed_allocations: u64,
}

impl Trailer {
    /// The event that says it, when `serial` is the next.
    pub(super) fn report(&self, serial: u64) -> Vec<u8> {
        let mut report = Vec::new();
        stream_events::REPORT.append(
            &[
                serial.into(),
                clock::now_since_start().into(),
                self.overhead_bytes.into(),
                loss::total().into(),
                self.scope_misuses.into(),
                self.failed_allocations.into(),
            ],
            &mut report,
        );
        report
    }
}

/// What one recording knows, from its start to its end.
pub(crate) struct Session {
    pub(super) sinks: Vec<Box<dyn Sink>>,
    pub(super) instruments: Vec<Box<dyn Instrument>>,
    pub(super) importants: Importants,
    /// Everything sent so far, while that is little and a sink may still join.
    pub(super) history: Option<History>,
    pub(super) occupants: Vec<Occupant>,
    pub(super) streams: StreamIds,
    pub(super) layouts: Layouts,
    /// How many types of the program were announced.
    program_types: usize,
    pub(super) world: World,
    /// The start of the clock, in cycles.
    pub(super) start: u64,
    pub(super) from_process_start: bool,
    pub(super) first_serial: u64,
    /// The serial of the next event.
    pub(super) serial: u64,
    pub(super) settled: u64,
    /// The serial after the last marker: if it has not moved, nothing happened.
    pub(super) marked: u64,
    /// The time it told, in cycles.
    pub(super) marked_at: u64,
    /// Bytes of events numbered since the last were sent.
    pub(super) unsent: usize,
    pub(super) last_look: Instant,
    pub(super) on_problem: fn(Error),
    pub(super) failed: bool,
}

// SAFETY: the pointers point into blocks that are never unmapped, and whoever holds the session
// (under its lock) is the only one that drains them.
unsafe impl Send for Session {}

impl Session {
    /// A session that begins with the next event, or with the first of the process.
    pub(crate) fn new(
        sinks: Vec<Box<dyn Sink>>,
        instruments: Vec<Box<dyn Instrument>>,
        from_process_start: bool,
        on_problem: fn(Error),
    ) -> Self {
        let types = instruments.iter().flat_map(|instrument| instrument.types());
        let layouts = Layouts::new(types);
        let start =
            if from_process_start { clock::process_start() } else { clock::now_since_start() };
        let first_serial = collected();
        let mut session = Self {
            sinks,
            instruments,
            importants: Importants::new(),
            history: None,
            occupants: Vec::new(),
            streams: StreamIds::new(),
            layouts,
            program_types: 0,
            world: World::new(start),
            start,
            from_process_start,
            first_serial,
            serial: first_serial,
            settled: first_serial,
            marked: u64::MAX,
            marked_at: start,
            unsent: 0,
            last_look: Instant::now(),
            on_problem,
            failed: false,
        };
        session.describe();
        session
    }

    /// Keeps what is sent, up to `limit` bytes, so that a sink can join as if from the start.
    pub(crate) fn keep_history(&mut self, limit: usize) {
        self.history = Some(History::new(limit));
    }

    /// Adds a sink that receives everything since the start; gives it back if that is gone.
    pub(crate) fn join(&mut self, mut sink: Box<dyn Sink>) -> Result<(), Box<dyn Sink>> {
        let Some(history) = &self.history else { return Err(sink) };
        self.begin(&mut *sink);
        self.importants.replay(&mut *sink);
        // As in `describe`.
        sink.packet(CONTROL, &settled_below(self.first_serial));
        for _ in 0..3 {
            if let Err(error) = sink.sync() {
                (self.on_problem)(error);
                return Ok(());
            }
        }
        history.replay(&mut *sink);
        self.sinks.push(sink);
        self.sync();
        Ok(())
    }

    pub(super) fn type_records(&self) -> Vec<u8> {
        let mut records = Vec::new();
        let instruments = self.instruments.iter().map(|instrument| instrument.types());
        for declaration in [stream_events::TYPES].into_iter().chain(instruments).flatten() {
            declaration.append_record(&mut records);
        }
        let programs = (0..self.program_types).filter_map(declared::registered);
        programs.for_each(|logged| logged.append_record(&mut records));
        records
    }

    /// Sends the types that the program has used since it was last asked.
    fn announce_types(&mut self) {
        let mut records = Vec::new();
        while let Some(logged) = declared::registered(self.program_types) {
            logged.append_record(&mut records);
            self.layouts.add(declared::uid_of(self.program_types), logged.declared().layout());
            self.program_types += 1;
        }
        if !records.is_empty() {
            self.sinks.iter_mut().for_each(|sink| sink.packet(TYPES, &records));
        }
    }

    /// Who writes the stream, and when it began to.
    pub(super) fn about_program(&self) -> Vec<u8> {
        let mut about = Vec::new();
        stream_events::NEW_TRACE.append(
            &[self.start.into(), clock::FREQUENCY.into(), 0x524d_u32.into(), 8_u32.into()],
            &mut about,
        );
        let program = std::env::current_exe().ok();
        let program = program.as_deref().and_then(|path| path.file_name()).unwrap_or_default();
        stream_events::SESSION.append(
            &["Linux".into(), (&*program.to_string_lossy()).into(), 3_u32.into(), 5_u32.into()],
            &mut about,
        );
        about
    }

    /// Sends what the stream of a sink starts with that is there from the start.
    fn begin(&self, sink: &mut dyn Sink) {
        sink.packet(TYPES, &self.type_records());
        let mut about = self.about_program();
        about.extend(preamble(self.first_serial, self.from_process_start));
        sink.packet(IMPORTANTS, &about);
    }

    /// Sends what a stream starts with: types, the start of the clock, the program, our streams.
    fn describe(&mut self) {
        let mut sinks = std::mem::take(&mut self.sinks);
        sinks.iter_mut().for_each(|sink| self.begin(&mut **sink));
        self.sinks = sinks;
        let importants = &mut self.importants;
        for (stream, name) in [(CONTROL, "memledger control"), (WORKER, "memledger worker")] {
            let hint = (stream as u32).into();
            importants.add(
                &stream_events::THREAD_INFO,
                &[u32::from(stream).into(), own_system_id(stream).into(), hint, name.into()],
            );
        }
        self.announce();
        // NOTE: before anything else. A reader that has never met this event takes the stream for
        // one without it, and what is late in the first ticks for lost.
        self.packet(CONTROL, &settled_below(self.first_serial));
        // Unreal's readers trust serials after a group of three syncs.
        (0..3).for_each(|_| self.sync());
    }

    /// Steps 3 and 4, but for the threads.
    pub(super) fn announce(&mut self) -> bool {
        for instrument in &mut self.instruments {
            instrument.announce(&mut self.importants);
        }
        // NOTE: after the important events were collected, before they are sent.
        self.announce_types();
        self.importants.send(&mut self.sinks)
    }

    pub(super) fn packet(&mut self, stream: u16, payload: &[u8]) {
        for sink in &mut self.sinks {
            sink.packet(stream, payload);
        }
        self.keep(stream, payload);
    }

    pub(super) fn keep(&mut self, stream: u16, payload: &[u8]) {
        if let Some(history) = &mut self.history
            && !history.add(stream, payload)
        {
            self.history = None;
        }
    }

    pub(super) fn sync(&mut self) {
        self.sinks.retain_mut(|sink| match sink.sync() {
            Ok(()) => !sink.is_over(),
            Err(error) => {
                (self.on_problem)(error);
                false
            }
        });
    }

    /// Whom problems are told.
    pub(crate) fn on_problem(&self) -> fn(Error) {
        self.on_problem
    }

    /// Whether the last tick has collected everything that had happened before it.
    pub(crate) fn has_everything(&self) -> bool {
        !self.failed && self.world.is_settled()
    }

    /// Whether recording has ended for a fault of the tracker's own.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed
    }

    /// Ends the recording for a fault of the tracker's own.
    pub(crate) fn fail(&mut self, why: String) {
        self.failed = true;
        self.sinks.clear();
        quiesce::pause(Duration::ZERO);
        (self.on_problem)(Error::Internal(why));
    }

    /// Ends the recording because the system has no memory for the tracker: every stream ends at a
    /// whole packet, without `Memledger.Report`, and the events that it lacks are counted.
    pub(super) fn give_up(&mut self) {
        quiesce::pause(PATIENCE_WITH_HOOKS);
        // NOTE: types are announced before the events are counted, since the size of an event of an
        // unknown type is unknown.
        self.announce();
        let lost = self.count_uncollected();
        self.tell_losses();
        self.tell_loss(0, lost);
        let on_problem = self.on_problem;
        for mut sink in self.sinks.drain(..) {
            if let Err(error) = sink.finish() {
                on_problem(error);
            }
        }
        self.failed = true;
        on_problem(Error::OutOfMemory(format!(
            "recording ends here, after {} events: the system has no memory left for the tracker; \
             {} events are lost, and what follows is not recorded",
            self.serial - self.first_serial,
            loss::total()
        )));
    }

    /// Ends the stream: recording is paused, so everything that will ever come is there.
    pub(crate) fn finish(&mut self, trailer: &Trailer) {
        if self.failed {
            return;
        }
        self.collect(u64::MAX - 1);
        if reserve::is_touched() {
            self.settle();
            return self.give_up();
        }
        self.tell_figures();
        for (stream, closing) in self.closings() {
            self.packet(stream, &closing);
        }
        self.mark(clock::now_since_start());
        self.settle();
        self.packet(WORKER, &trailer.report(self.serial));
        for sink in &mut self.sinks {
            if let Err(error) = sink.finish() {
                (self.on_problem)(error);
            }
        }
    }
}

/// Tells a reader of ours the first serial of the stream, and whether nothing is missing before it.
pub(crate) fn preamble(first_serial: u64, from_process_start: bool) -> Vec<u8> {
    let (pid, whole) = (os::process_id(), u32::from(from_process_start));
    let optimized = u32::from(!cfg!(unoptimized));
    let mut event = Vec::new();
    let values = [1_u32.into(), pid.into(), first_serial.into(), whole.into(), optimized.into()];
    stream_events::TRACE.append(&values, &mut event);
    event
}

/// Says that every event below `serial` that will ever come has come.
pub(crate) fn settled_below(serial: u64) -> Vec<u8> {
    let mut event = Vec::new();
    stream_events::SETTLED.append(&[serial.into()], &mut event);
    event
}

/// Bytes of pages the tracker has mapped.
pub(crate) fn mapped_bytes() -> u64 {
    buffer::mapped() + registry::mapped()
}
