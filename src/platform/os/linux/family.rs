//! How the forked children of a program get watchers: from a process that the program has forked before it
//! had threads, and before it had memory.
//!
//! ```text
//! the first process          its child                the family's process
//!   forks ───────────────────────────────────────────► listens on a socket with a name
//!   forks ───────────────────► sends what is needed ──► forks ──► a watcher of the child, which sleeps
//! ```
//! A watcher that is forked from the child itself would keep all pages that the child has at that moment. A
//! child connects only for a moment: it has the name, and a secret, in the memory that it has from its
//! parent.
//!
//! The family's process ends when no process is left that could connect: each has a page of a file without a
//! name mapped, which forks inherit and `exec` drops. A file that is mapped so cannot be sealed.

use super::super::unix::descriptors::keep_apart;
use super::pages;
use super::pages::page_bytes;
use super::passing::{self, MAX_DESCRIPTORS, Name};
use super::watched::{Watched, fork_away, open_process, unshare_all};
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::ptr::{self, NonNull};

/// The most bytes of a request, of which the first are the secret.
const MAX_BYTES: usize = 16 << 10;
const SECRET_BYTES: usize = 16;
type Secret = [u8; SECRET_BYTES];

const KIND: libc::c_int = libc::SOCK_SEQPACKET;

/// How long a child waits until its request is taken, and the family's process for a request.
const TIMEOUT_SECONDS: i64 = 1;

/// How often the family's process looks whether it has ended, in milliseconds, beside at the end of the first
/// process.
const INTERVAL: libc::c_int = 1000;

/// What a process needs to ask for a watcher, for itself and the children of its forks. It has no descriptor.
pub(crate) struct Family {
    name: Name,
    secret: Secret,
    mark: NonNull<u8>,
}

// SAFETY: the page is only mapped, and never read or written.
unsafe impl Send for Family {}

/// What a child has sent, in the watcher that was forked for it.
pub(crate) struct Request {
    pub(crate) watched: Watched,
    pub(crate) bytes: Vec<u8>,
    pub(crate) descriptors: Vec<File>,
}

/// What [`start_family`] returns.
pub(crate) enum StartedFamily {
    /// In the program.
    Program(Family),
    /// In a watcher of one of its children.
    Watcher(Request),
}

/// Forks the family's process.
///
/// # Errors
/// Those of the system.
pub(crate) fn start_family() -> io::Result<StartedFamily> {
    let (listener, name) = passing::listen(KIND)?;
    let first = open_process()?;
    let mut secret = Secret::default();
    // SAFETY: the local has that size; a new descriptor, which nothing else owns.
    let mark = unsafe {
        if libc::getrandom(secret.as_mut_ptr().cast(), SECRET_BYTES, 0) != SECRET_BYTES as isize {
            return Err(io::Error::last_os_error());
        }
        let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
        let fd = passing::check(libc::memfd_create(c"memledger".as_ptr(), flags))?;
        keep_apart(OwnedFd::from_raw_fd(fd))?
    };
    let family = Family { name, secret, mark: map_mark(&mark)? };
    let kept = [&listener, &first, &mark].map(AsRawFd::as_raw_fd).to_vec();
    if !fork_away(kept, c"memledger-watch")? {
        return Ok(StartedFamily::Program(family));
    }
    drop(family);
    // The first process's memory would stay as long as this one.
    unshare_all();
    // SAFETY: the kernel removes children that have ended then.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
    let mut first = Some(first);
    loop {
        // NOTE: before it looks for requests. Those of processes that have ended are there by then.
        let is_last = is_unmapped(&mark);
        let watch = |fd: RawFd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        // A negative number is left out.
        let process = first.as_ref().map_or(-1, AsRawFd::as_raw_fd);
        let mut polled = [watch(listener.as_raw_fd()), watch(process)];
        // SAFETY: two valid entries.
        unsafe { libc::poll(polled.as_mut_ptr(), 2, if is_last { 0 } else { INTERVAL }) };
        if polled[1].revents != 0 {
            first = None;
        }
        if polled[0].revents != 0 {
            let request = passing::accept(&listener).ok().and_then(|from| receive(&from, &secret));
            let Some(request) = request else { continue };
            // SAFETY: this process has one thread.
            if unsafe { libc::fork() } == 0 {
                return Ok(StartedFamily::Watcher(request));
            }
        } else if is_last {
            super::end_watcher();
        }
    }
}

