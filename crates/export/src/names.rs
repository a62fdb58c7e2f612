//! Names of functions, short enough to be read in a table.

use memledger_document::internal::{
    GLOBAL_SCOPE, WHOLE_PROGRAM, end_of_angles, last_space, parameters, split_outside,
};
use std::borrow::Cow;
use std::collections::HashMap;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Columns above which a name is shown without what is in its angle brackets.
const LONG: usize = 40;

/// Columns above which a name is cut in its middle.
const LONGEST: usize = 200;

/// The group and name of memory without a tag.
const UNTAGGED: (&str, &str) = ("Unknown", "Unnamed");

/// Names of a table, shortened where they are too long. Shortened names that are equal get numbers.
#[derive(Default)]
pub(crate) struct InTable(HashMap<String, usize>);

impl InTable {
    pub(crate) fn name(&mut self, whole: &str) -> String {
        if whole.width() <= LONGEST {
            return whole.to_owned();
        }
        let short = short(whole).into_owned();
        let count = self.0.entry(short.clone()).or_default();
        *count += 1;
        if *count == 1 { short } else { format!("{short} #{count}") }
    }
}

/// What is shown of the functions of one list: each short, but whole where another one is as short; and where
/// it is too long for that, with a number.
pub fn apart<'a>(functions: impl Iterator<Item = &'a str> + Clone) -> Vec<String> {
    let mut count = HashMap::<_, usize>::new();
    functions.clone().for_each(|name| *count.entry(short(name)).or_default() += 1);
    let mut in_table = InTable::default();
    let shown = functions.map(|name| match short(name) {
        short if count[&short] == 1 => short.into_owned(),
        _ => in_table.name(name),
    });
    shown.collect()
}

/// A function without the trait that it is of, and, if it is long, without its parameters:
/// `<a::Tokens as core::iter::Extend<a::Token>>::extend` is `a::Tokens::extend`. One of C++ is without its
/// arguments and its result: `void a::List<int>::push(int)` is `a::List<int>::push`. At most 200 columns.
pub(crate) fn short(function: &str) -> Cow<'_, str> {
    let name = match path_of_cpp(function) {
        Some(path) => Cow::Borrowed(path),
        None => without_trait(function),
    };
    if name.width() <= LONG { name } else { Cow::Owned(cut(without_parameters(&name))) }
}

/// The path of a function of C++ whose name has its arguments.
fn path_of_cpp(name: &str) -> Option<&str> {
    let (start, end) = parameters(name)?;
    let path = &name[..start];
    let is_function = matches!(&name[end..], "" | " const")
        && !path.is_empty()
        && !path.ends_with([' ', ':'])
        && !path.ends_with("operator");
    // Only templates have their result before them.
    let result = is_function && path.contains('<') && !path.contains("operator ");
    let at = result.then(|| last_space(path)).flatten().map_or(0, |space| space + 1);
    is_function.then(|| &path[at..])
}

/// The name without its arguments and without its middle, as far as it is too long.
fn cut(name: String) -> String {
    if name.width() <= LONGEST {
        return name;
    }
    fit_ends(&without_arguments(&name).unwrap_or(name), LONGEST)
}

/// A function of C++ with `(…)` for its arguments.
fn without_arguments(name: &str) -> Option<String> {
    let (start, end) = parameters(name)?;
    Some(format!("{}(…{}", &name[..start], &name[end - 1..]))
}

/// `<Type as Trait>::method` and `<Type>::method` as `Type::method`, or `<Type>::method` if the type
/// is no path.
fn without_trait(function: &str) -> Cow<'_, str> {
    let whole = Cow::Borrowed(function);
    let Some(inner) = function.strip_prefix('<') else { return whole };
    let (inner, method) = inner.split_at(end_of_angles(inner));
    let Some(method) = method.strip_prefix('>').filter(|method| method.starts_with("::")) else {
        return whole;
    };
    if inner.starts_with("impl ") {
        return whole;
    }
    let of = split_outside(inner, " as ").map_or(inner, |(of, _)| of);
    let is_path = of.starts_with(|char: char| char.is_alphabetic() || char == '_')
        && !of.starts_with("dyn ")
        && !of.starts_with("fn(");
    Cow::Owned(if is_path { format!("{of}{method}") } else { format!("<{of}>{method}") })
}

