//! Nothing runs.

use crate::error::Error;
use crate::ledger::DestinationStatus;
use crate::nothing::does_nothing;
#[cfg(feature = "perfetto")]
use crate::perfetto::TrackEvents;
use std::path::Path;

does_nothing! {
    pub(super) fn status(u64) -> DestinationStatus;
    pub(super) fn flush(u64);
    pub(super) fn dump(u64, &Path) -> Result<u64, Error> = Ok(0);
    pub(super) fn stop(u64);
}

#[cfg(feature = "perfetto")]
pub(super) fn from_trace_config(path: std::path::PathBuf, _: &str) -> Result<TrackEvents, Error> {
    Ok(TrackEvents { file: Some(path), ..TrackEvents::default() })
}
