//! Bytes to packets to typed events, in serial order across threads.
//!
//! No `unsafe`, no panic, and no allocation sized by an unchecked length: the input may be
//! anything. What is damaged is reported to the [`Visitor`] and everything else is delivered.
#![forbid(unsafe_code)]

mod analyzer;
mod decoder;
pub mod event;
mod order;
mod packets;
mod pass;
mod protocol;
mod protocol5;
mod protocol6;
mod protocol7;
mod records;
mod schemas;
mod search;
mod serials;
mod several;
mod source;
mod summary;
mod tally;
mod thread;
mod timebase;
mod trial;

pub use analyzer::{
    DefinitionRef, Elements, EventAnalyzer, FieldError, FieldValue, Left, Occurrence, Thread,
};
pub use decoder::{Counts, Decoder, StreamCounts};
pub use event::{Damage, Event, Hole, Row, Scalar, Stamp, Value, Visitor};
pub use packets::Reader;
pub use pass::Pass;
pub use summary::{Packets, Summary, TypeCount};
pub use timebase::Timebase;

use crate::error::Error;
use std::io::Read;

/// Reads a whole trace and delivers its events, in order, to `visitor`.
///
/// The source need not be seekable: a file, a pipe, a socket or bytes in memory will do. Damage
/// and holes are reported to the visitor and counted in the summary; they are no errors. A
/// source that fails on the way is [`Summary::error`], after everything before was delivered. The
/// pass ends early when the visitor [wants nothing more](Visitor::is_done); [`Pass`] is one on a
/// thread of its own.
///
/// Costs 6 to 40 ns an event on one core, by how finely threads interleave and by LZ4. Memory
/// holds 2 MiB of input, the types (64 MiB at most), and the events that wait for an earlier one on
/// another thread: at most 256 MiB plus 64 bytes for each byte of input, or the value of
/// [`Reader::memory_limit`]. If more is needed, the reader stops waiting and reports a [`Damage`].
/// Work is in proportion to the input too, however it is damaged.
///
/// # Errors
/// [`Error::NotATrace`] and [`Error::UnsupportedTrace`] say what the input is instead,
/// [`Error::Read`] that not even its start could be read.
///
/// # Examples
/// ```
/// use memledger::trace::read::{self, Event, Visitor};
///
/// struct Print;
/// impl Visitor for Print {
///     fn event(&mut self, event: &Event<'_>) {
///         println!("{}: {} {:?}", event.stream, event.event_type.name(), event.value(0));
///     }
/// }
///
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/samples/ue511-smoke.utrace");
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
