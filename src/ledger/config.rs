//! What a recording is started with: set in code, by the environment and by flags.

use super::destinations::DestinationSpec;
use super::report_to::ReportTo;
#[cfg(feature = "enable")]
use crate::error::Error;
use std::path::PathBuf;

/// Which thread collects the events of all threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Worker {
    /// A thread of the tracker, every 10 ms (every millisecond at first) or when half the buffers are full.
    #[default]
    Thread,
    /// The program itself, by [`Ledger::update`](crate::Ledger::update). No thread waits for that
    /// call: events that do not fit into the buffers between two calls are lost and counted.
    Manual,
}

/// What a thread does when all buffers are full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnFull {
    /// It waits for the worker. If the worker makes no progress for one second (two seconds if the
    /// process was stopped meanwhile, as by a debugger), all threads stop waiting; events are then
    /// lost and counted until the worker has caught up.
    #[default]
    Wait,
    /// It drops the event and counts it.
    Drop,
}

/// All settings. `None` means: not set.
#[derive(Clone, Debug, Default)]
pub(crate) struct Config {
    pub(crate) report: Option<ReportTo>,
    pub(crate) file: Option<DestinationSpec<PathBuf>>,
    pub(crate) host: Option<DestinationSpec<String>>,
    pub(crate) analyze_in_process: bool,
    pub(crate) control: Option<String>,
    pub(crate) control_token: Option<Secret>,
    pub(crate) control_folder: Option<PathBuf>,
    pub(crate) control_hosts: Vec<String>,
    pub(crate) follow_forks: bool,
    pub(crate) file_mode: Option<u32>,
    pub(crate) channels: Option<String>,
    pub(crate) worker: Worker,
    pub(crate) buffer_limit: Option<usize>,
    pub(crate) on_full: OnFull,
}

/// A text that is not printed with the other settings.
#[derive(Clone)]
pub(crate) struct Secret(pub(crate) String);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

/// Permissions for files, if the program itself can read and write such files.
///
/// # Errors
/// [`Error::InvalidFileMode`].
#[cfg(feature = "enable")]
pub(super) fn file_mode(mode: u32) -> Result<u32, Error> {
    if mode & 0o600 == 0o600 && mode <= 0o777 {
        return Ok(mode);
    }
    Err(Error::InvalidFileMode(mode))
}
