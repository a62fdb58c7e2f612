//! The stream of events: how one is written, carried, and read again.

pub mod event;
#[cfg(feature = "analysis")]
pub mod read;
#[cfg(feature = "analysis")]
pub mod transport;
