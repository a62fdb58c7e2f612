//! Where a trace goes, as the program sets it.

use std::path::PathBuf;

/// Where a trace goes, and which of the recorded channels it gets.
/// [`LedgerBuilder::trace_to`](crate::LedgerBuilder::trace_to) and
/// [`Ledger::trace_to`](crate::Ledger::trace_to) take it.
///
/// ```
/// use memledger::{Destination, Ledger};
/// memledger::channel! { GAME = "Game"; NETWORK = "Network"; }
/// # let [game, rest] = ["game", "rest"].map(|name| {
/// #     std::env::temp_dir().join(format!("memledger-{name}-{}.utrace", std::process::id()))
/// # });
///
/// let ledger = Ledger::builder().channels("memory,scope,game,network").start()?;
/// let game = ledger.trace_to(Destination::file(&game).channels("game"))?; // and bookmarks
/// let rest = ledger.trace_to(Destination::file(&rest).channels("-memory,-game"))?;
/// # game.stop();
/// # rest.stop();
/// # for file in [game, rest] { let _ = std::fs::remove_file(file.status().name); }
/// # Ok::<(), memledger::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Destination {
    pub(crate) target: Target,
}

/// The kinds of destinations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    File(DestinationSpec<PathBuf>),
    Host(DestinationSpec<String>),
}

/// A file's path or a host's address, and the channels that go there; `None` is all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DestinationSpec<L> {
    pub(crate) location: L,
    pub(crate) channels: Option<String>,
}

impl<L> DestinationSpec<L> {
    /// All channels, to `location`.
    pub(crate) fn all(location: L) -> Self {
        Self { location, channels: None }
    }
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
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self { target: Target::File(DestinationSpec::all(path.into())) }
    }

    /// A recorder, which gets the plain Unreal stream: `HOST`, `HOST:PORT`, an IP address, or
    /// `[IPv6]:PORT`. Without a port, 1980 is tried first, and 1981 if 1980 refuses the connection.
    /// `memledger serve` listens on both; the recorder of Unreal Engine 4 listens on 1980, that of
    /// Unreal Engine 5 on 1981.
    pub fn host(address: impl Into<String>) -> Self {
        Self { target: Target::Host(DestinationSpec::all(address.into())) }
    }

    /// Sets which of the recorded channels this destination gets: the names, separated by commas,
    /// or, with a `-` before each name, all channels except these, such as `-memory`. Default: all.
    ///
    /// The stream is complete in itself, like any other. It has an event if all channels of the
    /// event's log site are selected, and it has all definitions (see [`event!`](crate::event)).
    /// Channels that are on by default, such as `bookmark`, are selected unless they are excluded.
    /// Without `memory` the stream does not begin with the live blocks. A name that no channel has
    /// had by the end of the stream is reported in [`Ledger::problems`](crate::Ledger::problems).
    ///
    /// Filtering takes 10 to 15 ns an event: of the worker's time for the first file, otherwise of
    /// the time of the destination's own thread.
    pub fn channels(mut self, channels: impl Into<String>) -> Self {
        let (Target::File(DestinationSpec { channels: wanted, .. })
        | Target::Host(DestinationSpec { channels: wanted, .. })) = &mut self.target;
        *wanted = Some(channels.into());
        self
    }
}
