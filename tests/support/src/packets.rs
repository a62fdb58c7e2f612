//! A reader of Perfetto's files, for tests: with the decoder of another crate. It knows what a reader
//! must know to show a file: sequences, their state, and the numbers of texts. What it does not
//! understand, or Perfetto's own reader would drop, fails the test.

use prost::encoding::{WireType, decode_key, decode_varint};
use std::collections::{BTreeMap, BTreeSet};

/// A field of a message.
#[derive(Clone, Debug, PartialEq)]
pub enum Field {
    Number(u64),
    Fixed64(u64),
    Fixed32(u32),
    Bytes(Vec<u8>),
}

/// The fields of a message, in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Message(pub Vec<(u32, Field)>);

impl Message {
    pub fn decode(mut input: &[u8]) -> Self {
        let mut fields = Vec::new();
        while !input.is_empty() {
            let (field, kind) = decode_key(&mut input).expect("a key");
            let value = match kind {
                WireType::Varint => Field::Number(decode_varint(&mut input).expect("a number")),
                WireType::SixtyFourBit => {
                    let (bytes, rest) = input.split_first_chunk().expect("eight bytes");
                    input = rest;
                    Field::Fixed64(u64::from_le_bytes(*bytes))
                }
                WireType::ThirtyTwoBit => {
                    let (bytes, rest) = input.split_first_chunk().expect("four bytes");
                    input = rest;
                    Field::Fixed32(u32::from_le_bytes(*bytes))
                }
                WireType::LengthDelimited => {
                    let size = decode_varint(&mut input).expect("a size") as usize;
                    let (bytes, rest) = input.split_at_checked(size).expect("a whole field");
                    input = rest;
                    Field::Bytes(bytes.to_vec())
                }
                other => panic!("{other:?}"),
            };
            fields.push((field, value));
        }
        Self(fields)
    }

    pub fn all(&self, number: u32) -> impl Iterator<Item = &Field> {
        self.0.iter().filter(move |(field, _)| *field == number).map(|(_, value)| value)
    }

    pub fn number(&self, number: u32) -> Option<u64> {
        self.all(number).next().map(|field| match field {
            Field::Number(value) | Field::Fixed64(value) => *value,
            other => panic!("{number} is {other:?}"),
        })
    }

    pub fn numbers(&self, number: u32) -> Vec<u64> {
        let value = |field: &Field| match field {
            Field::Number(value) | Field::Fixed64(value) => *value,
            other => panic!("{number} is {other:?}"),
        };
        self.all(number).map(value).collect()
    }

    pub fn bytes(&self, number: u32) -> Option<&[u8]> {
        self.all(number).next().map(|field| match field {
            Field::Bytes(bytes) => bytes.as_slice(),
            other => panic!("{number} is {other:?}"),
        })
    }

    pub fn text(&self, number: u32) -> Option<String> {
        self.bytes(number).map(|bytes| String::from_utf8(bytes.to_vec()).expect("UTF-8"))
    }

    pub fn message(&self, number: u32) -> Option<Self> {
        self.bytes(number).map(Self::decode)
    }

    pub fn messages(&self, number: u32) -> impl Iterator<Item = Self> {
        self.all(number).map(move |field| match field {
            Field::Bytes(bytes) => Self::decode(bytes),
            other => panic!("{number} is {other:?}"),
        })
    }
}

/// A track event, with its texts.
#[derive(Clone, Debug)]
pub struct TrackEvent {
    pub sequence: u64,
    /// On the clock `clock`; nanoseconds since the system was started if that is 6.
    pub time: u64,
    pub clock: u64,
    pub kind: u64,
    pub name: Option<String>,
    /// Whether the name is a number in the packet.
    pub interned: bool,
    pub categories: Vec<String>,
    pub track: u64,
    pub arguments: Vec<(String, Field, u32)>,
    pub message: Message,
}

/// A file.
#[derive(Debug, Default)]
pub struct Trace {
    pub events: Vec<TrackEvent>,
    /// The descriptors of tracks, by uuid.
    pub tracks: BTreeMap<u64, Message>,
    /// How often sequences have started anew.
    pub starts: usize,
    /// How often a packet says that some before it are missing.
    pub dropped: usize,
    /// The sum of the losses that the file states.
    pub lost: u64,
    /// By heap: each dump's time, and all sums up to it by the frames of callstacks, outermost first: bytes
    /// allocated and freed, and how often.
    pub heaps: BTreeMap<String, Vec<Dump>>,
}

