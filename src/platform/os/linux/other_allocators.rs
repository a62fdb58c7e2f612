//! Allocators that the program has beside `malloc` as this library or program defines it.
//!
//! Which functions are called is asked of the loader before `main`, when no other thread can hold its lock.
//! What the executable has in itself is read from its file later, by the worker.
#![expect(unsafe_code, reason = "asks the loader")]

use super::Memory;
use super::modules::loaded_files;
use super::{objects, program_file};
use std::ffi::{CStr, c_void};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The `malloc` that the program calls, if it is not the one that is recorded; 0 otherwise.
static OTHER_MALLOC: AtomicUsize = AtomicUsize::new(0);
/// The `operator new` of the library whose `malloc` is the next one; 0 if that has none.
static OTHER_NEW: AtomicUsize = AtomicUsize::new(0);
/// Who has the recorded `malloc`, and so the tracker; 0 before [`begin`].
static RECORDED_BY: AtomicUsize = AtomicUsize::new(0);
const LIBRARY: usize = 1;
const PROGRAM: usize = 2;
/// Whether the other `malloc` is at an address of the executable.
static IS_IN_PROGRAM: AtomicBool = AtomicBool::new(false);

const MALLOC: &str = "malloc";

/// An allocator whose blocks are not recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OtherAllocator {
    /// The `malloc` that the program calls.
    Malloc,
    /// The `operator new` that it calls.
    New,
    /// One that the executable has in itself, or asks for by its own names.
    Named,
    /// That of Go's runtime.
    Go,
    /// The executable cannot be read.
    Unknown,
}

/// An allocator, and the function by which it was found.
pub(crate) struct Found {
    pub(crate) allocator: OtherAllocator,
    /// Empty if it has no name that programs use.
    pub(crate) function: &'static str,
    /// Its address; 0 if it is not known.
    #[cfg_attr(
        not(redirects),
        allow(dead_code, reason = "only redirected functions are compared")
    )]
    pub(crate) address: usize,
    pub(crate) file: String,
}

/// `operator new(unsigned long)`.
const NEW: &str = "_Znwm";
/// How allocators' functions are called that programs have in themselves or ask for by name.
const ALLOCATORS: [&str; 10] = [
    "mi_malloc",
    // What each function of mimalloc calls; a linker may have left out the others.
    "_mi_malloc_generic",
    "_rjem_malloc",
    "_rjem_mallocx",
    "je_malloc",
    "mallocx",
    "tc_malloc",
    "rpmalloc",
    "sn_rust_alloc",
    "sn_malloc",
];
/// The section that a program of Go keeps also when it is stripped.
const GO: &str = ".go.buildinfo";

/// Asks the loader. `here` is an address in the object that defines the recorded `malloc`. Called before
/// `main`.
pub(crate) fn begin(here: *const c_void) {
    let here = object_of(here.addr());
    // SAFETY: an entry of the process's own vector, here and below.
    let program = object_of(unsafe { libc::getauxval(libc::AT_ENTRY) } as usize);
    RECORDED_BY.store(if here == program { PROGRAM } else { LIBRARY }, Ordering::Relaxed);
    let called = find_function(libc::RTLD_DEFAULT, c"malloc");
    if called != 0 && object_of(called) != here {
        IS_IN_PROGRAM.store(object_of(called) == program, Ordering::Relaxed);
        OTHER_MALLOC.store(called, Ordering::Relaxed);
    }
    let next = find_function(libc::RTLD_NEXT, c"malloc");
    if next == 0 || object_of(next) == object_of(find_function(libc::RTLD_NEXT, c"getpid")) {
        return;
    }
    // NOTE: not by the loader, which allocates in the program's heap for a function that is not found.
    let new = objects::find(|object| object.defined(c"_Znwm")).unwrap_or(0);
    if object_of(next) == object_of(new) {
        OTHER_NEW.store(new, Ordering::Relaxed);
    }
}

fn find_function(from: *mut c_void, name: &CStr) -> usize {
    // SAFETY: the name ends with a NUL.
    unsafe { libc::dlsym(from, name.as_ptr()) }.addr()
}

/// The first address of the object that an address is in; 0 if it is in none.
fn object_of(address: usize) -> usize {
    // SAFETY: all zeros is a value of it, and valid to be written.
    unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        let found = libc::dladdr(std::ptr::without_provenance(address), &raw mut info);
        if found == 0 { 0 } else { info.dli_fbase.addr() }
    }
}

