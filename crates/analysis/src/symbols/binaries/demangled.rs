//! Names as their source has them.

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
        decoded => decoded.into_owned(),
    }
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
            ("_Znot_a_name", "_Znot_a_name"),
            ("h", "h"),
        ] {
            assert_eq!(demangled(name, None), expected);
        }
    }
}
