//! The numbers of the tracker's descriptors.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// The tracker's descriptors have numbers below this one, because the kernel copies all entries up to the
/// highest at each `fork`; and below the limit of the process, if that is lower.
pub(in crate::platform::os) const END: RawFd = 1024;

/// The numbers of standard streams: what the program prints must never go to a file of the tracker.
pub(in crate::platform::os) const STREAMS: RawFd = 3;

/// Gives a descriptor the highest number that is free. Then those that the program gets have the numbers that
/// they have without the tracker, and a program that has closed its standard streams does not write to a file
/// of the tracker.
///
/// # Errors
/// Only for a standard stream's number, if no other one is free.
pub(crate) fn keep_apart<D: Into<OwnedFd> + From<OwnedFd>>(descriptor: D) -> io::Result<D> {
    let old: OwnedFd = descriptor.into();
    for number in (STREAMS..end()).rev().filter(|number| !is_open(*number)) {
        // SAFETY: the descriptor is open; the call touches no memory.
        let new = unsafe { libc::fcntl(old.as_raw_fd(), libc::F_DUPFD_CLOEXEC, number) };
        if new >= 0 {
            // SAFETY: the descriptor is new, so nothing else owns it.
            return Ok(unsafe { OwnedFd::from_raw_fd(new) }.into());
        }
    }
    match old.as_raw_fd() {
        0..STREAMS => Err(io::Error::from_raw_os_error(libc::EMFILE)),
        _ => Ok(old.into()),
    }
}

pub(in crate::platform::os) fn is_open(number: RawFd) -> bool {
    // SAFETY: asks about a number.
    unsafe { libc::fcntl(number, libc::F_GETFD) >= 0 }
}

/// One more than the highest number that a descriptor of the tracker can have.
pub(in crate::platform::os) fn end() -> RawFd {
    // SAFETY: all zeros are a valid limit, and the local is valid for writing.
    let limit = unsafe {
        let mut limit = std::mem::zeroed::<libc::rlimit>();
        libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit);
        limit.rlim_cur
    };
    RawFd::try_from(limit).unwrap_or(END).min(END)
}
