//! The important events of a stream, which every sink gets, even one that joins later.

use crate::trace::sink::Sink;
use memledger_format::encode::{Declaration, Value};
use memledger_format::lz4;
use memledger_format::packet::IMPORTANTS;

/// The largest piece that is sent as one packet and kept as one LZ4 block, in bytes.
const PIECE: usize = 32 << 10;

/// The important events of a stream.
pub(crate) struct Importants {
    /// Events that were not sent yet.
    fresh: Vec<u8>,
    /// Events that were sent, and are not in a block yet because they are too few.
    recent: Vec<u8>,
    /// Blocks of events that were sent, each with its decoded size.
    kept: Vec<(usize, Vec<u8>)>,
    compressor: lz4::Compressor,
}

impl Importants {
    pub(crate) fn new() -> Self {
        Self {
            fresh: Vec::new(),
            recent: Vec::new(),
            kept: Vec::new(),
            compressor: lz4::Compressor::new(),
        }
    }

    /// Adds an event, to be sent in this cycle.
    pub(crate) fn add(&mut self, declaration: &Declaration, values: &[Value<'_>]) {
        declaration.append(values, &mut self.fresh);
    }

    /// Adds encoded events, to be sent before the others of this cycle.
    pub(crate) fn add_first(&mut self, events: Vec<u8>) {
        self.fresh.splice(0..0, events);
    }

    pub(crate) fn add_encoded(&mut self, events: &[u8]) {
        self.fresh.extend_from_slice(events);
    }

    /// Passes the new events to `send` in pieces, and keeps them.
    pub(crate) fn send(&mut self, mut send: impl FnMut(&[u8])) {
        let mut fresh = &self.fresh[..];
        while !fresh.is_empty() {
            let (piece, rest) = fresh.split_at(whole_events(fresh));
            send(piece);
            if self.recent.len() + piece.len() > PIECE {
                let mut block = Vec::new();
                let size = self.recent.len();
                if !self.compressor.append(&self.recent, &mut block) {
                    block.extend_from_slice(&self.recent);
                }
                block.shrink_to_fit();
                self.kept.push((size, block));
                self.recent.clear();
            }
            self.recent.extend_from_slice(piece);
            fresh = rest;
        }
        self.fresh.clear();
    }

    /// Sends all events that were sent before to a sink that joins now.
    pub(crate) fn replay(&self, sink: &mut dyn Sink) {
        for (size, block) in &self.kept {
            if *size == block.len() {
                sink.packet(IMPORTANTS, block);
                continue;
            }
            let mut piece = vec![0; *size];
            let decoded = lz4::decode(block, &mut piece);
            debug_assert_eq!(decoded, Ok(()));
            sink.packet(IMPORTANTS, &piece);
        }
        if !self.recent.is_empty() {
            sink.packet(IMPORTANTS, &self.recent);
        }
    }
}

/// The size of the first whole events in `events`: at most [`PIECE`] bytes, but at least one event.
///
/// Readers accept an event that is in two packets. But after a lost packet they resynchronise only
/// at a packet that starts with an event, so each piece does.
fn whole_events(events: &[u8]) -> usize {
    let mut end = 0;
    while let Some(&[_, _, low, high]) = events.get(end..end + 4) {
        let next = end + 4 + usize::from(u16::from_le_bytes([low, high]));
        if next > PIECE && end > 0 {
            break;
        }
        end = next;
    }
    end.min(events.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use memledger_format::schema::{FieldType, IMPORTANT, NO_SYNC};

    #[derive(Default)]
    struct Collect(std::sync::Arc<std::sync::Mutex<Vec<Vec<u8>>>>);

    impl Sink for Collect {
        fn packet(&mut self, stream: u16, payload: &[u8]) {
            assert_eq!(stream, IMPORTANTS);
            self.0.lock().unwrap().push(payload.to_vec());
        }

        fn sync(&mut self) -> Result<(), Error> {
            Ok(())
        }
    }

    #[test]
    fn a_late_sink_gets_every_byte_an_early_one_got() {
        static EVENT: Declaration = Declaration {
            uid: 99,
            logger: "A",
            event: "B",
            flags: IMPORTANT | NO_SYNC,
            fields: &[("Number", FieldType::U64), ("Text", FieldType::AnsiString)],
        };
        let mut seen: Vec<Vec<u8>> = Vec::new();
        let mut importants = Importants::new();
        for number in 0..10_000_u64 {
            let text = "some name ".repeat(number as usize % 7);
            importants.add(&EVENT, &[number.into(), (&*text).into()]);
            if number % 97 == 0 {
                importants.send(|piece| seen.push(piece.to_vec()));
            }
        }
        importants.send(|piece| seen.push(piece.to_vec()));
        importants.send(|_| panic!("nothing is new"));
        let late = Collect::default();
        let replayed = late.0.clone();
        importants.replay(&mut { late });
        let replayed = replayed.lock().unwrap();
        assert_eq!(seen.concat(), replayed.concat());
        for piece in seen.iter().chain(&*replayed) {
            assert!(piece.len() <= PIECE);
            assert_eq!(piece[..2], 99_u16.to_le_bytes(), "a packet starts with an event");
        }
        let kept = importants.kept.iter().map(|(_, block)| block.len()).sum::<usize>();
        assert!(kept < seen.concat().len() / 3, "{kept}");
    }
}
