//! What a library that the program has opened with `RTLD_DEEPBIND` calls: the functions of this library, as
//! all others do.
//!
//! With that flag, a library looks for functions in itself and in what it needs, so it finds those of the C
//! library. Where it has the address of one that this library's function calls next, it gets the address of
//! this library's, which is then between them. A library that finds another allocator's `malloc` keeps that.

use super::{objects, pages};
use objects::Object;
use std::arch::naked_asm;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::io;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

/// C's `dlopen`.
pub(crate) type Dlopen = unsafe extern "C" fn(*const c_char, c_int) -> *mut c_void;

/// The next library's `dlopen`; `None` if there is none.
pub(crate) fn next_dlopen() -> Option<Dlopen> {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    if NEXT.load(Ordering::Acquire) == 0 {
        // SAFETY: the name ends with a NUL.
        let next = unsafe { libc::dlsym(libc::RTLD_NEXT, c"dlopen".as_ptr()) };
        NEXT.store(next.expose_provenance(), Ordering::Release);
    }
    let next = ptr::with_exposed_provenance::<c_void>(NEXT.load(Ordering::Acquire));
    // SAFETY: a function of this name has this type.
    unsafe { std::mem::transmute::<*const c_void, Option<Dlopen>>(next) }
}

/// The address of an instruction `ret` in the object that `caller` is in, or in the program; `None` if there
/// is none, or if the processor compares the addresses that calls return to with those that they came from.
///
/// NOTE: call stacks pass it, by the tables for the instruction before, so that is a `pop` or an `add` of a
/// function without a frame pointer. Where these say that the caller is one word farther, there is
/// [`open`](crate::__private::dlopen::open), which is also correct.
pub(crate) fn return_instruction(caller: usize) -> Option<usize> {
    const BYTES: usize = 5;
    let is_end = |code: &[u8]| match code {
        // add rsp, ..
        [0x48, 0x83, 0xc4, _, 0xc3] => true,
        // pop rbx, r12, r14, r15
        [.., 0x5b | 0x5c | 0x5e | 0x5f, 0xc3] => true,
        _ => false,
    };
    if has_shadow_stack() {
        return None;
    }
    // The first object is the program.
    let of_caller =
        objects::find(|object| object.has(caller).then(|| object.in_code(caller, BYTES, is_end)));
    let after =
        of_caller.or_else(|| objects::find(|it| Some(it.in_code(caller, BYTES, is_end)))).flatten();
    after.map(|after| after - 1)
}

/// Calls a function of three arguments so that it has an address in another object as the one that it returns
/// to: a `ret` there, which returns here.
///
/// # Safety
/// That of the function. `at` is from [`return_instruction`].
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn call_from(
    first: usize,
    second: usize,
    third: usize,
    function: usize,
    at: usize,
) -> *mut c_void {
    naked_asm!(
        ".cfi_startproc",
        "lea rax, [rip + 2f]",
        "push rax",
        "push r8",
        "jmp rcx",
        "2:",
        "ret",
        ".cfi_endproc",
    )
}

/// The address of a function that this library defines.
pub(crate) fn own(name: &CStr) -> Option<usize> {
    objects::own()?.defined(name)
}

/// Whether an address is in this library.
pub(crate) fn is_here(address: usize) -> bool {
    objects::own().is_some_and(|own| own.has(address))
}

/// Whether the program calls this library's function of this name.
pub(crate) fn is_called(name: &CStr) -> bool {
    // SAFETY: the name ends with a NUL.
    is_here(unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) }.addr())
}

/// Whether a function of this name that was found is the one that this library's calls next.
pub(crate) fn is_next(name: &CStr, found: usize) -> bool {
    // SAFETY: the name ends with a NUL.
    let next = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) }.addr();
    if next == 0 {
        // That there is none is no error of the program.
        // SAFETY: always allowed.
        unsafe { libc::dlerror() };
    }
    next == found
}

