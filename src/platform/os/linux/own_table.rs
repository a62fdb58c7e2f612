//! The table of descriptors that the tracker's threads have for themselves.
//!
//! ```text
//! the program's table                      the tracker's table
//!   the program's threads                    table thread    makes the tracker's other threads
//!   stderr thread   writes to stderr         worker, sinks, control server, helper threads
//! ```
//! So the program does not see, close, inherit or count a descriptor of the tracker. Three kinds of threads
//! exist for this:
//!
//! - The *table thread* leaves the program's table when it starts. A thread begins with the table of the one
//!   that makes it, so this one makes all others of the tracker. It also does what a call of the program has
//!   to do with the tracker's descriptors.
//! - The *stderr thread* stays in the program's table, where the standard streams are, and does what the
//!   tracker's threads have to do with those.
//! - A *helper thread* (`trace/entry.rs`) exists for one call of the program.
//!
//! The first two are *on call* (`on_call.rs`): they sleep until they are asked. They exist as long as a
//! recording, or a call of the program, needs them.
//!
//! The table begins with the standard streams of the program, which a watcher inherits. Without Linux 5.9, or
//! where a sandbox allows no thread or no table, the tracker's threads have the program's table, and its
//! descriptors are [kept apart](super::super::unix::descriptors::keep_apart).

use super::super::unix::descriptors::STREAMS;
use super::descriptors::grow_table;
use super::on_call::{Answer, Lock, OnCall, Work};
use super::packed;
use super::threads::{self, Body, STACK};
use super::{process_id, run_on_new_thread, wait, wake_all};
use std::ffi::{c_uint, c_void};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicUsize, Ordering};

/// The most bytes that the stderr thread needs of its stack.
const STDERR_STACK: usize = 64 << 10;

/// How long a thread waits for another that has ended the tracker's threads for a moment.
const PAUSE_TIMEOUT: u64 = 30_000_000_000;

static TABLE_THREAD: OnCall = OnCall::new();
static STDERR_THREAD: OnCall = OnCall::new();
/// Held while the threads are started and ended.
static LOCK: Lock = Lock::new();
/// How many recordings and calls need the threads.
static USERS: AtomicUsize = AtomicUsize::new(0);
/// The process whose tracker has a table of its own; 0 if it has none.
static PROCESS: AtomicU32 = AtomicU32::new(0);
/// The number of the present table.
static TABLE: AtomicU32 = AtomicU32::new(0);
/// Whether the table no longer has the program's standard streams.
static HAS_LEFT_STREAMS: AtomicBool = AtomicBool::new(false);
/// The body of both threads.
static BODY: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
/// The thread that has ended the tracker's threads for a moment; 0 if there is none.
static CLOSED_BY: AtomicU32 = AtomicU32::new(0);
/// What starts them again, if that thread needs them.
static RESUME: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// The argument of the body that is the table thread's; the stderr thread has another one.
const IS_TABLE_THREAD: usize = 1;

/// A descriptor that the tracker's next table takes from the program's; -1 if there is none.
static TAKEN: AtomicI32 = AtomicI32::new(-1);

/// A descriptor that is in the program's table until the tracker has its own, which takes it by its number.
/// The program's is closed when this is dropped.
pub(crate) struct InProgramTable {
    number: RawFd,
    identity: Option<(u64, u64)>,
}

impl InProgramTable {
    pub(crate) fn new(descriptor: &File) -> Self {
        let number = descriptor.as_raw_fd();
        TAKEN.store(number, Ordering::Release);
        Self { number, identity: super::identity(descriptor) }
    }
}

impl Drop for InProgramTable {
    fn drop(&mut self) {
        TAKEN.store(-1, Ordering::Release);
        // NOTE: without a table of its own, its owner has closed it.
        if self.identity.is_some() && super::identity(&self.number) == self.identity {
            // SAFETY: it is the same file, and nothing in this table uses it any more.
            unsafe { libc::close(self.number) };
        }
    }
}

/// What the tracker's descriptors wait in while its threads are ended; nothing without a table.
pub(crate) struct Packed(Option<OwnedFd>);

/// While it exists, the tracker's table does.
pub(crate) struct OwnTable(());

impl OwnTable {
    /// Starts the two threads if nothing needs them yet, and if a table is `wanted`. `body` calls [`serve`],
    /// with the guard of the tracker's own code set.
    pub(crate) fn enter(wanted: bool, body: Body) -> Self {
        end_pause();
        // Without the lock, which another thread has for too long, there is the table that there is.
        let is_locked = LOCK.lock(PAUSE_TIMEOUT);
        if USERS.fetch_add(1, Ordering::AcqRel) == 0 && wanted && is_locked {
            BODY.store(body as *mut c_void, Ordering::Release);
            start_both();
        }
        if is_locked {
            LOCK.unlock();
        }
        Self(())
    }

