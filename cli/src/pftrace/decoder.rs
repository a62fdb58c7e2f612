//! From packets to events: times, names and callstacks, as the state of each sequence has them.

use super::framing::{Frame, Framing};
use super::message::{Message, Value};
use super::schema::{EVENT_TYPES, TRACE_PACKET};
use flate2::read::{DeflateDecoder, ZlibDecoder};
use std::collections::{BTreeMap, HashMap};
use std::io::{self, Read};

/// The numbers of the fields that are followed.
pub mod field {
    pub const CLOCK_SNAPSHOT: u32 = 6;
    pub const TIMESTAMP: u32 = 8;
    pub const SEQUENCE: u32 = 10;
    pub const TRACK_EVENT: u32 = 11;
    pub const INTERNED_DATA: u32 = 12;
    pub const SEQUENCE_FLAGS: u32 = 13;
    pub const PROFILE_PACKET: u32 = 37;
    pub const STATE_CLEARED: u32 = 41;
    pub const PACKET_DROPPED: u32 = 42;
    pub const DEFLATED: u32 = 50;
    pub const CLOCK_ID: u32 = 58;
    pub const DEFAULTS: u32 = 59;
    pub const TRACK_DESCRIPTOR: u32 = 60;
    pub const FIRST_ON_SEQUENCE: u32 = 87;
    pub const ZSTD: u32 = 133;
}

/// Fields that say something of a packet, not what it contains.
const AROUND: &[u32] = &[3, 8, 10, 12, 13, 41, 42, 58, 59, 79, 87, 98];

/// The most bytes that compressed packets of one packet are.
const MAX_INFLATED: u64 = 1 << 30;

/// A packet with what is known of it.
#[derive(Debug, Default)]
pub struct Packet {
    /// Where it begins in the file; of a compressed one, where the packet begins that contains it.
    pub offset: u64,
    pub bytes: usize,
    /// What it contains: the name of the field, or its number.
    pub kind: String,
    pub sequence: u64,
    /// In nanoseconds of the clock that its time refers to; `None` if the packet has no time.
    pub at_ns: Option<u64>,
    pub message: Message,
    pub event: Option<TrackEvent>,
    /// Why a reader cannot use all of it.
    pub losses: Vec<Loss>,
    pub is_compressed: bool,
}

/// Why a reader cannot use a packet, or not all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Loss {
    /// Packets before it on its sequence were dropped.
    DroppedBefore,
    /// It needs the state of its sequence, which no earlier packet began, or which is lost.
    NoState,
    /// It has a number of a name or a callstack that was not defined.
    Unresolved,
    /// Its clock is unknown.
    UnknownClock,
    /// Some of its bytes cannot be read.
    Damaged,
}

impl Loss {
    pub fn name(self) -> &'static str {
        match self {
            Self::DroppedBefore => "previous_packet_dropped",
            Self::NoState => "incremental_state_missing",
            Self::Unresolved => "unresolved_iid",
            Self::UnknownClock => "unknown_clock",
            Self::Damaged => "damaged",
        }
    }
}

/// A track event, with its names.
#[derive(Debug, Default)]
pub struct TrackEvent {
    pub kind: String,
    pub name: Option<String>,
    pub categories: Vec<String>,
    pub track: Option<u64>,
    pub arguments: Vec<(String, Argument)>,
    pub counter: Option<Value>,
    pub flows: Vec<u64>,
    pub terminating_flows: Vec<u64>,
    pub correlation: Option<Value>,
    /// Outermost first.
    pub callstack: Vec<String>,
}

/// The value of an argument.
#[derive(Debug)]
pub enum Argument {
    Value(Value),
    Dictionary(Vec<(String, Argument)>),
    List(Vec<Argument>),
}

/// A track, as its descriptor has it.
#[derive(Clone, Debug, Default)]
pub struct Track {
    pub name: String,
    pub parent: Option<u64>,
    pub process: Option<(i64, String)>,
    pub thread: Option<(i64, i64, String)>,
    pub is_counter: bool,
}

/// What packets of a sequence refer to.
#[derive(Debug, Default)]
struct Sequence {
    is_valid: bool,
    /// By the field of the interned data, and the number.
    interned: HashMap<(u32, u64), Message>,
    clocks: HashMap<u64, Clock>,
    default_clock: Option<u64>,
    default_track: Option<u64>,
}

#[derive(Debug)]
struct Clock {
    now: u64,
    is_incremental: bool,
    unit: u64,
}