/// The first function of this name in the objects behind this library. Not by `dlsym`, which it may be.
pub(crate) fn next_defined(name: &CStr) -> Option<usize> {
    let mut is_behind = false;
    objects::find(|object| {
        let found = object.defined(name).filter(|_| is_behind);
        is_behind |= object.has((is_here as fn(usize) -> bool) as usize);
        found
    })
}

/// Whether the object that an address is in defines a function of this name.
pub(crate) fn defines(address: usize, name: &CStr) -> bool {
    objects::find(|object| object.has(address).then(|| object.defined(name).is_some()))
        .unwrap_or(false)
}

/// The addresses of the object that an address is in, and its function of this name.
pub(crate) fn object_with(address: usize, name: &CStr) -> Option<((usize, usize), Option<usize>)> {
    objects::find(|object| {
        object.has(address).then(|| Some((object.addresses()?, object.defined(name))))
    })?
}

/// Whether an address is in an object behind this library that also defines functions of those below: one may
/// call another, and this library's would call that object again.
pub(crate) fn is_between(address: usize) -> bool {
    const SOME: [&CStr; 10] = [
        c"malloc",
        c"calloc",
        c"realloc",
        c"free",
        c"posix_memalign",
        c"memalign",
        c"mmap",
        c"execve",
        c"execvpe",
        c"pthread_create",
    ];
    let mut is_behind = false;
    let is_between = objects::find(|object| {
        let defines = || SOME.iter().any(|name| object.defined(name).is_some());
        let found = object.has(address).then(|| is_behind && defines());
        is_behind |= object.has((is_here as fn(usize) -> bool) as usize);
        found
    });
    is_between.unwrap_or(false)
}

/// The objects that were loaded at a moment.
pub(crate) struct Loaded {
    bases: Vec<usize>,
    /// How many had been loaded, and unloaded.
    counts: (u64, u64),
}

impl Loaded {
    pub(crate) fn now() -> Self {
        let mut now = Self { bases: Vec::new(), counts: (0, 0) };
        objects::find(|object| {
            now.bases.push(object.base);
            now.counts = object.counts;
            None::<()>
        });
        now
    }

    /// Whether none was loaded since.
    pub(crate) fn is_still_all(&self) -> bool {
        objects::find(|object| Some(object.counts.0 == self.counts.0)).unwrap_or(false)
    }

    fn has(&self, object: &Object<'_>) -> bool {
        self.bases.contains(&object.base)
    }

    /// Whether an object could be new. Since one was unloaded, a new one can be where it was.
    pub(super) fn may_lack(&self, object: &Object<'_>) -> bool {
        object.counts.1 != self.counts.1 || !self.has(object)
    }
}

/// A function of this library, of which a new object has an address.
struct Function {
    own: usize,
    /// What this library's calls.
    next: usize,
    /// What the object finds.
    found: usize,
    /// Whether objects that were opened without the flag find this library's.
    is_first: bool,
}

/// Leads the calls of objects that are new since `before` to this library. `handle` is that of one of them.
pub(crate) fn lead_here(handle: *mut c_void, before: &Loaded) {
    let mut names = Vec::<(usize, CString)>::new();
    each_import(before, |_, own, name, _| {
        if names.iter().all(|(known, _)| *known != own) {
            names.push((own, name.to_owned()));
        }
    });
    // NOTE: the loader's lock for this is never taken while it lists objects, which is the other way round.
    let find = |from: *mut c_void, name: &CStr| {
        // SAFETY: the name ends with a NUL, and the handle is open.
        unsafe { libc::dlsym(from, name.as_ptr()) }.addr()
    };
    let functions: Vec<_> = names
        .iter()
        .map(|(own, name)| {
            let (next, found) = (find(libc::RTLD_NEXT, name), find(handle, name));
            let is_first = find(libc::RTLD_DEFAULT, name) == *own;
            Function { own: *own, next, found, is_first }
        })
        .filter(|function| function.next != 0)
        .collect();
    // A name that was not found is no error of the program.
    // SAFETY: always allowed.
    unsafe { libc::dlerror() };
    each_import(before, |object, own, _, place| {
        let Some(function) = functions.iter().find(|function| function.own == own) else { return };
        let slot = ptr::with_exposed_provenance::<AtomicUsize>(place);
        // SAFETY: the loader has put an address there, and keeps the object loaded as long as it lists
        // objects.
        let slot = unsafe { &*slot };
        let leads_to = match slot.load(Ordering::Relaxed) {
            // It will be looked for in the first call. In an old object, it is this library's that is found,
            // or another's before it.
            address if object.has(address) && (function.is_first || !before.has(object)) => {
                function.found
            }
            address => address,
        };
        if leads_to == function.next {
            store(object, slot, own);
        }
    });
}

