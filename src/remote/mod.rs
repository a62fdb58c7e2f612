//! Communication with other processes: [`control`] steers a running program; `store` (feature
//! `store`) reads the traces of many programs from a recorder.

pub mod control;
#[cfg(feature = "store")]
pub mod store;
mod timed_stream;