    /// For a recording that begins in a call for which the threads exist.
    pub(crate) fn share() -> Self {
        USERS.fetch_add(1, Ordering::AcqRel);
        Self(())
    }
}

impl Drop for OwnTable {
    fn drop(&mut self) {
        let is_locked = LOCK.lock(PAUSE_TIMEOUT);
        let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
        let less = |users: usize| Some(users.saturating_sub(1));
        let users = USERS.fetch_update(success, failure, less).unwrap_or(0);
        if users <= 1 && is_locked && is_active() {
            PROCESS.store(0, Ordering::Release);
            TABLE_THREAD.dismiss();
            STDERR_THREAD.dismiss();
        }
        if is_locked {
            LOCK.unlock();
        }
    }
}

fn start_both() {
    HAS_LEFT_STREAMS.store(false, Ordering::Release);
    let body = BODY.load(Ordering::Acquire);
    // SAFETY: only functions of this type are stored there.
    let body = unsafe { std::mem::transmute::<*mut c_void, Body>(body) };
    let make = |argument: usize, stack| {
        // SAFETY: the argument is a number.
        unsafe { threads::create_here(body, ptr::without_provenance_mut(argument), stack, false) }
    };
    let are_ready = STDERR_THREAD.start(|| make(0, STDERR_STACK))
        && TABLE_THREAD.start(|| make(IS_TABLE_THREAD, STACK));
    if are_ready {
        PROCESS.store(process_id(), Ordering::Release);
    } else {
        STDERR_THREAD.dismiss();
    }
}

/// What the two threads do, until nothing needs them. One of them begins with a table of its own.
pub(crate) fn serve(argument: usize) {
    if argument != IS_TABLE_THREAD {
        super::name_thread(c"memledger-err");
        return STDERR_THREAD.serve();
    }
    super::name_thread(c"memledger-fds");
    let packed = packed::take();
    let taken = TAKEN.load(Ordering::Acquire);
    if unshare(packed.or((taken >= 0).then_some(taken))).is_err() {
        return TABLE_THREAD.fail();
    }
    grow_table();
    threads::set_table_of_this_thread(TABLE.fetch_add(1, Ordering::AcqRel) + 1);
    if let Some(packed) = packed {
        packed::unpack(packed);
        leave_streams();
    }
    TABLE_THREAD.serve();
}

/// Gives this thread a table of its own with the standard streams and `kept`. Others are not in it at any
/// time: a copy of a pipe of the program would keep its reader from seeing the end.
fn unshare(kept: Option<RawFd>) -> io::Result<()> {
    let close = |first: c_uint, last: c_uint, flags: c_uint| {
        // SAFETY: only the copies in this thread's own table are closed.
        match unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    };
    let first = STREAMS as c_uint;
    match kept.map(|kept| kept as c_uint) {
        Some(kept) if kept > first => {
            close(first, kept - 1, libc::CLOSE_RANGE_UNSHARE)?;
            close(kept + 1, c_uint::MAX, 0)
        }
        kept => close(kept.map_or(first, |kept| kept + 1), c_uint::MAX, libc::CLOSE_RANGE_UNSHARE),
    }
}

/// Whether the tracker of this process has a table of its own.
pub(super) fn is_active() -> bool {
    PROCESS.load(Ordering::Acquire) == process_id()
}

/// Whether the calling thread has the present table.
fn is_in_own_table() -> bool {
    let table = threads::table_of_this_thread();
    table != 0 && table == TABLE.load(Ordering::Acquire)
}

/// Makes the table thread run `work`, if this thread has not the tracker's table but should.
/// [`Answer::Absent`] if it need not, or if there is no table.
pub(super) fn ask_table_thread(work: Work<'_>) -> Answer {
    end_pause();
    match is_active() && !is_in_own_table() {
        true => TABLE_THREAD.ask(work),
        false => Answer::Absent,
    }
}

/// Runs `body` on a thread that has the tracker's table: this one, or the table thread. `None` if that one
/// does not answer.
///
/// PERF: not on a thread that exists only for this, which costs a call of the program four times as much.
pub(crate) fn run_in_own_table<R: Send>(body: impl FnOnce() -> R + Send) -> Option<R> {
    let (mut body, mut result) = (Some(body), None);
    let answer = ask_table_thread(&mut || result = body.take().map(|body| body()));
    match answer {
        Answer::Done => result,
        Answer::Absent => body.map(|body| body()),
        Answer::Missing => None,
    }
}

/// Runs `body` on the table thread; on a new thread if there is none.
pub(crate) fn run_on_table_thread<R: Send>(body: impl FnOnce() -> R + Send) -> R {
    let (mut body, mut result) = (Some(body), None);
    if is_active() {
        TABLE_THREAD.ask(&mut || result = body.take().map(|body| body()));
    }
    match body {
        Some(body) => run_on_new_thread(STACK, body),
        None => result.unwrap_or_else(|| unreachable!("it has run")),
    }
}

