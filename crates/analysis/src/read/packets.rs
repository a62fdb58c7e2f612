//! The packets of a trace, and the damaged ones among them.

#[cfg(feature = "read")]
mod ahead;
mod batch;
#[cfg(feature = "read")]
mod packed;

use super::decoder::Decoder;
use super::event::Visitor;
use super::resync::{MIN_POINTS_AT_END, Resync, ResyncBudget, SKIPPED_UNREAD};
use super::source::Source;
use super::summary::{Packets, Summary, TypeCount};
use batch::Batch;
use memledger_format::Error;
use memledger_format::compact;
use memledger_format::handshake::Handshake;
use memledger_format::handshake::Transport;
use memledger_format::packet::{
    Coding, FIRST_THREAD, HEADER, Header, LAST_THREAD, MAX_PAYLOAD, TYPES,
};
use memledger_format::unpack::Unpacker;
#[cfg(feature = "read")]
use packed::Chunks;
use std::io::Read;

/// The default limit for the memory of waiting events, in bytes: a base, plus an amount for each
/// byte of input, up to a maximum. A waiting event takes its bytes and an item of 24 bytes. The
/// unused capacity of the buffers also counts.
const BASE_HELD_BYTES: usize = 256 << 20;
const HELD_BYTES_PER_INPUT_BYTE: u64 = 64;
const MAX_HELD_BYTES: u64 = 4 << 30;

/// Reads a trace packet by packet; [`read`](super::read()) is the short form.
#[must_use = "it reads nothing until it is asked for packets"]
pub struct Reader<R> {
    source: Source<R>,
    handshake: Handshake,
    decoder: Decoder,
    packets: Packets,
    skipped: u64,
    truncated: u64,
    /// The highest stream id of a thread so far.
    highest_stream: u16,
    unpacker: Unpacker,
    /// The remaining budget for resynchronisation.
    resync_budget: ResyncBudget,
    /// The limit for the memory of waiting events, if it was set.
    memory_limit: Option<usize>,
    /// The pass was ended early.
    stopped: bool,
    /// The packets of transport 2 that are not decoded yet.
    batch: Batch,
    /// The chunks of transport 79.
    #[cfg(feature = "read")]
    chunks: Chunks,
}

impl<R> std::fmt::Debug for Reader<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader").field("handshake", &self.handshake).finish_non_exhaustive()
    }
}

impl<R: Read> Reader<R> {
    /// Reads the start of a trace.
    ///
    /// # Errors
    /// As [`read`](super::read()).
    pub fn open(mut source: R) -> Result<Self, Error> {
        let (handshake, offset, ahead) = Handshake::decode_ahead(&mut source)?;
        #[cfg(not(feature = "read"))]
        if handshake.transport == Transport::Packed {
            let what = "packed traces are read with the feature `read` of memledger-analysis";
            return Err(Error::new(memledger_format::ErrorKind::UnsupportedTrace, what));
        }
        Ok(Self {
            source: Source::with(&ahead, source, offset),
            decoder: Decoder::for_trace(&handshake),
            handshake,
            packets: Packets::default(),
            skipped: 0,
            truncated: 0,
            highest_stream: FIRST_THREAD,
            unpacker: Unpacker::new(),
            resync_budget: ResyncBudget::default(),
            memory_limit: None,
            stopped: false,
            batch: Batch::default(),
            #[cfg(feature = "read")]
            chunks: Chunks::default(),
        })
    }

    /// Sets the limit, in bytes, for the memory of the events that wait for an earlier event, as
    /// [`Decoder::memory_limit`] does. The default is 256 MiB plus 64 bytes for each byte read, at
    /// most 4 GiB, so that a small input cannot use up the memory of the machine.
    pub fn memory_limit(mut self, bytes: usize) -> Self {
        self.memory_limit = Some(bytes);
        self.decoder.memory_limit(bytes);
        self
    }

