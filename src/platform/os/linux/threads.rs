//! Threads of the tracker.

use super::on_call::Answer;
use super::own_table;
use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;
use std::{io, ptr};

/// Bytes of stack for the tracker's own code on a thread.
///
/// NOTE: set explicitly, because the default is the program's: 128 KiB on musl, and on glibc the
/// value of `ulimit -s`, down to 16 KiB. The tracker needs 71 KiB without optimisation, 87 KiB on
/// musl (file, report, control server, late streams; found by bisection); a resolver that looks up
/// a recorder's name can take 128 KiB more. Untouched pages cost only address space.
pub(crate) const STACK: usize = 1 << 20;

pub(crate) type Body = extern "C" fn(*mut c_void) -> *mut c_void;

/// Starts `body` on a new thread, with `argument`. The thread [names](name_thread) itself.
pub(crate) fn spawn(body: Body, argument: usize) -> io::Result<()> {
    // SAFETY: the argument is a number.
    let created = unsafe { create(body, ptr::without_provenance_mut(argument), STACK, true) };
    created.map(|_| ()).map_err(io::Error::from_raw_os_error)
}

/// Names the calling thread, one of the tracker's, at most 15 bytes.
///
/// NOTE: the thread names itself, because the thread that started a detached thread does not know
/// whether that thread still exists.
pub(crate) fn name_thread(name: &CStr) {
    // SAFETY: the name ends with a NUL.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
}

/// The processor time that a thread of this process has taken; `None` if it has ended.
pub(crate) fn processor_time_of(id: u32) -> Option<Duration> {
    // The kernel's number for this clock of a thread: "scheduler", "of one thread".
    let clock = (!id).cast_signed() << 3 | 2 | 4;
    let time = super::clocks::read(clock)?;
    Some(Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
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
        Err(_) => {
            // NOTE: a thread of the program has none of the tracker's descriptors.
            own_table::ask_table_thread(&mut || work.run());
            work.run();
        }
    }
    work.result.unwrap_or_else(|| unreachable!("it has run"))
}

/// Creates a thread that has the tracker's table of descriptors, if there is one.
///
/// # Safety
/// As [`create_here`].
unsafe fn create(
    body: Body,
    argument: *mut c_void,
    stack: usize,
    detached: bool,
) -> Result<libc::pthread_t, c_int> {
    let argument = argument.expose_provenance();
    let mut result = None;
    let answer = own_table::ask_table_thread(&mut || {
        let argument = ptr::with_exposed_provenance_mut(argument);
        // SAFETY: the caller's promise, here and below.
        let created = unsafe { create_here(body, argument, stack, detached) };
        // NOTE: a number to send between threads; musl's type is a pointer.
        result = Some(created.map(|thread| thread as usize));
    });
    match (answer, result) {
        (_, Some(created)) => created.map(|thread| thread as libc::pthread_t),
        (Answer::Missing, None) => Err(libc::EAGAIN),
        // SAFETY: as above.
        (_, None) => unsafe {
            create_here(body, ptr::with_exposed_provenance_mut(argument), stack, detached)
        },
    }
}

// NOTE: not that of a program that defines it: an allocator with a part for each thread does so, and may not
// be ready before `main`.
#[cfg(redirects)]
use super::next_malloc::mapped::pthread_create;
#[cfg(not(redirects))]
use libc::pthread_create;

/// Creates a thread with all signals blocked, so that the program's own threads handle them. It has the
/// calling thread's table of descriptors.
///
/// # Safety
/// What `argument` points to must be valid for `body`, which uses it on another thread.
pub(super) unsafe fn create_here(
    body: Body,
    argument: *mut c_void,
    stack: usize,
    detached: bool,
) -> Result<libc::pthread_t, c_int> {
    let Some(own) = take_place() else { return Err(libc::EAGAIN) };
    OWNER.store(super::process_id(), Ordering::Release);
    own.body.store(body as *mut c_void, Ordering::Relaxed);
    own.argument.store(argument, Ordering::Relaxed);
    own.table.store(table_of_this_thread(), Ordering::Release);
    // SAFETY: plain calls on local values.
    unsafe {
        let mut attributes = std::mem::zeroed::<libc::pthread_attr_t>();
        libc::pthread_attr_init(&raw mut attributes);
        if detached {
            libc::pthread_attr_setdetachstate(&raw mut attributes, libc::PTHREAD_CREATE_DETACHED);
        }
        let stack = (stack + system_stack_bytes(&raw const attributes))
            .next_multiple_of(super::page_bytes());
        libc::pthread_attr_setstacksize(&raw mut attributes, stack);
        let (mut all, mut before) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        let mut thread = std::mem::zeroed();
        let own_pointer = ptr::from_ref(own).cast_mut().cast();
        let error = pthread_create(&raw mut thread, &raw const attributes, begin, own_pointer);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, ptr::null_mut());
        libc::pthread_attr_destroy(&raw mut attributes);
        if error == 0 {
            return Ok(thread);
        }
        own.id.store(0, Ordering::Release);
        Err(error)
    }
}

struct OwnThread {
    /// Its id in the kernel; 0 if this place is free, [`NOT_YET`] before the id is known.
    id: AtomicU32,
    /// Whether its body has ended. The kernel lists it for a moment longer.
    has_ended: AtomicBool,
    body: AtomicPtr<c_void>,
    argument: AtomicPtr<c_void>,
    /// The number of its table of descriptors; 0 for the program's.
    table: AtomicU32,
}

