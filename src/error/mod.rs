//! The errors of this crate, each with one English sentence.

mod problem;
#[cfg(tracking)]
mod sentences;
mod unmeasured;

pub use problem::{Problem, ProblemKind};
#[cfg(tracking)]
pub(crate) use sentences::*;
pub(crate) use unmeasured::*;
pub use unmeasured::{Unmeasured, UnmeasuredKind};

/// Why an operation failed: a kind, one sentence with the numbers, and the error of the system, if there is
/// one.
///
/// ```
/// use memledger::{Destination, ErrorKind, Ledger};
///
/// let started = Ledger::builder().trace_to(Destination::host("127.0.0.1:port")).start();
/// # if cfg!(tracking) {
/// match started {
///     Err(error) if error.kind() == ErrorKind::AlreadyStarted => {} // continues with that ledger
///     Err(error) => eprintln!("{error:#}"), // with the system's error, which `{error}` omits
///     Ok(_) => panic!("127.0.0.1:port has no port"),
/// }
/// # }
/// ```
pub type Error = memledger_format::Error<ErrorKind>;

/// What a caller may want to handle of an [`Error`].
///
/// [`Error`] has an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A file could not be created, opened or written.
    File,
    /// A setting has a value that is not allowed: an address, permissions of a file, a percentage, call
    /// stacks, the name of a report's file, a token. The sentence says what is allowed; it does not contain a
    /// token.
    InvalidSetting,
    /// A text cannot be the name of a channel, or it selects no channel where one is required.
    InvalidChannels,
    /// A session of track events cannot start, or cannot do what it was asked for; or there are too many
    /// tracks.
    InvalidSession,
    /// The program has no channel of this name.
    UnknownChannel,
    /// The channel can be enabled only when recording starts.
    ReadOnlyChannel,
    /// The channel stays off, because the program has used 1024 others before it.
    TooManyChannels,
    /// The control server would listen on an address that other machines can reach, without a token.
    TokenRequired,

    /// Memory cannot be tracked on this system, or by this processor.
    UnsupportedPlatform,
    /// memledger was compiled without its feature `enable`, or without `report` where that is needed.
    FeatureOff,
    /// Call stacks can be taken on x86-64 and AArch64 Linux and on x86-64 Windows only.
    StacksUnsupported,
    /// A [`Ledger`](crate::Ledger) is already running in this process.
    AlreadyStarted,
    /// A ledger cannot start while [`measure`](crate::measure) or a [`Budget`](crate::Budget) runs
    /// without one.
    MeasurementRunning,
    /// This process was forked from a tracked process that does not follow forks.
    ForkedChild,
    /// The operation has waited for as long as it may: for the worker, which is stuck in a write, for a
    /// thread that is inside the allocator, or for another profile of this process.
    TimedOut,
    /// The system cannot create a thread of the tracker.
    ThreadNotStarted,
    /// Nothing is being recorded, so there is nothing to send to another destination.
    NotRecording,
    /// There is no profile, because nothing is being recorded, or because the events are not analyzed
    /// in this process.
    NotAnalyzed,
    /// The system has no memory for the tracker; the sentence says for what, and what is lost.
    OutOfMemory,
    /// The tracker has detected a defect in itself, and ends the activity that the sentence names.
    Internal,
    /// A destination of the trace cannot be reached, was lost, or is too slow.
    Destination,

    /// The control server cannot listen on an address.
    Listen,
    /// The control server of this process has ended.
    ControlEnded,
    /// A control server cannot be reached.
    Unreachable,
    /// A control server does not answer in time, or closes the connection; the sentence names it.
    NoAnswer,
    /// A control server refuses a request; the sentence contains the reason.
    Refused,
}
