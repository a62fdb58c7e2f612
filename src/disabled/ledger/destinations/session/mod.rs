//! Sessions in a build without the feature `perfetto`: there are none.

use super::DestinationHandle;
use crate::dump::InProcessAnalyzer;
use crate::error::{Error, ErrorKind};
use crate::ledger::settings::track_events::NOT_BUILT;
use crate::perfetto::TrackEvents;
use crate::trace::sink::queue::Queued;
use std::fs::File;
use std::path::Path;

pub(crate) fn add_created(_: File, _: &Path, _: Option<&str>) -> Result<(), Error> {
    Err(Error::new(ErrorKind::InvalidSession, NOT_BUILT))
}

pub(super) fn add(events: &TrackEvents, _: Option<()>) -> Result<DestinationHandle, Error> {
    match *events {}
}

pub(crate) fn start(events: &TrackEvents, _: Option<&InProcessAnalyzer>) -> Result<Queued, Error> {
    match *events {}
}

pub(crate) fn has_memory(events: &TrackEvents) -> bool {
    match *events {}
}
