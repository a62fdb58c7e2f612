//! The functions of allocators that have names of their own, and which of their arguments is what.
//!
//! The names and their arguments are those of jemalloc 5 (<https://jemalloc.net/jemalloc.3.html>), mimalloc 2
//! (`mimalloc.h`), gperftools 2 (`tcmalloc.h`), rpmalloc 1.4 (`rpmalloc.h`), snmalloc 0.7 (`rust.cc` and
//! `malloc.cc`) and of C++'s `operator new` and `operator delete` ("Itanium C++ ABI", 5.1.3). C's functions
//! are here for programs that define them.

/// The bytes of the longest of these names.
pub(crate) const LONGEST: usize = 35;

/// What a function does, and which of its arguments is what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Role {
    pub(crate) kind: Kind,
    /// The number of the argument that is a block.
    pub(crate) block: usize,
    /// That of the size, in bytes or, with a count, of each element.
    pub(crate) size: usize,
    /// That of the count.
    pub(crate) count: Option<usize>,
    pub(crate) align: Align,
}

/// What a function does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Returns a block; may throw instead.
    Allocate,
    /// Returns a block as large as a text that it is given.
    Copy,
    /// Stores a block at its first argument, and returns 0.
    Store,
    Free,
    /// Returns the block, moved or not, or null.
    Reallocate,
    /// The same; if it returns null, the block is freed.
    ReallocateOrFree,
    /// Returns the size that a block has then, which is the old one if it cannot have the new one in its
    /// place.
    Resize,
}

/// Which argument says how a block is aligned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    /// None: as every block.
    Least,
    /// The number of it.
    Argument(usize),
    /// Its power of two is in the lower bits of jemalloc's flags.
    Flags(usize),
}

const fn role(kind: Kind, block: usize, size: usize) -> Role {
    Role { kind, block, size, count: None, align: Align::Least }
}

const fn allocate(size: usize) -> Role {
    role(Kind::Allocate, 0, size)
}

const fn free(block: usize) -> Role {
    role(Kind::Free, block, 0)
}

const fn reallocate(block: usize, size: usize) -> Role {
    role(Kind::Reallocate, block, size)
}

impl Role {
    const fn times(self, count: usize) -> Self {
        Self { count: Some(count), ..self }
    }

    const fn aligned(self, align: usize) -> Self {
        Self { align: Align::Argument(align), ..self }
    }

    const fn flags(self, flags: usize) -> Self {
        Self { align: Align::Flags(flags), ..self }
    }

    const fn or_free(self) -> Self {
        Self { kind: Kind::ReallocateOrFree, ..self }
    }
}

const STORE: Role = role(Kind::Store, 0, 2).aligned(1);
const COPY: Role = role(Kind::Copy, 0, 0);

/// The functions of an allocator.
pub(crate) struct Family {
    /// The beginnings of their names.
    prefixes: &'static [&'static str],
    functions: &'static [(&'static str, Role)],
    /// The function that says how many bytes of a block can be used, with the same beginnings.
    usable_size: &'static str,
    /// One of these functions is there where the names are those of this allocator.
    witnesses: &'static [&'static str],
}

/// The functions of C, as C has them and with a prefix.
const C: &[(&str, Role)] = &[
    ("malloc", allocate(0)),
    ("calloc", allocate(1).times(0)),
    ("realloc", reallocate(0, 1)),
    ("reallocarray", reallocate(0, 2).times(1)),
    ("free", free(0)),
    ("cfree", free(0)),
    ("free_sized", free(0)),
    ("free_aligned_sized", free(0)),
    ("posix_memalign", STORE),
    ("aligned_alloc", allocate(1).aligned(0)),
    ("memalign", allocate(1).aligned(0)),
    ("valloc", allocate(0)),
    ("pvalloc", allocate(0)),
];

/// What jemalloc has beside the functions of C.
const JEMALLOC: &[(&str, Role)] = &[
    ("mallocx", allocate(0).flags(1)),
    ("rallocx", reallocate(0, 1).flags(2)),
    ("xallocx", role(Kind::Resize, 0, 1).flags(3)),
    ("dallocx", free(0)),
    ("sdallocx", free(0)),
];

