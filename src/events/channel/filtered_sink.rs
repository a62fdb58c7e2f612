//! A sink that passes on only some channels: it removes the events of other channels, and the
//! remaining events are a valid stream.
//!
//! ```text
//! worker ──► queue ──► FilteredSink, on the sink's own thread ──► file or connection
//!
//! input    3 a   4 b   5 c   settled below 6   6 d   7 a   settled below 8
//! output   3 a         4 c   settled below 5         5 a   settled below 6       without b and d
//! ```
//! A stream has no gaps in its serials. So when an event is removed, the serials of all later
//! events are lowered by one. Events of different threads arrive in any order. How many events were
//! removed before an event is known only when all lower serials have arrived, which the stream's
//! watermark reports. Until then, the sink holds events back.
//!
//! If the event that opens a scope is removed, the end of the scope is removed, too. The events
//! inside remain, and are then in the scope around it.

use crate::error::Error;
use crate::events::channel::{Channel, ChannelFilter};
use crate::trace::format::encode::{Declaration, SYNCED_HEADER};
use crate::trace::format::handshake::PROTOCOL;
use crate::trace::format::layout::{ByUid, EventLayout, StreamItem, UID_SIZE, split_item};
use crate::trace::format::packet::{IMPORTANTS, TYPES};
use crate::trace::format::schema::SERIAL_MASK;
use crate::trace::format::stream_events::{
    self, CHANNEL_ANNOUNCE, CHANNEL_TOGGLE, REPORT, SETTLED,
};
use crate::trace::sink::Sink;
use crate::trace::worker::BLOCKS;
use crate::trace::write::declared;
use std::collections::HashMap;
use std::ops::Range;

/// Types of the tracker, and the channels that they need: a stream has events of these types only
/// if its filter includes all of these channels.
pub(crate) type Needs = (&'static [&'static Channel], &'static [&'static Declaration]);

/// A channel, and the name of a field of the tracker's types with a serial: the field is 0 in the
/// events of a stream without that channel.
pub(crate) type Cleared = (&'static Channel, &'static str);

/// Stored instead of a position if the event was removed.
const REMOVED: usize = usize::MAX;

/// See the [module](self).
pub(crate) struct FilteredSink {
    inner: Box<dyn Sink>,
    filter: ChannelFilter,
    on_problem: fn(Error),
    types: ByUid<TypeInfo>,
    /// The number of the program's types in `types`.
    programs: usize,
    threads: HashMap<u16, StreamState>,
    /// The bytes that are held back.
    held: Vec<u8>,
    /// The packets in `held`: the stream of each, and its range.
    packets: Vec<(u16, Range<usize>)>,
    /// For each event with a serial since the last release: its serial minus `settled`, and its
    /// position in `held`, or [`REMOVED`].
    serial_positions: Vec<(u64, usize)>,
    /// The positions in `held` of the field `Serial` of `Settled` and `Report` events.
    serial_fields: Vec<usize>,
    /// The watermark of the input at the last release: all lower serials had arrived.
    settled: u64,
    /// The number of events below `settled` that were removed.
    removed: u64,
    failed: Option<Error>,
}

/// A type of events, and whether its events are passed on.
#[derive(Clone, Copy)]
struct TypeInfo {
    layout: EventLayout,
    wanted: bool,
    /// The position and the size in bytes of the field that is cleared; the size is 0 if there is
    /// none.
    cleared: (usize, usize),
}

/// The state of one stream.
#[derive(Default)]
struct StreamState {
    /// Whether each open scope was passed on, the outermost first.
    open: Vec<bool>,
    /// The bytes that open a scope whose event has not arrived yet.
    enter: Vec<u8>,
    /// Whether the last event was passed on. Only then are its arrays passed on, too.
    keeps: bool,
}

