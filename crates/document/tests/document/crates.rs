//! The crate of a function, and which functions are folded.

use memledger_document::internal::{crate_of, crate_of_file, is_folded, last_part, with_module};

#[test]
fn the_crate_of_a_file_is_in_its_path() {
    let registry = "/home/a/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f";
    let cases = [
        ("/rustc/5980/library/alloc/src/raw_vec/mod.rs", Some("alloc")),
        ("/home/a/.rustup/lib/rustlib/src/rust/library/std/src/fs.rs", Some("std")),
        ("/rust/deps/hashbrown-0.15.5/src/raw/mod.rs", Some("hashbrown")),
        (&format!("{registry}/proc-macro2-1.0.101/src/lib.rs"), Some("proc-macro2")),
        (&format!("{registry}/serde_json-1.0.1/src/de.rs"), Some("serde_json")),
        ("/home/a/library/src/main.rs", None),
        ("src/main.rs", None),
        ("", None),
    ];
    for (path, expected) in cases {
        assert_eq!(crate_of_file(path), expected, "{path}");
    }
}

#[test]
fn the_module_of_a_short_name_is_in_the_path_of_its_file() {
    let registry = "/home/a/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f";
    let cases = [
        ("new2", Some(&*format!("{registry}/proc-macro2-1.0.1/src/lib.rs")), "proc_macro2::new2"),
        ("ty<A>", Some(&format!("{registry}/syn-3.0.1/src/ty.rs")), "syn::ty::ty<A>"),
        ("{closure#0}", Some("/home/a/game/src/level/mod.rs"), "level::{closure#0}"),
        ("load", Some("src/level/mesh.rs"), "level::mesh::load"),
        ("main", Some("src/main.rs"), "main"),
        ("main", Some("/home/a/examples/parse.rs"), "parse::main"),
        ("level::load", Some("src/level/mesh.rs"), "level::load"),
        ("<level::Mesh as a::Load>::load", Some("src/mesh.rs"), "<level::Mesh as a::Load>::load"),
        ("load", Some("/home/a/mesh.c"), "load"),
        ("load", None, "load"),
    ];
    for (function, file, expected) in cases {
        assert_eq!(with_module(function, file), expected, "{function}");
    }
}

#[test]
fn the_last_part_of_a_name_has_no_path_and_no_arguments() {
    for (function, expected) in [
        ("add", "add"),
        ("a::Words::add", "add"),
        ("a::Words<b::T>::add::<c::U>", "add"),
        ("<a::Words as core::ops::Add<b::T>>::add", "add"),
        ("add<alloc::vec::Vec<u8>, fn(u8) -> b::T>", "add"),
        ("a::add<fn() -> u8>", "add"),
        ("a::{impl#1}::add<[b::T; 4]>", "add"),
        ("a::add::{closure}", "{closure}"),
        ("{closure}<u8>", "{closure}"),
        ("<a::T as b::Trait>", "<a::T as b::Trait>"),
        ("a::", "a"),
        ("", ""),
        (">", ">"),
        ("é<é>", "é"),
    ] {
        assert_eq!(last_part(function), expected, "{function}");
    }
}

#[test]
fn the_crate_is_that_of_the_type() {
    let cases = [
        ("parse_sources::parse::file", Some("parse_sources")),
        ("parse[91f0]::file", Some("parse")),
        ("<alloc::vec::Vec<parse::Token> as core::clone::Clone>::clone", Some("alloc")),
        ("<parse::Token as core::clone::Clone>::clone", Some("parse")),
        ("<&mut parse::Tokens as core::iter::Iterator>::next", Some("parse")),
        ("<[T] as alloc::slice::hack::ConvertVec>::to_vec", Some("alloc")),
        ("<T as alloc::vec::spec_from_elem::SpecFromElem>::from_elem", Some("alloc")),
        ("<impl core::fmt::Display for parse::Token>::fmt", Some("parse")),
        ("<dyn core::ops::Fn<(), Output = parse::A> as core::ops::Fn>::call", Some("core")),
        ("<fn(u8) -> parse::A as core::ops::FnOnce>::call_once", Some("core")),
        ("<<parse::A as parse::B>::C as core::fmt::Debug>::fmt", Some("parse")),
        ("alloc::vec::{impl#13}::extend<parse::A>", Some("alloc")),
        ("core::ptr::drop_in_place<parse::A>", Some("core")),
        ("std::vector<int>::push_back(int&&)", Some("std")),
        ("void scene::load<int>(int)", Some("scene")),
        ("{closure#0}<&str, (), parse::file::{closure_env#0}<parse::A>>", None),
        ("push<u8, alloc::alloc::Global>", None),
        ("scene::Mesh<int, scene::Point>::load", Some("scene")),
        ("malloc", None),
        ("operator new(unsigned long)", None),
        ("", None),
        ("<", None),
        ("::", None),
        ("<'", None),
    ];
    for (function, expected) in cases {
        assert_eq!(crate_of(function), expected, "{function}");
    }
}

#[test]
fn the_tracker_is_known_by_its_files() {
    let own = concat!(env!("CARGO_MANIFEST_DIR"), "/src/containers/vec.rs")
        .replace("/crates/document", "");
    let git =
        "/home/user/.cargo/git/checkouts/memledger-0123456789abcdef/89abcde/src/alloc/hook.rs";
    for (file, module) in [(&*own, "containers::vec"), (git, "alloc::hook")] {
        let function = with_module("resize<u8>", Some(file));
        assert_eq!(function, format!("memledger::{module}::resize<u8>"));
        assert!(is_folded(crate_of_file(file), &function));
    }
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/leaking_server.rs")
        .replace("/crates/document", "");
    assert_eq!(crate_of_file(&example), None);
}

#[test]
fn allocation_machinery_is_folded() {
    for function in [
        "<alloc::raw_vec::RawVec<T> as core::ops::Drop>::drop",
        "alloc::raw_vec::finish_grow",
        "hashbrown::raw::RawTable<T,A>::reserve_rehash",
        "__rust_alloc",
        "__rustc::__rust_alloc",
        "__rustc[0123]::__rust_realloc",
        "demo::memory::_::__rust_realloc",
        "malloc",
        "operator new(unsigned long)",
        "xmalloc",
        "g_malloc0_n",
        "ggc_internal_alloc(unsigned long, void (*)(void*), unsigned long, unsigned long)",
        "sqlite3MemMalloc",
        "_PyMem_RawStrdup",
        "gc_alloc.constprop.0",
        "_obstack_begin",
        "__libc_start_main_impl",
        "std::rt::lang_start::{{closure}}",
    ] {
        assert!(is_folded(crate_of(function), function), "{function}");
    }
    for function in [
        "parse::file",
        "main",
        "serde_json::de::from_str",
        "XML_Parse",
        "allocate_rooms",
        "list_dealloc",
        "demo::_::realloc",
        "Pool::alloc(int)",
        "keep(void* (*)(malloc))",
    ] {
        assert!(!is_folded(crate_of(function), function), "{function}");
    }
}
