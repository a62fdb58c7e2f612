//! The destinations that a recording starts with: its first file and its host.

use crate::trace::sink::tcp::Address;
use std::path::PathBuf;

/// The destinations that a recording starts with. `None` if the settings name no such destination,
/// or if it could not be started.
#[derive(Default)]
pub(crate) struct InitialDestinations {
    pub(crate) file: Option<StartedDestination<PathBuf>>,
    pub(crate) host: Option<StartedDestination<Address>>,
}

impl InitialDestinations {
    /// The names of the file and of the host.
    pub(crate) fn names(&self) -> [Option<&str>; 2] {
        let (file, host) = (self.file.as_ref(), self.host.as_ref());
        [file.map(|file| &*file.name), host.map(|host| &*host.name)]
    }
}

/// A destination as the settings name it, and the sink that was started for it.
#[derive(Clone)]
pub(crate) struct StartedDestination<P> {
    pub(crate) location: P,
    /// The number of its sink.
    pub(crate) number: u64,
    /// The file or the address.
    pub(crate) name: String,
}

impl<P> StartedDestination<P> {
    pub(crate) fn new(location: P, number: u64, name: String) -> Self {
        Self { location, number, name }
    }
}
