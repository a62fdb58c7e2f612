//! The packets of transport 79, which come in chunks.
//!
//! ```text
//! chunk 0 | chunk 1 (damaged) | chunk 2 | ? ? ? ? | chunk 4
//!           its size is known             the next header is searched for
//! ```
//! The header of a chunk has a checksum of its own, so a chunk is passed over as a whole if only
//! its body is damaged. Chunks are numbered, so a missing one is noticed.

use super::Reader;
use super::ahead::{Ahead, Unpacked};
use crate::read::event::Visitor;
use memledger_format::packed::{CHUNK_HEADER, ChunkHeader, find_chunk};
use memledger_format::packet::{LAST_THREAD, SYNC};
use std::io::Read;

/// The chunks that are being read, and what is expected of the next one.
#[derive(Default)]
pub(super) struct Chunks {
    ahead: Ahead,
    /// The packets of the chunk that is being read, which begins at this offset in the input.
    unpacked: Unpacked,
    offset: u64,
    next_number: u32,
    next_event: u64,
    /// Whether the bytes before the next chunk were damaged.
    after_damage: bool,
}

impl<R: Read> Reader<R> {
    /// As [`is_packet_ahead`](Self::is_packet_ahead).
    pub(super) fn is_packed_ahead(&mut self) -> bool {
        if !self.chunks.unpacked.is_empty() || !self.chunks.ahead.is_idle() {
            return true;
        }
        if !self.source.has(CHUNK_HEADER) {
            return false;
        }
        // A damaged header is found when it is read.
        let header = ChunkHeader::decode(self.source.buffered());
        header.is_none_or(|header| self.source.has(header.size()))
    }

    /// Reads the next packet of a chunk, or skips a damaged one.
    pub(super) fn packed(
        &mut self,
        visitor: &mut impl Visitor,
        seen: &mut impl FnMut(u16, &[u8]),
    ) -> bool {
        if self.chunks.unpacked.is_empty() {
            self.unpack_ahead();
            let Some((pending, unpacked)) = self.chunks.ahead.pop() else {
                return self.no_chunk(visitor);
            };
            let (header, offset) = (pending.header, pending.offset);
            (self.chunks.unpacked, self.chunks.offset) = (unpacked, offset);
            self.decoder.set_offset(Some(offset));
            self.is_in_order(&header, offset, visitor);
            if let (true, Some(what)) =
                (self.chunks.unpacked.is_empty(), &self.chunks.unpacked.error)
            {
                let ChunkHeader { number, events, .. } = header;
                let what = format!("{number} is damaged: {what}; it has {events} events");
                self.damaged_chunk(offset, header.size() as u64, &what, visitor);
                return true;
            }
        }
        self.decoder.set_offset(Some(self.chunks.offset));
        match self.chunks.unpacked.packet() {
            Some((SYNC, _)) => {
                seen(SYNC, &[]);
                self.packets.sync += 1;
                self.decoder.sync(visitor);
            }
            Some((stream, payload)) => {
                seen(stream, payload);
                self.packets.packed += 1;
                self.decoder.packet(stream, payload, visitor);
                if stream <= LAST_THREAD {
                    self.highest_stream = self.highest_stream.max(stream);
                }
            }
            None => {}
        }
        if let (true, Some(what)) =
            (self.chunks.unpacked.is_empty(), self.chunks.unpacked.error.take())
        {
            let what = format!("{} is damaged: {what}", self.chunks.next_number.wrapping_sub(1));
            self.damaged_chunk(self.chunks.offset, 0, &what, visitor);
        }
        true
    }

    /// Begins the next chunks, as far as they follow without damage.
    fn unpack_ahead(&mut self) {
        while self.chunks.ahead.has_room() && self.source.has(CHUNK_HEADER) {
            let Some(header) = ChunkHeader::decode(self.source.buffered()) else { return };
            if !self.source.has(header.size()) {
                return;
            }
            let offset = self.source.offset();
            let mut size = header.size();
            let body = self.source.buffered().get(CHUNK_HEADER..size).unwrap_or_default();
            if !header.fits(body) {
                // If bytes are missing in it, the next one begins before its end.
                let all = size + CHUNK_HEADER - 1;
                self.source.has(all);
                let buffered = self.source.buffered();
                let next = find_chunk(buffered.get(..all).unwrap_or(buffered), 1);
                size = next.unwrap_or(size);
            }
            let chunk = self.source.buffered().get(..size).unwrap_or_default();
            self.chunks.ahead.push(header, offset, chunk);
            self.consume(size);
        }
    }

    /// What is here is no whole chunk: the end of the input, or damage.
    fn no_chunk(&mut self, visitor: &mut impl Visitor) -> bool {
        let bytes = self.source.peek(CHUNK_HEADER);
        if bytes.len() >= CHUNK_HEADER && ChunkHeader::decode(bytes).is_none() {
            return self.next_chunk(visitor);
        }
        let (rest, _) = self.source.window();
        let rest = rest.len();
        if rest > 0 {
            self.truncate(rest, visitor);
        }
        false
    }

    /// Reports the chunks that are missing before this one.
    fn is_in_order(&mut self, header: &ChunkHeader, offset: u64, visitor: &mut impl Visitor) {
        let Chunks { next_number, next_event, after_damage, .. } = self.chunks;
        if header.number != next_number && !after_damage {
            let missing = header.events_before.saturating_sub(next_event);
            let what = format!(
                "{} follows where chunk {next_number} is expected; {missing} events are missing",
                header.number
            );
            self.damaged_chunk(offset, 0, &what, visitor);
        }
        self.chunks.next_number = header.number.wrapping_add(1);
        self.chunks.next_event = header.events_before.saturating_add(header.events.into());
        self.chunks.after_damage = false;
    }

    /// Reports a damaged chunk. `what` begins with its number.
    fn damaged_chunk(&mut self, offset: u64, skipped: u64, what: &str, visitor: &mut impl Visitor) {
        self.packets.damaged += 1;
        self.skipped += skipped;
        self.decoder.damage(offset, skipped, format!("chunk {what}"), visitor);
        self.decoder.any_packet_lost(visitor);
    }

    /// Skips bytes until a chunk begins.
    fn next_chunk(&mut self, visitor: &mut impl Visitor) -> bool {
        let offset = self.source.offset();
        let mut skipped = 0;
        loop {
            let (window, all) = self.source.window();
            let found = find_chunk(window, 1);
            let step = match found {
                Some(start) => start,
                None if all => window.len(),
                // A header may begin in the last bytes.
                None => window.len().saturating_sub(CHUNK_HEADER).max(1),
            };
            skipped += step as u64;
            self.consume(step);
            if found.is_some() || self.source.is_over() {
                break;
            }
        }
        self.skipped += skipped;
        self.chunks.after_damage = true;
        let what = format!(
            "the {CHUNK_HEADER} bytes at offset {offset} are not a chunk header; {skipped} bytes are skipped"
        );
        self.decoder.damage(offset, skipped, what, visitor);
        self.decoder.any_packet_lost(visitor);
        true
    }
}
