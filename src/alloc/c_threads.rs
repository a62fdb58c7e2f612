//! C's function that makes threads, which counts them, so that the last one can end the process, and records their stacks.
//!
//! glibc maps a stack without the program's `mmap`, and keeps it for another thread. So what is recorded is from
//! when to when a thread has its stack: the new thread itself says so, before its first and after its last
//! instruction, with the scopes and the call stack of the one that made it.
#![expect(unsafe_code, reason = "the functions of C")]

use super::c_mmap::next;
use super::c_mmap::recorded::{PAGE, call_stack, enter, whole_pages, write};
use super::events::{self, THREAD_STACKS};
use crate::platform::os::{self, next_malloc};
use crate::platform::own_thread::{self, Place};
use crate::scopes::current::{self, ContextIds};
use crate::stacks::capture::Registers;
use crate::stacks::tree::NO_STACK;
use crate::trace::format::schema::mapping;
use crate::trace::write::{registry, untracked};
use std::arch::naked_asm;
use std::cell::{Cell, UnsafeCell};
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr;
#[cfg(redirects)]
use std::sync::atomic::AtomicU32;
use std::sync::atomic::{AtomicBool, Ordering};

/// The function of a thread.
type Function = unsafe extern "C" fn(*mut c_void) -> *mut c_void;

thread_local! {
    /// Where the recorded stack of this thread begins; 0 if it has none.
    static STACK: Cell<usize> = const { Cell::new(0) };
}

static PLACE: Place = Place::new();

/// See [`made`].
#[cfg(redirects)]
static MADE: AtomicU32 = AtomicU32::new(0);

/// The number of threads that the program has made, and of those that it could not make.
#[cfg(redirects)]
pub(crate) fn made() -> u32 {
    MADE.load(Ordering::Acquire)
}

/// What a new thread is given.
struct Start {
    function: Function,
    argument: *mut c_void,
    /// The scopes and the call stack of `pthread_create`, if the stack of the thread is recorded.
    made_in: Option<(ContextIds, u32)>,
}

/// The most threads that can be about to start at once without a block of `malloc` each.
const MOST_STARTING: usize = 64;

/// What threads are given that are about to start.
///
/// NOTE: not a block of `malloc`. The new thread would free it, and so have an arena, even if the program never allocates there.
static STARTS: [StartPlace; MOST_STARTING] = [const { StartPlace::new() }; MOST_STARTING];

struct StartPlace {
    is_taken: AtomicBool,
    start: UnsafeCell<MaybeUninit<Start>>,
}

impl StartPlace {
    const fn new() -> Self {
        Self { is_taken: AtomicBool::new(false), start: UnsafeCell::new(MaybeUninit::uninit()) }
    }
}

// SAFETY: only the thread that has set `is_taken` uses what is in it, then the new thread, which clears it.
unsafe impl Sync for StartPlace {}

/// What a new thread does, as C returns it in two registers.
#[repr(C)]
struct First {
    function: Function,
    argument: *mut c_void,
}

/// Makes a thread, counts it, and has it record its stack if the recording says so.
///
/// # Safety
/// That of C's function.
pub unsafe extern "C" fn pthread_create(
    thread: *mut libc::pthread_t,
    attributes: *const libc::pthread_attr_t,
    function: Function,
    argument: *mut c_void,
) -> c_int {
    // SAFETY: the caller makes the promise of C's function, here and below.
    let create = |function, argument| unsafe {
        next::pthread_create(thread, attributes, function, argument)
    };
    // SAFETY: as above.
    let bytes = || unsafe { bytes_to_map(attributes) };
    make(function, argument, create, bytes, &Registers::here())
}

/// The same by the function of C11. What its threads return is an `int`, in the register of a pointer.
///
/// # Safety
/// That of C's function.
#[cfg(feature = "__preload")]
pub unsafe extern "C" fn thrd_create(
    thread: *mut c_void,
    function: Function,
    argument: *mut c_void,
) -> c_int {
    type Create = unsafe extern "C" fn(*mut c_void, Function, *mut c_void) -> c_int;
    /// `thrd_error`
    const ERROR: c_int = 2;
    // SAFETY: the name ends with a NUL.
    let next = untracked(|| unsafe { libc::dlsym(libc::RTLD_NEXT, c"thrd_create".as_ptr()) });
    if next.is_null() {
        return ERROR;
    }
    // SAFETY: the function has this type; the caller makes the promise of C's function.
    let create = |function, argument| unsafe {
        std::mem::transmute::<*mut c_void, Create>(next)(thread, function, argument)
    };
    // SAFETY: there are no attributes.
    let bytes = || unsafe { bytes_to_map(ptr::null()) };
    make(function, argument, create, bytes, &Registers::here())
}

/// Makes a thread by `create`, for whose stack the system maps `bytes`.
fn make(
    function: Function,
    argument: *mut c_void,
    create: impl FnOnce(Function, *mut c_void) -> c_int,
    bytes: impl FnOnce() -> Option<usize>,
    at: &Registers,
) -> c_int {
    if os::is_own_start(function) {
        // The thread is the tracker's own.
        return create(function, argument);
    }
    #[cfg(redirects)]
    MADE.fetch_add(1, Ordering::AcqRel);
    let mut made_in = None;
    if events::are_thread_stacks_recorded()
        && let Some(bytes) = bytes()
        && let Some(entry) = enter()
    {
        made_in = Some((current::ids(), call_stack(entry.slot, bytes, at)));
        entry.leave();
    }
    let Some(start) = keep(Start { function, argument, made_in }) else {
        return create(function, argument);
    };
    os::count_thread();
    let error = create(begin, start.cast());
    if error != 0 {
        os::uncount_thread();
        // SAFETY: no thread was made, so it is still ours.
        let _ = unsafe { take(start) };
    }
    error
}

