//! An ELF file, or one of Windows (PE, PDB) or macOS (Mach-O), that may have debug information or symbols.

use super::pdb;
use crate::{CodeRange, FileStamp, Module};
use memledger_format::words::{bytes_of, is_windows_path, system_text};
use object::elf::{PF_X, PT_LOAD};
use object::pe::IMAGE_SCN_MEM_EXECUTE;
use object::read::elf::{ElfFile, FileHeader, ProgramHeader};
use object::read::macho::MachOFile64;
use object::read::pe::PeFile64;
use object::{
    CompressedData, CompressedFileRange, CompressionFormat, FileKind, ReadCache, ReadRef,
};
use object::{Endianness, LittleEndian, Object, ObjectSection, ObjectSegment, SectionKind};
use std::fmt::{Display, Write as _};
use std::fs::{self, File};
use std::io::{self, Cursor, Read, Seek, SeekFrom};
use std::num::NonZeroUsize;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use xz4rust::{DICT_SIZE_PROFILE_6, DICT_SIZE_PROFILE_9, XzDecoder, XzReader};

/// The bytes of a section.
pub(super) type Bytes = Rc<[u8]>;

/// A module starts and ends at a multiple of this.
const PAGE: u64 = 4096;

/// Deflate expands a byte to 1032 at most; a section that claims more is damaged.
const MAX_EXPANSION: u64 = 1032;

/// How much of it is read at once.
const BUFFER: NonZeroUsize = NonZeroUsize::new(8 << 10).unwrap();

/// The symbols of the largest programs have some 20 MiB; a section with more is damaged.
const MAX_XZ: usize = 256 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Elf,
    Pe,
    Pdb,
    MachO,
}

/// A file that is open, and what its headers say.
pub(super) struct ObjectFile {
    pub(super) path: PathBuf,
    pub(super) build_id: Vec<u8>,
    /// The name of the file with its debug information, and the CRC of that file.
    pub(super) debug_link: Option<(PathBuf, u32)>,
    /// The path of the file with what its debug information shares with others, and the build id.
    pub(super) alt_link: Option<(PathBuf, Vec<u8>)>,
    /// The path of its PDB file, as the linker wrote it.
    pub(super) pdb: Option<PathBuf>,
    pub(super) endian: gimli::RunTimeEndian,
    pub(super) kind: Kind,
    /// The address that the linker gave to its first byte.
    linked_base: u64,
    /// Its size in memory: from the first to the last byte, and without gaps.
    sizes: [u64; 2],
    /// Empty in a file that has debug information only.
    pub(super) code: Vec<CodeRange>,
    sections: Vec<(String, CompressedFileRange)>,
    file: File,
}

impl ObjectFile {
    /// Reads the headers.
    ///
    /// # Errors
    /// One sentence with the path, if the file cannot be read, or is of another kind.
    pub(super) fn open(path: &Path) -> Result<Self, String> {
        let failed =
            |what: &dyn Display| format!("{} has no usable symbols: {what}", path.display());
        // NOTE: before it is opened. To open a pipe would wait for a writer.
        if !fs::metadata(path).map_err(|error| failed(&error))?.is_file() {
            return Err(failed(&"it is not a file"));
        }
        let file = File::open(path).map_err(|error| failed(&error))?;
        let (kind, headers) = Headers::read(&file).map_err(|what| failed(&what))?;
        let path = path.to_owned();
        let Headers {
            build_id,
            debug_link,
            alt_link,
            pdb,
            endian,
            linked_base,
            sizes,
            code,
            sections,
        } = headers;
        Ok(Self {
            path,
            build_id,
            debug_link,
            alt_link,
            pdb,
            endian,
            kind,
            linked_base,
            sizes,
            code,
            sections,
            file,
        })
    }

    /// Whether it has debug information.
    pub(super) fn has_debug_info(&self) -> bool {
        self.kind == Kind::Pdb || self.range(".debug_info").is_some()
    }

    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// The bytes of its sections, in memory.
    pub(super) fn bytes(&self) -> u64 {
        if self.kind == Kind::Pdb {
            return self.file.metadata().map_or(0, |metadata| metadata.len());
        }
        self.sections.iter().fold(0, |sum, (_, range)| {
            // A damaged file can claim any size.
            let most = range.compressed_size.saturating_mul(MAX_EXPANSION);
            sum.saturating_add(range.uncompressed_size.min(most))
        })
    }

