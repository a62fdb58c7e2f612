//! Turns the stream of the program into Perfetto's packets, on the thread of a session.
//!
//! ```text
//! worker ──► queue ──► SessionWriter ──► a sequence for each thread ──► file or ring
//! ```
//! A stream is decoded item by item, all but track events,
//! the descriptions of threads and, in a session with memory, allocations is skipped.

mod counter;
mod program;
mod stream;
mod types;

use super::active;
use super::clock::Clock;
use super::emit::{self, Form, MAX_SHORT, MAX_TEXTS};
use super::memory::{Allocated, MemoryWriter};
use super::output::Output;
use super::sequence::{Event, Sequence, Shared, Values};
use super::session::Session;
use crate::error::{Error, ErrorKind};
use crate::perfetto::config::TrackEvents;
use crate::perfetto::value::MAX_VALUES;
use crate::platform::os::{self, Instant};
use crate::trace::sink::{Shared as _, Sink};
pub(crate) use counter::EventCounter;
use memledger_format::encode::Declaration;
use memledger_format::handshake::PROTOCOL;
use memledger_format::layout::{EventLayout, StreamItem, split_item};
use memledger_format::packet::{IMPORTANTS, TYPES};
use memledger_format::protobuf::Message;
use memledger_format::protobuf::perfetto::sequence::{Moment, clocks};
use memledger_format::protobuf::perfetto::track::{Argument, Process, instant};
use memledger_format::protobuf::perfetto::{clock, packet, trace, track_event};
pub(super) use program::{ProgramEvent, ProgramType};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use stream::{OpenScope, Thread, scope_time};
use types::{TypeRole, Types};

/// The sequence of the session itself. Those of threads have the numbers of their streams.
const OWN_SEQUENCE: u32 = 1;
/// A thread that has no event for this time starts its sequence again.
const REST_EVERY: Duration = Duration::from_secs(10);
/// The index of the text among the fields of an event with one.
const TEXT_FIELD: usize = 9;

/// See the [module](self).
pub(crate) struct SessionWriter {
    types: Types,
    threads: HashMap<u16, Thread>,
    shared: Shared,
    clock: Clock,
    life: Lifetime,
    out: Out,
    memory: Option<Box<dyn MemoryWriter>>,
    session: Arc<Session>,
    /// Events since the last sync.
    events: u64,
    on_problem: fn(Error),
}

/// When what is remembered is forgotten, and when the session ends.
struct Lifetime {
    /// The times of the last two syncs: events that come now are later than the first.
    synced_ns: [u64; 2],
    cleared: Instant,
    rested: Instant,
    /// How often each sequence starts anew.
    clear_period: Option<Duration>,
    /// The session has no later events, and ends by itself; `u64::MAX` if it does not.
    ends_ns: u64,
    /// Whether it has ended by itself.
    has_ended: bool,
}

impl Lifetime {
    fn new(events: &TrackEvents) -> Self {
        let (now, now_ns) = (Instant::now(), os::since_boot());
        let nanos = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Self {
            synced_ns: [now_ns; 2],
            cleared: now,
            rested: now,
            clear_period: events.clear_period,
            ends_ns: events.duration.map_or(u64::MAX, |after| now_ns.saturating_add(nanos(after))),
            has_ended: false,
        }
    }

    /// Whether the time of the session is over, and all events before its end have come.
    fn is_over(&self) -> bool {
        self.synced_ns[0] >= self.ends_ns
    }
}

/// The packets that wait to be written, and where they go.
struct Out {
    packets: Vec<u8>,
    /// How many bytes of packets are written at once.
    write_at: usize,
    output: Output,
    failed: Option<Error>,
}

impl Out {
    fn new(output: Output) -> Self {
        Self { packets: Vec::new(), write_at: output.write_at(), output, failed: None }
    }

    #[inline]
    fn is_full(&self) -> bool {
        self.packets.len() >= self.write_at
    }

    /// Writes the packets, if nothing has failed. Returns whether the next packets must not rely on these.
    fn write(&mut self) -> bool {
        let result =
            if self.failed.is_none() { self.output.write(&self.packets) } else { Ok(false) };
        self.packets.clear();
        result.unwrap_or_else(|error| {
            self.failed = Some(error);
            false
        })
    }
}

