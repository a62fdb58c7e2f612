//! Nothing starts, so there is nothing to write, to read or to end.

use super::config::Config;
use super::{Destination, DestinationHandle, Snapshot, Stats};
use crate::error::Error;
use crate::nothing::{Nothing, does_nothing};
use std::ffi::OsString;
use std::net::SocketAddr;

/// Why nothing is recorded in a program that wants it.
pub(crate) fn refusal() -> Option<Error> {
    cfg!(feature = "enable").then_some(Error::UnsupportedPlatform)
}

pub(super) type Generation = Nothing;

#[derive(Clone, Debug)]
pub(super) struct Address;

impl Address {
    does_nothing! { pub(super) fn parse(&str) -> Result<Self, Error> = Ok(Self); }
}

pub(super) type ListenAddress = Address;

#[derive(Default)]
pub(super) struct Paused;

impl Paused {
    does_nothing! { pub(super) fn new() -> Self; }
}

pub(super) fn from_env() -> Generation {
    refusal().inspect(|error| eprintln!("memledger: {error}"));
    Nothing
}

pub(super) fn from_args(args: impl IntoIterator<Item = OsString>) -> (Generation, Vec<OsString>) {
    (Nothing, args.into_iter().collect())
}

#[cfg(feature = "pprof")]
does_nothing! { pub(super) fn profile() -> Result<Vec<u8>, Error> = Err(Error::NotAnalyzed); }

does_nothing! {
    pub(super) fn start(&Config) -> Result<Generation, Error> = refusal().map_or(Ok(Nothing), Err);
    pub(super) fn finish(&mut Generation);
    pub(super) fn trace_to(&Destination) -> Result<DestinationHandle, Error> = Ok(DestinationHandle::new(0));
    pub(super) fn destinations() -> Vec<DestinationHandle>;
    pub(super) fn control_address() -> Option<SocketAddr>;
    pub(super) fn stats() -> Stats;
    pub(super) fn recent_stats() -> Stats;
    pub(super) fn snapshot() -> Option<Snapshot>;
    pub(super) fn collect(bool);
    pub(super) fn flush();
    pub(super) fn problems() -> Vec<String>;
}
