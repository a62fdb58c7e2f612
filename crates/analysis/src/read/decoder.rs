//! The decoder, which makes ordered events of the payloads of packets.

use super::event::Visitor;
use super::merge::Merge;
use super::protocol0;
use super::records::{self, Records};
use super::resync::payload;
use super::schemas::{Protocol, Types};
use super::tally::Tally;
use memledger_document::internal::sort;
use memledger_format::handshake::{Handshake, Magic};
use memledger_format::packet::{FIRST_THREAD, IMPORTANTS, SYNC, TYPES};
use memledger_format::schema::EventType;

/// Decodes the payloads of packets and delivers their events, in order, to a [`Visitor`].
///
/// The same decoder serves [`Reader`](super::Reader), which unpacks the packets of a file, and the
/// traced process, which analyses its own packets. Its memory is in proportion to the bytes that
/// wait to be delivered.
///
/// # Examples
/// ```
/// use memledger_analysis::read::{Decoder, Event, Visitor};
///
/// struct Count(u64);
/// impl Visitor for Count {
///     fn event(&mut self, _: &Event<'_>) {
///         self.0 += 1;
///     }
/// }
///
/// let mut decoder = Decoder::new(7);
/// let mut count = Count(0);
/// // The type `A.B` with uid 16, without fields and serial; then two such events of stream 2.
/// decoder.packet(0, &[0, 0, 8, 0, 16, 0, 0, 4, 1, 1, b'A', b'B'], &mut count);
/// decoder.packet(2, &[16 << 1 | 1, 0, 16 << 1 | 1, 0], &mut count);
/// decoder.finish(&mut count);
/// assert_eq!(count.0, 2);
/// ```
pub struct Decoder {
    protocol: Protocol,
    types: Types,
    records: Records,
    importants: Records,
    merge: Merge,
    tally: Tally,
}

impl std::fmt::Debug for Decoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Decoder").field("counts", &self.counts()).finish_non_exhaustive()
    }
}

/// The counts of a decoder so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Events delivered.
    pub events: u64,
    /// Ranges of serials that no event carries.
    pub holes: u64,
    /// The number of serials in those ranges, without the ranges of unknown size.
    pub missing: u64,
    /// Whether some range has an unknown size, because events of different threads were so far
    /// apart that several serials fit the 24 bits in the stream.
    pub missing_unknown: bool,
    /// Events delivered out of order: they arrived too late, or their serial occurs twice, or it
    /// was damaged.
    pub late: u64,
    /// Damaged places in the input.
    pub damages: u64,
    /// The serial of the first synchronised event delivered.
    pub first_serial: Option<u64>,
    /// The highest serial delivered.
    pub last_serial: Option<u64>,
    /// Whether the trace has its end. A trace of this crate's writer ends with `Memledger.Report`.
    /// Unreal's writer marks no end; its trace counts as ended after the first sync, or, up to
    /// protocol 4, after `$Trace.NewTrace`.
    pub ended: bool,
}

/// The counts of a decoder for one stream.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StreamCounts {
    /// The stream id.
    pub stream: u16,
    /// Packets taken in.
    pub packets: u64,
    /// Bytes of their payloads, decoded.
    pub bytes: u64,
    /// Events delivered.
    pub events: u64,
}

impl Decoder {
    /// A decoder for the protocol of this version, 0 to 7.
    pub fn new(protocol: u8) -> Self {
        Self::of(Protocol::new(protocol))
    }

    /// A decoder for a trace that starts like this.
    pub(super) fn for_trace(handshake: &Handshake) -> Self {
        let mut protocol = Protocol::new(handshake.protocol);
        protocol.arrays_inside = Some(handshake.magic == Magic::Trc2);
        Self::of(protocol)
    }

    fn of(protocol: Protocol) -> Self {
        Self {
            protocol,
            types: Types::default(),
            records: Records::new(TYPES),
            importants: Records::new(IMPORTANTS),
            merge: Merge::new(protocol.serials()),
            tally: Tally::default(),
        }
    }

    /// Takes in the payload of one packet, and delivers the events that need not wait.
    pub fn packet(&mut self, stream: u16, payload: &[u8], visitor: &mut impl Visitor) {
        let Self { protocol, types, records, importants, merge, tally } = self;
        if payload.is_empty() {
            return;
        }
        let found = match stream {
            // All streams of these protocols are alike.
            _ if protocol.has_sizes() => {
                return merge.packet(stream, payload, protocol, types, tally, visitor);
            }
            TYPES => records.packet(payload, protocol, types, tally, visitor),
            IMPORTANTS => importants.packet(payload, protocol, types, tally, visitor),
            SYNC => return,
            _ => return merge.packet(stream, payload, protocol, types, tally, visitor),
        };
        if let Some(first) = found.first_serial {
            merge.declare_first_serial(first);
        }
        if found.types {
            merge.types_added(protocol, types, tally, visitor);
        }
    }

    /// A packet of this stream could not be read. An event that continued in it is dropped, and the
    /// next packet is expected to start with a whole event.
    pub fn packet_lost(&mut self, stream: u16, visitor: &mut impl Visitor) {
        let Self { protocol, types, records, importants, merge, tally } = self;
        match stream {
            _ if protocol.has_sizes() => {
                merge.packet_lost(stream, protocol, types, tally, visitor);
            }
            TYPES => records.packet_lost(tally, visitor),
            IMPORTANTS => importants.packet_lost(tally, visitor),
            _ => merge.packet_lost(stream, protocol, types, tally, visitor),
        }
    }

