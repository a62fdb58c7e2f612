//! The functions of the addresses of one binary, as the bytes of a file, from which they are read as they
//! are.
//!
//! ```text
//! magic                          16 bytes: what it is, and the version of this format and of what is in it
//! u32                            CRC-32 of all that follows
//! u32 × 4                        sizes: bytes of the fingerprint, addresses, frames, texts
//! fingerprint                    which files the functions were found in
//! u64 × addresses                offsets in the module, ascending
//! u32 × addresses                where the frames of each end: those of the next begin there
//! u32 × 3 × frames               function and file, each the number of a text, and the line; innermost first
//! u32 × texts                    where each text ends
//! texts                          UTF-8
//! ```
//! All numbers are little-endian. No file is text `NONE`, no line is 0.

use flate2::Crc;
use memledger_analysis::SourceFrame;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

/// NOTE: its last byte is raised when the format changes, or what `Binaries` finds in the same files.
const MAGIC: &[u8; 16] = b"memledger funcs\x01";
/// Where the sizes begin, which the checksum covers with all that follows.
const CHECKED: usize = 20;
const HEADER: usize = CHECKED + 16;
/// The number of a text that is not there.
const NONE: u32 = u32::MAX;

/// The functions at each offset that was looked up, innermost first; empty if there is none.
pub type Found = BTreeMap<u64, Vec<SourceFrame>>;

/// A table in memory.
#[derive(Debug)]
pub struct Table {
    bytes: Vec<u8>,
    offsets: Range<usize>,
    ends: Range<usize>,
    frames: Range<usize>,
    text_ends: Range<usize>,
    texts: Range<usize>,
}

impl Table {
    /// The table that these bytes are; `None` if they are damaged, of another version, or of functions that
    /// were found in other files.
    pub fn open(bytes: Vec<u8>, fingerprint: &str) -> Option<Self> {
        let table = Self::of(bytes)?;
        let known = table.bytes.get(HEADER..table.offsets.start)?;
        (known == fingerprint.as_bytes()).then_some(table)
    }

    fn of(bytes: Vec<u8>) -> Option<Self> {
        let mut crc = Crc::new();
        crc.update(bytes.get(CHECKED..)?);
        if !bytes.starts_with(MAGIC) || u32_at(&bytes, MAGIC.len())? != crc.sum() {
            return None;
        }
        let size = |index: usize| Some(u32_at(&bytes, CHECKED + 4 * index)? as usize);
        let mut end = HEADER;
        let mut next = |count: usize, each: usize| {
            let start = end;
            end = start.checked_add(count.checked_mul(each)?)?;
            Some(start..end)
        };
        let (addresses, frames, texts) = (size(1)?, size(2)?, size(3)?);
        next(size(0)?, 1)?;
        let (offsets, ends) = (next(addresses, 8)?, next(addresses, 4)?);
        let (frames, text_ends) = (next(frames, 12)?, next(texts, 4)?);
        let texts = end..bytes.len();
        Some(Self { bytes, offsets, ends, frames, text_ends, texts })
    }

