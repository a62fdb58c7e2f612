//! Threads of the tracker, on a system that cannot say which threads of a process those are: they are
//! counted. See `linux/threads.rs` for the other way.
#![expect(unsafe_code, reason = "what a thread is to do is passed through a pointer")]

use super::{StartedThread, give_memory_back, is_ending, process_id, start_thread, take_memory};
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;
use std::{io, ptr};

/// Bytes of stack for the tracker's own code on a thread. Pages that are not touched cost only addresses.
pub(crate) const STACK: usize = 1 << 20;

pub(crate) type Body = extern "C" fn(*mut c_void) -> *mut c_void;

/// How many threads of the tracker have not ended.
static RUNNING: AtomicUsize = AtomicUsize::new(0);

/// The process whose threads these are: the child of a fork has none.
static OWNER: AtomicU32 = AtomicU32::new(0);

/// What a new thread is to do.
struct Task {
    body: Body,
    argument: *mut c_void,
}

/// Starts `body` on a new thread, with `argument`. The thread [names](super::name_thread) itself.
pub(crate) fn spawn(body: Body, argument: usize) -> io::Result<()> {
    create(Task { body, argument: ptr::without_provenance_mut(argument) }, STACK)?.detach();
    Ok(())
}

/// NOTE: what the thread is to do is passed in the system's memory: it is given back on the new thread, which
/// does not yet hold the guard of the tracker's own code.
fn create(task: Task, stack: usize) -> io::Result<StartedThread> {
    let passed = take_memory(size_of::<Task>()).cast::<Task>();
    if passed.is_null() {
        return Err(io::ErrorKind::OutOfMemory.into());
    }
    // SAFETY: the memory has the size of what is written, and is the thread's if it can be made.
    unsafe { passed.write(task) };
    OWNER.store(process_id(), Ordering::Release);
    RUNNING.fetch_add(1, Ordering::AcqRel);
    let started = start_thread(passed.cast(), stack);
    if started.is_err() {
        RUNNING.fetch_sub(1, Ordering::AcqRel);
        give_memory_back(passed.cast());
    }
    started
}

/// What each thread does, with what [`create`] has passed to it.
///
/// # Safety
/// Only for what `create` has passed to this thread.
pub(super) unsafe fn run_task(passed: *mut c_void) {
    // SAFETY: the caller's promise.
    let Task { body, argument } = unsafe { passed.cast::<Task>().read() };
    give_memory_back(passed);
    body(argument);
    RUNNING.fetch_sub(1, Ordering::AcqRel);
}

/// Runs `body` on a new thread with this many bytes of stack for it, and waits; runs it on this thread if
/// none can be created.
///
/// The allocations of `body` then do not change where the program's blocks are placed.
///
/// NOTE: where no thread begins while this one ends, `body` runs here: a wait for it would last for ever.
pub(crate) fn run_on_new_thread<R: Send, F: FnOnce() -> R + Send>(stack: usize, body: F) -> R {
    struct Work<F, R> {
        body: Option<F>,
        result: Option<R>,
        is_done: AtomicBool,
    }
    extern "C" fn run<R, F: FnOnce() -> R>(work: *mut c_void) -> *mut c_void {
        let work = work.cast::<Work<F, R>>();
        // SAFETY: it is in the frame below, which waits for this thread and does not use it meanwhile.
        unsafe {
            let body = (*work).body.take();
            (*work).result = body.map(|body| body());
            (*work).is_done.store(true, Ordering::Release);
        }
        ptr::null_mut()
    }
    if is_ending() {
        return body();
    }
    let mut work = Work { body: Some(body), result: None, is_done: AtomicBool::new(false) };
    let argument = (&raw mut work).cast();
    match create(Task { body: run::<R, F>, argument }, stack) {
        Ok(thread) => {
            thread.join();
            // NOTE: even if the join failed, the thread uses this frame until then.
            // SAFETY: the flag is in the frame above.
            while !unsafe { &(*argument.cast::<Work<F, R>>()).is_done }.load(Ordering::Acquire) {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        Err(_) => _ = run::<R, F>(argument),
    }
    work.result.unwrap_or_else(|| unreachable!("it has run"))
}

/// Whether the tracker has threads in this process.
pub(crate) fn has_own_threads() -> bool {
    OWNER.load(Ordering::Acquire) == process_id() && RUNNING.load(Ordering::Acquire) > 0
}

/// Waits until no more than `most` of the tracker's threads run; `false` if more still do after `timeout`.
pub(crate) fn wait_for_ends(most: usize, timeout: Duration) -> bool {
    let begin = super::now();
    while RUNNING.load(Ordering::Acquire) > most {
        if super::now().saturating_sub(begin) > timeout.as_nanos() as u64 {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    true
}

/// In the child of a fork, which has none of the threads.
pub(crate) fn forget_threads() {
    RUNNING.store(0, Ordering::Release);
}