    /// Whether it is the file that the module was loaded from, or the debug information of that file. The
    /// build id decides; without one, the size in memory, and, at the path that it was loaded from, its
    /// stamp.
    ///
    /// # Errors
    /// One sentence that says why not.
    pub(super) fn check(&self, module: &Module) -> Result<(), String> {
        let Self { path, build_id, sizes, .. } = self;
        let path = path.display();
        if *build_id != module.build_id && self.kind == Kind::Pdb {
            return Err(format!(
                "{path} is not the PDB file of the program that ran: its GUID and age are {}, but those of \
                 {} in the trace are {}",
                named(build_id),
                module.path,
                named(&module.build_id)
            ));
        }
        if *build_id != module.build_id {
            return Err(format!(
                "{path} is not the file that was loaded: its build id is {}, but that of {} in the \
                 trace is {}",
                named(build_id),
                module.path,
                named(&module.build_id)
            ));
        }
        if build_id.is_empty() && module.size != 0 && !sizes.contains(&module.size) {
            return Err(format!(
                "{path} is not the file that was loaded: it takes {} bytes of memory, but {} in the \
                 trace takes {}, and neither has a build id",
                sizes[0], module.path, module.size
            ));
        }
        if let Some(stamp) = module.stamp.filter(|_| build_id.is_empty())
            && self.path == path_of_module(module)
            && self.stamp().is_some_and(|own| own != stamp)
        {
            return Err(format!(
                "{path} is not the file that was loaded: it was changed or replaced since, and has no build id \
                 (the linker's option --build-id makes one)"
            ));
        }
        Ok(())
    }

