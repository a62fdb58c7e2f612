//! Where a trace goes, as the program sets it.

use crate::perfetto::TrackEvents;
use std::path::PathBuf;

/// Where a trace goes. [`LedgerBuilder::trace_to`](crate::LedgerBuilder::trace_to) and
/// [`Ledger::trace_to`](crate::Ledger::trace_to) take it.
///
/// ```
/// use memledger::{Destination, Ledger};
/// # let path = std::env::temp_dir().join(format!("memledger-to-{}.utrace", std::process::id()));
///
/// let ledger = Ledger::builder().start()?;
/// let file = ledger.trace_to(Destination::file(&path))?;
/// let recorder = ledger.trace_to(Destination::host("127.0.0.1:1981"))?;
/// # (file.stop(), recorder.stop());
/// # let _ = std::fs::remove_file(file.status().name);
/// # Ok::<(), memledger::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "nothing is written until `trace_to` takes it"]
pub struct Destination {
    pub(crate) target: Target,
}

/// The kinds of destinations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    File(PathBuf),
    /// The address of a recorder.
    Host(String),
    #[allow(dead_code, reason = "without the feature perfetto, none can be asked for")]
    TrackEvents(TrackEvents),
}

impl Destination {
    /// A file. The extension of its name selects the format:
    ///
    /// - `.utrace`, or any other: an Unreal Trace stream, which Unreal's own tools read, of 8 to
    ///   12 bytes an event.
    /// - `.memledger`, or none: the same stream in compact packets of 1 to 6 bytes an event, which
    ///   take the worker less than half the time. `memledger export` turns either into the other.
    ///
    /// In the name, `%p` becomes the process id, `%t` the unix time in seconds, `%e` the name of
    /// the executable, and `%%` a percent sign.
    ///
    /// ```
    /// use memledger::{Destination, Ledger};
    ///
    /// // Compact, as the ending says.
    /// let builder = Ledger::builder().trace_to(Destination::file("%e-%p.memledger"));
    /// # drop(builder);
    /// ```
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self { target: Target::File(path.into()) }
    }

    /// A recorder, which gets the plain Unreal stream: `HOST`, `HOST:PORT`, an IP address, or
    /// `[IPv6]:PORT`. Without a port, 1980 is tried first, and 1981 if 1980 refuses the connection.
    /// `memledger serve` listens on both; the recorder of Unreal Engine 4 listens on 1980, that of
    /// Unreal Engine 5 on 1981. [`Destination`] has an example.
    pub fn host(address: impl Into<String>) -> Self {
        Self { target: Target::Host(address.into()) }
    }
}
