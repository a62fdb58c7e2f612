//! Everything that can go wrong, one English sentence each.

use crate::words::escape;
use std::io;
use std::path::PathBuf;

/// Why an operation failed. [`Display`](std::fmt::Display) gives one sentence;
/// [`Debug`](std::fmt::Debug), which `unwrap` prints, gives the same sentence after the name of the
/// variant.
#[non_exhaustive]
pub enum Error {
    /// The input is not an Unreal Trace stream; the text says what it is instead.
    NotATrace(String),
    /// The input is an Unreal Trace stream of a kind that cannot be read.
    UnsupportedTrace(String),
    /// Reading the input failed.
    Read(io::Error),
    /// Writing the result failed.
    Write(io::Error),
    /// A file could not be created, opened or written.
    File {
        /// Which file.
        path: PathBuf,
        /// What was tried: `create`, `open`, `write` ...
        action: &'static str,
        /// Why it failed.
        source: io::Error,
    },
    /// A store of traces cannot be reached, refuses, or answers what makes no sense; the text names
    /// it and says which.
    Store(String),
    /// A setting has a value that is not allowed; the text names it and what is allowed.
    Setting(String),
    /// A destination of the trace cannot be reached, was lost, or is too slow.
    Destination {
        /// The file or the address.
        name: String,
        /// Why.
        what: String,
    },
    /// A control server cannot be started or reached, or it refuses; the text says why.
    Control(String),
    /// A [`Ledger`](crate::Ledger) is already running in this process.
    AlreadyStarted,
    /// What a piece of the program allocates could not be measured; the text says why.
    Unmeasured(String),
    /// A piece of the program has gone over its [`Budget`](crate::Budget); the text says by how much,
    /// and who holds the most. The one error of several lines.
    OverBudget(String),
    /// The tracker cannot run here; the text says why.
    Unsupported(String),
}

#[cfg(feature = "enable")]
impl Error {
    /// A copy of its own memory; of an I/O error the code or the kind.
    pub(crate) fn duplicate(&self) -> Self {
        let io = |error: &io::Error| match error.raw_os_error() {
            Some(code) => io::Error::from_raw_os_error(code),
            None => error.kind().into(),
        };
        match self {
            Self::NotATrace(what) => Self::NotATrace(what.clone()),
            Self::UnsupportedTrace(what) => Self::UnsupportedTrace(what.clone()),
            Self::Read(error) => Self::Read(io(error)),
            Self::Write(error) => Self::Write(io(error)),
            Self::File { path, action, source } => {
                Self::File { path: path.clone(), action, source: io(source) }
            }
            Self::Store(what) => Self::Store(what.clone()),
            Self::Setting(what) => Self::Setting(what.clone()),
            Self::Destination { name, what } => {
                Self::Destination { name: name.clone(), what: what.clone() }
            }
            Self::Control(what) => Self::Control(what.clone()),
            Self::AlreadyStarted => Self::AlreadyStarted,
            Self::Unmeasured(what) => Self::Unmeasured(what.clone()),
            Self::OverBudget(what) => Self::OverBudget(what.clone()),
            Self::Unsupported(what) => Self::Unsupported(what.clone()),
        }
    }
}

impl std::fmt::Debug for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let variant = match self {
            Self::NotATrace(_) => "NotATrace",
            Self::UnsupportedTrace(_) => "UnsupportedTrace",
            Self::Read(_) => "Read",
            Self::Write(_) => "Write",
            Self::File { .. } => "File",
            Self::Store(_) => "Store",
            Self::Setting(_) => "Setting",
            Self::Destination { .. } => "Destination",
            Self::Control(_) => "Control",
            Self::AlreadyStarted => "AlreadyStarted",
            Self::Unmeasured(_) => "Unmeasured",
            Self::OverBudget(_) => "OverBudget",
            Self::Unsupported(_) => "Unsupported",
        };
        write!(f, "{variant}: {self}")
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotATrace(what) => write!(f, "this is not an Unreal Trace stream: {what}"),
            Self::UnsupportedTrace(what) => write!(f, "this trace cannot be read: {what}"),
            Self::Read(error) => write!(f, "reading the trace failed: {error}"),
            Self::Write(error) => write!(f, "writing the result failed: {error}"),
            Self::File { path, action, source } => {
                write!(f, "cannot {action} {}: {source}", escape(&path.to_string_lossy()))
            }
            Self::Store(what) | Self::Setting(what) | Self::Control(what) => f.write_str(what),
            Self::Destination { name, what } => {
                write!(f, "{} gets no more of the trace: {what}", escape(name))
            }
            Self::AlreadyStarted => f.write_str(
                "a ledger is already running in this process, and there can be only one at a time",
            ),
            Self::Unmeasured(what) => write!(f, "memory could not be measured: {what}"),
            Self::OverBudget(what) | Self::Unsupported(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Read(source) | Self::Write(source) | Self::File { source, .. } => Some(source),
            _ => None,
        }
    }
}
