//! Nothing runs.

use super::DestinationStatus;
use crate::error::Error;
use crate::nothing::does_nothing;
use std::path::Path;

does_nothing! {
    pub(super) fn status(u64) -> DestinationStatus;
    pub(super) fn flush(u64);
    pub(super) fn dump(u64, &Path) -> Result<u64, Error> = Ok(0);
    pub(super) fn stop(u64);
}