/// `…` in place of what is in angle brackets after a name.
fn without_parameters(name: &str) -> String {
    let mut short = String::new();
    let mut rest = name;
    while let Some(at) = rest.find('<') {
        short += &rest[..=at];
        let before = &rest[..at];
        rest = &rest[at + 1..];
        let is_type = before.is_empty() || before.ends_with([' ', '&', '<', '(', '[']);
        if !is_type && !rest.starts_with("impl ") {
            short.push('…');
            rest = &rest[end_of_angles(rest)..];
        }
    }
    short + rest
}

/// A scope stack in a line; the outermost scope is left out, unless that is all.
pub fn shown_scope<S: AsRef<str>>(path: &[S]) -> String {
    match path {
        [outermost] if outermost.as_ref() == GLOBAL_SCOPE => WHOLE_PROGRAM.to_owned(),
        [] | [_] => path.iter().map(AsRef::as_ref).collect(),
        [_, inner @ ..] => inner.iter().map(AsRef::as_ref).collect::<Vec<_>>().join(" > "),
    }
}

/// The name of a heap as texts show it: `C` is what the program has from `malloc`.
pub fn shown_heap(name: &str) -> &str {
    if name == "C" { "malloc" } else { name }
}

/// A name in its group, as all texts show it.
pub fn tag(group: &[String], name: &str) -> String {
    format!("{} / {name}", group.join(" > "))
}

/// Whether a group and a name are those of memory without a tag.
pub(crate) fn is_untagged(group: &[String], name: &str) -> bool {
    group.first().map(String::as_str) == Some(UNTAGGED.0) && name == UNTAGGED.1
}

/// `text` cut to `width` columns, with `…` for what is missing.
pub fn fit(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut cut = String::new();
    let mut used = 1;
    for char in text.chars() {
        used += char.width().unwrap_or(0);
        if used > width {
            break;
        }
        cut.push(char);
    }
    cut.push('…');
    cut
}

/// The same without its middle.
pub fn fit_ends(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut columns = 0;
    let end = text.char_indices().rev().take_while(|(_, char)| {
        columns += char.width().unwrap_or(0);
        columns <= width / 2
    });
    let end = end.last().map_or(text.len(), |(at, _)| at);
    fit(text, width - width / 2) + &text[end..]
}

