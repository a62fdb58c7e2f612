//! On a system where no process can watch another one's memory as Linux's can, or where that is not built
//! yet: there are no watchers. Their types have no value, so code that has one is never run.

#![expect(unsafe_code, reason = "functions that are unsafe on other systems")]

use super::RawFd;
use super::executed::Executed;
use std::convert::Infallible;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::ptr::NonNull;

/// Whether a recording can have a watcher. Without one, what ends the process makes the report first, where
/// the system allows that.
pub(crate) const HAS_WATCHERS: bool = false;

/// Whether a recording can continue in the child of a fork. The child has no thread of the tracker, so that
/// needs new ones, which such a child may not make everywhere.
pub(crate) const FOLLOWS_FORKS: bool = false;

fn unsupported<T>() -> io::Result<T> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "this system has none"))
}

pub(crate) struct Watcher(Infallible);

impl Watcher {
    pub(crate) fn dismiss(&mut self) {
        match self.0 {}
    }

    pub(crate) fn forget(self) {
        match self.0 {}
    }
}

pub(crate) struct Watched(Infallible);

impl Watched {
    pub(crate) fn wait_for_end(self, _executed: &Executed) -> bool {
        match self.0 {}
    }
}

#[expect(dead_code, reason = "no value is made")]
pub(crate) enum Started {
    Watched(Watcher),
    Watcher(Watched),
}

pub(crate) struct Family(Infallible);

impl Family {
    pub(crate) fn request(
        &self,
        _watched: &Watched,
        _bytes: &[u8],
        _descriptors: &[RawFd],
    ) -> io::Result<()> {
        match self.0 {}
    }
}

pub(crate) struct Request {
    pub(crate) watched: Watched,
    pub(crate) bytes: Vec<u8>,
    pub(crate) descriptors: Vec<File>,
}

#[expect(dead_code, reason = "no value is made")]
pub(crate) enum StartedFamily {
    Program(Family),
    Watcher(Request),
}

pub(crate) fn start_watcher(_kept: &[RawFd]) -> io::Result<Started> {
    unsupported()
}

pub(crate) fn start_family() -> io::Result<StartedFamily> {
    unsupported()
}

pub(crate) fn connection() -> io::Result<(Watcher, Watched)> {
    unsupported()
}

pub(crate) fn end_watcher() -> ! {
    unreachable!("there are no watchers")
}

/// Whether a watcher can be forked now.
pub(crate) fn has_one_thread() -> bool {
    false
}

pub(crate) fn map_shared(_bytes: usize) -> io::Result<NonNull<u8>> {
    unsupported()
}

pub(crate) fn map_shared_file(_file: &File) -> io::Result<()> {
    unsupported()
}

pub(crate) fn share_again() -> io::Result<(NonNull<u8>, File)> {
    unsupported()
}

/// # Safety
/// None: it does nothing.
pub(crate) unsafe fn share_in_place(_start: NonNull<u8>, _bytes: usize) -> io::Result<()> {
    unsupported()
}

/// Children have nothing of this process's memory, or record nothing.
///
/// # Safety
/// None: it does nothing.
pub(crate) unsafe fn clear_in_children(_start: NonNull<u8>, _bytes: usize) -> io::Result<()> {
    unsupported()
}

pub(crate) fn forget_shared() {}

pub(crate) fn unshare_all() {}

pub(crate) fn is_in_loaded_file(_address: usize) -> bool {
    false
}

pub(crate) fn duplicate(_fd: RawFd) -> io::Result<File> {
    unsupported()
}

pub(crate) fn use_as_stderr(_file: File) {}

pub(crate) fn path_of(_bytes: &[u8]) -> PathBuf {
    PathBuf::new()
}

pub(crate) fn path_of_descriptor(_fd: RawFd) -> PathBuf {
    PathBuf::new()
}

pub(crate) fn has_no_name(_file: &File) -> bool {
    false
}

pub(crate) fn lock_for_watcher(_fd: RawFd) {}
