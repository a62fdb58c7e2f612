//! Allocators that are known by what they are, not by their names.

use crate::platform::os::redirect::Renamed;
use std::ffi::{c_char, c_int, c_void};
use std::mem::transmute;
use std::ptr;

/// Allocators whose functions a library or program may have given a prefix of its own, and which are known by
/// their functions then.
pub(crate) static RENAMED: [Renamed; 3] = [
    Renamed {
        witness: "mallctl",
        others: &[
            "malloc",
            "calloc",
            "realloc",
            "free",
            "posix_memalign",
            "aligned_alloc",
            "malloc_usable_size",
        ],
        known_as: "je_",
    },
    Renamed {
        witness: "mi_version",
        others: &[
            "mi_malloc",
            "mi_calloc",
            "mi_realloc",
            "mi_free",
            "mi_zalloc",
            "mi_malloc_aligned",
            "mi_usable_size",
        ],
        known_as: "",
    },
    Renamed {
        witness: "sn_rust_alloc",
        others: &["sn_rust_alloc_zeroed", "sn_rust_realloc", "sn_rust_dealloc"],
        known_as: "",
    },
];

/// Whether the first function of an allocator answers as that of such an allocator does.
///
/// # Safety
/// `witness` is the address of that function.
pub(crate) unsafe fn answers(renamed: &Renamed, witness: usize) -> bool {
    type Mallctl =
        unsafe extern "C" fn(*const c_char, *mut c_void, *mut usize, *const c_void, usize) -> c_int;
    type Version = unsafe extern "C" fn() -> c_int;
    let function = ptr::with_exposed_provenance::<c_void>(witness);
    match renamed.witness {
        "mallctl" => {
            let mut version = ptr::null::<c_char>();
            let mut size = size_of_val(&version);
            // SAFETY: a function of this name, beside the others, has this type, and stores a pointer.
            let error = unsafe {
                let mallctl = transmute::<*const c_void, Mallctl>(function);
                let version = (&raw mut version).cast();
                mallctl(c"version".as_ptr(), version, &raw mut size, ptr::null(), 0)
            };
            error == 0 && !version.is_null()
        }
        // SAFETY: as above.
        "mi_version" => unsafe { transmute::<*const c_void, Version>(function)() > 0 },
        _ => true,
    }
}
