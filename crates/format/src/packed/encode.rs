//! Packs packets in chunks.

use super::bytes::{Bytes, Finder};
use super::chunk::{CHUNK_HEADER, ChunkHeader, MAX_CHUNK_BYTES};
use super::code::EncoderHints;
use super::event::{Event, Role};
use super::model::{BYTES, MAX_KINDS, Model, NEW};
use super::packets::PacketProbs;
use super::range::Encoder;
use crate::compact::{Shape, Types, checksum_of};
use crate::packet::{FIRST_THREAD, IMPORTANTS, LAST_THREAD, TYPES};
use crate::schema::SERIAL_MASK;
use std::collections::HashMap;

/// A chunk ends after the packet with which it has this many events, bytes of payloads, or packets.
/// More events take fewer bytes each; fewer are lost with a damaged chunk.
const EVENTS: u32 = 1 << 18;
const PAYLOAD_BYTES: u32 = 12 << 20;
const PACKETS: u32 = 1 << 15;
/// The same for bytes of its code. A packet takes at most a few times its size if nothing in it is
/// as expected, so there is room for one more.
const CODE_BYTES: usize = MAX_CHUNK_BYTES / 2;

/// An event with a shape, or a run of other bytes.
struct Item {
    /// The shape and its number.
    shape: Option<(Shape, u32)>,
    size: usize,
    serial: Option<u32>,
}

/// Packs the packets of one trace, whose types it learns.
///
/// Takes some 20 MB, and up to three times as much with many call stacks. A memory event costs 170 to
/// 300 ns.
pub struct PackedEncoder {
    types: Types,
    model: Model,
    bytes: Bytes,
    finder: Finder,
    probs: PacketProbs,
    coder: Encoder,
    header: ChunkHeader,
    /// Those of a packet.
    items: Vec<Item>,
    /// The shapes of the chunk.
    shapes: Vec<Shape>,
    /// The live blocks of the chunk, by address.
    blocks: HashMap<u64, u32>,
    /// The sites of the chunk, by what makes them.
    sites: HashMap<(u8, u64), u32>,
}

impl std::fmt::Debug for PackedEncoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PackedEncoder").field("header", &self.header).finish_non_exhaustive()
    }
}

impl PackedEncoder {
    /// An encoder for a trace of this protocol, 5 to 7.
    pub fn new(protocol: u8) -> Self {
        Self {
            types: Types::new(protocol),
            model: Model::new(),
            bytes: Bytes::new(),
            finder: Finder::new(),
            probs: PacketProbs::new(),
            coder: Encoder::new(),
            header: ChunkHeader::default(),
            items: Vec::new(),
            shapes: Vec::new(),
            blocks: HashMap::new(),
            sites: HashMap::new(),
        }
    }

    /// Takes in a packet of at most 65,535 bytes; appends the chunk to `out` if it is full.
    pub fn packet(&mut self, stream: u16, payload: &[u8], out: &mut Vec<u8>) {
        if stream == TYPES {
            self.types.learn(payload);
        }
        self.header.has_types |= stream == TYPES;
        self.header.has_importants |= stream == IMPORTANTS;
        self.probs.start(&mut self.coder, stream, payload.len());
        self.header.packets += 1;
        self.header.payload_bytes += payload.len() as u32;
        if !payload.is_empty() {
            self.payload(stream, payload);
        }
        let ChunkHeader { events, payload_bytes, packets, .. } = self.header;
        if events >= EVENTS
            || payload_bytes >= PAYLOAD_BYTES
            || packets >= PACKETS
            || self.coder.out.len() >= CODE_BYTES
        {
            self.finish(out);
        }
    }

