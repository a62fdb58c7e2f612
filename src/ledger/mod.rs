//! The handle a program holds: start, look, end, report.
//!
//! This is the one place where both sides meet: it starts the writing side, feeds what it writes
//! to the reading side in the same process, and prints the result.

mod builder;
#[cfg(feature = "enable")]
mod channels;
#[cfg(feature = "enable")]
mod control;
mod destination;
#[cfg(feature = "enable")]
mod destinations;
#[cfg(feature = "enable")]
mod ending;
#[cfg(feature = "enable")]
pub(crate) mod environment;
#[cfg(feature = "enable")]
mod exit;
#[cfg(feature = "enable")]
mod follow;
#[cfg(feature = "__fuzzing")]
pub(crate) mod fuzzing;
#[cfg(feature = "enable")]
mod live;
#[cfg(feature = "enable")]
pub(crate) mod measuring;
#[cfg(feature = "enable")]
mod opening;
#[cfg(feature = "enable")]
mod output;
#[cfg(feature = "enable")]
mod problems;
mod report;
#[cfg(feature = "enable")]
mod run;
mod snapshot;

pub use builder::{LedgerBuilder, OnFull, Worker};
pub use destination::{Destination, DestinationState, DestinationStatus};
pub use report::Report;
pub use snapshot::{Snapshot, Stats};

use crate::error::Error;
use std::ffi::OsString;
use std::path::Path;

/// Records the program's memory from here on, until it is dropped or finished; then reports.
///
/// ```
/// use memledger::{Ledger, TrackingAllocator, alloc_scope};
///
/// #[global_allocator]
/// static ALLOC: TrackingAllocator = TrackingAllocator::system();
///
/// fn main() {
///     let _ledger = Ledger::from_env(); // a report on stderr at the end, unless MEMLEDGER_* say otherwise
///     let level = alloc_scope!("load level", { vec![0_u8; 1 << 20] });
///     drop(level);
/// }
/// ```
///
/// There is one at a time. The ledger that started recording ends it: return from `main`,
/// `std::process::exit` and a panic all give the report, once. A handle to a recording that the
/// environment had started before `main` ends nothing; that report comes when the process exits.
///
/// In the child of a `fork` nothing is recorded and nothing is reported: the buffers, the file and
/// the report are the parent's. With [`LedgerBuilder::follow_forks`] it has its own.
#[derive(Debug)]
#[must_use = "recording ends when the ledger is dropped"]
pub struct Ledger {
    /// Which recording this handle ends; `None` if it ends none.
    #[cfg(feature = "enable")]
    generation: Option<u64>,
}

impl Ledger {
    /// Starts as the environment says; by default a report on stderr at the end.
    ///
    /// Never fails: what cannot start is one line on stderr and an entry in
    /// [`problems`](Self::problems), and so is a `MEMLEDGER_` variable that there is not.
    ///
    /// | variable | meaning |
    /// |---|---|
    /// | `MEMLEDGER_TRACE=memory,scope` | channels to record (these two are the default), the program's own among them |
    /// | `MEMLEDGER_FILE=run-%p.utrace` | write the trace to this file, compact if it is named `.memledger` (`%p` process id, `%t` unix seconds, `%e` executable) |
    /// | `MEMLEDGER_HOST=127.0.0.1` | send the trace to a recorder, on port 1980 or 1981 unless one is named |
    /// | `MEMLEDGER_CONTROL=1985` or `ADDRESS:PORT` | start the control server |
    /// | `MEMLEDGER_CONTROL_TOKEN_FILE=token` | who controls the program must know the first line of this file, which nobody else may read |
    /// | `MEMLEDGER_CONTROL_FOLDER=traces` | where `write-to` may create files |
    /// | `MEMLEDGER_CONTROL_HOSTS=build,10.0.0.7:1981` | where `send-to` may send besides this machine |
    /// | `MEMLEDGER_FOLLOW_FORKS=1` | record the children of forks, too, each to files of its own |
    /// | `MEMLEDGER_FILE_MODE=640` | permissions of the files that are written, octal; default 600 |
    /// | `MEMLEDGER_REPORT=stderr`, a path ending in `.txt` or `.json`, or `off` | where the report goes |
    /// | `MEMLEDGER_REPORT_VERBOSE=1` | threads, sizes and more in its text, too ([`Report::verbose`]) |
    pub fn from_env() -> Self {
        #[cfg(feature = "enable")]
        return run::start_with(environment::Settings::default());
        #[cfg(not(feature = "enable"))]
        Self {}
    }

