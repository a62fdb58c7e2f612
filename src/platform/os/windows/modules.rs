//! The binary files that are loaded in this process, and bytes of its memory, read so that a file that is
//! unloaded at the same time is an error and no crash.

use super::KeepErrno;
use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::ptr;
use windows_sys::Win32::Foundation::HMODULE;
use windows_sys::Win32::System::Diagnostics::Debug::ReadProcessMemory;
use windows_sys::Win32::System::Memory::{
    MEM_COMMIT, MEMORY_BASIC_INFORMATION, PAGE_GUARD, PAGE_NOACCESS, VirtualQuery,
};
use windows_sys::Win32::System::ProcessStatus::{
    EnumProcessModules, GetModuleFileNameExW, GetModuleInformation, MODULEINFO,
};
use windows_sys::Win32::System::Threading::GetCurrentProcess;

/// How a sentence names what the list of modules is read from.
pub(crate) const LIST_OF_MODULES: &str = "the list of modules";

/// What tells a file from another one: its path, and the time and the size in its header.
pub(crate) type FileId = (String, u64);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LoadedFile {
    /// Its path, as `text_of` writes it.
    pub(crate) path: String,
    /// The address of its first byte.
    pub(crate) base: u64,
    /// Up to the end of its last section, in bytes.
    pub(crate) size: u64,
    /// Always 0: addresses in the file's own terms are offsets from its base.
    pub(crate) linked_base: u64,
    /// The GUID and the age of the file with its debug information, or else the time, the size and the
    /// checksum of its header: 20 or 12 bytes.
    pub(crate) build_id: Vec<u8>,
    /// Always 0: every file has an id.
    pub(crate) stamp: [u64; 2],
    /// The sections with code, in bytes from the base.
    pub(crate) code: Vec<Range<usize>>,
    /// Where the entries of its functions are in the image.
    pub(crate) functions: Range<usize>,
    /// An address in the function that has no caller, if it is in this file.
    pub(crate) outermost: Option<u32>,
}

/// The memory of this process.
pub(crate) struct Memory(());

impl Memory {
    pub(crate) fn open() -> io::Result<Self> {
        Ok(Self(()))
    }

    /// The file's bytes in memory up to the last of its [constant parts](Headers::constant_parts), with zeros
    /// in place of all else.
    ///
    /// # Errors
    /// It has no headers that can be read.
    pub(crate) fn read_image(&self, file: &LoadedFile) -> io::Result<Vec<u8>> {
        let headers = Headers::read(file.base)?;
        let most = file.size as usize;
        let ends = headers.constant_parts().map(|part| part.end.min(most));
        let mut image = vec![0; ends.max().unwrap_or(0)];
        for part in headers.constant_parts() {
            if let Some(bytes) = image.get_mut(part.clone()) {
                // What cannot be read stays zero.
                read_all(bytes, file.base + part.start as u64);
            }
        }
        Ok(image)
    }
}

/// Reads bytes of this process; `false` if not all of them can be read.
fn read_all(bytes: &mut [u8], address: u64) -> bool {
    let at = ptr::without_provenance(address as usize);
    // SAFETY: what is read fits; an address that cannot be read is an error.
    unsafe {
        let to = bytes.as_mut_ptr().cast();
        ReadProcessMemory(GetCurrentProcess(), at, to, bytes.len(), ptr::null_mut()) != 0
    }
}

/// *Hook.* Whether the page of this address can be read.
pub(crate) fn is_readable(address: usize) -> bool {
    let _errno = KeepErrno::new();
    // SAFETY: all zeros are a valid value, and the call writes at most its size.
    unsafe {
        let mut region = std::mem::zeroed::<MEMORY_BASIC_INFORMATION>();
        let size = size_of_val(&region);
        VirtualQuery(ptr::without_provenance(address), &raw mut region, size) != 0
            && region.State == MEM_COMMIT
            && region.Protect & (PAGE_NOACCESS | PAGE_GUARD) == 0
    }
}

/// *Hook.* Copies bytes of this process; whether all of them can be read. They may vanish at any time, as the
/// code of a JIT compiler does.
pub(crate) fn copy_bytes(to: &mut [u8], address: usize) -> bool {
    let _errno = KeepErrno::new();
    read_all(to, address as u64)
}

/// The end of the main thread's stack is that which each thread knows of itself.
pub(crate) fn main_stack_end() -> usize {
    0
}

/// *Hook.* The end of the running thread's own stack (`StackBase` of its block, `winnt.h`).
#[cfg(target_arch = "x86_64")]
pub(crate) fn own_stack_end() -> usize {
    let end: usize;
    // SAFETY: reads a word of the block that every thread has.
    unsafe {
        std::arch::asm!("mov {}, gs:[8]", out(reg) end, options(pure, readonly, nostack, preserves_flags));
    }
    end
}

/// The headers of a file that is loaded ("PE Format").
struct Headers {
    bytes: Vec<u8>,
    /// Where the optional header begins.
    optional: usize,
}

