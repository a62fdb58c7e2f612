//! Threads of the tracker.

use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use std::{io, ptr};

/// Bytes of stack for the tracker's own code on a thread.
///
/// NOTE: set explicitly, because the default is the program's: 128 KiB on musl, and on glibc the
/// value of `ulimit -s`, down to 16 KiB. The tracker needs 71 KiB without optimisation, 87 KiB on
/// musl (file, report, control server, late streams; found by bisection); a resolver that looks up
/// a recorder's name can take 128 KiB more. Untouched pages cost only address space.
pub(crate) const STACK: usize = 1 << 20;

type Body = extern "C" fn(*mut c_void) -> *mut c_void;

/// Starts `body` on a new thread, with `argument`. The thread [names](name_thread) itself.
pub(crate) fn spawn(body: Body, argument: usize) -> io::Result<()> {
    // SAFETY: the argument is a number.
    let created = unsafe { create(body, ptr::without_provenance_mut(argument), STACK, true) };
    created.map(|_| ()).map_err(io::Error::from_raw_os_error)
}

/// Names the calling thread, at most 15 bytes.
///
/// NOTE: the thread names itself, because the thread that started a detached thread does not know
/// whether that thread still exists.
pub(crate) fn name_thread(name: &CStr) {
    // SAFETY: the name ends with a NUL.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
}

/// Runs `body` on a new thread with this many bytes of stack for it, and waits; runs it on this
/// thread if none can be created.
///
/// The allocations of `body` then come from another arena than the program's blocks, and do not
/// change where those are placed.
pub(crate) fn run_on_new_thread<R: Send, F: FnOnce() -> R + Send>(stack: usize, body: F) -> R {
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
        // SAFETY: both are in the frame below, which waits for `done`. Until then only this thread
        // uses the work.
        let (work, done) = unsafe { *shared.cast::<(*mut Work<F, R>, *const AtomicU32)>() };
        // SAFETY: as above.
        unsafe { (*work).run() };
        // SAFETY: as above; this is the last access to the frame's pointers.
        let done = unsafe { &*done };
        done.store(1, Ordering::Release);
        super::wake_all(done);
        ptr::null_mut()
    }
    let mut work = Work { body: Some(body), result: None };
    let done = AtomicU32::new(0);
    let mut shared = (&raw mut work, &raw const done);
    // SAFETY: the locals passed to the thread live until `done` is set.
    match unsafe { create(run::<R, F>, (&raw mut shared).cast(), stack, false) } {
        Ok(thread) => {
            // SAFETY: the thread was just created joinable, and is joined once.
            unsafe { libc::pthread_join(thread, ptr::null_mut()) };
            // NOTE: even if the join failed, the thread uses this frame until it sets `done`.
            while done.load(Ordering::Acquire) == 0 {
                super::wait(&done, 0, 1_000_000_000);
            }
        }
        Err(_) => work.run(),
    }
    work.result.unwrap_or_else(|| unreachable!("it has run"))
}

/// Creates a thread with all signals blocked, so that the program's own threads handle them.
///
/// # Safety
/// What `argument` points to must be valid for `body`, which uses it on another thread.
unsafe fn create(
    body: Body,
    argument: *mut c_void,
    stack: usize,
    detached: bool,
) -> Result<libc::pthread_t, c_int> {
    // SAFETY: plain calls on local values.
    unsafe {
        let mut attributes = std::mem::zeroed::<libc::pthread_attr_t>();
        libc::pthread_attr_init(&raw mut attributes);
        if detached {
            libc::pthread_attr_setdetachstate(&raw mut attributes, libc::PTHREAD_CREATE_DETACHED);
        }
        let stack = (stack + system_stack_bytes(&raw const attributes)).next_multiple_of(4096);
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

/// Bytes of a thread's stack that the system uses itself: glibc stores the thread-local variables
/// of the whole program there, which can be larger than the rest of the stack.
fn system_stack_bytes(attributes: *const libc::pthread_attr_t) -> usize {
    type MinimalStack = unsafe extern "C" fn(*const libc::pthread_attr_t) -> usize;
    let function = MINIMAL_STACK.load(Ordering::Acquire);
    if function.is_null() {
        return libc::PTHREAD_STACK_MIN;
    }
    // SAFETY: glibc's function of this name has had this signature since 2.15.
    unsafe { std::mem::transmute::<*mut c_void, MinimalStack>(function)(attributes) }
}

/// glibc's `__pthread_get_minstack`; null where there is none.
static MINIMAL_STACK: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// Looks up the function that [`system_stack_bytes`] calls, as std does: it is not an interface to
/// link against.
///
/// NOTE: called before `main`, on the thread that loads this library. The lookup takes the loader's
/// lock. The loading thread holds this lock while it waits for a tracker thread to start a
/// recording, so the tracker thread cannot look up the function itself.
pub(super) fn find_minimal_stack() {
    #[cfg(all(target_env = "gnu", not(target_feature = "crt-static")))]
    {
        // SAFETY: the name ends with a NUL.
        let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__pthread_get_minstack".as_ptr()) };
        MINIMAL_STACK.store(found, Ordering::Release);
    }
}
