//! Linux, by plain system calls through `libc`.
//!
//! NOTE: functions marked *Hook* run inside an `alloc` or `free` of the program. They neither
//! allocate nor lock, and restore `errno`, since a program may read it after `free`.
#![expect(unsafe_code, reason = "system calls")]

#[cfg(target_arch = "x86_64")]
mod allocators;
mod before_main;
mod blocked;
mod cgroup;
mod clocks;
mod descriptors;
#[cfg(all(feature = "__preload", c_mmap))]
pub(crate) mod exec;
mod family;
mod last_thread;
mod library;
#[cfg(redirects)]
pub(crate) mod loaded;
#[cfg(target_arch = "x86_64")]
mod loads;
#[cfg(redirects)]
pub(crate) mod main_function;
#[cfg(target_arch = "x86_64")]
mod modules;
#[cfg(c_identity)]
mod next_functions;
#[cfg(c_identity)]
pub(crate) mod next_identity;
#[cfg(c_malloc)]
pub(crate) mod next_malloc;
#[cfg(feature = "__preload")]
pub(crate) mod next_signals;
mod objects;
#[cfg(other_allocators)]
pub(crate) mod other_allocators;
mod own_pages;
mod own_table;
mod packed;
pub(crate) mod pages;
mod passing;
#[cfg(redirects)]
pub(crate) mod redirect;
mod regular_file;
#[cfg(target_arch = "x86_64")]
mod resident;
mod signals;
mod threads;
mod watched;

use before_main::is_before_main;
#[cfg(feature = "__preload")]
pub(crate) use before_main::program_has_tracker;
pub(crate) use before_main::{keep_before_main, prepare_before_main, program_name};
pub(crate) use blocked::{AllBlocked, BlockedSignals};
pub(crate) use cgroup::memory_limit;
pub(crate) use descriptors::{keep_apart, send_to_socket};
pub(crate) use family::{
    Family, Request, StartedFamily, duplicate, has_no_name, lock_for_watcher, path_of,
    start_family, use_as_stderr,
};
#[cfg(c_mmap)]
pub(crate) use last_thread::{begin_counted_thread, count_thread, uncount_thread};
pub(crate) use last_thread::{end_process, left_alone};
#[cfg(target_arch = "x86_64")]
pub(crate) use loads::{is_lasting, unloads};
#[cfg(redirects)]
pub(crate) use main_function::run_before_main;
#[cfg(feature = "__preload")]
pub(crate) use objects::has_static_thread_memory;
pub(crate) use own_table::{
    InProgramTable, OwnTable, Packed, close_gate, forget_threads, leave_streams, open_gate, pack,
    run_in_own_table, run_in_program_table, run_on_keeper, servants, serve, take_unanswered,
    unpack, write_to_stderr,
};
pub(crate) use regular_file::{open_regular, read_at};
#[cfg(feature = "__preload")]
pub(crate) use signals::exit_after_report;
pub(crate) use signals::{
    dismiss_waiting_thread, end_waiting, forget_signals, handle_ending_signals,
    handle_late_crashes, has_late_crashes, has_waiting_thread, is_report_awaited,
    keep_waiting_thread, wait_for_ending_signal,
};
#[cfg(c_mmap)]
pub(crate) use threads::is_own_start;
pub(crate) use threads::{
    STACK, has_own_threads, name_thread, processor_time_of, run_on_new_thread, spawn, wait_for_ends,
};
pub(crate) use watched::{
    Started, Watcher, clear_in_children, connection, end_watcher, forget_shared, has_one_thread,
    has_usual_pages, is_in_loaded_file, map_shared, map_shared_file, share_again, share_in_place,
    start_watcher, unshare_all,
};

#[cfg(target_arch = "x86_64")]
pub(crate) use allocators::allocator_statistics;
#[cfg(target_arch = "x86_64")]
pub(crate) use modules::{
    FileId, LoadedFile, Memory, is_readable, loaded_files, loader_state, main_stack_end,
};

