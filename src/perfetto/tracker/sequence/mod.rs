//! The packets of one thread in one session.
//!
//! A sequence starts, and starts again after [`reset`](Sequence::reset), with three packets that say
//! what all others take for granted:
//!
//! ```text
//! 1  state cleared │ defaults: clock, the thread's track │ clocks
//! 2  the thread's track      3  the process's track
//! then  [descriptor of a track, once each]  event │ texts that it is the first to name
//! ```
//! Later packets have numbers for texts, and the distance to the time before. So a reader that has
//! the packets since a reset understands them all.

mod extras;
mod interner;
mod known_tracks;
mod plain;
mod shared;
mod values;

use super::active;
use super::writer::{ProgramEvent, ProgramType};
use crate::perfetto::config::TrackEventConfig;
use crate::perfetto::site::{EventKind, Role, Site};
use crate::perfetto::value::kind;
use extras::{Described, Descriptors, Extras, count, extras_of, fields, skip_to_end};
use interner::Interner;
use known_tracks::KnownTracks;
use memledger_format::protobuf::perfetto::sequence::{self as packets, Time};
use memledger_format::protobuf::perfetto::{
    clock, debug_annotation, interned_data, packet, trace, track_event,
};
use memledger_format::protobuf::{Message, Prepared};
use plain::Plain;
pub(super) use shared::Shared;
use std::collections::HashSet;
use std::num::NonZeroU64;
use values::Value;
pub(super) use values::Values;

/// The most bytes of texts and descriptors that a sequence remembers; then it starts again.
const MAX_REMEMBERED: usize = 4 << 20;

/// An event as its thread has written it.
pub(super) struct Event<'a> {
    /// Nanoseconds since the system was started.
    pub(super) at_ns: u64,
    pub(super) number: u32,
    pub(super) site: &'static Site,
    pub(super) values: Values<'a>,
}

/// What a sequence knows of a site since its last reset.
struct KnownSite {
    category: u64,
    name: u64,
    /// The fields that all its events begin with: type, category and name. `None` if these are not always the
    /// same.
    head: Option<Prepared>,
    /// How its events are written, if they differ in few things only.
    plain: Option<Plain>,
    /// The numbers of the names of arguments, in the order of the site's roles.
    arguments: Vec<u64>,
}

/// See the [module](self).
pub(super) struct Sequence {
    /// Its packets. Where they start again, three precede the next one.
    packets: packets::Sequence,
    /// The tracker's number of the thread, 0 before it is known.
    thread: u32,
    tid: u32,
    name: String,
    /// Packets or events of this sequence are missing before the next packet.
    dropped: bool,
    is_first: bool,
    /// Whether there was an event since the last call of `rest`.
    is_busy: bool,
    known: SentState,
}

/// What a sequence has said since it began.
#[derive(Default)]
struct SentState {
    interner: Interner,
    sites: Vec<Option<KnownSite>>,
    categories: HashSet<u64>,
    tracks: KnownTracks,
}

impl Sequence {
    pub(super) fn new(id: u32) -> Self {
        Self {
            packets: packets::Sequence::new(id),
            thread: 0,
            tid: 0,
            name: String::new(),
            dropped: false,
            is_first: true,
            is_busy: false,
            known: SentState::default(),
        }
    }

    pub(super) fn set_thread(&mut self, thread: u32, tid: u32, name: String) {
        self.thread = thread;
        if (self.tid, &self.name) != (tid, &name) {
            (self.tid, self.name) = (tid, name);
            self.packets.restart();
        }
    }

    /// The tracker's number of the thread, its id in the system, and its name.
    pub(super) fn thread(&self) -> (u32, u32, &str) {
        (self.thread, self.tid, &self.name)
    }

    /// Makes the next packet independent of those before.
    pub(super) fn reset(&mut self) {
        self.packets.restart();
    }

    /// Forgets what was written, unless there was an event since the last call: the tables of threads that
    /// are idle, or have ended, would take memory. The next packet starts the sequence again.
    pub(super) fn rest(&mut self) {
        if !std::mem::take(&mut self.is_busy) && self.packets.has_begun() {
            self.packets.restart();
            self.known = SentState::default();
        }
    }

    /// Events of a thread are missing before its next packet. A reader skips what relies on packets
    /// before a loss, so the sequence starts again.
    pub(super) fn note_loss(&mut self, thread: u32) {
        if thread == self.thread {
            self.note_gap();
        }
    }

    /// Packets of the stream are missing, so events of its thread can be.
    pub(super) fn note_gap(&mut self) {
        self.dropped = true;
        self.packets.restart();
    }

