//! The sentences that several places have.

use super::{Error, ErrorKind};
use memledger_format::words::escape;
use std::io;
use std::path::Path;
use std::time::Duration;

/// The sentence for a program that does not use the tracker, and what to do about it.
pub(crate) const NOT_LINKED: &str = "memledger::TrackingAllocator is not this program's global allocator; add: #[global_allocator] static ALLOC: memledger::TrackingAllocator = memledger::TrackingAllocator::system();";

/// [`ErrorKind::File`]. What was tried is a verb: `create`, `open`, `write`.
pub(crate) fn file(action: &str, path: &Path, source: io::Error) -> Error {
    let sentence = format!("cannot {action} {}", escape(&path.to_string_lossy()));
    Error::from_io(ErrorKind::File, sentence, source)
}

/// [`ErrorKind::ThreadNotStarted`]. The thread is a noun phrase.
pub(crate) fn thread_not_started(thread: &str, source: io::Error) -> Error {
    let sentence = format!("{} could not be started", escape(thread));
    Error::from_io(ErrorKind::ThreadNotStarted, sentence, source)
}

/// [`ErrorKind::ThreadNotStarted`], where a program has one thread.
pub(crate) fn needs_manual_worker() -> Error {
    let sentence = "a program has no thread here that could collect its events; add .worker(memledger::Worker::Manual) to the builder, and call Ledger::collect";
    Error::new(ErrorKind::ThreadNotStarted, sentence)
}

/// [`ErrorKind::TimedOut`] of the worker. What fails is a clause.
pub(crate) fn worker_stuck(action: &str, waited: Duration) -> Error {
    let seconds = waited.as_secs();
    let sentence = format!("{action}: the worker has been stuck in a write for {seconds} s");
    Error::new(ErrorKind::TimedOut, sentence)
}

/// [`ErrorKind::NotRecording`].
pub(crate) fn not_recording() -> Error {
    let sentence = "a destination cannot be added, because nothing is being recorded";
    Error::new(ErrorKind::NotRecording, sentence)
}

/// [`ErrorKind::NotAnalyzed`].
pub(crate) fn not_analyzed() -> Error {
    let sentence = "there is no profile, because no events are analyzed in this process; enable a report, a control server or LedgerBuilder::analyze_in_process";
    Error::new(ErrorKind::NotAnalyzed, sentence)
}

/// [`ErrorKind::StacksUnsupported`].
pub(crate) fn stacks_unsupported() -> Error {
    let sentence = "call stacks can be taken on x86-64 and AArch64 Linux and on x86-64 Windows only; all else is recorded without them";
    Error::new(ErrorKind::StacksUnsupported, sentence)
}
