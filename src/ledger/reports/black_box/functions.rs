//! The functions of call stacks, found in the symbol tables of files without an allocation.
//!
//! Files are read, not mapped: if another process cuts a mapped file, the system ends the program that reads
//! on. No lock is taken, and the work is bounded.

use super::Bounded;
use crate::platform::os;
use memledger_analysis::Module;
use memledger_analysis::in_process::TopHolder;
use std::fmt::{self, Write};
use std::fs::File;
use std::ops::Range;

/// At most this many frames of a stack are looked up, the innermost.
const MAX_FRAMES: usize = 64;
/// At most this many symbols of a file are read, and sections.
const MAX_SYMBOLS: u64 = 1 << 22;
const MAX_SECTIONS: u64 = 1 << 12;
/// The bytes of names: of one of Rust as it is shown, of one in a file, and of all that are shown of a stack.
const SHOWN_NAME: usize = 240;
const STORED_NAME: usize = 4 << 10;
const ALL_NAMES: usize = MAX_FRAMES << 10;

/// Finds the functions of one stack after the other.
pub(super) struct Functions {
    frames: Vec<StackFrame>,
    names: Bounded,
    buffer: Box<[u8]>,
}

/// A frame of the present stack.
#[derive(Clone, Debug)]
pub(super) struct StackFrame {
    /// The number of its file, and the bytes from the base of that.
    pub(super) file: u32,
    pub(super) offset: u64,
    pub(super) is_guess: bool,
    symbol: Option<Symbol>,
    name: Range<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Symbol {
    start: u64,
    size: u64,
    is_global: bool,
    /// Where its name is in the file.
    name_at: u64,
}

impl Functions {
    pub(super) fn new() -> Self {
        Self {
            frames: Vec::with_capacity(MAX_FRAMES),
            names: Bounded(String::with_capacity(ALL_NAMES)),
            buffer: vec![0; 24 << 10].into(),
        }
    }

    pub(super) fn find(&mut self, stack: &TopHolder<'_>) {
        self.frames.clear();
        self.names.0.clear();
        let frames = stack.frames().take(MAX_FRAMES);
        self.frames.extend(frames.map(|(file, offset, is_guess)| StackFrame {
            file,
            offset,
            is_guess,
            symbol: None,
            name: 0..0,
        }));
        for at in 0..self.frames.len() {
            let file = self.frames[at].file;
            let is_new = self.frames[..at].iter().all(|frame| frame.file != file);
            if let Some(module) = stack.file(file).filter(|_| is_new) {
                // Without a table that can be read, its frames have no names.
                let _ = self.find_in(file, module);
            }
        }
    }

    /// The frames, the innermost first, and the names of their functions.
    pub(super) fn frames(
        &self,
    ) -> impl ExactSizeIterator<Item = (&StackFrame, Option<&str>)> + DoubleEndedIterator + Clone
    {
        self.frames.iter().map(|frame| {
            let name = self.names.0.get(frame.name.clone()).filter(|name| !name.is_empty());
            (frame, name)
        })
    }

    /// Finds the functions of the frames in one file.
    fn find_in(&mut self, number: u32, module: &Module) -> Option<()> {
        let file = os::open_regular(&module.path)?;
        let buffer = &mut *self.buffer;
        let header = Header::read(&file, buffer)?;
        let linked_base = header.check(&file, &module.build_id, buffer)?;
        let table = header.symbols(&file, buffer)?;
        let mut wanted = [(u64::MAX, 0_usize); MAX_FRAMES];
        let mut count = 0;
        for (at, frame) in self.frames.iter().enumerate().filter(|(_, f)| f.file == number) {
            wanted[count] = (linked_base.saturating_add(frame.offset), at);
            count += 1;
        }
        let wanted = &mut wanted[..count];
        wanted.sort_unstable();
        table.visit(&file, buffer, |symbol| {
            let first = wanted.partition_point(|(address, _)| *address < symbol.start);
            for &(address, at) in &wanted[first..] {
                if address - symbol.start >= symbol.size {
                    break;
                }
                // The innermost; of several names, the longest function that other files can see.
                let frame = &mut self.frames[at];
                frame.symbol = frame.symbol.max(Some(symbol));
            }
        });
        for at in 0..self.frames.len() {
            if self.frames[at].file == number
                && let Some(symbol) = self.frames[at].symbol
            {
                self.frames[at].name = self.add_name(&file, symbol.name_at).unwrap_or_default();
            }
        }
        Some(())
    }

