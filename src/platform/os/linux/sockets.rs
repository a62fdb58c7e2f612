//! Sockets.

use std::ffi::c_int;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, RawFd};
use std::time::Duration;

/// Makes the system detect a lost connection: after 10 s of silence, it sends three probes, 5 s
/// apart. It also closes the connection if sent bytes are not acknowledged for 30 s.
pub(crate) fn watch_connection(stream: &TcpStream) -> io::Result<()> {
    let options = [
        (libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1),
        (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, 10),
        (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, 5),
        (libc::IPPROTO_TCP, libc::TCP_KEEPCNT, 3),
        (libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, 30_000),
    ];
    for (level, option, value) in options {
        let value: c_int = value;
        let size = size_of::<c_int>() as libc::socklen_t;
        let at = (&raw const value).cast();
        // SAFETY: the value is a local of this size.
        if unsafe { libc::setsockopt(stream.as_raw_fd(), level, option, at, size) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Waits at most `timeout` until `listener` has a new client, or one of `clients` has bytes or has
/// closed its connection. Returns which of them are ready.
pub(crate) fn readable(
    listener: &TcpListener,
    clients: &[RawFd],
    timeout: Duration,
) -> io::Result<(bool, Vec<bool>)> {
    let watch = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    let mut watched: Vec<_> =
        std::iter::once(listener.as_raw_fd()).chain(clients.iter().copied()).map(watch).collect();
    // Rounded up, so that the call does not return early.
    let millis = timeout.as_micros().div_ceil(1000).try_into().unwrap_or(c_int::MAX);
    // SAFETY: the entries are valid, and this is their number.
    let result = unsafe { libc::poll(watched.as_mut_ptr(), watched.len() as libc::nfds_t, millis) };
    if result < 0 {
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
        watched.iter_mut().for_each(|entry| entry.revents = 0);
    }
    let mut ready = watched.iter().map(|entry| entry.revents != 0);
    Ok((ready.next().unwrap_or(false), ready.collect()))
}

/// Makes a socket stop listening, in every process that has it.
pub(crate) fn stop_listening(listener: &TcpListener) {
    // SAFETY: plain system call on an open socket.
    unsafe { libc::shutdown(listener.as_raw_fd(), libc::SHUT_RDWR) };
}