fn map_mark(file: &OwnedFd) -> io::Result<NonNull<u8>> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let file = file.as_raw_fd();
    // SAFETY: a new mapping does not affect existing memory.
    let mapped =
        unsafe { pages::mmap(ptr::null_mut(), page_bytes(), access, libc::MAP_SHARED, file, 0) };
    match NonNull::new(mapped.cast()) {
        Some(page) if mapped != libc::MAP_FAILED => Ok(page),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Whether no process has the file mapped any more; none can map it from then on.
fn is_unmapped(file: &OwnedFd) -> bool {
    // SAFETY: takes numbers.
    unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, libc::F_SEAL_WRITE) == 0 }
}

/// The request of a connection, unless it is from a process that is not of the family.
fn receive(from: &OwnedFd, secret: &Secret) -> Option<Request> {
    passing::set_timeout(from, libc::SO_RCVTIMEO, TIMEOUT_SECONDS).ok()?;
    let (mut bytes, mut descriptors) = (vec![0; MAX_BYTES], [-1; MAX_DESCRIPTORS]);
    let (size, count) = passing::receive(from, &mut bytes, &mut descriptors)?;
    // SAFETY: they are new, so nothing else owns them.
    let own = |fd: &RawFd| unsafe { OwnedFd::from_raw_fd(*fd) };
    let mut descriptors = descriptors.iter().take(count).map(own).collect::<Vec<_>>().into_iter();
    let bytes = bytes.get(..size)?.strip_prefix(secret)?.to_vec();
    let watched = Watched::new(descriptors.next()?, descriptors.next()?);
    Some(Request { watched, bytes, descriptors: descriptors.map(File::from).collect() })
}

impl Family {
    /// Asks for a watcher of this process, which has these descriptors. It has them from now on, even if this
    /// process ends at once.
    ///
    /// # Errors
    /// Those of the system, as in another network namespace.
    pub(crate) fn request(
        &self,
        watched: &Watched,
        bytes: &[u8],
        descriptors: &[RawFd],
    ) -> io::Result<()> {
        let bytes = [&self.secret, bytes].concat();
        if bytes.len() > MAX_BYTES {
            return Err(io::Error::other(format!(
                "the names of its files have {} bytes, more than the {MAX_BYTES} allowed",
                bytes.len()
            )));
        }
        let all: Vec<_> = watched.descriptors().chain(descriptors.iter().copied()).collect();
        passing::send(&passing::connect(KIND, &self.name, TIMEOUT_SECONDS)?, &bytes, &all)
    }
}

impl Drop for Family {
    fn drop(&mut self) {
        // SAFETY: the page is the family's, and nothing uses what is in it.
        unsafe { pages::munmap(self.mark.as_ptr().cast(), page_bytes()) };
    }
}

/// Another number for an open descriptor. `exec` closes it.
pub(crate) fn duplicate(fd: RawFd) -> io::Result<File> {
    // SAFETY: takes numbers; the new one is owned by nothing else.
    unsafe {
        let new = passing::check(libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 3))?;
        Ok(File::from_raw_fd(new))
    }
}

/// In a watcher: has standard error be this file.
pub(crate) fn use_as_stderr(file: File) {
    // SAFETY: both are open, and nothing of a watcher owns descriptor 2.
    unsafe { libc::dup2(file.as_raw_fd(), 2) };
}

pub(crate) fn path_of(bytes: &[u8]) -> PathBuf {
    OsStr::from_bytes(bytes).into()
}

pub(crate) fn has_no_name(file: &File) -> bool {
    file.metadata().is_ok_and(|found| found.nlink() == 0)
}

/// Makes the lock of a trace shared; no other process asks for it: the forked child whose trace it is has a
/// watcher.
pub(crate) fn lock_for_watcher(fd: RawFd) {
    // SAFETY: takes numbers.
    unsafe { libc::flock(fd, libc::LOCK_SH | libc::LOCK_NB) };
}