    /// Starts as command-line flags say, and the environment where they are silent; returns the
    /// arguments that are not flags of memledger.
    ///
    /// The flags are `-trace=`, `-tracefile=`, `-tracehost=`, `-tracecontrol=`, `-tracecontroltokenfile=`,
    /// `-tracecontrolfolder=`, `-tracecontrolhosts=`, `-tracefollowforks=`, `-tracefilemode=` and `-tracereport=`, with the
    /// values of the variables `MEMLEDGER_TRACE`, `MEMLEDGER_FILE`, `MEMLEDGER_HOST` and so on.
    pub fn from_args(args: impl IntoIterator<Item = OsString>) -> (Self, Vec<OsString>) {
        #[cfg(feature = "enable")]
        {
            let (flags, rest) = environment::Settings::from_args(args);
            (run::start_with(flags), rest)
        }
        #[cfg(not(feature = "enable"))]
        (Self {}, args.into_iter().collect())
    }

    /// Sets in code what is recorded and where it goes.
    pub fn builder() -> LedgerBuilder {
        LedgerBuilder::new()
    }

    /// Writes the trace to one more file from here on; its name is that of
    /// [`LedgerBuilder::trace_to_file`].
    ///
    /// It begins with the blocks that are alive, if somebody keeps account of them: where there is a
    /// report, a host or [`LedgerBuilder::keep_account`]. Without, it begins with nothing, and says
    /// that it is not from the start of the process. Copying the live blocks takes 20 to 30 ms for
    /// each million of them, in which the worker collects nothing, and 34 bytes for each until they
    /// are written.
    ///
    /// # Errors
    /// [`Error::File`] if it cannot be created;
    /// [`Error::Unsupported`] if nothing is being recorded, in the child
    /// of a fork, or if the worker has been stuck in a write for 5 s;
    /// [`Error::Destination`] if there can be no thread for it.
    pub fn trace_to_file(&self, path: impl AsRef<Path>) -> Result<Destination, Error> {
        #[cfg(feature = "enable")]
        return destinations::add_file(path.as_ref(), None);
        #[cfg(not(feature = "enable"))]
        {
            let _ = path.as_ref();
            Ok(Destination {})
        }
    }

    /// Sends the trace to a recorder from here on, as the plain Unreal stream: `HOST`, `HOST:PORT`,
    /// an IP address, or `[IPv6]:PORT`. Without a port it is 1980, and 1981 if that refuses:
    /// `memledger serve` listens on both, the recorder of Unreal Engine 4 on the first, and that of
    /// Unreal Engine 5 on the second.
    ///
    /// Returns at once. Connecting happens on a thread of its own and is given up after 2 s; whether
    /// it worked, [`Destination::status`] and [`problems`](Self::problems) say. A connection that is
    /// lost stays lost: call this again, and a new stream begins with what is alive then. It begins
    /// as [`trace_to_file`](Self::trace_to_file) says.
    ///
    /// # Errors
    /// [`Error::Setting`] for something that is no address; otherwise as
    /// `trace_to_file`.
    pub fn trace_to_host(&self, address: impl AsRef<str>) -> Result<Destination, Error> {
        #[cfg(feature = "enable")]
        return destinations::add_host(address.as_ref(), None);
        #[cfg(not(feature = "enable"))]
        {
            let _ = address.as_ref();
            Ok(Destination {})
        }
    }

