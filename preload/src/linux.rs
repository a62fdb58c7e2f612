//! What the library for Linux defines, beside the functions of `malloc`.

#[cfg(target_arch = "x86_64")]
use std::arch::naked_asm;
use std::ffi::c_void;
#[cfg(target_arch = "x86_64")]
use std::ffi::{c_char, c_int};

#[cfg(target_arch = "x86_64")]
unsafe extern "C" {
    /// C's environment.
    static mut environ: Texts;
}

/// Runs before all else in the process, see `build.rs`; C's own library has not set its environment yet,
/// which the tracker reads.
#[cfg(target_arch = "x86_64")]
extern "C" fn set_environment(_: c_int, _: Texts, environment: Texts) {
    // SAFETY: no other thread runs. The C library sets the same value later.
    unsafe {
        environ = environment;
        memledger::__private::start::take(environment);
    }
}

// SAFETY: the loader calls the functions in this section with the arguments of `main`; the number puts this
// one first.
#[cfg(target_arch = "x86_64")]
#[unsafe(link_section = ".init_array.00001")]
#[used]
static SET_ENVIRONMENT: extern "C" fn(c_int, Texts, Texts) = set_environment;

/// C's function that calls `main`.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C" fn __libc_start_main() {
    naked_asm!("jmp {start}", start = sym memledger::__private::start::start_main)
}

