//! The functions of Go's in a file: a table that Go's runtime needs itself, so stripped files also have it.
//!
//! ```text
//! header     magic u32, 0 u16, quantum u8, size of a word u8, words: see [`Form`]
//! functions  (address, offset of an _func) for each, and the end of the last
//! _func      address, offset of the name i32, ...
//! names      each ends with a zero
//! ```
//! The addresses are relative to `textStart` from Go 1.18 on. Formats: Go's `debug/gosym/pclntab.go`; that of
//! Go 1.15 and before is not read.

use super::object_file::ObjectFile;
use memledger_format::words::text_of;
use object::{Object, ObjectSection, ObjectSymbol};

/// Where the table is. In a program that can be loaded anywhere, C's linker puts it among other data.
const SECTIONS: [&str; 3] = [".gopclntab", ".data.rel.ro.gopclntab", ".data.rel.ro"];

/// A section that all programs of Go have.
const OF_GO: &str = ".go.buildinfo";

/// A function.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct GoFunction {
    pub(super) start: u64,
    pub(super) size: u64,
    pub(super) name: String,
}

/// The functions of Go's in the file; none if it has no such table.
///
/// # Errors
/// One sentence, if the table is damaged, or of a version that is not known.
pub(super) fn read(file: &ObjectFile) -> Result<Vec<GoFunction>, String> {
    let found = file.with_parsed(|file| section(file)).flatten();
    let Some((name, address)) = found else { return Ok(Vec::new()) };
    let bytes = file.section(name)?;
    let bytes =
        Bytes { table: &bytes, is_little: file.headers.endian == gimli::RunTimeEndian::Little };
    let at = if name.ends_with("tab") { Some(0) } else { bytes.find_table() };
    let Some(at) = at else { return Ok(Vec::new()) };
    let in_header = address.wrapping_add(at as u64 + HEADER + TEXT_START as u64 * WORD);
    let text_start = file.with_parsed(|file| text_start(file, in_header)).flatten();
    let table = Bytes { table: bytes.table.get(at..).unwrap_or_default(), ..bytes };
    functions(&table, text_start).map_err(|what| {
        format!("Go's functions in {name} of {} cannot be read: {what}", file.path.display())
    })
}

/// The section that the table is in, if it is a file of Go, and its address.
fn section<'a>(file: &impl Object<'a>) -> Option<(&'static str, u64)> {
    file.section_by_name(OF_GO)?;
    let found = SECTIONS.iter().find_map(|name| Some((*name, file.section_by_name(name)?)));
    found.map(|(name, section)| (name, section.address()))
}

/// What the loader puts into this word, or else the symbol for it.
fn text_start<'a>(file: &impl Object<'a>, at: u64) -> Option<u64> {
    let symbol = || file.symbol_by_name("runtime.text").map(|symbol| symbol.address());
    let mut relocations = file.dynamic_relocations().into_iter().flatten();
    let relocated = relocations.find(|(address, _)| *address == at);
    relocated.map(|(_, relocation)| relocation.addend().cast_unsigned()).or_else(symbol)
}

/// Bytes before the words of the header, and of a word.
const HEADER: u64 = 8;
const WORD: u64 = 8;
/// The word of the header with the address of the first function.
const TEXT_START: usize = 2;

/// What differs between versions: the magic number, the words with the offsets of the names and of the
/// functions, and whether these begin at `textStart`.
struct Form {
    magic: u32,
    names: usize,
    functions: usize,
    is_relative: bool,
}

const FORMS: [Form; 3] = [
    // Go 1.16
    Form { magic: 0xffff_fffa, names: 2, functions: 6, is_relative: false },
    // Go 1.18
    Form { magic: 0xffff_fff0, names: 3, functions: 7, is_relative: true },
    // Go 1.20
    Form { magic: 0xffff_fff1, names: 3, functions: 7, is_relative: true },
];

