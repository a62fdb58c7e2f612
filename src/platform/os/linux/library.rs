//! Keeps a library that contains the tracker loaded.
//!
//! The tracker's code runs on the worker's thread, when a thread or the process ends, and around a
//! fork, and none of these checks that it is still loaded. The program may also hold `&'static`
//! names from it. glibc's `dlclose` would unmap the code and the names. musl's `dlclose` unmaps
//! nothing, and a static program has no loader that could unmap it. Nor does `dlclose` unmap a library
//! that was loaded with the program (`preload/`).

/// Makes `dlclose` keep the library that contains this code until the process ends. Called while
/// the library is being loaded: from then on `dlopen` finds it instead of loading it again.
pub(super) fn stay_loaded() {
    // Elsewhere nothing unloads the library, as the module's documentation says.
    #[cfg(all(target_env = "gnu", not(target_feature = "crt-static"), not(preload)))]
    {
        let code = stay_loaded as *const () as usize;
        let Some(name) = super::objects::find(|object| object.has(code).then_some(object.name))
        else {
            return;
        };
        // NOTE: the program itself has an empty name. It is never unloaded, and looking for it under
        // another name could find a library of that name.
        // SAFETY: a name from the loader ends with a NUL, and lives as long as the object.
        if !name.is_null() && unsafe { *name } != 0 {
            // NOTE: this is the name under which the loader lists the object, so nothing is searched or
            // opened, even if the file is gone. The handle is never closed, which alone would keep the
            // library loaded.
            // SAFETY: as above; `RTLD_NOLOAD` loads nothing new.
            unsafe { libc::dlopen(name, libc::RTLD_NOW | libc::RTLD_NOLOAD | libc::RTLD_NODELETE) };
        }
    }
}
