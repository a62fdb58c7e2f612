//! Open files.

use std::ffi::{CString, OsStr, c_int};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

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

/// The identity of an open file: device and inode. `None` if it is not open.
pub(crate) fn identity(file: &impl AsRawFd) -> Option<(u64, u64)> {
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
