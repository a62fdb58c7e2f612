//! The next functions, as the loader finds them.
//!
//! NOTE: looking a function up takes the loader's lock, which is recursive, and older versions of
//! glibc allocate there. So all are looked up in the first call of any. What is allocated meanwhile
//! is from a small static area, and is never given back.
//!
//! PERF: until then, each pointer is to a function that looks them up, so no call has to ask whether
//! that was done. Relaxed loads and stores are enough: to make a thread, C allocates, so the first call
//! comes before there is a second thread.

#[cfg(c_mmap)]
use super::super::objects;
#[cfg(c_mmap)]
use super::inner;
use std::cell::UnsafeCell;
use std::ffi::{CStr, c_int, c_void};
use std::mem::transmute;
#[cfg(c_mmap)]
use std::ops::Range;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

type Malloc = unsafe extern "C" fn(usize) -> *mut u8;
type Calloc = unsafe extern "C" fn(usize, usize) -> *mut u8;
type Realloc = unsafe extern "C" fn(*mut u8, usize) -> *mut u8;
type Free = unsafe extern "C" fn(*mut u8);
type UsableSize = unsafe extern "C" fn(*mut u8) -> usize;
type PosixMemalign = unsafe extern "C" fn(*mut *mut u8, usize, usize) -> c_int;

static MALLOC: AtomicPtr<c_void> = AtomicPtr::new(first_malloc as Malloc as *mut c_void);
static CALLOC: AtomicPtr<c_void> = AtomicPtr::new(first_calloc as Calloc as *mut c_void);
static REALLOC: AtomicPtr<c_void> = AtomicPtr::new(first_realloc as Realloc as *mut c_void);
static FREE: AtomicPtr<c_void> = AtomicPtr::new(first_free as Free as *mut c_void);
static POSIX_MEMALIGN: AtomicPtr<c_void> =
    AtomicPtr::new(first_posix_memalign as PosixMemalign as *mut c_void);
static MEMALIGN: AtomicPtr<c_void> = AtomicPtr::new(first_memalign as Calloc as *mut c_void);
/// NOTE: not the function of this name: that may be of an allocator that the program has in itself.
static USABLE_SIZE: AtomicPtr<c_void> =
    AtomicPtr::new(malloc_usable_size as UsableSize as *mut c_void);
static ALL: [(&AtomicPtr<c_void>, &CStr); 6] = [
    (&MALLOC, c"malloc"),
    (&CALLOC, c"calloc"),
    (&REALLOC, c"realloc"),
    (&FREE, c"free"),
    (&POSIX_MEMALIGN, c"posix_memalign"),
    (&MEMALIGN, c"memalign"),
];

unsafe extern "C" {
    fn malloc_usable_size(block: *mut u8) -> usize;
}

/// Looks all functions up; `false` if this thread is doing so already, or if one is missing.
fn find_all() -> bool {
    /// The thread that looks the functions up, by the address of its `errno`; 0 for none.
    static FINDING: AtomicUsize = AtomicUsize::new(0);
    // SAFETY: every thread has one.
    let thread = unsafe { libc::__errno_location() }.addr();
    if FINDING.load(Ordering::Relaxed) == thread {
        return false;
    }
    // NOTE: two threads may do this at once; both find the same.
    FINDING.store(thread, Ordering::Relaxed);
    // SAFETY: the names end with a NUL.
    let next = |name: &CStr| unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    let found = ALL.map(|(_, name)| next(name));
    let usable_size = next(c"malloc_usable_size");
    if !usable_size.is_null() {
        USABLE_SIZE.store(usable_size, Ordering::Relaxed);
    }
    #[cfg(c_mmap)]
    {
        note_allocator(found[0].addr());
        for (place, name) in mapped::ALL {
            place.store(next(name), Ordering::Relaxed);
        }
    }
    FINDING.store(0, Ordering::Relaxed);
    let has_all = found.iter().all(|function| !function.is_null());
    #[cfg(c_mmap)]
    let found = match has_all && note_nested(next(c"__libc_start_main").addr()) {
        true => {
            #[cfg(redirects)]
            other_names::find(next);
            nested::functions(found)
        }
        false => found,
    };
    for ((place, _), function) in ALL.iter().zip(found).filter(|_| has_all) {
        place.store(function, Ordering::Relaxed);
    }
    has_all
}

/// Notes the addresses of the library that has `function`.
#[cfg(c_mmap)]
fn note_allocator(function: usize) {
    let addresses = objects::find(|object| object.has(function).then(|| object.addresses()));
    if let Some(addresses) = addresses.flatten() {
        store(&inner::ALLOCATOR, addresses);
    }
}

