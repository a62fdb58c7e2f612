//! Writes a trace with only some of its channels.
//!
//! ```text
//! input    3 a   4 b   5 c   6 d   7 a   settled below 8
//! output   3 a         4 c         5 a   settled below 6       without b and d
//! ```
//! The events are read in order and written again, so the output is a trace like any other: all types and
//! important events precede the events that need them, and the serials of those that are left have no gap
//! that the input does not have. If the event that opens a scope is left out, so is the end of the scope. The
//! events inside remain, and are then in the scope around it.

use super::WRITE_AT;
use super::packets::AnyPackets;
use crate::read::{Event, Hole, Reader, Stamp, Summary, Visitor};
use memledger_format::arrays::{PIECE_HEAD, piece_head};
use memledger_format::channel::{id, is_name, no_name};
use memledger_format::encode::{AUX_TERMINAL, SYNCED_HEADER};
use memledger_format::handshake::{PROTOCOL, Transport};
use memledger_format::layout::{
    ENTER_SCOPE, ENTER_SCOPE_AT, LEAVE_SCOPE, LEAVE_SCOPE_AT, SCOPE_AT, SERIAL_SIZE,
};
use memledger_format::packet::{IMPORTANTS, LAST_OWN, MAX_PAYLOAD, SYNC, TYPES};
use memledger_format::schema::{DEFINITION, EventType, MAYBE_HAS_AUX};
use memledger_format::{Error, ErrorKind};
use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::io::{Read, Write};

/// A packet is written when it has at least this number of bytes.
const PACKET: usize = 32 << 10;
/// The most bytes of a piece of an array; whole elements of all sizes.
const PIECE: usize = 16 << 10;

/// What is on by default when a program runs, and so is written unless the list excludes it.
const BY_DEFAULT: &str = "bookmark";
/// What the name `default` stands for, as in the settings of a program.
const DEFAULT: &str = "memory,scope";

/// Which channels of a trace are written, parsed from a text such as `memory,scope` or `-memory`.
///
/// A name includes its channel. The channel `bookmark` is included without a name, and `default` is
/// `memory,scope`. A name after a `-` excludes its channel, even one that is included by name. If each name
/// in the text has a `-`, all other channels are included. Names are compared as in `channel!` of memledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChannelList {
    wanted: Vec<String>,
    unwanted: Vec<String>,
}

impl ChannelList {
    /// Parses names that are separated by commas.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidChannels`] for a text that no channel can have as its name, or without a name.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let (mut wanted, mut unwanted) = (Vec::new(), Vec::new());
        for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            let (name, list) = match word.strip_prefix('-') {
                Some(name) => (name, &mut unwanted),
                None => (word, &mut wanted),
            };
            if !is_name(name) {
                return Err(Error::new(ErrorKind::InvalidChannels, no_name(name)));
            }
            let names = if name.eq_ignore_ascii_case("default") { DEFAULT } else { name };
            list.extend(names.split(',').map(str::to_owned));
        }
        if wanted.is_empty() && unwanted.is_empty() {
            return Err(Error::new(
                ErrorKind::InvalidChannels,
                format!(
                    "{text:?} names no channel; write comma-separated names such as memory,scope, or -memory to exclude one"
                ),
            ));
        }
        Ok(Self { wanted, unwanted })
    }

    /// Whether the channel with this id is included.
    fn has(&self, channel: u32) -> bool {
        let named = |names: &[String]| names.iter().any(|name| id(name) == channel);
        let by_default = self.wanted.is_empty() || channel == id(BY_DEFAULT);
        !named(&self.unwanted) && (by_default || named(&self.wanted))
    }
}

