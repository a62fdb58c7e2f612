//! The crate of a function, by its demangled name, and which functions a report folds; `own.rs` says which
//! code is the program's own.

use std::borrow::Cow;

/// Crates whose functions allocate for others.
const FOLDED_CRATES: &[&str] = &[
    "std",
    "core",
    "alloc",
    "hashbrown",
    "serde_core",
    "memledger",
    "__rustc",
    "mimalloc",
    "libmimalloc_sys",
    "tikv_jemallocator",
    "tikv_jemalloc_sys",
    "__gnu_cxx",
];

/// Functions in no crate that allocate for others and are not called so, or that a thread starts in.
const FOLDED_FUNCTIONS: &[&str] = &[
    "posix_memalign",
    "memalign",
    "__cxa_allocate_exception",
    "_start",
    "start_thread",
    "clone",
    "clone3",
    "__clone",
    "__clone3",
    "__rust_try",
    "rust_panic",
    "mainCRTStartup",
    "__tmainCRTStartup",
    "__scrt_common_main",
    "__scrt_common_main_seh",
    "invoke_main",
    "BaseThreadInitThunk",
    "RtlUserThreadStart",
];

/// What the names of functions in no crate have, in upper or lower case, that allocate for others: `xmalloc`,
/// `g_malloc0_n`, `CRYPTO_realloc`, `_PyMem_RawStrdup`.
const ALLOCATOR_NAMES: &[&str] = &["malloc", "calloc", "realloc", "strdup", "strndup", "memdup"];

/// How such names end, and those of the functions that free for others: `rtvec_alloc`, `CRYPTO_zalloc`;
/// `list_dealloc`.
const ALLOCATOR_END: &str = "alloc";
const DEALLOCATOR_END: &str = "dealloc";

/// How the names of functions begin through which a program allocates.
const ENTRY_PREFIXES: &[&str] = &[
    "__rust_alloc",
    "__rust_realloc",
    "__rust_no_alloc",
    "__rdl_",
    "__rg_",
    "__libc_malloc",
    "__libc_calloc",
    "__libc_realloc",
    "operator new",
    "_obstack_",
];

/// Functions of one kind of module that allocate for others: how the names of the modules begin, and those of
/// the functions.
const ALLOCATORS_IN_MODULES: &[(&[&str], &[&str])] = &[
    (
        &["python", "libpython"],
        &[
            "PyMem_",
            "_PyMem_",
            "_PyObject_Arena",
            "_PyObject_New",
            "_PyObject_GC_",
            "_PyType_AllocNoTrack",
            "_PyArena_",
            "new_arena",
            "allocate_from_new_pool",
            "block_new",
            "arena_map_",
            "list_resize",
            "list_preallocate_exact",
            "resize_compact",
        ],
    ),
    (
        &["_multiarray_umath"],
        &["PyDataMem_", "PyArray_NewFromDescr", "npy_alloc_cache", "_npy_alloc_cache"],
    ),
];

/// The crate of a function, or the outermost namespace of C++; `None` of a function of C.
pub fn crate_of(function: &str) -> Option<&str> {
    let Some(inner) = function.strip_prefix('<') else { return first_name(function) };
    // `<Type as Trait>::method`, `<Type>::method`, `<impl Trait for Type>::method`.
    let inner = &inner[..end_of_angles(inner)];
    if let Some((of, to)) = split_outside(inner.strip_prefix("impl ").unwrap_or(inner), " for ") {
        return crate_of_type(to).or_else(|| crate_of_type(of));
    }
    match split_outside(inner, " as ") {
        Some((of, by)) => crate_of_type(of).or_else(|| crate_of_type(by)),
        None => crate_of_type(inner),
    }
}

/// The crate of a type; `None` of a primitive type, or of a parameter.
fn crate_of_type(text: &str) -> Option<&str> {
    let mut text = text.trim_start();
    loop {
        let rest = ["&", "*const ", "*mut ", "mut ", "dyn ", "[", "(", "impl "]
            .iter()
            .find_map(|prefix| text.strip_prefix(prefix));
        match rest {
            Some(rest) => text = rest.trim_start(),
            None => break,
        }
    }
    // A function has no crate of its own; the words after it are its parameters and its result.
    if ["fn(", "extern ", "unsafe "].iter().any(|prefix| text.starts_with(prefix)) {
        return None;
    }
    // A lifetime.
    if let Some(rest) = text.strip_prefix('\'') {
        return crate_of_type(rest.split_once(' ')?.1);
    }
    if text.starts_with('<') { crate_of(text) } else { first_name(text) }
}

/// The first of several names with `::` between them.
fn first_name(text: &str) -> Option<&str> {
    // NOTE: not of generic arguments, which the last part of a name can have without a path.
    let (head, _) = split_outside(text, "::")?;
    let head = head.split('<').next().unwrap_or(head);
    // A function template of C++ begins with its return type.
    let name = head.rsplit(' ').next().unwrap_or(head);
    // v0 names can have the hash of a crate: `name[0123abcd]`.
    let name = name.split('[').next().unwrap_or(name);
    let is_name = |char: char| char.is_alphanumeric() || char == '_' || char == '$';
    (!name.is_empty() && name.chars().all(is_name)).then_some(name)
}

