//! What the loader of macOS calls in the place of its functions of `malloc`, and of `_exit`, which runs
//! nothing at exit, where the library of `preload/` is inserted into a program: pairs of functions in a
//! section that the loader reads (`__interpose` of `mach-o/dyld-interposing.h`).
//!
//! Calls of all other libraries go there, those within libSystem included. A zone is an allocator of its own,
//! whose blocks `free` takes, too (`malloc/malloc.h`). Functions with `type` in their names are those that
//! compilers call since macOS 14: they get a number of the type as a last argument, by which only their
//! allocator places the block. Here it is left out.
#![expect(unsafe_code, reason = "the functions of C")]

use super::c_malloc::{EINVAL, outer, record, refuse};
use crate::platform::os::next_malloc::MIN_ALIGN;
use std::ffi::c_void;

unsafe extern "C" {
    fn malloc_zone_malloc(zone: *mut c_void, size: usize) -> *mut u8;
    fn malloc_zone_calloc(zone: *mut c_void, count: usize, size: usize) -> *mut u8;
    fn malloc_zone_memalign(zone: *mut c_void, align: usize, size: usize) -> *mut u8;
}

/// # Safety
/// That of the system's function, here and below.
pub unsafe extern "C" fn zone_malloc(zone: *mut c_void, size: usize) -> *mut u8 {
    // SAFETY: the caller makes the promise of the function, here and below.
    record::<false>(unsafe { malloc_zone_malloc(zone, size) }, size, MIN_ALIGN)
}

/// # Safety
/// As above.
pub unsafe extern "C" fn zone_calloc(zone: *mut c_void, count: usize, size: usize) -> *mut u8 {
    // SAFETY: as above. If the product overflows, the result is null.
    let block = unsafe { malloc_zone_calloc(zone, count, size) };
    record::<false>(block, count.wrapping_mul(size), MIN_ALIGN)
}

/// # Safety
/// As above.
pub unsafe extern "C" fn zone_memalign(zone: *mut c_void, align: usize, size: usize) -> *mut u8 {
    // SAFETY: as above.
    let block = unsafe { malloc_zone_memalign(zone, align, size) };
    // What is no alignment gets no block.
    record::<false>(block, size, if align.is_power_of_two() { align } else { MIN_ALIGN })
}

/// # Safety
/// As above.
pub unsafe extern "C" fn zone_valloc(zone: *mut c_void, size: usize) -> *mut u8 {
    // SAFETY: as above.
    unsafe { zone_memalign(zone, crate::platform::os::page_bytes(), size) }
}

/// A block stays in its zone.
///
/// # Safety
/// As above.
pub unsafe extern "C" fn zone_realloc(_: *mut c_void, block: *mut u8, size: usize) -> *mut u8 {
    // SAFETY: as above.
    unsafe { outer::realloc(block, size) }
}

/// # Safety
/// As above.
pub unsafe extern "C" fn zone_free(_: *mut c_void, block: *mut u8) {
    // SAFETY: as above.
    unsafe { outer::free(block) };
}

/// Frees the block if it cannot be reallocated.
///
/// # Safety
/// As above.
pub unsafe extern "C" fn reallocf(block: *mut u8, size: usize) -> *mut u8 {
    // SAFETY: as above.
    unsafe {
        let new = outer::realloc(block, size);
        if new.is_null() && size > 0 {
            outer::free(block);
        }
        new
    }
}

/// macOS's refuses what C does not allow (`MZ_C11` of libmalloc's malloc.c).
///
/// # Safety
/// As above.
pub unsafe extern "C" fn aligned_alloc(align: usize, size: usize) -> *mut u8 {
    if !align.is_power_of_two() || align < size_of::<usize>() || !size.is_multiple_of(align) {
        return refuse(EINVAL);
    }
    // SAFETY: as above.
    unsafe { outer::memalign(align, size) }
}

/// Writes the section. A name that the system does not have is 0 in it, and is not called.
#[doc(hidden)]
#[macro_export]
macro_rules! __interpose_c_malloc {
    () => {
        use $crate::__private::{c_malloc::outer, exit_after_report, interposed};
        $crate::__interpose_c_malloc! {
            "malloc" "malloc_type_malloc" => outer::malloc;
            "calloc" "malloc_type_calloc" => outer::calloc;
            "realloc" "malloc_type_realloc" => outer::realloc;
            "reallocf" => interposed::reallocf;
            "free" "malloc_type_free" => outer::free;
            "posix_memalign" "malloc_type_posix_memalign" => outer::posix_memalign;
            "aligned_alloc" "malloc_type_aligned_alloc" => interposed::aligned_alloc;
            "valloc" "malloc_type_valloc" => outer::valloc;
            "malloc_zone_malloc" "malloc_type_zone_malloc" => interposed::zone_malloc;
            "malloc_zone_calloc" "malloc_type_zone_calloc" => interposed::zone_calloc;
            "malloc_zone_realloc" "malloc_type_zone_realloc" => interposed::zone_realloc;
            "malloc_zone_free" "malloc_type_zone_free" => interposed::zone_free;
            "malloc_zone_memalign" "malloc_type_zone_memalign" => interposed::zone_memalign;
            "malloc_zone_valloc" "malloc_type_zone_valloc" => interposed::zone_valloc;
            "_exit" "_Exit" => exit_after_report;
        }
    };
    ($($($name:literal)* => $new:path;)*) => {
        $($crate::__interpose_c_malloc! { $new, $($name)* })*
    };
    ($new:path, $($name:literal)*) => {
        ::core::arch::global_asm!(
            ".section __DATA,__interpose,interposing,no_dead_strip",
            ".p2align 3",
            $(concat!(".weak_reference _", $name), ".quad {new}", concat!(".quad _", $name),)*
            ".text",
            new = sym $new,
        );
    };
}
