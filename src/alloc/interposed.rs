//! What the loader of macOS calls in the place of its functions of `malloc`, and of `_exit`, which runs
//! nothing at exit, where the library of `preload/` is inserted into a program: pairs of functions in a
//! section that the loader reads (`__interpose` of `mach-o/dyld-interposing.h`).
//!
//! Calls of all other libraries go there, those within libSystem included. A zone is an allocator of its own
//! (`malloc/malloc.h`). `free` takes blocks of all zones that the system lists; the free of a block of
//! another zone is not recorded. Functions with `type` in their names are those that compilers call
//! since macOS 14: they get a number of the type as a last argument, by which only their allocator places the
//! block. Here it is left out.
#![expect(unsafe_code, reason = "the functions of C")]

use super::c_malloc::{EINVAL, outer, record, refuse};
use crate::platform::os::next_malloc::{MIN_ALIGN, usable_size};
use crate::platform::os::page_bytes;
use std::ffi::{c_uint, c_void};

unsafe extern "C" {
    fn malloc_zone_malloc(zone: *mut c_void, size: usize) -> *mut u8;
    fn malloc_zone_calloc(zone: *mut c_void, count: usize, size: usize) -> *mut u8;
    fn malloc_zone_realloc(zone: *mut c_void, block: *mut u8, size: usize) -> *mut u8;
    fn malloc_zone_memalign(zone: *mut c_void, align: usize, size: usize) -> *mut u8;
    fn malloc_zone_valloc(zone: *mut c_void, size: usize) -> *mut u8;
    fn malloc_zone_free(zone: *mut c_void, block: *mut u8);
    fn malloc_zone_batch_malloc(
        zone: *mut c_void,
        size: usize,
        blocks: *mut *mut u8,
        count: c_uint,
    ) -> c_uint;
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
    record::<false>(unsafe { malloc_zone_valloc(zone, size) }, size, page_bytes())
}

/// Of macOS 26: what it does is put together from older functions.
///
/// # Safety
/// As above.
pub unsafe extern "C" fn zone_malloc_with_options(
    zone: *mut c_void,
    align: usize,
    size: usize,
    options: u64,
) -> *mut u8 {
    /// `MALLOC_ZONE_MALLOC_OPTION_CLEAR`
    const CLEAR: u64 = 1;
    // SAFETY: as above; a block has its size.
    unsafe {
        if align <= MIN_ALIGN {
            let is_clear = options & CLEAR != 0;
            return if is_clear { zone_calloc(zone, 1, size) } else { zone_malloc(zone, size) };
        }
        let block = zone_memalign(zone, align, size);
        if options & CLEAR != 0 && !block.is_null() {
            block.write_bytes(0, size);
        }
        block
    }
}

/// # Safety
/// As above.
pub unsafe extern "C" fn zone_malloc_of_type_with_options(
    zone: *mut c_void,
    align: usize,
    size: usize,
    _: u64,
    options: u64,
) -> *mut u8 {
    // SAFETY: as above.
    unsafe { zone_malloc_with_options(zone, align, size, options) }
}

/// # Safety
/// As above.
pub unsafe extern "C" fn zone_batch_malloc(
    zone: *mut c_void,
    size: usize,
    blocks: *mut *mut u8,
    count: c_uint,
) -> c_uint {
    // SAFETY: as above. The function has written as many blocks as it returns.
    unsafe {
        let made = malloc_zone_batch_malloc(zone, size, blocks, count);
        for at in 0..made as usize {
            record::<false>(*blocks.add(at), size, MIN_ALIGN);
        }
        made
    }
}

/// # Safety
/// As above.
pub unsafe extern "C" fn zone_batch_free(zone: *mut c_void, blocks: *mut *mut u8, count: c_uint) {
    // SAFETY: as above.
    unsafe {
        for at in 0..count as usize {
            zone_free(zone, *blocks.add(at));
        }
    }
}

/// A block stays in its zone.
///
/// # Safety
/// As above.
pub unsafe extern "C" fn zone_realloc(zone: *mut c_void, block: *mut u8, size: usize) -> *mut u8 {
    // SAFETY: as above.
    unsafe {
        if block.is_null() {
            return zone_malloc(zone, size);
        }
        if usable_size(block) == 0 {
            return malloc_zone_realloc(zone, block, size);
        }
        if size > 0 {
            return outer::realloc(block, size);
        }
        let new = zone_malloc(zone, 0);
        if !new.is_null() {
            outer::free(block);
        }
        new
    }
}

/// # Safety
/// As above.
pub unsafe extern "C" fn zone_free(zone: *mut c_void, block: *mut u8) {
    // SAFETY: as above.
    unsafe {
        if block.is_null() || usable_size(block) == 0 {
            malloc_zone_free(zone, block);
        } else {
            outer::free(block);
        }
    }
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

/// Writes the section, in the place of what the macro defines on Linux.
#[doc(hidden)]
#[macro_export]
macro_rules! __define_c_malloc {
    ($($of_linux:tt)*) => {
        use $crate::__private::{c_malloc::outer, exit_after_report, interposed};
        $crate::__interpose_c_malloc! {
            "malloc" "malloc_type_malloc" => outer::malloc;
            "calloc" "malloc_type_calloc" => outer::calloc;
            "realloc" "malloc_type_realloc" => outer::realloc;
            "reallocf" => interposed::reallocf;
            "free" "malloc_type_free" "vfree" => outer::free;
            "posix_memalign" "malloc_type_posix_memalign" => outer::posix_memalign;
            "aligned_alloc" "malloc_type_aligned_alloc" => interposed::aligned_alloc;
            "valloc" "malloc_type_valloc" => outer::valloc;
            "malloc_zone_malloc" "malloc_type_zone_malloc" => interposed::zone_malloc;
            "malloc_zone_calloc" "malloc_type_zone_calloc" => interposed::zone_calloc;
            "malloc_zone_realloc" "malloc_type_zone_realloc" => interposed::zone_realloc;
            "malloc_zone_free" "malloc_type_zone_free" => interposed::zone_free;
            "malloc_zone_memalign" "malloc_type_zone_memalign" => interposed::zone_memalign;
            "malloc_zone_valloc" "malloc_type_zone_valloc" => interposed::zone_valloc;
            "malloc_zone_malloc_with_options" "malloc_zone_malloc_with_options_np" => interposed::zone_malloc_with_options;
            "malloc_type_zone_malloc_with_options" => interposed::zone_malloc_of_type_with_options;
            "malloc_type_zone_malloc_with_options_internal" => interposed::zone_malloc_of_type_with_options;
            "malloc_zone_batch_malloc" => interposed::zone_batch_malloc;
            "malloc_zone_batch_free" => interposed::zone_batch_free;
            "_exit" "_Exit" => exit_after_report;
        }
    };
}

/// Writes pairs. A name that the system does not have is 0 in the section, and is not called.
#[doc(hidden)]
#[macro_export]
macro_rules! __interpose_c_malloc {
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
