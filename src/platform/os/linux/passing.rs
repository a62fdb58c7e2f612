//! Sockets through which descriptors pass from one table to another.

use super::super::unix::descriptors::keep_apart;
use std::io;
use std::mem::zeroed;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// The most descriptors of one message; the kernel allows 253.
pub(super) const MAX_DESCRIPTORS: usize = 128;

/// The control data of a message with that many, aligned as its header must be.
const CONTROL_WORDS: usize = (64 + MAX_DESCRIPTORS * size_of::<RawFd>()) / size_of::<usize>();

/// The name of a socket, as the kernel has given it.
pub(super) struct Name {
    address: libc::sockaddr_un,
    bytes: libc::socklen_t,
}

pub(super) fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn socket(kind: libc::c_int) -> io::Result<OwnedFd> {
    // SAFETY: a new descriptor, which nothing else owns.
    let socket = unsafe {
        OwnedFd::from_raw_fd(check(libc::socket(libc::AF_UNIX, kind | libc::SOCK_CLOEXEC, 0))?)
    };
    keep_apart(socket)
}

/// A socket that listens on a name of the kernel's choice.
pub(super) fn listen(kind: libc::c_int) -> io::Result<(OwnedFd, Name)> {
    let socket = socket(kind)?;
    // SAFETY: all zeros are a valid address; the calls read and write locals of the given size.
    unsafe {
        let mut name = Name { address: zeroed(), bytes: size_of::<libc::sockaddr_un>() as _ };
        name.address.sun_family = libc::AF_UNIX as libc::sa_family_t;
        let address = (&raw mut name.address).cast::<libc::sockaddr>();
        let family_bytes = size_of::<libc::sa_family_t>() as libc::socklen_t;
        check(libc::bind(socket.as_raw_fd(), address, family_bytes))?;
        check(libc::listen(socket.as_raw_fd(), 128))?;
        check(libc::getsockname(socket.as_raw_fd(), address, &raw mut name.bytes))?;
        Ok((socket, name))
    }
}

/// A socket that is connected to the one that listens on `name`. It and what it sends waits for `seconds` at
/// most.
pub(super) fn connect(kind: libc::c_int, name: &Name, seconds: i64) -> io::Result<OwnedFd> {
    let socket = socket(kind)?;
    set_timeout(&socket, libc::SO_SNDTIMEO, seconds)?;
    // SAFETY: the name has that many bytes.
    unsafe {
        let address = (&raw const name.address).cast();
        check(libc::connect(socket.as_raw_fd(), address, name.bytes))?;
    }
    Ok(socket)
}

/// The next connection to a socket that listens.
pub(super) fn accept(listener: &OwnedFd) -> io::Result<OwnedFd> {
    let (address, bytes) = (std::ptr::null_mut(), std::ptr::null_mut());
    // SAFETY: a new descriptor, which nothing else owns.
    unsafe {
        let fd = libc::accept4(listener.as_raw_fd(), address, bytes, libc::SOCK_CLOEXEC);
        Ok(OwnedFd::from_raw_fd(check(fd)?))
    }
}

/// How long a call for this socket waits: `SO_SNDTIMEO` or `SO_RCVTIMEO`.
pub(super) fn set_timeout(socket: &OwnedFd, which: libc::c_int, seconds: i64) -> io::Result<()> {
    let time = libc::timeval { tv_sec: seconds as _, tv_usec: 0 };
    let (value, bytes) = ((&raw const time).cast(), size_of_val(&time) as libc::socklen_t);
    // SAFETY: the local has that size.
    let set =
        unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, which, value, bytes) };
    check(set).map(|_| ())
}

/// Sends bytes, of which there is at least one, together with descriptors, at most [`MAX_DESCRIPTORS`].
pub(super) fn send(socket: &OwnedFd, bytes: &[u8], descriptors: &[RawFd]) -> io::Result<()> {
    let mut control = [0_usize; CONTROL_WORDS];
    let size = size_of_val(descriptors);
    // SAFETY: the control data have room for one header and that many numbers, which are copied there; the
    // message refers to locals.
    unsafe {
        let base = bytes.as_ptr().cast_mut().cast();
        let mut part = libc::iovec { iov_base: base, iov_len: bytes.len() };
        let mut message = zeroed::<libc::msghdr>();
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = libc::CMSG_SPACE(size as u32) as _;
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_RIGHTS;
        (*header).cmsg_len = libc::CMSG_LEN(size as u32) as _;
        libc::CMSG_DATA(header).copy_from_nonoverlapping(descriptors.as_ptr().cast(), size);
        let sent = libc::sendmsg(socket.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL);
        if sent == bytes.len() as isize { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

/// Receives one message to `bytes` and `descriptors`; returns how many of each it had. A message without
/// descriptors, or with more bytes, is none.
pub(super) fn receive(
    socket: &OwnedFd,
    bytes: &mut [u8],
    descriptors: &mut [RawFd; MAX_DESCRIPTORS],
) -> Option<(usize, usize)> {
    let mut control = [0_usize; CONTROL_WORDS];
    // SAFETY: the message refers to locals of the given sizes; the kernel fills them.
    unsafe {
        let base = bytes.as_mut_ptr().cast();
        let mut part = libc::iovec { iov_base: base, iov_len: bytes.len() };
        let mut message = zeroed::<libc::msghdr>();
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(&control) as _;
        let flags = libc::MSG_CMSG_CLOEXEC;
        let size = libc::recvmsg(socket.as_raw_fd(), &raw mut message, flags);
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        if size <= 0 || header.is_null() || (*header).cmsg_type != libc::SCM_RIGHTS {
            return None;
        }
        let count = ((*header).cmsg_len as usize - libc::CMSG_LEN(0) as usize) / size_of::<RawFd>();
        let received = libc::CMSG_DATA(header).cast::<RawFd>();
        let count = count.min(MAX_DESCRIPTORS);
        for (at, descriptor) in descriptors.iter_mut().enumerate().take(count) {
            *descriptor = received.add(at).read_unaligned();
        }
        Some((size as usize, count))
    }
}
