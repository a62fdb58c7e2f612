//! What macOS says of descriptors and of names in folders.

use std::ffi::{CStr, c_int};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, RawFd};

/// How a folder is opened in which names are looked up. It must be readable: what Linux has for others is
/// new here (`O_SEARCH`).
pub(in crate::platform::os) const FOLDER: c_int = libc::O_RDONLY | libc::O_DIRECTORY;

/// A write to a pipe or a socket of the tracker that nobody reads is an error, and raises no signal (`man 2
/// fcntl`, F_SETNOSIGPIPE). For a descriptor of a file, nothing changes.
pub(in crate::platform::os) fn raise_no_signals(descriptor: &impl AsRawFd) {
    // SAFETY: the descriptor is open; the call touches no memory.
    unsafe { libc::fcntl(descriptor.as_raw_fd(), libc::F_SETNOSIGPIPE, 1) };
}

/// Until dropped, a write to a descriptor of the program raises no signal. It would raise SIGPIPE for the
/// whole process, so blocking the signal on the thread that writes does not spare the others (`dofilewrite`
/// of XNU).
///
/// NOTE: only for what can lose its reader. Older kernels do not take the flag back, and lose others of the
/// file's with it (`F_SETNOSIGPIPE` in XNU): such a stderr raises no signal from then on.
pub(in crate::platform::os) struct RaisesNone {
    descriptor: RawFd,
    is_new: bool,
}

impl RaisesNone {
    pub(in crate::platform::os) fn new(descriptor: RawFd) -> Self {
        // SAFETY: zeros are a valid value, to which the call writes; a number that is not open is an error.
        let is_new = unsafe {
            let mut status = std::mem::zeroed::<libc::stat>();
            libc::fstat(descriptor, &raw mut status) == 0
                && [libc::S_IFIFO, libc::S_IFSOCK].contains(&(status.st_mode & libc::S_IFMT))
                && libc::fcntl(descriptor, libc::F_GETNOSIGPIPE) == 0
                && libc::fcntl(descriptor, libc::F_SETNOSIGPIPE, 1) == 0
        };
        Self { descriptor, is_new }
    }
}

impl Drop for RaisesNone {
    fn drop(&mut self) {
        if self.is_new {
            // SAFETY: the call touches no memory.
            unsafe { libc::fcntl(self.descriptor, libc::F_SETNOSIGPIPE, 0) };
        }
    }
}

/// A name that is not in use yet cannot be reserved, so the caller locks the file instead.
///
/// NOTE: a lock on a byte of the folder, as on Linux, is documented since macOS 12 (`man 2 fcntl`,
/// F_OFD_SETLK), but not for folders.
///
/// # Errors
/// Always.
pub(in crate::platform::os) fn reserve(_folder: &File, _name: &CStr) -> io::Result<bool> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(in crate::platform::os) fn release(_folder: &File, _name: &CStr) {}

/// Whether a name in this folder is that of an open descriptor (`/dev/fd/2`), or of a device: its
/// permissions are not the tracker's.
pub(in crate::platform::os) fn names_descriptor(folder: &File, is_link: bool) -> bool {
    // SAFETY: zeros are a valid value, to which the call writes.
    let (error, found) = unsafe {
        let mut found = std::mem::zeroed::<libc::statfs>();
        (libc::fstatfs(folder.as_raw_fd(), &raw mut found), found)
    };
    let name = found.f_fstypename.iter().map(|byte| byte.cast_unsigned());
    !is_link && error == 0 && name.take_while(|byte| *byte != 0).eq(*b"devfs")
}

/// `memledger run` gets no sentences through a socket here.
pub(crate) fn send_to_socket(_name: &[u8], _bytes: &[u8]) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
