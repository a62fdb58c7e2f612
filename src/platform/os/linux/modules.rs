//! The binary files that are loaded in this process, and bytes of its memory, read so that a file
//! that is unloaded at the same time is an error and no crash.
//!
//! NOTE: not by `dl_iterate_phdr`, whose lock a thread in `dlopen` can hold while it waits for the
//! tracker to make room in its buffers.
#![expect(unsafe_code, reason = "system calls")]

use super::KeepErrno;
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// A part of a loaded file, in bytes from the file's base.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) offset: u64,
    pub(crate) size: u64,
}

/// The identity of a file: device and inode.
pub(crate) type FileId = (String, u64);

/// A loaded ELF file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LoadedFile {
    /// Its path. Bytes that are not UTF-8 are replaced.
    pub(crate) path: String,
    /// The address of its first byte.
    pub(crate) base: u64,
    /// Up to the end of its last segment, in bytes.
    pub(crate) size: u64,
    /// The address in the file's own terms of its first byte: 0, unless it was linked for a fixed
    /// address.
    pub(crate) linked_base: u64,
    pub(crate) build_id: Vec<u8>,
    /// `.eh_frame_hdr`, the index of its unwind information.
    pub(crate) eh_frame_hdr: Option<Part>,
    /// The segments with bytes from the file.
    pub(crate) segments: Vec<Part>,
}

/// One line of `/proc/self/maps` about a file.
struct Mapping {
    start: u64,
    end: u64,
    is_executable: bool,
    offset: u64,
    file: FileId,
    path: String,
}

/// The memory of this process.
pub(crate) struct Memory(File);

impl Memory {
    pub(crate) fn open() -> io::Result<Self> {
        File::open("/proc/self/mem").map(Self)
    }

    /// A copy of `size` bytes; an error if one of them cannot be read.
    pub(crate) fn read(&self, address: u64, size: u64) -> io::Result<Vec<u8>> {
        const LARGEST: u64 = 1 << 30;
        if size > LARGEST {
            return Err(io::Error::other(format!("a part of {size} bytes is larger than 1 GiB")));
        }
        let mut bytes = vec![0; size as usize];
        self.0.read_exact_at(&mut bytes, address)?;
        Ok(bytes)
    }
}

/// The ELF files that are loaded, in the order of addresses. A file for which `is_known` is true of
/// its base, device and inode is not read, and not in the result; the bases of all files are.
pub(crate) fn loaded_files(
    memory: &Memory,
    mut is_known: impl FnMut(u64, &FileId) -> bool,
) -> io::Result<(Vec<LoadedFile>, HashMap<u64, FileId>)> {
    let text = std::fs::read("/proc/self/maps")?;
    let text = String::from_utf8_lossy(&text);
    let mappings = text.lines().filter_map(parse).collect::<Vec<_>>();
    let (mut new, mut all) = (Vec::new(), HashMap::new());
    for mapping in mappings.iter().filter(|mapping| mapping.offset == 0) {
        if is_known(mapping.start, &mapping.file) {
            all.insert(mapping.start, mapping.file.clone());
        } else if let Some(file) = read_headers(memory, mapping, &mappings) {
            all.insert(mapping.start, mapping.file.clone());
            new.push(file);
        }
    }
    Ok((new, all))
}

/// `55d0c0a00000-55d0c0a02000 r-xp 00000000 fe:00 1234    /usr/bin/cat`, of a file or the vDSO.
fn parse(line: &str) -> Option<Mapping> {
    let mut words = line.split_ascii_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let hex = |word: &str| u64::from_str_radix(word, 16).ok();
    let (start, end) = (hex(start)?, hex(end)?);
    let access = words.next()?;
    let offset = hex(words.next()?)?;
    let (device, inode) = (words.next()?, words.next()?.parse().ok()?);
    // A path can contain spaces: it is the rest of the line.
    let path = words.next()?;
    let path = line.get(path.as_ptr().addr() - line.as_ptr().addr()..)?;
    if !path.starts_with('/') && path != "[vdso]" {
        return None;
    }
    Some(Mapping {
        start,
        end,
        is_executable: access.as_bytes().get(2) == Some(&b'x'),
        offset,
        file: (device.to_owned(), inode),
        path: path.strip_suffix(" (deleted)").unwrap_or(path).to_owned(),
    })
}

const HEADER: u64 = size_of::<libc::Elf64_Ehdr>() as u64;
const SEGMENT: usize = size_of::<libc::Elf64_Phdr>();
const PT_GNU_EH_FRAME: u32 = 0x6474_e550;
const NOTE_BUILD_ID: u32 = 3;