    fn stamp(&self) -> Option<FileStamp> {
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt;
            let file = self.file.metadata().ok()?;
            let changed_ns = file.ctime() * 1_000_000_000 + file.ctime_nsec();
            Some(FileStamp { inode: file.ino(), changed_ns: changed_ns.cast_unsigned() })
        }
        #[cfg(not(unix))]
        None
    }

    /// What is different after the file was changed or replaced. `None` if the system does not say it.
    pub(super) fn state(&self) -> Option<String> {
        let metadata = self.file.metadata().ok()?;
        let modified = metadata.modified().ok()?;
        Some(format!("{:?} {} {modified:?} {:?}", self.path, metadata.len(), self.stamp()))
    }

    /// The address in the debug information of the byte at `offset` from the first one in memory.
    /// `None` if the file has no such byte.
    pub(super) fn linked_address(&self, offset: u64) -> Option<u64> {
        let span = self.sizes[0].checked_next_multiple_of(PAGE)?;
        // NOTE: addr2line adds 1 to the address.
        self.linked_base.checked_add(offset).filter(|at| offset < span && *at < u64::MAX)
    }

    fn range(&self, name: &str) -> Option<CompressedFileRange> {
        let found = self.sections.iter().find(|(section, _)| section == name);
        found.map(|(_, range)| *range)
    }

    /// The bytes of a section; none if the file does not have it.
    ///
    /// # Errors
    /// One sentence, if the file cannot be read or is damaged.
    pub(super) fn section(&self, name: &str) -> Result<Bytes, String> {
        let Some(range) = self.range(name) else { return Ok(Rc::new([])) };
        self.read(range).map_err(|what| {
            format!("the section {name} of {} cannot be read: {what}", self.path.display())
        })
    }

    fn read(&self, range: CompressedFileRange) -> Result<Bytes, String> {
        let stored = self.file.metadata().map_or(0, |metadata| metadata.len());
        let end = range.offset.checked_add(range.compressed_size);
        if end.is_none_or(|end| end > stored) {
            return Err(format!("it ends after the file, which has {stored} bytes"));
        }
        let mut bytes: Bytes = std::iter::repeat_n(0, range.compressed_size as usize).collect();
        let buffer = Rc::get_mut(&mut bytes).ok_or("its bytes are shared")?;
        let mut file = &self.file;
        file.seek(SeekFrom::Start(range.offset))
            .and_then(|_| file.read_exact(buffer))
            .map_err(|error| error.to_string())?;
        if range.format == CompressionFormat::None {
            return Ok(bytes);
        }
        let uncompressed_size = range.uncompressed_size;
        if uncompressed_size / MAX_EXPANSION > range.compressed_size {
            return Err(format!(
                "its {} bytes cannot expand to the {uncompressed_size} that it claims",
                range.compressed_size
            ));
        }
        let compressed = CompressedData { format: range.format, data: &bytes, uncompressed_size };
        let expanded = compressed.decompress().map_err(|error| error.to_string())?;
        Ok(expanded.into())
    }

    /// The symbols of the file, parsed by `read`.
    pub(super) fn with_parsed<T>(
        &self,
        read: impl for<'a> FnOnce(&object::File<'a, WithNames<'a>>) -> T,
    ) -> Option<T> {
        const NAMES: &str = ".strtab";
        let start = self.range(NAMES).map_or(0, |range| range.offset);
        let names = self.section(NAMES).unwrap_or_else(|_| Rc::new([]));
        let file = WithNames { file: &ReadCache::new(&self.file), start, names: &names };
        object::File::parse(file).ok().map(|file| read(&file))
    }

    /// What distributions leave of the symbols in a file that is stripped (MiniDebugInfo): an ELF file. Empty
    /// if there is none.
    ///
    /// # Errors
    /// One sentence, if it cannot be read.
    pub(super) fn mini_debug_info(&self) -> Result<Vec<u8>, String> {
        const NAME: &str = ".gnu_debugdata";
        let packed = self.section(NAME)?;
        if packed.is_empty() {
            return Ok(Vec::new());
        }
        let decoder =
            XzDecoder::in_heap_with_alloc_dict_size(DICT_SIZE_PROFILE_6, DICT_SIZE_PROFILE_9);
        let packed = Cursor::new(packed);
        let unpacked = XzReader::new_with_buffer_size_and_decoder(packed, BUFFER, decoder);
        let mut bytes = Vec::new();
        let read = unpacked.take(MAX_XZ as u64 + 1).read_to_end(&mut bytes);
        match read {
            Ok(size) if size <= MAX_XZ => Ok(bytes),
            Ok(_) => Err(format!("it expands to more than {} MiB", MAX_XZ >> 20)),
            Err(error) => Err(error.to_string()),
        }
        .map_err(|what| {
            format!("the section {NAME} of {} cannot be read: {what}", self.path.display())
        })
    }

    /// The CRC-32 of the whole file.
    pub(super) fn crc(&self) -> io::Result<u32> {
        let mut file = &self.file;
        file.seek(SeekFrom::Start(0))?;
        let (mut hasher, mut buffer) = (crc32fast::Hasher::new(), vec![0; 1 << 20]);
        loop {
            match file.read(&mut buffer)? {
                0 => return Ok(hasher.finalize()),
                count => hasher.update(&buffer[..count]),
            }
        }
    }
}

/// A file, and its symbols' names in memory.
///
/// PERF: the cache makes a system call for each name, which took a fifth of the time of a program with
/// 145,000 symbols.
#[derive(Clone, Copy)]
pub(super) struct WithNames<'a> {
    file: &'a ReadCache<&'a File>,
    /// Where the names begin in the file.
    start: u64,
    names: &'a [u8],
}

impl<'a> ReadRef<'a> for WithNames<'a> {
    fn len(self) -> Result<u64, ()> {
        self.file.len()
    }

    fn read_bytes_at(self, offset: u64, size: u64) -> Result<&'a [u8], ()> {
        self.file.read_bytes_at(offset, size)
    }

    fn read_bytes_at_until(self, range: Range<u64>, delimiter: u8) -> Result<&'a [u8], ()> {
        let (start, end) = (range.start.checked_sub(self.start), range.end.checked_sub(self.start));
        match (start, end) {
            (Some(start), Some(end)) if end <= self.names.len() as u64 => {
                self.names.read_bytes_at_until(start..end, delimiter)
            }
            _ => self.file.read_bytes_at_until(range, delimiter),
        }
    }
}

/// What [`ObjectFile`] keeps of the headers.
struct Headers {
    build_id: Vec<u8>,
    debug_link: Option<(PathBuf, u32)>,
    alt_link: Option<(PathBuf, Vec<u8>)>,
    pdb: Option<PathBuf>,
    endian: gimli::RunTimeEndian,
    linked_base: u64,
    sizes: [u64; 2],
    code: Vec<CodeRange>,
    sections: Vec<(String, CompressedFileRange)>,
}

