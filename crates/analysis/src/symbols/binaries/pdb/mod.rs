//! PDB files: the functions and lines of programs that Microsoft's linker, or LLVM's, has made.
//!
//! The format is that of LLVM's documentation ("The PDB File Format") and of the header `cvinfo.h`, which
//! Microsoft has published. One crate for it was tried, `pdb-addr2line` 0.12 over `pdb2` 0.10: for a damaged
//! file it requested 16 GiB, and the process aborted. Here all streams that are read together are at most as
//! large as the file.
//!
//! ```text
//! streams.rs    the container of all streams
//! sections.rs   where the program's sections are in memory
//! functions.rs  the functions of one object file, with those that were inlined
//! lines.rs      its lines
//! names.rs      the names of inlined functions
//! spelling.rs   names as Rust's source has them
//! fields.rs     numbers and texts of a record
//! ```

mod fields;
mod functions;
mod lines;
mod names;
mod sections;
mod spelling;
mod streams;

use super::debug_frame::DebugFrame;
use crate::CodeRange;
use fields::Fields;
use functions::Functions;
use lines::Row;
use memledger_format::words::text_of;
use names::Records;
use sections::Sections;
use spelling::in_rust;
use std::collections::HashMap;
use std::fs::File;
use std::ops::Range;
use std::rc::Rc;
use streams::{MAGIC, NO_STREAM, Streams};

/// How many bytes say that a file is a PDB file.
pub(super) const MAGIC_BYTES: u64 = MAGIC.len() as u64;

/// Whether a file that begins with these bytes is a PDB file.
pub(super) fn is_pdb(start: &[u8]) -> bool {
    start == MAGIC
}

/// Where streams are that have fixed numbers.
const INFO: u16 = 1;
const TYPES: u16 = 2;
const DEBUG: u16 = 3;
const IDS: u16 = 4;

/// What the headers of a file say.
pub(super) struct Headers {
    /// Its GUID and its age, as the program has them, too.
    pub(super) build_id: Vec<u8>,
    /// The program's size in memory.
    pub(super) size: u64,
    pub(super) code: Vec<CodeRange>,
}

impl Headers {
    /// # Errors
    /// What is wrong.
    pub(super) fn read(file: &File) -> Result<Self, String> {
        let streams = Streams::open(file)?;
        let (guid, _) =
            info(&streams.start_of(INFO, 28)?).ok_or("its first stream is too short")?;
        let debug = DebugHeader::read(&streams.stream(DEBUG)?)?;
        let sections = Sections::read(&streams.stream(debug.sections)?);
        let build_id = [&guid[..], &debug.age.to_le_bytes()].concat();
        Ok(Self { build_id, size: sections.end(), code: sections.code() })
    }
}

/// The GUID, and what follows.
fn info(bytes: &[u8]) -> Option<([u8; 16], Fields<'_>)> {
    let mut fields = Fields(bytes);
    // Version, time and the number of times that it was written.
    fields.skip(12)?;
    Some((*fields.bytes(16)?.as_array()?, fields))
}

/// What the stream of debug information begins and ends with.
struct DebugHeader {
    /// How often the linker has written it: the program has the same number.
    age: u32,
    /// The streams of exported names and of the headers of sections.
    symbols: u16,
    sections: u16,
    /// Where the lists of object files and of their code are in the stream.
    object_files: Range<usize>,
    contributions: Range<usize>,
}

impl DebugHeader {
    fn read(bytes: &[u8]) -> Result<Self, String> {
        let found = Self::parse(bytes).ok_or("its debug information ends too early")?;
        let (header, is_rearranged) = found;
        if is_rearranged {
            return Err("functions were rearranged after the program was linked".to_owned());
        }
        Ok(header)
    }

