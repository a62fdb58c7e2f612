//! Open files and sockets.

use std::ffi::{CString, OsStr, c_int};
use std::fs::{File, Metadata, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;

/// How long a write waits for the reader of a full pipe. The end of a recording waits longer than
/// this for its worker, so a full pipe does not affect the report.
const WRITE_TIMEOUT_MS: c_int = 3_000;

/// Writes some of `bytes` to a file. Waits at most 3 s for a pipe that is full.
pub(crate) fn write_file(file: &File, bytes: &[u8]) -> io::Result<usize> {
    write_some(file.as_raw_fd(), bytes)
}

fn write_some(fd: RawFd, bytes: &[u8]) -> io::Result<usize> {
    loop {
        // SAFETY: the buffer is valid for its length.
        let written = unsafe { libc::write(fd, bytes.as_ptr().cast(), bytes.len()) };
        match written {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            1.. => return Ok(written as usize),
            _ => {}
        }
        let error = io::Error::last_os_error();
        match error.kind() {
            io::ErrorKind::Interrupted => {}
            io::ErrorKind::WouldBlock => {
                let mut poll = libc::pollfd { fd, events: libc::POLLOUT, revents: 0 };
                // SAFETY: one valid entry.
                if unsafe { libc::poll(&raw mut poll, 1, WRITE_TIMEOUT_MS) } == 0 {
                    return Err(io::Error::new(
                        io::ErrorKind::TimedOut,
                        "nobody has read from it for 3 s",
                    ));
                }
            }
            _ => return Err(error),
        }
    }
}

/// Writes all of `bytes` to a descriptor.
pub(crate) fn write_all(fd: RawFd, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let written = write_some(fd, bytes)?;
        bytes = bytes.get(written..).unwrap_or_default();
    }
    Ok(())
}

/// The number by which the system knows an open file.
pub(crate) fn descriptor(file: &File) -> RawFd {
    file.as_raw_fd()
}

/// Locks a file for this process alone, if no other lock is in the way.
pub(crate) fn lock_alone(file: &File) -> Result<(), TryLockError> {
    file.try_lock()
}

/// Locks a file for those that only need it to stay, if no other lock is in the way.
pub(crate) fn lock_shared(file: &File) -> Result<(), TryLockError> {
    file.try_lock_shared()
}

pub(crate) fn unlock(file: &File) {
    let _ = file.unlock();
}

/// What tells open files apart: device and inode.
pub(in crate::platform::os) type Identity = (libc::dev_t, libc::ino_t);

/// The identity of an open file; `None` if it is not open.
pub(in crate::platform::os) fn identity(file: &impl AsRawFd) -> Option<Identity> {
    // SAFETY: the structure is valid for writing; a number that is not open is an error.
    unsafe {
        let mut status = std::mem::zeroed::<libc::stat>();
        (libc::fstat(file.as_raw_fd(), &raw mut status) == 0)
            .then_some((status.st_dev, status.st_ino))
    }
}

/// Whether a descriptor is a terminal.
pub(crate) fn is_terminal(fd: RawFd) -> bool {
    // SAFETY: takes a number, touches no memory.
    unsafe { libc::isatty(fd) == 1 }
}

/// The columns of a terminal; `None` if `fd` is not a terminal, or its width is unknown.
pub(crate) fn terminal_width(fd: RawFd) -> Option<usize> {
    // SAFETY: all zeros are a valid value of this structure, and it is valid for writing.
    unsafe {
        let mut size = std::mem::zeroed::<libc::winsize>();
        let known = libc::ioctl(fd, libc::TIOCGWINSZ, &raw mut size) == 0 && size.ws_col > 0;
        known.then_some(usize::from(size.ws_col))
    }
}

/// Sets the permissions of a file to `mode`. Ignores errors: some file systems have no permissions.
pub(crate) fn set_mode(file: &File, mode: u32) {
    let _ = file.set_permissions(PermissionsExt::from_mode(mode));
}

/// The permissions of a file, if others than its owner have any.
pub(crate) fn mode_for_others(metadata: &Metadata) -> Option<u32> {
    let mode = metadata.mode() & 0o777;
    (mode & 0o077 != 0).then_some(mode)
}

/// Creates the file `name` in `folder`; only its owner can read and write it. Fails if the name
/// exists, as a file, a pipe or a link. `name` must have no slash, so that it does not leave the
/// folder.
pub(crate) fn create_in(folder: &Path, name: impl AsRef<OsStr>) -> io::Result<File> {
    let name = CString::new(name.as_ref().as_encoded_bytes())?;
    let folder = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_DIRECTORY | libc::O_NONBLOCK)
        .open(folder)?;
    let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW | libc::O_CLOEXEC;
    // SAFETY: the name ends with a NUL; the descriptor is open for the length of the call.
    let file = unsafe { libc::openat(folder.as_raw_fd(), name.as_ptr(), flags, 0o600) };
    if file < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new, so nothing else owns it.
    Ok(unsafe { File::from_raw_fd(file) })
}

/// Makes the system detect a lost connection: after 10 s of silence, it sends three probes, 5 s
/// apart. On Linux it also closes the connection if sent bytes are not acknowledged for 30 s.
pub(crate) fn watch_connection(stream: &TcpStream) -> io::Result<()> {
    #[cfg(target_os = "macos")]
    use libc::TCP_KEEPALIVE as TCP_KEEPIDLE;
    #[cfg(target_os = "linux")]
    use libc::TCP_KEEPIDLE;
    let options = [
        (libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1),
        (libc::IPPROTO_TCP, TCP_KEEPIDLE, 10),
        (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, 5),
        (libc::IPPROTO_TCP, libc::TCP_KEEPCNT, 3),
        #[cfg(target_os = "linux")]
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

/// Sends some of `bytes`; [`io::ErrorKind::WouldBlock`] if the system takes none for the stream's own
/// timeout, which is `_timeout`.
pub(crate) fn send_some(mut to: &TcpStream, bytes: &[u8], _timeout: Duration) -> io::Result<usize> {
    // NOTE: std sends with MSG_NOSIGNAL, so a peer that is gone raises no SIGPIPE.
    to.write(bytes)
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