#[cfg(target_arch = "x86_64")]
use own_pages::own_pages;
#[cfg(target_arch = "x86_64")]
pub(crate) use resident::{resident_memory, rss_now_and_most};

use super::ThreadName;
#[cfg(c_identity)]
use next_functions::next_functions;
use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::fs::{File, OpenOptions};
use std::io;
use std::net::{TcpListener, TcpStream};
pub(crate) use std::os::fd::RawFd;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

/// Restores `errno` when dropped.
pub(crate) struct KeepErrno(c_int);

impl KeepErrno {
    pub(crate) fn new() -> Self {
        // SAFETY: the location is valid for the calling thread.
        Self(unsafe { *libc::__errno_location() })
    }
}

impl Drop for KeepErrno {
    fn drop(&mut self) {
        // SAFETY: the location is valid for the calling thread.
        unsafe { *libc::__errno_location() = self.0 };
    }
}

/// *Hook.* Maps `bytes` of zeroed pages; `None` if the system has none.
pub(crate) fn map(bytes: usize) -> Option<NonNull<u8>> {
    let _errno = KeepErrno::new();
    // SAFETY: a new private anonymous mapping does not affect existing memory.
    let mapped = unsafe {
        pages::mmap(
            ptr::null_mut(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        )
    };
    if mapped == libc::MAP_FAILED {
        return None;
    }
    own_pages::add(mapped.addr(), bytes);
    NonNull::new(mapped.cast())
}

/// *Hook.* Unmaps pages of [`map`] that no other thread has seen.
pub(crate) fn unmap(start: NonNull<u8>, bytes: usize) {
    let _errno = KeepErrno::new();
    own_pages::remove(start.as_ptr().addr());
    // SAFETY: the caller mapped exactly these pages and has not published them.
    unsafe { pages::munmap(start.as_ptr().cast(), bytes) };
}

/// *Hook.* Nanoseconds of the monotonic clock.
pub(crate) fn now() -> u64 {
    read_clock(libc::CLOCK_MONOTONIC)
}

/// *Hook.* Nanoseconds since the system was started, sleep included.
#[cfg(feature = "perfetto")]
pub(crate) fn since_boot() -> u64 {
    read_clock(libc::CLOCK_BOOTTIME)
}

/// What the system's clocks say now, in nanoseconds, by the number that Perfetto has for each: real
/// time, monotonic, the same in coarse and in raw form, and since the system was started.
#[cfg(feature = "perfetto")]
pub(crate) fn clocks() -> [(u64, u64); 6] {
    let clocks = [
        (1, libc::CLOCK_REALTIME),
        (2, libc::CLOCK_REALTIME_COARSE),
        (3, libc::CLOCK_MONOTONIC),
        (4, libc::CLOCK_MONOTONIC_COARSE),
        (5, libc::CLOCK_MONOTONIC_RAW),
        (6, libc::CLOCK_BOOTTIME),
    ];
    clocks.map(|(number, clock)| (number, read_clock(clock)))
}

#[inline]
fn read_clock(clock: libc::clockid_t) -> u64 {
    let Some(time) = clocks::read(clock) else { return 0 };
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}

/// Whether [`counter`] counts at one rate, whatever the processor does, and never stops.
#[cfg(all(feature = "perfetto", target_arch = "x86_64"))]
pub(crate) fn has_steady_counter() -> bool {
    use std::arch::x86_64::__cpuid;
    // "Invariant TSC", Intel SDM 19.17.4; AMD has the same bit.
    __cpuid(0x8000_0000).eax >= 0x8000_0007 && __cpuid(0x8000_0007).edx & 1 << 8 != 0
}

#[cfg(all(feature = "perfetto", not(target_arch = "x86_64")))]
pub(crate) fn has_steady_counter() -> bool {
    false
}

/// *Hook.* What the processor counts.
#[cfg(all(feature = "perfetto", target_arch = "x86_64"))]
#[inline(always)]
pub(crate) fn counter() -> u64 {
    // SAFETY: every x86-64 processor has this instruction.
    unsafe { std::arch::x86_64::_rdtsc() }
}

#[cfg(all(feature = "perfetto", not(target_arch = "x86_64")))]
pub(crate) fn counter() -> u64 {
    now()
}

/// *Hook.* Sleeps until woken, at most `nanos` nanoseconds; returns at once if `*word != expected`.
pub(crate) fn wait(word: &AtomicU32, expected: u32, nanos: u64) {
    let _errno = KeepErrno::new();
    let timeout = libc::timespec {
        tv_sec: (nanos / 1_000_000_000) as _,
        tv_nsec: (nanos % 1_000_000_000) as _,
    };
    // SAFETY: the word outlives the call, the timeout is read only.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
            expected,
            &raw const timeout,
        )
    };
}