    /// Adds a name, demangled if it is Rust's. Another is whole, so that `c++filt` can read it, or missing: a
    /// demangler of C++ allocates.
    fn add_name(&mut self, file: &File, at: u64) -> Option<Range<usize>> {
        let start = self.names.0.len();
        let bytes = self.buffer.get_mut(..STORED_NAME)?;
        let read = os::read_at(file, bytes, at).ok()?;
        let bytes = bytes.get(..read)?;
        let end = bytes.iter().position(|byte| *byte == 0)?;
        let stored = std::str::from_utf8(bytes.get(..end)?).ok()?;
        match rustc_demangle::try_demangle(stored) {
            // What is too long is cut.
            Ok(demangled) => {
                let mut name = Shortened { text: &mut self.names, left: SHOWN_NAME };
                let _ = write!(name, "{demangled:#}");
            }
            Err(_) => self.names.write_str(stored).ok()?,
        }
        Some(start..self.names.0.len())
    }
}

/// A text that is cut after some bytes.
struct Shortened<'a> {
    text: &'a mut Bounded,
    left: usize,
}

impl Write for Shortened<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if text.len() <= self.left {
            self.left -= text.len();
            return self.text.write_str(text);
        }
        let end = text.floor_char_boundary(self.left);
        self.left = 0;
        self.text.write_str(&text[..end])?;
        self.text.write_str("...")?;
        Err(fmt::Error)
    }
}

/// The parts of an ELF header that say where the tables of segments and of sections are.
struct Header {
    segments_at: u64,
    segments: u64,
    sections_at: u64,
    sections: u64,
}

/// Bytes of an ELF header of 64 bits, and of an entry of each of its tables.
const HEADER: usize = 64;
const SEGMENT: usize = 56;
const SECTION: usize = 64;
const SYMBOL: usize = 24;

/// Reads some bytes of a file into the start of `buffer`.
fn read<'a>(file: &File, at: u64, bytes: usize, buffer: &'a mut [u8]) -> Option<&'a [u8]> {
    let bytes = buffer.get_mut(..bytes)?;
    (os::read_at(file, bytes, at).ok()? == bytes.len()).then_some(bytes)
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|bytes| u16::from_le_bytes(*bytes).into())
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes).into())
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}

impl Header {
    /// `None` if the file is not of this machine's form.
    fn read(file: &File, buffer: &mut [u8]) -> Option<Self> {
        let header = read(file, 0, HEADER, buffer)?;
        let sizes = (u16_at(header, 54)?, u16_at(header, 58)?);
        // Magic number, 64 bits, little-endian.
        if header.get(..6)? != b"\x7fELF\x02\x01" || sizes != (SEGMENT as u64, SECTION as u64) {
            return None;
        }
        Some(Self {
            segments_at: u64_at(header, 32)?,
            segments: u16_at(header, 56)?,
            sections_at: u64_at(header, 40)?,
            sections: u16_at(header, 60)?.min(MAX_SECTIONS),
        })
    }

    /// The address that the linker gave to the first byte; `None` if the file has another build id than the
    /// one that was loaded.
    fn check(&self, file: &File, build_id: &[u8], buffer: &mut [u8]) -> Option<u64> {
        const LOADED: u64 = 1;
        const NOTES: u64 = 4;
        let (mut base, mut is_it) = (u64::MAX, build_id.is_empty());
        for number in 0..self.segments {
            let at = self.segments_at.checked_add(number * SEGMENT as u64)?;
            let segment = read(file, at, SEGMENT, buffer)?;
            let (offset, address) = (u64_at(segment, 8)?, u64_at(segment, 16)?);
            let size = u64_at(segment, 32)?;
            match u32_at(segment, 0)? {
                LOADED => base = base.min(address),
                NOTES if !is_it => {
                    let size = size.min(buffer.len() as u64) as usize;
                    is_it = has_build_id(read(file, offset, size, buffer)?, build_id);
                }
                _ => {}
            }
        }
        (is_it && base < u64::MAX).then_some(base & !(os::page_bytes() as u64 - 1))
    }