impl SessionWriter {
    /// `types` are all types of the tracker.
    pub(crate) fn new(
        events: &TrackEvents,
        output: Output,
        memory: Option<Box<dyn MemoryWriter>>,
        session: Arc<Session>,
        on_problem: fn(Error),
        types: &[&'static [&'static Declaration]],
    ) -> Self {
        let mut writer = Self {
            types: Types::new(types, memory.is_some()),
            threads: HashMap::new(),
            life: Lifetime::new(events),
            shared: Shared {
                config: events.config.clone(),
                process: this_process(),
                wanted: Vec::new(),
                tracks: HashMap::new(),
                collisions: Vec::new(),
            },
            clock: Clock::new(),
            out: Out::new(output),
            memory,
            session,
            events: 0,
            on_problem,
        };
        writer.describe();
        writer.restart_memory();
        writer
    }

    /// Appends the packet that each part of the output begins with: what all clocks say now.
    fn describe(&mut self) {
        Message::new(&mut self.out.packets).nested(trace::PACKET, |packet| {
            packet.uint(packet::TRUSTED_PACKET_SEQUENCE_ID, OWN_SEQUENCE.into());
            clocks(packet, os::clocks());
        });
    }

    /// Takes in a piece of a thread's stream; `None` if its bytes are invalid.
    fn events(&mut self, stream: u16, payload: &[u8]) -> Option<()> {
        let mut thread = self.threads.remove(&stream).unwrap_or_else(|| Thread::new(stream));
        let mut rest = payload;
        while !rest.is_empty() {
            // PERF: an event without a text in the layout that most have.
            if let Some(wire) = rest.first_chunk()
                && thread.entering.is_none()
                && let wire = u16::from_le_bytes(*wire)
                && wire & 1 != 0
                && let Some((layout, TypeRole::TrackEvent(Form::Short(count)))) =
                    self.types.get(wire >> 1)
            {
                let (event, after) = rest.split_at_checked(layout.size())?;
                let fixed = event.get(layout.header()..)?;
                self.short(&mut thread.sequence, fixed, count, &[])?;
                rest = after;
                continue;
            }
            let mut role = TypeRole::Other;
            let layout = |uid| {
                let (layout, found) = self.types.get(uid)?;
                role = found;
                Some(layout)
            };
            let (item, bytes, after) = split_item(rest, PROTOCOL, layout)?;
            rest = after;
            match item {
                StreamItem::Event(_, layout) => {
                    self.event(&mut thread, role, layout, bytes.get(layout.header()..)?)?;
                }
                StreamItem::Piece => thread.pending.add(bytes)?,
                StreamItem::ArraysEnd => self.complete(&mut thread)?,
                StreamItem::Enter => thread.entering = Some(scope_time(bytes)),
                StreamItem::Leave => {
                    // A scope that closes before its event arrives is no slice.
                    let left = match thread.entering.take() {
                        None => thread.open.pop(),
                        Some(_) => None,
                    };
                    match left {
                        Some(OpenScope::Slice) => {
                            let at_ns =
                                scope_time(bytes).map(|cycle| self.clock.of_monotonic(cycle));
                            let when = (at_ns, self.life.synced_ns[0]);
                            thread.sequence.end(&self.shared, when, &mut self.out.packets);
                            self.events += 1;
                        }
                        Some(OpenScope::Memory) => self.change_context(&mut thread, 0),
                        _ => {}
                    }
                }
            }
        }
        self.pass_allocated(&mut thread);
        self.threads.insert(stream, thread);
        Some(())
    }

    /// An event, of which the arrays come next if it has any.
    fn event(
        &mut self,
        thread: &mut Thread,
        role: TypeRole,
        layout: EventLayout,
        fixed: &[u8],
    ) -> Option<()> {
        let opens = thread.entering.is_some();
        if opens {
            let scope = match role {
                TypeRole::Program(_) => OpenScope::Slice,
                TypeRole::MemoryScope => OpenScope::Memory,
                _ => OpenScope::Other,
            };
            thread.open.push(scope);
            if scope != OpenScope::Slice {
                thread.entering = None;
            }
        }
        match role {
            TypeRole::TrackEvent(Form::Short(count)) => {
                return self.short(&mut thread.sequence, fixed, count, &[]);
            }
            TypeRole::Lost => {
                let lost = u64::from_le_bytes(*fixed.get(4..12)?.first_chunk()?);
                self.lost(u32::from_le_bytes(*fixed.first_chunk()?), lost);
                return Some(());
            }
            TypeRole::Allocation => return thread.allocated.add(fixed),
            TypeRole::LargeSize => return thread.allocated.enlarge(fixed),
            TypeRole::ReallocFailed => {
                thread.allocated.take_back();
                return Some(());
            }
            TypeRole::MemoryScope => {
                self.change_context(thread, u32::from_le_bytes(*fixed.first_chunk()?));
                return Some(());
            }
            _ => {}
        }
        thread.pending.begin(role, opens, fixed);
        if layout.has_arrays { Some(()) } else { self.complete(thread) }
    }

    /// What the thread allocates from here on is in another context.
    fn change_context(&mut self, thread: &mut Thread, context: u32) {
        self.pass_allocated(thread);
        thread.allocated.context = context;
    }

    /// Passes on what the thread has allocated in its context.
    fn pass_allocated(&mut self, thread: &mut Thread) {
        if let Some(memory) = &mut self.memory
            && let Some(sum) = thread.allocated.take()
        {
            let context = thread.allocated.context;
            memory.allocated(thread.sequence.thread(), context, sum, &mut self.out.packets);
        }
    }

    /// An event with one text at most.
    fn short(
        &mut self,
        sequence: &mut Sequence,
        fixed: &[u8],
        count: usize,
        texts: &[&[u8]],
    ) -> Option<()> {
        let (head, words) = fixed.split_first_chunk::<16>()?;
        let kinds = u32::from_le_bytes(*head.last_chunk()?).into();
        let values = Values { kinds, words: words.get(..8 * count)?, texts };
        self.track_event(sequence, head, values)
    }

    /// The pending event is whole.
    fn complete(&mut self, thread: &mut Thread) -> Option<()> {
        let Thread { sequence, pending, entering, .. } = thread;
        match std::mem::replace(&mut pending.role, TypeRole::Other) {
            TypeRole::ThreadStart => {
                let thread = u32::from_le_bytes(*pending.fixed.first_chunk()?);
                let tid = u32::from_le_bytes(*pending.fixed.get(4..8)?.first_chunk()?);
                let name = String::from_utf8_lossy(pending.array(2)).into_owned();
                sequence.set_thread(thread, tid, name);
            }
            TypeRole::TrackEvent(Form::Text) => {
                let text = [pending.array(TEXT_FIELD)];
                self.short(sequence, &pending.fixed, MAX_SHORT, &text)?;
            }
            TypeRole::TrackEvent(_) => {
                let kinds = pending.array(2).iter().take(MAX_VALUES);
                let mut texts = [&[][..]; MAX_TEXTS];
                (4..).zip(&mut texts).for_each(|(field, text)| *text = pending.array(field));
                let kinds = kinds.rfold(0, |kinds, kind| kinds << 4 | u128::from(kind & 0xf));
                let values = Values { kinds, words: pending.array(3), texts: &texts };
                self.track_event(sequence, &pending.fixed, values)?;
            }
            TypeRole::Program(index) => {
                let known = self.types.program(index)?;
                let cycle = if pending.opens { entering.take().flatten() } else { None };
                let at_ns = cycle.map(|cycle| self.clock.of_monotonic(cycle));
                let event = ProgramEvent { fixed: &pending.fixed, arrays: &pending.arrays };
                let when = (at_ns, self.life.synced_ns[0]);
                let out = &mut self.out.packets;
                sequence.program_event(&self.shared, (known, event, pending.opens), when, out);
                self.events += 1;
                if self.out.is_full() {
                    self.write(Some(sequence));
                }
            }
            _ => {}
        }
        Some(())
    }

    fn track_event(
        &mut self,
        sequence: &mut Sequence,
        head: &[u8],
        values: Values<'_>,
    ) -> Option<()> {
        let (ticks, head) = head.split_first_chunk()?;
        let (ticks, number) =
            (u64::from_le_bytes(*ticks), u32::from_le_bytes(*head.first_chunk()?));
        let at_ns = self.clock.nanos(ticks);
        if at_ns >= self.life.ends_ns {
            return Some(());
        }
        // PERF: most events are like one before.
        if sequence.plain_event((at_ns, number), values, &mut self.out.packets) {
            self.events += 1;
            if self.out.is_full() {
                self.write(Some(sequence));
            }
            return Some(());
        }
        let site = emit::site(number)?;
        let index = number as usize;
        if self.shared.wanted.len() <= index {
            self.shared.wanted.resize(index + 1, None);
        }
        let config = &self.shared.config;
        let is_wanted = self.shared.wanted.get_mut(index)?.get_or_insert_with(|| {
            active::is_dynamic(site.category) || config.enables(site.category)
        });
        if !*is_wanted {
            return Some(());
        }
        let event = Event { at_ns, number, site, values };
        let written = sequence.event(&mut self.shared, &event, &mut self.out.packets);
        self.events += u64::from(written.is_some());
        if !self.shared.collisions.is_empty() {
            for collision in self.shared.collisions.drain(..) {
                (self.on_problem)(Error::new(ErrorKind::InvalidSession, collision));
            }
        }
        if written == Some(true) || self.out.is_full() {
            self.write(Some(sequence));
        }
        Some(())
    }

    /// Events of a thread, 0 for threads without a number, could not be recorded.
    fn lost(&mut self, thread: u32, lost: u64) {
        self.sequences().for_each(|sequence| sequence.note_loss(thread));
        self.count_lost(lost);
    }

    /// States that events are missing here.
    fn count_lost(&mut self, lost: u64) {
        self.session.lost.fetch_add(lost, Ordering::Relaxed);
        let (at_ns, process) = (os::since_boot(), self.shared.process.uuid);
        Message::new(&mut self.out.packets).nested(trace::PACKET, |packet| {
            packet.uint(packet::TIMESTAMP, at_ns);
            packet.uint(packet::TIMESTAMP_CLOCK_ID, clock::BOOTTIME);
            packet.uint(packet::TRUSTED_PACKET_SEQUENCE_ID, OWN_SEQUENCE.into());
            packet.nested(packet::TRACK_EVENT, |event| {
                event.text(track_event::CATEGORIES, "memledger");
                instant(event, process, "events lost", &[("events", Argument::Number(lost))]);
            });
        });
    }

    fn sequences(&mut self) -> impl Iterator<Item = &mut Sequence> {
        self.threads.values_mut().map(|thread| &mut thread.sequence)
    }

    fn restart_memory(&mut self) {
        if let Some(memory) = &mut self.memory {
            memory.restart(now(), &mut self.out.packets);
        }
    }

    /// Writes the packets that are waiting. `current` is the sequence that is not in the table.
    fn write(&mut self, current: Option<&mut Sequence>) {
        if !self.out.packets.is_empty() && self.out.write() {
            self.sequences().chain(current).for_each(Sequence::reset);
            self.describe();
            self.restart_memory();
        }
    }
}

