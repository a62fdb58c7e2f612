//! The tracker's threads end for a moment, and with them their table of descriptors. What is in it waits meanwhile in a socket, which
//! is the only descriptor of the tracker that the program's table has then.
//!
//! ```text
//! keeper   listens on a socket with a name            the thread that ends the others
//!          accepts  ◄───────────────────────────────  connects: from here on it has the other end
//!          sends all descriptors and their numbers
//!          ends
//! ...                                                 does what needs a process without our threads
//! keeper   has a new table, with that end only   ◄──  starts it again
//!          receives the descriptors, and gives each the number that it had
//! ```

use super::descriptors::{END, STREAMS, is_open, keep_apart};
use super::own_table::Servant;
use super::process_id;
use std::io;
use std::mem::zeroed;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicI32, Ordering};

/// The most descriptors of one message; the kernel allows 253.
const MOST: usize = 128;

/// The bytes of the control data of a message with that many.
const CONTROL_BYTES: usize = 64 + MOST * size_of::<RawFd>();

/// The socket in which descriptors wait; -1 if there is none.
static PACKED: AtomicI32 = AtomicI32::new(-1);

/// The name of the keeper's socket, as the kernel has given it.
struct Name {
    address: libc::sockaddr_un,
    bytes: libc::socklen_t,
}

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn socket() -> io::Result<OwnedFd> {
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC;
    // SAFETY: a new descriptor, which nothing else owns.
    unsafe { Ok(OwnedFd::from_raw_fd(check(libc::socket(libc::AF_UNIX, kind, 0))?)) }
}

/// Packs all descriptors of the keeper's table. The tracker has no other thread in it any more.
pub(super) fn pack(keeper: &Servant) -> io::Result<OwnedFd> {
    let mut listener = nobody();
    keeper.ask(&mut || listener = listen());
    let (listener, name) = listener?;
    let socket = keep_apart(socket()?)?;
    // SAFETY: the name has that many bytes.
    unsafe {
        let address = (&raw const name.address).cast();
        check(libc::connect(socket.as_raw_fd(), address, name.bytes))?;
    }
    let mut sent = nobody();
    let mut listener = Some(listener);
    keeper.ask(&mut || sent = listener.take().map_or_else(nobody, send_all));
    sent.map(|()| socket)
}

fn nobody<T>() -> io::Result<T> {
    Err(io::Error::other("there is no keeper"))
}

/// A socket that listens on a name of the kernel's choice.
fn listen() -> io::Result<(OwnedFd, Name)> {
    let socket = socket()?;
    // SAFETY: all zeros are a valid address; the calls read and write locals of the given size.
    unsafe {
        let mut name = Name { address: zeroed(), bytes: size_of::<libc::sockaddr_un>() as _ };
        name.address.sun_family = libc::AF_UNIX as libc::sa_family_t;
        let address = (&raw mut name.address).cast::<libc::sockaddr>();
        let family_bytes = size_of::<libc::sa_family_t>() as libc::socklen_t;
        check(libc::bind(socket.as_raw_fd(), address, family_bytes))?;
        check(libc::listen(socket.as_raw_fd(), 8))?;
        check(libc::getsockname(socket.as_raw_fd(), address, &raw mut name.bytes))?;
        Ok((socket, name))
    }
}

/// Whether the other end of a connection is in this process: others, too, can find the name.
fn is_from_here(socket: &OwnedFd) -> bool {
    // SAFETY: the local is valid for writing, and has that size.
    unsafe {
        let mut peer = zeroed::<libc::ucred>();
        let mut bytes = size_of::<libc::ucred>() as libc::socklen_t;
        let (level, option) = (libc::SOL_SOCKET, libc::SO_PEERCRED);
        let to = (&raw mut peer).cast();
        libc::getsockopt(socket.as_raw_fd(), level, option, to, &raw mut bytes) == 0
            && peer.pid as u32 == process_id()
    }
}

