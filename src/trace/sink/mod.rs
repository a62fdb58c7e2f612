//! The sinks: where the stream goes.
//!
//! The worker itself writes the first file and feeds the in-process analyzer. Each other sink has a
//! [queue] and a thread, so that a slow one does not delay the others. All destinations get the same
//! channels.

pub(crate) mod file;
pub(crate) mod names;
pub(crate) mod queue;
pub(crate) mod start;
pub(crate) mod tcp;

use crate::error::Error;
use std::path::Path;

/// The [number](Sink::number) of a file that the worker writes itself.
pub(crate) const FIRST_FILE: u64 = u64::MAX;

/// What a sink shares with the handles of its destination, which use it on threads of the program.
pub(crate) trait Shared: Send + Sync {
    /// The events that it has written, and those that were lost.
    fn events(&self) -> (u64, u64);

    /// Writes what it keeps in memory to a file; returns how many bytes that is.
    fn dump(&self, path: &Path) -> Result<u64, Error>;

    /// Makes the program emit no more events for it. Without the guard, because callbacks of the program run.
    fn disable(&self);

    /// Writes what it keeps in memory to its own file, once, after the end of the sink.
    fn end(&self) -> Result<(), Error>;

    /// Frees what it keeps in memory.
    fn forget(&self);
}

/// Receives the stream from the worker, in pieces.
///
/// Every piece is a run of whole events of one stream, not coded. One thread at a time calls the
/// methods, with the reentrancy guard held.
pub(crate) trait Sink: Send {
    /// The next piece of a stream. `stream` is 0 for type records and 1 for important events; all
    /// others belong to threads or to the worker.
    fn packet(&mut self, stream: u16, payload: &[u8]);

    /// Whether the sink gets all pieces in the order of their serials, however small they are.
    /// Otherwise only each thread's pieces are in order, and they are as large as possible.
    fn wants_order(&self) -> bool {
        false
    }

    /// Called after the pieces of a cycle, and after every 256 KiB of events within it. An error
    /// ends the sink: it is dropped, and the error becomes one of the ledger's problems.
    fn sync(&mut self) -> Result<(), Error>;

    /// The stream ends here.
    fn finish(&mut self) -> Result<(), Error> {
        self.sync()
    }

    /// Bytes written to the destination, handshake included.
    fn written(&self) -> u64 {
        0
    }

    /// Bytes written, if this is a file that a watcher can continue.
    fn watched_bytes(&self) -> Option<u64> {
        None
    }

    /// Continues such a file after its first `bytes`; the others are cut off.
    fn cut(&mut self, bytes: u64) -> Result<(), Error> {
        let _ = bytes;
        Ok(())
    }

    /// Identifies a sink that can be ended alone; 0 for one that cannot.
    fn number(&self) -> u64 {
        0
    }

    /// Whether the sink has dropped packets, and has room again. Then [`rejoin`](Self::rejoin) is called,
    /// right after a cycle.
    fn wants_to_rejoin(&self) -> bool {
        false
    }

    /// Continues after dropped packets: `streams` has what each stream continues with, for a reader that has
    /// seen none of it.
    fn rejoin(&mut self, streams: &[(u16, Vec<u8>)]) {
        let _ = streams;
    }

    /// This many events are missing here, and with them parts of all streams: each begins anew.
    fn gap(&mut self, events: u64) {
        let _ = events;
    }

    /// Whether the sink wants no more packets, because it is complete.
    fn is_done(&self) -> bool {
        false
    }

    /// Whether the sink has ended by itself, and has reported that.
    fn has_ended(&self) -> bool {
        false
    }
}
