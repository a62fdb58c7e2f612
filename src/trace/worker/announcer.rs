//! Event types, important events and figures: the events of a stream that belong to no thread.

use super::checkpoint::Announced;
use super::importants::Importants;
use super::layouts::Layouts;
use super::output::Output;
use super::streams::{CONTROL, WORKER, own_system_id};
use crate::platform::{clock, os};
use crate::trace::sink::Sink;
use crate::trace::write::declared;
use memledger_format::encode::{Declaration, Value};
use memledger_format::packet::{IMPORTANTS, TYPES};
use memledger_format::stream_events;
use memledger_format::words::text_of;

/// A packet of figures gets no more events once it has this many bytes. Its last event may exceed
/// them.
const PACKET: usize = 16 << 10;

/// Passes packets, with their streams, to a function. On any thread, because there can be many.
pub(crate) type Definitions = Box<dyn FnOnce(&mut dyn FnMut(u16, &[u8])) + Send>;

/// A part of the tracker that declares events. The worker announces its types, and asks it in every
/// cycle for new important events.
pub(crate) trait EventProvider: Send {
    fn types(&self) -> &'static [&'static Declaration];

    /// Adds the important events that are new since the last call.
    fn announce(&mut self, importants: &mut Importants);

    /// Passes packets of events that the threads' events refer to, and that belong to no thread, to
    /// `send`, with their streams: those that are new at the last call of `announce`.
    fn define(&mut self, _send: &mut dyn FnMut(u16, &[u8])) {}

    /// What passes on again all that `define` has passed on so far, for a stream that starts here.
    fn definitions(&self) -> Option<Definitions> {
        None
    }

    /// Adds events, which belong to no thread, for the figures that have changed since the last
    /// call. Each event has the whole figure, so a lost event does no harm.
    fn figures(&mut self, _events: &mut Vec<Vec<u8>>) {}

    /// Adds events, which belong to no thread, of what it reads from the system, if that is due. Called in
    /// every cycle, and with `is_end` at the end.
    fn readings(&mut self, _is_end: bool, _events: &mut Vec<Vec<u8>>) {}

    /// What was added before is in the file, or will be if the process ends.
    fn committed(&mut self) {}

    /// Adds the figures so far, for a stream that starts here.
    fn figures_before(&self, _events: &mut Vec<Vec<u8>>) {}

    /// What it has announced and defined so far, as a number for [`continue_after`](Self::continue_after).
    fn position(&self) -> u64 {
        0
    }

    /// In a watcher: the process has ended, and had announced what `position` says. From now on, it announces
    /// what the process has left in memory that is shared, and nothing of this process. `false` if there is
    /// nothing more.
    fn continue_after(&mut self, position: u64) -> bool {
        let _ = position;
        false
    }
}

/// The event providers of a recording, and what they have announced.
pub(super) struct Announcer {
    providers: Vec<Box<dyn EventProvider>>,
    importants: Importants,
    layouts: Layouts,
    /// How many types of the program were announced.
    program_types: usize,
}

impl Announcer {
    pub(super) fn new(providers: Vec<Box<dyn EventProvider>>) -> Self {
        let layouts = Layouts::new(providers.iter().flat_map(|provider| provider.types()));
        Self { providers, importants: Importants::new(), layouts, program_types: 0 }
    }

    /// What was announced so far.
    pub(super) fn announced(&self) -> Announced {
        let mut announced = Announced { types: self.program_types, positions: [0; _] };
        for (position, provider) in announced.positions.iter_mut().zip(&self.providers) {
            *position = provider.position();
        }
        announced
    }

    /// In a watcher: continues after what the process that has ended had announced.
    pub(super) fn continue_after(&mut self, announced: Announced) {
        declared::take_all();
        for number in 0..announced.types {
            if let Some(logged) = declared::registered(number) {
                self.layouts.add(declared::uid_of(number), logged.declared().layout());
            }
        }
        self.program_types = announced.types;
        let mut positions = announced.positions.into_iter();
        self.providers
            .retain_mut(|provider| provider.continue_after(positions.next().unwrap_or(0)));
        self.importants = Importants::new();
    }

    /// The layouts of all types that were announced.
    pub(super) fn layouts(&self) -> &Layouts {
        &self.layouts
    }

    /// The important events, to add to.
    pub(super) fn importants(&mut self) -> &mut Importants {
        &mut self.importants
    }

    /// Adds the names of the worker's own streams.
    pub(super) fn add_own_streams(&mut self) {
        for (stream, name) in [(CONTROL, "memledger control"), (WORKER, "memledger worker")] {
            let hint = (stream as u32).into();
            self.importants.add(
                &stream_events::THREAD_INFO,
                &[u32::from(stream).into(), own_system_id(stream).into(), hint, name.into()],
            );
        }
    }

