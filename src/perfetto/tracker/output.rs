//! Where the packets of a session go: a file, or memory that keeps the last of them.

use crate::error::Error;
use crate::trace::sink::file::PieceFile;
use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A ring is divided into this many parts, and loses one of them at a time.
const PARTS: usize = 16;
/// The smallest part, in bytes.
const MIN_PART: usize = 4 << 10;

/// See the [module](self).
pub(crate) enum Output {
    File(PieceFile),
    Ring(Arc<Ring>),
}

impl Output {
    /// Writes whole packets. Returns whether the next packets must not rely on these.
    pub(super) fn write(&mut self, packets: &[u8]) -> Result<bool, Error> {
        match self {
            Self::File(file) => file.append(packets).map(|()| false),
            Self::Ring(ring) => Ok(ring.push(packets)),
        }
    }

    /// How many bytes of packets are written at once: less than a part of a ring.
    pub(super) fn write_at(&self) -> usize {
        match self {
            Self::File(_) => 256 << 10,
            Self::Ring(ring) => ring.limit / PARTS / 2,
        }
    }

    pub(super) fn close(&mut self) {
        if let Self::File(file) = self {
            file.close();
        }
    }

    pub(super) fn written(&self) -> u64 {
        match self {
            Self::File(file) => file.written(),
            Self::Ring(ring) => ring.lock().bytes as u64,
        }
    }
}

/// The last packets of a session, in parts that each can be read without those before.
pub(crate) struct Ring {
    limit: usize,
    parts: Mutex<Parts>,
    /// What the ring is written to at the end of the session, until it is.
    file: Mutex<Option<PieceFile>>,
}

#[derive(Default)]
struct Parts {
    /// The parts that are full, the oldest first, and the one that is being filled.
    full: VecDeque<Vec<u8>>,
    last: Vec<u8>,
    /// Bytes of all parts.
    bytes: usize,
}

impl Ring {
    /// A ring of `limit` bytes; the smallest has 64 KiB. It is written to `file` at the end.
    pub(crate) fn new(limit: usize, file: Option<PieceFile>) -> Arc<Self> {
        let limit = limit.max(PARTS * MIN_PART);
        Arc::new(Self { limit, parts: Mutex::default(), file: Mutex::new(file) })
    }

    fn lock(&self) -> MutexGuard<'_, Parts> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends packets, and removes the oldest. Returns whether the next packets begin a new part.
    fn push(&self, packets: &[u8]) -> bool {
        let mut parts = self.lock();
        parts.last.extend_from_slice(packets);
        parts.bytes += packets.len();
        let is_full = parts.last.len() >= self.limit / PARTS;
        if is_full {
            let part = std::mem::take(&mut parts.last);
            parts.full.push_back(part);
        }
        while parts.bytes > self.limit
            && let Some(oldest) = parts.full.pop_front()
        {
            parts.bytes -= oldest.len();
        }
        is_full
    }

    /// All packets. They are copied, so that the session does not wait for the disk.
    fn bytes(&self) -> Vec<u8> {
        let parts = self.lock();
        let mut bytes = Vec::with_capacity(parts.bytes);
        parts.full.iter().chain([&parts.last]).for_each(|part| bytes.extend_from_slice(part));
        bytes
    }

    /// Writes all packets to a file; returns how many bytes they have.
    pub(super) fn dump(&self, path: &Path) -> Result<u64, Error> {
        let bytes = self.bytes();
        PieceFile::create(path)?.replace(&bytes)?;
        Ok(bytes.len() as u64)
    }

    /// Writes the file of the ring, if it has one that is not written yet.
    pub(super) fn finish(&self) -> Result<(), Error> {
        let file = self.file.lock().unwrap_or_else(PoisonError::into_inner).take();
        file.map_or(Ok(()), |mut file| file.replace(&self.bytes()))
    }

    /// Frees the packets.
    pub(super) fn clear(&self) {
        *self.lock() = Parts::default();
    }
}
