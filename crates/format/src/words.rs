//! Escapes text from outside for a terminal, writes bytes that are no UTF-8 as text, finds the nearest known
//! name to a misspelt one, and has what sentences of several crates share.

use std::{borrow::Cow, ffi::OsString};

/// Escapes characters that move the cursor or change the direction of writing. Text from a trace,
/// from the environment or from another machine is shown on a terminal in this form only.
///
/// ```
/// # #[cfg(feature = "analysis")] {
/// use memledger_format::words::escape;
///
/// assert_eq!(escape("a\u{1b}[31m\nb"), "a\\u{1b}[31m\\nb");
/// assert_eq!(escape("Größe 日本"), "Größe 日本");
/// # }
/// ```
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for char in text.chars() {
        if steers_terminal(char) {
            escaped.extend(char.escape_default());
        } else {
            escaped.push(char);
        }
    }
    escaped
}

/// Whether a character moves the cursor or changes the direction of writing.
pub fn steers_terminal(char: char) -> bool {
    char.is_control()
        || matches!(char, '\u{61c}' | '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// How a byte that is no UTF-8 begins in text.
const BYTE: &str = "\\x";

/// Whether a name is a path of Windows, such as `C:\x86`. It is text as it is.
pub fn is_windows_path(name: &[u8]) -> bool {
    matches!(name, [b'A'..=b'Z' | b'a'..=b'z', b':', b'\\', ..] | [b'\\', b'\\', b'?', b'\\', ..])
}

/// Bytes as text: those that are no UTF-8 as `\xff`, and a `\` before an `x` as `\x5c`, but not in a path of
/// Windows, such as `C:\x86`. [`bytes_of`] reads it back.
pub fn text_of(bytes: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) if is_windows_path(bytes) || !text.contains(BYTE) => return Cow::Borrowed(text),
        _ => {}
    }
    let mut text = String::with_capacity(bytes.len() + 8);
    for chunk in bytes.utf8_chunks() {
        text += &chunk.valid().replace(BYTE, "\\x5cx");
        text.extend(chunk.invalid().iter().map(|byte| format!("\\x{byte:02x}")));
    }
    Cow::Owned(text)
}

/// The bytes that [`text_of`] has made text of.
pub fn bytes_of(text: &str) -> impl Iterator<Item = u8> {
    let mut rest = text.as_bytes();
    let has_bytes = !is_windows_path(rest);
    std::iter::from_fn(move || {
        let escaped = rest.strip_prefix(BYTE.as_bytes()).filter(|_| has_bytes);
        let escaped = escaped.and_then(|rest| rest.split_first_chunk::<2>());
        let byte = escaped.and_then(|(digits, rest)| {
            let byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
            // NOTE: a trace from elsewhere can have a name such as `a\x64`.
            (!byte.is_ascii() || byte == b'\\').then_some((byte, rest))
        });
        let (byte, after) =
            byte.or_else(|| rest.split_first().map(|(byte, rest)| (*byte, rest)))?;
        rest = after;
        Some(byte)
    })
}

/// Bytes as the system's text, of which a path is made: those of `OsStr::as_encoded_bytes`.
pub fn system_text(bytes: Vec<u8>) -> OsString {
    #[cfg(unix)]
    return std::os::unix::ffi::OsStringExt::from_vec(bytes);
    #[cfg(windows)]
    return std::os::windows::ffi::OsStringExt::from_wide(&utf16_of(&bytes));
    #[cfg(not(any(unix, windows)))]
    return String::from_utf8_lossy(&bytes).into_owned().into();
}

