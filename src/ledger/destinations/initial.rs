//! The destinations that a recording starts with: its first file and its host.

use super::To;
use std::path::PathBuf;

/// The destinations that a recording starts with. `None` if the settings name no such destination,
/// or if it could not be started.
#[derive(Default)]
pub(in crate::ledger) struct Initial {
    pub(in crate::ledger) file: Option<Started<PathBuf>>,
    pub(in crate::ledger) host: Option<Started<String>>,
}

/// A destination as the settings name it, and the sink that was started for it.
#[derive(Clone)]
pub(in crate::ledger) struct Started<P> {
    pub(super) asked: To<P>,
    /// The number of its sink.
    pub(super) number: u64,
    /// The file or the address.
    pub(super) name: String,
}

impl<P> Started<P> {
    pub(in crate::ledger) fn new(asked: To<P>, number: u64, name: String) -> Self {
        Self { asked, number, name }
    }
}
