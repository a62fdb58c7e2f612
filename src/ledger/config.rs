//! What a recording is started with: set in code, by the environment and by flags.

use super::report_to::ReportTo;
#[cfg(tracking)]
use crate::alloc;
#[cfg(tracking)]
use crate::error::Error;
#[cfg(tracking)]
use crate::events::channel::Names;
#[cfg(tracking)]
use crate::platform::os;
#[cfg(tracking)]
use crate::remote::control::ListenAddress;
#[cfg(tracking)]
use crate::scopes;
#[cfg(tracking)]
use crate::stacks;
#[cfg(tracking)]
use crate::trace::sink::tcp::Address;
#[cfg(tracking)]
use crate::trace::write::buffer_pool;
use std::path::PathBuf;
use std::time::Duration;

/// Which thread collects the events of all threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Worker {
    /// A thread of the tracker, every 10 ms (every millisecond at first) or when half of the buffer
    /// limit is in use.
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

/// Which allocations and reallocations have their call stack recorded.
///
/// Stacks are taken on x86-64 Linux, while the channel `callstack` is on. This setting turns it on;
/// [`Channel::switch`](crate::Channel::switch) and the control server turn it on and off while the
/// program runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stacks {
    /// None, until the channel is turned on by its name; then all.
    #[default]
    Off,
    /// All.
    On,
    /// A Poisson sample of the allocated bytes: an allocation of `s` bytes has its stack recorded
    /// with the probability `1 - exp(-s / mean_bytes)`. Scopes, groups and names remain exact for
    /// all allocations; figures by stack are estimates.
    Sampled {
        /// The mean number of allocated bytes from one stack to the next: at least 1.
        mean_bytes: u64,
    },
}

/// From where on the black box is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limit {
    /// A number of live bytes.
    Bytes(u64),
    /// This percentage of the smallest limit of the process's control groups.
    #[cfg(tracking)]
    OfGroup(u8),
    /// Only where the program's allocator returns null.
    #[cfg(tracking)]
    Null,
}

/// Whether a recording has a watcher.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Watch {
    #[default]
    No,
    /// If the process can have one; nothing is said if it cannot.
    #[cfg(tracking)]
    IfPossible,
    Yes,
}

#[cfg(tracking)]
impl Watch {
    /// Whether there is to be one in this process.
    ///
    /// NOTE: what the first process of a container starts ends with it, before it could do anything. It would be the watcher's parent, too,
    /// as of all orphans.
    pub(super) fn is_wanted(self) -> bool {
        let can_end_later = os::process_id() != 1;
        match self {
            Self::No => false,
            Self::IfPossible => can_end_later && os::has_one_thread(),
            Self::Yes => can_end_later,
        }
    }
}

/// All settings. `None` means: not set.
#[derive(Clone, Debug, Default)]
pub(crate) struct Config {
    pub(crate) report: Option<ReportTo>,
    pub(crate) file: Option<PathBuf>,
    #[cfg(tracking)]
    pub(crate) host: Option<Address>,
    /// The file of a session of track events, and that of its configuration.
    #[cfg(all(tracking, feature = "perfetto"))]
    pub(crate) perfetto: Option<PathBuf>,
    #[cfg(all(tracking, feature = "perfetto"))]
    pub(crate) perfetto_config: Option<PathBuf>,
    pub(crate) analyze_in_process: bool,
    #[cfg(tracking)]
    pub(crate) control: Option<ListenAddress>,
    pub(crate) allowed: Allowed,
    pub(crate) follow_forks: bool,
    pub(crate) report_on_signals: bool,
    pub(crate) watch: Watch,
    pub(crate) file_mode: Option<u32>,
    #[cfg(tracking)]
    pub(crate) channels: Option<Names>,
    pub(crate) stacks: Option<Stacks>,
    pub(crate) stack_frames: Option<u8>,
    pub(crate) worker: Worker,
    pub(crate) buffer_limit: Option<usize>,
    pub(crate) on_full: OnFull,
    pub(crate) limit: Option<Limit>,
    /// The time from one reading of the resident memory to the next; zero: it is not read.
    pub(crate) rss_interval: Option<Duration>,
}

/// What the control server allows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Allowed {
    pub(crate) token: Option<Secret>,
    pub(crate) folder: Option<PathBuf>,
    pub(crate) hosts: Vec<String>,
}

/// A text that is not printed with the other settings.
#[derive(Clone)]
pub(crate) struct Secret(pub(crate) String);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

#[cfg(tracking)]
impl Config {
    /// The channels to record: `memory,scope` if no others are set, and `callstack` if stacks are to be taken.
    pub(super) fn channels(&self) -> Names {
        let default = || Names::default().with(&alloc::CHANNEL).with(&scopes::CHANNEL);
        let names = self.channels.clone().unwrap_or_else(default);
        if self.takes_stacks() { names.with(&stacks::CHANNEL) } else { names }
    }

    /// The bound on the memory of all event buffers, in bytes.
    pub(super) fn buffer_limit(&self) -> usize {
        self.buffer_limit.unwrap_or(buffer_pool::DEFAULT_LIMIT)
    }

    /// Whether the setting turns on the channel of stacks.
    pub(super) fn takes_stacks(&self) -> bool {
        !matches!(self.stacks, None | Some(Stacks::Off))
    }

    /// Refuses settings for stacks that are not allowed, or that this platform cannot fulfil.
    ///
    /// # Errors
    /// [`Error::InvalidStacks`], [`Error::StacksUnsupported`].
    pub(super) fn check_stacks(&self) -> Result<(), Error> {
        if self.stacks == Some(Stacks::Sampled { mean_bytes: 0 }) {
            let why = "a sample of stacks needs a mean of at least 1 byte, not 0";
            return Err(Error::InvalidStacks(why.to_owned()));
        }
        if self.stack_frames == Some(0) {
            let why = "a call stack has 1 to 255 frames, not 0";
            return Err(Error::InvalidStacks(why.to_owned()));
        }
        if !self.takes_stacks() || stacks::capture::SUPPORTED {
            return Ok(());
        }
        Err(Error::StacksUnsupported)
    }

    /// Passes the settings for stacks to the hook.
    pub(super) fn configure_stacks(&self) {
        let mean_bytes = match self.stacks {
            Some(Stacks::Sampled { mean_bytes }) => mean_bytes,
            _ => 0,
        };
        let frames = self.stack_frames.unwrap_or(stacks::state::MAX_FRAMES);
        stacks::state::configure(mean_bytes, frames);
    }
}

/// Permissions for files, if the program itself can read and write such files.
///
/// # Errors
/// [`Error::InvalidFileMode`].
#[cfg(tracking)]
pub(super) fn file_mode(mode: u32) -> Result<u32, Error> {
    if mode & 0o600 == 0o600 && mode <= 0o777 {
        return Ok(mode);
    }
    Err(Error::InvalidFileMode(mode))
}