/// The position of the `>` that ends what `text` begins within, or its length.
pub fn end_of_angles(text: &str) -> usize {
    let mut depth = 1;
    let mut last = ' ';
    for (at, char) in text.char_indices() {
        match char {
            '<' => depth += 1,
            // `->` is no bracket.
            '>' if last != '-' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at;
        }
        last = char;
    }
    text.len()
}

/// Splits `text` at the first `by` that is in no brackets.
pub fn split_outside<'a>(text: &'a str, by: &str) -> Option<(&'a str, &'a str)> {
    let mut depth = 0_i32;
    let mut last = ' ';
    for (at, char) in text.char_indices() {
        match char {
            '<' | '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            '>' if last != '-' => depth -= 1,
            _ if depth == 0 && text[at..].starts_with(by) => {
                return Some((&text[..at], &text[at + by.len()..]));
            }
            _ => {}
        }
        last = char;
    }
    None
}

/// The crate of a source file: the part of its path that Cargo or the Rust project has named after
/// the crate. Debug information of lines only has the names of functions without their crates.
pub fn crate_of_file(path: &str) -> Option<&str> {
    // The sources of std, as the Rust project builds them and as `rust-src` installs them.
    if let Some((before, rest)) = path.split_once("/library/")
        && (before.starts_with("/rustc/") || before.ends_with("/rustlib/src/rust"))
    {
        return rest.split('/').next();
    }
    if is_of_tracker(path) {
        return Some("memledger");
    }
    // A registry has NAME-VERSION; so do the dependencies of std.
    let (_, rest) = path
        .split_once("/registry/src/")
        .map_or_else(|| path.split_once("/rust/deps/"), |(_, rest)| rest.split_once('/'))?;
    let folder = rest.split('/').next()?;
    let version = folder
        .match_indices('-')
        .find(|(at, _)| folder.as_bytes().get(at + 1).is_some_and(u8::is_ascii_digit));
    version.map(|(at, _)| &folder[..at])
}

/// Whether a source file is the tracker's, of a program that has it from its repository or its folder: the
/// one that this library is built from.
fn is_of_tracker(path: &str) -> bool {
    let repository = env!("CARGO_MANIFEST_DIR").strip_suffix("/crates/document");
    let within = repository.and_then(|folder| path.strip_prefix(folder));
    within.is_some_and(|within| within.starts_with("/src/") || within.starts_with("/crates/"))
        || path.contains("/git/checkouts/memledger-")
}

/// The function with its crate and module, which are those of its source file where the debug
/// information has only the last part of its name: that of lines only.
pub fn with_module<'a>(function: &'a str, file: Option<&str>) -> Cow<'a, str> {
    let path = file.and_then(|file| file.strip_suffix(".rs"));
    let Some(path) = path.filter(|_| is_last_part(function, file)) else {
        return Cow::Borrowed(function);
    };
    let within = path.rsplit_once("/src/").map_or(path, |(_, within)| within);
    let within = within.strip_prefix("src/").unwrap_or(within);
    // A path without `src` is of a test or an example; its folders are no modules.
    let within = if within == path { path.rsplit('/').next().unwrap_or(path) } else { within };
    let owner = file.and_then(crate_of_file).map(|name| name.replace('-', "_"));
    let modules = within.split('/').filter(|name| !matches!(*name, "lib" | "main" | "mod"));
    let mut parts: Vec<_> = owner.as_deref().into_iter().chain(modules).collect();
    parts.push(function);
    Cow::Owned(parts.join("::"))
}