/// Reads a whole trace of memledger and writes its events on `channels` to `out`, in the coding of `to`.
///
/// An event of the program is written if all channels of its log site are included. Always written are
/// definitions (types with a `DefinitionId`), since an event on any channel may refer to them, and what the
/// trace says about itself: types, threads, times, losses. The output announces the other channels as off.
/// Without `memory` no block is in it, without `scope` all blocks are in `GlobalScope`, without `callstack`
/// they have no stack.
///
/// What is missing in `source` is missing in the output: it has the same gaps in its serials.
/// Costs as much as [`read`](crate::read::read()), plus some 60 ns for each event that is written.
///
/// # Errors
/// As [`convert`](super::convert); also [`ErrorKind::NotConvertible`] for a trace of another writer, or of an
/// earlier memledger: it does not say which of its events are on which channel. [`ErrorKind::UnknownChannel`]
/// for a name that no channel of the trace has. After these, the output is not to be used.
///
/// # Examples
/// ```
/// use memledger_analysis::convert::{ChannelList, convert_channels};
/// use memledger_format::handshake::Transport;
///
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/samples/memledger-small.utrace");
/// let (trace, mut out) = (std::fs::read(path)?, Vec::new());
/// let channels = ChannelList::parse("-scope")?;
/// let summary = convert_channels(&trace[..], &mut out, Transport::Unreal, &channels)?;
/// assert!(summary.is_complete() && out.len() < trace.len());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn convert_channels(
    source: impl Read,
    mut out: impl Write,
    to: Transport,
    channels: &ChannelList,
) -> Result<Summary, Error> {
    let mut reader = Reader::open(source)?;
    if reader.handshake().protocol != PROTOCOL {
        return Err(not_ours());
    }
    let mut handshake = reader.handshake().clone();
    handshake.transport = to;
    let records = RefCell::new(Vec::new());
    let mut writer = ChannelWriter::new(channels, AnyPackets::new(to, PROTOCOL), &records);
    writer.out = handshake.encode();
    let mut is_sync = false;
    while reader.packet_with(&mut writer, &mut |stream, payload| {
        is_sync = stream == SYNC;
        if stream == TYPES {
            records.borrow_mut().extend_from_slice(payload);
        }
    }) {
        if is_sync {
            writer.flush();
            writer.packets.sync(&mut writer.out);
        }
        if writer.out.len() >= WRITE_AT {
            out.write_all(&writer.out).map_err(Error::write)?;
            writer.out.clear();
        }
    }
    let summary = reader.finish(&mut writer);
    writer.end()?;
    writer.packets.finish(&mut writer.out);
    out.write_all(&writer.out).and_then(|()| out.flush()).map_err(Error::write)?;
    Ok(summary)
}

fn not_ours() -> Error {
    Error::not_convertible(
        "it was not written by memledger, so it does not say which of its events are on which channel; export it without --channels",
    )
}

fn not_said(event_type: &EventType) -> Error {
    Error::not_convertible(format!(
        "it was recorded by an earlier memledger, so it does not say on which channels its events {} are; export it without --channels",
        event_type.name()
    ))
}

/// Writes the events of some channels.
struct ChannelWriter<'a> {
    channels: &'a ChannelList,
    packets: AnyPackets,
    /// The type records that are to precede the next packet.
    records: &'a RefCell<Vec<u8>>,
    out: Vec<u8>,
    streams: BTreeMap<u16, OpenStream>,
    /// Which kind of stream the waiting bytes are of: one of the writer's own streams, or those of all
    /// threads.
    waiting: u16,
    /// What to do with the events of a type, by its index; `None` before its first event.
    types: Vec<Option<Plan>>,
    /// The channels of the program's types, by uid.
    channels_of: HashMap<u16, Vec<u32>>,
    /// The names of the channels in the trace.
    names: Vec<String>,
    /// The serial after that of the last event, as in the input.
    next: Option<u64>,
    /// The serial after the last event that is missing in the input.
    missing: u64,
    /// How many events with a serial were left out.
    removed: u64,
    /// The stream, the uid and the serial of the last watermark that was written.
    settled: Option<(u16, u16, u64)>,
    is_ours: bool,
    failed: Option<Error>,
}

/// What is done with the events of a type.
#[derive(Clone, Copy)]
struct Plan {
    is_wanted: bool,
    says: Says,
    /// The position and the size of a field that is written as 0; the size is 0 if there is none.
    cleared: (usize, usize),
}

/// What the events of a type say about the trace itself.
#[derive(Clone, Copy)]
enum Says {
    WhoWroteIt,
    ChannelsOfType,
    Channel,
    Toggle,
    Settled,
    Report,
    Nothing,
}

