//! Names of functions, short enough to be read in a table.

use crate::analysis::{end_of_angles, split_outside};
use std::borrow::Cow;
use unicode_width::UnicodeWidthStr;

/// Columns above which a name is shown without what is in its angle brackets.
const LONG: usize = 40;

/// A function without the trait that it is of, and, if it is long, without its parameters:
/// `<a::Tokens as core::iter::Extend<a::Token>>::extend` is `a::Tokens::extend`.
pub fn short(function: &str) -> Cow<'_, str> {
    let name = without_trait(function);
    if name.width() <= LONG { name } else { Cow::Owned(without_parameters(&name)) }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_without_traits_and_long_ones_without_parameters() {
        let cases = [
            ("parse::file", "parse::file"),
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
            (
                "void scene::load<int>(std::vector<int> const&)",
                "void scene::load<…>(std::vector<…> const&)",
            ),
            ("", ""),
        ];
        for (function, expected) in cases {
            assert_eq!(short(function), expected, "{function}");
        }
    }
}
