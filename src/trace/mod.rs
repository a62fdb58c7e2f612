//! The stream of events: how one is written and carried.
//!
//! # The life of one event
//! 1. A thread makes sure that its epoch is current, writes the event into a buffer that only it
//!    writes to (`write`), then advances its commit cursor.
//! 2. The worker wakes at a fixed interval, or when half the buffers are full. It merges what all
//!    threads have committed into one order, gives the events serials, and sends them to the sinks: the
//!    trace file, the in-process analyzer.
//! 3. The reader, `memledger_analysis::read`, joins the pieces of each thread, and merges the events of
//!    all threads in the order of their serials.
//!
//! The pipeline does not depend on the meaning of events. Their owners declare the types: the
//! tracker's in its own modules, the program's by [`events`](crate::events).

pub(crate) mod entry;
pub(crate) mod sink;
pub(crate) mod worker;
pub(crate) mod write;
