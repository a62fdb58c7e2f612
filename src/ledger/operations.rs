//! What a program does with a recording: the functions that the handle and the builder call.

use super::Stats;
use super::recording::{start, stop};
use super::settings::Settings;
use std::ffi::OsString;

pub(super) use super::destinations::{
    add::add_destination as trace_to, running::all as destinations,
};
pub(super) use super::problems::all as problems;
pub(super) use super::recording::pause::Paused;
pub(super) use super::recording::start::in_code as start;
pub(super) use super::recording::{collect, control_address, flush, snapshot, stats};
#[cfg(feature = "pprof")]
pub(super) use super::reports::profile::profile;
pub(super) use crate::control::ListenAddress;
pub(super) use crate::trace::sink::tcp::Address;

/// Which recording a handle ends; `None` if it ends none.
pub(super) type Generation = Option<u64>;

pub(super) fn from_env() -> Generation {
    start::from_flags(Settings::default())
}

pub(super) fn from_args(args: impl IntoIterator<Item = OsString>) -> (Generation, Vec<OsString>) {
    let (flags, rest) = Settings::from_args(args);
    (start::from_flags(flags), rest)
}

pub(super) fn finish(generation: &mut Generation) {
    if let Some(generation) = generation.take() {
        stop::finish(Some(generation));
    }
}

pub(super) fn recent_stats() -> Stats {
    Stats::of_last_cycle()
}