/// The functions of a table. `text_start` replaces that of the header, which the loader may have to complete.
fn functions(bytes: &Bytes<'_>, text_start: Option<u64>) -> Result<Vec<GoFunction>, String> {
    let table = bytes.table;
    let cut = || "it is too short".to_owned();
    let magic = bytes.number(0, 4).ok_or_else(cut)? as u32;
    let form = FORMS.iter().find(|form| form.magic == magic);
    let form = form.ok_or_else(|| format!("its version {magic:#x} of Go's is not known"))?;
    if bytes.number(7, 1) != Some(WORD) {
        return Err("it is not of a 64-bit program".to_owned());
    }
    let word = |at: usize| bytes.number(HEADER as usize + at * WORD as usize, 8).ok_or_else(cut);
    let (count, names, functions) = (word(0)?, word(form.names)?, word(form.functions)?);
    let start = if form.is_relative { text_start.unwrap_or(word(TEXT_START)?) } else { 0 };
    if form.is_relative && start == 0 {
        return Err("it does not say where the first function begins".to_owned());
    }
    let size = if form.is_relative { 4 } else { 8 };
    let (names, first) = (names as usize, functions as usize);
    // NOTE: a damaged table can claim any number.
    let most = (table.len() / (2 * size)) as u64;
    if count > most {
        return Err(format!("it has room for {most} functions, and claims {count}"));
    }
    let field = |at: u64| {
        bytes.number(first.checked_add(usize::try_from(at).ok()?.checked_mul(size)?)?, size)
    };
    let function = |at: u64| {
        let (offset, next) = (field(2 * at)?, field(2 * at + 2)?);
        let described = first.checked_add(usize::try_from(field(2 * at + 1)?).ok()?)?;
        let name = bytes.number(described.checked_add(size)?, 4)?;
        let name = table.get(names.checked_add(name as usize)?..)?.split(|byte| *byte == 0).next();
        let name = name.filter(|name| !name.is_empty())?;
        let size = next.checked_sub(offset)?;
        Some(GoFunction { start: start.checked_add(offset)?, size, name: text_of(name).into() })
    };
    let found = (0..count).filter_map(function).collect::<Vec<_>>();
    match count - found.len() as u64 {
        0 => Ok(found),
        lost => Err(format!("{lost} of its {count} functions are outside of it")),
    }
}

/// Numbers in bytes.
struct Bytes<'a> {
    table: &'a [u8],
    is_little: bool,
}

impl Bytes<'_> {
    /// Where a table begins, among other data.
    fn find_table(&self) -> Option<usize> {
        let is_start = |at: &usize| {
            let magic = self.number(*at, 4);
            // Two zeros, the quantum, and the size of a word.
            FORMS.iter().any(|form| magic == Some(form.magic.into()))
                && self.table.get(at + 4..at + 8) == Some(&[0, 0, 1, 8])
        };
        (0..self.table.len()).step_by(WORD as usize).find(is_start)
    }

    /// The number of `size` bytes, at most 8, at `at`.
    fn number(&self, at: usize, size: usize) -> Option<u64> {
        let bytes = self.table.get(at..at.checked_add(size)?)?.iter();
        let add = |number: u64, byte: &u8| number << 8 | u64::from(*byte);
        Some(if self.is_little { bytes.rev().fold(0, add) } else { bytes.fold(0, add) })
    }
}

#[cfg(test)]
mod tests {
    use super::{Bytes, FORMS, Form, GoFunction, HEADER, functions};
    use gimli::RunTimeEndian::{self, Big, Little};
    use proptest::prelude::*;

    fn read(
        table: &[u8],
        endian: RunTimeEndian,
        text_start: Option<u64>,
    ) -> Result<Vec<GoFunction>, String> {
        functions(&Bytes { table, is_little: endian == Little }, text_start)
    }