/// Keeps this for the new thread, which [takes](take) it.
fn keep(start: Start) -> Option<*mut Start> {
    let is_free = |place: &&StartPlace| !place.is_taken.swap(true, Ordering::Acquire);
    let place = match STARTS.iter().find(is_free) {
        Some(place) => place.start.get().cast::<Start>(),
        // NOTE: from the next `malloc`, so no event is written of it.
        // SAFETY: C's `malloc` has no condition.
        None => unsafe { next_malloc::malloc(size_of::<Start>()) }.cast::<Start>(),
    };
    if place.is_null() {
        return None;
    }
    // SAFETY: it is ours, and large enough; blocks of `malloc` are aligned to 16 bytes.
    unsafe { place.write(start) };
    Some(place)
}

/// # Safety
/// It is from [`keep`], and is taken once.
unsafe fn take(start: *mut Start) -> Start {
    // SAFETY: the caller's promise.
    let taken = unsafe { start.read() };
    match STARTS.iter().find(|place| ptr::eq(place.start.get().cast(), start)) {
        Some(place) => place.is_taken.store(false, Ordering::Release),
        // SAFETY: it is a block of `malloc` then.
        None => unsafe { next_malloc::free(start.cast()) },
    }
    taken
}

/// How many bytes glibc maps for a stack; `None` if the program has memory for it.
unsafe fn bytes_to_map(attributes: *const libc::pthread_attr_t) -> Option<usize> {
    let (mut address, mut bytes) = (ptr::null_mut(), 0);
    if attributes.is_null() {
        let mut default = MaybeUninit::uninit();
        // SAFETY: the first call makes the attributes, which the others read and end.
        unsafe {
            libc::pthread_attr_init(default.as_mut_ptr());
            libc::pthread_attr_getstacksize(default.as_ptr(), &raw mut bytes);
            libc::pthread_attr_destroy(default.as_mut_ptr());
        }
        return Some(bytes);
    }
    // SAFETY: the caller has valid attributes; the other arguments are valid for writing.
    let error =
        unsafe { libc::pthread_attr_getstack(attributes, &raw mut address, &raw mut bytes) };
    // NOTE: glibc stores where a stack ends, which is 0 without a stack; it gives the start for that.
    let has_memory = error != 0 || address.addr().wrapping_add(bytes) != 0;
    (!has_memory).then_some(bytes)
}

/// The first function of a thread of the program.
///
/// It jumps to the program's function, so that call stacks of the thread are those that it has without this.
#[unsafe(naked)]
unsafe extern "C" fn begin(start: *mut c_void) -> *mut c_void {
    naked_asm!(
        ".cfi_startproc",
        "sub rsp, 8",
        ".cfi_def_cfa_offset 16",
        "call {take_over}",
        "add rsp, 8",
        ".cfi_def_cfa_offset 8",
        "mov rdi, rdx",
        "jmp rax",
        ".cfi_endproc",
        take_over = sym take_over,
    )
}

/// Counts this new thread, and records its stack. Returns what the program has made it for.
unsafe extern "C" fn take_over(start: *mut Start) -> First {
    // SAFETY: `pthread_create` has made it for this thread.
    let Start { function, argument, made_in } = unsafe { take(start) };
    os::begin_counted_thread();
    if let Some((scopes, stack)) = made_in
        && let Some((address, bytes)) = untracked(own_stack)
        && let Some(own) = own_thread::get(&STACK, &PLACE)
        && registry::at_thread_end(end)
        && let Some(entry) = enter()
    {
        let before = current::swap(scopes);
        own.set(address);
        write(entry.slot, mapping::MAPPED, address, bytes, THREAD_STACKS, stack);
        current::swap(before);
        entry.leave();
    }
    First { function, argument }
}

/// Where the pages of this thread's stack begin, and their size, without the guard pages. They include glibc's own
/// data of the thread, which is at the end of the same mapping.
fn own_stack() -> Option<(usize, usize)> {
    let mut attributes = MaybeUninit::uninit();
    let (mut address, mut bytes) = (ptr::null_mut(), 0);
    // SAFETY: the first call makes the attributes, which the others read and end.
    unsafe {
        if libc::pthread_getattr_np(libc::pthread_self(), attributes.as_mut_ptr()) != 0 {
            return None;
        }
        libc::pthread_attr_getstack(attributes.as_ptr(), &raw mut address, &raw mut bytes);
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
    }
    let start = address.addr() & !(PAGE - 1);
    Some((start, whole_pages(address.addr() + bytes - start)))
}

/// Records that this thread has its stack no longer.
extern "C" fn end() {
    let address = own_thread::get(&STACK, &PLACE).map_or(0, |own| own.replace(0));
    if address == 0 {
        return;
    }
    if let Some(entry) = enter() {
        write(entry.slot, mapping::FREED, address, 0, THREAD_STACKS, NO_STACK);
        entry.leave();
    }
}