impl Headers {
    fn read(file: &File) -> Result<(Kind, Self), String> {
        let cache = ReadCache::new(file);
        if pdb::is_pdb((&cache).read_bytes_at(0, pdb::MAGIC_BYTES).unwrap_or_default()) {
            return Ok((Kind::Pdb, Self::read_pdb(file)?));
        }
        let kind = FileKind::parse(&cache);
        let (kind, headers) = match kind {
            Ok(FileKind::Elf64) => {
                (Kind::Elf, Self::read_elf::<object::elf::FileHeader64<Endianness>>(&cache))
            }
            Ok(FileKind::Elf32) => {
                (Kind::Elf, Self::read_elf::<object::elf::FileHeader32<Endianness>>(&cache))
            }
            Ok(FileKind::Pe64) => (Kind::Pe, Self::read_pe(&cache)),
            Ok(FileKind::MachO64) => (Kind::MachO, Self::read_macho(&cache)),
            Ok(FileKind::MachOFat32 | FileKind::MachOFat64) => {
                return Err(
                    "it has programs for several processors (lipo -thin makes a file of one)"
                        .to_owned(),
                );
            }
            _ => {
                return Err(
                    "it is not an ELF file, nor a PE or Mach-O file of 64 bits, nor a PDB file"
                        .to_owned(),
                );
            }
        };
        Ok((kind, headers.map_err(|error| error.to_string())?))
    }

    /// Addresses are offsets from the begin of the program.
    fn read_pdb(file: &File) -> Result<Self, String> {
        let pdb::Headers { build_id, size, code } = pdb::Headers::read(file)?;
        Ok(Self {
            build_id,
            debug_link: None,
            alt_link: None,
            pdb: None,
            endian: gimli::RunTimeEndian::Little,
            linked_base: 0,
            sizes: [size; 2],
            code,
            sections: Vec::new(),
        })
    }

