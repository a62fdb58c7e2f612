//! Names as their source has them.

use memledger_document::internal::{last_part, split_outside};
use std::borrow::Cow;

/// A name as its source has it. `language` is `None` if it is unknown.
///
/// NOTE: only names that a compiler has encoded are decoded: `h` is a function of C, and would
/// otherwise be the encoding of a type of C++, `unsigned char`.
pub(super) fn demangled(name: &str, language: Option<gimli::DwLang>) -> String {
    const ENCODED: [&str; 3] = ["_Z", "__Z", "_R"];
    if !ENCODED.iter().any(|start| name.starts_with(start)) {
        return name.to_owned();
    }
    match addr2line::demangle_auto(name.into(), language) {
        decoded if *decoded == *name => function_alone(name).unwrap_or_else(|| name.to_owned()),
        decoded => with_short_types(&decoded),
    }
}

/// The types of C++ as their source names them: `std::string`, without the namespaces of a library's version.
fn with_short_types(name: &str) -> String {
    const STRING: &str = "std::basic_string<char, std::char_traits<char>, std::allocator<char> >";
    let name = name.replace("std::__cxx11::", "std::").replace("std::__1::", "std::");
    name.replace(STRING, "std::string")
}

/// `name` with the path that the symbol has, if both are of one function: debug information of lines only has
/// the last part of a function of Rust.
///
/// NOTE: a symbol can be that of another function, where the linker has made one of two that are equal.
pub(super) fn with_path(name: String, symbol: impl FnOnce() -> Option<String>) -> String {
    if name.starts_with('<') || split_outside(&name, "::").is_some() {
        return name;
    }
    let is_same = |symbol: &String| kind_of(last_part(symbol)) == kind_of(last_part(&name));
    symbol().filter(is_same).unwrap_or(name)
}

/// What forms of symbols agree on: closures and bodies of `async` functions are numbered in some.
fn kind_of(last: &str) -> &str {
    const CLOSURES: [&str; 3] = ["{closure", "{{closure", "{async"];
    if CLOSURES.iter().any(|start| last.starts_with(start)) { "{closure}" } else { last }
}

/// A function of C++ whose result or arguments cannot be decoded, without these: `std::make_shared<Answer>`.
///
/// NOTE: cpp_demangle (0.5) does not know a negated expression in an argument of a template, which
/// `make_shared` has.
fn function_alone(name: &str) -> Option<String> {
    /// How many shorter names are tried.
    const TRIES: usize = 64;
    let name = name
        .strip_prefix("__Z")
        .map_or(Cow::Borrowed(name), |rest| Cow::Owned(format!("_Z{rest}")));
    // The name of a function in a namespace, and that of a template, end with an E; the types follow.
    let ends = name.match_indices('E').map(|(at, _)| at + 1).collect::<Vec<_>>();
    ends.into_iter().rev().take(TRIES).find_map(|end| {
        let without_arguments = format!("{}v", &name[..end]);
        let decoded = addr2line::demangle(&without_arguments, gimli::DW_LANG_C_plus_plus)?;
        let function = decoded.strip_suffix("()").unwrap_or(&decoded);
        // An empty list of arguments leaves its comma.
        Some(function.strip_prefix("void ").unwrap_or(function).replace(", >", ">"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_of_cpp_has_a_name_though_its_types_cannot_be_decoded() {
        let make_shared = "_ZSt11make_sharedI6AnswerJEESt10shared_ptrINSt9enable_ifIXntsrSt8is_arrayIT_E5valueES4_E4typeEEDpOT0_";
        for (name, expected) in [
            (make_shared, "std::make_shared<Answer>"),
            ("_ZN5scene4loadEi", "scene::load(int)"),
            (
                "_ZN5scene4nameERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE",
                "scene::name(std::string const&)",
            ),
            ("_Znot_a_name", "_Znot_a_name"),
            ("h", "h"),
        ] {
            assert_eq!(demangled(name, None), expected);
        }
    }

    #[test]
    fn a_last_part_gets_the_path_of_its_symbol_and_of_no_other() {
        for (name, symbol, expected) in [
            ("fill", "tool::Cache::fill", "tool::Cache::fill"),
            ("fill", "<tool::Cache>::fill", "<tool::Cache>::fill"),
            ("resize<u8>", "tool::Table<T>::resize", "tool::Table<T>::resize"),
            ("{closure#0}", "tool::main::{{closure}}", "tool::main::{{closure}}"),
            ("{async_fn#0}", "tool::accept::{closure#0}", "tool::accept::{closure#0}"),
            ("fill", "tool::Queue::drain", "fill"),
            ("tool::Queue::fill", "tool::Cache::fill", "tool::Queue::fill"),
        ] {
            assert_eq!(with_path(name.to_owned(), || Some(symbol.to_owned())), expected);
        }
        assert_eq!(with_path("fill".to_owned(), || None), "fill");
    }
}
