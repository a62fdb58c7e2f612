//! Nothing starts, so there is nothing to write, to read or to end.

use super::config::Config;
use super::destinations::{Destination, DestinationHandle};
use super::stats::Stats;
use crate::dump::{Snapshot, refusal};
use crate::error::Error;
use crate::error::Problem;
use crate::nothing::{Nothing, does_nothing};
use std::ffi::OsString;
use std::net::SocketAddr;
use std::sync::Once;

/// Says once that settings from outside are in vain.
fn tell_in_vain() {
    static ONCE: Once = Once::new();
    let is_ours =
        |(name, _): &(OsString, OsString)| name.as_encoded_bytes().starts_with(b"MEMLEDGER_");
    // NOTE: where there is no environment, std's function below panics.
    if cfg!(wasm) {
        return;
    }
    ONCE.call_once(|| {
        if let Some((name, _)) = std::env::vars_os().find(is_ours) {
            eprintln!("memledger: {} is set but has no effect: {}", name.display(), refusal());
        }
    });
}

/// A program without the feature runs as with it. One for another platform can say so.
fn begin() -> Result<Generation, Error> {
    tell_in_vain();
    if cfg!(feature = "enable") { Err(refusal()) } else { Ok(Nothing) }
}

pub(super) type Generation = Nothing;

#[derive(Default)]
pub(super) struct Paused;

impl Paused {
    does_nothing! { pub(super) fn new() -> Self; }
}

pub(super) fn from_env() -> Generation {
    tell_in_vain();
    Nothing
}

pub(super) fn from_args(args: impl IntoIterator<Item = OsString>) -> (Generation, Vec<OsString>) {
    (from_env(), args.into_iter().collect())
}

#[cfg(feature = "pprof")]
does_nothing! { pub(super) fn profile() -> Result<Vec<u8>, Error> = Err(refusal()); }

does_nothing! {
    pub(super) fn start(&Config) -> Result<Generation, Error> = begin();
    pub(super) fn current() -> Option<Generation>;
    pub(super) fn finish(&mut Generation) -> Stats;
    pub(super) fn trace_to(&Destination) -> Result<DestinationHandle, Error> = Ok(DestinationHandle::new(0));
    pub(super) fn destinations() -> Vec<DestinationHandle>;
    pub(super) fn control_address() -> Option<SocketAddr>;
    pub(super) fn stats() -> Stats;
    pub(super) fn recent_stats() -> Stats;
    pub(super) fn snapshot() -> Option<Snapshot>;
    pub(super) fn collect(bool);
    pub(super) fn flush();
    pub(super) fn problems() -> Vec<Problem>;
    pub(super) fn new_problems() -> Vec<Problem>;
}