/// What each function of mimalloc calls, which a linker keeps, or a function that its library has.
const MIMALLOC: &[&str] = &["_mi_malloc_generic", "mi_malloc"];
const SNMALLOC: &[&str] = &["sn_malloc", "sn_rust_alloc"];

/// The functions of C, where a program defines them: all else in the process calls those then.
pub(crate) static OF_C: Family = Family {
    prefixes: &[""],
    functions: C,
    usable_size: "malloc_usable_size",
    witnesses: &["malloc"],
};

pub(crate) static OF_ALLOCATORS: [Family; 9] = [
    Family {
        prefixes: &["je_", "_rjem_"],
        functions: C,
        usable_size: "malloc_usable_size",
        witnesses: &["je_mallctl", "_rjem_mallctl"],
    },
    Family {
        prefixes: &["", "je_", "_rjem_"],
        functions: JEMALLOC,
        usable_size: "malloc_usable_size",
        witnesses: &["mallctl", "je_mallctl", "_rjem_mallctl"],
    },
    Family { prefixes: &["mi_"], functions: C, usable_size: "usable_size", witnesses: MIMALLOC },
    Family {
        // Version 3 has heaps of a thread, too.
        prefixes: &["mi_", "mi_t"],
        functions: &[
            ("malloc_small", allocate(0)),
            ("zalloc", allocate(0)),
            ("zalloc_small", allocate(0)),
            ("mallocn", allocate(1).times(0)),
            ("reallocn", reallocate(0, 2).times(1)),
            ("reallocf", reallocate(0, 1).or_free()),
            ("rezalloc", reallocate(0, 1)),
            ("recalloc", reallocate(0, 2).times(1)),
            ("expand", reallocate(0, 1)),
            ("strdup", COPY),
            ("strndup", COPY),
            ("realpath", COPY),
            ("wcsdup", COPY),
            ("mbsdup", COPY),
            ("malloc_aligned", allocate(0).aligned(1)),
            ("malloc_aligned_at", allocate(0).aligned(1)),
            ("zalloc_aligned", allocate(0).aligned(1)),
            ("zalloc_aligned_at", allocate(0).aligned(1)),
            ("calloc_aligned", allocate(1).times(0).aligned(2)),
            ("calloc_aligned_at", allocate(1).times(0).aligned(2)),
            ("realloc_aligned", reallocate(0, 1).aligned(2)),
            ("realloc_aligned_at", reallocate(0, 1).aligned(2)),
            ("rezalloc_aligned", reallocate(0, 1).aligned(2)),
            ("rezalloc_aligned_at", reallocate(0, 1).aligned(2)),
            ("recalloc_aligned", reallocate(0, 2).times(1).aligned(3)),
            ("recalloc_aligned_at", reallocate(0, 2).times(1).aligned(3)),
            ("aligned_recalloc", reallocate(0, 2).times(1).aligned(3)),
            ("aligned_offset_recalloc", reallocate(0, 2).times(1).aligned(3)),
            ("heap_malloc", allocate(1)),
            ("heap_malloc_small", allocate(1)),
            ("heap_zalloc", allocate(1)),
            ("heap_calloc", allocate(2).times(1)),
            ("heap_mallocn", allocate(2).times(1)),
            ("heap_realloc", reallocate(1, 2)),
            ("heap_reallocn", reallocate(1, 3).times(2)),
            ("heap_reallocf", reallocate(1, 2).or_free()),
            ("heap_rezalloc", reallocate(1, 2)),
            ("heap_recalloc", reallocate(1, 3).times(2)),
            ("heap_strdup", COPY),
            ("heap_strndup", COPY),
            ("heap_realpath", COPY),
            ("heap_malloc_aligned", allocate(1).aligned(2)),
            ("heap_malloc_aligned_at", allocate(1).aligned(2)),
            ("heap_zalloc_aligned", allocate(1).aligned(2)),
            ("heap_zalloc_aligned_at", allocate(1).aligned(2)),
            ("heap_calloc_aligned", allocate(2).times(1).aligned(3)),
            ("heap_calloc_aligned_at", allocate(2).times(1).aligned(3)),
            ("heap_realloc_aligned", reallocate(1, 2).aligned(3)),
            ("heap_realloc_aligned_at", reallocate(1, 2).aligned(3)),
            ("heap_rezalloc_aligned", reallocate(1, 2).aligned(3)),
            ("heap_rezalloc_aligned_at", reallocate(1, 2).aligned(3)),
            ("heap_recalloc_aligned", reallocate(1, 3).times(2).aligned(4)),
            ("heap_recalloc_aligned_at", reallocate(1, 3).times(2).aligned(4)),
            ("heap_alloc_new", allocate(1)),
            ("heap_alloc_new_n", allocate(2).times(1)),
            ("free_size", free(0)),
            ("free_size_aligned", free(0)),
            ("free_aligned", free(0)),
            ("new", allocate(0)),
            ("new_aligned", allocate(0).aligned(1)),
            ("new_nothrow", allocate(0)),
            ("new_aligned_nothrow", allocate(0).aligned(1)),
            ("new_n", allocate(1).times(0)),
            ("new_realloc", reallocate(0, 1)),
            ("new_reallocn", reallocate(0, 2).times(1)),
        ],
        usable_size: "usable_size",
        witnesses: MIMALLOC,
    },
    Family {
        prefixes: &["tc_"],
        functions: C,
        usable_size: "malloc_size",
        witnesses: &["tc_malloc"],
    },
    Family {
        prefixes: &["tc_"],
        functions: &[
            ("malloc_skip_new_handler", allocate(0)),
            ("new", allocate(0)),
            ("new_nothrow", allocate(0)),
            ("new_aligned", allocate(0).aligned(1)),
            ("new_aligned_nothrow", allocate(0).aligned(1)),
            ("newarray", allocate(0)),
            ("newarray_nothrow", allocate(0)),
            ("newarray_aligned", allocate(0).aligned(1)),
            ("newarray_aligned_nothrow", allocate(0).aligned(1)),
            ("delete", free(0)),
            ("delete_sized", free(0)),
            ("delete_nothrow", free(0)),
            ("delete_aligned", free(0)),
            ("delete_sized_aligned", free(0)),
            ("delete_aligned_nothrow", free(0)),
            ("deletearray", free(0)),
            ("deletearray_sized", free(0)),
            ("deletearray_nothrow", free(0)),
            ("deletearray_aligned", free(0)),
            ("deletearray_sized_aligned", free(0)),
            ("deletearray_aligned_nothrow", free(0)),
        ],
        usable_size: "malloc_size",
        witnesses: &["tc_malloc"],
    },
    Family {
        prefixes: &["rp"],
        functions: &[
            ("malloc", allocate(0)),
            ("calloc", allocate(1).times(0)),
            ("zalloc", allocate(0)),
            ("realloc", reallocate(0, 1)),
            ("aligned_alloc", allocate(1).aligned(0)),
            ("aligned_calloc", allocate(2).times(1).aligned(0)),
            ("aligned_zalloc", allocate(1).aligned(0)),
            ("aligned_realloc", reallocate(0, 2).aligned(1)),
            ("memalign", allocate(1).aligned(0)),
            ("posix_memalign", STORE),
            ("free", free(0)),
        ],
        usable_size: "malloc_usable_size",
        witnesses: &["rpmalloc_initialize"],
    },
    Family {
        prefixes: &["sn_"],
        functions: C,
        usable_size: "rust_usable_size",
        witnesses: SNMALLOC,
    },
    Family {
        prefixes: &["sn_"],
        functions: &[
            ("rust_alloc", allocate(1).aligned(0)),
            ("rust_alloc_zeroed", allocate(1).aligned(0)),
            ("rust_realloc", reallocate(0, 3).aligned(1)),
            ("rust_dealloc", free(0)),
        ],
        usable_size: "rust_usable_size",
        witnesses: SNMALLOC,
    },
];