/// Calls `look` with each address that objects which may be new since `before` have of a function that this
/// library also defines: the object, this library's function, its name, and where the address is.
fn each_import(before: &Loaded, mut look: impl FnMut(&Object<'_>, usize, &CStr, usize)) {
    let here = (Loaded::now as fn() -> Loaded) as usize;
    objects::find(|own| {
        own.has(here).then(|| {
            objects::find(|object| {
                if before.may_lack(object) {
                    object.imports(|name, place| {
                        if let Some(function) = own.defined(name) {
                            look(object, function, name, place);
                        }
                    });
                }
                None::<()>
            })
        })
    });
}

/// Stores an address where the loader may have made the pages read-only. It does that last: while they can be
/// written to, another thread is still in the `dlopen` of the object, which leads its calls here.
fn store(object: &Object<'_>, slot: &AtomicUsize, address: usize) {
    const PAGE: usize = 4096;
    let page = ptr::from_ref(slot).addr() & !(PAGE - 1);
    let is_of_loader = object
        .parts(libc::PT_GNU_RELRO)
        .any(|(start, bytes)| (start & !(PAGE - 1)..(start + bytes) & !(PAGE - 1)).contains(&page));
    let protect = |access| {
        let page = ptr::with_exposed_provenance_mut(page);
        // SAFETY: the page is that of the slot, and stays readable.
        unsafe { pages::mprotect(page, PAGE, access) == 0 }
    };
    if !is_of_loader {
        slot.store(address, Ordering::Relaxed);
    } else if is_read_only(slot) && protect(libc::PROT_READ | libc::PROT_WRITE) {
        slot.store(address, Ordering::Relaxed);
        protect(libc::PROT_READ);
    }
}

/// Whether the kernel refuses to change a word: to combine it with 0 by an atomic OR ("man 2 futex",
/// `FUTEX_WAKE_OP`).
fn is_read_only(word: &AtomicUsize) -> bool {
    const WAKE_OP: c_int = libc::FUTEX_WAKE_OP | libc::FUTEX_PRIVATE_FLAG;
    const OR_ZERO: c_int = libc::FUTEX_OP_OR << 28;
    let word = ptr::from_ref(word);
    // SAFETY: the word keeps its value, and nothing waits at its address.
    let done = unsafe { libc::syscall(libc::SYS_futex, word, WAKE_OP, 0, 0, word, OR_ZERO) };
    done < 0 && io::Error::last_os_error().raw_os_error() == Some(libc::EFAULT)
}

/// Whether the processor checks where functions return to (Intel's manual, volume 1, 17.2).
pub(super) fn has_shadow_stack() -> bool {
    let shadow_stack: usize;
    // SAFETY: reads a register; where there is no shadow stack, the instruction does nothing.
    unsafe {
        std::arch::asm!(
            "xor eax, eax",
            "rdsspq rax",
            out("rax") shadow_stack,
            options(nomem, nostack),
        );
    }
    shadow_stack != 0
}
