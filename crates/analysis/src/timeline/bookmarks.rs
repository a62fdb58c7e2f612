//! Bookmarks: Unreal's `Misc.BookmarkSpec` has the format string of one point of the program, and
//! `Misc.Bookmark` says that the program reached that point, with its values.
//!
//! ```text
//! u8 count   count times: u8 category << 6 | size   the values, packed
//! categories: 1 integer, 2 float, 3 string up to a NUL, of units of `size` bytes
//! ```

use crate::hash::IntMap;
use memledger_document::{Bookmark, made};

/// The maximum number of bookmarks that are kept; a program with more of them sets them in a loop.
const MAX_BOOKMARKS: usize = 10_000;

/// The bookmarks seen so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bookmarks {
    /// The format string of each point of the program.
    formats: IntMap<u64, Box<str>>,
    /// Each with the number of its event.
    set: Vec<(Bookmark, u64)>,
}

impl Bookmarks {
    /// Notes the format string of `point`.
    pub(crate) fn describe(&mut self, point: u64, format: &str) {
        self.formats.insert(point, format.into());
    }

    /// `point` printed `arguments` at event `event`; `false` if no more bookmarks are kept.
    pub(crate) fn set(&mut self, point: u64, arguments: &[u8], at_ns: u64, event: u64) -> bool {
        if self.set.len() < MAX_BOOKMARKS {
            let format = self.formats.get(&point).map_or("%s", |format| format);
            let name = bookmark_text(format, arguments);
            self.set.push((made!(Bookmark { name, at_ns }), event));
            return true;
        }
        false
    }

    /// The bookmarks in the order in which they were set.
    pub(crate) fn all(&self) -> Vec<Bookmark> {
        self.set.iter().map(|(bookmark, _)| bookmark.clone()).collect()
    }

    /// The names of the last bookmark before the event `event` and of the first after it.
    pub(crate) fn around(&self, event: u64) -> (Option<String>, Option<String>) {
        let next = self.set.partition_point(|&(_, set)| set < event);
        let name = |index: usize| Some(self.set.get(index)?.0.name.clone());
        // If the maximum is reached, others may follow the last bookmark that is kept.
        let last = next.checked_sub(1).filter(|_| next < MAX_BOOKMARKS);
        (last.and_then(name), name(next))
    }

    /// The bookmarks in the order in which they were set, each with the number of its event.
    pub(crate) fn events(&self) -> Vec<(String, u64)> {
        self.set.iter().map(|(bookmark, event)| (bookmark.name.clone(), *event)).collect()
    }

    /// The number of the event that first set the bookmark `name`.
    pub(crate) fn event(&self, name: &str) -> Option<u64> {
        self.set.iter().find(|(bookmark, _)| bookmark.name == name).map(|&(_, event)| event)
    }
}

/// The text of a bookmark: what `printf` would make of the `FormatString` of its
/// `Misc.BookmarkSpec` and its own `FormatArgs`, without widths and precisions.
pub fn bookmark_text(format: &str, arguments: &[u8]) -> String {
    let mut arguments = Arguments::new(arguments);
    let mut text = String::new();
    let mut rest = format;
    while let Some(at) = rest.find('%') {
        text.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let end =
            rest.find(|c: char| c.is_ascii_alphabetic() && !"hlLqjzt".contains(c) || c == '%');
        match end.map(|end| (end, rest.as_bytes()[end])) {
            Some((end, b'%')) => {
                text.push('%');
                rest = &rest[end + 1..];
            }
            Some((end, conversion)) => {
                text.push_str(&arguments.next(conversion).unwrap_or_default());
                rest = &rest[end + 1..];
            }
            None => text.push('%'),
        }
    }
    text + rest
}

struct Arguments<'a> {
    types: &'a [u8],
    values: &'a [u8],
}

impl<'a> Arguments<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        let (count, rest) = bytes.split_first().unwrap_or((&0, &[]));
        let (types, values) = rest.split_at_checked(usize::from(*count)).unwrap_or_default();
        Self { types, values }
    }

    fn take(&mut self, size: usize) -> Option<&'a [u8]> {
        let (now, rest) = self.values.split_at_checked(size)?;
        self.values = rest;
        Some(now)
    }

    fn next(&mut self, conversion: u8) -> Option<String> {
        let (&kind, rest) = self.types.split_first()?;
        self.types = rest;
        let size = usize::from(kind & 0x3f);
        match kind >> 6 {
            1 => {
                let mut wide = [0; 8];
                wide.get_mut(..size)?.copy_from_slice(self.take(size)?);
                let unsigned = u64::from_le_bytes(wide);
                let unused = 64_u32.checked_sub(8 * size as u32).filter(|&unused| unused < 64)?;
                Some(match conversion {
                    b'd' | b'i' => ((unsigned << unused) as i64 >> unused).to_string(),
                    b'x' | b'p' => format!("{unsigned:x}"),
                    b'X' => format!("{unsigned:X}"),
                    _ => unsigned.to_string(),
                })
            }
            2 if size == 4 => Some(f32::from_le_bytes(self.take(4)?.try_into().ok()?).to_string()),
            2 => Some(f64::from_le_bytes(self.take(8)?.try_into().ok()?).to_string()),
            3 => Some(self.string(size)),
            _ => None,
        }
    }

    /// The units up to a NUL, or to the end.
    fn string(&mut self, unit: usize) -> String {
        let unit = unit.clamp(1, 4);
        let mut units = Vec::new();
        while let Some(bytes) = self.take(unit) {
            let mut wide = [0; 4];
            wide[..unit].copy_from_slice(bytes);
            match u32::from_le_bytes(wide) {
                0 => break,
                unit => units.push(unit),
            }
        }
        if unit == 2 {
            let units = char::decode_utf16(units.into_iter().map(|unit| unit as u16));
            return units.map(|c| c.unwrap_or('\u{fffd}')).collect();
        }
        units.into_iter().map(|c| char::from_u32(c).unwrap_or('\u{fffd}')).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_of_every_kind_are_printed() {
        let mut bytes = vec![5, 1 << 6 | 4, 1 << 6 | 8, 2 << 6 | 8, 3 << 6 | 2, 3 << 6 | 1];
        bytes.extend((-7_i32).to_le_bytes());
        bytes.extend(255_u64.to_le_bytes());
        bytes.extend(1.5_f64.to_le_bytes());
        bytes.extend([0xdc, 0, b'm', 0, 0, 0]);
        bytes.extend(b"end\0");
        assert_eq!(bookmark_text("%d|%08llx|%.2f|%s|%hs|100%%", &bytes), "-7|ff|1.5|Üm|end|100%");
        // Less than what the format asks for, and nonsense.
        assert_eq!(bookmark_text("a %s b", &[]), "a  b");
        assert_eq!(bookmark_text("%s %", &[1, 0xc2, b'x', 0]), "x %");
        assert_eq!(bookmark_text("%d%d", &[2, 0x40, 0x49, 1]), "");
        for end in 0..bytes.len() {
            bookmark_text("%d%d%d%d%d", &bytes[..end]);
        }
    }
}