/// The allocators. Reads the tables of names in the executable's file.
pub(crate) fn find() -> Vec<Found> {
    let mut all = Vec::new();
    let recorded_by = RECORDED_BY.load(Ordering::Relaxed);
    if recorded_by == 0 {
        return all;
    }
    let found = |allocator, function, address| {
        let file = if address == 0 { file_of_program() } else { file_of(address) };
        Found { allocator, function, address, file }
    };
    let file = program_file::open();
    let names = file.as_ref().ok().and_then(|file| names_in(file).ok()).unwrap_or_default();
    let malloc = OTHER_MALLOC.load(Ordering::Relaxed);
    // NOTE: in a program that is linked for a fixed address and has a pointer to another object's function,
    // the loader gives an address of the program for it.
    let is_defined = !IS_IN_PROGRAM.load(Ordering::Relaxed) || names.contains(&MALLOC);
    let malloc = if is_defined { malloc } else { 0 };
    if malloc != 0 {
        all.push(found(OtherAllocator::Malloc, MALLOC, malloc));
    }
    // A program with the tracker has chosen what is below it.
    if recorded_by == PROGRAM {
        return all;
    }
    let new = OTHER_NEW.load(Ordering::Relaxed);
    if malloc == 0 && new != 0 && names.contains(&NEW) {
        all.push(found(OtherAllocator::New, "operator new", new));
    }
    if malloc == 0 {
        let named = ALLOCATORS.into_iter().find(|name| names.contains(name));
        all.extend(named.map(|name| found(OtherAllocator::Named, name, 0)));
    }
    if file.is_err() {
        all.push(found(OtherAllocator::Unknown, "", 0));
    }
    if names.contains(&GO) {
        all.push(found(OtherAllocator::Go, "", 0));
    }
    all
}

fn file_of_program() -> String {
    program_file::path().to_string_lossy().into_owned()
}

pub(crate) fn file_of(address: usize) -> String {
    let address = address as u64;
    let files = Memory::open().and_then(|memory| loaded_files(&memory, |_, _| false));
    let mut files = files.map(|(files, _)| files).unwrap_or_default().into_iter();
    let is_in = |start: u64, size: u64| address.wrapping_sub(start) < size;
    files.find(|file| is_in(file.base, file.size)).map_or(String::new(), |file| file.path)
}

/// `elf.h`: `Elf64_Ehdr`, `Elf64_Shdr`, `Elf64_Sym`.
const SECTION: usize = 64;
const SYMBOL: usize = 24;
const SYMTAB: u32 = 2;
const DYNSYM: u32 = 11;
/// A larger table of names is not read.
const MAX_BYTES: u64 = 64 << 20;

/// Those of the names above that the executable defines or asks for; `malloc` only if it defines it.
fn names_in(file: &File) -> io::Result<Vec<&'static str>> {
    let head = read(file, 0, SECTION as u64)?;
    let number = |bytes: &[u8], at: usize, size: usize| -> u64 {
        let bytes = bytes.get(at..at + size).unwrap_or_default();
        bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
    };
    let (at, count) = (number(&head, 40, 8), number(&head, 60, 2));
    let sections = read(file, at, count * SECTION as u64)?;
    let sections = sections.as_chunks::<SECTION>().0;
    // Where the bytes of a section are.
    let bytes_of =
        |section: &[u8; SECTION]| read(file, number(section, 24, 8), number(section, 32, 8));
    let mut found = Vec::new();
    if let Some(names) = sections.get(number(&head, 62, 2) as usize)
        && bytes_of(names)?.split(|byte| *byte == 0).any(|name| name == GO.as_bytes())
    {
        found.push(GO);
    }
    for table in sections {
        let kind = number(table, 4, 4) as u32;
        let Some(names) = sections.get(number(table, 40, 4) as usize) else { continue };
        if kind != SYMTAB && kind != DYNSYM {
            continue;
        }
        // NOTE: a linker lets a name be the end of a longer one.
        let mut offsets = Vec::new();
        let mut end = 0;
        for text in bytes_of(names)?.split(|byte| *byte == 0) {
            end += text.len();
            let wanted = ALLOCATORS.iter().chain([&NEW, &MALLOC]);
            let wanted = wanted.filter(|name| text.ends_with(name.as_bytes()));
            offsets.extend(wanted.map(|name| ((end - name.len()) as u64, *name)));
            end += 1;
        }
        if offsets.is_empty() {
            continue;
        }
        for symbol in bytes_of(table)?.as_chunks::<SYMBOL>().0 {
            let (name, is_defined) = (number(symbol, 0, 4), number(symbol, 6, 2) != 0);
            let named = offsets.iter().filter(|(at, _)| *at == name).map(|(_, name)| *name);
            found.extend(named.filter(|name| is_defined || *name != MALLOC));
        }
    }
    Ok(found)
}

fn read(file: &File, at: u64, size: u64) -> io::Result<Vec<u8>> {
    if size > MAX_BYTES {
        return Err(io::Error::other(format!("a table of {size} bytes is larger than 64 MiB")));
    }
    let mut bytes = vec![0; size as usize];
    file.read_exact_at(&mut bytes, at)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_executable() {
        let names = names_in(&program_file::open().unwrap()).unwrap();
        assert!(!names.contains(&GO) && !names.contains(&"mi_malloc"), "{names:?}");
    }
}