    /// Appends the packet of an event whose site is known, and of which nothing has to be said first. Returns
    /// whether it was one.
    #[inline]
    pub(super) fn plain_event(
        &mut self,
        (at_ns, number): (u64, u32),
        values: Values<'_>,
        out: &mut Vec<u8>,
    ) -> bool {
        if !self.packets.has_begun() || self.known.interner.bytes > MAX_REMEMBERED {
            return false;
        }
        let SentState { sites, tracks, .. } = &mut self.known;
        let known = sites.get(number as usize).and_then(Option::as_ref);
        let Some(plain) = known.and_then(|known| known.plain.as_ref()) else { return false };
        let Some(track) = plain.track(values, tracks) else { return false };
        self.is_busy = true;
        let at_ns = self.packets.advance(at_ns);
        let time = self.packets.time(at_ns);
        self.packets.timed(out, time, |packet| {
            packet.nested(packet::TRACK_EVENT, |event| plain.write(track, values, event));
        });
        true
    }

    /// Appends the packets of an event. Returns whether the program asked for a flush; `None` if the session
    /// does not want the event's own category.
    pub(super) fn event(
        &mut self,
        shared: &mut Shared,
        event: &Event<'_>,
        out: &mut Vec<u8>,
    ) -> Option<bool> {
        self.forget_if_full();
        // The clocks are compared now and then, so times can differ a little from what they were
        // meanwhile; they never go back.
        let at_ns = self.packets.not_before(event.at_ns);
        let (process, thread) = (shared.process.uuid, shared.process.uuid ^ u64::from(self.tid));
        let mut descriptors = Descriptors { known: &mut self.known.tracks, new: Vec::new() };
        let extras = extras_of(event, thread, process, &mut descriptors);
        let descriptors = descriptors.new;
        if let Some(category) = extras.category
            && !shared.config.enables_name(&String::from_utf8_lossy(category), &[])
        {
            return None;
        }
        self.packets.advance(at_ns);
        self.start_if_needed(shared, at_ns, out);
        for described in descriptors {
            self.describe(shared, described, out);
        }
        let time = self.time(at_ns, extras.timestamp);
        self.packet(time, out, |known, message| known.body(event, &extras, message));
        Some(extras.flush)
    }