impl FilteredSink {
    /// Passes on to `inner` the events on the channels of `filter`. `needs` lists the types of the
    /// tracker that need a channel; the types about the stream itself are always passed on.
    /// `cleared` is a field that needs a channel. If no channel has a name that the filter
    /// includes, this is reported to `on_problem` at the end.
    pub(crate) fn new(
        filter: ChannelFilter,
        needs: &[Needs],
        cleared: &Cleared,
        inner: Box<dyn Sink>,
        on_problem: fn(Error),
    ) -> Self {
        let mut types = ByUid::default();
        let own: Needs = (&[], stream_events::TYPES);
        for (channels, declarations) in [&own].into_iter().chain(needs) {
            let wanted = channels.iter().all(|channel| filter.has(channel.id()));
            for declaration in *declarations {
                let is_cleared = !filter.has(cleared.0.id());
                let cleared = is_cleared.then(|| declaration.position_of(cleared.1)).flatten();
                let layout = declaration.layout();
                let info = TypeInfo { layout, wanted, cleared: cleared.unwrap_or_default() };
                types.insert(declaration.uid, info);
            }
        }
        Self {
            inner,
            filter,
            on_problem,
            types,
            programs: 0,
            threads: HashMap::new(),
            held: Vec::new(),
            packets: Vec::new(),
            serial_positions: Vec::new(),
            serial_fields: Vec::new(),
            settled: 0,
            removed: 0,
            failed: None,
        }
    }

    /// Adds the program's new types. NOTE: a type is in the table before its first event is
    /// written.
    fn learn_types(&mut self) {
        while let Some(logged) = declared::registered(self.programs) {
            let wanted = logged.channels().iter().all(|channel| self.filter.has(*channel));
            let layout = logged.declared().layout();
            let info = TypeInfo { layout, wanted, cleared: (0, 0) };
            self.types.insert(declared::uid_of(self.programs), info);
            self.programs += 1;
        }
    }

    /// Passes on important events. A channel that the filter excludes is announced as disabled.
    fn importants(&mut self, payload: &[u8]) -> Option<()> {
        let mut out = Vec::with_capacity(payload.len());
        let mut rest = payload;
        while let Some(&[a, b, c, d]) = rest.first_chunk() {
            let uid = u16::from_le_bytes([a, b]);
            let event;
            (event, rest) = rest.split_at_checked(4 + usize::from(u16::from_le_bytes([c, d])))?;
            let is_wanted = match (uid, event.get(4..8)) {
                (uid, Some(id)) if uid == CHANNEL_ANNOUNCE.uid || uid == CHANNEL_TOGGLE.uid => {
                    self.filter.has(u32::from_le_bytes(id.try_into().ok()?))
                }
                _ => self.types.get(uid)?.wanted,
            };
            if is_wanted {
                out.extend_from_slice(event);
            } else if uid == CHANNEL_ANNOUNCE.uid {
                let start = out.len();
                out.extend_from_slice(event);
                // Disabled in this stream, even if it is enabled in others.
                *out.get_mut(start + 8)? = 0;
            }
        }
        if self.held.is_empty() && !out.is_empty() {
            self.inner.packet(IMPORTANTS, &out);
        } else if !out.is_empty() {
            // A module must not precede the call stacks from before it.
            let start = self.held.len();
            self.held.extend_from_slice(&out);
            self.packets.push((IMPORTANTS, start..self.held.len()));
        }
        rest.is_empty().then_some(())
    }

    /// Takes in the events of a thread's stream; `None` if their bytes are invalid.
    fn events(&mut self, stream: u16, payload: &[u8]) -> Option<()> {
        let mut thread = self.threads.remove(&stream).unwrap_or_default();
        let start = self.held.len();
        let mut rest = payload;
        while !rest.is_empty() {
            let mut found = None;
            let layout = |uid| {
                found = self.types.get(uid);
                Some(found?.layout)
            };
            let (item, bytes, after) = split_item(rest, PROTOCOL, layout)?;
            rest = after;
            let mut cleared = (0, 0);
            let is_wanted = match item {
                StreamItem::Enter => {
                    thread.enter.extend_from_slice(bytes);
                    false
                }
                // A scope that closes before its event arrives is not passed on.
                StreamItem::Leave if !thread.enter.is_empty() => {
                    thread.enter.clear();
                    false
                }
                StreamItem::Leave => thread.open.pop().unwrap_or(false),
                StreamItem::Piece | StreamItem::ArraysEnd => thread.keeps,
                StreamItem::Event(uid, _) => {
                    let info = found?;
                    cleared = info.cleared;
                    self.event(&mut thread, uid, info, bytes);
                    info.wanted
                }
            };
            if is_wanted {
                let start = self.held.len();
                self.held.extend_from_slice(bytes);
                let (position, size) = cleared;
                if let Some(field) = self.held.get_mut(start + position..start + position + size) {
                    field.fill(0);
                }
            }
        }
        self.threads.insert(stream, thread);
        if self.held.len() > start {
            self.packets.push((stream, start..self.held.len()));
        }
        Some(())
    }

