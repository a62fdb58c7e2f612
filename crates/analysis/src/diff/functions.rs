//! The name that a function has in both of two reports.
//!
//! Debug information of lines only has the last part of a function's name where the function is inlined. The
//! report adds the modules of the source file. In all other places the name is from the symbol, whole. So at
//! another level of optimisation `program::Words::add` is `add`, and within one build it can be both. Both
//! have the same *short name*: the modules of the file and the last part. If all whole names with one short
//! name are the same, that is the function. If there are several (`Words::add` and `Lines::add` in one file),
//! a short name does not say which, and they are one row.

use memledger_document::internal::{Call, Calls, is_last_part, last_part, with_module};
use std::borrow::Cow;
use std::collections::HashMap;

/// What is known of a short name.
#[derive(Default)]
struct Short {
    /// Whether a call has no more than it.
    is_alone: bool,
    /// The whole name; `None` if there are several.
    whole: Option<String>,
    wholes: usize,
}

/// Gives each call of two reports the name that its function has in both.
pub(super) fn name_alike(reports: &mut [Calls<'_>; 2]) {
    let mut by_short = HashMap::<String, Short>::new();
    for call in reports.iter().flat_map(Calls::different) {
        let Some(short) = short_name(call) else { continue };
        let known = by_short.entry(short).or_default();
        if is_short(call) {
            known.is_alone = true;
            continue;
        }
        let whole = stable_function(&call.function);
        if known.whole.as_deref() != Some(&*whole) {
            known.wholes += 1;
            known.whole = (known.wholes == 1).then(|| whole.into_owned());
        }
    }
    let rename = |call: &mut Call<'_>| {
        let short = short_name(call);
        match short.as_ref().and_then(|short| by_short.get(short)) {
            Some(Short { is_alone: true, whole: Some(whole), .. }) => call.rename(whole.clone()),
            Some(Short { is_alone: true, wholes: 2.., .. }) => {
                call.function = short.unwrap_or_default().into();
            }
            _ => call.function = stable_function(&call.function).into_owned().into(),
        }
    };
    reports.iter_mut().for_each(|calls| calls.change(rename));
}

/// Whether the debug information has the last part of the name only.
fn is_short(call: &Call<'_>) -> bool {
    call.found().is_some_and(|found| is_last_part(&found.function, found.file.as_deref()))
}

/// The modules of the source file and the last part of the name, without generic arguments: the symbol may
/// have none. `None` for code without a file of Rust.
fn short_name(call: &Call<'_>) -> Option<String> {
    let found = call.found()?;
    let file = found.file.as_deref().filter(|file| file.ends_with(".rs"))?;
    let name = stable_function(&found.function);
    Some(with_module(last_part(&name), Some(file)).into_owned())
}

/// The name of a function without the parts that the compiler and the linker number, which change when
/// other code is edited or when it is built anew: disambiguators of closures (`{closure#1}`, and
/// `{{closure}}` of the older form, are `{closure}`), hashes of crates and of functions, and the suffix
/// `.llvm.123`. Code without symbols is the name of its file: the offset in it is another in each build.
///
/// ```
/// use memledger_analysis::stable_function;
///
/// assert_eq!(stable_function("parse::file::{closure#2}"), "parse::file::{closure}");
/// assert_eq!(stable_function("program+0x12ab"), "program (no symbols)");
/// ```
pub fn stable_function(name: &str) -> Cow<'_, str> {
    let is_hex = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_hexdigit());
    match name.rsplit_once("+0x") {
        Some((file, offset)) if is_hex(offset) => return format!("{file} (no symbols)").into(),
        None if name.strip_prefix("0x").is_some_and(is_hex) => return "(no symbols)".into(),
        _ => {}
    }
    let name = name.split(".llvm.").next().unwrap_or(name);
    let name = match name.rsplit_once("::h") {
        Some((before, hash)) if hash.len() == 16 && is_hex(hash) => before,
        _ => name,
    };
    if !name.contains(['#', '[']) && !name.contains("{{") {
        return Cow::Borrowed(name);
    }
    let mut stable = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(char) = rest.chars().next() {
        let (whole, after) = rest.split_at(char.len_utf8());
        // The number or hash up to `close`, if that is all there is before it.
        let numbered = |close: char, is_number: &dyn Fn(&str) -> bool| {
            after.split_once(close).filter(|(number, _)| is_number(number)).map(|(_, rest)| rest)
        };
        let is_decimal =
            |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let is_hash = |text: &str| text.len() >= 8 && is_hex(text);
        rest = match char {
            '#' if let Some(after) = numbered('}', &is_decimal) => {
                stable.push('}');
                after
            }
            '[' if let Some(after) = numbered(']', &is_hash) => after,
            '{' if after.starts_with('{') => after,
            '}' if after.starts_with('}') => after,
            _ => {
                stable.push_str(whole);
                after
            }
        };
    }
    Cow::Owned(stable)
}
