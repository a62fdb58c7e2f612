//! One error for all crates: a kind, a sentence, and the error of the system.

use std::borrow::Cow;
use std::fmt::{self, Debug, Display};
use std::io;

/// Why an operation failed: a [`kind`](Self::kind) that a caller may want to handle, one sentence, and the
/// error of the system, if there is one. Each crate has kinds of its own.
///
/// [`Display`] gives the sentence, with the numbers; its alternate form, `{error:#}`, ends with the error of
/// the system. [`Debug`], which `unwrap` prints, gives the same after the name of the kind.
/// [`source`](std::error::Error::source) is the error of the system.
pub struct Error<K = ErrorKind> {
    kind: K,
    sentence: Cow<'static, str>,
    source: Option<io::Error>,
}

/// Why a trace cannot be read, converted or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The input is not an Unreal Trace stream; the sentence says what it is instead.
    NotATrace,
    /// The input is an Unreal Trace stream of a kind that cannot be read.
    UnsupportedTrace,
    /// The trace cannot be converted, because the other form cannot carry what is in it.
    NotConvertible,
    /// A text cannot be the name of a channel, or it selects no channel where one is required.
    InvalidChannels,
    /// The trace has no channel of the name that the sentence contains.
    UnknownChannel,
    /// Reading the input failed.
    Read,
    /// Writing the result failed.
    Write,
    /// The system cannot create the thread that reads the input.
    ThreadNotStarted,
}

impl<K: Copy> Error<K> {
    #[doc(hidden)]
    pub fn new(kind: K, sentence: impl Into<Cow<'static, str>>) -> Self {
        Self { kind, sentence: sentence.into(), source: None }
    }

    #[doc(hidden)]
    pub fn from_io(kind: K, sentence: impl Into<Cow<'static, str>>, source: io::Error) -> Self {
        Self { source: Some(source), ..Self::new(kind, sentence) }
    }

    /// What a caller can handle.
    pub fn kind(&self) -> K {
        self.kind
    }

    /// The error of the system, or one that has only the sentence.
    pub fn into_io(self) -> io::Error {
        self.source.unwrap_or_else(|| io::Error::other(self.sentence))
    }
}

impl Error {
    #[doc(hidden)]
    pub fn not_a_trace(what: impl Display) -> Self {
        Self::new(ErrorKind::NotATrace, format!("this is not a trace: {what}"))
    }

    #[doc(hidden)]
    pub fn unsupported(what: impl Display) -> Self {
        Self::new(ErrorKind::UnsupportedTrace, format!("this trace cannot be read: {what}"))
    }

    #[doc(hidden)]
    pub fn not_convertible(what: impl Display) -> Self {
        Self::new(ErrorKind::NotConvertible, format!("this trace cannot be converted: {what}"))
    }

    #[doc(hidden)]
    pub fn read(source: io::Error) -> Self {
        Self::from_io(ErrorKind::Read, "reading the trace failed", source)
    }

    #[doc(hidden)]
    pub fn write(source: io::Error) -> Self {
        Self::from_io(ErrorKind::Write, "writing the result failed", source)
    }
}

/// The copy shares no memory with this error. That of an I/O error has its code, or its kind and sentence if
/// there is no code.
impl<K: Copy> Clone for Error<K> {
    fn clone(&self) -> Self {
        let source = self.source.as_ref().map(|error| match error.raw_os_error() {
            Some(code) => io::Error::from_raw_os_error(code),
            None => io::Error::new(error.kind(), error.to_string()),
        });
        Self { kind: self.kind, sentence: self.sentence.clone(), source }
    }
}

impl<K: Debug> Debug for Error<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self:#}", self.kind)
    }
}

impl<K> Display for Error<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)?;
        match &self.source {
            Some(source) if f.alternate() => write!(f, ": {source}"),
            _ => Ok(()),
        }
    }
}

impl<K: Debug> std::error::Error for Error<K> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|error| error as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::error::Error as _;

    #[test]
    fn the_source_is_said_once_and_a_copy_says_the_same() {
        let without_code = io::Error::new(io::ErrorKind::TimedOut, "a reason without a code");
        for source in [io::Error::from_raw_os_error(2), without_code] {
            let reason = source.to_string();
            let error = Error::<ErrorKind>::from_io(ErrorKind::Read, "no 12", source);
            for error in [error.clone(), error] {
                assert_eq!(error.to_string(), "no 12");
                assert_eq!(format!("{error:#}"), format!("no 12: {reason}"));
                assert_eq!(format!("{error:?}"), format!("Read: no 12: {reason}"));
                assert_eq!(error.source().map(ToString::to_string), Some(reason.clone()));
                assert_eq!(error.into_io().to_string(), reason);
            }
        }
    }
}