/// UTF-16 of a name on Windows, whose bytes are UTF-8, but for three bytes for each surrogate that is not one
/// of a pair (WTF-8). What is neither becomes U+FFFD.
#[cfg(any(windows, test))]
fn utf16_of(bytes: &[u8]) -> Vec<u16> {
    let mut units = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some(chunk) = rest.utf8_chunks().next() {
        units.extend(chunk.valid().encode_utf16());
        rest = &rest[chunk.valid().len()..];
        if let [0xed, second @ 0xa0..=0xbf, third @ 0x80..=0xbf, after @ ..] = rest {
            units.push(0xd000 | u16::from(second & 0x3f) << 6 | u16::from(third & 0x3f));
            rest = after;
        } else if !rest.is_empty() {
            units.push(0xfffd);
            rest = &rest[chunk.invalid().len()..];
        }
    }
    units
}

/// The name in `known` that `name` most likely means: it differs from `name` in at most a third of
/// the letters, or in one letter; else it is the shortest name that begins with `name`, if that has at
/// least three letters. Two swapped neighbours count as one difference. `None` if no name is near.
///
/// ```
/// use memledger_format::words::nearest;
///
/// assert_eq!(nearest("memry", ["scope", "memory"]), Some("memory"));
/// assert_eq!(nearest("mem", ["scope", "memory"]), Some("memory"));
/// assert_eq!(nearest("gpu", ["scope", "memory"]), None);
/// ```
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let name = lower(name);
    let most = (name.len() / 3).max(1);
    let known = known.into_iter().filter_map(|other| {
        let letters = lower(other);
        let far = distance(&name, &letters);
        let is_begun = name.len() >= 3 && letters.starts_with(&name);
        (far <= most || is_begun).then_some((far, other))
    });
    known.min_by_key(|(far, _)| *far).map(|(_, nearest)| nearest)
}

/// What to say after "there is no `name`": the name in `known` that is likely meant, or the first six that
/// there are.
///
/// ```
/// use memledger_format::words::instead;
///
/// assert_eq!(instead("memry", ["scope", "memory"]), "memory is likely meant");
/// assert_eq!(instead("gpu", ["scope", "memory"]), "there are scope, memory");
/// ```
pub fn instead<T: AsRef<str>>(name: &str, known: impl IntoIterator<Item = T>) -> String {
    instead_as(name, known, str::to_owned)
}

/// [`instead`], where a sentence has each name as `shown` writes it.
pub fn instead_as<T: AsRef<str>>(
    name: &str,
    known: impl IntoIterator<Item = T>,
    shown: impl Fn(&str) -> String,
) -> String {
    const LISTED: usize = 6;
    let known: Vec<T> = known.into_iter().collect();
    if let Some(near) = nearest(name, known.iter().map(AsRef::as_ref)) {
        return format!("{} is likely meant", shown(near));
    }
    let listed: Vec<_> = known.iter().take(LISTED).map(|one| shown(one.as_ref())).collect();
    let listed = listed.join(", ");
    match known.len() {
        0 => "there are none".to_owned(),
        1 => format!("there is {listed}"),
        2..=LISTED => format!("there are {listed}"),
        all => format!("there are {listed} and {} more", all - LISTED),
    }
}

