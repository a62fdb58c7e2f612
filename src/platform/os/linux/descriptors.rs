//! What Linux adds to the tracker's descriptors.

use super::super::unix::descriptors::{end, keep_apart};
use std::io;
use std::os::fd::RawFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::PathBuf;

/// Makes the calling thread's table as large as the tracker needs it.
///
/// PERF: for a thread that has the table alone. If several have it, the kernel waits until none of them can
/// still use the smaller one: 7 to 16 ms, on the first descriptor.
pub(super) fn grow_table() {
    // SAFETY: takes numbers; both descriptors are new, so nothing else uses them. Without them, the table
    // grows later.
    unsafe {
        let event = libc::eventfd(0, libc::EFD_CLOEXEC);
        let last = libc::fcntl(event, libc::F_DUPFD_CLOEXEC, end() - 1);
        [event, last].into_iter().filter(|fd| *fd >= 0).for_each(|fd| _ = libc::close(fd));
    }
}

/// Sends bytes to the socket with this abstract name, without waiting.
///
/// # Errors
/// Nothing listens there, or it has no room; in another network namespace, nothing does.
pub(crate) fn send_to_socket(name: &[u8], bytes: &[u8]) -> io::Result<()> {
    let address = SocketAddr::from_abstract_name(name)?;
    let socket = keep_apart(UnixDatagram::unbound()?)?;
    socket.set_nonblocking(true)?;
    socket.send_to_addr(bytes, &address).map(|_| ())
}

/// A path that leads to an open file of this process, whatever its name has become.
pub(crate) fn path_of_descriptor(fd: RawFd) -> PathBuf {
    format!("/proc/self/fd/{fd}").into()
}