impl Headers {
    /// Sections, as headers that follow the optional one.
    const SECTION: usize = 40;

    fn read(base: u64) -> io::Result<Self> {
        let damaged = || io::Error::other("its headers cannot be read");
        let mut bytes = vec![0; super::SMALLEST_PAGE];
        if !read_all(&mut bytes, base) {
            return Err(damaged());
        }
        let mut headers = Self { bytes, optional: 0 };
        // Behind the signature and the first header, of 4 and 20 bytes.
        let optional = headers.word(0x3c).and_then(|at| (at as usize).checked_add(24));
        headers.optional = optional.filter(|at| *at < headers.bytes.len()).ok_or_else(damaged)?;
        Ok(headers)
    }

    fn word(&self, at: usize) -> Option<u32> {
        Some(u32::from_le_bytes(*self.bytes.get(at..at + 4)?.as_array()?))
    }

    fn half(&self, at: usize) -> Option<usize> {
        Some(u16::from_le_bytes(*self.bytes.get(at..at + 2)?.as_array()?).into())
    }

    /// The time at which the file was linked, or another number in its place.
    fn time(&self) -> u32 {
        self.word(self.optional - 16).unwrap_or_default()
    }

    fn size(&self) -> u32 {
        self.word(self.optional + 56).unwrap_or_default()
    }

    fn checksum(&self) -> u32 {
        self.word(self.optional + 64).unwrap_or_default()
    }

    /// Where a table is that the headers name by this number, in bytes from the base.
    fn directory(&self, number: usize) -> Range<usize> {
        let at = self.optional + 112 + 8 * number;
        let count = self.word(self.optional + 108).unwrap_or_default() as usize;
        match (self.word(at), self.word(at + 4)) {
            (Some(start), Some(size)) if number < count => {
                start as usize..(start as usize).saturating_add(size as usize)
            }
            _ => 0..0,
        }
    }

    /// The sections that stay in memory, and have neither code nor what the program writes.
    fn constant_parts(&self) -> impl Iterator<Item = Range<usize>> {
        const IS_CODE_WRITABLE_OR_DISCARDED: u32 = 0xa200_0000;
        let sections = self.sections();
        sections.filter(|it| it.0 & IS_CODE_WRITABLE_OR_DISCARDED == 0).map(|it| it.1)
    }

    /// The sections with code.
    fn code(&self) -> impl Iterator<Item = Range<usize>> {
        const IS_CODE: u32 = 0x2000_0000;
        self.sections().filter(|it| it.0 & IS_CODE != 0).map(|it| it.1)
    }

    /// Each section: its characteristics, and where it is in the image.
    fn sections(&self) -> impl Iterator<Item = (u32, Range<usize>)> {
        let count = self.half(self.optional - 18).unwrap_or_default();
        let first = self.optional + self.half(self.optional - 4).unwrap_or_default();
        (0..count).filter_map(move |number| {
            let at = first + number * Self::SECTION;
            let (size, start) = (self.word(at + 8)? as usize, self.word(at + 12)? as usize);
            Some((self.word(at + 36)?, start..start.checked_add(size)?))
        })
    }

    /// What tells this build of a file from another one.
    fn id(&self, base: u64) -> Vec<u8> {
        let numbers = [self.time(), self.size(), self.checksum()];
        self.debug_id(base)
            .unwrap_or_else(|| numbers.iter().flat_map(|number| number.to_le_bytes()).collect())
    }

    /// The id of the file with debug information that belongs to it: its GUID and its age.
    fn debug_id(&self, base: u64) -> Option<Vec<u8>> {
        const DEBUG: usize = 6;
        const ENTRY: usize = 28;
        const CODE_VIEW: u32 = 2;
        let entries = self.directory(DEBUG);
        let word =
            |bytes: &[u8], at: usize| Some(u32::from_le_bytes(*bytes.get(at..at + 4)?.as_array()?));
        for entry in entries.step_by(ENTRY).take(16) {
            let mut bytes = [0; ENTRY];
            if !read_all(&mut bytes, base + entry as u64) || word(&bytes, 12)? != CODE_VIEW {
                continue;
            }
            let mut found = [0; 24];
            if read_all(&mut found, base + u64::from(word(&bytes, 20)?)) {
                return Some(found.strip_prefix(b"RSDS")?.to_vec());
            }
        }
        None
    }
}