    /// Takes in a sync packet: the writer has sent all events before it. Delivers the events that
    /// need not wait, and decides which missing events are lost.
    pub fn sync(&mut self, visitor: &mut impl Visitor) {
        self.tally.syncs += 1;
        self.merge.sync(&self.protocol, &mut self.types, &mut self.tally, visitor);
        visitor.settle();
    }

    /// The input has ended: delivers all waiting events, in order.
    pub fn finish(&mut self, visitor: &mut impl Visitor) {
        self.finish_after(true, visitor);
    }

    /// As [`finish`](Self::finish). `whole` means that the source could be read to its end.
    pub(super) fn finish_after(&mut self, whole: bool, visitor: &mut impl Visitor) {
        let Self { protocol, types, records, importants, merge, tally } = self;
        records.end(tally, visitor);
        importants.end(tally, visitor);
        merge.finish(protocol, types, tally, visitor);
        visitor.settle();
        visitor.end(whole && self.has_ended());
    }

    /// The packet before has ended, and with it its last event (transport 2).
    pub(super) fn packet_ends(&mut self, stream: u16, visitor: &mut impl Visitor) {
        self.merge.packet_ends(stream, &mut self.tally, visitor);
    }

    fn has_ended(&self) -> bool {
        // Engines of these protocols mark neither an end nor a sync.
        if self.protocol.has_sizes() {
            let mut types = self.types();
            return types.any(|(t, events)| t.is("$Trace", "NewTrace") && events > 0);
        }
        // NOTE: this crate's writer announces this type in the first packet of types, so before the
        // first sync.
        match self.end_marks() {
            Some(marks) => marks > 0,
            None => self.tally.syncs > 0,
        }
    }

    /// Whether the event with which this crate's writer ends a trace was read.
    pub(super) fn has_end_mark(&self) -> bool {
        self.end_marks().is_some_and(|marks| marks > 0)
    }

    /// How many such events were read; `None` if the trace's writer marks no end.
    fn end_marks(&self) -> Option<u64> {
        let mut types = self.types();
        types.find(|(event_type, _)| event_type.is("Memledger", "Report")).map(|(_, marks)| marks)
    }

    /// Sets the limit, in bytes, for the memory of the events that wait for an earlier event, or
    /// for their own end. The default is 256 MiB. If waiting events need more, the reader stops
    /// waiting and reports a [`Damage`](super::Damage).
    pub fn memory_limit(&mut self, bytes: usize) {
        self.merge.set_memory_limit(bytes);
    }

    /// Sets the offset of the next packet in the input, for reports of damage.
    pub fn set_offset(&mut self, offset: Option<u64>) {
        self.tally.offset = offset;
    }

    /// Packets of any stream may be missing here.
    pub(super) fn any_packet_lost(&mut self, visitor: &mut impl Visitor) {
        self.records.packet_lost(&mut self.tally, visitor);
        self.importants.packet_lost(&mut self.tally, visitor);
        self.merge.any_packet_lost();
    }

    /// Whether this stream has had a packet before.
    pub(super) fn has_stream(&self, stream: u16) -> bool {
        stream < FIRST_THREAD || self.merge.has_stream(stream)
    }

    /// Whether the payload is plausible as a part of this stream. Subtracts the cost in bytes from
    /// `budget`.
    pub(super) fn is_plausible(&self, stream: u16, payload: &[u8], budget: &mut usize) -> bool {
        match stream {
            _ if self.protocol.has_sizes() => {
                protocol0::is_plausible(payload, &self.protocol, &self.types, budget)
            }
            TYPES | IMPORTANTS => {
                records::is_plausible(payload, &self.protocol, &self.types, budget)
            }
            _ => payload::is_events(payload, &self.protocol, &self.types, budget),
        }
    }

    /// Reports damage in a packet.
    pub(super) fn damage(
        &mut self,
        offset: u64,
        skipped: u64,
        what: String,
        visitor: &mut impl Visitor,
    ) {
        self.tally.damage(visitor, Some(offset), skipped as usize, what);
    }

    /// The counts so far.
    pub fn counts(&self) -> Counts {
        let tally = &self.tally;
        Counts {
            events: tally.events,
            holes: tally.holes,
            missing: tally.missing,
            missing_unknown: tally.missing_unknown,
            late: tally.late,
            damages: tally.damages,
            first_serial: tally.first_serial,
            last_serial: tally.last_serial,
            ended: self.has_ended(),
        }
    }

    /// All types in order of their indexes, each with the number of its events.
    pub fn types(&self) -> impl Iterator<Item = (&EventType, u64)> {
        self.types.iter().zip(self.tally.by_type.iter().copied())
    }

    /// All streams that have had packets, by stream id.
    pub fn streams(&self) -> Vec<StreamCounts> {
        let records = [(TYPES, &self.records), (IMPORTANTS, &self.importants)];
        let mut streams: Vec<_> = records
            .into_iter()
            .filter(|(_, records)| records.packets > 0)
            .map(|(stream, r)| StreamCounts {
                stream,
                packets: r.packets,
                bytes: r.total_bytes,
                events: r.events,
            })
            .chain(self.merge.streams().map(|stream| StreamCounts {
                stream: stream.id,
                packets: stream.counts.packets,
                bytes: stream.counts.bytes,
                events: stream.counts.events,
            }))
            .collect();
        sort::by_key(&mut streams, |stream| stream.stream);
        streams
    }
}
