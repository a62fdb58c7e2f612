//! What a recording is started with: set in code, by the environment and by flags.
#![allow(dead_code, reason = "without a tracker, nothing reads the settings")]

use super::address::{Address, ListenAddress};
use crate::dump::ReportTo;
use crate::events::channel::Names;
use std::path::PathBuf;
use std::time::Duration;

/// Which thread collects the events of all threads.
///
/// [`Ledger::collect`](crate::Ledger::collect) has an example.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Worker {
    /// A thread of the tracker, every 10 ms (every millisecond at first) or when half of the buffer
    /// limit is in use.
    #[default]
    Thread,
    /// The program itself, by [`Ledger::collect`](crate::Ledger::collect). No thread waits for that
    /// call: events that do not fit into the buffers between two calls are lost and counted.
    Manual,
}

/// What a thread does when all buffers are full.
///
/// [`LedgerBuilder::buffer_limit`](crate::LedgerBuilder::buffer_limit) has an example.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
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
/// Stacks are taken on x86-64 and AArch64 Linux, while the channel `callstack` is on. This setting turns it
/// on; [`Channel::set_enabled_by_name`](crate::events::Channel::set_enabled_by_name) and the control server
/// turn it on and off while the program runs. [`LedgerBuilder::stacks`](crate::LedgerBuilder::stacks) has an
/// example.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
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

/// Where the [black box](crate::LedgerBuilder::black_box_at) is written.
///
/// [`LedgerBuilder::black_box_at`](crate::LedgerBuilder::black_box_at) has an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Limit {
    /// Where this number of bytes is live, and where the allocator returns null.
    Bytes(u64),
    /// Where the live bytes are this percentage, 1 to 100, of the smallest limit of the process's control
    /// groups, and where the allocator returns null.
    Percent(u8),
    /// Only where the allocator returns null.
    Null,
}

/// Whether a recording has a watcher.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Watch {
    #[default]
    No,
    /// If the process can have one; nothing is said if it cannot.
    IfPossible,
    Yes,
}

/// What call stacks may take at most, where that is set.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StackBounds {
    /// The frames of one.
    pub(crate) frames: Option<u8>,
    /// The bytes of all.
    pub(crate) memory: Option<u64>,
}

/// All settings. `None` means: not set.
#[derive(Clone, Debug, Default)]
pub(crate) struct Config {
    pub(crate) report: Option<ReportTo>,
    pub(crate) file: Option<PathBuf>,
    pub(crate) host: Option<Address>,
    pub(crate) track_events: Option<crate::perfetto::TrackEvents>,
    pub(crate) analyze_in_process: bool,
    pub(crate) control: Option<ListenAddress>,
    pub(crate) allowed: Allowed,
    pub(crate) follow_forks: bool,
    pub(crate) report_on_signals: bool,
    pub(crate) watch: Watch,
    pub(crate) file_mode: Option<u32>,
    pub(crate) channels: Option<Names>,
    pub(crate) stacks: Option<Stacks>,
    pub(crate) stack_bounds: StackBounds,
    pub(crate) worker: Worker,
    pub(crate) buffer_limit: Option<usize>,
    pub(crate) on_full: Option<OnFull>,
    pub(crate) black_box: Option<Limit>,
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
