//! System calls that misbehave: these definitions precede libc's in this program, for everything
//! that is linked into it, including the tracker and the standard library.
//!
//! The calls behave normally until a scenario [sets](Faults::set) a fault, in its own process.
//! Standard streams are not affected.
#![expect(unsafe_code, reason = "stands in for libc")]

use libc::{c_int, c_void, size_t, ssize_t};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};

/// The result of a call.
#[derive(Clone, Copy)]
#[repr(u32)]
pub(crate) enum Fault {
    None,
    /// The call transfers some of the bytes, at least one.
    Short,
    /// Three of four calls fail with `EINTR`.
    Interrupted,
    /// Three of four calls fail with `EAGAIN`.
    Again,
    /// All calls from the n-th on fail with an input/output error.
    Broken,
    /// The n-th call and the next four fail with no space left.
    Full,
    /// The call takes 100 ms.
    Slow,
}

/// The fault of one function, and the number of its calls.
pub(crate) struct Faults {
    fault: AtomicU32,
    calls: AtomicU64,
    after: AtomicU64,
}

pub(crate) static WRITE: Faults = Faults::none();
pub(crate) static READ: Faults = Faults::none();
pub(crate) static SEND: Faults = Faults::none();
pub(crate) static RECV: Faults = Faults::none();

impl Faults {
    const fn none() -> Self {
        Self { fault: AtomicU32::new(0), calls: AtomicU64::new(0), after: AtomicU64::new(0) }
    }

    /// Sets the fault of calls from here on; [`Fault::Broken`] and [`Fault::Full`] do not affect
    /// the first `after`.
    pub(crate) fn set(&self, fault: Fault, after: u64) {
        self.calls.store(0, Relaxed);
        self.after.store(after, Relaxed);
        self.fault.store(fault as u32, Release);
    }

    /// Ends the fault; returns the number of calls.
    pub(crate) fn clear(&self) -> u64 {
        self.fault.store(Fault::None as u32, Release);
        self.calls.load(Relaxed)
    }

    /// How many of `size` bytes are transferred, or the error.
    fn apply(&self, fd: c_int, size: size_t) -> Result<size_t, c_int> {
        let fault = self.fault.load(Acquire);
        if fault == Fault::None as u32 || fd <= 2 {
            return Ok(size);
        }
        let call = self.calls.fetch_add(1, Relaxed);
        let fails = !call.is_multiple_of(4);
        match fault {
            _ if fault == Fault::Short as u32 => Ok(size.min(1 + call as usize * 7919 % 1000)),
            _ if fault == Fault::Interrupted as u32 && fails => Err(libc::EINTR),
            _ if fault == Fault::Again as u32 && fails => Err(libc::EAGAIN),
            _ if fault == Fault::Broken as u32 && call >= self.after.load(Relaxed) => {
                Err(libc::EIO)
            }
            _ if fault == Fault::Full as u32
                && (0..5).contains(&call.wrapping_sub(self.after.load(Relaxed))) =>
            {
                Err(libc::ENOSPC)
            }
            _ if fault == Fault::Slow as u32 => {
                let time = libc::timespec { tv_sec: 0, tv_nsec: 100_000_000 };
                // SAFETY: the time is a local, nothing is written.
                unsafe { libc::syscall(libc::SYS_nanosleep, &raw const time, 0) };
                Ok(size)
            }
            _ => Ok(size),
        }
    }
}

fn failed(error: c_int) -> ssize_t {
    // SAFETY: the location is this thread's.
    unsafe { *libc::__errno_location() = error };
    -1
}

#[unsafe(no_mangle)]
unsafe extern "C" fn write(fd: c_int, bytes: *const c_void, size: size_t) -> ssize_t {
    match WRITE.apply(fd, size) {
        // SAFETY: the caller makes the same guarantee, here and below.
        Ok(size) => unsafe { libc::syscall(libc::SYS_write, fd, bytes, size) as ssize_t },
        Err(error) => failed(error),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn read(fd: c_int, bytes: *mut c_void, size: size_t) -> ssize_t {
    match READ.apply(fd, size) {
        // SAFETY: as above.
        Ok(size) => unsafe { libc::syscall(libc::SYS_read, fd, bytes, size) as ssize_t },
        Err(error) => failed(error),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn send(fd: c_int, bytes: *const c_void, size: size_t, flags: c_int) -> ssize_t {
    match SEND.apply(fd, size) {
        // SAFETY: as above; no address.
        Ok(size) => unsafe {
            libc::syscall(libc::SYS_sendto, fd, bytes, size, flags, 0_usize, 0_usize) as ssize_t
        },
        Err(error) => failed(error),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn recv(fd: c_int, bytes: *mut c_void, size: size_t, flags: c_int) -> ssize_t {
    match RECV.apply(fd, size) {
        // SAFETY: as above; no address.
        Ok(size) => unsafe {
            libc::syscall(libc::SYS_recvfrom, fd, bytes, size, flags, 0_usize, 0_usize) as ssize_t
        },
        Err(error) => failed(error),
    }
}

/// Above 0 while clocks jump: the calls so far.
static CLOCK_CALLS: AtomicU64 = AtomicU64::new(0);

/// Makes every clock jump back and forth from here on, by up to half a second at every call.
pub(crate) fn have_clocks_jump() {
    CLOCK_CALLS.store(1, Release);
}

#[unsafe(no_mangle)]
unsafe extern "C" fn clock_gettime(clock: libc::clockid_t, time: *mut libc::timespec) -> c_int {
    // SAFETY: the caller makes the same guarantee.
    let result = unsafe { libc::syscall(libc::SYS_clock_gettime, clock, time) as c_int };
    if CLOCK_CALLS.load(Acquire) > 0 && result == 0 {
        let call = CLOCK_CALLS.fetch_add(1, Relaxed);
        // SAFETY: the system has initialised it.
        let time = unsafe { &mut *time };
        // NOTE: no earlier than the system's time, which is near 0 after a start of the machine.
        time.tv_nsec += (call.wrapping_mul(0x9e37_79b9_7f4a_7c15) % 500_000_000) as i64;
        if time.tv_nsec >= 1_000_000_000 {
            time.tv_nsec -= 1_000_000_000;
            time.tv_sec += 1;
        }
    }
    result
}
