//! The errors of traces, each with one English sentence.

use std::fmt;
use std::io;

/// Why a trace cannot be read, converted or written.
///
/// [`Display`](fmt::Display) gives one sentence, with the numbers. [`Debug`](fmt::Debug), which `unwrap` prints, gives
/// the same sentence after the name of the variant. [`source`](std::error::Error::source) is the error of the system,
/// if there is one.
#[non_exhaustive]
pub enum Error {
    /// The input is not an Unreal Trace stream; the text says what it is instead.
    NotATrace(String),
    /// The input is an Unreal Trace stream of a kind that cannot be read.
    UnsupportedTrace(String),
    /// The trace cannot be converted, because the other form cannot carry what is in it.
    NotConvertible(String),
    /// A text cannot be the name of a channel, or it selects no channel where one is required.
    InvalidChannels(String),
    /// The trace has no channel of the name that the text contains.
    UnknownChannel(String),
    /// Reading the input failed.
    Read(io::Error),
    /// Writing the result failed.
    Write(io::Error),
    /// The system cannot create the thread that reads the input.
    ThreadNotStarted(io::Error),
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let variant = match self {
            Self::NotATrace(_) => "NotATrace",
            Self::UnsupportedTrace(_) => "UnsupportedTrace",
            Self::NotConvertible(_) => "NotConvertible",
            Self::InvalidChannels(_) => "InvalidChannels",
            Self::UnknownChannel(_) => "UnknownChannel",
            Self::Read(_) => "Read",
            Self::Write(_) => "Write",
            Self::ThreadNotStarted(_) => "ThreadNotStarted",
        };
        write!(f, "{variant}: {self}")
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotATrace(what) => write!(f, "this is not a trace: {what}"),
            Self::UnsupportedTrace(what) => write!(f, "this trace cannot be read: {what}"),
            Self::NotConvertible(what) => write!(f, "this trace cannot be converted: {what}"),
            Self::InvalidChannels(what) | Self::UnknownChannel(what) => f.write_str(what),
            Self::Read(source) => write!(f, "reading the trace failed: {source}"),
            Self::Write(source) => write!(f, "writing the result failed: {source}"),
            Self::ThreadNotStarted(source) => {
                write!(f, "the thread of a pass could not be started: {source}")
            }
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Read(source) | Self::Write(source) | Self::ThreadNotStarted(source) => {
                Some(source)
            }
            _ => None,
        }
    }
}
