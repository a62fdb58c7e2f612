//! The bytes of a stored trace.

use crate::{Error, ErrorKind};
use std::io::{self, Read};
use std::net::TcpStream;
use std::time::Duration;

/// The bytes of a trace, as they arrive. A program can pass this to
/// [`read`](memledger_analysis::read::read()) or copy it to a file.
///
/// A read waits while the program sends nothing. The stream ends when the program ends, and also
/// when the store does: [`Store::trace`](super::Store::trace) reports whether there was more.
#[derive(Debug)]
pub struct TraceStream {
    stream: TcpStream,
}

impl TraceStream {
    pub(super) fn new(stream: TcpStream) -> Self {
        Self { stream }
    }

    /// Makes a read fail with [`WouldBlock`](io::ErrorKind::WouldBlock) or
    /// [`TimedOut`](io::ErrorKind::TimedOut) when nothing arrives for this time, which must not be
    /// zero. With `None`, the default, a read waits without limit.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidTimeout`] for zero, [`ErrorKind::Connection`] if the system refuses.
    pub fn set_timeout(&self, timeout: Option<Duration>) -> Result<(), Error> {
        if timeout == Some(Duration::ZERO) {
            return Err(Error::new(
                ErrorKind::InvalidTimeout,
                "a time limit of 0 s leaves no time to read",
            ));
        }
        self.stream.set_read_timeout(timeout).map_err(|source| {
            Error::from_io(ErrorKind::Connection, "reading the trace failed", source)
        })
    }
}

impl Read for TraceStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.read(buffer)
    }
}
