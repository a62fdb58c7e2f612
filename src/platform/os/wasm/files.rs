//! Files and sockets, of which there are none. Std's types for them have no value.

use std::ffi::{CStr, CString, OsStr};
use std::fs::{File, Metadata, TryLockError};
use std::io;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::time::Duration;

/// The number by which another system would know something that is open.
pub(crate) type RawFd = usize;

fn unsupported<T>() -> io::Result<T> {
    Err(io::ErrorKind::Unsupported.into())
}

/// A file or a socket of the tracker.
pub(crate) struct OwnDescriptor<T>(Option<T>);

impl<T> OwnDescriptor<T> {
    /// # Errors
    /// None here.
    pub(crate) fn new(opened: T) -> io::Result<Self> {
        Ok(Self(Some(opened)))
    }

    pub(crate) fn get(&self) -> Option<&T> {
        self.0.as_ref()
    }

    /// # Errors
    /// It was [taken](Self::take).
    pub(crate) fn opened(&self) -> io::Result<&T> {
        self.get().ok_or_else(|| io::Error::other("it is closed"))
    }

    pub(crate) fn number(&self) -> RawFd {
        usize::MAX
    }

    pub(crate) fn take(&mut self) -> Self {
        Self(self.0.take())
    }
}

/// The name of a file, which cannot be found.
pub(crate) struct TargetFile(std::convert::Infallible);

impl TargetFile {
    pub(crate) fn find(_path: &Path) -> io::Result<Self> {
        unsupported()
    }

    pub(crate) fn open(&self, _mode: u32) -> io::Result<File> {
        match self.0 {}
    }

    pub(crate) fn check(&self) -> io::Result<Option<File>> {
        match self.0 {}
    }

    pub(crate) fn remove(&self) -> io::Result<()> {
        match self.0 {}
    }

    pub(crate) fn reserve(&self) -> io::Result<bool> {
        match self.0 {}
    }

    pub(crate) fn descriptor(&self) -> RawFd {
        match self.0 {}
    }

    pub(crate) fn hand_over(&self) -> io::Result<(File, &CStr)> {
        match self.0 {}
    }

    pub(crate) fn received(_folder: File, _name: CString) -> io::Result<Self> {
        unsupported()
    }

    pub(crate) fn is_ours(&self) -> bool {
        match self.0 {}
    }
}

pub(crate) fn descriptor(_file: &File) -> RawFd {
    usize::MAX
}

pub(crate) fn write_file(_file: &File, _bytes: &[u8]) -> io::Result<usize> {
    unsupported()
}

/// There is no standard error: the program gets its reports and problems from the ledger, as text.
pub(crate) fn write_all(_fd: RawFd, _bytes: &[u8]) -> io::Result<()> {
    unsupported()
}

pub(crate) fn is_terminal(_fd: RawFd) -> bool {
    false
}

pub(crate) fn terminal_width(_fd: RawFd) -> Option<usize> {
    None
}

pub(crate) fn set_mode(_file: &File, _mode: u32) {}

pub(crate) fn mode_for_others(_metadata: &Metadata) -> Option<u32> {
    None
}

pub(crate) fn create_in(_folder: &Path, _name: impl AsRef<OsStr>) -> io::Result<File> {
    unsupported()
}

pub(crate) fn lock_alone(_file: &File) -> Result<(), TryLockError> {
    unsupported().map_err(TryLockError::Error)
}

pub(crate) fn lock_shared(_file: &File) -> Result<(), TryLockError> {
    unsupported().map_err(TryLockError::Error)
}

pub(crate) fn unlock(_file: &File) {}

pub(crate) fn send_some(_to: &TcpStream, _bytes: &[u8], _timeout: Duration) -> io::Result<usize> {
    unsupported()
}

pub(crate) fn watch_connection(_stream: &TcpStream) -> io::Result<()> {
    unsupported()
}

pub(crate) fn readable(
    _listener: &TcpListener,
    _clients: &[RawFd],
    _timeout: Duration,
) -> io::Result<(bool, Vec<bool>)> {
    unsupported()
}

pub(crate) fn stop_listening(_listener: &TcpListener) {}

pub(crate) fn send_to_socket(_name: &[u8], _bytes: &[u8]) -> io::Result<()> {
    unsupported()
}
