//! How the forked children of a program get watchers: from a process that the program has forked before it had threads, and before it
//! had memory.
//!
//! ```text
//! the first process          its child                the family's process
//!   forks ───────────────────────────────────────────► waits
//!   forks ───────────────────► sends what is needed ──► forks ──► a watcher of the child, which sleeps
//! ```
//! A watcher that is forked from the child itself would keep all pages that the child has at that moment.

use super::identity;
use super::watched::{Watched, fork_away, unshare_all};
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::mem::{ManuallyDrop, zeroed};
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The most bytes, and descriptors, of a request.
const MOST_BYTES: usize = 16 << 10;
const MOST_DESCRIPTORS: usize = 8;

/// How long a child waits until there is room for its request.
const SEND_TIMEOUT: Duration = Duration::from_secs(1);

/// The connection to the family's process. The children of forks inherit it; `exec` closes it.
pub(crate) struct Family {
    /// NOTE: the program may close it, so it is used only while it is ours.
    socket: ManuallyDrop<File>,
    identity: Option<(u64, u64)>,
}

/// What a child has sent, in the watcher that was forked for it.
pub(crate) struct Request {
    pub(crate) watched: Watched,
    pub(crate) bytes: Vec<u8>,
    pub(crate) descriptors: Vec<OwnedFd>,
}

/// What [`start_family`] returns.
pub(crate) enum StartedFamily {
    /// In the program.
    Program(Family),
    /// In a watcher of one of its children.
    Watcher(Request),
}

/// Forks the family's process. It ends when the last process has ended that has the connection to it.
///
/// # Errors
/// Those of the system.
pub(crate) fn start_family() -> io::Result<StartedFamily> {
    let mut ends = [0; 2];
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    // SAFETY: two descriptors are written.
    if unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: they are new, so nothing else owns them.
    let [program, own] = ends.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
    if !fork_away(vec![own.as_raw_fd()], c"memledger-watch")? {
        let socket = ManuallyDrop::new(File::from(program));
        return Ok(StartedFamily::Program(Family { identity: identity(&*socket), socket }));
    }
    // It is closed already, and the number may be that of another descriptor.
    let _ = program.into_raw_fd();
    // The first process's memory would stay as long as this one.
    unshare_all();
    // SAFETY: the kernel removes children that have ended then.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
    loop {
        let Some(request) = receive(&own) else { super::end_watcher() };
        let Ok(request) = request else { continue };
        // SAFETY: this process has one thread.
        if unsafe { libc::fork() } == 0 {
            return Ok(StartedFamily::Watcher(request));
        }
    }
}

/// Room for the descriptors of a message, aligned as its header must be.
type Control = [u64; 16];

const DESCRIPTOR_BYTES: u32 = (MOST_DESCRIPTORS * size_of::<RawFd>()) as u32;
// SAFETY: it computes a number.
const _: () =
    assert!(unsafe { libc::CMSG_SPACE(DESCRIPTOR_BYTES) } as usize <= size_of::<Control>());

/// The next request; `None` if no process is left that could send one.
#[allow(clippy::unnecessary_cast, reason = "a length has 32 bits with musl")]
fn receive(socket: &OwnedFd) -> Option<io::Result<Request>> {
    let mut bytes = vec![0; MOST_BYTES];
    let mut control: Control = [0; 16];
    // SAFETY: the message's parts are valid during the call; the kernel writes whole headers and new descriptors.
    let (count, flags, descriptors) = unsafe {
        let mut part = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
        let mut message = zeroed::<libc::msghdr>();
        (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
        message.msg_control = (&raw mut control).cast();
        message.msg_controllen = size_of::<Control>() as _;
        let count = loop {
            let count = libc::recvmsg(socket.as_raw_fd(), &raw mut message, libc::MSG_CMSG_CLOEXEC);
            if count >= 0 || io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
                break count;
            }
        };
        let mut descriptors = Vec::new();
        let header =
            if count > 0 { libc::CMSG_FIRSTHDR(&raw const message) } else { std::ptr::null_mut() };
        if let Some(header) = header.as_ref().filter(|of| of.cmsg_type == libc::SCM_RIGHTS) {
            let data = libc::CMSG_DATA(header).cast::<RawFd>();
            let count =
                (header.cmsg_len as usize - libc::CMSG_LEN(0) as usize) / size_of::<RawFd>();
            let all = (0..count.min(MOST_DESCRIPTORS)).map(|at| data.add(at).read_unaligned());
            descriptors.extend(all.map(|fd| OwnedFd::from_raw_fd(fd)));
        }
        (count, message.msg_flags, descriptors)
    };
    if count <= 0 {
        return None;
    }
    bytes.truncate(count as usize);
    let mut descriptors = descriptors.into_iter();
    let request = match (descriptors.next(), descriptors.next()) {
        (Some(process), Some(pipe)) if flags & (libc::MSG_TRUNC | libc::MSG_CTRUNC) == 0 => {
            let watched = Watched::new(process, pipe);
            Ok(Request { watched, bytes, descriptors: descriptors.collect() })
        }
        _ => Err(io::Error::other("a request is not whole")),
    };
    Some(request)
}