/// C++'s operators, of an allocator that has its own. Those of a C++ library call `malloc`.
pub(crate) static OPERATORS: Family = Family {
    prefixes: &["_Zn", "_Zd"],
    functions: &[
        ("wm", allocate(0)),
        ("am", allocate(0)),
        ("wmRKSt9nothrow_t", allocate(0)),
        ("amRKSt9nothrow_t", allocate(0)),
        ("wmSt11align_val_t", allocate(0).aligned(1)),
        ("amSt11align_val_t", allocate(0).aligned(1)),
        ("wmSt11align_val_tRKSt9nothrow_t", allocate(0).aligned(1)),
        ("amSt11align_val_tRKSt9nothrow_t", allocate(0).aligned(1)),
        ("lPv", free(0)),
        ("aPv", free(0)),
        ("lPvm", free(0)),
        ("aPvm", free(0)),
        ("lPvRKSt9nothrow_t", free(0)),
        ("aPvRKSt9nothrow_t", free(0)),
        ("lPvSt11align_val_t", free(0)),
        ("aPvSt11align_val_t", free(0)),
        ("lPvmSt11align_val_t", free(0)),
        ("aPvmSt11align_val_t", free(0)),
        ("lPvSt11align_val_tRKSt9nothrow_t", free(0)),
        ("aPvSt11align_val_tRKSt9nothrow_t", free(0)),
    ],
    usable_size: "malloc_usable_size",
    witnesses: &[],
};