    /// Appends the packet of an event of `log!`, which begins a slice if it opens a scope.
    pub(super) fn program_event(
        &mut self,
        shared: &Shared,
        (known, event, opens): (&ProgramType, ProgramEvent<'_>, bool),
        when: (Option<u64>, u64),
        out: &mut Vec<u8>,
    ) {
        let time = self.untimed(shared, when, out);
        self.packet(time, out, |SentState { interner, .. }, message| {
            let kind = if opens { EventKind::SliceBegin } else { EventKind::Instant };
            message.uint(track_event::TYPE, kind as u64);
            for category in &known.categories {
                let list = interned_data::EVENT_CATEGORIES;
                let id = interner.id(list, category.as_bytes());
                message.uint(track_event::CATEGORY_IIDS, id);
            }
            let name = known.name_of(event);
            let name = interner.id(interned_data::EVENT_NAMES, name.as_bytes());
            message.uint(track_event::NAME_IID, name);
            known.arguments(event, message, |name| {
                interner.id(interned_data::DEBUG_ANNOTATION_NAMES, name.as_bytes())
            });
        });
    }

    /// Appends the end of a slice that [`program_event`](Self::program_event) has begun.
    pub(super) fn end(&mut self, shared: &Shared, when: (Option<u64>, u64), out: &mut Vec<u8>) {
        let time = self.untimed(shared, when, out);
        self.packet(time, out, |_, message| {
            message.uint(track_event::TYPE, EventKind::SliceEnd as u64);
        });
    }

    /// The time of an event that may have none: then it is the last one of its thread, or `floor_ns` if that
    /// is later.
    fn untimed(
        &mut self,
        shared: &Shared,
        (at_ns, floor_ns): (Option<u64>, u64),
        out: &mut Vec<u8>,
    ) -> Time {
        let at_ns = match at_ns {
            Some(at_ns) => self.packets.advance(at_ns),
            None => self.packets.not_before(floor_ns),
        };
        self.forget_if_full();
        self.start_if_needed(shared, at_ns, out);
        self.packets.time(at_ns)
    }

    /// Appends a packet with an event, whose fields `write` appends.
    fn packet(
        &mut self,
        time: Time,
        out: &mut Vec<u8>,
        write: impl FnOnce(&mut SentState, &mut Message<'_>),
    ) {
        self.is_busy = true;
        let Self { packets, known, .. } = self;
        packets.timed(out, time, |packet| {
            packet.nested(packet::TRACK_EVENT, |message| write(known, message));
            if !known.interner.fresh.is_empty() {
                packet.bytes(packet::INTERNED_DATA, &known.interner.fresh);
                known.interner.fresh.clear();
            }
        });
    }

    /// Starts again where too much is remembered. What is known of tracks is forgotten before the tracks of
    /// the next event are looked at.
    fn forget_if_full(&mut self) {
        if !self.packets.has_begun() || self.known.interner.bytes > MAX_REMEMBERED {
            self.packets.restart();
            self.known.tracks.clear();
        }
    }

    fn start_if_needed(&mut self, shared: &Shared, at_ns: u64, out: &mut Vec<u8>) {
        if !self.packets.has_begun() {
            self.start(shared, at_ns, out);
        }
    }

    /// The time of an event, and its clock if that is not the default.
    fn time(&mut self, at_ns: u64, custom: Option<(u64, u64)>) -> Time {
        match custom {
            None => self.packets.time(at_ns),
            Some((clock, time)) if [clock::OF_SEQUENCE, self.packets.clock()].contains(&clock) => {
                self.packets.time(time)
            }
            Some((clock, time)) => (time, Some(clock)),
        }
    }

    /// Appends the three packets that a sequence starts with.
    fn start(&mut self, shared: &Shared, at_ns: u64, out: &mut Vec<u8>) {
        let Self { packets, is_first, dropped, tid, name, .. } = self;
        let (config, process) = (&shared.config, &shared.process);
        let thread = process.uuid ^ u64::from(*tid);
        self.known = SentState::default();
        packets.begin(config.clock(), config.unit_ns(), at_ns);
        let time = packets.time(at_ns);
        packets.first(out, time, |packet| {
            let is_first = std::mem::take(is_first);
            if is_first {
                packet.flag(packet::FIRST_PACKET_ON_SEQUENCE, true);
            }
            if std::mem::take(dropped) || is_first {
                packet.uint(packet::PREVIOUS_PACKET_DROPPED, 1);
            }
            packets.defaults(packet, thread, at_ns);
        });
        packets.timed(out, time, |packet| {
            packet.nested(packet::TRACK_DESCRIPTOR, |track| {
                process.describe_thread(track, thread, *tid, name);
            });
        });
        packets.timed(out, time, |packet| {
            packet.nested(packet::TRACK_DESCRIPTOR, |track| process.describe(track));
        });
    }

    /// Appends the descriptor of a track, once: of two with one uuid the first one's. It has neither a time
    /// nor flags.
    fn describe(
        &mut self,
        shared: &mut Shared,
        (uuid, other, descriptor): Described,
        out: &mut Vec<u8>,
    ) {
        if self.known.tracks.insert(uuid, other) {
            self.known.interner.bytes += descriptor.len() + 64;
            Message::new(out).nested(trace::PACKET, |packet| {
                packet.uint(packet::TRUSTED_PACKET_SEQUENCE_ID, self.packets.id().into());
                packet.bytes(packet::TRACK_DESCRIPTOR, &descriptor);
            });
        }
        shared.compare(uuid, descriptor);
    }
}

impl TrackEventConfig {
    fn clock(&self) -> u64 {
        match (self.absolute_timestamps, self.unit_ns()) {
            (false, _) => clock::OF_SEQUENCE,
            (true, 1) => clock::BOOTTIME,
            (true, _) => clock::OF_SEQUENCE_IN_UNITS,
        }
    }

    /// The unit of times, in nanoseconds.
    fn unit_ns(&self) -> u64 {
        self.timestamp_unit_ns.map_or(1, NonZeroU64::get)
    }
}

impl SentState {
    /// The fields of `TrackEvent`.
    #[inline]
    fn body(&mut self, event: &Event<'_>, extras: &Extras<'_>, out: &mut Message<'_>) {
        let site = event.site;
        let index = event.number as usize;
        if self.sites.len() <= index {
            self.sites.resize_with(index + 1, || None);
        }
        if self.sites.get(index).is_none_or(Option::is_none) {
            let known = self.learn(event);
            if let Some(place) = self.sites.get_mut(index) {
                *place = Some(known);
            }
        }
        let Self { sites, interner, .. } = self;
        let Some(known) = sites.get(index).and_then(Option::as_ref) else { return };
        match &known.head {
            Some(head) => out.prepared(head),
            None => varying_head(known, event, extras, interner, out),
        }
        if let Some(uuid) = extras.track {
            out.uint(track_event::TRACK_UUID, uuid);
        }
        let mut values = event.values;
        let mut arguments = known.arguments.iter();
        let mut roles = site.roles;
        while let Some((role, rest)) = roles.split_first() {
            roles = rest;
            match *role {
                Role::Arg(_) => {
                    argument(arguments.next().copied().unwrap_or(0), values.next(), out);
                }
                Role::NamedArg => {
                    let name = values.next().text;
                    let name = interner.id(interned_data::DEBUG_ANNOTATION_NAMES, name);
                    argument(name, values.next(), out);
                }
                Role::Count => count(values.next(), site.kind, out),
                Role::Flow => out.fixed64(track_event::FLOW_IDS, values.next().word),
                Role::TerminatingFlow => {
                    out.fixed64(track_event::TERMINATING_FLOW_IDS, values.next().word)
                }
                Role::Correlation => match values.next() {
                    Value { kind: kind::TEXT, text, .. } => {
                        let text = String::from_utf8_lossy(text);
                        out.text(track_event::CORRELATION_ID_STR, &text);
                    }
                    number => out.uint(track_event::CORRELATION_ID, number.word),
                },
                Role::ProtoTrack | Role::Nested => {
                    values.skip(role.values());
                    roles = skip_to_end(roles, &mut values);
                }
                Role::Field(_) | Role::InternedField(..) | Role::Message(_) => {
                    roles = fields(*role, roles, &mut values, interner, out);
                }
                _ => values.skip(role.values()),
            }
        }
    }

    /// Gives numbers to the texts of a site.
    fn learn(&mut self, event: &Event<'_>) -> KnownSite {
        let site = event.site;
        let name = match site.name {
            Some(name) if !site.roles.contains(&Role::NoIntern) => {
                self.interner.id(interned_data::EVENT_NAMES, name.as_bytes())
            }
            _ => 0,
        };
        let arguments = site.roles.iter().filter_map(|role| match role {
            Role::Arg(name) => {
                Some(self.interner.id(interned_data::DEBUG_ANNOTATION_NAMES, name.as_bytes()))
            }
            _ => None,
        });
        let arguments = arguments.collect::<Vec<_>>();
        let category = active::number_of(site.category).map_or(0, |number| number as u64 + 1);
        if is_named(site.kind)
            && !site.roles.contains(&Role::DynamicCategory)
            && self.categories.insert(category)
        {
            self.interner.add(
                interned_data::EVENT_CATEGORIES,
                category,
                site.category.name().as_bytes(),
            );
        }
        let is_constant =
            |role: &Role| !matches!(role, Role::Name | Role::DynamicCategory | Role::NoIntern);
        let head = site.roles.iter().all(is_constant).then(|| {
            Prepared::new(|message| {
                message.uint(track_event::TYPE, site.kind as u64);
                if is_named(site.kind) {
                    message.uint(track_event::CATEGORY_IIDS, category);
                    message.nonzero(track_event::NAME_IID, name);
                }
            })
        });
        let plain = head.and_then(|head| Plain::of(site, head, &arguments, event.values));
        KnownSite { category, name, head, plain, arguments }
    }
}

/// Writes an argument, whose name has this number; 0 if it has none.
#[inline]
fn argument(name: u64, value: Value<'_>, out: &mut Message<'_>) {
    out.nested(track_event::DEBUG_ANNOTATIONS, |annotation| {
        annotation.nonzero(debug_annotation::NAME_IID, name);
        value.annotation(annotation);
    });
}

/// Writes the type, the category and the name of an event that has its own.
fn varying_head(
    known: &KnownSite,
    event: &Event<'_>,
    extras: &Extras<'_>,
    interner: &mut Interner,
    out: &mut Message<'_>,
) {
    let site = event.site;
    out.uint(track_event::TYPE, site.kind as u64);
    if !is_named(site.kind) {
        return;
    }
    match extras.category {
        Some(category) => out.bytes(track_event::CATEGORIES, category),
        None => out.uint(track_event::CATEGORY_IIDS, known.category),
    }
    match (extras.name, site.name) {
        (Some(name), _) if extras.no_intern => out.bytes(track_event::NAME, name),
        (None, Some(name)) if extras.no_intern => out.text(track_event::NAME, name),
        (Some(name), _) => {
            out.uint(track_event::NAME_IID, interner.id(interned_data::EVENT_NAMES, name));
        }
        (None, _) => out.nonzero(track_event::NAME_IID, known.name),
    }
}

/// Whether events of this kind have a name and categories.
fn is_named(kind: EventKind) -> bool {
    !matches!(kind, EventKind::SliceEnd | EventKind::Counter)
}
