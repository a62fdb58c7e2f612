//! The errors of this crate, each with one English sentence.

mod unmeasured;

#[cfg(tracking)]
pub(crate) use unmeasured::NOT_LINKED;
pub use unmeasured::Unmeasured;

use memledger_format::words::escape;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Why an operation failed: a variant for each condition that a caller may want to handle.
///
/// [`Display`](std::fmt::Display) gives one sentence, with the numbers; so does each text in a
/// variant. [`Debug`](std::fmt::Debug), which `unwrap` prints, gives the same sentence after the
/// name of the variant. [`source`](std::error::Error::source) is the error of the system, if there
/// is one.
///
/// ```
/// use memledger::{Destination, Error, Ledger};
///
/// let started = Ledger::builder().trace_to(Destination::host("127.0.0.1:port")).start();
/// # if cfg!(tracking) {
/// match started {
///     Err(Error::InvalidAddress(sentence)) => eprintln!("{sentence}"),
///     Err(Error::AlreadyStarted) => {} // the program continues with that ledger
///     other => panic!("{other:?}"),
/// }
/// # }
/// ```
#[non_exhaustive]
pub enum Error {
    /// A file could not be created, opened or written.
    File {
        /// Which file.
        path: PathBuf,
        /// What was tried: `create`, `open`, `write` ...
        action: &'static str,
        /// Why it failed.
        source: io::Error,
    },

