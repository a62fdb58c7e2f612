//! Files that are opened to be read without an allocation.

use memledger_format::words::bytes_of;
use std::fs::File;
use std::io;
use std::os::fd::FromRawFd;
use std::os::unix::fs::FileExt;

/// A path with more bytes is not opened.
const MAX_PATH_BYTES: usize = 1023;

/// Opens a regular file, whose path `text_of` has written; `None` if there is none, or if it cannot be read.
/// Allocates nothing.
pub(crate) fn open_regular(path: &str) -> Option<File> {
    let mut name = [0_u8; MAX_PATH_BYTES + 1];
    for (at, byte) in bytes_of(path).enumerate() {
        *name[..MAX_PATH_BYTES].get_mut(at)? = byte;
    }
    // NOTE: without `O_NONBLOCK`, opening a pipe would wait for a writer.
    let flags = libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NOCTTY | libc::O_NONBLOCK;
    // SAFETY: the name ends with a NUL.
    let file = unsafe { libc::open(name.as_ptr().cast(), flags) };
    // SAFETY: it was just opened, and nothing else has it.
    let file = (file >= 0).then(|| unsafe { File::from_raw_fd(file) })?;
    file.metadata().ok().filter(|data| data.is_file()).map(|_| file)
}

/// Reads bytes of a regular file: fewer than asked for only at its end.
pub(crate) fn read_at(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
    file.read_at(bytes, offset)
}
