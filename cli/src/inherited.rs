//! What this process got from the one that started it, before Rust's runtime changed it: which of the first
//! three descriptors were closed, and which signals were ignored. The runtime opens `/dev/null` in the place
//! of such a descriptor, and ignores SIGPIPE.
#![expect(
    unsafe_code,
    reason = "runs before main, and sets of signals that the C library keeps to itself"
)]

use nix::libc;
use nix::sys::signal::SigSet;
use std::ffi::c_int;
use std::mem;
use std::ptr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// What glibc uses itself, for `pthread_cancel` and `setuid`. `posix_spawn` would have the program start with
/// both ignored.
const OF_LIBRARY: [c_int; 2] = [32, 33];

/// A bit for each descriptor that was closed.
static CLOSED: AtomicU32 = AtomicU32::new(0);
/// A bit for each signal that was ignored: bit 0 is signal 1, as the kernel has it.
static IGNORED: AtomicU64 = AtomicU64::new(0);

// SAFETY: the section holds pointers to functions of this form, called once each before `main`.
#[unsafe(link_section = ".init_array")]
#[used]
static BEFORE_MAIN: extern "C" fn() = look;

fn bit(signal: c_int) -> u64 {
    1 << (signal - 1)
}

extern "C" fn look() {
    // SAFETY: asks for flags only.
    let closed = (0..3).filter(|fd| unsafe { libc::fcntl(*fd, libc::F_GETFD) } == -1);
    CLOSED.store(closed.fold(0, |bits, fd| bits | 1 << fd), Ordering::Relaxed);
    let ignored =
        OF_LIBRARY.into_iter().chain([libc::SIGPIPE]).filter(|signal| is_ignored(*signal));
    IGNORED.store(ignored.fold(0, |bits, signal| bits | bit(signal)), Ordering::Relaxed);
}

/// NOTE: by the system call, because the C library refuses to be asked for its own signals.
fn is_ignored(signal: c_int) -> bool {
    // The handler is the first word of what the kernel writes, which has four.
    let mut action = [0_usize; 8];
    let size = size_of::<u64>();
    let none = ptr::null::<usize>();
    // SAFETY: what is written fits.
    let asked =
        unsafe { libc::syscall(libc::SYS_rt_sigaction, signal, none, action.as_mut_ptr(), size) };
    asked == 0 && action[0] == libc::SIG_IGN
}

/// The descriptors of the first three that were closed.
pub fn closed() -> impl Iterator<Item = c_int> {
    // A linker leaves the function before `main` out of a program in which nothing refers to it.
    std::hint::black_box(&raw const BEFORE_MAIN);
    (0..3).filter(|fd| CLOSED.load(Ordering::Relaxed) & 1 << fd != 0)
}

/// The signals that a program is to start with at their default, if it is to have what this process got.
pub fn to_default() -> SigSet {
    let ignored = IGNORED.load(Ordering::Relaxed);
    let signals = OF_LIBRARY.into_iter().chain([libc::SIGPIPE]).map(bit);
    let bits = signals.filter(|bit| ignored & bit == 0).fold(0, |bits, bit| bits | bit);
    // SAFETY: zeros are an empty set. Its first bytes are those of the kernel's set, which has 64 signals.
    unsafe {
        let mut set = mem::zeroed::<libc::sigset_t>();
        (&raw mut set).cast::<u64>().write_unaligned(bits);
        SigSet::from_sigset_t_unchecked(set)
    }
}