fn now() -> Moment {
    let at_ns = os::since_boot();
    Moment { at_ns, asleep_ns: at_ns.saturating_sub(os::now()) }
}

impl Sink for SessionWriter {
    fn packet(&mut self, stream: u16, payload: &[u8]) {
        if stream == TYPES || stream == IMPORTANTS || self.is_done() {
            return;
        }
        self.types.learn(&self.shared.config);
        self.clock.compare_if_due();
        if self.out.failed.is_none() && self.events(stream, payload).is_none() {
            self.out.failed = Some(Error::new(
                ErrorKind::Internal,
                format!(
                    "the tracker cannot read {} bytes of stream {stream}, so the session ends here",
                    payload.len()
                ),
            ));
        }
    }

    fn sync(&mut self) -> Result<(), Error> {
        if self.life.is_over() && !std::mem::replace(&mut self.life.has_ended, true) {
            let result = self.finish();
            self.session.disable();
            return result.and(self.session.end());
        }
        if let Some(memory) = &mut self.memory {
            memory.sync(now(), &mut self.out.packets);
        }
        self.write(None);
        self.session.events.fetch_add(std::mem::take(&mut self.events), Ordering::Relaxed);
        if self.life.rested.elapsed() >= REST_EVERY {
            self.life.rested = Instant::now();
            self.sequences().for_each(Sequence::rest);
        }
        self.life.synced_ns = [self.life.synced_ns[1], os::since_boot()];
        if let Some(period) = self.life.clear_period
            && self.life.cleared.elapsed() >= period
        {
            self.life.cleared = Instant::now();
            self.sequences().for_each(Sequence::reset);
            self.restart_memory();
        }
        self.out.failed.take().map_or(Ok(()), Err)
    }

