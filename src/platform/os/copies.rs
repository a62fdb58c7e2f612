//! Other copies of this crate in the program. Each has threads' contexts of its own, so its scopes are not
//! recorded here.
#![cfg_attr(not(wasm), expect(unsafe_code, reason = "a linker makes the list"))]

/// The version of this copy.
pub(crate) const OWN: &str = env!("CARGO_PKG_VERSION");

/// A linker of WebAssembly makes no such list.
#[cfg(wasm)]
pub(crate) fn others() -> Vec<String> {
    Vec::new()
}

#[cfg(not(wasm))]
pub(crate) use listed::others;

#[cfg(not(wasm))]
mod listed {
    use super::super::version::{VERSION, Version};
    use memledger_format::words::text_of;
    use std::{hint, ptr};

    // A linker defines these where the section begins and ends in the program or library that it makes:
    // for names of this form, that of macOS, too (`ld64`).
    #[cfg(not(windows))]
    unsafe extern "C" {
        #[cfg_attr(not(target_os = "macos"), link_name = "__start_memledger_versions")]
        #[cfg_attr(target_os = "macos", link_name = "\u{1}section$start$__DATA$__memledger_ver")]
        static START: Version;
        #[cfg_attr(not(target_os = "macos"), link_name = "__stop_memledger_versions")]
        #[cfg_attr(target_os = "macos", link_name = "\u{1}section$end$__DATA$__memledger_ver")]
        static END: Version;
    }

    // Linkers for Windows define none, but GNU's. All order the parts of a section by what follows the `$` in
    // their names, so these two, of which each copy has its own, are before and after the versions of all
    // copies ("PE Format", grouped sections).
    // SAFETY: as for a version: only values of this form are in these parts.
    #[cfg(windows)]
    #[unsafe(link_section = ".rdata$memledger_versions_1")]
    static START: Version = [0; size_of::<Version>()];
    // SAFETY: as above.
    #[cfg(windows)]
    #[unsafe(link_section = ".rdata$memledger_versions_3")]
    static END: Version = [0; size_of::<Version>()];

    /// The versions of other copies in the same program or library.
    pub(crate) fn others() -> Vec<String> {
        // NOTE: the compiler must not conclude that nothing follows the first of them.
        let (start, end) = hint::black_box((&raw const START, &raw const END));
        let number = (end.addr() - start.addr()) / size_of::<Version>();
        // SAFETY: the section has a version of each copy, and else at most zeros of this form.
        let all = unsafe { std::slice::from_raw_parts(start, number) };
        let is_other = |version: &&Version| version[0] != 0 && !ptr::eq(*version, &VERSION);
        let others = all.iter().filter(is_other);
        others
            .map(|version| text_of(version.split(|byte| *byte == 0).next().unwrap_or(&[])).into())
            .collect()
    }
}
