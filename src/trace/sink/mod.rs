//! Where the stream goes.

pub(crate) mod file;
pub(crate) mod queue;
pub(crate) mod start;
pub(crate) mod tcp;

use crate::error::Error;

/// The [number](Sink::number) of a file that the worker writes itself.
pub(crate) const FIRST_FILE: u64 = u64::MAX;

/// Receives the stream from the worker, piece by piece.
///
/// Every piece is a run of whole events of one stream. Coding is the sink's own matter: pieces
/// come plain. Calls come from one thread at a time, with the tracker's guard set.
pub(crate) trait Sink: Send {
    /// The next piece of a stream: 0 for type records, 1 for important events, or a thread's.
    fn packet(&mut self, stream: u16, payload: &[u8]);

    /// Whether it gets the pieces in the order of their serials, however small they are; otherwise
    /// each thread's pieces come in order, as large as they can be.
    fn wants_order(&self) -> bool {
        false
    }

    /// All pieces of one tick have been passed on. An error ends the sink: it is dropped, and the
    /// error becomes one of the ledger's problems.
    fn sync(&mut self) -> Result<(), Error>;

    /// The stream ends here.
    fn finish(&mut self) -> Result<(), Error> {
        self.sync()
    }

    /// Bytes that have left for where it leads, handshake included.
    fn written(&self) -> u64 {
        0
    }

    /// Tells it from all others that can be ended on their own; 0 for those that cannot.
    fn number(&self) -> u64 {
        0
    }

    /// Whether it has ended by itself, and has said so.
    fn is_over(&self) -> bool {
        false
    }
}