    fn finish(&mut self) -> Result<(), Error> {
        if let Some(mut memory) = self.memory.take() {
            memory.finish(now(), &mut self.out.packets);
        }
        let result = self.sync();
        self.out.output.close();
        result
    }

    fn written(&self) -> u64 {
        self.out.output.written()
    }

    fn gap(&mut self, events: u64) {
        // Each stream continues with the description of its thread, and the scopes that are open on it.
        let mut unfinished = 0;
        for thread in self.threads.values_mut() {
            let role = thread.pending.role;
            unfinished += u64::from(matches!(role, TypeRole::TrackEvent(_) | TypeRole::Program(_)));
            thread.sequence.note_gap();
            thread.pending.role = TypeRole::Other;
            (thread.entering, thread.allocated) = (None, Allocated::default());
            thread.open.clear();
        }
        self.count_lost(events + unfinished);
    }

    fn is_done(&self) -> bool {
        self.life.has_ended
    }
}

fn this_process() -> Process {
    let command = std::env::args_os().map(|text| text.to_string_lossy().into_owned());
    let command = command.take(64).collect::<Vec<_>>();
    Process {
        pid: os::process_id(),
        uuid: crate::perfetto::Track::process().uuid,
        name: command.first().cloned().unwrap_or_default(),
        command,
    }
}