/// The name that all generics of a function share: `…` in place of their arguments, in C++ also in place of
/// the parameters of such a function, and without its result. `a::fill::<u8>` is `a::fill::<…>`,
/// `void List<int>::push(int)` is `List<…>::push(…)`. A type before `as` keeps its own, since the trait for
/// each is another function.
/// The tiers of a JavaScript function (`JS:~f`, `JS:*f`) are one, too: `JS:f`.
pub fn of_all_generics(name: Cow<'_, str>) -> Cow<'_, str> {
    if !name.contains(['<', ':']) {
        return name;
    }
    if let Some((kind @ ("JS" | "LazyCompile"), function)) = name.split_once(':') {
        let function = function.trim_start_matches(['~', '^', '*', '+']);
        return Cow::Owned(format!("{kind}:{function}"));
    }
    let is_cpp = name.ends_with(')') || name.ends_with(") const");
    let parameters = parameters(&name).filter(|_| is_cpp).map(|(start, _)| start);
    let parameters = parameters.filter(|&start| !name[..start].ends_with("operator"));
    let mut rest = &name[..parameters.unwrap_or(name.len())];
    let (mut shared, mut is_generic) = (String::new(), false);
    while let Some(at) = rest.find('<') {
        shared += &rest[..at];
        rest = &rest[at + 1..];
        let is_operator = shared.ends_with("operator") || shared.ends_with("operator<");
        // After a point it is a name of its own, in Python and Java: `f.<locals>.g`.
        let is_type =
            shared.is_empty() || shared.ends_with([' ', '&', '*', '<', '(', '[', ',', '.']);
        shared.push('<');
        if is_operator {
            continue;
        }
        let end = end_of_angles(rest);
        shared += if is_type { &rest[..end] } else { "…" };
        is_generic |= !is_type;
        rest = &rest[end..];
    }
    if !is_generic {
        return name;
    }
    shared += rest;
    if parameters.is_some() {
        // Only templates have their result before them, which can differ, too.
        let result = last_space(&shared).filter(|_| !shared.contains("operator "));
        shared.drain(..result.map_or(0, |space| space + 1));
        shared += "(…)";
    }
    Cow::Owned(shared)
}

/// The last space that is in no brackets.
pub fn last_space(name: &str) -> Option<usize> {
    let mut depth = 0;
    name.bytes().rposition(|byte| {
        depth += i32::from(matches!(byte, b')' | b'>' | b'}'));
        depth -= i32::from(matches!(byte, b'(' | b'<' | b'{'));
        depth == 0 && byte == b' '
    })
}

/// Where the parameters of a function of C++ begin and end, with their brackets.
pub fn parameters(name: &str) -> Option<(usize, usize)> {
    let end = name.rfind(')')?;
    let mut depth = 0;
    let start = name[..=end].bytes().rposition(|byte| {
        depth += i32::from(byte == b')') - i32::from(byte == b'(');
        depth == 0
    })?;
    Some((start, end + 1))
}

/// Whether the debug information has only the last part of this function's name.
pub fn is_last_part(function: &str, file: Option<&str>) -> bool {
    file.is_some_and(|file| file.ends_with(".rs")) && crate_of(function).is_none()
}

/// The last part of a function's name, without its generic arguments: `add` of `a::Words<T>::add::<u8>`.
pub fn last_part(function: &str) -> &str {
    let end = match function.strip_suffix('>').map(start_of_angles) {
        // `<T as Trait>` alone is no function with arguments.
        Some(start) if start > 0 => start,
        _ => function.len(),
    };
    let path = function[..end].trim_end_matches("::");
    // Where the last `::` is that is in no brackets.
    let mut start = 0;
    while let Some((before, _)) = split_outside(&path[start..], "::") {
        start += before.len() + 2;
    }
    &path[start..]
}

/// The position of the `<` that begins what `text` ends within, or 0.
fn start_of_angles(text: &str) -> usize {
    let mut depth = 1;
    for (at, char) in text.char_indices().rev() {
        match char {
            // `->` is no bracket.
            '>' if !text[..at].ends_with('-') => depth += 1,
            '<' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at;
        }
    }
    0
}

/// Whether a report folds the frames of a function of this crate.
pub fn is_folded(owner: Option<&str>, function: &str) -> bool {
    match owner {
        Some(name) => FOLDED_CRATES.contains(&name) || is_allocation_entry(function, None),
        None => {
            FOLDED_FUNCTIONS.contains(&function)
                || function.starts_with("__libc_start_")
                || is_allocation_entry(function, None)
                || is_allocator(function)
        }
    }
}

/// Whether a function in no crate allocates for others, by its name. Allocates nothing.
fn is_allocator(function: &str) -> bool {
    // Without the parameters that C++ has, and without what a compiler adds to copies of a function.
    let name = function.split(['(', '<', '.']).next().unwrap_or(function).as_bytes();
    let is = |text: &[u8], with: &str| text.eq_ignore_ascii_case(with.as_bytes());
    let has = |with: &&str| name.windows(with.len()).any(|part| is(part, with));
    let ends = |with: &str| name.len() >= with.len() && is(&name[name.len() - with.len()..], with);
    ALLOCATOR_NAMES.iter().any(has) || ends(ALLOCATOR_END) && !ends(DEALLOCATOR_END)
}

/// Whether a report folds a function of the module with this file name, as one that allocates for others
/// there.
pub(crate) fn is_folded_in(module: &str, function: &str) -> bool {
    let begins = |name: &str, with: &[&str]| with.iter().any(|start| name.starts_with(start));
    ALLOCATORS_IN_MODULES
        .iter()
        .any(|(modules, functions)| begins(module, modules) && begins(function, functions))
}

/// Whether this is a function through which a program allocates. What it calls is the allocator, and
/// what that is made of: a wrapper around another one can have any name.
pub(crate) fn is_allocation_entry(function: &str, file: Option<&str>) -> bool {
    // PDB files name them as the macro of `#[global_allocator]` has them: in a constant without a name.
    let in_constant = function.rsplit_once("::_::").map_or(function, |(_, name)| name);
    let name = in_constant.strip_prefix("__rustc::").unwrap_or(in_constant);
    // Rust's entries end with a jump to the allocator, so they are on no stack unless they are
    // inlined. The functions of std that call them are, and may have their names without their crate.
    let of_std = match name.strip_prefix("alloc::alloc::") {
        Some(name) => Some(name),
        None => file.filter(|file| file.ends_with("/library/alloc/src/alloc.rs")).and(Some(name)),
    };
    of_std.is_some_and(|name| matches!(name, "alloc" | "alloc_zeroed" | "realloc"))
        || ENTRY_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}
