//! How a recording starts, continues in the child of a fork, stands still for a moment and ends.

mod begin;
#[cfg(c_filter)]
pub mod c_filter;
#[cfg(c_identity)]
pub mod c_identity;
mod environment;
mod exit;
mod fork;
mod late;
pub(super) mod pause;
mod signals;
pub(crate) mod start;
pub(crate) mod stop;
