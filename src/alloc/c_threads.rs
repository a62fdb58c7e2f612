//! C's function that makes threads, which records their stacks.
//!
//! glibc maps a stack without the program's `mmap`, and keeps it for another thread. So what is recorded is from
//! when to when a thread has its stack: the new thread itself says so, before its first and after its last
//! instruction, with the scopes and the call stack of the one that made it.
#![expect(unsafe_code, reason = "the functions of C")]

use super::c_mmap::next;
use super::c_mmap::recorded::{PAGE, call_stack, enter, whole_pages, write};
use super::events::{self, THREAD_STACKS};
use crate::platform::os::next_malloc;
use crate::platform::own_thread::{self, Place};
use crate::scopes::current::{self, ContextIds};
use crate::stacks::capture::Registers;
use crate::stacks::tree::NO_STACK;
use crate::trace::format::schema::mapping;
use crate::trace::write::{registry, untracked};
use std::arch::naked_asm;
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

/// The function of a thread.
type Function = unsafe extern "C" fn(*mut c_void) -> *mut c_void;

thread_local! {
    /// Where the recorded stack of this thread begins; 0 if it has none.
    static STACK: Cell<usize> = const { Cell::new(0) };
}

static PLACE: Place = Place::new();

/// What a new thread is given.
struct Start {
    function: Function,
    argument: *mut c_void,
    scopes: ContextIds,
    /// The call stack of `pthread_create`.
    stack: u32,
}

/// What a new thread does, as C returns it in two registers.
#[repr(C)]
struct First {
    function: Function,
    argument: *mut c_void,
}

/// Makes a thread, and has it record its stack if the recording says so.
///
/// # Safety
/// That of C's function.
pub unsafe extern "C" fn pthread_create(
    thread: *mut libc::pthread_t,
    attributes: *const libc::pthread_attr_t,
    function: Function,
    argument: *mut c_void,
) -> c_int {
    let at = Registers::here();
    // SAFETY: the caller makes the promise of C's function, here and below.
    let create = |function, argument| unsafe {
        next::pthread_create(thread, attributes, function, argument)
    };
    if !events::are_thread_stacks_recorded() {
        return create(function, argument);
    }
    // SAFETY: as above.
    let Some(bytes) = (unsafe { bytes_to_map(attributes) }) else {
        return create(function, argument);
    };
    let Some(entry) = enter() else { return create(function, argument) };
    let stack = call_stack(entry.slot, bytes, &at);
    entry.leave();
    // NOTE: from the next `malloc`, so no event is written of it.
    // SAFETY: C's `malloc` has no condition.
    let start = unsafe { next_malloc::malloc(size_of::<Start>()) }.cast::<Start>();
    if start.is_null() {
        return create(function, argument);
    }
    // SAFETY: the block is new and large enough; blocks of `malloc` are aligned to 16 bytes.
    unsafe { start.write(Start { function, argument, scopes: current::ids(), stack }) };
    let error = create(begin, start.cast());
    if error != 0 {
        // SAFETY: no thread was made, so the block is still ours.
        unsafe { next_malloc::free(start.cast()) };
    }
    error
}

/// How many bytes glibc maps for a stack; `None` if the program has memory for it.
unsafe fn bytes_to_map(attributes: *const libc::pthread_attr_t) -> Option<usize> {
    let (mut address, mut bytes) = (std::ptr::null_mut(), 0);
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

/// The first function of a thread whose stack is recorded.
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

/// Records the stack of this new thread. Returns what the program has made it for.
unsafe extern "C" fn take_over(start: *mut Start) -> First {
    // SAFETY: `pthread_create` has made it for this thread, which ends it.
    let Start { function, argument, scopes, stack } = unsafe { start.read() };
    // SAFETY: as above.
    unsafe { next_malloc::free(start.cast()) };
    if let Some((address, bytes)) = untracked(own_stack)
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
    let (mut address, mut bytes) = (std::ptr::null_mut(), 0);
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