    /// Takes in an event. If `info.wanted`, the caller appends it to `held` next.
    fn event(&mut self, thread: &mut StreamState, uid: u16, info: TypeInfo, event: &[u8]) {
        let TypeInfo { layout, wanted, .. } = info;
        thread.keeps = wanted;
        if !thread.enter.is_empty() {
            if wanted {
                self.held.extend_from_slice(&thread.enter);
            }
            thread.enter.clear();
            thread.open.push(wanted);
        }
        if layout.synced
            && let Some(&[_, _, low, middle, high]) = event.first_chunk()
        {
            let serial = u64::from(u32::from_le_bytes([low, middle, high, 0]));
            let at = if wanted { self.held.len() } else { REMOVED };
            self.serial_positions.push((serial.wrapping_sub(self.settled) & SERIAL_MASK, at));
        }
        if uid == SETTLED.uid || uid == REPORT.uid {
            // In both types the serial is the first field.
            self.serial_fields.push(self.held.len() + UID_SIZE);
        }
    }

    /// Passes on the events that are held back. Requires that all events before them have arrived.
    fn release(&mut self) {
        if self.removed > 0 || self.serial_positions.iter().any(|(_, at)| *at == REMOVED) {
            // PERF: the events of each thread are in order already, so the sort merges a few runs.
            self.serial_positions.sort_by_key(|(serial, _)| *serial);
            for &(serial, at) in &self.serial_positions {
                if at == REMOVED {
                    self.removed += 1;
                } else if let Some(bytes) = self.held.get_mut(at + UID_SIZE..at + SYNCED_HEADER) {
                    let serial = self.settled.wrapping_add(serial).wrapping_sub(self.removed);
                    bytes.copy_from_slice(&serial.to_le_bytes()[..3]);
                }
            }
        }
        // The initial live-set snapshot has no watermark. It is in order, so the serial after its
        // last one serves as the watermark.
        if let Some((last, _)) = self.serial_positions.last() {
            self.settled += last + 1;
        }
        for at in self.serial_fields.drain(..) {
            if let Some(bytes) = self.held.get_mut(at..).and_then(|rest| rest.first_chunk_mut()) {
                self.settled = u64::from_le_bytes(*bytes);
                *bytes = self.settled.wrapping_sub(self.removed).to_le_bytes();
            }
        }
        for (stream, range) in self.packets.drain(..) {
            self.inner.packet(stream, self.held.get(range).unwrap_or_default());
        }
        self.serial_positions.clear();
        self.held.clear();
    }

    fn pass(&mut self, stream: u16, payload: &[u8]) -> Option<()> {
        self.learn_types();
        match stream {
            TYPES => self.inner.packet(TYPES, payload),
            IMPORTANTS => self.importants(payload)?,
            _ => {
                self.events(stream, payload)?;
                // The initial live-set snapshot is in order, precedes all other events with a
                // serial, and can be too large to hold back.
                if stream == BLOCKS || !self.serial_fields.is_empty() {
                    self.release();
                }
            }
        }
        Some(())
    }
}

impl Sink for FilteredSink {
    fn packet(&mut self, stream: u16, payload: &[u8]) {
        if self.failed.is_none() && self.pass(stream, payload).is_none() {
            self.failed = Some(Error::Internal(format!(
                "the tracker cannot tell the channels of {} bytes of stream {stream} apart, so what is to get some of them only ends here",
                payload.len()
            )));
        }
    }

    fn sync(&mut self) -> Result<(), Error> {
        // The worker writes no watermark after a cycle without a serial.
        if self.serial_positions.is_empty() {
            self.release();
        }
        self.inner.sync()?;
        self.failed.take().map_or(Ok(()), Err)
    }

    fn finish(&mut self) -> Result<(), Error> {
        self.release();
        self.inner.finish()?;
        let missing = self.filter.missing();
        if !missing.is_empty() {
            (self.on_problem)(Error::UnknownChannel(format!(
                "{missing:?} in the channels for a destination is the name of no channel of this program"
            )));
        }
        self.failed.take().map_or(Ok(()), Err)
    }

    fn number(&self) -> u64 {
        self.inner.number()
    }

    fn written(&self) -> u64 {
        self.inner.written()
    }
}

#[cfg(test)]
mod tests;