/// *Hook.* Wakes all threads that sleep on `word`.
pub(crate) fn wake_all(word: &AtomicU32) {
    let _errno = KeepErrno::new();
    // SAFETY: waking takes the address only as a key.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
            c_int::MAX,
        )
    };
}

const MEMBARRIER_PRIVATE_EXPEDITED: c_int = 1 << 3;
const MEMBARRIER_REGISTER_PRIVATE_EXPEDITED: c_int = 1 << 4;

/// Whether [`barrier_on_all_threads`] works in this process. Must be called once before the barrier
/// is used.
pub(crate) fn register_barrier() -> bool {
    // SAFETY: registers an intent, touches no memory.
    unsafe { libc::syscall(libc::SYS_membarrier, MEMBARRIER_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0 }
}

/// Makes every running thread of the process pass a full memory barrier.
pub(crate) fn barrier_on_all_threads() {
    // SAFETY: a barrier touches no memory.
    unsafe { libc::syscall(libc::SYS_membarrier, MEMBARRIER_PRIVATE_EXPEDITED, 0, 0) };
}

/// *Hook.* The kernel's id of the calling thread.
pub(crate) fn thread_id() -> u32 {
    // SAFETY: always succeeds.
    unsafe { libc::syscall(libc::SYS_gettid) as u32 }
}

/// *Hook.* The process id.
///
/// NOTE: not by std: what calls its function from C gets a path that panics, in case it does.
pub(crate) fn process_id() -> u32 {
    // SAFETY: always allowed.
    unsafe { libc::getpid() }.cast_unsigned()
}

/// The process that has started this one, or that has inherited it.
pub(crate) fn parent_process_id() -> u32 {
    std::os::unix::process::parent_id()
}

/// *Hook.* The name of the calling thread.
pub(crate) fn thread_name() -> ThreadName {
    let _errno = KeepErrno::new();
    let mut name = [0; 16];
    // SAFETY: the call writes at most 16 bytes.
    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    name
}

/// The name of another thread of this process; `None` if the thread has ended.
pub(crate) fn thread_name_of(id: u32) -> Option<ThreadName> {
    let text = std::fs::read(format!("/proc/self/task/{id}/comm")).ok()?;
    let text = text.strip_suffix(b"\n").unwrap_or(&text);
    let mut name = [0; 16];
    let size = text.len().min(15);
    name.get_mut(..size)?.copy_from_slice(text.get(..size)?);
    Some(name)
}

/// Registers a function that the system calls when the process exits by `quick_exit`.
pub(crate) fn at_quick_exit(function: extern "C" fn()) {
    unsafe extern "C" {
        fn at_quick_exit(function: extern "C" fn()) -> c_int;
    }
    // SAFETY: the function lives as long as the program.
    unsafe { at_quick_exit(function) };
}

/// Whether this process has a thread with this id.
#[inline]
pub(crate) fn is_thread_alive(id: u32) -> bool {
    // SAFETY: signal 0 is never delivered; the location is valid for the calling thread.
    // NOTE: not by `io::Error`, which has a destructor that may panic: the end of a thread asks, too.
    unsafe {
        let sent = libc::syscall(libc::SYS_tgkill, process_id(), id, 0);
        sent == 0 || *libc::__errno_location() != libc::ESRCH
    }
}

/// The round of a thread's destructors in which the function of [`on_thread_exit`] runs: the last
/// of the four rounds in which glibc calls a destructor that sets its key again. Under the thread
/// sanitizer it is the third: in the fourth, the sanitizer forgets the thread before our function
/// runs, and instrumented code would crash.
const DESTRUCTOR_ROUNDS: usize = if cfg!(thread_sanitizer) { 3 } else { 4 };
const NO_KEY: usize = usize::MAX;
static KEY: AtomicUsize = AtomicUsize::new(NO_KEY);

/// The function that runs at the end of a thread.
static AT_THREAD_EXIT: AtomicPtr<extern "C" fn()> = AtomicPtr::new(ptr::null_mut());

/// *Hook.* Registers `run`, which is the same in all calls, to be called when this thread ends, as
/// late as possible: in the last round of its destructors. If the process has no free thread key,
/// this returns `false`, and the worker detects later that the thread has ended.
///
/// NOTE: if the program has taken 32 keys before `main`, glibc allocates the value of the tracker's
/// key with its own `calloc`, once per thread. At that point, neither glibc nor the tracker holds a
/// lock that the other needs.
pub(crate) fn on_thread_exit(run: &'static extern "C" fn()) -> bool {
    AT_THREAD_EXIT.store(ptr::from_ref(run).cast_mut(), Ordering::Release);
    await_thread_exit()
}

/// *Hook.* As [`on_thread_exit`], with the function that was registered last, if any was.
fn await_thread_exit() -> bool {
    let Some(key) = exit_key() else { return false };
    // NOTE: in a thread that ends, the rounds are counted already.
    // SAFETY: the key exists.
    if unsafe { libc::pthread_getspecific(key as libc::pthread_key_t) }.is_null() {
        arm_thread_exit(key, 1);
    }
    true
}

/// The key of the function that runs at a thread's end. The first call creates the key.
fn exit_key() -> Option<usize> {
    let key = KEY.load(Ordering::Acquire);
    if key != NO_KEY {
        return Some(key);
    }
    let mut created = 0;
    // SAFETY: `created` is valid for writing; the destructor has the required form.
    if unsafe { libc::pthread_key_create(&raw mut created, Some(thread_exits)) } != 0 {
        return None;
    }
    match KEY.compare_exchange(NO_KEY, created as usize, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => Some(created as usize),
        Err(existing) => {
            // SAFETY: another thread was faster; no other code has this key.
            unsafe { libc::pthread_key_delete(created) };
            Some(existing)
        }
    }
}

fn arm_thread_exit(key: usize, round: usize) {
    // SAFETY: the key exists; the value is a number, never dereferenced.
    unsafe {
        libc::pthread_setspecific(key as libc::pthread_key_t, ptr::without_provenance(round))
    };
}

extern "C" fn thread_exits(round: *mut c_void) {
    let round = round.addr();
    if round < DESTRUCTOR_ROUNDS {
        arm_thread_exit(KEY.load(Ordering::Acquire), round + 1);
    } else {
        // SAFETY: only references to statics are stored there.
        let run = unsafe { AT_THREAD_EXIT.load(Ordering::Acquire).as_ref() };
        run.inspect(|run| run());
        last_thread::thread_ends();
    }
}

/// Registers functions that the system calls at every fork: before it, and after it in the parent
/// and in the child.
pub(crate) fn at_fork(before: extern "C" fn(), parent: extern "C" fn(), child: extern "C" fn()) {
    let [before, parent, child] =
        [before, parent, child].map(|function| Some(function as unsafe extern "C" fn()));
    // SAFETY: the functions live as long as the program.
    unsafe { libc::pthread_atfork(before, parent, child) };
}

/// Registers a function that the system calls in the child of every fork.
#[cfg(redirects)]
pub(crate) fn in_children(child: extern "C" fn()) {
    // SAFETY: the function lives as long as the program.
    unsafe { libc::pthread_atfork(None, None, Some(child)) };
}

/// Registers a function that the system calls when the process exits by return from `main` or by
/// `exit`.
pub(crate) fn at_exit(function: extern "C" fn()) {
    // SAFETY: the function lives as long as the program.
    unsafe { libc::atexit(function) };
}

unsafe extern "C" {
    fn secure_getenv(name: *const c_char) -> *const c_char;
}

/// Whether a variable of the environment begins with `prefix`. Allocates nothing. Must be called
/// only before `main`, because the program may change its environment later.
pub(crate) fn has_env(prefix: &[u8]) -> bool {
    unsafe extern "C" {
        static environ: *const *const c_char;
    }
    // SAFETY: the system ends the list with a null, and each entry with a NUL; before `main` no
    // thread changes it.
    unsafe {
        let mut entry = environ;
        while !entry.is_null() && !(*entry).is_null() {
            if CStr::from_ptr(*entry).to_bytes().starts_with(prefix) {
                return true;
            }
            entry = entry.add(1);
        }
    }
    false
}

/// An environment variable, unless the program runs with more rights than its user.
pub(crate) fn secure_env(name: &CStr) -> Option<std::ffi::OsString> {
    use std::os::unix::ffi::OsStringExt;
    // SAFETY: the result is a NUL-terminated string or null; it is copied at once.
    unsafe {
        let value = secure_getenv(name.as_ptr());
        (!value.is_null())
            .then(|| std::ffi::OsString::from_vec(CStr::from_ptr(value).to_bytes().to_vec()))
    }
}

/// How long a write waits for the reader of a full pipe. The end of a recording waits longer than
/// this for its worker, so a full pipe does not affect the report.
const WRITE_TIMEOUT_MS: c_int = 3_000;

/// Writes some of `bytes` to a file. Waits at most 3 s for a pipe that is full.
pub(crate) fn write_file(file: &File, bytes: &[u8]) -> io::Result<usize> {
    write_some(file.as_raw_fd(), bytes)
}

fn write_some(fd: RawFd, bytes: &[u8]) -> io::Result<usize> {
    loop {
        // SAFETY: the buffer is valid for its length.
        let written = unsafe { libc::write(fd, bytes.as_ptr().cast(), bytes.len()) };
        match written {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            1.. => return Ok(written as usize),
            _ => {}
        }
        let error = io::Error::last_os_error();
        match error.kind() {
            io::ErrorKind::Interrupted => {}
            io::ErrorKind::WouldBlock => {
                let mut poll = libc::pollfd { fd, events: libc::POLLOUT, revents: 0 };
                // SAFETY: one valid entry.
                if unsafe { libc::poll(&raw mut poll, 1, WRITE_TIMEOUT_MS) } == 0 {
                    return Err(io::Error::new(
                        io::ErrorKind::TimedOut,
                        "nobody has read from it for 3 s",
                    ));
                }
            }
            _ => return Err(error),
        }
    }
}

/// Writes all of `bytes` to a descriptor.
pub(crate) fn write_all(fd: RawFd, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let written = write_some(fd, bytes)?;
        bytes = bytes.get(written..).unwrap_or_default();
    }
    Ok(())
}