/// `1,234,567`.
pub fn count(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// The sentence for a program with two copies of memledger, of these versions.
pub fn scopes_of_copy(other: &str, own: &str) -> String {
    let and = format!("and {own}; scopes of the former");
    let and = if other == own { "twice; scopes of one copy" } else { &and };
    format!("this program contains memledger {other} {and} are not recorded")
}

/// The first 64 characters of a name, in lower case: a longer text is not a misspelt name.
fn lower(name: &str) -> Vec<char> {
    name.chars().take(64).flat_map(char::to_lowercase).collect()
}

/// The minimum number of insertions, deletions, changes and swaps of neighbours that turn one name
/// into the other.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before = vec![0; b.len() + 1];
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let changed = last[j] + usize::from(x != y);
            let mut least = changed.min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && a[i - 1] == *y && *x == b[j - 1] {
                least = least.min(before[j - 1] + 1);
            }
            row.push(least);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_steers_a_terminal_is_shown_and_not_obeyed() {
        assert_eq!(escape("a\u{1b}[31m\nb\u{202e}c"), "a\\u{1b}[31m\\nb\\u{202e}c");
        assert_eq!(escape("\u{9b}2J"), "\\u{9b}2J");
        assert_eq!(escape("\u{61c}\u{2069}"), "\\u{61c}\\u{2069}");
        assert_eq!(escape("Größe 日本"), "Größe 日本");
    }

    #[test]
    fn bytes_that_are_no_utf8_are_told_apart_and_found_again() {
        let cases: [(&[u8], &str); 9] = [
            (b"C:\\x86\\xff", "C:\\x86\\xff"),
            (b"\\\\?\\C:\\x86", "\\\\?\\C:\\x86"),
            (b"/usr/bin/cat", "/usr/bin/cat"),
            ("/Größe".as_bytes(), "/Größe"),
            (b"/d\xff/p\xc3", "/d\\xff/p\\xc3"),
            (b"/d\\xff", "/d\\x5cxff"),
            (b"\\\xff\\", "\\\\xff\\"),
            (b"\\\\x5c", "\\\\x5cx5c"),
            (b"", ""),
        ];
        for (bytes, text) in cases {
            assert_eq!(text_of(bytes), text);
            assert_eq!(bytes_of(text).collect::<Vec<_>>(), bytes, "{text}");
        }
        // Of a trace from elsewhere.
        for text in ["D\\x64\\a.exe", "\\x", "\\xé", "\\x4"] {
            assert_eq!(bytes_of(text).collect::<Vec<_>>(), text.as_bytes());
        }
    }

    #[test]
    fn a_name_of_windows_keeps_its_surrogates() {
        let cases: [(&[u8], &[u16]); 5] = [
            (b"C:\\a", &[0x43, 0x3a, 0x5c, 0x61]),
            ("ö😀".as_bytes(), &[0xf6, 0xd83d, 0xde00]),
            (b"a\xed\xa0\x80\xed\xbf\xbfb", &[0x61, 0xd800, 0xdfff, 0x62]),
            (b"\xff\xed\xa0", &[0xfffd, 0xfffd, 0xfffd]),
            (b"", &[]),
        ];
        for (bytes, units) in cases {
            assert_eq!(utf16_of(bytes), units, "{bytes:x?}");
        }
    }

    #[test]
    fn a_name_is_likely_one_of_those_near_it() {
        let known = ["TRACE", "FILE", "FILE_MODE", "HOST", "CONTROL", "CONTROL_HOSTS"];
        for (name, meant) in [
            ("FIEL", Some("FILE")),
            ("file", Some("FILE")),
            ("TRAC", Some("TRACE")),
            ("TRACES", Some("TRACE")),
            ("FILEMODE", Some("FILE_MODE")),
            ("CONTROL_HOST", Some("CONTROL_HOSTS")),
            ("OUTPUT", None),
            ("FIL", Some("FILE")),
            ("con", Some("CONTROL")),
            ("co", None),
            ("", None),
            ("X", None),
        ] {
            assert_eq!(nearest(name, known), meant, "{name}");
        }
        assert_eq!(nearest("any", []), None);
        assert_eq!(nearest(&"x".repeat(1 << 20), known), None);
    }

    #[test]
    fn the_nearest_name_is_suggested_or_six_are_listed() {
        let known = ["a1", "b2", "c3", "d4", "e5", "f6", "g7", "h8"];
        for (count, expected) in [
            (0, "there are none"),
            (1, "there is a1"),
            (2, "there are a1, b2"),
            (6, "there are a1, b2, c3, d4, e5, f6"),
            (8, "there are a1, b2, c3, d4, e5, f6 and 2 more"),
        ] {
            assert_eq!(instead("xyz", &known[..count]), expected);
        }
        let quoted = |name: &str| format!("{name:?}");
        assert_eq!(instead_as("reqest", ["request"], quoted), "\"request\" is likely meant");
    }
}