/// The modules of this process: none if the system does not say. At most `list.len()`.
fn modules(list: &mut [HMODULE]) -> io::Result<usize> {
    let (mut needed, bytes) = (0, size_of_val(list) as u32);
    // SAFETY: what is written fits.
    unsafe {
        if EnumProcessModules(GetCurrentProcess(), list.as_mut_ptr(), bytes, &raw mut needed) == 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok((needed as usize / size_of::<HMODULE>()).min(list.len()))
}

/// The binary files that are loaded and not known yet, and the identity of all by their bases. `is_known`
/// says whether the file with this identity is known at a base.
///
/// # Errors
/// Those of the system, as while the list changes.
pub(crate) fn loaded_files(
    _memory: &Memory,
    is_known: impl Fn(u64, &FileId) -> bool,
) -> io::Result<(Vec<LoadedFile>, HashMap<u64, FileId>)> {
    const MOST: usize = 4096;
    let mut list = vec![ptr::null_mut(); MOST];
    let count = modules(&mut list)?;
    let (mut new, mut all) = (Vec::new(), HashMap::new());
    for module in list.into_iter().take(count) {
        let base = module.addr() as u64;
        // One that is being unloaded has no headers any more.
        let Ok(headers) = Headers::read(base) else { continue };
        let Some(path) = path_of(module) else { continue };
        let id = (path, u64::from(headers.time()) << 32 | u64::from(headers.size()));
        if !is_known(base, &id) {
            const EXCEPTION: usize = 3;
            let size = size_of_module(module).unwrap_or(headers.size().into());
            let outermost = loads::first_function().and_then(|at| at.checked_sub(base));
            new.push(LoadedFile {
                path: id.0.clone(),
                base,
                size,
                linked_base: 0,
                build_id: headers.id(base),
                stamp: [0; 2],
                code: headers.code().collect(),
                functions: headers.directory(EXCEPTION),
                outermost: outermost.filter(|at| *at < size).map(|at| at as u32),
            });
        }
        all.insert(base, id);
    }
    Ok((new, all))
}

fn path_of(module: HMODULE) -> Option<String> {
    let mut path = [0_u16; 1024];
    // SAFETY: what is written fits.
    let length = unsafe {
        GetModuleFileNameExW(GetCurrentProcess(), module, path.as_mut_ptr(), path.len() as u32)
    };
    let path = path.get(..length as usize).filter(|path| !path.is_empty())?;
    Some(String::from_utf16_lossy(path))
}

fn size_of_module(module: HMODULE) -> Option<u64> {
    // SAFETY: all zeros are a valid value, and the call writes at most its size.
    unsafe {
        let mut found = std::mem::zeroed::<MODULEINFO>();
        let size = size_of_val(&found) as u32;
        let known = GetModuleInformation(GetCurrentProcess(), module, &raw mut found, size) != 0;
        known.then_some(found.SizeOfImage.into())
    }
}

pub(super) use loads::watch;

/// What the loader says of itself.
mod loads {
    use super::super::super::counted_loads::{self, MAX_LASTING};
    use super::modules;
    use std::ffi::c_void;
    use std::ptr;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use windows_sys::Win32::System::LibraryLoader::{GetModuleHandleA, GetProcAddress};

    /// The address of the function that calls the first one of every thread.
    static FIRST_FUNCTION: AtomicUsize = AtomicUsize::new(0);

    type Notified = unsafe extern "system" fn(u32, *const c_void, *mut c_void);
    type Register = unsafe extern "system" fn(u32, Notified, *mut c_void, *mut *mut c_void) -> i32;

    /// Counts from now on, and notes what is loaded. Called before `main`: the system's functions for this
    /// take the loader's lock.
    pub(in super::super) fn watch() {
        let mut list = [ptr::null_mut(); MAX_LASTING];
        let count = modules(&mut list).unwrap_or(0);
        for module in list.into_iter().take(count) {
            counted_loads::add_lasting(module.addr());
        }
        // SAFETY: the names end with a NUL; the function has this form ("LdrRegisterDllNotification"), and
        // what it calls lives as long as the program.
        unsafe {
            let library = GetModuleHandleA(c"ntdll.dll".as_ptr().cast());
            let first = GetProcAddress(library, c"RtlUserThreadStart".as_ptr().cast());
            FIRST_FUNCTION.store(first.map_or(0, |first| first as usize), Ordering::Relaxed);
            let name = c"LdrRegisterDllNotification";
            let Some(register) = GetProcAddress(library, name.as_ptr().cast()) else { return };
            let register =
                std::mem::transmute::<unsafe extern "system" fn() -> isize, Register>(register);
            let mut cookie = ptr::null_mut();
            if register(0, changes, ptr::null_mut(), &raw mut cookie) >= 0 {
                counted_loads::set_watched();
            }
        }
    }

    /// See above; `None` if the system does not say.
    pub(super) fn first_function() -> Option<u64> {
        let first = FIRST_FUNCTION.load(Ordering::Relaxed) as u64;
        (first != 0).then_some(first)
    }

    unsafe extern "system" fn changes(reason: u32, _: *const c_void, _: *mut c_void) {
        const LOADED: u32 = 1;
        if reason == LOADED { counted_loads::count_load() } else { counted_loads::count_unload() }
    }
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
        let path = std::env::current_exe().unwrap();
        assert_eq!(own.path, path.to_string_lossy());
        assert!(!own.functions.is_empty() && own.build_id.len() >= 12);
        let system = files.iter().find(|f| f.outermost.is_some()).unwrap();
        assert!(system.path.to_lowercase().ends_with("ntdll.dll"));
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