/// Makes the system detect a lost connection: after 10 s of silence, it sends three probes, 5 s
/// apart. It also closes the connection if sent bytes are not acknowledged for 30 s.
pub(crate) fn watch_connection(stream: &TcpStream) -> io::Result<()> {
    let options = [
        (libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1),
        (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, 10),
        (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, 5),
        (libc::IPPROTO_TCP, libc::TCP_KEEPCNT, 3),
        (libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, 30_000),
    ];
    for (level, option, value) in options {
        let value: c_int = value;
        let size = size_of::<c_int>() as libc::socklen_t;
        let at = (&raw const value).cast();
        // SAFETY: the value is a local of this size.
        if unsafe { libc::setsockopt(stream.as_raw_fd(), level, option, at, size) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// The number by which the system knows an open file.
pub(crate) fn descriptor(file: &File) -> RawFd {
    file.as_raw_fd()
}

/// The identity of an open file: device and inode. `None` if it is not open.
pub(crate) fn identity(file: &impl AsRawFd) -> Option<(u64, u64)> {
    // SAFETY: the structure is valid for writing; a number that is not open is an error.
    unsafe {
        let mut status = std::mem::zeroed::<libc::stat>();
        (libc::fstat(file.as_raw_fd(), &raw mut status) == 0)
            .then_some((status.st_dev, status.st_ino))
    }
}

/// Whether a descriptor is a terminal.
pub(crate) fn is_terminal(fd: RawFd) -> bool {
    // SAFETY: takes a number, touches no memory.
    unsafe { libc::isatty(fd) == 1 }
}

/// The columns of a terminal; `None` if `fd` is not a terminal, or its width is unknown.
pub(crate) fn terminal_width(fd: RawFd) -> Option<usize> {
    // SAFETY: all zeros are a valid value of this structure, and it is valid for writing.
    unsafe {
        let mut size = std::mem::zeroed::<libc::winsize>();
        let known = libc::ioctl(fd, libc::TIOCGWINSZ, &raw mut size) == 0 && size.ws_col > 0;
        known.then_some(usize::from(size.ws_col))
    }
}

/// Waits at most `timeout` until `listener` has a new client, or one of `clients` has bytes or has
/// closed its connection. Returns which of them are ready.
pub(crate) fn readable(
    listener: &TcpListener,
    clients: &[RawFd],
    timeout: Duration,
) -> io::Result<(bool, Vec<bool>)> {
    let watch = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    let mut watched: Vec<_> =
        std::iter::once(listener.as_raw_fd()).chain(clients.iter().copied()).map(watch).collect();
    // Rounded up, so that the call does not return early.
    let millis = timeout.as_micros().div_ceil(1000).try_into().unwrap_or(c_int::MAX);
    // SAFETY: the entries are valid, and this is their number.
    let result = unsafe { libc::poll(watched.as_mut_ptr(), watched.len() as libc::nfds_t, millis) };
    if result < 0 {
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
        watched.iter_mut().for_each(|entry| entry.revents = 0);
    }
    let mut ready = watched.iter().map(|entry| entry.revents != 0);
    Ok((ready.next().unwrap_or(false), ready.collect()))
}

/// Sets the permissions of a file to `mode`. Ignores errors: some file systems have no permissions.
pub(crate) fn set_mode(file: &File, mode: u32) {
    let _ = file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(mode));
}

/// Makes a socket stop listening, in every process that has it.
pub(crate) fn stop_listening(listener: &TcpListener) {
    // SAFETY: plain system call on an open socket.
    unsafe { libc::shutdown(listener.as_raw_fd(), libc::SHUT_RDWR) };
}

/// Creates the file `name` in `folder`; only its owner can read and write it. Fails if the name
/// exists, as a file, a pipe or a link. `name` must have no slash, so that it does not leave the
/// folder.
pub(crate) fn create_in(folder: &Path, name: impl AsRef<OsStr>) -> io::Result<File> {
    let name = std::ffi::CString::new(name.as_ref().as_encoded_bytes())?;
    let folder = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_DIRECTORY | libc::O_NONBLOCK)
        .open(folder)?;
    let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW | libc::O_CLOEXEC;
    // SAFETY: the name ends with a NUL; the descriptor is open for the length of the call.
    let file = unsafe { libc::openat(folder.as_raw_fd(), name.as_ptr(), flags, 0o600) };
    if file < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new, so nothing else owns it.
    Ok(unsafe { File::from_raw_fd(file) })
}
