//! Whose code a call is: the program's own, a library's, an interpreter's, or that of a script which one
//! runs.

use crate::symbolizer::{Module, SourceFrame};

/// Parts of the paths of source files that a program has from others: packages that Cargo has fetched, the
/// standard libraries of Rust and C++, what the system's packages have brought, and packages of Python.
const OTHERS_SOURCES: &[&str] = &[
    "/registry/src/",
    "/git/checkouts/",
    "/rustc/",
    "/rustlib/src/",
    "/rust/deps/",
    "/include/c++/",
    "/usr/include/",
    "/usr/src/",
    "/usr/lib/",
    "/lib/python",
    "/site-packages/",
    "/dist-packages/",
    "<frozen ",
];

/// Folders whose libraries are not the program's own.
const SYSTEM_FOLDERS: &[&str] = &["/lib/", "/lib32/", "/lib64/", "/usr/", "/nix/", "/snap/"];

/// How the names of the files of an interpreter begin.
const INTERPRETERS: &[&str] = &["python", "libpython", "php", "libphp"];

/// How the names of the source files of its scripts end.
const SCRIPT: &str = ".py";

/// Whose code a call is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    /// The program's own.
    Own,
    /// The program's own, in a language whose interpreter is on the stack, too.
    Script,
    /// An interpreter's, which is the program itself where no script is named.
    Interpreter,
    /// Somebody else's: a library's, or a package's that was compiled into the program.
    Others,
}

impl Whose {
    /// Of a call in `module`; `found` is what symbols say of it.
    pub(crate) fn of(module: Option<&Module>, found: Option<&SourceFrame>) -> Self {
        let file = found.and_then(|found| found.file.as_deref());
        let is_of_others = |file: &str| OTHERS_SOURCES.iter().any(|part| file.contains(part));
        match (file, module) {
            (Some(file), _) if is_of_others(file) => Self::Others,
            (Some(file), None) if file.ends_with(SCRIPT) => Self::Script,
            (_, Some(module))
                if INTERPRETERS.iter().any(|name| module.name().starts_with(name)) =>
            {
                Self::Interpreter
            }
            (_, Some(module)) if is_of_system(module) => Self::Others,
            // Code without a module was made at run time, and can have a name.
            (None, None) if found.is_none() => Self::Others,
            _ => Self::Own,
        }
    }
}

fn is_of_system(module: &Module) -> bool {
    let is_in = |folder: &&str| module.path.starts_with(*folder);
    let is_package = || OTHERS_SOURCES.iter().any(|part| module.path.contains(part));
    module.is_library() && (SYSTEM_FOLDERS.iter().any(is_in) || is_package())
}

/// A path as reports show it: from the folder above its innermost `src` on, or its last two parts.
/// `/home/a/game/src/net/http.rs` is `game/src/net/http.rs`.
pub fn short_path(path: &str) -> &str {
    let above = |end: usize| path[..end].rfind('/').map_or(0, |slash| slash + 1);
    let start = match path.rfind("/src/") {
        Some(src) => above(src),
        None => path.rfind('/').map_or(0, above),
    };
    path[start..].trim_start_matches("./").trim_start_matches('/')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whose(module: &str, function: &str, file: Option<&str>) -> Whose {
        let module =
            Module { path: module.to_owned(), base: 0, size: 0, build_id: Vec::new(), stamp: None };
        let found = (!function.is_empty()).then(|| SourceFrame {
            function: function.to_owned(),
            file: file.map(str::to_owned),
            line: Some(1),
        });
        Whose::of(Some(&module).filter(|module| !module.path.is_empty()), found.as_ref())
    }

    #[test]
    fn code_is_ones_own_by_the_paths_of_its_file_and_its_module() {
        let registry =
            "/home/a/.cargo/registry/src/index.crates.io-1949/serde_core-1.0.229/src/de.rs";
        for (module, file, expected) in [
            ("/home/a/game", Some("src/main.rs"), Whose::Own),
            ("/home/a/game", Some("/home/a/game/src/net/http.rs"), Whose::Own),
            ("/home/a/game", None, Whose::Own),
            ("/usr/bin/game", Some("/build/game-1.0/main.c"), Whose::Own),
            ("/home/a/lib/libgame.so", None, Whose::Own),
            ("/home/a/game", Some(registry), Whose::Others),
            ("/home/a/game", Some("/rustc/5980/library/alloc/src/vec/mod.rs"), Whose::Others),
            ("/home/a/game", Some("/usr/include/c++/12/bits/shared_ptr.h"), Whose::Others),
            ("/usr/lib/x86_64-linux-gnu/libc.so.6", Some("./libio/filedoalloc.c"), Whose::Others),
            ("/venv/lib/python3.12/site-packages/numpy/x.so", None, Whose::Others),
            ("/usr/bin/python3.12", Some("Objects/obmalloc.c"), Whose::Interpreter),
            ("/usr/lib/libpython3.12.so.1.0", None, Whose::Interpreter),
            ("", Some("/home/a/keep.py"), Whose::Script),
            ("", Some("<frozen importlib._bootstrap>"), Whose::Others),
            ("", Some("/usr/lib/python3.12/json/decoder.py"), Whose::Others),
            ("", None, Whose::Own),
        ] {
            assert_eq!(whose(module, "f", file), expected, "{module} {file:?}");
        }
        assert_eq!(whose("", "", None), Whose::Others);
    }
}