    /// An address has none of the allowed forms; the text lists them.
    InvalidAddress(String),
    /// A text cannot be the name of a channel, or it selects no channel where one is required.
    InvalidChannels(String),
    /// A session of track events cannot start, or cannot do what it was asked for; the text says why.
    InvalidSession(String),
    /// The program has no channel of the name that the text contains.
    UnknownChannel(String),
    /// The channel of this name can be enabled only when recording starts.
    ReadOnlyChannel(&'static str),
    /// The channel of this name stays off, because the program has used 1024 others before it.
    TooManyChannels(&'static str),
    /// These permissions are not in the range 0o600 to 0o777, in which the owner can read and write
    /// the file.
    InvalidFileMode(u32),
    /// This is no percentage of a limit: 1 to 100 are.
    InvalidLimit(u8),
    /// Call stacks cannot be taken in this way; the text says which ways are allowed.
    InvalidStacks(String),
    /// No format of a report has the extension of this file name; the text lists the formats.
    UnknownReportFormat(String),
    /// A token has the wrong length, or characters that are not allowed; the text does not contain
    /// the token.
    InvalidToken(String),
    /// The control server would listen on this address, which other machines can reach, without a
    /// token.
    TokenRequired(String),

    /// Memory can be tracked on 64-bit Linux only.
    UnsupportedPlatform,
    /// memledger was compiled without its feature `enable`.
    FeatureOff,
    /// Call stacks can be taken on x86-64 Linux only.
    StacksUnsupported,
    /// A [`Ledger`](crate::Ledger) is already running in this process.
    AlreadyStarted,
    /// A ledger cannot start while [`measure`](crate::measure) or a [`Budget`](crate::Budget) runs
    /// without one.
    MeasurementRunning,
    /// This process was forked from a tracked process that does not follow forks.
    ForkedChild,
    /// The worker has been stuck in a write for longer than an operation waits for it.
    WorkerStuck {
        /// What fails, as a clause.
        action: &'static str,
        /// How long the operation has waited.
        waited: Duration,
    },
    /// A thread has been inside the allocator for this long, so recording cannot start.
    ThreadInAllocator {
        /// How long the operation has waited.
        waited: Duration,
    },
    /// The system cannot create a thread of the tracker.
    ThreadNotStarted {
        /// Which thread, as a noun phrase.
        thread: String,
        /// Why it failed.
        source: io::Error,
    },
    /// Nothing is being recorded, so there is nothing to send to another destination.
    NotRecording,
    /// There is no profile, because nothing is being recorded, or because the events are not analyzed
    /// in this process.
    NotAnalyzed,
    /// Another profile of this process has been under way for this long.
    ProfileUnderWay {
        /// How long the operation has waited.
        waited: Duration,
    },
    /// The system has no memory for the tracker; the text says for what, and what is lost.
    OutOfMemory(String),
    /// The tracker has detected a defect in itself, and ends the activity that the text names.
    Internal(String),
    /// A destination of the trace cannot be reached, was lost, or is too slow.
    Destination {
        /// The file or the address.
        name: String,
        /// Why.
        what: String,
    },

    /// The control server cannot listen on this address.
    Listen {
        /// The requested address.
        address: String,
        /// Why it failed.
        source: io::Error,
    },
    /// The control server of this process has ended.
    ControlEnded(io::Error),
    /// A control server or a store cannot be reached.
    Unreachable {
        /// What cannot be reached, as a clause.
        what: String,
        /// Why it failed.
        source: io::Error,
    },
    /// A control server or a store does not answer in time, or closes the connection; the text
    /// names the server or the store.
    NoAnswer(String),
    /// A control server or a store refuses a request; the text contains the reason.
    Refused(String),
}

/// The copy shares no memory with this error. That of an I/O error has its code, or its kind and sentence if there is no code.
impl Clone for Error {
    // Long, because it has one arm for each variant.
    fn clone(&self) -> Self {
        let io = |error: &io::Error| match error.raw_os_error() {
            Some(code) => io::Error::from_raw_os_error(code),
            None => io::Error::new(error.kind(), error.to_string()),
        };
        match self {
            Self::File { path, action, source } => {
                Self::File { path: path.clone(), action, source: io(source) }
            }
            Self::InvalidAddress(what) => Self::InvalidAddress(what.clone()),
            Self::InvalidChannels(what) => Self::InvalidChannels(what.clone()),
            Self::InvalidSession(what) => Self::InvalidSession(what.clone()),
            Self::UnknownChannel(what) => Self::UnknownChannel(what.clone()),
            Self::ReadOnlyChannel(name) => Self::ReadOnlyChannel(name),
            Self::TooManyChannels(name) => Self::TooManyChannels(name),
            Self::InvalidFileMode(mode) => Self::InvalidFileMode(*mode),
            Self::InvalidLimit(percent) => Self::InvalidLimit(*percent),
            Self::InvalidStacks(what) => Self::InvalidStacks(what.clone()),
            Self::StacksUnsupported => Self::StacksUnsupported,
            Self::UnknownReportFormat(text) => Self::UnknownReportFormat(text.clone()),
            Self::InvalidToken(what) => Self::InvalidToken(what.clone()),
            Self::TokenRequired(address) => Self::TokenRequired(address.clone()),
            Self::UnsupportedPlatform => Self::UnsupportedPlatform,
            Self::FeatureOff => Self::FeatureOff,
            Self::AlreadyStarted => Self::AlreadyStarted,
            Self::MeasurementRunning => Self::MeasurementRunning,
            Self::ForkedChild => Self::ForkedChild,
            Self::WorkerStuck { action, waited } => Self::WorkerStuck { action, waited: *waited },
            Self::ThreadInAllocator { waited } => Self::ThreadInAllocator { waited: *waited },
            Self::ThreadNotStarted { thread, source } => {
                Self::ThreadNotStarted { thread: thread.clone(), source: io(source) }
            }
            Self::NotRecording => Self::NotRecording,
            Self::NotAnalyzed => Self::NotAnalyzed,
            Self::ProfileUnderWay { waited } => Self::ProfileUnderWay { waited: *waited },
            Self::OutOfMemory(what) => Self::OutOfMemory(what.clone()),
            Self::Internal(what) => Self::Internal(what.clone()),
            Self::Destination { name, what } => {
                Self::Destination { name: name.clone(), what: what.clone() }
            }
            Self::Listen { address, source } => {
                Self::Listen { address: address.clone(), source: io(source) }
            }
            Self::ControlEnded(source) => Self::ControlEnded(io(source)),
            Self::Unreachable { what, source } => {
                Self::Unreachable { what: what.clone(), source: io(source) }
            }
            Self::NoAnswer(what) => Self::NoAnswer(what.clone()),
            Self::Refused(what) => Self::Refused(what.clone()),
        }
    }
}

impl std::fmt::Debug for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let variant = match self {
            Self::File { .. } => "File",
            Self::InvalidAddress(_) => "InvalidAddress",
            Self::InvalidChannels(_) => "InvalidChannels",
            Self::InvalidSession(_) => "InvalidSession",
            Self::UnknownChannel(_) => "UnknownChannel",
            Self::ReadOnlyChannel(_) => "ReadOnlyChannel",
            Self::TooManyChannels(_) => "TooManyChannels",
            Self::InvalidFileMode(_) => "InvalidFileMode",
            Self::InvalidLimit(_) => "InvalidLimit",
            Self::InvalidStacks(_) => "InvalidStacks",
            Self::StacksUnsupported => "StacksUnsupported",
            Self::UnknownReportFormat(_) => "UnknownReportFormat",
            Self::InvalidToken(_) => "InvalidToken",
            Self::TokenRequired(_) => "TokenRequired",
            Self::UnsupportedPlatform => "UnsupportedPlatform",
            Self::FeatureOff => "FeatureOff",
            Self::AlreadyStarted => "AlreadyStarted",
            Self::MeasurementRunning => "MeasurementRunning",
            Self::ForkedChild => "ForkedChild",
            Self::WorkerStuck { .. } => "WorkerStuck",
            Self::ThreadInAllocator { .. } => "ThreadInAllocator",
            Self::ThreadNotStarted { .. } => "ThreadNotStarted",
            Self::NotRecording => "NotRecording",
            Self::NotAnalyzed => "NotAnalyzed",
            Self::ProfileUnderWay { .. } => "ProfileUnderWay",
            Self::OutOfMemory(_) => "OutOfMemory",
            Self::Internal(_) => "Internal",
            Self::Destination { .. } => "Destination",
            Self::Listen { .. } => "Listen",
            Self::ControlEnded(_) => "ControlEnded",
            Self::Unreachable { .. } => "Unreachable",
            Self::NoAnswer(_) => "NoAnswer",
            Self::Refused(_) => "Refused",
        };
        write!(f, "{variant}: {self}")
    }
}

