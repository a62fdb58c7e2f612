//! The destinations that a recording starts with: its first file and its host.

use crate::trace::sink::tcp::Address;
use std::path::PathBuf;

/// The destinations that a recording starts with. `None` if the settings name no such destination,
/// or if it could not be started.
#[derive(Default)]
pub(in crate::ledger) struct InitialDestinations {
    pub(in crate::ledger) file: Option<StartedDestination<PathBuf>>,
    pub(in crate::ledger) host: Option<StartedDestination<Address>>,
}

impl InitialDestinations {
    /// The names of the file and of the host.
    pub(in crate::ledger) fn names(&self) -> [Option<&str>; 2] {
        let (file, host) = (self.file.as_ref(), self.host.as_ref());
        [file.map(|file| &*file.name), host.map(|host| &*host.name)]
    }
}

/// A destination as the settings name it, and the sink that was started for it.
#[derive(Clone)]
pub(in crate::ledger) struct StartedDestination<P> {
    pub(super) location: P,
    /// The number of its sink.
    pub(super) number: u64,
    /// The file or the address.
    pub(super) name: String,
}

impl<P> StartedDestination<P> {
    pub(in crate::ledger) fn new(location: P, number: u64, name: String) -> Self {
        Self { location, number, name }
    }
}