/// glibc's other names of functions of `malloc`, which programs call, too.
#[cfg(target_arch = "x86_64")]
macro_rules! other_names {
    ($($other:ident $name:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {
        $(
            /// # Safety
            /// That of C's function.
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $other($($argument: $type),*) -> $result {
                // SAFETY: the caller makes the promise of C's function.
                unsafe { memledger::__private::c_malloc::other_names::$other($($argument),*) }
            }
        )*
    };
}
#[cfg(target_arch = "x86_64")]
memledger::__c_malloc_other_names! { other_names }

/// C's `_exit`, which runs no handler: without this, the trace of a forked child that ends so would lack its
/// last events. (The program itself has a watcher.)
#[unsafe(no_mangle)]
extern "C" fn _exit(status: i32) -> ! {
    memledger::__private::exit_after_report(status)
}

/// The same with another name.
#[unsafe(no_mangle)]
extern "C" fn _Exit(status: i32) -> ! {
    memledger::__private::exit_after_report(status)
}

/// C11's function that makes threads. (`track_c_malloc!` defines the other one.)
///
/// # Safety
/// That of C's function, here and below.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[unsafe(no_mangle)]
unsafe extern "C" fn thrd_create(
    thread: *mut c_void,
    function: unsafe extern "C" fn(*mut c_void) -> *mut c_void,
    argument: *mut c_void,
) -> i32 {
    // SAFETY: the caller makes the promise of C's function.
    unsafe {
        memledger::__private::c_malloc::mmap::recorded::thrd_create(thread, function, argument)
    }
}

/// C's `sigaction`, which shows the default action where the kernel has the tracker's handler.
///
/// # Safety
/// As above.
#[unsafe(no_mangle)]
unsafe extern "C" fn sigaction(signal: i32, new: *const c_void, old: *mut c_void) -> i32 {
    // SAFETY: the caller makes the promise of C's function, here and below.
    unsafe { memledger::__private::signals::sigaction(signal, new, old) }
}

/// The same with another name.
#[unsafe(no_mangle)]
unsafe extern "C" fn __sigaction(signal: i32, new: *const c_void, old: *mut c_void) -> i32 {
    // SAFETY: as above.
    unsafe { memledger::__private::signals::sigaction(signal, new, old) }
}

/// C's functions that take a handler and return the one before. Some are others with another name.
macro_rules! signals {
    ($($name:ident: $next:ident;)*) => {
        $(
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name(signal: i32, handler: usize) -> usize {
                // SAFETY: as above.
                unsafe { memledger::__private::signals::$next(signal, handler) }
            }
        )*
    };
}

signals! {
    signal: signal;
    ssignal: signal;
    bsd_signal: signal;
    sysv_signal: sysv_signal;
    __sysv_signal: sysv_signal;
    sigset: sigset;
}

/// C's functions that execute programs.
#[cfg(target_arch = "x86_64")]
macro_rules! exec {
    ($($name:ident($($argument:ident: $type:ty),*);)*) => {
        $(
            /// # Safety
            /// As above.
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name($($argument: $type),*) -> c_int {
                // SAFETY: as above.
                unsafe { memledger::__private::start::$name($($argument),*) }
            }
        )*
    };
}

/// Texts, with a null after the last.
#[cfg(target_arch = "x86_64")]
type Texts = *const *const c_char;

#[cfg(target_arch = "x86_64")]
exec! {
    execve(path: *const c_char, arguments: Texts, environment: Texts);
    execv(path: *const c_char, arguments: Texts);
    execvp(name: *const c_char, arguments: Texts);
    execvpe(name: *const c_char, arguments: Texts, environment: Texts);
    fexecve(file: c_int, arguments: Texts, environment: Texts);
    execveat(folder: c_int, path: *const c_char, arguments: Texts, environment: Texts, flags: c_int);
    posix_spawn(process: *mut c_int, path: *const c_char, actions: *const c_void, attributes: *const c_void, arguments: Texts, environment: Texts);
    posix_spawnp(process: *mut c_int, name: *const c_char, actions: *const c_void, attributes: *const c_void, arguments: Texts, environment: Texts);
}

/// Those that take any number of arguments. Of these, the first five after the path are in registers, and the
/// others on the stack. Put before them, in the place of the address that the function returns to, they are
/// an array.
#[cfg(target_arch = "x86_64")]
macro_rules! exec_list {
    ($($name:ident;)*) => {
        $(
            #[unsafe(naked)]
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name() {
                naked_asm!(
                    ".cfi_startproc",
                    "pop rax",
                    "push r9",
                    "push r8",
                    "push rcx",
                    "push rdx",
                    "push rsi",
                    "mov rsi, rsp",
                    "push rax",
                    ".cfi_def_cfa_offset 56",
                    ".cfi_offset rip, -56",
                    "call {function}",
                    "pop rcx",
                    "add rsp, 40",
                    "push rcx",
                    ".cfi_def_cfa_offset 8",
                    ".cfi_offset rip, -8",
                    "ret",
                    ".cfi_endproc",
                    function = sym memledger::__private::start::$name,
                )
            }
        )*
    };
}
#[cfg(target_arch = "x86_64")]
exec_list! { execl; execlp; execle; }

/// Those that start a shell by themselves. The library's function says which one is next.
#[cfg(target_arch = "x86_64")]
macro_rules! shell {
    ($($name:ident: $before:ident;)*) => {
        $(
            #[unsafe(naked)]
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name() {
                naked_asm!(
                    ".cfi_startproc",
                    "push rdi",
                    "push rsi",
                    "sub rsp, 8",
                    ".cfi_def_cfa_offset 32",
                    "call {before}",
                    "add rsp, 8",
                    "pop rsi",
                    "pop rdi",
                    ".cfi_def_cfa_offset 8",
                    "jmp rax",
                    ".cfi_endproc",
                    before = sym memledger::__private::start::$before,
                )
            }
        )*
    };
}
#[cfg(target_arch = "x86_64")]
shell! { system: before_system; popen: before_popen; }

/// C's `dlopen`.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C" fn dlopen() {
    naked_asm!(
        ".cfi_startproc",
        "push rdi",
        "push rsi",
        "sub rsp, 8",
        ".cfi_def_cfa_offset 32",
        "mov edi, esi",
        "mov rsi, [rsp + 24]",
        "call {way}",
        "mov rcx, rdx",
        "mov rdx, rax",
        "add rsp, 8",
        "pop rsi",
        "pop rdi",
        ".cfi_def_cfa_offset 8",
        "test rcx, rcx",
        "jnz {open}",
        "jmp rdx",
        ".cfi_endproc",
        way = sym memledger::__private::dlopen::way,
        open = sym memledger::__private::dlopen::open,
    )
}

/// C's functions that look for others by name.
#[cfg(target_arch = "x86_64")]
macro_rules! find {
    ($($name:ident: $way:ident;)*) => {
        $(
            #[unsafe(naked)]
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name() {
                naked_asm!(
                    ".cfi_startproc",
                    "push rdi",
                    "push rsi",
                    "push rdx",
                    ".cfi_def_cfa_offset 32",
                    "mov rdx, [rsp + 24]",
                    "call {way}",
                    "mov rcx, rax",
                    "mov r8, rdx",
                    "pop rdx",
                    "pop rsi",
                    "pop rdi",
                    ".cfi_def_cfa_offset 8",
                    "mov r9, [rsp]",
                    "test r8, r8",
                    "jnz {find}",
                    "jmp rcx",
                    ".cfi_endproc",
                    way = sym memledger::__private::dlsym::$way,
                    find = sym memledger::__private::dlsym::find,
                )
            }
        )*
    };
}
#[cfg(target_arch = "x86_64")]
find! {
    dlsym: way;
    dlvsym: way_of_version;
}