impl std::fmt::Display for Error {
    // Long, because it has one sentence for each variant.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::File { path, action, source } => {
                write!(f, "cannot {action} {}: {source}", escape(&path.to_string_lossy()))
            }
            Self::ReadOnlyChannel(name) => write!(
                f,
                "the channel {name} is read-only: it can be enabled where recording starts only, by MEMLEDGER_CHANNELS, -trace= or LedgerBuilder::channels"
            ),
            Self::TooManyChannels(name) => write!(
                f,
                "the channel {name} stays off: the program has used 1024 others before it, the most that it can have"
            ),
            Self::InvalidFileMode(mode) => write!(
                f,
                "files cannot have the permissions 0o{mode:o}: from 0o600 to 0o777 are allowed, with which the owner can read and write"
            ),
            Self::InvalidLimit(percent) => write!(
                f,
                "the black box cannot be at {percent} % of the limit of the control group: 1 to 100 are allowed"
            ),
            Self::TokenRequired(address) => write!(
                f,
                "the control server does not listen on {address}, where other machines can reach it, without a token; MEMLEDGER_CONTROL_TOKEN_FILE or LedgerBuilder::control_token sets one"
            ),
            Self::UnsupportedPlatform => f.write_str("memory can be tracked on 64-bit Linux only"),
            Self::FeatureOff => {
                f.write_str("nothing is recorded: memledger was compiled without its feature `enable`")
            }
            Self::StacksUnsupported => f.write_str(
                "call stacks can be taken on x86-64 Linux only; all else is recorded without them",
            ),
            Self::AlreadyStarted => f.write_str(
                "a ledger is already running in this process, and there can be only one at a time",
            ),
            Self::MeasurementRunning => f.write_str(
                "a ledger cannot start while memledger::measure or a budget runs in this process; start it before, and they share its account, or after",
            ),
            Self::ForkedChild => f.write_str(
                "this process was forked from one that was being tracked, so it cannot be tracked itself",
            ),
            Self::WorkerStuck { action, waited } => write!(
                f,
                "{action}: the worker has been stuck in a write for {} s",
                waited.as_secs()
            ),
            Self::ThreadInAllocator { waited } => write!(
                f,
                "recording cannot start: a thread has been inside the allocator for {} s",
                waited.as_secs()
            ),
            Self::ThreadNotStarted { thread, source } => {
                write!(f, "{} could not be started: {source}", escape(thread))
            }
            Self::NotRecording => f.write_str(
                "a destination cannot be added, because nothing is being recorded",
            ),
            Self::NotAnalyzed => f.write_str(
                "there is no profile, because no events are analyzed in this process; they are with \
                 a report, a control server, or LedgerBuilder::analyze_in_process",
            ),
            Self::ProfileUnderWay { waited } => write!(
                f,
                "there is no profile now, because another one of this process has been under way for {} s",
                waited.as_secs()
            ),
            Self::Destination { name, what } => {
                write!(f, "{} gets no more of the trace: {what}", escape(name))
            }
            Self::Listen { address, source } => {
                write!(f, "the control server cannot listen on {address}: {source}")
            }
            Self::ControlEnded(source) => write!(f, "the control server ends: {source}"),
            Self::Unreachable { what, source } => write!(f, "{what}: {source}"),
            Self::InvalidAddress(what)
            | Self::UnknownReportFormat(what)
            | Self::InvalidChannels(what)
            | Self::InvalidStacks(what)
            | Self::InvalidSession(what)
            | Self::UnknownChannel(what)
            | Self::InvalidToken(what)
            | Self::OutOfMemory(what)
            | Self::Internal(what)
            | Self::NoAnswer(what)
            | Self::Refused(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::File { source, .. }
            | Self::ThreadNotStarted { source, .. }
            | Self::Listen { source, .. }
            | Self::ControlEnded(source)
            | Self::Unreachable { source, .. } => Some(source),
            _ => None,
        }
    }
}

#[cfg(all(test, tracking))]
mod tests;
