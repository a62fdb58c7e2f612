//! Unpacks chunks, on threads of its own if they are large.
//!
//! PERF: to unpack an event takes longer than to deliver it. So chunks are unpacked ahead of the
//! reader, each as a whole, and in turn by each thread.

use memledger_format::packed::{ChunkDecoder, ChunkHeader};
use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, available_parallelism};

/// The most threads. Two unpack as fast as most analyses read.
const MAX_THREADS: usize = 2;
/// Chunks whose payloads are smaller, in bytes, are unpacked by the reader's thread.
const MIN_PAYLOAD: u32 = 1 << 20;

/// The packets of a chunk.
#[derive(Default)]
pub(super) struct Unpacked {
    payloads: Vec<u8>,
    /// The stream and the size of each.
    packets: VecDeque<(u16, usize)>,
    /// The position of the next payload.
    at: usize,
    /// What is wrong with the chunk, after these packets.
    pub error: Option<String>,
}

impl Unpacked {
    fn new(decoder: &mut ChunkDecoder, chunk: &[u8]) -> Self {
        let mut unpacked = Self { error: decoder.open(chunk).err(), ..Self::default() };
        while unpacked.error.is_none() {
            match decoder.packet() {
                Ok(Some((stream, payload))) => {
                    unpacked.packets.push_back((stream, payload.len()));
                    unpacked.payloads.extend_from_slice(payload);
                }
                Ok(None) => break,
                Err(what) => unpacked.error = Some(what),
            }
        }
        unpacked
    }

    pub(super) fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// The next packet.
    pub(super) fn packet(&mut self) -> Option<(u16, &[u8])> {
        let (stream, size) = self.packets.pop_front()?;
        let start = self.at;
        self.at += size;
        Some((stream, self.payloads.get(start..self.at).unwrap_or_default()))
    }
}

/// A chunk that is being unpacked: its header and its offset in the input.
pub(super) struct Pending {
    pub header: ChunkHeader,
    pub offset: u64,
    result: Receiver<Unpacked>,
}

type Job = (Vec<u8>, Sender<Unpacked>);

/// Unpacks chunks in the order of the input.
#[derive(Default)]
pub(super) struct Ahead {
    pending: VecDeque<Pending>,
    threads: Vec<Sender<Job>>,
    next: usize,
    /// Whether there cannot be threads.
    is_alone: bool,
    decoder: Option<Box<ChunkDecoder>>,
}

impl Ahead {
    /// Whether another chunk can be begun. There is always one, so that a reader has something to
    /// wait for, and one more for each thread.
    pub(super) fn has_room(&self) -> bool {
        self.pending.len() <= self.threads.len()
    }

    pub(super) fn is_idle(&self) -> bool {
        self.pending.is_empty()
    }

    /// Begins a chunk.
    pub(super) fn push(&mut self, header: ChunkHeader, offset: u64, chunk: &[u8]) {
        let (sender, result) = channel();
        if header.payload_bytes >= MIN_PAYLOAD && self.threads.is_empty() && !self.is_alone {
            self.start_threads();
        }
        let thread = match header.payload_bytes {
            MIN_PAYLOAD.. => self.threads.get(self.next % self.threads.len().max(1)),
            _ => None,
        };
        self.next = self.next.wrapping_add(1);
        let job = (chunk.to_vec(), sender);
        let refused = match thread {
            Some(thread) => thread.send(job).err().map(|error| error.0),
            None => Some(job),
        };
        if let Some((chunk, sender)) = refused {
            let decoder = self.decoder.get_or_insert_default();
            // The receiver is kept below, so this cannot fail.
            let _ = sender.send(Unpacked::new(decoder, &chunk));
        }
        self.pending.push_back(Pending { header, offset, result });
    }

    /// The chunk that was begun first.
    pub(super) fn pop(&mut self) -> Option<(Pending, Unpacked)> {
        let pending = self.pending.pop_front()?;
        let unpacked = pending.result.recv().unwrap_or_else(|_| Unpacked {
            error: Some("the thread that unpacks it has ended".to_owned()),
            ..Unpacked::default()
        });
        Some((pending, unpacked))
    }

    /// Starts a thread for each further processor. They end when this is dropped.
    fn start_threads(&mut self) {
        let processors = available_parallelism().map_or(1, usize::from);
        for _ in 0..(processors - 1).min(MAX_THREADS) {
            let (sender, jobs) = channel::<Job>();
            let run = move || {
                let mut decoder = ChunkDecoder::new();
                for (chunk, result) in jobs {
                    // It is not received if the reader has ended.
                    let _ = result.send(Unpacked::new(&mut decoder, &chunk));
                }
            };
            if Builder::new().name("chunk reader".into()).spawn(run).is_ok() {
                self.threads.push(sender);
            }
        }
        self.is_alone = self.threads.is_empty();
    }
}