    /// The table of all symbols, or in a stripped file that of the functions that other files can call.
    fn symbols(&self, file: &File, buffer: &mut [u8]) -> Option<Table> {
        const SYMBOLS: u64 = 2;
        const DYNAMIC_SYMBOLS: u64 = 11;
        let mut found = None;
        for number in 0..self.sections {
            let section = self.section(file, number, buffer)?;
            let kind = u32_at(section, 4)?;
            if kind == SYMBOLS || kind == DYNAMIC_SYMBOLS && found.is_none() {
                found = Some((u64_at(section, 24)?, u64_at(section, 32)?, u32_at(section, 40)?));
            }
            if kind == SYMBOLS {
                break;
            }
        }
        let (at, bytes, names) = found?;
        let names = self.section(file, names, buffer)?;
        Some(Table { at, count: bytes / SYMBOL as u64, names_at: u64_at(names, 24)? })
    }

    fn section<'a>(&self, file: &File, number: u64, buffer: &'a mut [u8]) -> Option<&'a [u8]> {
        let at = self.sections_at.checked_add(number * SECTION as u64)?;
        read(file, at, SECTION, buffer)
    }
}

/// Whether these notes have this build id: each has the sizes of its name and of its content, a type, and
/// both, padded to 4 bytes.
fn has_build_id(mut notes: &[u8], build_id: &[u8]) -> bool {
    const BUILD_ID: u64 = 3;
    let next = || {
        let (name, content) = (u32_at(notes, 0)? as usize, u32_at(notes, 4)? as usize);
        let kind = u32_at(notes, 8)?;
        let start = 12 + name.next_multiple_of(4);
        let is_it = kind == BUILD_ID && notes.get(start..start + content)? == build_id;
        notes = notes.get(start + content.next_multiple_of(4)..)?;
        Some(is_it)
    };
    std::iter::from_fn(next).any(|is_it| is_it)
}

/// A table of symbols in a file.
struct Table {
    at: u64,
    count: u64,
    names_at: u64,
}

impl Table {
    /// Calls `visit` for each function with a size, up to what cannot be read.
    fn visit(&self, file: &File, buffer: &mut [u8], mut visit: impl FnMut(Symbol)) {
        let count = self.count.min(MAX_SYMBOLS);
        let at_once = (buffer.len() / SYMBOL) as u64;
        let mut next = 0;
        while next < count {
            let some = (count - next).min(at_once);
            let Some(at) = self.at.checked_add(next * SYMBOL as u64) else { return };
            let Some(symbols) = read(file, at, some as usize * SYMBOL, buffer) else { return };
            symbols
                .chunks_exact(SYMBOL)
                .filter_map(|symbol| self.function(symbol))
                .for_each(&mut visit);
            next += some;
        }
    }

    fn function(&self, symbol: &[u8]) -> Option<Symbol> {
        const FUNCTION: u8 = 2;
        const INDIRECT_FUNCTION: u8 = 10;
        const LOCAL: u8 = 0;
        let info = *symbol.get(4)?;
        let (start, size) = (u64_at(symbol, 8)?, u64_at(symbol, 16)?);
        let is_function = matches!(info & 15, FUNCTION | INDIRECT_FUNCTION);
        let is_defined = u16_at(symbol, 6)? != 0;
        let name = u32_at(symbol, 0)?;
        (is_function && is_defined && size > 0 && name > 0).then_some(Symbol {
            start,
            size,
            is_global: info >> 4 != LOCAL,
            name_at: self.names_at.checked_add(name)?,
        })
    }
}

// They read ELF files.
#[cfg(test)]
#[cfg(elf)]
mod tests;
