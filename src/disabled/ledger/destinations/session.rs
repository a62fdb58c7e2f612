//! Sessions in a build without the feature `perfetto`: there are none.

use crate::error::{Error, ErrorKind};
use crate::ledger::DestinationHandle;
use crate::ledger::config::Config;
use crate::ledger::reports::in_process::InProcessAnalyzer;
use crate::perfetto::TrackEvents;
use crate::trace::sink::queue::Queued;
use std::ffi::OsStr;
use std::fs::File;
use std::path::Path;

const NOT_BUILT: &str =
    "the program was built without memledger's feature perfetto, so there are no track events";

pub(in crate::ledger) fn set(_: &OsStr, _: &mut Config) -> Result<(), String> {
    Err(NOT_BUILT.into())
}

pub(in crate::ledger) fn configure(_: &OsStr, _: &mut Config) -> Result<(), String> {
    Err(NOT_BUILT.into())
}

pub(in crate::ledger) fn add_created(_: File, _: &Path, _: Option<&str>) -> Result<(), Error> {
    Err(Error::new(ErrorKind::InvalidSession, NOT_BUILT))
}

pub(super) fn add(events: &TrackEvents, _: Option<()>) -> Result<DestinationHandle, Error> {
    match *events {}
}

pub(in crate::ledger) fn start(
    events: &TrackEvents,
    _: Option<&InProcessAnalyzer>,
) -> Result<Queued, Error> {
    match *events {}
}

pub(in crate::ledger) fn has_memory(events: &TrackEvents) -> bool {
    match *events {}
}
