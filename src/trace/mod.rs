//! The stream of events: how one is written, carried, and read again.
//!
//! # The life of one event
//! 1. A thread sees to it that it is in the right epoch, writes the event into a block of memory
//!    that it alone writes to (`write`), then moves its commit cursor behind it.
//! 2. The worker, woken on a fixed interval or when half the buffers are full, takes what every
//!    thread has committed, puts it in order, gives it serials, and hands it to the sinks: the
//!    trace file, the report in the process.
//! 3. The reader puts the pieces of each thread together again, and the events of all threads
//!    into the order of their serials.
//!
//! Nothing here knows what the events are about: their types are declared by their owners, those of
//! the tracker in its own modules, those of the program by [`events`](crate::events).

#[cfg(feature = "analysis")]
pub mod convert;
pub mod format;
#[cfg(feature = "analysis")]
pub mod read;
#[cfg(feature = "enable")]
pub(crate) mod sink;
#[cfg(feature = "enable")]
pub(crate) mod worker;
#[cfg(feature = "enable")]
pub(crate) mod write;
