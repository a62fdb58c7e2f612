//! Names of files.

use memledger_document::internal::of_all_generics;
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

#[test]
fn generics_of_a_function_have_one_name() {
    for (name, shared) in [
        ("a::fill::<u8>", "a::fill::<…>"),
        ("a::fill<alloc::vec::Vec<u8>>", "a::fill<…>"),
        ("a::List<T>::push", "a::List<…>::push"),
        ("a::run::<fn(u8) -> u8>::{closure#0}", "a::run::<…>::{closure#0}"),
        ("a::run::{closure#0}<u8>", "a::run::{closure#0}<…>"),
        ("void List<int>::push(int const&)", "List<…>::push(…)"),
        ("void fill<char>(char, int) const", "fill<…>(…)"),
        ("std::vector<int, std::allocator<int> >::f", "std::vector<…>::f"),
        ("f(std::vector<int> const&, int)", "f(std::vector<int> const&, int)"),
        // The trait for each type is a function of its own.
        ("<a::X as core::convert::From<u8>>::from", "<a::X as core::convert::From<u8>>::from"),
        ("<a::X as From<u8>>::from::<u16>", "<a::X as From<u8>>::from::<…>"),
        ("operator<(A const&, A const&)", "operator<(A const&, A const&)"),
        ("operator<<(A&, int)", "operator<<(A&, int)"),
        ("A::operator->()", "A::operator->()"),
        ("A<int>::operator<<(int)", "A<…>::operator<<(…)"),
        ("bool operator< <int>(A<int> const&)", "bool operator< <int>(A<int> const&)"),
        ("main", "main"),
        ("keep.f.<locals>.g", "keep.f.<locals>.g"),
        ("keep.<module>", "keep.<module>"),
        ("JS:~f /app/a.js:1", "JS:f /app/a.js:1"),
        ("LazyCompile:*f /app/a.js:1", "LazyCompile:f /app/a.js:1"),
        ("a::b<", "a::b<…"),
    ] {
        assert_eq!(of_all_generics(name.into()), shared);
    }
}