    /// Appends the last chunk, unless it is empty.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        if self.header.packets == 0 {
            return;
        }
        self.coder.finish();
        let body = &self.coder.out;
        debug_assert!(body.len() + CHUNK_HEADER <= MAX_CHUNK_BYTES);
        self.header.body_bytes = body.len() as u32;
        self.header.body_checksum = checksum_of(1, body);
        out.extend_from_slice(&self.header.encode());
        out.extend_from_slice(body);
        self.header = ChunkHeader {
            number: self.header.number + 1,
            events_before: self.header.events_before + u64::from(self.header.events),
            ..ChunkHeader::default()
        };
        self.model.clear();
        self.bytes.clear();
        self.finder.clear();
        self.probs = PacketProbs::new();
        self.coder.clear();
        self.shapes.clear();
        self.blocks.clear();
        self.sites.clear();
    }

    /// Codes a payload that is not empty.
    fn payload(&mut self, stream: u16, payload: &[u8]) {
        let index = self.model.stream(stream);
        let mut items = std::mem::take(&mut self.items);
        items.clear();
        self.split(stream, payload, &mut items);
        let mut last = self.model.streams[index].serial;
        let mut skips = false;
        for serial in items.iter().filter_map(|item| item.serial) {
            skips |= serial != last.wrapping_add(1) & SERIAL_MASK as u32;
            last = serial;
        }
        self.model.skips_serials = self.probs.skips(&mut self.coder, skips);
        let mut rest = payload;
        for item in &items {
            let (bytes, after) = rest.split_at(item.size);
            match &item.shape {
                Some((shape, kind)) => self.event(index, shape, *kind, bytes),
                None => self.run(index, bytes),
            }
            rest = after;
        }
        self.items = items;
    }

    /// Splits a payload into events with a shape and runs of other bytes.
    fn split(&mut self, stream: u16, payload: &[u8], items: &mut Vec<Item>) {
        let may_have_shapes = (FIRST_THREAD..=LAST_THREAD).contains(&stream);
        let mut rest = payload;
        while !rest.is_empty() {
            let shape = self.types.shape(rest).filter(|_| may_have_shapes);
            let shape = shape.filter(|shape| usize::from(shape.size()) <= rest.len());
            let shape = shape.and_then(|shape| Some((shape, self.kind(&shape)?)));
            let size = match &shape {
                Some((shape, _)) => shape.size().into(),
                None if may_have_shapes => self.types.size(rest).unwrap_or(rest.len()),
                None => rest.len(),
            };
            let size = size.clamp(1, rest.len());
            let serial = shape.filter(|(shape, _)| shape.synced).and_then(|(shape, _)| {
                let [a, b, c] = *rest.get(shape.head_size.into()..)?.first_chunk()?;
                Some(u32::from_le_bytes([a, b, c, 0]))
            });
            match items.last_mut() {
                Some(Item { shape: None, size: run, .. }) if shape.is_none() => *run += size,
                _ => items.push(Item { shape, size, serial }),
            }
            rest = rest.get(size..).unwrap_or_default();
        }
    }

    /// The number of a shape in the chunk; `None` if there are too many.
    fn kind(&mut self, shape: &Shape) -> Option<u32> {
        let found = self.shapes.iter().position(|known| known == shape);
        if found.is_none() {
            if self.shapes.len() == MAX_KINDS {
                return None;
            }
            self.shapes.push(*shape);
        }
        Some(found.unwrap_or(self.shapes.len() - 1) as u32)
    }

    /// Codes bytes without a shape.
    fn run(&mut self, stream: usize, run: &[u8]) {
        let event = Event { kind: BYTES, ..Event::default() };
        self.model.event(&mut self.coder, stream, event, EncoderHints::default());
        self.probs.run(&mut self.coder, run.len());
        self.finder.write(&mut self.bytes, &mut self.coder, run);
    }

    /// Codes an event with a shape.
    fn event(&mut self, stream: usize, shape: &Shape, kind: u32, bytes: &[u8]) {
        let event = Event::read(kind, shape, bytes);
        let keeps = self.types.keeps_block(bytes);
        // The role of a shape is the one with which the chunk announced it.
        let announced = self.model.kinds.get(kind as usize).map(|kind| kind.role);
        let role = announced.unwrap_or(Role::of(shape, keeps));
        let mut known = EncoderHints { shape: *shape, keeps, ..EncoderHints::default() };
        let key = match role {
            Role::Allocates if event.stack > 0 => Some((BYTES as u8, u64::from(event.stack))),
            Role::Allocates => Some((BYTES as u8 + 1, event.layout)),
            Role::None if shape.start() < shape.size() => Some((kind as u8, event.value)),
            _ => None,
        };
        if let Some(key) = key {
            known.site = self.sites.get(&key).copied().unwrap_or(NEW);
        }
        if matches!(role, Role::Frees | Role::Keeps) {
            known.block = self.blocks.get(&event.value).copied().unwrap_or_default();
            known.site = self.model.blocks.get(known.block).map_or(0, |(_, site, _)| site);
        }
        let coded = self.model.event(&mut self.coder, stream, event, known);
        debug_assert_eq!(coded.event, event);
        match role {
            Role::Allocates => drop(self.blocks.insert(event.value, coded.block)),
            Role::Frees => drop(self.blocks.remove(&event.value)),
            Role::None | Role::Keeps => {}
        }
        if let (Some(key), NEW) = (key, known.site) {
            self.sites.insert(key, coded.site);
        }
        self.header.events += 1;
        if shape.synced {
            self.header.first_serial.get_or_insert(event.serial);
        }
    }
}