/// Runs `body`, which uses little stack, on a thread that has the program's table. `None` if the stderr
/// thread does not answer.
pub(crate) fn run_in_program_table<R: Send>(body: impl Fn() -> R + Send + Sync) -> Option<R> {
    let (mut result, mut answer) = (None, Answer::Absent);
    if threads::table_of_this_thread() != 0 {
        answer = STDERR_THREAD.ask(&mut || result = Some(body()));
    }
    match answer {
        Answer::Done => result,
        Answer::Absent => Some(body()),
        Answer::Missing => None,
    }
}

/// Writes to the standard error that the program has at this moment.
pub(crate) fn write_to_stderr(bytes: &[u8]) -> io::Result<()> {
    run_in_program_table(|| super::write_all(2, bytes))
        .unwrap_or_else(|| Err(io::ErrorKind::TimedOut.into()))
}

/// Replaces the standard streams in the tracker's table, which a watcher has inherited by now.
pub(crate) fn leave_streams() {
    if !is_in_own_table() || HAS_LEFT_STREAMS.swap(true, Ordering::AcqRel) {
        return;
    }
    // SAFETY: the table is the tracker's own, and nothing in it uses these numbers.
    unsafe {
        let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC);
        for stream in 0..STREAMS {
            if null < 0 {
                libc::close(stream);
            } else if null != stream {
                libc::dup3(null, stream, libc::O_CLOEXEC);
            }
        }
        if null >= STREAMS {
            libc::close(null);
        }
    }
}

/// The tracker's threads have ended but for the table thread and the stderr thread.
///
/// Ends these two as well; returns what the table's descriptors wait in.
///
/// # Errors
/// Those of the system. The two threads exist then as before.
pub(crate) fn pack() -> io::Result<Packed> {
    let socket = if is_active() { Some(packed::pack(&TABLE_THREAD)?) } else { None };
    PROCESS.store(0, Ordering::Release);
    TABLE_THREAD.dismiss();
    STDERR_THREAD.dismiss();
    Ok(Packed(socket))
}

/// Starts the two threads again, with the table that they had.
///
/// # Errors
/// If they cannot be started. What the table had is closed then.
pub(crate) fn unpack(Packed(socket): Packed) -> io::Result<()> {
    let Some(socket) = socket else { return Ok(()) };
    packed::hand_over(&socket);
    start_both();
    if is_active() {
        return Ok(());
    }
    packed::take();
    Err(io::Error::other("the system allows no thread any more"))
}

/// From here on, no other thread of the program makes a thread of the tracker. Waits while another one has
/// closed the gate; `false` if this one has. If it needs the tracker's threads before it opens the gate,
/// `resume` is called.
pub(crate) fn close_gate(resume: fn()) -> bool {
    let this = super::thread_id();
    let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
    loop {
        match CLOSED_BY.compare_exchange(0, this, success, failure) {
            Ok(_) => break,
            Err(by) if by == this => return false,
            Err(_) if !wait_for_gate() => return false,
            Err(_) => {}
        }
    }
    RESUME.store(resume as *mut c_void, Ordering::Release);
    true
}

/// The opposite of [`close_gate`].
pub(crate) fn open_gate() {
    CLOSED_BY.store(0, Ordering::Release);
    wake_all(&CLOSED_BY);
}

/// How many threads the table itself needs.
pub(crate) fn table_threads() -> usize {
    if is_active() { 2 } else { 0 }
}

/// Starts the tracker's threads again if this thread has ended them for a moment, and waits if another one
/// has.
fn end_pause() {
    if CLOSED_BY.load(Ordering::Acquire) == 0 {
        return;
    }
    if CLOSED_BY.load(Ordering::Acquire) == super::thread_id() {
        let resume = RESUME.load(Ordering::Acquire);
        // SAFETY: this thread has stored a function of this type there.
        unsafe { std::mem::transmute::<*mut c_void, fn()>(resume)() };
    }
    wait_for_gate();
}

/// Waits until no other thread has closed the gate; `false` if that takes too long.
fn wait_for_gate() -> bool {
    let begin = super::now();
    loop {
        let by = CLOSED_BY.load(Ordering::Acquire);
        if by == 0 || by == super::thread_id() {
            return true;
        }
        match PAUSE_TIMEOUT.saturating_sub(super::now().saturating_sub(begin)) {
            0 => return false,
            left => wait(&CLOSED_BY, by, left),
        }
    }
}

/// In the child of a fork, which has none of these threads.
pub(crate) fn forget_threads() {
    [&TABLE_THREAD, &STDERR_THREAD].into_iter().for_each(OnCall::forget);
    LOCK.open();
    USERS.store(0, Ordering::Release);
    PROCESS.store(0, Ordering::Release);
    CLOSED_BY.store(0, Ordering::Release);
    threads::forget_all();
}