/// Notes the libraries that define functions of `malloc`, without this one and the one that has the address
/// `c_library`; returns whether there are any.
#[cfg(c_mmap)]
fn note_nested(c_library: usize) -> bool {
    let mut is_any = false;
    objects::find(|object| {
        let is_other = !object.has(c_library) && !object.has((&raw const MALLOC).addr());
        if is_other && ALL.iter().any(|(_, name)| object.defined(name).is_some()) {
            is_any |= inner::note_nested(object.addresses()?);
        }
        None::<()>
    });
    is_any
}

#[cfg(c_mmap)]
fn store([start, bytes]: &[AtomicUsize; 2], (from, to): (usize, usize)) {
    start.store(from, Ordering::Relaxed);
    bytes.store(to - from, Ordering::Relaxed);
}

/// The addresses of the functions that call those of other libraries.
#[cfg(c_mmap)]
pub(super) fn calling() -> Range<usize> {
    unsafe extern "C" {
        // The linker defines these names, for a section.
        #[link_name = "__start_memledger_calls"]
        static START: u8;
        #[link_name = "__stop_memledger_calls"]
        static END: u8;
    }
    (&raw const START).addr()..(&raw const END).addr()
}

/// The functions, with a note that they run.
#[cfg(c_mmap)]
mod nested {
    use super::super::inner::{begin, end};
    use super::*;

