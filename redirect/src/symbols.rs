//! The functions that a file of ELF's form defines, by name.

use object::elf::{FileHeader64, SHT_DYNSYM, SHT_SYMTAB, STB_LOCAL, STT_FUNC};
use object::read::elf::{FileHeader, SectionHeader, Sym};
use object::{Endianness, ReadRef};

/// A function of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Function<T> {
    /// What was wanted of it.
    pub wanted: T,
    /// Its address, from where the file is loaded.
    pub address: u64,
    /// The bytes of its code.
    pub size: u64,
    /// Whether only one of the files that the program is linked of knows it: its name may mean anything.
    pub is_local: bool,
}

/// The functions whose names are `wanted`, which says what it knows of them: of the whole table of symbols,
/// or, in a stripped file, of those for other files. One that has two names is there twice. A file that
/// cannot be read has none.
pub fn functions<'a, T, R: ReadRef<'a>>(
    file: R,
    mut wanted: impl FnMut(&'a [u8]) -> Option<T>,
) -> Vec<Function<T>> {
    let mut found = Vec::new();
    let Ok(header) = FileHeader64::<Endianness>::parse(file) else { return found };
    let Ok(endian) = header.endian() else { return found };
    let Ok(sections) = header.sections(endian, file) else { return found };
    for table in [SHT_SYMTAB, SHT_DYNSYM] {
        let Ok(symbols) = sections.symbols(endian, file, table) else { continue };
        for symbol in symbols.iter() {
            if symbol.st_type() != STT_FUNC || symbol.is_undefined(endian) {
                continue;
            }
            let Ok(name) = symbols.symbol_name(endian, symbol) else { continue };
            // A linker may have appended a version.
            let name = name.split(|byte| *byte == b'@').next().unwrap_or(name);
            if let Some(wanted) = wanted(name) {
                found.push(Function {
                    wanted,
                    address: symbol.st_value(endian),
                    size: symbol.st_size(endian),
                    is_local: symbol.st_bind() == STB_LOCAL,
                });
            }
        }
        if !symbols.is_empty() {
            break;
        }
    }
    found
}

/// The number that a linker gives to a file, by which its debug file is found.
pub fn build_id<'a, R: ReadRef<'a>>(file: R) -> Option<&'a [u8]> {
    let header = FileHeader64::<Endianness>::parse(file).ok()?;
    let endian = header.endian().ok()?;
    let sections = header.sections(endian, file).ok()?;
    sections.iter().find_map(|section| {
        let mut notes = section.notes(endian, file).ok()??;
        while let Ok(Some(note)) = notes.next() {
            if note.name() == object::elf::ELF_NOTE_GNU
                && note.n_type(endian) == object::elf::NT_GNU_BUILD_ID
            {
                return Some(note.desc());
            }
        }
        None
    })
}
