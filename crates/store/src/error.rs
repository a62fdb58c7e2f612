//! The errors of a store and of its client, each with one English sentence.

/// Why a store cannot serve, or does not give what it was asked for.
pub type Error = memledger_format::Error<ErrorKind>;

/// What a caller may want to handle of an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A store cannot be reached.
    Unreachable,
    /// A store does not answer in time, or closes the connection; the sentence names it.
    NoAnswer,
    /// A store refuses a request; the sentence contains the reason.
    Refused,
    /// The bytes of a message from or to a store cannot be decoded, or the message lacks a field.
    InvalidMessage,
    /// A token has the wrong length, or characters that are not allowed; the sentence does not contain
    /// the token.
    InvalidToken,
    /// A time limit is 0 s.
    InvalidTimeout,
    /// The system refuses a setting of the connection that a trace comes by.
    Connection,

    /// A server would listen on an address that other machines can reach, without a token.
    TokenRequired,
    /// Another program listens on the port that a server was asked to listen on.
    PortInUse,
    /// A server cannot listen on an address.
    Listen,
    /// The folder of traces cannot be used; the sentence names it.
    Folder,
    /// The server cannot start, or has ended; the sentence says why.
    NotServing,
}
