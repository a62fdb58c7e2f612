//! The binary files that are loaded in this process, and bytes of its memory, read so that a file
//! that is unloaded at the same time is an error and no crash.
//!
//! NOTE: not by `dl_iterate_phdr`, whose lock a thread in `dlopen` can hold while it waits for the
//! tracker to make room in its buffers.
#![cfg_attr(not(takes_stacks), allow(dead_code, reason = "call stacks use the rest"))]
#![expect(unsafe_code, reason = "system calls")]

use super::{KeepErrno, process_id};
use memledger_format::words::{bytes_of, text_of};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::ptr;
use std::sync::OnceLock;

/// A part of a loaded file, in bytes from the file's base.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) offset: u64,
    pub(crate) size: u64,
}

/// The identity of a file: device and inode.
pub(crate) type FileId = (String, u64);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LoadedFile {
    /// Its path, as `text_of` writes it.
    pub(crate) path: String,
    /// The address of its first byte.
    pub(crate) base: u64,
    /// Up to the end of its last segment, in bytes.
    pub(crate) size: u64,
    /// The address in the file's own terms of its first byte: 0, unless it was linked for a fixed
    /// address.
    pub(crate) linked_base: u64,
    pub(crate) build_id: Vec<u8>,
    /// Of a file without a build id: its inode, and when that was changed, in nanoseconds; 0 if its path is
    /// no longer that of the file.
    pub(crate) stamp: [u64; 2],
    /// `.eh_frame_hdr`, the index of its unwind information.
    pub(crate) eh_frame_hdr: Option<Part>,
    /// The segments with bytes from the file.
    pub(crate) segments: Vec<Part>,
    /// Those that are executable.
    pub(crate) code: Vec<Part>,
}

/// One line of `/proc/self/maps` about a file.
struct Mapping {
    start: u64,
    end: u64,
    is_executable: bool,
    offset: u64,
    file: FileId,
    path: String,
    is_deleted: bool,
}

/// The memory of this process: as a file, or without one where the system refuses that, as to a program that
/// has given up its rights.
pub(crate) struct Memory(Option<File>);

impl Memory {
    pub(crate) fn open() -> io::Result<Self> {
        match File::open("/proc/thread-self/mem") {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Self::without_file(),
            file => file.map(|file| Self(Some(file))),
        }
    }

    fn without_file() -> io::Result<Self> {
        let byte = 0_u8;
        // Whether the system allows this.
        copy(&mut [0], (&raw const byte).addr() as u64)?;
        Ok(Self(None))
    }

    /// A copy of `size` bytes; an error if one of them cannot be read.
    pub(crate) fn read(&self, address: u64, size: u64) -> io::Result<Vec<u8>> {
        const LARGEST: u64 = 1 << 30;
        if size > LARGEST {
            return Err(io::Error::other(format!("a part of {size} bytes is larger than 1 GiB")));
        }
        let mut bytes = vec![0; size as usize];
        self.read_exact(&mut bytes, address)?;
        Ok(bytes)
    }

    fn read_some(&self, bytes: &mut [u8], address: u64) -> io::Result<usize> {
        match &self.0 {
            Some(file) => file.read_at(bytes, address),
            None => copy(bytes, address),
        }
    }

