//! What a program does with a recording: the functions that the handle and the builder call.

use super::lifecycle::{start, stop};
use super::settings::Settings;
use super::stats::Stats;
use crate::trace::write::state;
use std::ffi::OsString;

pub(super) use super::destinations::{
    add::add_destination as trace_to, running::all as destinations,
};
pub(super) use super::lifecycle::pause::Paused;
pub(super) use super::lifecycle::start::in_code as start;
#[cfg(feature = "pprof")]
pub(super) use super::recording::queries::profile;
pub(super) use super::recording::queries::{collect, control_address, flush, snapshot, stats};
pub(super) use crate::problems::{all as problems, take_new as new_problems};

/// Which recording a handle ends; `None` if it ends none.
pub(super) type Generation = Option<u64>;

pub(super) fn from_env() -> Generation {
    start::from_flags(Settings::default())
}

pub(super) fn from_args(args: impl IntoIterator<Item = OsString>) -> (Generation, Vec<OsString>) {
    let (flags, rest) = Settings::from_args(args);
    (start::from_flags(flags), rest)
}

/// A handle that ends nothing, if something is being recorded.
pub(super) fn current() -> Option<Generation> {
    let is_running = state::is_running() && !state::is_forked();
    is_running.then_some(None)
}

/// Returns the figures of the recording, at its end if this ends it.
pub(super) fn finish(generation: &mut Generation) -> Stats {
    let ended = generation.take().and_then(|generation| stop::finish(Some(generation)));
    ended.unwrap_or_else(Stats::of_last_cycle)
}

pub(super) fn recent_stats() -> Stats {
    Stats::of_last_cycle()
}
