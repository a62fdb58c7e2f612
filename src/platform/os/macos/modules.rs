//! The binary files (images) that are loaded in this process, and bytes of its memory, read so that a file
//! that is unloaded at the same time is an error and no crash.
//!
//! NOTE: the list is what the loader keeps for debuggers (`struct dyld_all_image_infos` of
//! `mach-o/dyld_images.h`), and not by its functions, whose lock a thread in `dlopen` can hold while it waits
//! for the tracker to make room in its buffers. The list can be in the middle of a change, so its bytes are
//! read as those of a file.
//!
//! Source of the headers: `mach-o/loader.h`.

use super::super::counted_loads;
use super::resident::{KERN_SUCCESS, own_task};
use memledger_format::words::text_of;
use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

unsafe extern "C" {
    fn mach_vm_read_overwrite(
        task: libc::mach_port_t,
        address: u64,
        bytes: u64,
        to: u64,
        written: *mut u64,
    ) -> libc::kern_return_t;
    fn _dyld_register_func_for_add_image(called: extern "C" fn(*const u8, isize));
    fn _dyld_register_func_for_remove_image(called: extern "C" fn(*const u8, isize));
}

/// How a sentence names what the list of modules is read from.
pub(crate) const LIST_OF_MODULES: &str = "the loader's list of images";

/// The identity of a file: its path, and the time of its last change, in seconds. The time is 0 for a library
/// of the system.
pub(crate) type FileId = (String, u64);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LoadedFile {
    /// Its path, as `text_of` writes it.
    pub(crate) path: String,
    /// The address of its header, at the begin of the segment `__TEXT`.
    pub(crate) base: u64,
    /// That of the segment `__TEXT`, in bytes. The others of a library of the system are elsewhere.
    pub(crate) size: u64,
    /// Always 0: addresses in the file's own terms are offsets from its base.
    pub(crate) linked_base: u64,
    /// The UUID that the linker has given it.
    pub(crate) build_id: Vec<u8>,
    /// Always 0: linkers give each file a UUID.
    pub(crate) stamp: [u64; 2],
    /// The sections with code, in bytes from the base.
    pub(crate) code: Vec<Range<u64>>,
    /// Where `__unwind_info` and `__eh_frame` are, in bytes from the base.
    pub(crate) unwind_info: Range<u64>,
    pub(crate) eh_frame: Range<u64>,
}

/// The memory of this process.
pub(crate) struct Memory(());

impl Memory {
    pub(crate) fn open() -> io::Result<Self> {
        Ok(Self(()))
    }

    /// A copy of `size` bytes; an error if one of them cannot be read.
    pub(crate) fn read(&self, address: u64, size: u64) -> io::Result<Vec<u8>> {
        const LARGEST: u64 = 1 << 30;
        if size > LARGEST {
            return Err(io::Error::other(format!("a part of {size} bytes is larger than 1 GiB")));
        }
        let mut bytes = vec![0; size as usize];
        let is_read = copy(&mut bytes, address);
        is_read.then_some(bytes).ok_or_else(|| io::Error::other("its memory cannot be read"))
    }

    fn word(&self, address: u64) -> Option<u64> {
        let mut word = [0; 8];
        copy(&mut word, address).then(|| u64::from_le_bytes(word))
    }

    /// Up to the NUL that ends it.
    fn text(&self, address: u64) -> Option<String> {
        const LONGEST: usize = 1024;
        // One that ends a mapping cannot be read beyond.
        const AT_A_TIME: usize = 64;
        let mut text = Vec::new();
        while text.len() < LONGEST {
            let at = address.checked_add(text.len() as u64)?;
            let mut bytes = [0; AT_A_TIME];
            let part = bytes.get_mut(..AT_A_TIME - at as usize % AT_A_TIME)?;
            if !copy(part, at) {
                return None;
            }
            match part.iter().position(|byte| *byte == 0) {
                Some(end) => {
                    text.extend_from_slice(part.get(..end)?);
                    return Some(text_of(&text).into_owned());
                }
                None => text.extend_from_slice(part),
            }
        }
        None
    }
}

/// *Hook.* Copies bytes of this process; whether all of them can be read.
fn copy(to: &mut [u8], address: u64) -> bool {
    let (mut written, bytes) = (0, to.len() as u64);
    // SAFETY: what is written fits; an address that cannot be read is an error.
    let error = unsafe {
        let to = to.as_mut_ptr().expose_provenance() as u64;
        mach_vm_read_overwrite(own_task(), address, bytes, to, &raw mut written)
    };
    error == KERN_SUCCESS && written == bytes
}