impl OwnThread {
    #[inline]
    fn exists(&self) -> bool {
        match self.id.load(Ordering::Acquire) {
            0 => false,
            NOT_YET => true,
            id => super::is_thread_alive(id),
        }
    }
}

const NOT_YET: u32 = u32::MAX;

/// The process whose threads these are.
static OWNER: AtomicU32 = AtomicU32::new(0);

/// The most threads of the tracker. Each destination that is added while a recording runs has one.
const MAX_THREADS: usize = 1024;

static THREADS: [OwnThread; MAX_THREADS] = [const {
    OwnThread {
        id: AtomicU32::new(0),
        has_ended: AtomicBool::new(false),
        body: AtomicPtr::new(ptr::null_mut()),
        argument: AtomicPtr::new(ptr::null_mut()),
        table: AtomicU32::new(0),
    }
}; MAX_THREADS];

/// The places from this one on have never been used.
static USED: AtomicUsize = AtomicUsize::new(0);

/// How many threads were made.
static STARTED: AtomicUsize = AtomicUsize::new(0);

fn threads() -> impl Iterator<Item = &'static OwnThread> {
    THREADS.iter().take(USED.load(Ordering::Acquire))
}

/// A place for a new thread, which is free or that of one that has ended.
fn take_place() -> Option<&'static OwnThread> {
    let place = THREADS.iter().position(|thread| {
        let id = thread.id.load(Ordering::Acquire);
        let is_free = id == 0
            || id != NOT_YET
                && thread.has_ended.load(Ordering::Acquire)
                && !super::is_thread_alive(id);
        let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
        is_free && thread.id.compare_exchange(id, NOT_YET, success, failure).is_ok()
    })?;
    USED.fetch_max(place + 1, Ordering::AcqRel);
    STARTED.fetch_add(1, Ordering::AcqRel);
    let thread = THREADS.get(place)?;
    thread.has_ended.store(false, Ordering::Release);
    Some(thread)
}

/// The first function of each thread.
extern "C" fn begin(own: *mut c_void) -> *mut c_void {
    // SAFETY: `create_here` passes a place in a static, with a function of this type in it.
    let (own, body) = unsafe {
        let own = &*own.cast::<OwnThread>();
        (own, std::mem::transmute::<*mut c_void, Body>(own.body.load(Ordering::Relaxed)))
    };
    super::filter::note_own_thread();
    own.id.store(super::thread_id(), Ordering::Release);
    let result = body(own.argument.load(Ordering::Relaxed));
    own.has_ended.store(true, Ordering::Release);
    result
}

fn this_thread() -> Option<&'static OwnThread> {
    let id = super::thread_id();
    let is_this = |thread: &&OwnThread| {
        thread.id.load(Ordering::Acquire) == id && !thread.has_ended.load(Ordering::Acquire)
    };
    threads().find(is_this)
}

/// The number of this thread's table of descriptors; 0 for the program's.
pub(super) fn table_of_this_thread() -> u32 {
    this_thread().map_or(0, |thread| thread.table.load(Ordering::Acquire))
}

pub(super) fn set_table_of_this_thread(table: u32) {
    this_thread().inspect(|thread| thread.table.store(table, Ordering::Release));
}

/// Whether this process has threads of the tracker. A child that has the memory of its parent, as after
/// `vfork`, has none.
///
/// NOTE: this and what the end of a thread also asks is inlined, so that the compiler sees that nothing there
/// panics.
#[inline]
pub(crate) fn has_own_threads() -> bool {
    OWNER.load(Ordering::Acquire) == super::process_id() && threads().any(|thread| thread.exists())
}

/// How many threads the tracker has made, or is about to make.
#[inline]
pub(super) fn started_threads() -> usize {
    STARTED.load(Ordering::Acquire)
}

/// Whether a thread of the tracker was made and its id is not known yet.
#[inline]
pub(super) fn is_any_starting() -> bool {
    threads().any(|thread| thread.id.load(Ordering::Acquire) == NOT_YET)
}

/// Whether a thread with this first function is the tracker's.
#[cfg(c_mmap)]
pub(crate) fn is_own_start(function: unsafe extern "C" fn(*mut c_void) -> *mut c_void) -> bool {
    std::ptr::fn_addr_eq(function, begin as unsafe extern "C" fn(*mut c_void) -> *mut c_void)
}

#[inline]
pub(crate) fn is_own_thread(id: u32) -> bool {
    threads().any(|thread| thread.id.load(Ordering::Acquire) == id)
}

/// Waits until the kernel has no more than `most` of the tracker's threads; `false` if it still has more
/// after `timeout`.
pub(crate) fn wait_for_ends(most: usize, timeout: Duration) -> bool {
    let begin = super::now();
    loop {
        if threads().filter(|thread| thread.exists()).count() <= most {
            return true;
        }
        if super::now().saturating_sub(begin) > timeout.as_nanos() as u64 {
            return false;
        }
        std::thread::sleep(Duration::from_micros(50));
    }
}

/// In the child of a fork, which has none of the threads.
pub(super) fn forget_all() {
    threads().for_each(|thread| thread.id.store(0, Ordering::Release));
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
