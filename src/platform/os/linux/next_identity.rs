//! The next library's functions that change the user, the groups and the namespaces of a process.

use super::next_functions::next_functions;
use std::ffi::{c_char, c_int};

next_functions! {
    setuid(id: u32);
    setgid(id: u32);
    seteuid(id: u32);
    setegid(id: u32);
    setreuid(real: u32, effective: u32);
    setregid(real: u32, effective: u32);
    setresuid(real: u32, effective: u32, saved: u32);
    setresgid(real: u32, effective: u32, saved: u32);
    setgroups(count: usize, groups: *const u32);
    initgroups(user: *const c_char, group: u32);
    unshare(flags: c_int);
    setns(file: c_int, kinds: c_int);
}

/// The namespaces of which a process can be in another one only with one thread: the flags for `unshare`, and
/// the kinds for `setns`, which also wants that no thread shares the current folder.
pub(crate) const UNSHARE_ALONE: c_int =
    libc::CLONE_NEWUSER | libc::CLONE_THREAD | libc::CLONE_SIGHAND | libc::CLONE_VM;
pub(crate) const ENTER_ALONE: c_int = libc::CLONE_NEWUSER | libc::CLONE_NEWNS | libc::CLONE_NEWTIME;

/// The namespaces of children. A thread that has left them can make no other thread.
pub(crate) const OF_CHILDREN: c_int = libc::CLONE_NEWPID | libc::CLONE_NEWTIME;

/// The kind of namespace that an open file is; 0 if it is none, or not known.
pub(crate) fn kind_of_namespace(file: c_int) -> c_int {
    const NS_GET_NSTYPE: libc::c_ulong = 0xb703;
    // SAFETY: the request has no argument.
    unsafe { libc::ioctl(file, NS_GET_NSTYPE) }.max(0)
}