    /// Skips `size` bytes of input. They raise the budget for resynchronisation and the limit for
    /// memory.
    fn consume(&mut self, size: usize) {
        self.source.consume(size);
        self.resync_budget.grow(size);
        if self.memory_limit.is_none() {
            let more = self.source.offset().saturating_mul(HELD_BYTES_PER_INPUT_BYTE);
            let most = more.min(MAX_HELD_BYTES - BASE_HELD_BYTES as u64) as usize;
            self.decoder.memory_limit(BASE_HELD_BYTES.saturating_add(most));
        }
    }

    /// How the trace starts.
    pub fn handshake(&self) -> &Handshake {
        &self.handshake
    }

    /// Reads all packets and delivers their events, until the visitor [is done](Visitor::is_done)
    /// or `stop` returns `true`.
    pub(super) fn packets(&mut self, visitor: &mut impl Visitor, mut stop: impl FnMut() -> bool) {
        while self.packet(visitor) {
            if visitor.is_done() || stop() {
                self.stopped = true;
                return;
            }
        }
    }

    /// Reads one packet, or skips one damaged range, and delivers the events that need not wait.
    /// Returns `false` at the end of the input.
    pub fn packet(&mut self, visitor: &mut impl Visitor) -> bool {
        self.packet_with(visitor, &mut |_, _| {})
    }

