//! The interpreter of `interpreter.c` in a program of Rust: its blocks are those of Rust's allocator, its
//! threads are std's.
use std::alloc::{Layout, alloc, alloc_zeroed, dealloc};
use std::ffi::{c_char, c_int, c_void};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

unsafe extern "C" {
    fn interpret(argc: c_int, argv: *mut *mut c_char) -> c_int;
}

// The words as the kernel gave them: a copy would be blocks of the program's.
static ARGUMENTS: AtomicPtr<*mut c_char> = AtomicPtr::new(std::ptr::null_mut());
static COUNT: AtomicUsize = AtomicUsize::new(0);

extern "C" fn keep(argc: c_int, argv: *mut *mut c_char) {
    COUNT.store(argc as usize, Ordering::Relaxed);
    ARGUMENTS.store(argv, Ordering::Relaxed);
}

#[used]
#[unsafe(link_section = ".init_array")]
static KEEP: extern "C" fn(c_int, *mut *mut c_char) = keep;

fn layout(size: usize, form: c_int) -> Layout {
    Layout::from_size_align(size, if form == 3 { 128 } else { 8 }).unwrap()
}

#[unsafe(no_mangle)]
extern "C" fn native_alloc(size: usize, form: c_int) -> *mut u8 {
    let layout = layout(size, form);
    // SAFETY: no size is 0.
    unsafe {
        match form {
            1 => alloc_zeroed(layout),
            _ => alloc(layout),
        }
    }
}

#[unsafe(no_mangle)]
extern "C" fn native_free(block: *mut u8, size: usize, form: c_int) {
    // SAFETY: `native_alloc` has made it with these arguments.
    unsafe { dealloc(block, layout(size, form)) }
}

type Body = extern "C" fn(*mut c_void) -> *mut c_void;

#[unsafe(no_mangle)]
extern "C" fn native_thread(
    body: Body,
    stack: usize,
    is_joined: c_int,
    thread: *mut usize,
) -> c_int {
    use std::os::unix::thread::JoinHandleExt;
    let spawned = std::thread::Builder::new().stack_size(stack).spawn(move || {
        body(std::ptr::null_mut());
    });
    let Ok(handle) = spawned else { return 1 };
    if is_joined != 2 {
        // SAFETY: the interpreter gives a place.
        unsafe { *thread = handle.into_pthread_t() as usize };
    }
    0
}

fn main() -> std::process::ExitCode {
    let count = COUNT.load(Ordering::Relaxed) as c_int;
    // SAFETY: the arguments are those of the process.
    let status = unsafe { interpret(count, ARGUMENTS.load(Ordering::Relaxed)) };
    std::process::ExitCode::from(status as u8)
}