/// *Hook.* Copies bytes of this process; whether all of them can be read. They may vanish at any time, as the
/// code of a JIT compiler does.
pub(crate) fn copy_bytes(to: &mut [u8], address: usize) -> bool {
    copy(to, address as u64)
}

/// *Hook.* Whether the page of this address can be read.
pub(crate) fn is_readable(address: usize) -> bool {
    copy(&mut [0], address as u64)
}

/// The end of the main thread's stack is that which each thread knows of itself.
pub(crate) fn main_stack_end() -> usize {
    0
}

/// *Hook.* The end of the running thread's own stack.
pub(crate) fn own_stack_end() -> usize {
    // SAFETY: of the calling thread, the call takes no lock (`pthread_get_stackaddr_np` of libpthread).
    unsafe { libc::pthread_get_stackaddr_np(libc::pthread_self()) }.expose_provenance()
}

/// The images that are loaded and not known yet, and the identity of all by their bases. `is_known` says
/// whether the image with this identity is known at a base.
///
/// # Errors
/// The system does not say, or the loader is changing its list.
pub(crate) fn loaded_files(
    memory: &Memory,
    is_known: impl Fn(u64, &FileId) -> bool,
) -> io::Result<(Vec<LoadedFile>, HashMap<u64, FileId>)> {
    let images = images(memory).ok_or_else(|| io::Error::other("it is being changed"))?;
    let (mut new, mut all) = (Vec::new(), HashMap::new());
    for (base, path, time) in images {
        let Some(path) = memory.text(path) else { continue };
        let id = (path, time);
        if !is_known(base, &id) {
            let Some(file) = read_headers(memory, base, &id.0) else { continue };
            new.push(file);
        }
        all.insert(base, id);
    }
    Ok((new, all))
}

/// The base of each image, where its path is, and when its file was changed. `None` if the list changes.
fn images(memory: &Memory) -> Option<Vec<(u64, u64, u64)>> {
    const MOST: u64 = 1 << 16;
    /// Distances in `struct dyld_all_image_infos`, which begins with two numbers of 4 bytes.
    const IMAGES: u64 = 8;
    const LOADER: u64 = 32;
    const LOADER_PATH: u64 = 192;
    const IMAGE: usize = 24;
    let infos = all_image_infos()?;
    let head = || Some((memory.word(infos)?, memory.word(infos + IMAGES)?));
    let (version_and_count, list) = head()?;
    let (version, count) = (version_and_count as u32, version_and_count >> 32);
    // The list has no address while the loader changes it.
    if list == 0 || count > MOST {
        return None;
    }
    let bytes = memory.read(list, count * IMAGE as u64).ok()?;
    let image = |image| Some((address(image, 0)?, address(image, 8)?, address(image, 16)?));
    let mut images = bytes.chunks_exact(IMAGE).map(image).collect::<Option<Vec<_>>>()?;
    // The loader itself is not in the list.
    if version >= 15 {
        images.push((memory.word(infos + LOADER)?, memory.word(infos + LOADER_PATH)?, 0));
    }
    (head()? == (version_and_count, list)).then_some(images)
}

/// The address of the loader's `struct dyld_all_image_infos`.
fn all_image_infos() -> Option<u64> {
    /// `struct task_dyld_info` of `mach/task_info.h`: two words, and a number of 4 bytes.
    const TASK_DYLD_INFO: u32 = 17;
    const COUNT: usize = 5;
    let mut found = [0_u32; COUNT];
    let mut count = COUNT as libc::mach_msg_type_number_t;
    // SAFETY: the call writes at most the given number of words of 4 bytes.
    let error = unsafe {
        let to = found.as_mut_ptr().cast();
        libc::task_info(own_task(), TASK_DYLD_INFO, to, &raw mut count)
    };
    let [low, high, ..] = found;
    let address = u64::from(high) << 32 | u64::from(low);
    (error == KERN_SUCCESS && address != 0).then_some(address)
}