/// In the keeper: sends all descriptors of its table to the thread of this process that has connected.
fn send_all(listener: OwnedFd) -> io::Result<()> {
    let socket = loop {
        // SAFETY: a new descriptor, which nothing else owns.
        let socket = unsafe {
            let (address, bytes) = (std::ptr::null_mut(), std::ptr::null_mut());
            let flags = libc::SOCK_CLOEXEC;
            let accepted = libc::accept4(listener.as_raw_fd(), address, bytes, flags);
            OwnedFd::from_raw_fd(check(accepted)?)
        };
        if is_from_here(&socket) {
            break socket;
        }
    };
    let own = [listener.as_raw_fd(), socket.as_raw_fd()];
    let is_to_send = |number: &RawFd| !own.contains(number) && is_open(*number);
    let all: Vec<RawFd> = (STREAMS..END).filter(is_to_send).collect();
    all.chunks(MOST).try_for_each(|numbers| send(&socket, numbers))
}

fn send(socket: &OwnedFd, numbers: &[RawFd]) -> io::Result<()> {
    let mut control = [0_usize; CONTROL_BYTES / size_of::<usize>()];
    let bytes = size_of_val(numbers);
    // SAFETY: the control data have room for one header and that many numbers, which are copied there; the message refers to locals.
    unsafe {
        let mut part = libc::iovec { iov_base: numbers.as_ptr().cast_mut().cast(), iov_len: bytes };
        let mut message = zeroed::<libc::msghdr>();
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = libc::CMSG_SPACE(bytes as u32) as _;
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_RIGHTS;
        (*header).cmsg_len = libc::CMSG_LEN(bytes as u32) as _;
        libc::CMSG_DATA(header).copy_from_nonoverlapping(numbers.as_ptr().cast(), bytes);
        let sent = libc::sendmsg(socket.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL);
        if sent == bytes as isize { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

/// Hands a packed table over to the keeper that is about to start.
pub(super) fn hand_over(socket: &OwnedFd) {
    PACKED.store(socket.as_raw_fd(), Ordering::Release);
}

/// In the keeper, before it has a table of its own: the socket that was handed over.
pub(super) fn take() -> Option<RawFd> {
    let number = PACKED.swap(-1, Ordering::AcqRel);
    (number >= 0).then_some(number)
}

/// In the keeper, which has a table of its own: gives it all packed descriptors, by the numbers that they had.
pub(super) fn unpack(socket: RawFd) {
    // SAFETY: the number is a copy in this table, and nothing else uses it.
    let mut socket = unsafe { OwnedFd::from_raw_fd(socket) };
    while receive(&mut socket) > 0 {}
}

/// Receives one message; returns how many descriptors it had.
fn receive(socket: &mut OwnedFd) -> usize {
    let mut control = [0_usize; CONTROL_BYTES / size_of::<usize>()];
    let mut numbers = [-1 as RawFd; MOST];
    // SAFETY: the message refers to locals of the given sizes; the kernel fills them. What it passes are new descriptors, which nothing
    // else owns, and the table is the tracker's own.
    unsafe {
        let mut part =
            libc::iovec { iov_base: numbers.as_mut_ptr().cast(), iov_len: size_of_val(&numbers) };
        let mut message = zeroed::<libc::msghdr>();
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(&control) as _;
        let flags = libc::MSG_CMSG_CLOEXEC;
        if libc::recvmsg(socket.as_raw_fd(), &raw mut message, flags) <= 0 {
            return 0;
        }
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        if header.is_null() || (*header).cmsg_type != libc::SCM_RIGHTS {
            return 0;
        }
        let count = ((*header).cmsg_len as usize - libc::CMSG_LEN(0) as usize) / size_of::<RawFd>();
        let received = libc::CMSG_DATA(header).cast::<RawFd>();
        for (at, number) in numbers.iter().enumerate().take(count) {
            let descriptor = received.add(at).read_unaligned();
            if socket.as_raw_fd() == *number
                && let Ok(elsewhere) = socket.try_clone()
            {
                // NOTE: another table had this number for a descriptor of the program's.
                *socket = elsewhere;
            }
            if descriptor != *number {
                libc::dup3(descriptor, *number, libc::O_CLOEXEC);
                libc::close(descriptor);
            }
        }
        count
    }
}