    /// A table with these functions. `None` if they are more than its numbers can say.
    pub fn new(fingerprint: &str, found: &Found) -> Option<Self> {
        let mut numbers = HashMap::new();
        let (mut text_ends, mut texts) = (Vec::new(), Vec::new());
        let mut number = |text| {
            *numbers.entry(text).or_insert_with(|| {
                texts.extend(str::as_bytes(text));
                text_ends.push(texts.len());
                text_ends.len() - 1
            })
        };
        let (mut ends, mut frames) = (Vec::new(), Vec::new());
        for functions in found.values() {
            for SourceFrame { function, file, line, .. } in functions {
                let file = file.as_deref().map_or(NONE as usize, &mut number);
                frames.extend([number(function), file, line.unwrap_or(0) as usize]);
            }
            ends.push(frames.len() / 3);
        }
        let sizes = [fingerprint.len(), found.len(), frames.len() / 3, text_ends.len()];
        let words = |numbers: Vec<usize>| {
            let words =
                numbers.into_iter().map(|number| Some(u32::try_from(number).ok()?.to_le_bytes()));
            words.collect::<Option<Vec<_>>>().map(|words| words.concat())
        };
        let offsets = found.keys().flat_map(|offset| offset.to_le_bytes()).collect::<Vec<_>>();
        let checked = [
            words(sizes.to_vec())?,
            fingerprint.into(),
            offsets,
            words(ends)?,
            words(frames)?,
            words(text_ends)?,
            texts,
        ];
        let checked = checked.concat();
        let mut crc = Crc::new();
        crc.update(&checked);
        Self::of([&MAGIC[..], &crc.sum().to_le_bytes(), &checked].concat())
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The functions at an offset; `None` if it was not looked up.
    pub fn get(&self, offset: u64) -> Option<Vec<SourceFrame>> {
        let offsets = self.bytes.get(self.offsets.clone())?.as_chunks().0;
        self.functions(
            offsets.binary_search_by_key(&offset, |word| u64::from_le_bytes(*word)).ok()?,
        )
    }

    /// All that is in it.
    pub fn all(&self) -> Found {
        let offsets = self.bytes.get(self.offsets.clone()).unwrap_or_default().as_chunks().0;
        let all = offsets
            .iter()
            .enumerate()
            .map(|(at, word)| Some((u64::from_le_bytes(*word), self.functions(at)?)));
        all.flatten().collect()
    }

    /// The functions of the address with this index.
    fn functions(&self, at: usize) -> Option<Vec<SourceFrame>> {
        let end = |at: usize| u32_at(&self.bytes, self.ends.start + 4 * at);
        let start = at.checked_sub(1).map_or(Some(0), end)?;
        let frame = |frame: u32| {
            let field = |field: usize| {
                u32_at(&self.bytes, self.frames.start + 12 * frame as usize + 4 * field)
            };
            let file = match field(1)? {
                NONE => None,
                file => Some(self.text(file)?),
            };
            Some(SourceFrame::new(
                self.text(field(0)?)?,
                file,
                Some(field(2)?).filter(|line| *line > 0),
            ))
        };
        (start..end(at)?).map(frame).collect()
    }

    fn text(&self, number: u32) -> Option<String> {
        let end = |number: u32| u32_at(&self.bytes, self.text_ends.start + 4 * number as usize);
        let start = number.checked_sub(1).map_or(Some(0), end)?;
        let texts = self.bytes.get(self.texts.clone())?;
        let text = texts.get(start as usize..end(number)? as usize)?;
        Some(str::from_utf8(text).ok()?.to_owned())
    }
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(function: &str, file: Option<&str>, line: Option<u32>) -> SourceFrame {
        SourceFrame::new(function, file.map(str::to_owned), line)
    }

    fn found() -> Found {
        Found::from([
            (0, vec![]),
            (7, vec![frame("grow", Some("vec.rs"), Some(5)), frame("main", Some("main.rs"), None)]),
            (9, vec![frame("main", None, None)]),
            (
                u64::MAX,
                vec![frame("", Some(""), Some(u32::MAX)), frame("é", Some("vec.rs"), Some(1))],
            ),
        ])
    }

    #[test]
    fn a_table_has_what_was_put_into_it_and_nothing_else() {
        let found = found();
        let table = Table::open(Table::new("files", &found).unwrap().bytes, "files").unwrap();
        assert_eq!(table.all(), found);
        for offset in [0, 1, 7, 8, 9, 10, u64::MAX - 1, u64::MAX] {
            assert_eq!(table.get(offset), found.get(&offset).cloned(), "{offset}");
        }
        assert_eq!(Table::new("", &Found::new()).unwrap().all(), Found::new());
    }

    #[test]
    fn functions_that_were_found_in_other_files_are_not_used() {
        let bytes = Table::new("files", &found()).unwrap().bytes;
        for other in ["", "file", "filet", "files2"] {
            assert!(Table::open(bytes.clone(), other).is_none(), "{other}");
        }
    }

    /// Each byte is changed in each of its bits, and the table is cut at each.
    #[test]
    fn a_damaged_table_is_not_used() {
        let bytes = Table::new("files", &found()).unwrap().bytes;
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut damaged = bytes.clone();
                damaged[at] ^= 1 << bit;
                assert!(Table::open(damaged, "files").is_none(), "{at}");
            }
            assert!(Table::open(bytes[..at].to_vec(), "files").is_none(), "{at}");
        }
        assert!(Table::open([bytes, vec![0]].concat(), "files").is_none());
    }

    /// Another program can write a file with a checksum that is right, and anything else.
    #[test]
    fn a_table_that_lies_does_not_panic() {
        let bytes = Table::new("files", &found()).unwrap().bytes;
        for at in CHECKED..bytes.len() {
            for value in [0, 1, 0x7f, 0xff] {
                let mut lying = bytes.clone();
                lying[at] = value;
                let mut crc = Crc::new();
                crc.update(&lying[CHECKED..]);
                lying[MAGIC.len()..CHECKED].copy_from_slice(&crc.sum().to_le_bytes());
                if let Some(table) = Table::of(lying) {
                    table.all();
                    table.get(7);
                }
            }
        }
    }
}
