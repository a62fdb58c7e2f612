//! What the sampler needs of Linux.

use crate::{INTERRUPTED, TRAMPOLINE, word};
use std::ffi::{CStr, c_void};
#[cfg(target_arch = "aarch64")]
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;

/// A new file of this size, which is mapped as long as the process runs.
pub(crate) fn map_file(path: &CStr, size: usize) -> *mut c_void {
    // SAFETY: system calls with valid arguments.
    unsafe {
        let file = libc::open(path.as_ptr(), libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC, 0o644);
        libc::ftruncate(file, size as libc::off_t);
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let pages = libc::mmap(std::ptr::null_mut(), size, access, libc::MAP_SHARED, file, 0);
        if pages == libc::MAP_FAILED {
            libc::abort();
        }
        libc::close(file);
        pages
    }
}

/// Whether this is a thread of the tracker, whose allocations are not recorded.
pub(crate) fn is_trackers_thread() -> bool {
    let mut name = [0_u8; 16];
    // SAFETY: the kernel writes at most 16 bytes.
    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    name.starts_with(b"memledger")
}

/// Notes where handlers of this signal return to.
pub fn note_trampoline(signal: i32) {
    let (trampoline, size) = trampoline(signal);
    word(TRAMPOLINE).inspect(|word| word.store(trampoline as u64, Ordering::Relaxed));
    word(INTERRUPTED).inspect(|word| word.store(size, Ordering::Relaxed));
}

#[cfg(target_arch = "aarch64")]
std::arch::global_asm!(
    ".globl stack_sampler_handler, stack_sampler_returned_to",
    "stack_sampler_handler:",
    "adrp x9, stack_sampler_returned_to",
    "str x30, [x9, :lo12:stack_sampler_returned_to]",
    "ret",
    ".pushsection .bss",
    ".balign 8",
    "stack_sampler_returned_to:",
    ".skip 8",
    ".popsection",
);

/// The code is the kernel's, so only a handler sees its address.
#[cfg(target_arch = "aarch64")]
fn trampoline(signal: i32) -> (usize, u64) {
    unsafe extern "C" {
        fn stack_sampler_handler(signal: i32);
        static stack_sampler_returned_to: AtomicU64;
    }
    // SAFETY: the handler only stores a word. The action is that of before again.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        let mut before: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = stack_sampler_handler as *const () as usize;
        assert_eq!(libc::sigaction(signal, &raw const action, &raw mut before), 0);
        libc::raise(signal);
        assert_eq!(libc::sigaction(signal, &raw const before, std::ptr::null_mut()), 0);
        (stack_sampler_returned_to.load(Ordering::Relaxed) as usize, 4)
    }
}

#[cfg(target_arch = "x86_64")]
fn trampoline(signal: i32) -> (usize, u64) {
    #[repr(C)]
    #[derive(Default)]
    struct KernelAction {
        handler: usize,
        flags: u64,
        restorer: usize,
        mask: u64,
    }
    let mut action = KernelAction::default();
    // SAFETY: the kernel writes its own form of the action.
    let result = unsafe {
        libc::syscall(libc::SYS_rt_sigaction, signal, 0_usize, &raw mut action, size_of::<u64>())
    };
    assert_eq!(result, 0);
    (action.restorer, 1)
}