    /// Writes some channels of what is recorded to one more file from here on: those named in
    /// `channels`, with commas between them, or all but those behind a `-`, such as `-memory`.
    ///
    /// ```
    /// # use memledger::Ledger;
    /// memledger::channel! { GAME = "Game"; NETWORK = "Network"; }
    /// # let [game, rest] = ["game", "rest"].map(|name| {
    /// #     std::env::temp_dir().join(format!("memledger-{name}-{}.utrace", std::process::id()))
    /// # });
    ///
    /// let ledger = Ledger::builder().channels("memory,scope,game,network").start()?;
    /// let game = ledger.trace_channels_to_file("game", &game)?; // and bookmarks
    /// let rest = ledger.trace_channels_to_file("-memory,-game", &rest)?;
    /// # game.stop();
    /// # rest.stop();
    /// # for file in [game, rest] { let _ = std::fs::remove_file(file.status().name); }
    /// # Ok::<(), memledger::Error>(())
    /// ```
    /// It is a stream like any other, complete in itself. An event is in it if all channels of its
    /// log site are wanted; definitions (see [`event!`](crate::event)) always are. Channels that are
    /// on by default, as `bookmark`, are wanted unless they are left out. Without `memory` it does
    /// not begin with what is alive. Leaving out takes place on the destination's own thread, and
    /// takes it 10 to 15 ns an event.
    ///
    /// # Errors
    /// [`Error::Setting`] for what can be no channel's name, or if there is none; otherwise as
    /// [`trace_to_file`](Self::trace_to_file). A name that no channel has had by the end of the
    /// stream is one of [`problems`](Self::problems).
    pub fn trace_channels_to_file(
        &self,
        channels: impl AsRef<str>,
        path: impl AsRef<Path>,
    ) -> Result<Destination, Error> {
        #[cfg(feature = "enable")]
        return destinations::add_file(path.as_ref(), Some(channels.as_ref()));
        #[cfg(not(feature = "enable"))]
        {
            let _ = (channels.as_ref(), path.as_ref());
            Ok(Destination {})
        }
    }

    /// Sends some channels of what is recorded to a recorder from here on: `channels` as in
    /// [`trace_channels_to_file`](Self::trace_channels_to_file), the rest as
    /// [`trace_to_host`](Self::trace_to_host) says.
    ///
    /// # Errors
    /// Those of either.
    pub fn trace_channels_to_host(
        &self,
        channels: impl AsRef<str>,
        address: impl AsRef<str>,
    ) -> Result<Destination, Error> {
        #[cfg(feature = "enable")]
        return destinations::add_host(address.as_ref(), Some(channels.as_ref()));
        #[cfg(not(feature = "enable"))]
        {
            let _ = (channels.as_ref(), address.as_ref());
            Ok(Destination {})
        }
    }

    /// All destinations of the process but the first file, oldest first; of those that have ended,
    /// the last 64.
    pub fn destinations(&self) -> Vec<Destination> {
        #[cfg(feature = "enable")]
        return destinations::all();
        #[cfg(not(feature = "enable"))]
        Vec::new()
    }

    /// Where the control server listens, if there is one: [`LedgerBuilder::control`].
    pub fn control_address(&self) -> Option<std::net::SocketAddr> {
        #[cfg(feature = "enable")]
        return run::control_address();
        #[cfg(not(feature = "enable"))]
        None
    }

    /// Figures of the recording itself; a few loads.
    pub fn stats(&self) -> Stats {
        #[cfg(feature = "enable")]
        return run::stats();
        #[cfg(not(feature = "enable"))]
        Stats::default()
    }

    /// What is alive now and how it came to that; `None` if nobody keeps account in the process:
    /// where there is neither a report nor a host nor [`LedgerBuilder::keep_account`].
    ///
    /// Costs a [`flush`](Self::flush) and time in proportion to the live blocks.
    pub fn snapshot(&self) -> Option<Snapshot> {
        #[cfg(feature = "enable")]
        return run::snapshot();
        #[cfg(not(feature = "enable"))]
        None
    }

    /// Collects what all threads have recorded and hands it on, on this thread: what the worker
    /// thread does by itself. With [`Worker::Manual`] the program calls this, often enough that
    /// the buffers do not fill.
    pub fn update(&self) {
        #[cfg(feature = "enable")]
        run::collect(false);
    }

    /// Brings everything recorded so far to the trace file and the report. Waits at most 5 s for a
    /// worker that is stuck in a write.
    ///
    /// Costs 50 us more than [`update`](Self::update): it runs on a thread of its own, so that what the
    /// tracker allocates does not have the program's allocator tidy up what this thread has freed.
    pub fn flush(&self) {
        #[cfg(feature = "enable")]
        run::flush();
    }

    /// Ends recording and reports, if this handle started it; a new ledger may start then.
    pub fn finish(&mut self) {
        #[cfg(feature = "enable")]
        if let Some(generation) = self.generation.take() {
            ending::finish(Some(generation));
        }
    }

    /// What did not go as asked, one sentence each, oldest first. Each was also a line on stderr.
    pub fn problems(&self) -> Vec<String> {
        #[cfg(feature = "enable")]
        return problems::all();
        #[cfg(not(feature = "enable"))]
        Vec::new()
    }
}

impl Drop for Ledger {
    fn drop(&mut self) {
        self.finish();
    }
}
