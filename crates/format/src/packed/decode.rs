//! Unpacks the packets of a chunk.

use super::bytes::Bytes;
use super::chunk::{CHUNK_HEADER, ChunkHeader};
use super::code::EncoderHints;
use super::event::{EVENT_ROOM, Event};
use super::model::{BYTES, Model};
use super::packets::PacketProbs;
use super::range::Decoder;
use crate::packet::{LAST_THREAD, PSEUDO_IMPORTANTS, SYNC};

/// The largest payload of a packet.
const MAX_PAYLOAD: usize = u16::MAX as usize;

/// Unpacks chunks, each by itself.
///
/// Takes at most some 70 MB, whatever the input is; for a usual chunk 15 MB. A memory event costs 60
/// to 100 ns. Any input gives packets or an error.
pub struct ChunkDecoder {
    model: Model,
    bytes: Bytes,
    probs: PacketProbs,
    body: Vec<u8>,
    position: (u64, u64, usize),
    header: ChunkHeader,
    /// Packets, bytes of payloads and events that are still to come.
    packets: u32,
    payload_bytes: u32,
    events: u32,
    payload: Vec<u8>,
}

impl std::fmt::Debug for ChunkDecoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChunkDecoder").field("header", &self.header).finish_non_exhaustive()
    }
}

impl Default for ChunkDecoder {
    fn default() -> Self {
        Self::new()
    }
}

impl ChunkDecoder {
    /// A decoder, without a chunk.
    pub fn new() -> Self {
        Self {
            model: Model::new(),
            bytes: Bytes::new(),
            probs: PacketProbs::new(),
            body: Vec::new(),
            position: (0, 0, 0),
            header: ChunkHeader::default(),
            packets: 0,
            payload_bytes: 0,
            events: 0,
            payload: vec![0; MAX_PAYLOAD + EVENT_ROOM],
        }
    }

    /// Begins the chunk that `bytes` begin with; returns its size.
    ///
    /// # Errors
    /// One clause that says what is wrong with it.
    pub fn open(&mut self, bytes: &[u8]) -> Result<usize, String> {
        self.packets = 0;
        let Some(header) = ChunkHeader::decode(bytes) else {
            return Err("it has no header".to_owned());
        };
        let Some(body) = bytes.get(CHUNK_HEADER..header.size()) else {
            return Err(format!("it has {} bytes of {}", bytes.len(), header.size()));
        };
        if !header.fits(body) {
            return Err("its checksum does not match".to_owned());
        }
        self.open_unchecked(&header, body);
        Ok(header.size())
    }

    /// Begins a chunk whose checksum is not looked at, for tests of damage.
    #[doc(hidden)]
    pub fn open_unchecked(&mut self, header: &ChunkHeader, body: &[u8]) {
        self.body.clear();
        self.body.extend_from_slice(body);
        self.position = Decoder::new(&self.body).position();
        self.model.clear();
        self.bytes.clear();
        self.probs = PacketProbs::new();
        (self.packets, self.payload_bytes) = (header.packets, header.payload_bytes);
        (self.events, self.header) = (header.events, *header);
    }

    /// The header of the chunk that was begun last.
    pub fn header(&self) -> &ChunkHeader {
        &self.header
    }

    /// How many packets of the chunk are still to come.
    pub fn packets_left(&self) -> u32 {
        self.packets
    }

    /// The next packet of the chunk: its stream and its payload. `None` after the last one.
    ///
    /// # Errors
    /// One clause that says what is wrong with the chunk. It then has no further packets.
    pub fn packet(&mut self) -> Result<Option<(u16, &[u8])>, String> {
        let Some(left) = self.packets.checked_sub(1) else {
            // A chunk without packets must say that it has nothing else.
            let is_all = self.header.packets > 0 || self.payload_bytes == 0 && self.events == 0;
            return if is_all { Ok(None) } else { Err("it has events and no packets".to_owned()) };
        };
        self.packets = 0;
        let number = self.header.packets - left;
        let mut coder = Decoder::at(&self.body, self.position);
        let (stream, size) = self.probs.start(&mut coder, 0, 0);
        let is_stream = stream <= LAST_THREAD || stream == PSEUDO_IMPORTANTS || stream == SYNC;
        let most = if stream == SYNC { 0 } else { MAX_PAYLOAD.min(self.payload_bytes as usize) };
        if !is_stream || size > most {
            return Err(format!("its packet {number} of stream {stream} has {size} bytes"));
        }
        self.payload_bytes -= size as u32;
        let work = Work {
            model: &mut self.model,
            bytes: &mut self.bytes,
            probs: &mut self.probs,
            payload: &mut self.payload,
            events: &mut self.events,
        };
        let position = work
            .payload(coder, stream, size)
            .ok_or_else(|| format!("the events of its packet {number} are invalid"))?;
        let is_last = left == 0;
        if is_last && (self.payload_bytes > 0 || self.events > 0) {
            return Err(format!(
                "{} bytes and {} events are missing at its end",
                self.payload_bytes, self.events
            ));
        }
        (self.position, self.packets) = (position, left);
        Ok(Some((stream, self.payload.get(..size).unwrap_or_default())))
    }
}

/// The unpacking of one packet.
struct Work<'a> {
    model: &'a mut Model,
    bytes: &'a mut Bytes,
    probs: &'a mut PacketProbs,
    payload: &'a mut [u8],
    events: &'a mut u32,
}

impl Work<'_> {
    /// Reads a payload of this size; returns the position after it, or `None` if it is damaged.
    fn payload(
        self,
        mut coder: Decoder<'_>,
        stream: u16,
        size: usize,
    ) -> Option<(u64, u64, usize)> {
        let mut at = 0;
        let mut index = 0;
        if size > 0 {
            index = self.model.stream(stream);
            self.model.skips_serials = self.probs.skips(&mut coder, false);
        }
        while at < size {
            let none = Event { kind: BYTES, ..Event::default() };
            let coded = self.model.event(&mut coder, index, none, EncoderHints::default());
            if coded.event.kind == BYTES {
                let run = self.probs.run(&mut coder, 0);
                let end = at.checked_add(run).filter(|end| *end <= size && run > 0)?;
                self.bytes.read(&mut coder, self.payload.get_mut(at..end)?)?;
                at = end;
                continue;
            }
            let shape = &self.model.kinds.get(coded.event.kind as usize)?.shape;
            let room = self.payload.get_mut(at..)?.first_chunk_mut()?;
            coded.event.write(shape, room);
            at += usize::from(shape.size());
            *self.events = self.events.checked_sub(1)?;
            if at > size || self.model.is_damaged {
                return None;
            }
        }
        Some(coder.position())
    }
}