/// What a file says, in its order.
pub enum Item {
    Packet(Box<Packet>),
    Damage { offset: u64, bytes: u64, what: &'static str },
}

/// Follows the state of all sequences.
#[derive(Debug, Default)]
pub struct Decoder {
    sequences: HashMap<u64, Sequence>,
    pub tracks: BTreeMap<u64, Track>,
}

impl Decoder {
    /// Reads all packets and gives them to `visit`, until that is `false`. Returns the number of bytes.
    pub fn read(
        &mut self,
        source: impl Read,
        visit: &mut dyn FnMut(&Self, Item) -> bool,
    ) -> (u64, Option<io::Error>) {
        let mut framing = Framing::new(source);
        while let Some(frame) = framing.next() {
            let is_wanted = match frame {
                Frame::Damage { offset, bytes, what } => {
                    visit(self, Item::Damage { offset, bytes, what })
                }
                Frame::Packet { offset, range } => {
                    self.bytes(framing.bytes(&range), offset, false, visit)
                }
            };
            if !is_wanted {
                break;
            }
        }
        (framing.offset(), framing.error)
    }

    /// Decodes a packet, and those that are compressed in it.
    fn bytes(
        &mut self,
        bytes: &[u8],
        offset: u64,
        is_compressed: bool,
        visit: &mut dyn FnMut(&Self, Item) -> bool,
    ) -> bool {
        let message = Message::decode(bytes, &TRACE_PACKET);
        let compressed: Vec<_> = [field::DEFLATED, field::ZSTD]
            .into_iter()
            .flat_map(|number| message.all(number).map(move |value| (number, value)))
            .filter_map(|(number, value)| match value {
                Value::Bytes(bytes) => Some((number, bytes.clone())),
                _ => None,
            })
            .collect();
        let packet = self.packet(message, offset, bytes.len(), is_compressed);
        if !visit(self, Item::Packet(Box::new(packet))) {
            return false;
        }
        if is_compressed {
            return true;
        }
        for (number, bytes) in compressed {
            let source = inflated(number, &bytes);
            let mut framing = Framing::new(source.take(MAX_INFLATED));
            while let Some(frame) = framing.next() {
                let is_wanted = match frame {
                    Frame::Damage { bytes, .. } => {
                        let what = "compressed packets cannot be read";
                        visit(self, Item::Damage { offset, bytes, what })
                    }
                    Frame::Packet { range, .. } => {
                        self.bytes(framing.bytes(&range), offset, true, visit)
                    }
                };
                if !is_wanted {
                    return false;
                }
            }
            if framing.error.is_some() {
                let what = "compressed packets cannot be read";
                if !visit(self, Item::Damage { offset, bytes: 0, what }) {
                    return false;
                }
            }
        }
        true
    }

    fn packet(
        &mut self,
        message: Message,
        offset: u64,
        bytes: usize,
        is_compressed: bool,
    ) -> Packet {
        let sequence = message.number(field::SEQUENCE).unwrap_or(0);
        let mut losses = Vec::new();
        let mut is_damaged = false;
        message.walk("", &mut |_, message| is_damaged |= message.unread_bytes > 0);
        if is_damaged {
            losses.push(Loss::Damaged);
        }
        let state = self.sequences.entry(sequence).or_default();
        state.update(&message, &mut losses);
        let at_ns = state.time(&message, &mut losses);
        for descriptor in message.messages(field::TRACK_DESCRIPTOR) {
            if let Some(uuid) = descriptor.number(1) {
                self.tracks.insert(uuid, track(descriptor));
            }
        }
        let mut resolver = Resolver { state, is_unresolved: false };
        let event = message.message(field::TRACK_EVENT).map(|event| resolver.event(event));
        for dump in message.messages(field::PROFILE_PACKET).flat_map(|profile| profile.messages(5))
        {
            for sample in dump.messages(2) {
                resolver.find(7, sample.number(1).unwrap_or(0));
            }
        }
        if resolver.is_unresolved {
            losses.push(Loss::Unresolved);
        }
        let content = message.fields.iter().find(|field| !AROUND.contains(&field.0));
        let content = content.or_else(|| message.fields.iter().find(|field| field.0 == 12));
        let kind = match content {
            Some((_, Some(name), _)) => (*name).to_owned(),
            Some((number, None, _)) => format!("#{number}"),
            None => "empty".to_owned(),
        };
        Packet { offset, bytes, kind, sequence, at_ns, message, event, losses, is_compressed }
    }