    /// A table with two functions, as the linker of this version writes it.
    fn table(form: &Form, endian: RunTimeEndian, text_start: u64) -> Vec<u8> {
        let put = |bytes: &mut Vec<u8>, value: u64, size: usize| {
            let mut number = value.to_le_bytes()[..size].to_vec();
            if endian == Big {
                number.reverse();
            }
            bytes.extend(number);
        };
        let (words, size) = if form.is_relative { (8, 4) } else { (7, 8) };
        let names = HEADER as usize + 8 * words;
        let text = b"main.main\0runtime.asmcgocall.abi0\0";
        let functions = names + text.len();
        let mut bytes = Vec::new();
        put(&mut bytes, form.magic.into(), 4);
        bytes.extend([0, 0, 1, 8]);
        for word in 0..words {
            let value = match word {
                0 => 2,
                2 if form.is_relative => text_start,
                word if word == form.names => names as u64,
                word if word == form.functions => functions as u64,
                _ => 0,
            };
            put(&mut bytes, value, 8);
        }
        bytes.extend(text);
        let base = if form.is_relative { 0 } else { 0x40_1000 };
        let described = 5 * size as u64;
        for value in [base, described, base + 0x40, described + size as u64 + 4, base + 0x70] {
            put(&mut bytes, value, size);
        }
        for (start, name) in [(base, 0), (base + 0x40, 10)] {
            put(&mut bytes, start, size);
            put(&mut bytes, name, 4);
        }
        bytes
    }

    fn function(start: u64, size: u64, name: &str) -> GoFunction {
        GoFunction { start, size, name: name.to_owned() }
    }

    #[test]
    fn functions_of_each_version_are_read() {
        for form in &FORMS {
            for endian in [Little, Big] {
                let expected = [
                    function(0x40_1000, 0x40, "main.main"),
                    function(0x40_1040, 0x30, "runtime.asmcgocall.abi0"),
                ];
                let table = table(form, endian, 0x40_1000);
                let found = read(&table, endian, None).unwrap();
                assert_eq!(found, expected, "{:x} {endian:?}", form.magic);
                if form.is_relative {
                    let moved = read(&table, endian, Some(0x5000)).unwrap();
                    assert_eq!(moved[1].start, 0x5040);
                }
            }
        }
    }

    #[test]
    fn a_table_among_other_data_is_found() {
        for form in &FORMS {
            let table = table(form, Little, 0x1000);
            let among = [&[0xf1; 40][..], &table].concat();
            let found = |table: &[u8]| Bytes { table, is_little: true }.find_table();
            assert_eq!(
                (found(&among), found(&among[..40]), found(&among[8..])),
                (Some(40), None, Some(32))
            );
        }
    }

    #[test]
    fn a_damaged_table_is_one_sentence() {
        let form = &FORMS[1];
        let whole = table(form, Little, 0x1000);
        let damaged = |at: usize, byte: u8| {
            let mut bytes = whole.clone();
            bytes[at] = byte;
            read(&bytes, Little, None).unwrap_err()
        };
        assert_eq!(damaged(0, 0xee), "its version 0xffffffee of Go's is not known");
        assert_eq!(damaged(7, 4), "it is not of a 64-bit program");
        assert_eq!(damaged(9, 1), "it has room for 17 functions, and claims 258");
        assert_eq!(damaged(15, 1), "it has room for 17 functions, and claims 72057594037927938");
        assert_eq!(damaged(64, 0xff), "2 of its 2 functions are outside of it");
        let unknown = read(&table(form, Little, 0), Little, None).unwrap_err();
        assert_eq!(unknown, "it does not say where the first function begins");
        for end in 0..whole.len() {
            assert!(read(&whole[..end], Little, None).is_err(), "{end}");
        }
    }

    proptest! {
        #[test]
        fn anything_may_be_there(
            form in 0..FORMS.len(),
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..40),
        ) {
            let mut bytes = table(&FORMS[form], Little, 0x1000);
            for (at, byte) in changes {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            let _ = read(&bytes, Little, None);
        }
    }
}