impl Says {
    fn of(event_type: &EventType) -> Self {
        match (&*event_type.logger, &*event_type.event) {
            ("Memledger", "Trace") => Self::WhoWroteIt,
            ("Memledger", "TypeChannels") => Self::ChannelsOfType,
            ("Trace", "ChannelAnnounce") => Self::Channel,
            ("Trace", "ChannelToggle") => Self::Toggle,
            ("Memledger", "Settled") => Self::Settled,
            ("Memledger", "Report") => Self::Report,
            _ => Self::Nothing,
        }
    }
}

/// A stream of the output.
#[derive(Default)]
struct OpenStream {
    bytes: Vec<u8>,
    /// Whether each open scope was written, the outermost first.
    open: Vec<bool>,
    /// The time of the next item.
    stamp: Option<Stamp>,
}

impl<'a> ChannelWriter<'a> {
    fn new(channels: &'a ChannelList, packets: AnyPackets, records: &'a RefCell<Vec<u8>>) -> Self {
        Self {
            channels,
            packets,
            records,
            out: Vec::new(),
            streams: BTreeMap::new(),
            waiting: IMPORTANTS,
            types: Vec::new(),
            channels_of: HashMap::new(),
            names: Vec::new(),
            next: None,
            missing: 0,
            removed: 0,
            settled: None,
            is_ours: false,
            failed: None,
        }
    }

    /// Writes everything that waits.
    fn flush(&mut self) {
        let records = std::mem::take(&mut *self.records.borrow_mut());
        if !records.is_empty() {
            self.packets.packet(TYPES, &records, &mut self.out);
        }
        for (stream, OpenStream { bytes, .. }) in &mut self.streams {
            if !bytes.is_empty() {
                self.packets.packet(*stream, bytes, &mut self.out);
                bytes.clear();
            }
        }
    }

    /// The bytes of a stream, to append `size` bytes to, which are not divided between packets.
    ///
    /// NOTE: the order between the writer's own streams, and between them and threads, stays as it is:
    /// readers order only events with serials.
    fn bytes(&mut self, stream: u16, size: usize) -> &mut Vec<u8> {
        let kind = stream.min(LAST_OWN + 1);
        let waits = self.streams.get(&stream).map_or(0, |open| open.bytes.len());
        let is_full = waits >= PACKET || waits + size > MAX_PAYLOAD;
        if is_full || self.waiting != kind {
            self.flush();
            self.waiting = kind;
        }
        &mut self.streams.entry(stream).or_default().bytes
    }

    /// What to do with an event of this type.
    fn plan(&mut self, event: &Event<'_>) -> Plan {
        if let Some(Some(plan)) = self.types.get(event.type_index) {
            return *plan;
        }
        let event_type = event.event_type;
        let needed = match (self.channels_of.get(&event_type.uid), of_tracker(event_type)) {
            (Some(channels), _) => channels.iter().all(|channel| self.channels.has(*channel)),
            (_, Some(names)) => names.iter().all(|name| self.channels.has(id(name))),
            (None, None) => {
                if event_type.flags & DEFINITION == 0 {
                    self.failed.get_or_insert_with(|| not_said(event_type));
                }
                true
            }
        };
        let cleared = CLEARED.iter().find(|(logger, field, channel)| {
            event_type.logger == *logger
                && !self.channels.has(id(channel))
                && event_type.fields.iter().any(|of_type| of_type.name == *field)
        });
        let cleared = cleared.and_then(|(_, name, _)| field(event_type, name)).unwrap_or_default();
        let plan = Plan { is_wanted: needed, says: Says::of(event_type), cleared };
        if self.types.len() <= event.type_index {
            self.types.resize(event.type_index + 1, None);
        }
        self.types[event.type_index] = Some(plan);
        plan
    }

