//! The tracker's threads end for a moment, and with them their table of descriptors. What is in it waits
//! meanwhile in a socket, which is the only descriptor of the tracker that the program's table has then.
//!
//! ```text
//! table thread  listens on a socket with a name            the thread that ends the others
//!               accepts  ◄───────────────────────────────  connects: from here on it has the other end
//!               sends all descriptors and their numbers
//!               ends
//! ...                                                      does what needs a process without our threads
//! table thread  has a new table, with that end only   ◄──  starts it again
//!               receives the descriptors, and gives each the number that it had
//! ```

use super::super::unix::descriptors::{END, STREAMS, is_open};
use super::on_call::OnCall;
use super::passing::{self, MAX_DESCRIPTORS, Name};
use super::process_id;
use std::io;
use std::mem::zeroed;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicI32, Ordering};

/// How long the thread waits for the table thread's socket.
const CONNECT_SECONDS: i64 = 5;

/// The socket in which descriptors wait; -1 if there is none.
static PACKED: AtomicI32 = AtomicI32::new(-1);

/// Packs all descriptors of the table thread's table. The tracker has no other thread in it any more.
pub(super) fn pack(table_thread: &OnCall) -> io::Result<OwnedFd> {
    let mut listener = nobody::<(OwnedFd, Name)>();
    table_thread.ask(&mut || listener = passing::listen(libc::SOCK_STREAM));
    let (listener, name) = listener?;
    let socket = passing::connect(libc::SOCK_STREAM, &name, CONNECT_SECONDS)?;
    let mut sent = nobody();
    let mut listener = Some(listener);
    table_thread.ask(&mut || sent = listener.take().map_or_else(nobody, send_all));
    sent.map(|()| socket)
}

fn nobody<T>() -> io::Result<T> {
    Err(io::Error::other("there is no table thread"))
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

/// In the table thread: sends all descriptors of its table to the thread of this process that has connected.
fn send_all(listener: OwnedFd) -> io::Result<()> {
    let socket = loop {
        let socket = passing::accept(&listener)?;
        if is_from_here(&socket) {
            break socket;
        }
    };
    let own = [listener.as_raw_fd(), socket.as_raw_fd()];
    let is_to_send = |number: &RawFd| !own.contains(number) && is_open(*number);
    let all: Vec<RawFd> = (STREAMS..END).filter(is_to_send).collect();
    all.chunks(MAX_DESCRIPTORS).try_for_each(|numbers| send(&socket, numbers))
}

/// The bytes of the message are the numbers.
fn send(socket: &OwnedFd, numbers: &[RawFd]) -> io::Result<()> {
    let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_ne_bytes()).collect();
    passing::send(socket, &bytes, numbers)
}

/// Hands a packed table over to the table thread that is about to start.
pub(super) fn hand_over(socket: &OwnedFd) {
    PACKED.store(socket.as_raw_fd(), Ordering::Release);
}

/// In the table thread, before it has a table of its own: the socket that was handed over.
pub(super) fn take() -> Option<RawFd> {
    let number = PACKED.swap(-1, Ordering::AcqRel);
    (number >= 0).then_some(number)
}

/// In the table thread, which has a table of its own: gives it all packed descriptors, by their numbers.
pub(super) fn unpack(socket: RawFd) {
    // SAFETY: the number is a copy in this table, and nothing else uses it.
    let mut socket = unsafe { OwnedFd::from_raw_fd(socket) };
    while receive(&mut socket) > 0 {}
}

/// Receives one message; returns how many descriptors it had.
fn receive(socket: &mut OwnedFd) -> usize {
    let mut bytes = [0; MAX_DESCRIPTORS * size_of::<RawFd>()];
    let mut descriptors = [-1; MAX_DESCRIPTORS];
    let Some((_, count)) = passing::receive(socket, &mut bytes, &mut descriptors) else {
        return 0;
    };
    let numbers = bytes.as_chunks().0.iter().map(|number| RawFd::from_ne_bytes(*number));
    for (descriptor, number) in descriptors.into_iter().zip(numbers).take(count) {
        if socket.as_raw_fd() == number
            && let Ok(elsewhere) = socket.try_clone()
        {
            // NOTE: another table had this number for a descriptor of the program's.
            *socket = elsewhere;
        }
        if descriptor != number {
            // SAFETY: new descriptors, which nothing else owns; the table is the tracker's own.
            unsafe {
                libc::dup3(descriptor, number, libc::O_CLOEXEC);
                libc::close(descriptor);
            }
        }
    }
    count
}
