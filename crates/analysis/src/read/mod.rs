//! The reader: from bytes to packets to typed events, in serial order over all threads.
//!
//! ```text
//! source -> packets -> decoder -> records (types, important events)
//!              |                  streams -> merge -> visitor
//!              +-> resync, after damage
//! ```
//!
//! The input can be any bytes: the reader has no `unsafe`, does not panic, and checks a length
//! before it allocates by it. It reports damage to the [`Visitor`] and delivers everything else.
#![forbid(unsafe_code)]

#[cfg(feature = "read")]
mod analyzer;
mod decoder;
#[cfg(feature = "read")]
mod ending;
pub(crate) mod event;
#[cfg(feature = "read")]
mod fan_out;
mod merge;
mod packets;
#[cfg(feature = "read")]
mod pass;
mod protocol;
mod protocol0;
mod protocol5;
mod protocol6;
mod records;
mod resync;
mod schemas;
mod serials;
mod source;
mod stream;
mod summary;
mod tally;
mod timebase;

#[cfg(feature = "read")]
pub use analyzer::{
    ClosedScope, DefinitionRef, Elements, EventAnalyzer, FieldError, FieldValue, Occurrence, Thread,
};
pub use decoder::{Counts, Decoder, StreamCounts};
#[cfg(feature = "read")]
pub use ending::{Ending, ending};
pub use event::{ATTACHMENT, Damage, Event, Hole, Row, Scalar, Stamp, Value, Visitor};
pub use packets::Reader;
#[cfg(feature = "read")]
pub use pass::Pass;
pub use summary::{Packets, Summary, TypeCount};
pub use timebase::Timebase;

use memledger_format::Error;
use std::io::Read;

/// Reads a whole trace and delivers its events, in order, to `visitor`.
///
/// The source can be a file, a pipe, a socket or bytes in memory; it need not be seekable. Damage
/// and holes are not errors: they are reported to the visitor and counted in the summary. If the
/// source fails, all events before the failure are delivered, and [`Summary::error`] has the error.
/// The pass ends early when the visitor [is done](Visitor::is_done). [`Pass`] runs a pass on its
/// own thread.
///
/// An event costs 6 to 40 ns on one core, depending on how finely the events of threads interleave
/// and on whether packets are LZ4. The memory is 1.25 MiB of input, at most 64 MiB of types, and
/// the events that wait for an earlier event of another thread: at most 256 MiB plus 64 bytes for
/// each byte of input, 4 GiB in all, or the value of [`Reader::memory_limit`]. If more is needed,
/// the reader stops waiting and reports a [`Damage`]. The time is in proportion to the size of the
/// input, even if the input is damaged: to find packets after damage, at most 64 MiB plus 64 bytes
/// for each byte of input are decoded on trial, and after that 64 KiB at a time are skipped.
///
/// # Errors
/// `ErrorKind::NotATrace` if the input is not a trace, `ErrorKind::UnsupportedTrace` if it is a trace
/// of an unsupported version, `ErrorKind::Read` if its start cannot be read.
///
/// # Examples
/// ```
/// use memledger_analysis::read::{self, Event, Visitor};
///
/// struct Print;
/// impl Visitor for Print {
///     fn event(&mut self, event: &Event<'_>) {
///         println!("{}: {} {:?}", event.stream, event.event_type.name(), event.value(0));
///     }
/// }
///
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/samples/ue511-smoke.utrace");
/// let file = std::fs::File::open(path)?;
/// let summary = read::read(file, &mut Print)?;
/// assert_eq!(summary.counts.events, 1149);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn read(source: impl Read, visitor: &mut impl Visitor) -> Result<Summary, Error> {
    let mut reader = Reader::open(source)?;
    reader.packets(visitor, || false);
    Ok(reader.finish(visitor))
}
