//! A file that may have debug information or symbols.

use super::file_path::path_of_module;
use super::headers::{Headers, Kind, PAGE};
use crate::{FileStamp, Module};
use object::{CompressedData, CompressedFileRange, CompressionFormat, ReadCache, ReadRef};
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

/// Deflate expands a byte to 1032 at most; a section that claims more is damaged.
const MAX_EXPANSION: u64 = 1032;

/// How much of it is read at once.
const BUFFER: NonZeroUsize = NonZeroUsize::new(8 << 10).unwrap();

/// The symbols of the largest programs have some 20 MiB; a section with more is damaged.
const MAX_XZ: usize = 256 << 20;

/// A file that is open, and what its headers say.
pub(super) struct ObjectFile {
    pub(super) path: PathBuf,
    pub(super) headers: Headers,
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
        let headers = Headers::read(&file).map_err(|what| failed(&what))?;
        Ok(Self { path: path.to_owned(), headers, file })
    }

    /// Whether it has debug information.
    pub(super) fn has_debug_info(&self) -> bool {
        self.headers.kind == Kind::Pdb || self.range(".debug_info").is_some()
    }

    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// The bytes of its sections, in memory.
    pub(super) fn bytes(&self) -> u64 {
        if self.headers.kind == Kind::Pdb {
            return self.file.metadata().map_or(0, |metadata| metadata.len());
        }
        self.headers.sections.iter().fold(0, |sum, (_, range)| {
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
        let Headers { kind, build_id, sizes, .. } = &self.headers;
        let path = self.path.display();
        if *build_id != module.build_id && *kind == Kind::Pdb {
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
            let mut stamp = FileStamp::default();
            (stamp.inode, stamp.changed_ns) = (file.ino(), changed_ns.cast_unsigned());
            Some(stamp)
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
        let span = self.headers.sizes[0].checked_next_multiple_of(PAGE)?;
        // NOTE: addr2line adds 1 to the address.
        self.headers.linked_base.checked_add(offset).filter(|at| offset < span && *at < u64::MAX)
    }

    fn range(&self, name: &str) -> Option<CompressedFileRange> {
        let found = self.headers.sections.iter().find(|(section, _)| section == name);
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

pub(super) fn hex(build_id: &[u8]) -> String {
    build_id.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn named(build_id: &[u8]) -> String {
    if build_id.is_empty() { "none".to_owned() } else { hex(build_id) }
}