    fn read_exact(&self, bytes: &mut [u8], address: u64) -> io::Result<()> {
        let mut done = 0;
        while done < bytes.len() {
            let rest = bytes.get_mut(done..).unwrap_or_default();
            match self.read_some(rest, address.wrapping_add(done as u64)) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => done += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn word(&self, address: u64) -> Option<u64> {
        let mut word = [0; 8];
        self.read_exact(&mut word, address).ok()?;
        Some(u64::from_le_bytes(word))
    }
}

/// Copies bytes of this process from an address on, up to one that cannot be read.
fn copy(bytes: &mut [u8], address: u64) -> io::Result<usize> {
    if super::is_kernel_closed() {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    let part = |start, length| libc::iovec { iov_base: start, iov_len: length };
    let to = part(bytes.as_mut_ptr().cast(), bytes.len());
    let from = part(ptr::without_provenance_mut(address as usize), bytes.len());
    // SAFETY: what is written fits; an address that cannot be read is an error.
    let count = unsafe { libc::process_vm_readv(process_id() as libc::pid_t, &to, 1, &from, 1, 0) };
    if count < 0 { Err(io::Error::last_os_error()) } else { Ok(count as usize) }
}

/// A number that is another one after the loader has loaded or unloaded a file; `None` while it does so, or
/// if the program has no loader. Where the loader's counts are not known, costs two reads for each file.
///
/// NOTE: these read what the loader keeps for debuggers (`struct r_debug` of `link.h`) without its lock. So
/// the list can be in the middle of a change, and its bytes are read as those of a file.
pub(crate) fn loader_state(memory: &Memory) -> Option<u64> {
    const MAX_FILES: usize = 1 << 16;
    if let Some((loads, unloads)) = super::loads::loads_and_unloads() {
        return Some(loads << 32 | u64::from(unloads));
    }
    let word = |address: u64, at: u64| memory.word(address.checked_add(at)?);
    static R_DEBUG: OnceLock<Option<u64>> = OnceLock::new();
    let r_debug = R_DEBUG.get_or_init(|| find_r_debug(memory)).filter(|address| *address != 0)?;
    // `r_state` is 0 unless the list is being changed.
    let is_consistent = || word(r_debug, 24).is_some_and(|state| state as u32 == 0);
    if !is_consistent() {
        return None;
    }
    let mut state = 0_u64;
    let mut add = |word: u64| {
        state = (state.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95);
    };
    let mut file = word(r_debug, 8)?;
    for _ in 0..MAX_FILES {
        if file == 0 {
            return is_consistent().then_some(state);
        }
        // The begin of a `struct link_map`: `l_addr`, `l_name`, `l_ld` and `l_next`.
        let bytes = memory.read(file, 32).ok()?;
        let [_, name_at, _, next] = *bytes.as_chunks::<8>().0 else { return None };
        bytes.as_chunks().0.iter().for_each(|word| add(u64::from_le_bytes(*word)));
        // NOTE: all these words can be those of another file that was loaded here before.
        let mut name = [0; 256];
        let size = memory.read_some(&mut name, u64::from_le_bytes(name_at)).unwrap_or(0);
        let name = name.get(..size).and_then(|name| name.split(|byte| *byte == 0).next());
        name.unwrap_or_default().iter().for_each(|byte| add((*byte).into()));
        file = u64::from_le_bytes(next);
    }
    None
}

/// The address of the loader's `struct r_debug`, from the program's dynamic section.
fn find_r_debug(memory: &Memory) -> Option<u64> {
    const DT_DEBUG: u64 = 21;
    // SAFETY: reads a table that the kernel has given to the process.
    let (table, count) =
        unsafe { (libc::getauxval(libc::AT_PHDR), libc::getauxval(libc::AT_PHNUM)) };
    let segments = memory.read(table, count.checked_mul(SEGMENT as u64)?).ok()?;
    let find = |kind: u32| {
        let segment =
            segments.chunks_exact(SEGMENT).find(|s| s.starts_with(&kind.to_le_bytes()))?;
        Some(u64::from_le_bytes(*segment.get(16..)?.first_chunk()?))
    };
    // The segment of the table itself says how far the program is from where it was linked.
    let moved = table.wrapping_sub(find(libc::PT_PHDR)?);
    let dynamic = find(libc::PT_DYNAMIC)?.wrapping_add(moved);
    let entries = (0..1 << 10).map(|entry| dynamic + 16 * entry);
    let tags =
        entries.map_while(|entry| Some((memory.word(entry).filter(|tag| *tag != 0)?, entry)));
    let debug = tags.filter(|(tag, _)| *tag == DT_DEBUG).last();
    debug.and_then(|(_, entry)| memory.word(entry + 8))
}

/// The ELF files that are loaded, in the order of addresses. A file for which `is_known` is true of
/// its base, device and inode is not read, and not in the result; the bases of all files are.
pub(crate) fn loaded_files(
    memory: &Memory,
    mut is_known: impl FnMut(u64, &FileId) -> bool,
) -> io::Result<(Vec<LoadedFile>, HashMap<u64, FileId>)> {
    let text = std::fs::read(LIST_OF_MODULES)?;
    let text = text_of(&text);
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
        path: path.strip_suffix(DELETED).unwrap_or(path).to_owned(),
        is_deleted: path.ends_with(DELETED),
    })
}

/// What the kernel appends to the path of a file that is no longer there.
/// Where the kernel lists what a process has loaded.
pub(crate) const LIST_OF_MODULES: &str = "/proc/thread-self/maps";

const DELETED: &str = " (deleted)";

const HEADER: u64 = size_of::<libc::Elf64_Ehdr>() as u64;
const SEGMENT: usize = size_of::<libc::Elf64_Phdr>();
const PT_GNU_EH_FRAME: u32 = 0x6474_e550;
const NOTE_BUILD_ID: u32 = 3;

/// What the ELF headers at the start of `first` say, if the file is loaded there as a program or a
/// library is: a file that is only mapped has no code.
fn read_headers(memory: &Memory, first: &Mapping, all: &[Mapping]) -> Option<LoadedFile> {
    let header = memory.read(first.start, HEADER).ok()?;
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
    let segments = segments.chunks_exact(SEGMENT).map(Segment::read).collect::<Option<Vec<_>>>()?;
    let loaded = || segments.iter().filter(|segment| segment.kind == libc::PT_LOAD);
    // The first segment begins at the start of the file, in its page.
    let linked_base = loaded().map(|segment| segment.address).min()?;
    let linked_base = linked_base & !(super::page_bytes() as u64 - 1);
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
    let build_id = build_id.unwrap_or_default();
    Some(LoadedFile {
        stamp: if build_id.is_empty() { stamp(first) } else { [0; 2] },
        path: first.path.clone(),
        base: first.start,
        size: end - linked_base,
        linked_base,
        build_id,
        eh_frame_hdr: of_kind(PT_GNU_EH_FRAME).next(),
        segments: of_kind(libc::PT_LOAD).collect(),
        code: loaded().filter(|segment| segment.is_executable).map(part).collect(),
    })
}

/// See [`LoadedFile::stamp`].
fn stamp(mapping: &Mapping) -> [u64; 2] {
    let path = bytes_of(&mapping.path).collect::<Vec<_>>();
    let path = Path::new(OsStr::from_bytes(&path)).metadata().ok();
    // NOTE: the inode that `maps` has is not that of `stat` on all file systems.
    match path.filter(|_| !mapping.is_deleted) {
        Some(file) => {
            [file.ino(), (file.ctime() * 1_000_000_000 + file.ctime_nsec()).cast_unsigned()]
        }
        None => [mapping.file.1, 0],
    }
}

struct Segment {
    kind: u32,
    is_executable: bool,
    address: u64,
    file_size: u64,
    memory_size: u64,
}

impl Segment {
    /// An entry of the table of segments.
    fn read(bytes: &[u8]) -> Option<Self> {
        let head = number(bytes, 0)?;
        Some(Self {
            kind: head as u32,
            is_executable: head >> 32 & 1 != 0,
            address: number(bytes, 16)?,
            file_size: number(bytes, 32)?,
            memory_size: number(bytes, 40)?,
        })
    }
}

fn number(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map(u64::from_le_bytes)
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

/// *Hook.* Copies bytes of this process; whether all of them can be read. They may vanish at any time, as the
/// code of a JIT compiler does.
pub(crate) fn copy_bytes(to: &mut [u8], address: usize) -> bool {
    let _errno = KeepErrno::new();
    copy(to, address as u64).is_ok_and(|count| count == to.len())
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
        if cfg!(not(target_feature = "crt-static")) {
            let libc = files.iter().find(|f| f.path.contains("libc.so")).unwrap();
            assert_eq!(libc.build_id.len(), 20);
        }
        // SAFETY: reads a table that the kernel has given to the process. Emulators have no vDSO.
        let has_vdso = unsafe { libc::getauxval(libc::AT_SYSINFO_EHDR) } != 0;
        assert_eq!(files.iter().any(|f| f.path == "[vdso]"), has_vdso);
        let (again, _) = loaded_files(&memory, |base, _| all.contains_key(&base)).unwrap();
        assert_eq!(again, []);
    }

    #[test]
    fn a_process_that_may_not_open_its_memory_reads_the_same() {
        let (usual, without) = (Memory::open().unwrap(), Memory::without_file().unwrap());
        let files = |memory: &Memory| loaded_files(memory, |_, _| false).unwrap().0;
        assert_eq!(files(&usual), files(&without));
        assert_eq!(loader_state(&usual), loader_state(&without));
        assert!(without.read(8, 8).is_err() && without.word(0).is_none());
    }

    #[cfg(target_env = "gnu")]
    #[test]
    fn the_state_of_the_loader_changes_with_its_list() {
        let memory = Memory::open().unwrap();
        let before = loader_state(&memory).unwrap();
        assert_eq!(loader_state(&memory), Some(before));
        // A library that no test uses.
        // SAFETY: it is a part of glibc.
        let library = unsafe { libc::dlopen(c"libBrokenLocale.so.1".as_ptr(), libc::RTLD_NOW) };
        assert!(!library.is_null());
        assert_ne!(loader_state(&memory), Some(before));
        // SAFETY: nothing uses the library.
        unsafe { libc::dlclose(library) };
    }

    #[test]
    fn only_mapped_memory_is_readable() {
        let word = 1_u64;
        assert!(is_readable((&raw const word).addr()));
        assert!(!is_readable(8));
        assert!(!is_readable(usize::MAX & !7));
        let mut bytes = [0; 8];
        assert!(copy_bytes(&mut bytes, (&raw const word).addr()) && bytes == word.to_ne_bytes());
        assert!(!copy_bytes(&mut bytes, 8) && !copy_bytes(&mut bytes, usize::MAX - 7));
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
