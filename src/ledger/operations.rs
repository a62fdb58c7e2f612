//! What a program does with a recording: the functions that the handle and the builder call.

use super::config::Config;
use super::settings::Settings;
use super::{
    Destination, DestinationHandle, Snapshot, Stats, destinations, problems, recording, start, stop,
};
use crate::error::Error;
use std::ffi::OsString;
use std::net::SocketAddr;

pub(super) use super::pause::Paused;
pub(super) use crate::events::channel::{Names, names};
pub(super) use crate::remote::control::ListenAddress;
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

pub(super) fn start(config: &Config) -> Result<Generation, Error> {
    start::in_code(config)
}

pub(super) fn trace_to(destination: Destination) -> Result<DestinationHandle, Error> {
    destinations::add::add_destination(&destination)
}

pub(super) fn destinations() -> Vec<DestinationHandle> {
    destinations::all()
}

pub(super) fn control_address() -> Option<SocketAddr> {
    recording::control_address()
}

pub(super) fn stats() -> Stats {
    recording::stats()
}

pub(super) fn recent_stats() -> Stats {
    Stats::of_last_cycle()
}

pub(super) fn snapshot() -> Option<Snapshot> {
    recording::snapshot()
}

#[cfg(feature = "pprof")]
pub(super) fn pprof() -> Result<Vec<u8>, Error> {
    super::profile::profile()
}

pub(super) fn update() {
    recording::collect(false);
}

pub(super) fn flush() {
    recording::flush();
}

pub(super) fn finish(generation: &mut Generation) {
    if let Some(generation) = generation.take() {
        stop::finish(Some(generation));
    }
}

pub(super) fn problems() -> Vec<String> {
    problems::all()
}