pub type Dump = (u64, BTreeMap<Vec<String>, [u64; 4]>);

#[derive(Default)]
struct Sequence {
    is_valid: bool,
    clock: u64,
    /// Nanoseconds in a unit of the clocks 64 and 65.
    unit: u64,
    last: u64,
    track: u64,
    texts: BTreeMap<(u32, u64), String>,
    /// Interned entries that are no texts.
    entries: BTreeMap<(u32, u64), Message>,
    tracks: BTreeSet<u64>,
    /// By the frames of a callstack: the sums of the last dump.
    dumped: BTreeMap<Vec<Frame>, [u64; 4]>,
    /// The number of the next packet of a dump; `None` before the first.
    next_profile: Option<u64>,
    /// More packets of a dump follow.
    is_in_dump: bool,
}

/// A function, the file and line that it is in, and the address.
type Frame = (String, Option<String>, Option<u64>, Option<u64>);

/// Frames, callstacks, build ids and mappings.
const NOT_TEXTS: [u32; 4] = [6, 7, 16, 19];

impl Trace {
    pub fn decode(bytes: &[u8]) -> Self {
        let mut trace = Self::default();
        let mut sequences = BTreeMap::<u64, Sequence>::new();
        let mut has_coarse_clock = false;
        for packet in Message::decode(bytes).messages(1) {
            let id = packet.number(10).expect("a packet is on a sequence");
            let sequence = sequences.entry(id).or_default();
            let flags = packet.number(13).unwrap_or(0);
            trace.dropped += usize::from(packet.number(42).is_some());
            if flags & 1 != 0 {
                let Sequence { dumped, next_profile, .. } = std::mem::take(sequence);
                *sequence = Sequence { dumped, next_profile, ..Sequence::default() };
                (sequence.is_valid, sequence.unit) = (true, 1);
                // Without defaults, the clock is that of the whole trace, and each event names its track.
                sequence.clock = 6;
                if let Some(defaults) = packet.message(59) {
                    sequence.clock = defaults.number(58).expect("a clock");
                    sequence.track = defaults.message(11).unwrap().number(11).expect("a track");
                }
                for clock in packet
                    .message(6)
                    .iter()
                    .flat_map(|clocks| clocks.messages(1).collect::<Vec<_>>())
                {
                    if clock.number(1) == Some(64) {
                        sequence.unit = clock.number(4).unwrap_or(1);
                        sequence.last = clock.number(2).unwrap() * sequence.unit;
                        assert_eq!(clock.number(3), Some(1), "the clock 64 is incremental");
                    } else if clock.number(1) == Some(65) {
                        sequence.unit = clock.number(4).unwrap_or(1);
                    }
                }
                trace.starts += 1;
            }
            if flags & 2 != 0 {
                assert!(sequence.is_valid, "a packet needs the state of sequence {id}");
            }
            if let Some(data) = packet.message(12) {
                for list in data.0.iter().map(|(list, _)| *list).collect::<BTreeSet<_>>() {
                    for entry in data.messages(list) {
                        let key = (list, entry.number(1).expect("a number"));
                        if NOT_TEXTS.contains(&list) {
                            let old = sequence.entries.insert(key, entry);
                            assert!(old.is_none(), "{key:?} has two meanings");
                            continue;
                        }
                        let text = entry.text(2).expect("a text");
                        let old = sequence.texts.insert(key, text.clone());
                        assert!(old.is_none(), "{key:?} is {text:?}, and was {old:?}");
                    }
                }
            }
            if let Some(track) = packet.message(60) {
                let uuid = track.number(1).expect("a uuid");
                let is_new = sequence.tracks.insert(uuid);
                assert!(is_new || flags != 0, "{uuid:#x} is described twice on sequence {id}");
                trace.tracks.insert(uuid, track);
            }
            if let Some(event) = packet.message(11) {
                trace.event(id, sequence, &packet, event);
            }
            if let Some(clocks) = packet.message(6) {
                has_coarse_clock |= clocks.messages(1).any(|clock| clock.number(1) == Some(4));
            }
            if let Some(profile) = packet.message(37) {
                assert!(has_coarse_clock, "a dump before the clock of its time");
                trace.profile(sequence, &profile);
            }
        }
        assert!(sequences.values().all(|sequence| !sequence.is_in_dump), "a dump without an end");
        trace
    }

