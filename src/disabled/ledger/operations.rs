//! Nothing starts, so there is nothing to write, to read or to end.

use super::config::Config;
use super::{Destination, DestinationHandle, Snapshot, Stats};
use crate::error::Error;
use std::ffi::OsString;
use std::net::SocketAddr;

/// Why nothing is recorded in a program that wants it.
pub(crate) fn refusal() -> Option<Error> {
    cfg!(feature = "enable").then_some(Error::UnsupportedPlatform)
}

#[derive(Debug)]
pub(super) struct Generation;

#[derive(Clone, Debug)]
pub(super) struct Address;

impl Address {
    pub(super) fn parse(_: &str) -> Result<Self, Error> {
        Ok(Self)
    }
}

pub(super) type ListenAddress = Address;

pub(super) type Names = Address;

pub(super) fn names(text: &str) -> Result<Names, Error> {
    Names::parse(text)
}

pub(super) struct Paused;

impl Paused {
    pub(super) fn new() -> Self {
        Self
    }
}

pub(super) fn from_env() -> Generation {
    refusal().inspect(|error| eprintln!("memledger: {error}"));
    Generation
}

pub(super) fn from_args(args: impl IntoIterator<Item = OsString>) -> (Generation, Vec<OsString>) {
    (Generation, args.into_iter().collect())
}

pub(super) fn start(_: &Config) -> Result<Generation, Error> {
    refusal().map_or(Ok(Generation), Err)
}

pub(super) fn trace_to(_: Destination) -> Result<DestinationHandle, Error> {
    Ok(DestinationHandle {})
}

pub(super) fn destinations() -> Vec<DestinationHandle> {
    Vec::new()
}

pub(super) fn control_address() -> Option<SocketAddr> {
    None
}

pub(super) fn stats() -> Stats {
    Stats::default()
}

pub(super) fn recent_stats() -> Stats {
    Stats::default()
}

pub(super) fn snapshot() -> Option<Snapshot> {
    None
}

#[cfg(feature = "pprof")]
pub(super) fn pprof() -> Result<Vec<u8>, Error> {
    Err(Error::NotAnalyzed)
}

pub(super) fn update() {}

pub(super) fn flush() {}

pub(super) fn finish(_: &mut Generation) {}

pub(super) fn problems() -> Vec<String> {
    Vec::new()
}