    /// Whether the next packet is there to its end. While a trace is being written, the end of the input is
    /// not the end of the trace: this can be asked again when there is more, and
    /// [`packet`](Self::packet) would take what is there of a packet for a damaged one.
    ///
    /// ```
    /// use memledger_analysis::Analyzer;
    /// use memledger_analysis::read::Reader;
    /// use std::fs::{self, File};
    /// use std::io::Write;
    ///
    /// let whole = fs::read("../../tests/samples/memledger-small.utrace")?;
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("growing.utrace");
    /// let mut file = File::create(&path)?;
    /// file.write_all(&whole[..1000])?;
    /// let mut analyzer = Analyzer::new();
    /// let mut reader = Reader::open(File::open(&path)?)?;
    /// while reader.is_packet_ahead() {
    ///     reader.packet(&mut analyzer);
    /// }
    /// assert!(!reader.has_ended());
    /// file.write_all(&whole[1000..])?;
    /// while reader.is_packet_ahead() {
    ///     reader.packet(&mut analyzer);
    /// }
    /// assert!(reader.has_ended());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn is_packet_ahead(&mut self) -> bool {
        #[cfg(feature = "read")]
        if self.handshake.transport == Transport::Packed {
            return self.is_packed_ahead();
        }
        if !self.source.has(HEADER) {
            return false;
        }
        let start = self.source.buffered().first_chunk::<HEADER>();
        let header = start.and_then(|&start| Header::decode(start, self.handshake.transport));
        // A header that is damaged is found by `packet`.
        header.is_none_or(|header| self.source.has(header.size))
    }

    /// Whether the event with which memledger ends a trace was read. Unreal marks no end, so this stays
    /// `false` for its traces: whether such a trace still grows can only be seen from its file.
    /// ([`Counts::ended`](super::Counts::ended) says whether a trace that does not grow is complete.)
    pub fn has_ended(&self) -> bool {
        self.decoder.has_end_mark()
    }

    /// How many bytes of the input were taken in so far.
    pub fn bytes_read(&self) -> u64 {
        self.source.offset()
    }

    /// As [`packet`](Self::packet), and calls `seen` with the stream id and the payload that the
    /// decoder gets. For a sync packet these are [`SYNC`](memledger_format::packet::SYNC) and no
    /// bytes.
    pub fn packet_with(
        &mut self,
        visitor: &mut impl Visitor,
        seen: &mut impl FnMut(u16, &[u8]),
    ) -> bool {
        if let Some(is_read) = self.without_headers(visitor, seen) {
            return is_read;
        }
        let offset = self.source.offset();
        self.decoder.set_offset(Some(offset));
        let bytes = self.source.peek(HEADER);
        let Some(&start) = bytes.first_chunk::<HEADER>() else {
            let rest = bytes.len();
            if rest > 0 {
                self.truncate(rest, visitor);
            }
            return false;
        };
        let Some(header) = Header::decode(start, self.handshake.transport) else {
            let what = format!("the {HEADER} bytes at offset {offset} are not a packet header");
            return self.resynchronise(&what, visitor);
        };
        if self.source.peek(header.size).len() < header.size {
            return self.ends_inside(header, visitor);
        }
        if !self.is_credible(&header) {
            let what =
                format!("the {HEADER} bytes at offset {offset} are unlikely to be a packet header");
            return self.resynchronise(&what, visitor);
        }
        let Some(packet) = self.source.buffered().get(..header.size) else { return false };
        let payload = match self.unpacker.payload(&header, packet) {
            Ok(payload) => payload,
            Err(what) => return self.damaged(header, &what, visitor),
        };
        seen(header.stream, payload);
        if header.is_sync(self.handshake.transport) {
            self.packets.sync += 1;
            self.decoder.sync(visitor);
        } else {
            *match header.coding {
                Coding::Plain => &mut self.packets.plain,
                Coding::Lz4 => &mut self.packets.encoded,
                Coding::Compact => &mut self.packets.compact,
            } += 1;
            match self.handshake.transport {
                Transport::Batch => {
                    let serial = u16::from_le_bytes([start[0], start[1]]);
                    self.batch.packet(serial, offset, payload, &mut self.decoder, visitor);
                }
                _ => self.decoder.packet(header.stream, payload, visitor),
            }
        }
        if header.stream <= LAST_THREAD {
            self.highest_stream = self.highest_stream.max(header.stream);
        }
        self.consume(header.size);
        true
    }

    /// As [`packet_with`](Self::packet_with), of transports whose packets have no header; `None` of others.
    fn without_headers(
        &mut self,
        visitor: &mut impl Visitor,
        seen: &mut impl FnMut(u16, &[u8]),
    ) -> Option<bool> {
        match self.handshake.transport {
            Transport::Raw => Some(self.raw(visitor, seen)),
            #[cfg(feature = "read")]
            Transport::Packed => Some(self.packed(visitor, seen)),
            _ => None,
        }
    }

    /// Reads the next bytes of a trace without packets.
    fn raw(&mut self, visitor: &mut impl Visitor, seen: &mut impl FnMut(u16, &[u8])) -> bool {
        self.decoder.set_offset(Some(self.source.offset()));
        let bytes = self.source.peek(1);
        let bytes = bytes.get(..bytes.len().min(MAX_PAYLOAD)).unwrap_or_default();
        let size = bytes.len();
        if size > 0 {
            seen(TYPES, bytes);
            self.decoder.packet(TYPES, bytes, visitor);
            self.consume(size);
        }
        size > 0
    }

    /// Delivers the waiting events and returns the summary. May be called before the end of the
    /// input.
    pub fn finish(mut self, visitor: &mut impl Visitor) -> Summary {
        self.batch.end(&mut self.decoder, visitor);
        let error = self.source.take_error();
        let stopped = self.stopped;
        self.decoder.finish_after(error.is_none() && !stopped, visitor);
        Summary {
            input_bytes: self.source.offset(),
            packets: self.packets,
            skipped_bytes: self.skipped,
            truncated_bytes: self.truncated,
            counts: self.decoder.counts(),
            types: (self.decoder.types())
                .map(|(event_type, events)| TypeCount { event_type: event_type.clone(), events })
                .collect(),
            streams: self.decoder.streams(),
            stopped,
            error,
            handshake: self.handshake,
        }
    }

    /// Whether bytes that are legal as a header are probably one. If the size of the packet before
    /// is wrong, bytes of a payload can look like the header of an empty packet, or of the first
    /// packet of a stream.
    fn is_credible(&mut self, header: &Header) -> bool {
        // In a compact trace few packets of a thread are plain, so this may be a compact packet
        // whose flag is damaged.
        let likely = header.stream < FIRST_THREAD || self.handshake.transport != Transport::Compact;
        let seen = likely && self.decoder.has_stream(header.stream);
        // A coded packet needs no check here, because decoding checks it.
        let coded = header.coding != Coding::Plain;
        if header.is_sync(self.handshake.transport) || coded || header.size > HEADER && seen {
            return true;
        }
        // NOTE: does not read ahead, because a live source could block.
        let bytes = self.source.buffered();
        let payload = bytes.get(HEADER..header.size).unwrap_or_default();
        if self.decoder.is_plausible(header.stream, payload, &mut usize::from(u16::MAX)) {
            return true;
        }
        if !likely
            && compact::CompactDecoder::is_in_disguise(bytes.get(..header.size).unwrap_or_default())
        {
            return false;
        }
        let mut resync = Resync::new(
            &self.decoder,
            self.handshake.transport,
            self.highest_stream,
            &mut self.unpacker,
            &mut self.resync_budget,
        );
        resync.any_stream = true;
        let chain = resync.chain(bytes);
        !chain.broken || chain.points >= MIN_POINTS_AT_END
    }

    /// Handles a packet that cannot be decoded. If packets follow it, only this packet is lost;
    /// otherwise searches for the next packet.
    fn damaged(&mut self, header: Header, what: &str, visitor: &mut impl Visitor) -> bool {
        let offset = self.source.offset();
        let what = format!("a packet of stream {} is damaged: {what}", header.stream);
        self.packets.damaged += 1;
        let (window, all) = self.source.window();
        let others_follow = window.get(header.size..).is_some_and(|rest| {
            let chain = Resync::new(
                &self.decoder,
                self.handshake.transport,
                self.highest_stream,
                &mut self.unpacker,
                &mut self.resync_budget,
            )
            .chain(rest);
            chain.points >= MIN_POINTS_AT_END || chain.fills && all
        });
        if !others_follow {
            return self.resynchronise(&what, visitor);
        }
        self.skipped += header.size as u64;
        self.decoder.damage(offset, header.size as u64, what, visitor);
        self.decoder.packet_lost(header.stream, visitor);
        self.consume(header.size);
        true
    }

    /// Handles a packet that is longer than the rest of the input. The input was cut off, unless
    /// other packets begin inside this packet; then its size is wrong.
    fn ends_inside(&mut self, header: Header, visitor: &mut impl Visitor) -> bool {
        let (window, _) = self.source.window();
        let rest = window.len();
        if Resync::new(
            &self.decoder,
            self.handshake.transport,
            self.highest_stream,
            &mut self.unpacker,
            &mut self.resync_budget,
        )
        .is_filled(window)
        {
            let what = format!(
                "a packet of stream {} has a size of {}, but other packets begin inside it",
                header.stream, header.size
            );
            return self.resynchronise(&what, visitor);
        }
        self.truncate(rest, visitor);
        false
    }

    fn truncate(&mut self, rest: usize, visitor: &mut impl Visitor) {
        let offset = self.source.offset();
        self.truncated = rest as u64;
        let what = format!("the trace ends inside a packet, {rest} bytes after its start");
        self.decoder.damage(offset, rest as u64, what, visitor);
        self.consume(rest);
    }

    /// Skips bytes until packets begin again.
    fn resynchronise(&mut self, what: &str, visitor: &mut impl Visitor) -> bool {
        let offset = self.source.offset();
        let mut skipped = 0;
        loop {
            let (window, all) = self.source.window();
            let mut resync = Resync::new(
                &self.decoder,
                self.handshake.transport,
                self.highest_stream,
                &mut self.unpacker,
                &mut self.resync_budget,
            );
            let (step, found) = match resync.find(window, all) {
                Some(start) => (start, true),
                // The budget is used up. The skipped bytes raise it for the next attempt.
                None if resync.is_over() => (window.len().min(SKIPPED_UNREAD), false),
                None if all => (window.len(), false),
                // A chain of packets may begin in the second half of the window.
                None => (window.len() / 2, false),
            };
            skipped += step as u64;
            self.consume(step);
            if found || self.source.is_over() {
                break;
            }
        }
        self.skipped += skipped;
        let what = format!("{what}; {skipped} bytes are skipped");
        self.decoder.damage(offset, skipped, what, visitor);
        self.decoder.any_packet_lost(visitor);
        true
    }
}

#[cfg(test)]
mod tests;
