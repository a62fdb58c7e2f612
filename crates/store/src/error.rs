//! The errors of a store and of its client, each with one English sentence.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};

/// Why a store cannot serve, or does not give what it was asked for.
///
/// [`Display`](fmt::Display) gives one sentence, with the numbers. [`Debug`](fmt::Debug), which `unwrap` prints, gives
/// the same sentence after the name of the variant. [`source`](std::error::Error::source) is the error of the system,
/// if there is one.
#[non_exhaustive]
pub enum Error {
    /// A store cannot be reached.
    Unreachable {
        /// What cannot be reached, as a clause.
        what: String,
        /// Why it failed.
        source: io::Error,
    },
    /// A store does not answer in time, or closes the connection; the text names it.
    NoAnswer(String),
    /// A store refuses a request; the text contains the reason.
    Refused(String),
    /// The bytes of a message from or to a store cannot be decoded, or the message lacks a field.
    InvalidMessage(String),
    /// A token has the wrong length, or characters that are not allowed; the text does not contain
    /// the token.
    InvalidToken(String),
    /// A time limit is 0 s.
    InvalidTimeout,
    /// The system refuses a setting of the connection that a trace comes by.
    Connection(io::Error),

    /// A server would listen on this address, which other machines can reach, without a token.
    TokenRequired(IpAddr),
    /// A server cannot listen on this address.
    Listen {
        /// The requested address.
        address: SocketAddr,
        /// Why it failed.
        source: io::Error,
    },
    /// The folder of traces cannot be used; the text names it.
    Folder(String),
    /// The server cannot start, or has ended; the text says why.
    NotServing(String),
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let variant = match self {
            Self::Unreachable { .. } => "Unreachable",
            Self::NoAnswer(_) => "NoAnswer",
            Self::Refused(_) => "Refused",
            Self::InvalidMessage(_) => "InvalidMessage",
            Self::InvalidToken(_) => "InvalidToken",
            Self::InvalidTimeout => "InvalidTimeout",
            Self::Connection(_) => "Connection",
            Self::TokenRequired(_) => "TokenRequired",
            Self::Listen { .. } => "Listen",
            Self::Folder(_) => "Folder",
            Self::NotServing(_) => "NotServing",
        };
        write!(f, "{variant}: {self}")
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable { what, source } => write!(f, "{what}: {source}"),
            Self::InvalidTimeout => f.write_str("a time limit of 0 s leaves no time to read"),
            Self::Connection(source) => write!(f, "reading the trace failed: {source}"),
            Self::TokenRequired(address) => write!(
                f,
                "a server that listens on {address} lets other machines in, and for that they need a token"
            ),
            Self::Listen { address, source } if source.kind() == io::ErrorKind::AddrInUse => {
                write!(
                    f,
                    "cannot listen on {address}: another program does; stop it, or choose another port"
                )
            }
            Self::Listen { address, source } => write!(f, "cannot listen on {address}: {source}"),
            Self::NoAnswer(what)
            | Self::Refused(what)
            | Self::InvalidMessage(what)
            | Self::InvalidToken(what)
            | Self::Folder(what)
            | Self::NotServing(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Unreachable { source, .. }
            | Self::Listen { source, .. }
            | Self::Connection(source) => Some(source),
            _ => None,
        }
    }
}