    fn event(&mut self, id: u64, sequence: &mut Sequence, packet: &Message, message: Message) {
        let raw = packet.number(8).expect("a time");
        let clock = packet.number(58).unwrap_or(sequence.clock);
        let (time, clock) = match clock {
            64 => {
                sequence.last += raw * sequence.unit;
                (sequence.last, 6)
            }
            65 => (raw * sequence.unit, 6),
            other => (raw, other),
        };
        let text = |list, number| {
            let text = sequence.texts.get(&(list, number));
            text.unwrap_or_else(|| panic!("the text {number} of list {list} is unknown")).clone()
        };
        let interned = message.number(10).map(|number| text(2, number));
        let mut categories = message.numbers(3).into_iter().map(|n| text(1, n)).collect::<Vec<_>>();
        categories.extend(message.all(22).map(|field| match field {
            Field::Bytes(bytes) => String::from_utf8(bytes.clone()).unwrap(),
            other => panic!("{other:?}"),
        }));
        let arguments = message.messages(4).map(|argument| {
            let name = argument.number(1).map(|number| text(3, number)).or(argument.text(10));
            let value = argument.0.iter().find(|(field, _)| ![1, 10].contains(field));
            let (field, value) = value.expect("a value").clone();
            (name.unwrap_or_default(), value, field)
        });
        let event = TrackEvent {
            sequence: id,
            time,
            clock,
            kind: message.number(9).unwrap_or(0),
            interned: interned.is_some(),
            name: interned.or_else(|| message.text(23)),
            categories,
            track: message.number(11).unwrap_or(sequence.track),
            arguments: arguments.collect(),
            message,
        };
        if event.name.as_deref() == Some("events lost") && event.categories == ["memledger"] {
            let Field::Number(lost) = event.arguments[0].1 else { panic!("{event:?}") };
            self.lost += lost;
        } else {
            self.events.push(event);
        }
    }

    /// A packet of a dump. Sums must not fall.
    fn profile(&mut self, sequence: &mut Sequence, profile: &Message) {
        let number = profile.number(7).expect("a number");
        let expected = sequence.next_profile.replace(number + 1);
        assert!(expected.is_none_or(|expected| expected == number), "{number} after {expected:?}");
        sequence.is_in_dump = profile.number(6) == Some(1);
        for dump in profile.messages(5) {
            assert!(dump.number(13) > Some(0), "without it, a reader has no counts");
            for sample in dump.messages(2) {
                let stack = &sequence.entries[&(7, sample.number(1).unwrap())];
                let frames = stack.numbers(2).into_iter().map(|frame| {
                    let frame = &sequence.entries[&(6, frame)];
                    let text = |list, number| sequence.texts[&(list, number)].clone();
                    let file = frame.number(5).map(|file| text(18, file));
                    let function = text(5, frame.number(2).unwrap());
                    (function, file, frame.number(6), frame.number(4))
                });
                let now = [2, 3, 5, 6].map(|field| sample.number(field).unwrap());
                let was = sequence.dumped.insert(frames.collect(), now).unwrap_or_default();
                assert!(now.iter().zip(was).all(|(now, was)| *now >= was), "{now:?} after {was:?}");
            }
            if sequence.is_in_dump {
                continue;
            }
            let mut sums = BTreeMap::<_, [u64; 4]>::new();
            for (frames, more) in &sequence.dumped {
                let functions = frames.iter().map(|frame| frame.0.clone());
                let sum = sums.entry(functions.collect()).or_default();
                sum.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
            }
            let heap = self.heaps.entry(dump.text(11).unwrap()).or_default();
            let at = dump.number(9).unwrap();
            assert!(heap.last().is_none_or(|(before, _)| *before < at), "two dumps at one time");
            heap.push((at, sums));
        }
    }

    /// The values of the counter with this name below that one, in order of time.
    pub fn counter(&self, name: &str) -> Vec<(u64, u64)> {
        let uuid = self.track(name).number(1).unwrap();
        let events = self.events.iter().filter(|event| event.track == uuid);
        let mut points: Vec<_> =
            events.map(|event| (event.time, event.message.number(30).unwrap())).collect();
        points.sort_unstable();
        points
    }

    /// The descriptor of the track with this name.
    pub fn track(&self, name: &str) -> &Message {
        let mut tracks = self.tracks.values();
        tracks.find(|track| track.text(2).as_deref() == Some(name)).expect("a track")
    }
}