/// What the headers of an image say.
fn read_headers(memory: &Memory, base: u64, path: &str) -> Option<LoadedFile> {
    const HEADER: u64 = 32;
    const MAGIC: &[u8] = &0xfeed_facf_u32.to_le_bytes();
    const MOST: u32 = 1 << 20;
    const SEGMENT: u32 = 0x19;
    const UUID: u32 = 0x1b;
    let header = memory.read(base, HEADER).ok()?;
    let bytes = number(&header, 20)?;
    if !header.starts_with(MAGIC) || bytes > MOST {
        return None;
    }
    let commands = memory.read(base + HEADER, bytes.into()).ok()?;
    let mut file = LoadedFile {
        path: path.to_owned(),
        base,
        size: 0,
        linked_base: 0,
        build_id: Vec::new(),
        stamp: [0; 2],
        code: Vec::new(),
        unwind_info: 0..0,
        eh_frame: 0..0,
    };
    let mut rest = commands.as_slice();
    while let (Some(kind), Some(size)) = (number(rest, 0), number(rest, 4)) {
        let Some((command, after)) = rest.split_at_checked(size as usize) else { break };
        match kind {
            SEGMENT if name(command, 8) == Some(b"__TEXT") => file.read_text(command)?,
            UUID => file.build_id = command.get(8..24)?.to_vec(),
            _ => {}
        }
        if size == 0 {
            break;
        }
        rest = after;
    }
    (file.size > 0).then_some(file)
}

impl LoadedFile {
    /// The sections of the segment `__TEXT`, from its command.
    fn read_text(&mut self, command: &[u8]) -> Option<()> {
        const FIRST_SECTION: usize = 72;
        const SECTION: usize = 80;
        const IS_CODE: u32 = 0x8000_0400;
        let (linked, size) = (address(command, 24)?, address(command, 32)?);
        self.size = size;
        let sections = command.get(FIRST_SECTION..)?.chunks_exact(SECTION);
        for section in sections.take(number(command, 64)? as usize) {
            let start = address(section, 32)?.checked_sub(linked)?;
            let part = start..start.checked_add(address(section, 40)?)?.min(size).max(start);
            match name(section, 0)? {
                b"__unwind_info" => self.unwind_info = part,
                b"__eh_frame" => self.eh_frame = part,
                _ if number(section, 64)? & IS_CODE != 0 => self.code.push(part),
                _ => {}
            }
        }
        Some(())
    }
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..at + 4)?.as_array()?))
}

fn address(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..at + 8)?.as_array()?))
}

/// A name of at most 16 bytes, without the NULs behind it.
fn name(bytes: &[u8], at: usize) -> Option<&[u8]> {
    bytes.get(at..at + 16)?.split(|byte| *byte == 0).next()
}

static IS_START: AtomicBool = AtomicBool::new(false);

/// Counts loads and unloads from now on, and notes what was loaded with the program. Called before `main`:
/// the loader's functions for this take its lock. In a library, what is loaded already may be unloaded.
pub(super) fn watch(is_program: bool) {
    IS_START.store(is_program, Ordering::Relaxed);
    // SAFETY: both functions have the required form, and live as long as the program. The first is called at
    // once for each image that is loaded already.
    unsafe {
        _dyld_register_func_for_add_image(added);
        _dyld_register_func_for_remove_image(removed);
    }
    IS_START.store(false, Ordering::Relaxed);
    counted_loads::set_watched();
}

extern "C" fn added(header: *const u8, _: isize) {
    if IS_START.load(Ordering::Relaxed) {
        counted_loads::add_lasting(header.addr());
    }
    counted_loads::count_load();
}

extern "C" fn removed(_: *const u8, _: isize) {
    counted_loads::count_unload();
}

#[cfg(test)]
mod tests {
    use super::super::super::is_lasting;
    use super::*;

    #[test]
    fn the_program_and_its_libraries_are_loaded_files() {
        let memory = Memory::open().unwrap();
        let (files, all) = loaded_files(&memory, |_, _| false).unwrap();
        assert_eq!(files.len(), all.len());
        let code = the_program_and_its_libraries_are_loaded_files as fn() as usize as u64;
        let own = files.iter().find(|f| (f.base..f.base + f.size).contains(&code)).unwrap();
        assert_eq!(own.path, std::env::current_exe().unwrap().to_string_lossy());
        assert!(own.code.iter().any(|part| part.contains(&(code - own.base))));
        assert!(!own.unwind_info.is_empty() && own.build_id.len() == 16 && is_lasting(own.base));
        let (again, _) = loaded_files(&memory, |base, _| all.contains_key(&base)).unwrap();
        assert_eq!(again, []);
    }

    #[test]
    fn only_mapped_memory_is_readable() {
        let word = 1_u64;
        assert!(is_readable((&raw const word).addr()));
        assert!(!is_readable(8));
        let mut bytes = [0; 8];
        assert!(copy_bytes(&mut bytes, (&raw const word).addr()) && bytes == word.to_ne_bytes());
        assert!(!copy_bytes(&mut bytes, 8));
    }
}
