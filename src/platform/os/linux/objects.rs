//! The program and its libraries, as the loader lists them.

use std::ffi::{c_char, c_int, c_void};

/// The program or a library.
pub(super) struct Object<'a> {
    base: usize,
    /// The name under which the loader lists it, empty for the program. Valid as long as the object is loaded.
    #[allow(dead_code, reason = "only `library.rs` needs it, where a library can be unloaded")]
    pub(super) name: *const c_char,
    headers: &'a [libc::Elf64_Phdr],
}

impl Object<'_> {
    /// The addresses and sizes of its parts of one type (`PT_LOAD`, `PT_NOTE`).
    pub(super) fn parts(&self, part_type: u32) -> impl Iterator<Item = (usize, usize)> {
        let headers = self.headers.iter().filter(move |header| header.p_type == part_type);
        headers.map(|header| {
            (self.base.wrapping_add(header.p_vaddr as usize), header.p_memsz as usize)
        })
    }

    /// Whether the address is in it.
    pub(super) fn has(&self, address: usize) -> bool {
        self.parts(libc::PT_LOAD).any(|(start, bytes)| address.wrapping_sub(start) < bytes)
    }
}

/// The first result of `look`, which is called for each object, the program first. It must not unwind.
///
/// NOTE: the loader holds its locks meanwhile. They are recursive: it also holds them while a library's first
/// functions run, and lets those load libraries.
pub(super) fn find<R, F: FnMut(&Object<'_>) -> Option<R>>(look: F) -> Option<R> {
    struct Search<R, F> {
        look: F,
        found: Option<R>,
    }

    unsafe extern "C" fn visit<R, F: FnMut(&Object<'_>) -> Option<R>>(
        info: *mut libc::dl_phdr_info,
        _: libc::size_t,
        search: *mut c_void,
    ) -> c_int {
        // SAFETY: `info` is the loader's description of an object; `search` is the local passed below.
        let (info, search) = unsafe { (&*info, &mut *search.cast::<Search<R, F>>()) };
        // SAFETY: there are `dlpi_phnum` headers at this address, mapped as long as the object is.
        let headers =
            unsafe { std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
        let object = Object { base: info.dlpi_addr as usize, name: info.dlpi_name, headers };
        search.found = (search.look)(&object);
        c_int::from(search.found.is_some())
    }

    let mut search = Search { look, found: None };
    // SAFETY: the function has the required form, and the loader calls it only before it returns.
    unsafe { libc::dl_iterate_phdr(Some(visit::<R, F>), (&raw mut search).cast()) };
    search.found
}