    fn parse(bytes: &[u8]) -> Option<(Self, bool)> {
        const SIZE: usize = 64;
        let mut fields = Fields(bytes);
        fields.skip(8)?;
        let age = fields.u32()?;
        fields.skip(8)?;
        let symbols = fields.u16()?;
        fields.skip(2)?;
        let [object_files, contributions, map, files, servers, _, others, edit] =
            [(); 8].map(|()| fields.u32());
        let object_files = SIZE..SIZE.checked_add(object_files? as usize)?;
        let contributions =
            object_files.end..object_files.end.checked_add(contributions? as usize)?;
        let others_start = [map?, files?, servers?, edit?]
            .iter()
            .try_fold(contributions.end, |end, size| end.checked_add(*size as usize))?;
        let others = bytes.get(others_start..others_start.checked_add(others? as usize)?)?;
        // The streams of tables for functions that were moved, and of the headers of sections.
        let mut numbers =
            others.chunks_exact(2).map(|bytes| u16::from_le_bytes([bytes[0], bytes[1]]));
        let moved = [numbers.nth(3), numbers.next()];
        let is_rearranged = moved.iter().flatten().any(|number| *number != NO_STREAM);
        let sections = numbers.next().unwrap_or(NO_STREAM);
        Some((Self { age, symbols, sections, object_files, contributions }, is_rearranged))
    }
}

/// Code of one object file.
struct Contribution {
    code: Range<u32>,
    object_file: u16,
}

/// Where the symbols and lines of an object file are: the stream, and the sizes of its parts.
struct ObjectFileStream {
    number: u16,
    sizes: [u32; 3],
}

/// The functions and lines of a file. Those of an object file are read when an address in it is asked for.
pub(super) struct Pdb {
    streams: Streams,
    sections: Sections,
    /// Ordered by their code.
    contributions: Vec<Contribution>,
    object_files: Vec<ObjectFileStream>,
    functions: HashMap<u16, Rc<Functions>>,
    /// All paths of source files.
    texts: Vec<u8>,
    types: Records,
    ids: Records,
    /// The names of inlined functions that were found, by their ids.
    names: HashMap<u32, Option<String>>,
}

impl Pdb {
    /// Reads what is needed for all addresses, and the functions that other object files can use, with their
    /// addresses.
    ///
    /// # Errors
    /// What is wrong.
    pub(super) fn open(file: &File) -> Result<(Self, Vec<(u64, String)>), String> {
        let streams = Streams::open(file)?;
        let debug = streams.stream(DEBUG)?;
        let header = DebugHeader::read(&debug)?;
        let part =
            |range: Range<usize>| debug.get(range).ok_or("its debug information ends too early");
        let sections = Sections::read(&streams.stream(header.sections)?);
        let symbols = streams.stream(header.symbols)?;
        let symbols = exported(&symbols, &sections);
        let mut pdb = Self {
            contributions: contributions(part(header.contributions)?, &sections),
            object_files: object_files(part(header.object_files)?),
            functions: HashMap::new(),
            texts: texts(&streams)?,
            types: Records::read(streams.stream(TYPES)?),
            ids: Records::read(streams.stream(IDS)?),
            names: HashMap::new(),
            sections,
            streams,
        };
        pdb.contributions.sort_by_key(|contribution| contribution.code.start);
        Ok((pdb, symbols))
    }

    /// The functions at an address, innermost first.
    ///
    /// # Errors
    /// What is damaged.
    pub(super) fn frames(&mut self, address: u64) -> Result<Vec<DebugFrame>, String> {
        let Ok(address) = u32::try_from(address) else { return Ok(Vec::new()) };
        let after = self.contributions.partition_point(|part| part.code.start <= address);
        let Some(part) = self.contributions.get(..after).and_then(<[_]>::last) else {
            return Ok(Vec::new());
        };
        let functions = self.functions(part.object_file)?;
        let Some(function) = functions.at(address) else { return Ok(Vec::new()) };
        let mut frames = Vec::new();
        for (number, row) in function.inlined_at(address) {
            let name = self.name(number);
            frames.push(self.frame(name, Some(row), &functions));
        }
        let row = functions.lines.at(address);
        frames.push(self.frame(Some(in_rust(&function.name)), row, &functions));
        Ok(frames)
    }

    fn frame(&self, function: Option<String>, row: Option<&Row>, of: &Functions) -> DebugFrame {
        let path = row.and_then(|row| {
            let start = of.lines.path(row.file)? as usize;
            let path =
                Fields(self.texts.get(start..)?).terminated().filter(|path| !path.is_empty())?;
            let separators = |byte: &u8| if *byte == b'\\' { b'/' } else { *byte };
            Some(text_of(&path.iter().map(separators).collect::<Vec<_>>()).into_owned())
        });
        let line = row.map(|row| row.line).filter(|line| *line > 0);
        DebugFrame { function, file: path, line }
    }

