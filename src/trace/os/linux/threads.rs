//! Threads of the tracker's own.

use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use std::{io, ptr};

/// Bytes of stack for what the tracker itself does on a thread.
///
/// NOTE: asked for, since the default is the program's: 128 KiB on musl, and what `ulimit -s` says
/// on glibc, down to 16 KiB. The tracker needs 71 KiB without optimisation, 87 KiB on musl (file,
/// report, control server, late streams; found by halving); a resolver that looks up a recorder's
/// name can take 128 KiB more. Pages that nobody uses take addresses only.
const STACK: usize = 1 << 20;

type Body = extern "C" fn(*mut c_void) -> *mut c_void;

/// Starts `body` on a thread of its own, with `argument`. It [names](name_thread) itself.
pub(crate) fn spawn(body: Body, argument: usize) -> io::Result<()> {
    // SAFETY: the argument is a number.
    let created = unsafe { create(body, ptr::without_provenance_mut(argument), true) };
    created.map(|_| ()).map_err(io::Error::from_raw_os_error)
}

/// Names the calling thread, at most 15 bytes.
///
/// NOTE: the thread does that itself. Who has started a detached one does not know that it is still
/// there.
pub(crate) fn name_thread(name: &CStr) {
    // SAFETY: the name ends with a NUL.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
}

/// Runs `body` on a thread of its own and waits for it; on this thread, if there can be no other.
///
/// What it allocates then lies in another arena than the program's blocks, and does not change
/// what becomes of those.
pub(crate) fn run_apart<R: Send, F: FnOnce() -> R + Send>(body: F) -> R {
    struct Work<F, R> {
        body: Option<F>,
        result: Option<R>,
    }
    impl<R, F: FnOnce() -> R> Work<F, R> {
        fn run(&mut self) {
            if let Some(body) = self.body.take() {
                self.result = Some(body());
            }
        }
    }
    extern "C" fn run<R, F: FnOnce() -> R>(shared: *mut c_void) -> *mut c_void {
        // SAFETY: both lie in the frame below, which waits for `done`. Until then the work is this
        // thread's alone.
        let (work, done) = unsafe { *shared.cast::<(*mut Work<F, R>, *const AtomicU32)>() };
        // SAFETY: as above.
        unsafe { (*work).run() };
        // SAFETY: as above; for the last time.
        let done = unsafe { &*done };
        done.store(1, Ordering::Release);
        super::wake_all(done);
        ptr::null_mut()
    }
    let mut work = Work { body: Some(body), result: None };
    let done = AtomicU32::new(0);
    let mut shared = (&raw mut work, &raw const done);
    // SAFETY: what the thread is given lives until it is done.
    match unsafe { create(run::<R, F>, (&raw mut shared).cast(), false) } {
        Ok(thread) => {
            // SAFETY: the thread was just made, to be joined.
            unsafe { libc::pthread_join(thread, ptr::null_mut()) };
            // NOTE: whatever became of that, the thread has this frame until it says so.
            while done.load(Ordering::Acquire) == 0 {
                super::wait(&done, 0, 1_000_000_000);
            }
        }
        Err(_) => work.run(),
    }
    work.result.unwrap_or_else(|| unreachable!("it has run"))
}

/// Makes a thread with all signals blocked: signals are the program's.
///
/// # Safety
/// What `argument` points to is for `body` to use on another thread.
unsafe fn create(
    body: Body,
    argument: *mut c_void,
    detached: bool,
) -> Result<libc::pthread_t, c_int> {
    // SAFETY: plain calls on local values.
    unsafe {
        let mut attributes = std::mem::zeroed::<libc::pthread_attr_t>();
        libc::pthread_attr_init(&raw mut attributes);
        if detached {
            libc::pthread_attr_setdetachstate(&raw mut attributes, libc::PTHREAD_CREATE_DETACHED);
        }
        let stack = (STACK + not_ours(&raw const attributes)).next_multiple_of(4096);
        libc::pthread_attr_setstacksize(&raw mut attributes, stack);
        let (mut all, mut before) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        let mut thread = std::mem::zeroed();
        let error = libc::pthread_create(&raw mut thread, &raw const attributes, body, argument);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, ptr::null_mut());
        libc::pthread_attr_destroy(&raw mut attributes);
        if error == 0 { Ok(thread) } else { Err(error) }
    }
}

/// Bytes of a thread's stack that the system takes for itself: glibc puts the thread-local
/// variables of the whole program there, which can be more than all else.
fn not_ours(attributes: *const libc::pthread_attr_t) -> usize {
    type MinimalStack = unsafe extern "C" fn(*const libc::pthread_attr_t) -> usize;
    let function = MINIMAL_STACK.load(Ordering::Acquire);
    if function.is_null() {
        return libc::PTHREAD_STACK_MIN;
    }
    // SAFETY: glibc's function of this name has this form since 2.15.
    unsafe { std::mem::transmute::<*mut c_void, MinimalStack>(function)(attributes) }
}

/// glibc's `__pthread_get_minstack`; null where there is none.
static MINIMAL_STACK: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// Looks for what [`not_ours`] asks, as std does: it is no interface that one could link against.
///
/// NOTE: before `main`, on the thread that loads this. Looking for it takes the loader's lock, which
/// that thread has while it waits for one of the tracker's to start a recording.
pub(super) fn find_minimal_stack() {
    #[cfg(all(target_env = "gnu", not(target_feature = "crt-static")))]
    {
        // SAFETY: the name ends with a NUL.
        let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__pthread_get_minstack".as_ptr()) };
        MINIMAL_STACK.store(found, Ordering::Release);
    }
}