/// Texts whose characters have other widths than 1.
#[cfg(test)]
pub(crate) const WIDE: [&str; 6] = [
    "short",
    "exactly ten",
    "日本語の名前です、とても長い",
    "e\u{301}e\u{301}e\u{301}e\u{301}",
    "emoji 👩\u{200d}👩\u{200d}👧 and words",
    "",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_without_traits_and_long_ones_without_parameters() {
        let cases = [
            ("parse::file", "parse::file"),
            ("a::List::push(int, std::string const&) const", "a::List::push"),
            ("void a::List<int, b::C>::push(int)", "a::List<int, b::C>::push"),
            ("operator new(unsigned long)", "operator new"),
            ("a::B::operator()(int)", "a::B::operator()"),
            (
                "a::f(int)::{lambda(int)#1}::operator()(int) const",
                "a::f(int)::{lambda(int)#1}::operator()",
            ),
            ("void a::g<a::f(int)::{lambda(int)#1}>(int)", "a::g<a::f(int)::{lambda(int)#1}>"),
            ("(libstdc++ reserve)", "(libstdc++ reserve)"),
            ("app (deleted)", "app (deleted)"),
            ("<a::Tokens as core::iter::Extend<a::Token>>::extend", "a::Tokens::extend"),
            ("<a::List<u8>>::push", "a::List<u8>::push"),
            ("<&mut a::List as core::iter::Iterator>::next", "<&mut a::List>::next"),
            ("<[T] as a::Slice>::to_vec", "<[T]>::to_vec"),
            ("<fn(u8) -> a::B as core::ops::FnOnce>::call", "<fn(u8) -> a::B>::call"),
            ("<impl core::fmt::Display for a::B>::fmt", "<impl core::fmt::Display for a::B>::fmt"),
            ("push<a::Token>", "push<a::Token>"),
            (
                "a::try_map<(&str, [a::Value; 4]), fn(u8) -> a::Longer<u8>>::{closure#0}",
                "a::try_map<…>::{closure#0}",
            ),
            (
                "<a::Map<alloc::string::String, a::Value> as core::clone::Clone>::clone::go<T>",
                "a::Map<…>::clone::go<…>",
            ),
            (
                "syn::stmt::parsing::<impl syn::stmt::Block>::parse_within",
                "syn::stmt::parsing::<impl syn::stmt::Block>::parse_within",
            ),
            ("<", "<"),
            ("<a", "<a"),
            ("a<", "a<"),
            ("void scene::load<int>(std::vector<int> const&)", "scene::load<int>"),
            ("", ""),
        ];
        for (function, expected) in cases {
            assert_eq!(short(function), expected, "{function}");
        }
    }

    #[test]
    fn no_name_has_more_than_200_columns() {
        let arguments = "int, ".repeat(100);
        assert_eq!(short(&format!("a::f({arguments}g(int)) const")), "a::f");
        let clone = format!("a::f({arguments}g(int)) [clone .cold]");
        assert_eq!(short(&clone), "a::f(…) [clone .cold]");
        let path = "inner::".repeat(100);
        let name = short(&format!("outer::{path}evaluate")).into_owned();
        assert!(
            name.starts_with("outer::inner::") && name.ends_with("::inner::evaluate"),
            "{name}"
        );
        assert_eq!((name.width(), name.matches('…').count()), (LONGEST, 1));
        for unit in ["日本", "(", ")", "<", "é::"] {
            assert!(short(&unit.repeat(1000)).width() <= LONGEST, "{unit}");
        }
    }

    #[test]
    fn equal_short_names_of_a_table_have_numbers() {
        let long = |of: &str| format!("a::Expression<{}>::evaluate", of.repeat(300));
        let mut names = InTable::default();
        assert_eq!(names.name("a::f"), "a::f");
        assert_eq!(names.name(&long("A")), "a::Expression<…>::evaluate");
        assert_eq!(names.name(&long("B")), "a::Expression<…>::evaluate #2");
        assert_eq!(names.name("a::f"), "a::f");
    }

    #[test]
    fn functions_of_a_list_are_apart() {
        let long = |of: &str| format!("a::Expression<{}>::evaluate", of.repeat(300));
        let map = |of: &str| {
            format!("<alloc::collections::btree_map::BTreeMap<{of}> as core::clone::Clone>::clone")
        };
        let names = [long("A"), map("u8"), "f".to_owned(), long("B"), map("u16")];
        let shown = apart(names.iter().map(String::as_str));
        assert_eq!(
            shown,
            [
                "a::Expression<…>::evaluate",
                &*map("u8"),
                "f",
                "a::Expression<…>::evaluate #2",
                &*map("u16")
            ]
        );
        assert_eq!(
            apart(names[..3].iter().map(String::as_str))[1],
            "alloc::collections::btree_map::BTreeMap<…>::clone"
        );
    }

    #[test]
    fn a_cut_text_is_never_wider_than_asked() {
        for text in WIDE {
            for width in 1..12 {
                let cut = fit(text, width);
                assert!(cut.width() <= width, "{cut:?} in {width}");
                assert!(cut == text || cut.ends_with('…'));
            }
        }
        assert_eq!(fit("exactly ten", 11), "exactly ten");
        assert_eq!(fit("exactly ten", 10), "exactly t…");
    }
}
