//! Descriptors that the program can close without the tracker's knowledge.

use super::descriptors::keep_apart;
use super::files::{Identity, identity};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// A file or a socket of the tracker in the program's table: a program that becomes a daemon closes every
/// descriptor, and the next file that it opens gets the same number. So it is used, and closed, only while
/// its descriptor still refers to what was opened.
pub(crate) struct OwnDescriptor<T: AsRawFd> {
    opened: Option<T>,
    identity: Option<Identity>,
}

impl<T: AsRawFd + Into<OwnedFd> + From<OwnedFd>> OwnDescriptor<T> {
    /// Takes what has just been opened, and [keeps it apart](keep_apart).
    ///
    /// # Errors
    /// Those of [`keep_apart`].
    pub(crate) fn new(opened: T) -> io::Result<Self> {
        let opened = keep_apart(opened)?;
        #[cfg(target_os = "macos")]
        super::super::macos::descriptors::raise_no_signals(&opened);
        Ok(Self { identity: identity(&opened), opened: Some(opened) })
    }
}

impl<T: AsRawFd> OwnDescriptor<T> {
    /// What was opened; `None` if the program has closed it, or after [`take`](Self::take).
    pub(crate) fn get(&self) -> Option<&T> {
        self.opened
            .as_ref()
            .filter(|opened| self.identity.is_some() && identity(*opened) == self.identity)
    }

    /// What was opened.
    ///
    /// # Errors
    /// The program has closed it.
    pub(crate) fn opened(&self) -> io::Result<&T> {
        let closed = || io::Error::other("the program has closed the tracker's descriptor of it");
        self.get().ok_or_else(closed)
    }

    /// Its number; -1, which is never a descriptor, if the program has closed it.
    pub(crate) fn number(&self) -> RawFd {
        self.get().map_or(-1, AsRawFd::as_raw_fd)
    }

    /// Leaves nothing here.
    pub(crate) fn take(&mut self) -> Self {
        Self { opened: self.opened.take(), identity: self.identity }
    }
}

impl<T: AsRawFd> Drop for OwnDescriptor<T> {
    fn drop(&mut self) {
        if self.get().is_none() {
            std::mem::forget(self.opened.take());
        }
    }
}