/// What a name says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    Role(Role),
    /// The function that says how many bytes of a block can be used.
    UsableSize,
    /// The allocator is there.
    Witness,
}

impl Family {
    /// What a name says of this family.
    pub(crate) fn meaning(&self, name: &[u8]) -> Option<Meaning> {
        let mut rests =
            self.prefixes.iter().filter_map(|prefix| name.strip_prefix(prefix.as_bytes()));
        let role = rests.find_map(|rest| {
            let mut functions = self.functions.iter();
            functions.find(|(name, _)| name.as_bytes() == rest).map(|(_, role)| *role)
        });
        if let Some(role) = role {
            return Some(Meaning::Role(role));
        }
        let mut rests =
            self.prefixes.iter().filter_map(|prefix| name.strip_prefix(prefix.as_bytes()));
        if rests.any(|rest| rest == self.usable_size.as_bytes()) {
            return Some(Meaning::UsableSize);
        }
        let is_witness = self.witnesses().any(|witness| witness.as_bytes() == name);
        is_witness.then_some(Meaning::Witness)
    }

    /// The functions one of which is there where the names are those of this allocator.
    pub(crate) fn witnesses(&self) -> impl Iterator<Item = &'static str> {
        self.witnesses.iter().copied()
    }

    pub(crate) fn names(&self) -> Vec<String> {
        let names = self.functions.iter().map(|(name, _)| *name).chain([self.usable_size]);
        let of =
            |prefix: &&str| names.clone().map(|name| format!("{prefix}{name}")).collect::<Vec<_>>();
        let witnesses = self.witnesses().map(str::to_owned);
        self.prefixes.iter().flat_map(of).chain(witnesses).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_of_a_family_has_one_meaning() {
        for family in OF_ALLOCATORS.iter().chain([&OF_C, &OPERATORS]) {
            let mut names = family.names();
            assert!(names.iter().all(|name| family.meaning(name.as_bytes()).is_some()));
            assert!(names.iter().all(|name| name.len() <= LONGEST), "{names:?}");
            let all = names.len();
            names.sort_unstable();
            names.dedup();
            // The function that says sizes may be one by which a family is found.
            assert!(all - names.len() <= family.witnesses.len(), "{names:?}");
        }
    }

    #[test]
    fn roles_are_those_of_the_functions() {
        let of = |name: &str| {
            let mut families = OF_ALLOCATORS.iter().chain([&OF_C, &OPERATORS]);
            families.find_map(|family| family.meaning(name.as_bytes()))
        };
        let role = |role| Some(Meaning::Role(role));
        assert_eq!(of("malloc"), role(allocate(0)));
        assert_eq!(of("mallocx"), role(allocate(0).flags(1)));
        assert_eq!(of("_rjem_sdallocx"), role(free(0)));
        assert_eq!(of("mi_heap_realloc_aligned"), role(reallocate(1, 2).aligned(3)));
        assert_eq!(of("mi_theap_malloc"), role(allocate(1)));
        assert_eq!(of("sn_rust_realloc"), role(reallocate(0, 3).aligned(1)));
        assert_eq!(of("_ZnwmSt11align_val_t"), role(allocate(0).aligned(1)));
        assert_eq!(of("_ZdaPvm"), role(free(0)));
        assert_eq!(of("tc_malloc_size"), Some(Meaning::UsableSize));
        assert_eq!(of("_mi_malloc_generic"), Some(Meaning::Witness));
        for other in ["mallocs", "xmalloc", "mi_execute", "_Znwj", "rpc", ""] {
            assert_eq!(of(other), None, "{other}");
        }
    }
}