    fn functions(&mut self, object_file: u16) -> Result<Rc<Functions>, String> {
        if let Some(functions) = self.functions.get(&object_file) {
            return Ok(Rc::clone(functions));
        }
        let (bytes, sizes) = match self.object_files.get(usize::from(object_file)) {
            Some(stream) => (self.streams.stream(stream.number)?, stream.sizes),
            None => Default::default(),
        };
        let functions = Rc::new(Functions::read(&bytes, sizes, &self.sections));
        self.functions.insert(object_file, Rc::clone(&functions));
        Ok(functions)
    }

    fn name(&mut self, number: u32) -> Option<String> {
        let Self { names, ids, types, .. } = self;
        let find = || names::function(number, ids, types).map(|name| in_rust(&name));
        names.entry(number).or_insert_with(find).clone()
    }
}

/// The code of all object files, as far as the list is not damaged.
fn contributions(bytes: &[u8], sections: &Sections) -> Vec<Contribution> {
    const VERSION_1: u32 = 0xf12e_ba2d;
    const VERSION_2: u32 = 0xf131_51e4;
    let mut fields = Fields(bytes);
    let size = match fields.u32() {
        Some(VERSION_1) => 28,
        Some(VERSION_2) => 32,
        _ => return Vec::new(),
    };
    let contribution = |bytes: &[u8]| {
        let mut fields = Fields(bytes);
        let section = fields.u32()? as u16;
        let (offset, size) = (fields.u32()?, fields.u32()?);
        fields.skip(4)?;
        let start = sections.address(section, offset)?;
        Some(Contribution { code: start..start.checked_add(size)?, object_file: fields.u16()? })
    };
    fields.0.chunks_exact(size).filter_map(contribution).collect()
}

/// Where the symbols of each object file are, as far as the list is not damaged.
fn object_files(bytes: &[u8]) -> Vec<ObjectFileStream> {
    let mut fields = Fields(bytes);
    std::iter::from_fn(|| {
        fields.skip(34)?;
        let number = fields.u16()?;
        let [symbols, old_lines, lines] = [(); 3].map(|()| fields.u32());
        let sizes = [symbols?, old_lines?, lines?];
        fields.skip(16)?;
        let _names = (fields.text()?, fields.text()?);
        fields.align(bytes);
        Some(ObjectFileStream { number, sizes })
    })
    .collect()
}

/// The functions that other object files can use.
fn exported(bytes: &[u8], sections: &Sections) -> Vec<(u64, String)> {
    const EXPORTED: u16 = 0x110e;
    const IS_FUNCTION: u32 = 2;
    let mut records = Fields(bytes);
    let mut functions = Vec::new();
    while let Some((kind, mut record)) = records.record() {
        let mut function = || {
            let (flags, offset, section) = (record.u32()?, record.u32()?, record.u16()?);
            let address = sections.address(section, offset)?;
            (flags & IS_FUNCTION != 0).then_some((address.into(), record.text()?))
        };
        if kind == EXPORTED {
            functions.extend(function());
        }
    }
    functions
}

/// All paths of source files: the content of the stream `/names`.
fn texts(streams: &Streams) -> Result<Vec<u8>, String> {
    let info_stream = streams.stream(INFO)?;
    let number = info(&info_stream).and_then(|(_, fields)| number_of_names(fields));
    let bytes = streams.stream(number.unwrap_or(NO_STREAM))?;
    let mut fields = Fields(&bytes);
    // The signature, and the number of the version.
    let texts = fields.skip(8).and_then(|()| fields.counted());
    Ok(texts.map_or_else(Vec::new, |texts| texts.0.to_vec()))
}

/// The number of the stream `/names`: from a hash table of offsets of names and numbers.
fn number_of_names(mut fields: Fields<'_>) -> Option<u16> {
    let names = fields.counted()?;
    let (count, _capacity) = (fields.u32()?, fields.u32()?);
    // Which places have an entry, and which had one.
    for _ in 0..2 {
        let words = fields.u32()? as usize;
        fields.skip(words.checked_mul(4)?)?;
    }
    for _ in 0..count {
        let (name, number) = (fields.u32()?, fields.u32()?);
        let name = names.0.get(name as usize..)?;
        if Fields(name).text()? == "/names" {
            return u16::try_from(number).ok();
        }
    }
    None
}
