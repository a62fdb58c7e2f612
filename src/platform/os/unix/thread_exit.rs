//! What runs at the end of a thread.

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// The round of a thread's destructors in which the function of [`on_thread_exit`] runs: the last
/// of the four rounds in which glibc and macOS call a destructor that sets its key again. Under the thread
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
pub(in crate::platform::os) fn await_thread_exit() -> bool {
    let Some(key) = exit_key() else { return false };
    // NOTE: in a thread that ends, the rounds are counted already.
    // SAFETY: the key exists.
    if unsafe { libc::pthread_getspecific(key as libc::pthread_key_t) }.is_null() {
        arm_thread_exit(key, 1);
    }
    true
}

/// The key of the function that runs at a thread's end. The first call creates the key.
pub(in crate::platform::os) fn exit_key() -> Option<usize> {
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
        super::super::thread_ends();
    }
}