    /// Sends the types, important events and definitions that are new.
    pub(super) fn announce(&mut self, output: &mut Output) {
        for provider in &mut self.providers {
            provider.announce(&mut self.importants);
        }
        // NOTE: announces types after the important events were collected and before they are sent,
        // so that no event precedes its type.
        self.announce_types(output);
        self.importants.send(|piece| output.announcement(IMPORTANTS, piece));
        for provider in &mut self.providers {
            provider.define(&mut |stream, packet| output.announcement(stream, packet));
        }
    }

    /// What passes on again the definitions that were sent so far.
    pub(super) fn definitions(&self) -> Vec<Definitions> {
        self.providers.iter().filter_map(|provider| provider.definitions()).collect()
    }

    /// Sends the types that the program has used since the last call.
    fn announce_types(&mut self, output: &mut Output) {
        let (mut records, mut channels) = (Vec::new(), Vec::new());
        while let Some(logged) = declared::registered(self.program_types) {
            let uid = declared::uid_of(self.program_types);
            logged.append_record(&mut records);
            self.layouts.add(uid, logged.declared().layout());
            let ids: Vec<_> = logged.channels().iter().flat_map(|id| id.to_le_bytes()).collect();
            let values = [Value::Number(uid.into()), Value::Elements(&ids, size_of::<u32>())];
            stream_events::TYPE_CHANNELS.append(&values, &mut channels);
            self.program_types += 1;
        }
        if !records.is_empty() {
            output.announcement(TYPES, &records);
        }
        // An important event of the program may be on such a type.
        self.importants.add_first(channels);
    }

    /// Sends the figures that have changed.
    pub(super) fn report_figures(&mut self, output: &mut Output) {
        let mut events = Vec::new();
        for provider in &mut self.providers {
            provider.figures(&mut events);
        }
        for packet in packets(&events) {
            output.packet(CONTROL, &packet);
        }
    }

    /// Sends what is read from the system.
    pub(super) fn report_readings(&mut self, is_end: bool, output: &mut Output) {
        let mut events = Vec::new();
        self.providers.iter_mut().for_each(|provider| provider.readings(is_end, &mut events));
        for packet in packets(&events) {
            output.packet(CONTROL, &packet);
        }
    }

    /// A cycle has ended.
    pub(super) fn note_committed(&mut self) {
        self.providers.iter_mut().for_each(|provider| provider.committed());
    }

    /// The figures so far, as packets for a stream that starts here.
    pub(super) fn figures_before(&self) -> Vec<Vec<u8>> {
        let mut events = Vec::new();
        self.providers.iter().for_each(|provider| provider.figures_before(&mut events));
        packets(&events)
    }

    /// Sends what each stream starts with: the types, the start of the clock, the program, and
    /// `preamble`.
    pub(super) fn describe(&self, start: u64, preamble: &[u8], sink: &mut dyn Sink) {
        sink.packet(TYPES, &self.type_records());
        let mut program = about_program(start);
        program.extend_from_slice(preamble);
        sink.packet(IMPORTANTS, &program);
    }

    /// Sends all important events that were sent before to a sink that joins now.
    pub(super) fn replay(&self, sink: &mut dyn Sink) {
        self.importants.replay(sink);
    }

    fn type_records(&self) -> Vec<u8> {
        let mut records = Vec::new();
        let providers = self.providers.iter().map(|provider| provider.types());
        for declaration in [stream_events::TYPES].into_iter().chain(providers).flatten() {
            declaration.append_record(&mut records);
        }
        let programs = (0..self.program_types).filter_map(declared::registered);
        programs.for_each(|logged| logged.append_record(&mut records));
        records
    }
}

/// The events that name the program and the start of the clock.
fn about_program(start: u64) -> Vec<u8> {
    let mut about = Vec::new();
    stream_events::NEW_TRACE.append(
        &[start.into(), clock::FREQUENCY.into(), 0x524d_u32.into(), 8_u32.into()],
        &mut about,
    );
    let program = os::program_name();
    stream_events::SESSION.append(
        &[
            "Linux".into(),
            (&*text_of(program.as_encoded_bytes())).into(),
            3_u32.into(),
            5_u32.into(),
        ],
        &mut about,
    );
    about
}

/// The events, in packets of about [`PACKET`] bytes.
fn packets(events: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut packets = Vec::<Vec<u8>>::new();
    for event in events {
        match packets.last_mut().filter(|packet| packet.len() < PACKET) {
            Some(packet) => packet.extend_from_slice(event),
            None => packets.push(event.clone()),
        }
    }
    packets
}