    macro_rules! nested {
        ($($place:ident $name:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {
            $(
                static $place: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

                // NOTE: the call is in this function itself, see `calling`.
                #[unsafe(link_section = "memledger_calls")]
                unsafe extern "C" fn $name($($argument: $type),*) -> $result {
                    type Function = unsafe extern "C" fn($($type),*) -> $result;
                    let next = $place.load(Ordering::Relaxed);
                    let before = begin();
                    // SAFETY: the function has this type; the caller makes the same promise.
                    let next = unsafe { transmute::<*mut c_void, Function>(next) };
                    // SAFETY: as above.
                    let result = unsafe { next($($argument),*) };
                    end(before);
                    result
                }
            )*

            /// Functions in the place of those that were `found`, which they call.
            pub(super) fn functions(found: [*mut c_void; 6]) -> [*mut c_void; 6] {
                let [$($name),*] = found;
                $($place.store($name, Ordering::Relaxed);)*
                [$(self::$name as unsafe extern "C" fn($($type),*) -> $result as *mut c_void),*]
            }
        };
    }
    nested! {
        MALLOC malloc(size: usize) -> *mut u8;
        CALLOC calloc(count: usize, size: usize) -> *mut u8;
        REALLOC realloc(block: *mut u8, size: usize) -> *mut u8;
        FREE free(block: *mut u8) -> ();
        POSIX_MEMALIGN posix_memalign(block: *mut *mut u8, align: usize, size: usize) -> c_int;
        MEMALIGN memalign(align: usize, size: usize) -> *mut u8;
    }
}

/// The next functions by glibc's other names, where a library that is not the C library defines functions of
/// `malloc`. That may be above them: it calls these names for what is below itself.
#[cfg(redirects)]
pub mod other_names {
    use super::*;

    macro_rules! other_names {
        ($($other:ident $name:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {
            mod places {
                use super::*;
                $(
                    #[expect(non_upper_case_globals, reason = "the name of C's function")]
                    pub(super) static $other: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
                )*
            }

            pub(super) fn find(next: impl Fn(&CStr) -> *mut c_void) {
                $(
                    if let Ok(name) = CStr::from_bytes_with_nul(concat!(stringify!($other), "\0").as_bytes()) {
                        places::$other.store(next(name), Ordering::Relaxed);
                    }
                )*
            }

            $(
                /// `None` if there is no such library: the function is that of the usual name.
                #[inline(always)]
                pub(crate) fn $other() -> Option<unsafe extern "C" fn($($type),*) -> $result> {
                    if MALLOC.load(Ordering::Relaxed) == first_malloc as Malloc as *mut c_void {
                        find_all();
                    }
                    // SAFETY: a function of this name has this type.
                    unsafe { transmute(places::$other.load(Ordering::Relaxed)) }
                }
            )*
        };
    }
    __c_malloc_other_names! { other_names }
}

/// The next functions of mapped memory. Those that are not known yet are system calls.
#[cfg(c_mmap)]
pub mod mapped {
    use super::super::super::pages;
    use super::*;

    static BRK: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
    static SBRK: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
    static PTHREAD_CREATE: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
    pub(super) static ALL: [(&AtomicPtr<c_void>, &CStr); 9] = [
        (&BRK, c"brk"),
        (&SBRK, c"sbrk"),
        (&MMAP, c"mmap"),
        (&MUNMAP, c"munmap"),
        (&MREMAP, c"mremap"),
        (&MPROTECT, c"mprotect"),
        (&SHMAT, c"shmat"),
        (&SHMDT, c"shmdt"),
        (&PTHREAD_CREATE, c"pthread_create"),
    ];

    /// # Safety
    /// That of C's function, here and below.
    pub unsafe extern "C" fn brk(end: *mut c_void) -> c_int {
        type Brk = unsafe extern "C" fn(*mut c_void) -> c_int;
        if BRK.load(Ordering::Relaxed).is_null() && !find_all() {
            return -1;
        }
        // SAFETY: the function has this type; the caller's promise, here and below.
        unsafe { transmute::<*mut c_void, Brk>(BRK.load(Ordering::Relaxed))(end) }
    }

    /// # Safety
    /// As above.
    pub unsafe extern "C" fn sbrk(more: isize) -> *mut c_void {
        type Sbrk = unsafe extern "C" fn(isize) -> *mut c_void;
        if SBRK.load(Ordering::Relaxed).is_null() && !find_all() {
            return libc::MAP_FAILED;
        }
        // SAFETY: as above.
        unsafe { transmute::<*mut c_void, Sbrk>(SBRK.load(Ordering::Relaxed))(more) }
    }

    /// # Safety
    /// As above.
    pub unsafe extern "C" fn pthread_create(
        thread: *mut libc::pthread_t,
        attributes: *const libc::pthread_attr_t,
        function: unsafe extern "C" fn(*mut c_void) -> *mut c_void,
        argument: *mut c_void,
    ) -> c_int {
        type Create = unsafe extern "C" fn(
            *mut libc::pthread_t,
            *const libc::pthread_attr_t,
            unsafe extern "C" fn(*mut c_void) -> *mut c_void,
            *mut c_void,
        ) -> c_int;
        let mut next = PTHREAD_CREATE.load(Ordering::Relaxed);
        if next.is_null() && find_all() {
            next = PTHREAD_CREATE.load(Ordering::Relaxed);
        }
        if next.is_null() {
            return libc::EAGAIN;
        }
        // SAFETY: as above.
        unsafe { transmute::<*mut c_void, Create>(next)(thread, attributes, function, argument) }
    }

    macro_rules! next {
        ($place:ident $name:ident($($argument:ident: $type:ty),*) -> $result:ty) => {
            static $place: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

            /// # Safety
            /// As above.
            pub unsafe extern "C" fn $name($($argument: $type),*) -> $result {
                let next = $place.load(Ordering::Relaxed);
                if next.is_null() {
                    // SAFETY: as above.
                    return unsafe { pages::$name($($argument),*) };
                }
                // SAFETY: as above.
                unsafe {
                    transmute::<*mut c_void, unsafe extern "C" fn($($type),*) -> $result>(next)(
                        $($argument),*
                    )
                }
            }
        };
    }
    next!(MMAP mmap(
        address: *mut c_void, bytes: usize, access: c_int, flags: c_int, file: c_int, offset: i64
    ) -> *mut c_void);
    pub use mmap as mmap64;
    next!(MUNMAP munmap(address: *mut c_void, bytes: usize) -> c_int);
    // NOTE: C's function takes its last argument as one of any number, which is passed like this.
    next!(MREMAP mremap(
        address: *mut c_void, bytes: usize, new_bytes: usize, flags: c_int, new: *mut c_void
    ) -> *mut c_void);
    next!(MPROTECT mprotect(address: *mut c_void, bytes: usize, access: c_int) -> c_int);
    next!(SHMAT shmat(id: c_int, address: *const c_void, flags: c_int) -> *mut c_void);
    next!(SHMDT shmdt(address: *const c_void) -> c_int);
}

unsafe extern "C" fn first_malloc(size: usize) -> *mut u8 {
    // SAFETY: C's `malloc` has no condition.
    if find_all() { unsafe { malloc(size) } } else { early(size) }
}

unsafe extern "C" fn first_calloc(count: usize, size: usize) -> *mut u8 {
    // SAFETY: C's `calloc` has no condition.
    if find_all() { unsafe { calloc(count, size) } } else { early(count.saturating_mul(size)) }
}

unsafe extern "C" fn first_memalign(align: usize, size: usize) -> *mut u8 {
    // SAFETY: the caller makes the same promise.
    if find_all() { unsafe { memalign(align, size) } } else { ptr::null_mut() }
}

unsafe extern "C" fn first_realloc(block: *mut u8, size: usize) -> *mut u8 {
    // SAFETY: the caller makes the same promise.
    if find_all() { unsafe { realloc(block, size) } } else { ptr::null_mut() }
}

unsafe extern "C" fn first_free(block: *mut u8) {
    if find_all() {
        // SAFETY: the caller makes the same promise.
        unsafe { free(block) };
    }
}

unsafe extern "C" fn first_posix_memalign(block: *mut *mut u8, align: usize, size: usize) -> c_int {
    if find_all() {
        // SAFETY: the caller makes the same promise.
        unsafe {
            transmute::<*mut c_void, PosixMemalign>(POSIX_MEMALIGN.load(Ordering::Relaxed))(
                block, align, size,
            )
        }
    } else {
        libc::ENOMEM
    }
}

/// # Safety
/// That of C's `malloc`.
#[inline(always)]
pub(crate) unsafe fn malloc(size: usize) -> *mut u8 {
    // SAFETY: the function has this type; the caller makes the same promise.
    unsafe { transmute::<*mut c_void, Malloc>(MALLOC.load(Ordering::Relaxed))(size) }
}

/// # Safety
/// That of C's `calloc`.
#[inline(always)]
pub(crate) unsafe fn calloc(count: usize, size: usize) -> *mut u8 {
    // SAFETY: as in `malloc`.
    unsafe { transmute::<*mut c_void, Calloc>(CALLOC.load(Ordering::Relaxed))(count, size) }
}

/// # Safety
/// That of C's `realloc`; the block is not [early](is_early).
#[inline(always)]
pub(crate) unsafe fn realloc(block: *mut u8, size: usize) -> *mut u8 {
    // SAFETY: as in `malloc`.
    unsafe { transmute::<*mut c_void, Realloc>(REALLOC.load(Ordering::Relaxed))(block, size) }
}

/// # Safety
/// That of C's `free`; the block is not [early](is_early).
#[inline(always)]
pub(crate) unsafe fn free(block: *mut u8) {
    // SAFETY: as in `malloc`.
    unsafe { transmute::<*mut c_void, Free>(FREE.load(Ordering::Relaxed))(block) };
}

/// The number of bytes that the program may use at `block`, which is at least what it asked for.
///
/// # Safety
/// `block` is a live block of these functions, or null; it is not [early](is_early).
#[inline(always)]
pub(crate) unsafe fn usable_size(block: *mut u8) -> usize {
    // SAFETY: as in `malloc`.
    unsafe { transmute::<*mut c_void, UsableSize>(USABLE_SIZE.load(Ordering::Relaxed))(block) }
}

/// A block with an alignment that is a power of two, or the error.
///
/// # Safety
/// That of C's `posix_memalign`.
#[inline]
pub(crate) unsafe fn aligned(align: usize, size: usize) -> Result<*mut u8, c_int> {
    let mut block = ptr::null_mut();
    let align = align.max(size_of::<usize>());
    let next = POSIX_MEMALIGN.load(Ordering::Relaxed);
    // SAFETY: as in `malloc`.
    let error =
        unsafe { transmute::<*mut c_void, PosixMemalign>(next)(&raw mut block, align, size) };
    if error == 0 { Ok(block) } else { Err(error) }
}

/// NOTE: not by `posix_memalign`: that of the next library may call `memalign`, which is the program's.
///
/// # Safety
/// That of C's `memalign`.
#[inline]
pub(crate) unsafe fn memalign(align: usize, size: usize) -> *mut u8 {
    // SAFETY: as in `malloc`.
    unsafe { transmute::<*mut c_void, Calloc>(MEMALIGN.load(Ordering::Relaxed))(align, size) }
}

/// What is allocated while the functions are looked up.
#[repr(align(16))]
struct Area(UnsafeCell<[u8; 4096]>);

// SAFETY: each byte is given out once.
unsafe impl Sync for Area {}

static AREA: Area = Area(UnsafeCell::new([0; 4096]));
static USED: AtomicUsize = AtomicUsize::new(0);

/// A zeroed block of the area with an alignment of 16; null if the area is full.
#[cold]
fn early(size: usize) -> *mut u8 {
    let bytes = size.saturating_add(15) & !15;
    let take = |used: usize| {
        let end = used.checked_add(bytes)?;
        (end <= size_of::<Area>()).then_some(end)
    };
    match USED.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take) {
        Ok(start) => AREA.0.get().cast::<u8>().wrapping_add(start),
        Err(_) => ptr::null_mut(),
    }
}

/// Whether a block was allocated while the functions were looked up. Such a block must be kept.
#[inline(always)]
pub(crate) fn is_early(block: *mut u8) -> bool {
    block.addr().wrapping_sub(AREA.0.get().addr()) < size_of::<Area>()
}

/// The bytes from an early block to the end of the memory of such blocks.
pub(crate) fn early_bytes_from(block: *mut u8) -> usize {
    AREA.0.get().addr() + size_of::<Area>() - block.addr()
}