    /// The track, and those around it, up to one that has a thread or a process.
    pub fn around(&self, track: u64) -> impl Iterator<Item = &Track> {
        let mut next = Some(track);
        let mut left = 64;
        std::iter::from_fn(move || {
            left -= 1;
            let track = self.tracks.get(&next.filter(|_| left > 0)?)?;
            next = track.parent;
            Some(track)
        })
    }
}

/// The bytes of compressed packets.
fn inflated<'a>(number: u32, bytes: &'a [u8]) -> Box<dyn Read + 'a> {
    if number == field::ZSTD {
        return match zstd::stream::read::Decoder::new(bytes) {
            Ok(decoder) => Box::new(decoder),
            Err(_) => Box::new(io::empty()),
        };
    }
    // A header of zlib: its two bytes are a multiple of 31.
    let has_header = matches!(bytes, [first, second, ..]
        if first & 15 == 8 && u16::from_be_bytes([*first, *second]) % 31 == 0);
    match has_header {
        true => Box::new(ZlibDecoder::new(bytes)),
        false => Box::new(DeflateDecoder::new(bytes)),
    }
}

fn track(descriptor: &Message) -> Track {
    let name = [2, 10, 13].into_iter().find_map(|field| descriptor.text(field));
    let process = descriptor.message(3).map(|process| {
        let pid = process.number(1).unwrap_or(0) as i64;
        (pid, process.text(6).or(process.text(2)).unwrap_or_default().to_owned())
    });
    let thread = descriptor.message(4).map(|thread| {
        let number = |field| thread.number(field).unwrap_or(0) as i64;
        (number(1), number(2), thread.text(5).unwrap_or_default().to_owned())
    });
    let own = match (&process, &thread) {
        (_, Some((_, tid, name))) if name.is_empty() => format!("thread {tid}"),
        (_, Some((.., name))) | (Some((_, name)), _) => name.clone(),
        _ => String::new(),
    };
    Track {
        name: name.map_or(own, str::to_owned),
        parent: descriptor.number(5),
        process,
        thread,
        is_counter: descriptor.message(8).is_some(),
    }
}

impl Sequence {
    /// Follows what a packet says of its sequence.
    fn update(&mut self, message: &Message, losses: &mut Vec<Loss>) {
        let flags = message.number(field::SEQUENCE_FLAGS).unwrap_or(0);
        let is_first = message.number(field::FIRST_ON_SEQUENCE) == Some(1);
        if message.number(field::PACKET_DROPPED).is_some_and(|dropped| dropped != 0) {
            self.is_valid = false;
            // The first packet of each sequence says so.
            if !is_first {
                losses.push(Loss::DroppedBefore);
            }
        }
        if flags & 1 != 0 || message.number(field::STATE_CLEARED) == Some(1) {
            *self = Self { is_valid: true, ..Self::default() };
        }
        if flags & 2 != 0 && !self.is_valid {
            losses.push(Loss::NoState);
        }
        if let Some(defaults) = message.message(field::DEFAULTS) {
            self.default_clock = defaults.number(58);
            self.default_track = defaults.message(11).and_then(|event| event.number(11));
        }
        for clock in
            message.messages(field::CLOCK_SNAPSHOT).flat_map(|snapshot| snapshot.messages(1))
        {
            let (id, now) = (clock.number(1).unwrap_or(0), clock.number(2).unwrap_or(0));
            let unit = clock.number(4).unwrap_or(1).max(1);
            let is_incremental = clock.number(3) == Some(1);
            let now = now.wrapping_mul(unit);
            self.clocks.insert(id, Clock { now, is_incremental, unit });
        }
        let Some(data) = message.message(field::INTERNED_DATA) else { return };
        for (number, _, value) in &data.fields {
            if let Value::Message(entry) = value {
                self.interned.insert((*number, entry.number(1).unwrap_or(0)), entry.clone());
            }
        }
    }

    /// The time of a packet.
    fn time(&mut self, message: &Message, losses: &mut Vec<Loss>) -> Option<u64> {
        let time = message.number(field::TIMESTAMP)?;
        let clock = message.number(field::CLOCK_ID).or(self.default_clock).unwrap_or(0);
        if clock < 64 {
            return Some(time);
        }
        let Some(clock) = self.clocks.get_mut(&clock) else {
            losses.push(Loss::UnknownClock);
            return None;
        };
        let time = time.wrapping_mul(clock.unit);
        clock.now = if clock.is_incremental { clock.now.wrapping_add(time) } else { time };
        Some(clock.now)
    }
}