    fn read_elf<'data, Elf: FileHeader<Endian = Endianness>>(
        data: impl ReadRef<'data>,
    ) -> object::Result<Self> {
        let file = ElfFile::<Elf, _>::parse(data)?;
        let endian = file.endian();
        let (mut first, mut last, mut sum) = (u64::MAX, 0_u64, 0_u64);
        let mut code = Vec::new();
        for header in file.elf_program_headers() {
            let (start, size) = (header.p_vaddr(endian).into(), header.p_memsz(endian).into());
            if header.p_type(endian) == PT_LOAD {
                first = first.min(start);
                last = last.max(start.saturating_add(size));
                sum = sum.saturating_add(size);
                let is_in_file = header.p_filesz(endian).into() > 0;
                if header.p_flags(endian).contains(PF_X) && is_in_file {
                    let file_offset = header.p_offset(endian).into();
                    code.push(CodeRange { offset: start, size, file_offset });
                }
            }
        }
        if first == u64::MAX {
            first = 0;
        }
        for range in &mut code {
            range.offset = range.offset.saturating_sub(first & !(PAGE - 1));
        }
        let sections = file.sections().filter_map(|section| {
            let name = section.name().ok()?;
            // `section_by_name` finds `.zdebug_info` by the name `.debug_info`.
            let name = match name.strip_prefix(".zdebug_") {
                Some(rest) => format!(".debug_{rest}"),
                None => name.to_owned(),
            };
            Some((name, section.compressed_file_range().ok()?))
        });
        Ok(Self {
            code,
            sections: sections.collect(),
            build_id: file.build_id().ok().flatten().unwrap_or_default().to_vec(),
            debug_link: (file.gnu_debuglink().ok().flatten())
                .map(|(name, crc)| (path_of(name), crc)),
            alt_link: (file.gnu_debugaltlink().ok().flatten())
                .map(|(path, id)| (path_of(path), id.to_vec())),
            pdb: None,
            endian: match endian {
                Endianness::Little => gimli::RunTimeEndian::Little,
                Endianness::Big => gimli::RunTimeEndian::Big,
            },
            linked_base: first & !(PAGE - 1),
            sizes: [last.saturating_sub(first & !(PAGE - 1)), sum],
        })
    }

    /// Addresses are those that the linker gave.
    fn read_pe<'data>(data: impl ReadRef<'data>) -> object::Result<Self> {
        let file = PeFile64::parse(data)?;
        let headers = file.nt_headers();
        let size = headers.optional_header.size_of_image.get(LittleEndian);
        let code = file.section_table().iter().filter(|section| {
            section.characteristics.get(LittleEndian).contains(IMAGE_SCN_MEM_EXECUTE)
        });
        let code = code.map(|section| CodeRange {
            offset: section.virtual_address.get(LittleEndian).into(),
            size: section.virtual_size.get(LittleEndian).into(),
            file_offset: section.pointer_to_raw_data.get(LittleEndian).into(),
        });
        let sections = file.sections().filter_map(|section| {
            Some((section.name().ok()?.to_owned(), section.compressed_file_range().ok()?))
        });
        // As the program that has loaded it writes it: the id of its file with debug information, or else
        // what its headers say.
        let time = headers.file_header.time_date_stamp.get(LittleEndian);
        let checksum = headers.optional_header.check_sum.get(LittleEndian);
        let pdb = file.pdb_info()?;
        let build_id = match &pdb {
            Some(pdb) => [&pdb.guid()[..], &pdb.age().to_le_bytes()].concat(),
            None => [time, size, checksum].map(u32::to_le_bytes).concat(),
        };
        Ok(Self {
            code: code.collect(),
            sections: sections.collect(),
            build_id,
            debug_link: (file.gnu_debuglink().ok().flatten())
                .map(|(name, crc)| (path_of(name), crc)),
            alt_link: None,
            pdb: pdb.map(|pdb| windows_path(pdb.path())).filter(|path| path.file_name().is_some()),
            endian: gimli::RunTimeEndian::Little,
            linked_base: file.relative_address_base(),
            sizes: [size.into(); 2],
        })
    }

    /// A program of macOS, or the file in its `.dSYM`, which has the same segments without their bytes.
    fn read_macho<'data>(data: impl ReadRef<'data>) -> object::Result<Self> {
        let file = MachOFile64::<Endianness, _>::parse(data)?;
        let (mut base, mut end) = (0, 0);
        for segment in file.segments() {
            if segment.name() == Ok(Some("__TEXT")) {
                base = segment.address();
            }
            end = end.max(segment.address().saturating_add(segment.size()));
        }
        let code = file.sections().filter(|section| section.kind() == SectionKind::Text);
        let code = code.filter_map(|section| {
            let (file_offset, size) = section.file_range()?;
            Some(CodeRange { offset: section.address().checked_sub(base)?, size, file_offset })
        });
        let sections = file.sections().filter_map(|section| {
            let name = match section.name().ok()? {
                // A name has at most 16 bytes.
                "__debug_str_offs" => ".debug_str_offsets".to_owned(),
                name => name.replacen("__", ".", 1),
            };
            Some((name, section.compressed_file_range().ok()?))
        });
        Ok(Self {
            code: code.collect(),
            sections: sections.collect(),
            build_id: file.mach_uuid()?.map_or_else(Vec::new, |uuid| uuid.to_vec()),
            debug_link: None,
            alt_link: None,
            pdb: None,
            endian: gimli::RunTimeEndian::Little,
            linked_base: base,
            sizes: [end.saturating_sub(base); 2],
        })
    }
}

/// The path that these bytes of a file stand for.
pub(super) fn path_of(bytes: &[u8]) -> PathBuf {
    system_text(bytes.to_vec()).into()
}

/// The path of a module. One of Windows has its parts, but is not absolute, where the trace is read
/// elsewhere.
pub(super) fn path_of_module(module: &Module) -> PathBuf {
    let path: Vec<_> = bytes_of(&module.path).collect();
    if is_windows_path(&path) { windows_path(&path) } else { path_of(&path) }
}

/// A path that was written on Windows.
fn windows_path(path: &[u8]) -> PathBuf {
    let separator = |byte: &u8| if cfg!(not(windows)) && *byte == b'\\' { b'/' } else { *byte };
    path_of(&path.iter().map(separator).collect::<Vec<_>>())
}

pub(super) fn hex(build_id: &[u8]) -> String {
    build_id.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn named(build_id: &[u8]) -> String {
    if build_id.is_empty() { "none".to_owned() } else { hex(build_id) }
}
