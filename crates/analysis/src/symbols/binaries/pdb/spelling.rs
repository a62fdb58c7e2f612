//! Names as Rust's source has them. In a PDB file, rustc spells them for debuggers of C++:
//! `drop_in_place<tuple$<ref$<str$>,enum2$<Option<u8> > > >` is `drop_in_place<(&str,Option<u8>)>`.

/// What a pair of brackets is in Rust.
struct Brackets {
    closing: &'static str,
    comma: &'static str,
    commas: usize,
    is_tuple: bool,
}

/// The spelling of rustc, and of Rust: what begins and ends it, and what is between its parts.
const TYPES: [(&str, &str, &str, &str); 10] = [
    ("enum2", "", "", ","),
    ("tuple", "(", ")", ","),
    ("ref", "&", "", ","),
    ("ref_mut", "&mut ", "", ","),
    ("ptr_const", "*const ", "", ","),
    ("ptr_mut", "*mut ", "", ","),
    ("slice2", "[", "]", ","),
    ("array", "[", "]", "; "),
    ("dyn", "dyn ", "", " + "),
    ("assoc", "", "", "="),
];

/// The name as Rust has it. One that rustc has not changed stays as it is.
pub(super) fn in_rust(name: &str) -> String {
    let mut rust = String::with_capacity(name.len());
    // NOTE: no recursion. A damaged name can have thousands of brackets.
    let mut open = Vec::new();
    let mut rest = name;
    while let Some(char) = rest.chars().next() {
        let after = rest.trim_start_matches(|char: char| char.is_alphanumeric() || char == '_');
        let word = &rest[..rest.len() - after.len()];
        if !word.is_empty() {
            rest = add_word(word, after, &mut rust, &mut open);
            continue;
        }
        rest = &rest[char.len_utf8()..];
        match char {
            '<' => open.push(begin(&mut rust, "<", ">", ",")),
            '(' => open.push(begin(&mut rust, "(", ")", ",")),
            ' ' if rest.starts_with('>') && rust.ends_with(['>', ')', ']', '!']) => {}
            ' ' if rest.starts_with('>') && name.contains('$') => {}
            '>' | ')' if !rust.ends_with('-') => end(char, &mut rust, &mut open),
            ',' => match open.last_mut() {
                Some(brackets) => {
                    brackets.commas += 1;
                    rust.push_str(brackets.comma);
                }
                None => rust.push(','),
            },
            _ => rust.push(char),
        }
    }
    rust
}

/// Adds a word, with what it means in what follows. What is left then.
fn add_word<'a>(
    word: &str,
    after: &'a str,
    rust: &mut String,
    open: &mut Vec<Brackets>,
) -> &'a str {
    let Some(after_sign) = after.strip_prefix('$') else {
        rust.push_str(word);
        return after;
    };
    if let Some(rest) = after_sign.strip_prefix('<')
        && let Some((_, opening, closing, comma)) = TYPES.iter().find(|(name, ..)| *name == word)
    {
        open.push(begin(rust, opening, closing, comma));
        return rest;
    }
    let rest = after_sign.trim_start_matches(|char: char| char.is_ascii_digit());
    let number = &after_sign[..after_sign.len() - rest.len()];
    match (word, number) {
        ("str", "") => rust.push_str("str"),
        ("never", "") => rust.push('!'),
        // What has no name: `closure$0` is the first closure of a function.
        _ if !number.is_empty() && rust.ends_with("::") => {
            rust.extend(["{", word, "#", number, "}"])
        }
        _ => rust.extend([word, "$", number]),
    }
    rest
}

fn begin(rust: &mut String, opening: &str, closing: &'static str, comma: &'static str) -> Brackets {
    rust.push_str(opening);
    Brackets { closing, comma, commas: 0, is_tuple: opening == "(" && closing == ")" }
}

fn end(char: char, rust: &mut String, open: &mut Vec<Brackets>) {
    let Some(brackets) = open.pop() else { return rust.push(char) };
    if char == '>' && brackets.is_tuple && brackets.commas == 0 && !rust.ends_with('(') {
        rust.push(',');
    }
    rust.push_str(brackets.closing);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_spelled_as_in_rust() {
        for (name, expected) in [
            (
                "core::ptr::drop_in_place<alloc::vec::Vec<a::Item,alloc::alloc::Global> >",
                "core::ptr::drop_in_place<alloc::vec::Vec<a::Item,alloc::alloc::Global>>",
            ),
            (
                "f<tuple$<ref$<str$>,enum2$<core::option::Option<ref_mut$<u8> > > > >",
                "f<(&str,core::option::Option<&mut u8>)>",
            ),
            (
                "f<tuple$<u8>,tuple$<>,slice2$<u8>,array$<u8,4>,never$>",
                "f<(u8,),(),[u8],[u8; 4],!>",
            ),
            ("enum2$<core::option::Option<u8> >::map", "core::option::Option<u8>::map"),
            (
                "f<tuple$<ptr_mut$<u8>,void (*)(ptr_const$<u8>,u8)> >",
                "f<(*mut u8,void (*)(*const u8,u8))>",
            ),
            ("f<dyn$<a::Read,a::Next<assoc$<Item,u8> > > >", "f<dyn a::Read + a::Next<Item=u8>>"),
            ("a::impl$8::next::closure_env$0<u8>", "a::{impl#8}::next::{closure_env#0}<u8>"),
            ("a::operator->", "a::operator->"),
            ("a::operator<", "a::operator<"),
            ("a::operator>", "a::operator>"),
            ("`anonymous namespace'::f", "`anonymous namespace'::f"),
            ("a$b$1::c$", "a$b$1::c$"),
        ] {
            assert_eq!(in_rust(name), expected);
        }
        assert_eq!(in_rust(&"ref$<".repeat(30_000)), "&".repeat(30_000));
    }
}