    /// Takes in what an event says about the trace itself. Returns whether it is written.
    fn learn(&mut self, says: Says, event: &Event<'_>, fixed: &mut Cow<'_, [u8]>) -> bool {
        let event_type = event.event_type;
        let number = |name| {
            let (offset, size) = field(event_type, name).unwrap_or_default();
            event.unsigned(offset, size)
        };
        match says {
            Says::Nothing => {}
            Says::WhoWroteIt => self.is_ours = true,
            Says::ChannelsOfType => {
                let ids = event.bytes(1);
                let ids = ids.as_chunks::<4>().0.iter().map(|id| u32::from_le_bytes(*id));
                self.channels_of.insert(number("Uid") as u16, ids.collect());
            }
            Says::Channel => {
                let has = self.channels.has(number("Id") as u32);
                let name = event_type.fields.iter().position(|field| field.name == "Name");
                self.names.extend(name.map(|index| event.text(index).into_owned()));
                let (offset, size) = field(event_type, "IsEnabled").unwrap_or_default();
                if let Some(is_enabled) =
                    fixed.to_mut().get_mut(offset..offset + size).filter(|_| !has)
                {
                    is_enabled.fill(0);
                }
            }
            Says::Toggle => return self.channels.has(number("Id") as u32),
            Says::Settled | Says::Report => {
                let (offset, size) = field(event_type, "Serial").unwrap_or_default();
                let serial = self.next.unwrap_or(event.unsigned(offset, size));
                let serial = serial.saturating_sub(self.removed);
                if let Some(bytes) = fixed.to_mut().get_mut(offset..offset + size) {
                    bytes.copy_from_slice(&serial.to_le_bytes()[..size]);
                }
                if let Says::Settled = says {
                    self.settled = Some((event.stream, event_type.uid, serial));
                }
            }
        }
        true
    }

    /// Appends an event without its arrays.
    fn append(&mut self, event: &Event<'_>, fixed: &[u8]) {
        let (removed, uid) = (self.removed, event.event_type.uid);
        let stamp = self.streams.entry(event.stream).or_default().stamp.take();
        // A list of call stacks is a packet of its own, so that a writer for Unreal's readers finds it.
        let is_list = event.event_type.is("Memledger", "Callstacks");
        let most = if is_list { usize::MAX } else { PIECE };
        if is_list {
            self.flush();
        }
        let bytes = self.bytes(event.stream, SCOPE_AT + SYNCED_HEADER + fixed.len());
        if event.enters_scope {
            append_scope(bytes, (ENTER_SCOPE, ENTER_SCOPE_AT, 16), stamp);
        }
        bytes.extend((uid << 1 | 1).to_le_bytes());
        if let Some(serial) = event.serial {
            bytes.extend(&serial.wrapping_sub(removed).to_le_bytes()[..SERIAL_SIZE]);
        }
        bytes.extend(fixed);
        for &(index, mut data) in event.aux {
            while !data.is_empty() {
                let (now, rest) = data.split_at(data.len().min(most));
                let bytes = self.bytes(event.stream, PIECE_HEAD + now.len());
                bytes.extend(piece_head(index.into(), now.len(), 1));
                bytes.extend(now);
                data = rest;
            }
        }
        if event.event_type.flags & MAYBE_HAS_AUX != 0 {
            self.bytes(event.stream, 1).push(AUX_TERMINAL << 1);
        }
        if is_list {
            self.flush();
        }
    }

    /// Appends an important event, which has its size and is in one piece.
    fn append_important(&mut self, event: &Event<'_>, fixed: &[u8]) {
        let mut body = fixed.to_vec();
        for (index, data) in event.aux {
            body.extend(piece_head((*index).into(), data.len(), 0));
            body.extend(*data);
        }
        if event.event_type.flags & MAYBE_HAS_AUX != 0 {
            body.push(AUX_TERMINAL);
        }
        let uid = event.event_type.uid;
        let bytes = self.bytes(IMPORTANTS, 4 + body.len());
        bytes.extend(uid.to_le_bytes());
        bytes.extend((body.len() as u16).to_le_bytes());
        bytes.extend(body);
    }

    /// Writes the rest, or says why the output is of no use.
    fn end(&mut self) -> Result<(), Error> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        if !self.is_ours {
            return Err(not_ours());
        }
        let ChannelList { wanted, unwanted } = self.channels;
        let is_missing = |name: &&String| self.names.iter().all(|other| id(other) != id(name));
        let missing: Vec<_> = wanted.iter().chain(unwanted).filter(is_missing).collect();
        if !missing.is_empty() {
            return Err(Error::new(
                ErrorKind::UnknownChannel,
                format!("the trace has no channel {missing:?}; it has {}", self.names.join(", ")),
            ));
        }
        // Events are missing after the last one.
        let missing = self.missing.saturating_sub(self.removed);
        if let Some((stream, uid, serial)) = self.settled
            && serial < missing
        {
            let bytes = self.bytes(stream, SYNCED_HEADER + 8);
            bytes.extend((uid << 1 | 1).to_le_bytes());
            bytes.extend(missing.to_le_bytes());
        }
        self.flush();
        Ok(())
    }
}

