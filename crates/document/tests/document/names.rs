//! Names of files.

use memledger_document::{Module, short_path};

#[test]
fn a_library_is_known_by_its_name() {
    let is_library = |path: &str| Module::new(path.to_owned(), 0, 0, Vec::new()).is_library();
    let windows = ["C:\\Windows\\System32\\ntdll.dll", "C:\\WINDOWS\\KERNEL32.DLL", "x.Dll"];
    let others = ["/lib/libz.so", "/lib/libstdc++.so.6", "/usr/lib/libSystem.B.dylib"];
    assert!(windows.into_iter().chain(others).all(is_library));
    let programs = ["C:\\x\\game.exe", "/usr/bin/so", "/x/dll", "/x.dll/game", "linux-vdso"];
    assert!(!programs.into_iter().any(is_library));
}

#[test]
fn a_path_is_shown_from_its_project_on() {
    for (path, expected) in [
        ("/home/a/game/src/net/http.rs", "game/src/net/http.rs"),
        (
            "/home/a/.cargo/registry/src/index-1949/syn-3.0.9/src/buffer.rs",
            "syn-3.0.9/src/buffer.rs",
        ),
        ("/rustc/5980/library/alloc/src/vec/mod.rs", "alloc/src/vec/mod.rs"),
        ("/usr/include/c++/12/bits/shared_ptr.h", "bits/shared_ptr.h"),
        ("/tmp/leak.cpp", "tmp/leak.cpp"),
        ("./libio/filedoalloc.c", "libio/filedoalloc.c"),
        ("src/main.rs", "src/main.rs"),
        ("main.rs", "main.rs"),
        ("./main.c", "main.c"),
        ("/src/a.c", "src/a.c"),
        ("", ""),
    ] {
        assert_eq!(short_path(path), expected, "{path}");
    }
}
