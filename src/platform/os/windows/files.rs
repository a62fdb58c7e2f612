//! Open files and sockets.

use std::ffi::OsStr;
use std::fs::{File, Metadata, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::net::{TcpListener, TcpStream};
use std::os::windows::io::{AsRawHandle, AsRawSocket};
use std::path::Path;
use std::ptr;
use std::time::Duration;
use windows_sys::Win32::Foundation::{ERROR_IO_PENDING, ERROR_LOCK_VIOLATION, HANDLE};
use windows_sys::Win32::Networking::WinSock::{
    IPPROTO_TCP, POLLIN, POLLOUT, SO_KEEPALIVE, SOCKET, SOL_SOCKET, TCP_KEEPCNT, TCP_KEEPIDLE,
    TCP_KEEPINTVL, WSAPOLLFD, WSAPoll, setsockopt,
};
use windows_sys::Win32::Storage::FileSystem::{
    LOCKFILE_EXCLUSIVE_LOCK, LOCKFILE_FAIL_IMMEDIATELY, LockFileEx, UnlockFileEx, WriteFile,
};
use windows_sys::Win32::System::Console::{
    CONSOLE_SCREEN_BUFFER_INFO, GetConsoleMode, GetConsoleScreenBufferInfo, GetStdHandle,
    STD_ERROR_HANDLE, STD_OUTPUT_HANDLE, WriteConsoleW,
};
use windows_sys::Win32::System::IO::OVERLAPPED;

/// The number by which the system knows something that is open: a handle or a socket. 1 and 2 are standard
/// output and standard error.
pub(crate) type RawFd = usize;

/// What has such a number.
pub(crate) trait HasNumber {
    fn number(&self) -> RawFd;
}

impl HasNumber for File {
    fn number(&self) -> RawFd {
        self.as_raw_handle().addr()
    }
}

impl HasNumber for TcpStream {
    fn number(&self) -> RawFd {
        self.as_raw_socket() as RawFd
    }
}

impl HasNumber for TcpListener {
    fn number(&self) -> RawFd {
        self.as_raw_socket() as RawFd
    }
}

/// A file or a socket of the tracker. Programs of this system do not close what they have not opened.
pub(crate) struct OwnDescriptor<T>(Option<T>);

impl<T: HasNumber> OwnDescriptor<T> {
    /// Takes what has just been opened.
    ///
    /// # Errors
    /// None here.
    pub(crate) fn new(opened: T) -> io::Result<Self> {
        Ok(Self(Some(opened)))
    }

    /// What was opened; `None` after [`take`](Self::take).
    pub(crate) fn get(&self) -> Option<&T> {
        self.0.as_ref()
    }

    /// What was opened.
    ///
    /// # Errors
    /// It was [taken](Self::take).
    pub(crate) fn opened(&self) -> io::Result<&T> {
        self.get().ok_or_else(|| io::Error::other("it is closed"))
    }

    /// Its number; one that is never that of a handle or a socket after [`take`](Self::take).
    pub(crate) fn number(&self) -> RawFd {
        self.get().map_or(usize::MAX, HasNumber::number)
    }

    /// Leaves nothing here.
    pub(crate) fn take(&mut self) -> Self {
        Self(self.0.take())
    }
}

/// The number by which the system knows an open file.
pub(crate) fn descriptor(file: &File) -> RawFd {
    file.number()
}

/// Writes some of `bytes` to a file.
pub(crate) fn write_file(mut file: &File, bytes: &[u8]) -> io::Result<usize> {
    match file.write(bytes)? {
        0 => Err(io::ErrorKind::WriteZero.into()),
        count => Ok(count),
    }
}

/// Writes all of `bytes` to standard error, or to standard output if `fd` is 1: to a console as text.
///
/// NOTE: not by std's functions. A thread of the program may hold the lock of such a stream for ever.
pub(crate) fn write_all(fd: RawFd, bytes: &[u8]) -> io::Result<()> {
    let handle = standard_handle(fd);
    if is_terminal(fd) {
        return write_to_console(handle, bytes);
    }
    let mut left = bytes;
    while !left.is_empty() {
        let (mut written, most) = (0, left.len().min(1 << 20) as u32);
        let none = ptr::null_mut();
        // SAFETY: the bytes are there, and the call writes to a local; a handle that is none is an error.
        if unsafe { WriteFile(handle, left.as_ptr(), most, &raw mut written, none) } == 0 {
            return Err(io::Error::last_os_error());
        }
        left = left.get(written.max(1) as usize..).unwrap_or_default();
    }
    Ok(())
}

/// Writes text to a console, a part after the other.
fn write_to_console(console: HANDLE, text: &[u8]) -> io::Result<()> {
    let text = String::from_utf8_lossy(text);
    let mut units = text.encode_utf16().peekable();
    while units.peek().is_some() {
        let mut part = [0_u16; 1024];
        // A character of two units is not divided.
        let mut length = 0;
        while length < part.len() - 1
            && let Some(unit) = units.next()
        {
            part[length] = unit;
            length += 1;
        }
        if matches!(part[length - 1], 0xd800..0xdc00)
            && let Some(unit) = units.next()
        {
            part[length] = unit;
            length += 1;
        }
        let (mut written, none) = (0, ptr::null());
        // SAFETY: the units are there, and the call writes to a local.
        if unsafe { WriteConsoleW(console, part.as_ptr(), length as u32, &raw mut written, none) }
            == 0
        {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

fn standard_handle(fd: RawFd) -> HANDLE {
    let which = if fd == 1 { STD_OUTPUT_HANDLE } else { STD_ERROR_HANDLE };
    // SAFETY: takes a number.
    unsafe { GetStdHandle(which) }
}

/// Whether standard output (1) or standard error (2) is a console.
pub(crate) fn is_terminal(fd: RawFd) -> bool {
    let mut mode = 0;
    // SAFETY: the call writes to a local; a handle that is none is an error.
    unsafe { GetConsoleMode(standard_handle(fd), &raw mut mode) != 0 }
}

/// The columns of a console; `None` if `fd` is not one.
pub(crate) fn terminal_width(fd: RawFd) -> Option<usize> {
    // SAFETY: all zeros are a valid value, and the call writes to the local.
    let found = unsafe {
        let mut found = std::mem::zeroed::<CONSOLE_SCREEN_BUFFER_INFO>();
        if GetConsoleScreenBufferInfo(standard_handle(fd), &raw mut found) == 0 {
            return None;
        }
        found
    };
    let columns = i32::from(found.srWindow.Right) - i32::from(found.srWindow.Left) + 1;
    usize::try_from(columns).ok().filter(|columns| *columns > 0)
}

/// Files have the rights that their folder gives them here.
pub(crate) fn set_mode(_file: &File, _mode: u32) {}

/// Who can use a file is not in numbers here.
pub(crate) fn mode_for_others(_metadata: &Metadata) -> Option<u32> {
    None
}

/// Creates the file `name` in `folder`. Fails if the name exists. `name` must have no separator.
pub(crate) fn create_in(folder: &Path, name: impl AsRef<OsStr>) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).open(folder.join(name.as_ref()))
}

/// The byte that is locked for a whole file.
///
/// NOTE: no byte of a file that is locked here can be read by others, so this one is behind every file's end.
const LOCKED_BYTE: u64 = u64::MAX - 1;

fn lock(file: &File, flags: u32) -> Result<(), TryLockError> {
    let mut place = at(LOCKED_BYTE);
    let flags = flags | LOCKFILE_FAIL_IMMEDIATELY;
    // SAFETY: the handle is open, and the call does not wait, so it does not use the place later.
    if unsafe { LockFileEx(file.as_raw_handle(), flags, 0, 1, 0, &raw mut place) } != 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error().map(i32::cast_unsigned) {
        Some(ERROR_LOCK_VIOLATION | ERROR_IO_PENDING) => Err(TryLockError::WouldBlock),
        _ => Err(TryLockError::Error(error)),
    }
}

fn at(offset: u64) -> OVERLAPPED {
    // SAFETY: all zeros are a valid value.
    let mut place = unsafe { std::mem::zeroed::<OVERLAPPED>() };
    place.Anonymous.Anonymous.Offset = offset as u32;
    place.Anonymous.Anonymous.OffsetHigh = (offset >> 32) as u32;
    place
}

/// Locks a file for this process alone, if no other lock is in the way.
pub(crate) fn lock_alone(file: &File) -> Result<(), TryLockError> {
    lock(file, LOCKFILE_EXCLUSIVE_LOCK)
}

/// Locks a file for those that only need it to stay, if no other lock is in the way.
pub(crate) fn lock_shared(file: &File) -> Result<(), TryLockError> {
    lock(file, 0)
}

pub(crate) fn unlock(file: &File) {
    let mut place = at(LOCKED_BYTE);
    // SAFETY: as in `lock`.
    unsafe { UnlockFileEx(file.as_raw_handle(), 0, 1, 0, &raw mut place) };
}

/// Sends some of `bytes`; [`io::ErrorKind::WouldBlock`] if the system takes none for `timeout`.
///
/// NOTE: this system says of a send that it has ended after a timeout neither how much it has sent nor that
/// the connection can still be used. So sends never wait, and this function does.
pub(crate) fn send_some(mut to: &TcpStream, bytes: &[u8], timeout: Duration) -> io::Result<usize> {
    to.set_nonblocking(true)?;
    let mut watched = WSAPOLLFD { fd: to.number(), events: POLLOUT, revents: 0 };
    // SAFETY: there is one entry.
    if unsafe { WSAPoll(&raw mut watched, 1, timeout.as_millis() as i32) } < 0 {
        return Err(io::Error::last_os_error());
    }
    to.write(bytes)
}

/// Makes the system detect a lost connection: after 10 s of silence, it sends three probes, 5 s apart.
pub(crate) fn watch_connection(stream: &TcpStream) -> io::Result<()> {
    let options = [
        (SOL_SOCKET, SO_KEEPALIVE, 1),
        (IPPROTO_TCP, TCP_KEEPIDLE, 10),
        (IPPROTO_TCP, TCP_KEEPINTVL, 5),
        (IPPROTO_TCP, TCP_KEEPCNT, 3),
    ];
    for (level, option, value) in options {
        let (value, bytes): (i32, _) = (value, size_of::<i32>() as i32);
        let at = (&raw const value).cast();
        // SAFETY: the value is a local of this size.
        if unsafe { setsockopt(stream.as_raw_socket() as SOCKET, level, option, at, bytes) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Waits at most `timeout` until `listener` has a new client, or one of `clients` has bytes or has closed its
/// connection. Returns which of them are ready.
pub(crate) fn readable(
    listener: &TcpListener,
    clients: &[RawFd],
    timeout: Duration,
) -> io::Result<(bool, Vec<bool>)> {
    let watch = |socket| WSAPOLLFD { fd: socket, events: POLLIN, revents: 0 };
    let mut watched: Vec<_> =
        std::iter::once(listener.number()).chain(clients.iter().copied()).map(watch).collect();
    // Rounded up, so that the call does not return early.
    let millis = timeout.as_micros().div_ceil(1000).try_into().unwrap_or(i32::MAX);
    // SAFETY: the entries are valid, and this is their number.
    if unsafe { WSAPoll(watched.as_mut_ptr(), watched.len() as u32, millis) } < 0 {
        return Err(io::Error::last_os_error());
    }
    let mut ready = watched.iter().map(|entry| entry.revents != 0);
    Ok((ready.next().unwrap_or(false), ready.collect()))
}

/// The thread that waits for clients looks again within its timeout, and closes the socket.
pub(crate) fn stop_listening(_listener: &TcpListener) {}

/// `memledger run` gets no sentences through a socket here.
pub(crate) fn send_to_socket(_name: &[u8], _bytes: &[u8]) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_locked_by_one_and_can_be_read_meanwhile() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let open =
            || OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
        let (first, second) = (open().unwrap(), open().unwrap());
        write_file(&first, b"some bytes").unwrap();
        lock_alone(&first).unwrap();
        assert!(matches!(lock_alone(&second), Err(TryLockError::WouldBlock)));
        assert!(matches!(lock_shared(&second), Err(TryLockError::WouldBlock)));
        assert_eq!(std::fs::read(&path).unwrap(), b"some bytes");
        unlock(&first);
        lock_shared(&second).unwrap();
        lock_shared(&first).unwrap();
    }
}
