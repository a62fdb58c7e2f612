//! What the headers of a file say: an ELF file, one of Windows (`pe.rs`), or one of macOS (`macho.rs`).
//!
//! NOTE: without the feature `read`, only ELF and the system's own files are read: a program that reports on
//! itself has no others, and the crate `object` takes three times as long to build with all.

use super::file_path::path_of;
use crate::CodeRange;
use object::elf::{FileHeader32, FileHeader64, PF_X, PT_LOAD};
use object::read::elf::{ElfFile, FileHeader, ProgramHeader};
use object::{
    CompressedFileRange, Endianness, FileKind, Object, ObjectSection, ReadCache, ReadRef,
};
use std::fs::File;
use std::path::PathBuf;

/// A module starts and ends at a multiple of this.
pub(super) const PAGE: u64 = 4096;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Kind {
    #[default]
    Elf,
    Pe,
    Pdb,
    MachO,
}

#[derive(Default)]
pub(super) struct Headers {
    pub(super) kind: Kind,
    pub(super) build_id: Vec<u8>,
    /// The name of the file with its debug information, and the CRC of that file.
    pub(super) debug_link: Option<(PathBuf, u32)>,
    /// The path of the file with what its debug information shares with others, and the build id.
    pub(super) alt_link: Option<(PathBuf, Vec<u8>)>,
    /// The path of its PDB file, as the linker wrote it.
    pub(super) pdb: Option<PathBuf>,
    pub(super) endian: gimli::RunTimeEndian,
    /// The address that the linker gave to its first byte.
    pub(super) linked_base: u64,
    /// Its size in memory: from the first to the last byte, and without gaps.
    pub(super) sizes: [u64; 2],
    /// Empty in a file that has debug information only.
    pub(super) code: Vec<CodeRange>,
    pub(super) sections: Vec<(String, CompressedFileRange)>,
}

impl Headers {
    /// # Errors
    /// What is wrong.
    pub(super) fn read(file: &File) -> Result<Self, String> {
        const OTHER: &str = if cfg!(feature = "read") {
            "it is not an ELF file, nor a PE or Mach-O file of 64 bits, nor a PDB file"
        } else {
            "it is neither an ELF file nor one of this system's programs"
        };
        let cache = ReadCache::new(file);
        #[cfg(any(windows, feature = "read"))]
        if let Some(headers) = super::pe::headers(file, &cache) {
            return headers;
        }
        #[cfg(any(target_os = "macos", feature = "read"))]
        if let Some(headers) = super::macho::headers(&cache) {
            return headers;
        }
        let headers = match FileKind::parse(&cache) {
            Ok(FileKind::Elf64) => elf::<FileHeader64<Endianness>>(&cache),
            Ok(FileKind::Elf32) => elf::<FileHeader32<Endianness>>(&cache),
            _ => return Err(OTHER.to_owned()),
        };
        headers.map_err(|error| error.to_string())
    }
}

fn elf<'data, Elf: FileHeader<Endian = Endianness>>(
    data: impl ReadRef<'data>,
) -> object::Result<Headers> {
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
                code.push(CodeRange::new(start, size, file_offset));
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
    Ok(Headers {
        code,
        sections: sections.collect(),
        build_id: file.build_id().ok().flatten().unwrap_or_default().to_vec(),
        debug_link: (file.gnu_debuglink().ok().flatten()).map(|(name, crc)| (path_of(name), crc)),
        alt_link: (file.gnu_debugaltlink().ok().flatten())
            .map(|(path, id)| (path_of(path), id.to_vec())),
        endian: match endian {
            Endianness::Little => gimli::RunTimeEndian::Little,
            Endianness::Big => gimli::RunTimeEndian::Big,
        },
        linked_base: first & !(PAGE - 1),
        sizes: [last.saturating_sub(first & !(PAGE - 1)), sum],
        ..Headers::default()
    })
}