impl Family {
    fn is_ours(&self) -> bool {
        self.identity.is_some() && identity(&*self.socket) == self.identity
    }

    /// Closes the connection: in the program when its recording has ended.
    pub(crate) fn close(mut self) {
        if self.is_ours() {
            // SAFETY: not used after this.
            unsafe { ManuallyDrop::drop(&mut self.socket) };
        }
    }

    /// Asks for a watcher of this process, which has these descriptors. It has them from now on, even if this process ends at once.
    ///
    /// # Errors
    /// Those of the system, and if the program has closed the connection.
    pub(crate) fn request(
        &self,
        watched: &Watched,
        mut bytes: Vec<u8>,
        descriptors: &[RawFd],
    ) -> io::Result<()> {
        if !self.is_ours() {
            return Err(io::Error::other("the program has closed the tracker's descriptor for it"));
        }
        let descriptors: Vec<_> =
            watched.descriptors().chain(descriptors.iter().copied()).collect();
        if bytes.len() > MOST_BYTES || descriptors.len() > MOST_DESCRIPTORS {
            return Err(io::Error::other(format!(
                "the names of its files have {} bytes, and may have {MOST_BYTES}",
                bytes.len()
            )));
        }
        let mut control: Control = [0; 16];
        let size = size_of_val(&*descriptors) as u32;
        let mut part = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
        // SAFETY: the message's parts are valid in what follows, and the control data have room for the descriptors.
        let message = unsafe {
            let mut message = zeroed::<libc::msghdr>();
            (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
            message.msg_control = (&raw mut control).cast();
            message.msg_controllen = libc::CMSG_SPACE(size) as _;
            let header = libc::CMSG_FIRSTHDR(&raw const message);
            (*header).cmsg_level = libc::SOL_SOCKET;
            (*header).cmsg_type = libc::SCM_RIGHTS;
            (*header).cmsg_len = libc::CMSG_LEN(size) as _;
            let data = libc::CMSG_DATA(header);
            data.copy_from_nonoverlapping(descriptors.as_ptr().cast(), size as usize);
            message
        };
        let (begin, socket) = (Instant::now(), self.socket.as_raw_fd());
        loop {
            // SAFETY: the message is valid.
            let sent = unsafe {
                libc::sendmsg(socket, &raw const message, libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT)
            };
            if sent >= 0 {
                return Ok(());
            }
            let error = io::Error::last_os_error();
            let left = SEND_TIMEOUT.saturating_sub(begin.elapsed());
            match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted if !left.is_zero() => {}
                _ => return Err(error),
            }
            let mut polled = libc::pollfd { fd: socket, events: libc::POLLOUT, revents: 0 };
            // SAFETY: one valid entry.
            unsafe { libc::poll(&raw mut polled, 1, left.as_millis() as i32 + 1) };
        }
    }
}

/// Another number for an open descriptor. `exec` closes it.
pub(crate) fn duplicate(fd: RawFd) -> io::Result<File> {
    // SAFETY: takes numbers; the new one is owned by nothing else.
    unsafe {
        match libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 3) {
            -1 => Err(io::Error::last_os_error()),
            new => Ok(File::from_raw_fd(new)),
        }
    }
}

/// In a watcher: has standard error be this file.
pub(crate) fn use_as_stderr(file: File) {
    // SAFETY: both are open, and nothing of a watcher owns descriptor 2.
    unsafe { libc::dup2(file.as_raw_fd(), 2) };
}

/// The path with these bytes.
pub(crate) fn path_of(bytes: &[u8]) -> PathBuf {
    OsStr::from_bytes(bytes).into()
}

/// Makes the lock of a trace one that others can have, too, which no other process asks for: the forked child whose trace it is has a
/// watcher.
pub(crate) fn lock_for_watcher(fd: RawFd) {
    // SAFETY: takes numbers.
    unsafe { libc::flock(fd, libc::LOCK_SH | libc::LOCK_NB) };
}
