//! A connection with a deadline for a whole exchange.

use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// The maximum time to connect to one address.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// A TCP connection whose reads and writes fail with [`ErrorKind::TimedOut`] or
/// [`ErrorKind::WouldBlock`] after a deadline.
///
/// A socket's own timeout applies to one read, so a peer that sends single bytes could extend it
/// without end.
#[derive(Debug)]
pub struct TimedStream {
    stream: TcpStream,
    deadline: Instant,
}

impl TimedStream {
    /// Connects to the first of `addresses` that answers, and waits at most `timeout` from then.
    /// Returns the address as well; in an error, the last one, if there are any.
    pub fn connect(
        addresses: &[SocketAddr],
        timeout: Duration,
    ) -> Result<(Self, SocketAddr), (Option<SocketAddr>, io::Error)> {
        let mut failure = (None, io::Error::other("the name has no address"));
        for &address in addresses {
            let stream = TcpStream::connect_timeout(&address, CONNECT_TIMEOUT)
                .and_then(|stream| stream.set_nodelay(true).map(|()| stream));
            match stream {
                Ok(stream) => return Ok((Self::new(stream, timeout), address)),
                Err(error) => failure = (Some(address), error),
            }
        }
        Err(failure)
    }

    /// A stream that waits at most `timeout` from now.
    pub fn new(stream: TcpStream, timeout: Duration) -> Self {
        Self { stream, deadline: Instant::now() + timeout }
    }

    /// Sets the deadline of all later reads and writes to `timeout` from now.
    pub fn restart(&mut self, timeout: Duration) {
        self.deadline = Instant::now() + timeout;
    }

    /// Closes the connection in both directions.
    pub fn shut_down(&self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    fn remaining(&self) -> io::Result<Duration> {
        let remaining = self.deadline.saturating_duration_since(Instant::now());
        if remaining.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(remaining) }
    }
}

impl Read for TimedStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(self.remaining()?))?;
        self.stream.read(buffer)
    }
}

impl Write for TimedStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(Some(self.remaining()?))?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn single_bytes_do_not_extend_the_deadline() {
        const BYTES: usize = 5_000_000;
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut peer, _) = listener.accept().unwrap();
        // The peer needs far longer than the deadline for these bytes, one system call each.
        let peer = std::thread::spawn(move || {
            (0..BYTES).take_while(|_| peer.write_all(b"x").is_ok()).count()
        });
        let mut stream = TimedStream::new(stream, Duration::from_millis(20));
        let mut received = Vec::new();
        let error = stream.read_to_end(&mut received).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::WouldBlock), "{error}");
        assert!(stream.write_all(b"y").is_err(), "the deadline is for the whole exchange");
        stream.restart(Duration::from_secs(60));
        stream.read_exact(&mut [0]).unwrap();
        stream.write_all(b"y").unwrap();
        drop(stream);
        assert!(peer.join().unwrap() < BYTES);
    }
}