/// Finds what numbers stand for.
struct Resolver<'a> {
    state: &'a Sequence,
    is_unresolved: bool,
}

impl Resolver<'_> {
    fn find(&mut self, field: u32, iid: u64) -> Option<&Message> {
        let found = self.state.interned.get(&(field, iid));
        self.is_unresolved |= found.is_none();
        found
    }

    /// A name; what has none is shown by its number.
    fn name(&mut self, field: u32, iid: u64) -> String {
        let found = self.find(field, iid).and_then(|entry| match entry.get(2) {
            Some(Value::Text(text)) => Some(text.clone()),
            _ => None,
        });
        found.unwrap_or_else(|| format!("iid {iid}"))
    }

    fn event(&mut self, event: &Message) -> TrackEvent {
        let kind = event.number(9).unwrap_or(0);
        let name = EVENT_TYPES.iter().find(|(number, _)| *number == kind);
        let mut categories: Vec<_> = event.numbers(3).map(|iid| self.name(1, iid)).collect();
        categories.extend(event.all(22).filter_map(|value| match value {
            Value::Text(text) => Some(text.clone()),
            _ => None,
        }));
        let callstack = match (event.message(55), event.number(56)) {
            (Some(inline), _) => {
                inline.messages(1).map(|frame| frame.text(1).unwrap_or("").to_owned()).collect()
            }
            (_, Some(iid)) => self.callstack(iid),
            _ => Vec::new(),
        };
        let correlation = event.get(52).or(event.get(53)).cloned();
        TrackEvent {
            kind: name.map_or_else(|| format!("TYPE_{kind}"), |(_, name)| (*name).to_owned()),
            name: event
                .text(23)
                .map(str::to_owned)
                .or_else(|| event.number(10).map(|iid| self.name(2, iid))),
            categories,
            track: event.number(11).or(self.state.default_track),
            arguments: event.messages(4).map(|argument| self.argument(argument, 0)).collect(),
            counter: event.get(30).or(event.get(44)).cloned(),
            flows: event.numbers(47).chain(event.numbers(36)).collect(),
            terminating_flows: event.numbers(48).chain(event.numbers(42)).collect(),
            correlation: correlation
                .or_else(|| event.number(54).map(|iid| Value::Text(self.name(43, iid)))),
            callstack,
        }
    }

    fn argument(&mut self, argument: &Message, depth: usize) -> (String, Argument) {
        let name = match (argument.text(10), argument.number(1)) {
            (Some(name), _) => name.to_owned(),
            (None, Some(iid)) => self.name(3, iid),
            (None, None) => String::new(),
        };
        let dictionary: Vec<_> = argument.messages(11).collect();
        let list: Vec<_> = argument.messages(12).collect();
        let value = if depth > 32 {
            Argument::List(Vec::new())
        } else if !dictionary.is_empty() {
            let entries = dictionary.into_iter().map(|entry| self.argument(entry, depth + 1));
            Argument::Dictionary(entries.collect())
        } else if !list.is_empty() {
            Argument::List(
                list.into_iter().map(|entry| self.argument(entry, depth + 1).1).collect(),
            )
        } else if let Some(iid) = argument.number(17) {
            Argument::Value(Value::Text(self.name(29, iid)))
        } else {
            let value = argument.fields.iter().find(|field| !matches!(field.0, 1 | 10 | 13 | 16));
            let value = value.map(|(.., value)| value.clone());
            value.map_or(Argument::List(Vec::new()), Argument::Value)
        };
        (name, value)
    }

    fn callstack(&mut self, iid: u64) -> Vec<String> {
        let frames: Vec<_> = match self.find(7, iid) {
            Some(stack) => stack.numbers(2).collect(),
            None => return vec![format!("iid {iid}")],
        };
        frames.into_iter().map(|iid| self.frame(iid)).collect()
    }

    fn frame(&mut self, iid: u64) -> String {
        let Some(frame) = self.find(6, iid) else { return format!("iid {iid}") };
        let (function, file, line) = (frame.number(2), frame.number(5), frame.number(6));
        let function = function.map_or_else(|| "?".to_owned(), |function| self.name(5, function));
        match (file, line) {
            (Some(file), Some(line)) => format!("{function} ({}:{line})", self.name(18, file)),
            (Some(file), None) => format!("{function} ({})", self.name(18, file)),
            _ => function,
        }
    }
}