/// What the ELF headers at the start of `first` say, if the file is loaded there as a program or a
/// library is: a file that is only mapped has no code.
fn read_headers(memory: &Memory, first: &Mapping, all: &[Mapping]) -> Option<LoadedFile> {
    let header = memory.read(first.start, HEADER).ok()?;
    let number = |bytes: &[u8], at: usize| {
        bytes.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map(u64::from_le_bytes)
    };
    // Magic number, 64 bits, little-endian.
    if header.get(..6)? != b"\x7fELF\x02\x01" {
        return None;
    }
    let table = number(&header, 32)?;
    let count = number(&header, 56)? & 0xffff;
    if header.get(54..56)? != (SEGMENT as u16).to_le_bytes() {
        return None;
    }
    let segments = memory.read(first.start.checked_add(table)?, count * SEGMENT as u64).ok()?;
    let segments = segments.chunks_exact(SEGMENT).map(|bytes| {
        let head = number(bytes, 0)?;
        Some(Segment {
            kind: head as u32,
            is_executable: head >> 32 & 1 != 0,
            address: number(bytes, 16)?,
            file_size: number(bytes, 32)?,
            memory_size: number(bytes, 40)?,
        })
    });
    let segments = segments.collect::<Option<Vec<_>>>()?;
    let loaded = || segments.iter().filter(|segment| segment.kind == libc::PT_LOAD);
    // The first segment begins at the start of the file, in its page.
    let linked_base = loaded().map(|segment| segment.address).min()? & !0xfff;
    let end = loaded().map(|segment| segment.address.saturating_add(segment.memory_size)).max()?;
    let code = loaded().find(|segment| segment.is_executable)?;
    let code = first.start.checked_add(code.address - linked_base)?;
    let is_loaded = all.iter().any(|mapping| {
        mapping.is_executable
            && mapping.file == first.file
            && (mapping.start..mapping.end).contains(&code)
    });
    if !is_loaded {
        return None;
    }
    let part = |segment: &Segment| Part {
        offset: segment.address.wrapping_sub(linked_base),
        size: segment.file_size,
    };
    let of_kind = |kind| segments.iter().filter(move |segment| segment.kind == kind).map(part);
    let build_id = of_kind(libc::PT_NOTE).find_map(|note| {
        build_id(&memory.read(first.start.checked_add(note.offset)?, note.size).ok()?)
    });
    Some(LoadedFile {
        path: first.path.clone(),
        base: first.start,
        size: end - linked_base,
        linked_base,
        build_id: build_id.unwrap_or_default(),
        eh_frame_hdr: of_kind(PT_GNU_EH_FRAME).next(),
        segments: of_kind(libc::PT_LOAD).collect(),
    })
}

struct Segment {
    kind: u32,
    is_executable: bool,
    address: u64,
    file_size: u64,
    memory_size: u64,
}

/// The build id in a segment of notes: each has the sizes of its name and of its content, a type,
/// and both, padded to 4 bytes.
fn build_id(mut notes: &[u8]) -> Option<Vec<u8>> {
    loop {
        let (head, rest) = notes.split_at_checked(12)?;
        let word = |at: usize| {
            head.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map(u32::from_le_bytes)
        };
        let (name_size, size, kind) = (word(0)? as usize, word(4)? as usize, word(8)?);
        let (name, rest) = rest.split_at_checked(name_size.checked_next_multiple_of(4)?)?;
        if name.starts_with(b"GNU\0") && kind == NOTE_BUILD_ID {
            return rest.get(..size).map(<[u8]>::to_vec);
        }
        notes = rest.get(size.checked_next_multiple_of(4)?..)?;
    }
}

/// *Hook.* Whether the word at `address`, a multiple of 8, can be read.
///
/// The kernel reads the word as a set of signals, and then refuses the operation, which does not
/// exist. (Abseil's `AddressIsReadable` has this idea.)
pub(crate) fn is_readable(address: usize) -> bool {
    const NO_OPERATION: libc::c_int = -1;
    const SET_BYTES: usize = 8;
    let _errno = KeepErrno::new();
    let set = std::ptr::without_provenance::<u8>(address);
    // SAFETY: the kernel checks the address, and stores nothing.
    unsafe {
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            NO_OPERATION,
            set,
            std::ptr::null_mut::<u8>(),
            SET_BYTES,
        );
        *libc::__errno_location() == libc::EINVAL
    }
}

/// The end of the main thread's stack, above everything that was ever called; 0 if unknown. The
/// path of the program, which the kernel puts there, is above all frames.
pub(crate) fn main_stack_end() -> usize {
    // SAFETY: reads a table that the kernel has given to the process.
    let path = unsafe { libc::getauxval(libc::AT_EXECFN) } as usize;
    path & !7
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_and_its_libraries_are_loaded_files() {
        let memory = Memory::open().unwrap();
        let (files, all) = loaded_files(&memory, |_, _| false).unwrap();
        assert_eq!(files.len(), all.len());
        let code = the_program_and_its_libraries_are_loaded_files as fn() as usize as u64;
        let own = files.iter().find(|f| (f.base..f.base + f.size).contains(&code)).unwrap();
        assert_eq!(own.path, std::env::current_exe().unwrap().to_string_lossy());
        assert!(own.eh_frame_hdr.is_some());
        let libc = files.iter().find(|f| f.path.contains("libc.so")).unwrap();
        assert_eq!(libc.build_id.len(), 20);
        assert!(files.iter().any(|f| f.path == "[vdso]"));
        let (again, _) = loaded_files(&memory, |base, _| all.contains_key(&base)).unwrap();
        assert_eq!(again, []);
    }

    #[test]
    fn only_mapped_memory_is_readable() {
        let word = 1_u64;
        assert!(is_readable((&raw const word).addr()));
        assert!(!is_readable(8));
        assert!(!is_readable(usize::MAX & !7));
    }

    #[test]
    fn a_path_may_have_spaces() {
        let line = "7f00-8000 r-xp 00001000 fe:00 77    /a b/c (deleted)";
        let mapping = parse(line).unwrap();
        assert_eq!((mapping.start, mapping.end, mapping.offset), (0x7f00, 0x8000, 0x1000));
        assert_eq!((mapping.path.as_str(), mapping.is_executable), ("/a b/c", true));
        assert!(parse("7f00-8000 rw-p 00000000 00:00 0    [stack]").is_none());
    }
}