impl Visitor for ChannelWriter<'_> {
    fn event(&mut self, event: &Event<'_>) {
        let Plan { is_wanted, says, cleared: (position, size) } = self.plan(event);
        self.next = self.next.max(event.serial.map(|serial| serial.saturating_add(1)));
        let mut fixed = Cow::Borrowed(event.fixed);
        if size > 0
            && let Some(cleared) = fixed.to_mut().get_mut(position..position + size)
        {
            cleared.fill(0);
        }
        let is_wanted = is_wanted && self.learn(says, event, &mut fixed);
        if event.enters_scope {
            let stream = self.streams.entry(event.stream).or_default();
            stream.open.push(is_wanted);
            stream.stamp.take_if(|_| !is_wanted);
        }
        if !is_wanted {
            self.removed += u64::from(event.serial.is_some());
        } else if event.stream == IMPORTANTS {
            self.append_important(event, &fixed);
        } else {
            self.append(event, &fixed);
        }
    }

    fn stamp(&mut self, stream: u16, stamp: Stamp) {
        self.streams.entry(stream).or_default().stamp = Some(stamp);
    }

    fn leave_scope(&mut self, stream: u16) {
        let OpenStream { open, stamp, .. } = self.streams.entry(stream).or_default();
        let stamp = stamp.take();
        if open.pop().unwrap_or(false) {
            append_scope(self.bytes(stream, SCOPE_AT), (LEAVE_SCOPE, LEAVE_SCOPE_AT, 18), stamp);
        }
    }

    fn hole(&mut self, hole: Hole) {
        self.missing = hole.first.saturating_add(hole.count);
        self.next = self.next.max(Some(self.missing));
    }
}

/// Appends the opening or the closing of a scope: the codes without a time, with a cycle, and with a time
/// since the start.
fn append_scope(bytes: &mut Vec<u8>, codes: (u8, u8, u8), stamp: Option<Stamp>) {
    match stamp {
        None => bytes.push(codes.0),
        Some(Stamp::Cycle(cycle)) => {
            bytes.push(codes.1);
            bytes.extend(cycle.to_le_bytes());
        }
        Some(Stamp::SinceStart(cycles)) => {
            bytes.extend((cycles << 8 | u64::from(codes.2)).to_le_bytes());
        }
    }
}

/// The position and the size of a field.
fn field(event_type: &EventType, name: &str) -> Option<(usize, usize)> {
    let field = event_type.fields.iter().find(|field| field.name == name)?;
    Some((field.offset.into(), field.field_type.fixed_size()))
}

/// Fields of the tracker's types that are 0 in a trace without a channel: the first part of the type's name,
/// the field, and the channel.
const CLEARED: [(&str, &str, &str); 3] = [
    ("Memory", "CallstackId", "callstack"),
    ("Memledger", "CallstackId", "callstack"),
    ("Memledger", "Blocks", "memory"),
];

/// The channels that the events of a type of the tracker are on; `None` if the type is not the tracker's.
fn of_tracker(event_type: &EventType) -> Option<&'static [&'static str]> {
    let event = &*event_type.event;
    Some(match (&*event_type.logger, event) {
        ("$Trace" | "Trace", _) | ("Diagnostics", "Session2") | ("Memory", "Marker") => &[],
        (
            "Memledger",
            "Trace" | "TypeChannels" | "ThreadStart" | "Settled" | "Lost" | "Report" | "Alive"
            | "ScopeGoesOn",
        ) => &[],
        ("Memory", "MemoryScope") | ("Memledger", "ScopeEntries") => &["memory", "scope"],
        ("Memory" | "Memledger", _) | ("Diagnostics", _)
            if ["Callstack", "Module", "StackSampling", "Symbol"]
                .iter()
                .any(|start| event.starts_with(start)) =>
        {
            &["memory", "callstack"]
        }
        ("Memory" | "Memledger", _) => &["memory"],
        ("Perfetto", _) => &["track"],
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
