//! C's functions that make threads, which count them, so that the last one can end the process.
#![expect(unsafe_code, reason = "the functions of C")]

use super::c_mmap::next;
use crate::alloc::stats;
use crate::platform::os::{self, next_malloc};
#[cfg(preload)]
use crate::trace::write::untracked;
use std::arch::naked_asm;
use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr;
#[cfg(redirects)]
use std::sync::atomic::AtomicU32;
use std::sync::atomic::{AtomicBool, Ordering};

/// The function of a thread.
type Function = unsafe extern "C" fn(*mut c_void) -> *mut c_void;

/// See [`made`].
#[cfg(redirects)]
static MADE: AtomicU32 = AtomicU32::new(0);

/// The number of threads that the program has made, and of those that it could not make.
#[cfg(redirects)]
pub(crate) fn made() -> u32 {
    MADE.load(Ordering::Acquire)
}

/// What a new thread is given, as C returns it in two registers.
#[repr(C)]
struct Start {
    function: Function,
    argument: *mut c_void,
}

/// The most threads that can be about to start at once without a block of `malloc` each.
const MAX_STARTING: usize = 64;

/// What threads are given that are about to start.
///
/// NOTE: not a block of `malloc`. The new thread would free it, and so have an arena, even if the program
/// never allocates there.
static STARTS: [StartPlace; MAX_STARTING] = [const { StartPlace::new() }; MAX_STARTING];

/// The same, with the bytes of its stack: 0 if the program has given it the memory.
struct Kept {
    start: Start,
    stack_bytes: usize,
}

struct StartPlace {
    is_taken: AtomicBool,
    kept: UnsafeCell<MaybeUninit<Kept>>,
}

impl StartPlace {
    const fn new() -> Self {
        Self { is_taken: AtomicBool::new(false), kept: UnsafeCell::new(MaybeUninit::uninit()) }
    }
}

// SAFETY: only the thread that has set `is_taken` uses what is in it, then the new thread, which clears it.
unsafe impl Sync for StartPlace {}

/// Makes a thread, and counts it.
///
/// # Safety
/// That of C's function.
pub unsafe extern "C" fn pthread_create(
    thread: *mut libc::pthread_t,
    attributes: *const libc::pthread_attr_t,
    function: Function,
    argument: *mut c_void,
) -> c_int {
    // SAFETY: the caller makes the promise of C's function.
    let create = |function, argument| unsafe {
        next::pthread_create(thread, attributes, function, argument)
    };
    make(Start { function, argument }, attributes, create)
}

/// The same by the function of C11. What its threads return is an `int`, in the register of a pointer.
///
/// # Safety
/// That of C's function.
#[cfg(preload)]
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
    make(Start { function, argument }, ptr::null(), create)
}

/// The bytes of the stack of a thread with these attributes, or the usual ones; 0 if they give it memory.
fn stack_bytes(attributes: *const libc::pthread_attr_t) -> usize {
    unsafe extern "C" {
        fn pthread_attr_getstacksize(of: *const libc::pthread_attr_t, bytes: *mut usize) -> c_int;
    }
    let mut usual = MaybeUninit::<libc::pthread_attr_t>::uninit();
    let (mut start, mut bytes) = (ptr::null_mut::<c_void>(), 0);
    // SAFETY: the attributes are those of the caller, or are initialized first; the others are written.
    unsafe {
        let is_usual = attributes.is_null();
        if is_usual && libc::pthread_attr_init(usual.as_mut_ptr()) != 0 {
            return 0;
        }
        let of = if is_usual { usual.as_ptr() } else { attributes };
        // Without memory of the program, it is glibc's null at the end.
        let error = libc::pthread_attr_getstack(of, &raw mut start, &raw mut bytes);
        if error != 0 || start.addr().wrapping_add(bytes) != 0 {
            return 0;
        }
        if pthread_attr_getstacksize(of, &raw mut bytes) == 0 { bytes } else { 0 }
    }
}

/// Makes a thread by `create`.
fn make(
    start: Start,
    attributes: *const libc::pthread_attr_t,
    create: impl FnOnce(Function, *mut c_void) -> c_int,
) -> c_int {
    let Start { function, argument } = start;
    if os::is_own_start(function) {
        // The thread is the tracker's own.
        return create(function, argument);
    }
    #[cfg(redirects)]
    MADE.fetch_add(1, Ordering::AcqRel);
    let stack_bytes = stack_bytes(attributes);
    // A stack is in no block.
    stats::note_mapped_beside(stack_bytes);
    let kept = Kept { start: Start { function, argument }, stack_bytes };
    let Some(kept) = keep(kept) else {
        return create(function, argument);
    };
    os::count_thread();
    let error = create(begin, kept.cast());
    if error != 0 {
        os::uncount_thread();
        // SAFETY: no thread was made, so it is still ours.
        let _ = unsafe { take(kept) };
    }
    error
}

/// Keeps this for the new thread, which [takes](take) it.
fn keep(kept: Kept) -> Option<*mut Kept> {
    let is_free = |place: &&StartPlace| !place.is_taken.swap(true, Ordering::Acquire);
    let place = match STARTS.iter().find(is_free) {
        Some(place) => place.kept.get().cast::<Kept>(),
        // NOTE: from the next `malloc`, so no event is written of it.
        // SAFETY: C's `malloc` has no condition.
        None => unsafe { next_malloc::malloc(size_of::<Kept>()) }.cast::<Kept>(),
    };
    if place.is_null() {
        return None;
    }
    // SAFETY: it is ours, and large enough; blocks of `malloc` are aligned to 16 bytes.
    unsafe { place.write(kept) };
    Some(place)
}

/// # Safety
/// It is from [`keep`], and is taken once.
unsafe fn take(kept: *mut Kept) -> Kept {
    // SAFETY: the caller's promise.
    let taken = unsafe { kept.read() };
    match STARTS.iter().find(|place| ptr::eq(place.kept.get().cast(), kept)) {
        Some(place) => place.is_taken.store(false, Ordering::Release),
        // SAFETY: it is a block of `malloc` then.
        None => unsafe { next_malloc::free(kept.cast()) },
    }
    taken
}

/// The first function of a thread of the program.
///
/// It jumps to the program's function, so that call stacks of the thread are those that it has without this.
#[cfg(target_arch = "x86_64")]
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

/// As above.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
unsafe extern "C" fn begin(start: *mut c_void) -> *mut c_void {
    naked_asm!(
        ".cfi_startproc",
        "stp x29, x30, [sp, #-16]!",
        ".cfi_def_cfa_offset 16",
        ".cfi_offset x29, -16",
        ".cfi_offset x30, -8",
        "bl {take_over}",
        "ldp x29, x30, [sp], #16",
        ".cfi_def_cfa_offset 0",
        ".cfi_restore x29",
        ".cfi_restore x30",
        "mov x16, x0",
        "mov x0, x1",
        "br x16",
        ".cfi_endproc",
        take_over = sym take_over,
    )
}

/// Counts this new thread. Returns what the program has made it for.
unsafe extern "C" fn take_over(kept: *mut Kept) -> Start {
    // SAFETY: `pthread_create` has made it for this thread.
    let Kept { start, stack_bytes } = unsafe { take(kept) };
    os::begin_counted_thread(stack_bytes);
    start
}
