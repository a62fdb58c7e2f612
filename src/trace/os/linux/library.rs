//! A library that has the tracker in it stays loaded.
//!
//! Its code runs where nobody asks whether it is still there: on the worker's thread, when a thread
//! or the process ends, around a fork, and it has handed out `&'static` names. glibc's `dlclose`
//! would take it away from under all of these. musl's takes nothing away, and a program without a
//! loader has nothing that could be.

/// Has `dlclose` leave the library that this code is in where it is, to the end of the process.
/// Called while it is loaded: from then on the loader finds it again instead of loading it anew.
#[cfg(all(target_env = "gnu", not(target_feature = "crt-static")))]
pub(super) fn stay_loaded() {
    use std::ffi::{c_char, c_int, c_void};

    struct Own {
        code: usize,
        name: *const c_char,
    }

    /// Whether an object is the one with the code; notes its name.
    unsafe extern "C" fn look(
        object: *mut libc::dl_phdr_info,
        _: libc::size_t,
        own: *mut c_void,
    ) -> c_int {
        // SAFETY: the loader's description of an object, and what was handed over below.
        let (object, own) = unsafe { (&*object, &mut *own.cast::<Own>()) };
        // SAFETY: the loader gives as many as it says.
        let parts =
            unsafe { std::slice::from_raw_parts(object.dlpi_phdr, usize::from(object.dlpi_phnum)) };
        let found = parts.iter().filter(|part| part.p_type == libc::PT_LOAD).any(|part| {
            let offset = own.code.wrapping_sub((object.dlpi_addr + part.p_vaddr) as usize);
            offset < part.p_memsz as usize
        });
        if found {
            own.name = object.dlpi_name;
        }
        c_int::from(found)
    }

    let mut own = Own { code: stay_loaded as *const () as usize, name: std::ptr::null() };
    // SAFETY: the loader calls back before it returns. Its locks can be taken twice by a thread: it
    // has them while a library's first functions run, and lets those load libraries.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut own).cast()) };
    // NOTE: the program itself has no name. It is never unloaded, and looking for it by another one
    // could find a library of that name.
    // SAFETY: a name of the loader's ends with a NUL, and lives as long as the object.
    if !own.name.is_null() && unsafe { *own.name } != 0 {
        // NOTE: by the very name that the loader knows it under; so nothing is searched or opened,
        // also where the file is gone. The handle is kept, which alone would be enough.
        // SAFETY: as above; nothing is loaded that is not there.
        unsafe { libc::dlopen(own.name, libc::RTLD_NOW | libc::RTLD_NOLOAD | libc::RTLD_NODELETE) };
    }
}

/// See above: there is nothing to do.
#[cfg(not(all(target_env = "gnu", not(target_feature = "crt-static"))))]
pub(super) fn stay_loaded() {}
