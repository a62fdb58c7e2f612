//! Keeps a library that contains the tracker loaded.
//!
//! The tracker's code runs on the worker's thread, when a thread or the process ends, and around a
//! fork, and none of these checks that it is still loaded. The program may also hold `&'static`
//! names from it. glibc's `dlclose` would unmap the code and the names. musl's `dlclose` unmaps
//! nothing, and a static program has no loader that could unmap it. Nor does `dlclose` unmap a library
//! that was loaded with the program (`preload/`).

/// Makes `dlclose` keep the library that contains this code until the process ends. Called while
/// the library is being loaded: from then on `dlopen` finds it instead of loading it again.
#[cfg(all(target_env = "gnu", not(target_feature = "crt-static"), not(feature = "__preload")))]
pub(super) fn stay_loaded() {
    use std::ffi::{c_char, c_int, c_void};

    struct Own {
        code: usize,
        name: *const c_char,
    }

    /// Whether an object contains the code; stores the object's name.
    unsafe extern "C" fn look(
        object: *mut libc::dl_phdr_info,
        _: libc::size_t,
        own: *mut c_void,
    ) -> c_int {
        // SAFETY: `object` is the loader's description of an object; `own` is the local passed
        // below.
        let (object, own) = unsafe { (&*object, &mut *own.cast::<Own>()) };
        // SAFETY: the loader gives `dlpi_phnum` headers at `dlpi_phdr`.
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
    // SAFETY: the loader calls back only before it returns. Its locks are recursive: it holds them
    // while a library's first functions run, and lets those load libraries.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut own).cast()) };
    // NOTE: the program itself has an empty name. It is never unloaded, and looking for it under
    // another name could find a library of that name.
    // SAFETY: a name from the loader ends with a NUL, and lives as long as the object.
    if !own.name.is_null() && unsafe { *own.name } != 0 {
        // NOTE: this is the name under which the loader lists the object, so nothing is searched or
        // opened, even if the file is gone. The handle is never closed, which alone would keep the
        // library loaded.
        // SAFETY: as above; `RTLD_NOLOAD` loads nothing new.
        unsafe { libc::dlopen(own.name, libc::RTLD_NOW | libc::RTLD_NOLOAD | libc::RTLD_NODELETE) };
    }
}

/// Does nothing: here nothing unloads the library, as the module's documentation says.
#[cfg(not(all(
    target_env = "gnu",
    not(target_feature = "crt-static"),
    not(feature = "__preload")
)))]
pub(super) fn stay_loaded() {}
