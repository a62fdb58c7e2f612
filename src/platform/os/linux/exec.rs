//! C's functions that execute programs, as the library of `preload/` defines them.
//!
//! The library leaves itself out of `LD_PRELOAD` where the program cannot load it: one of 32 bits or for
//! another processor, of which the loader says that in the program's errors; one of musl, or with a
//! sanitizer, which would not start; a static one, which could start one of these. Nor does it appear in what
//! `ldd` lists. The rest of the environment stays as it is.
//!
//! NOTE: the child of a `vfork` may call these, and has its parent's memory. So nothing is allocated, and
//! only its own stack is written. They are no cancellation points either: files are read by system calls.

use super::super::executed::{self, executes, is_recorded};
use super::super::{KeepErrno, before_end};
use super::next_functions::next_functions;
use super::{again, is_filtered, objects};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr;
use std::slice;
use std::sync::atomic::{AtomicPtr, Ordering};

/// The next library's functions.
mod next {
    use super::*;

    type Texts = *const *const c_char;

    next_functions! {
        execve(path: *const c_char, arguments: Texts, environment: Texts);
        execvpe(name: *const c_char, arguments: Texts, environment: Texts);
        fexecve(file: c_int, arguments: Texts, environment: Texts);
        execveat(folder: c_int, path: *const c_char, arguments: Texts, environment: Texts, flags: c_int);
        posix_spawn(process: *mut c_int, path: *const c_char, actions: *const c_void, attributes: *const c_void, arguments: Texts, environment: Texts);
        posix_spawnp(process: *mut c_int, name: *const c_char, actions: *const c_void, attributes: *const c_void, arguments: Texts, environment: Texts);
    }

    /// Looks the functions up.
    pub(super) fn find() {
        find_all();
    }
}

/// Texts, with a null after the last.
pub(super) type Texts = *const *const c_char;

/// The names under which the loader lists this library, and itself.
pub(super) static LIBRARY: AtomicPtr<c_char> = AtomicPtr::new(ptr::null_mut());
static LOADER: AtomicPtr<c_char> = AtomicPtr::new(ptr::null_mut());

/// Called before `main`: what takes the loader's lock.
pub(super) fn prepare() {
    next::find();
    again::keep();
    let own = (&raw const LIBRARY).addr();
    objects::find(|object| {
        if object.has(own) {
            LIBRARY.store(object.name.cast_mut(), Ordering::Release);
        } else if object.defined(c"_rtld_global").is_some() {
            LOADER.store(object.name.cast_mut(), Ordering::Release);
        }
        None::<()>
    });
}

/// The text of such a name; empty if it is not known. Neither object is ever unloaded.
pub(super) fn name_of(place: &AtomicPtr<c_char>) -> &'static CStr {
    let name = place.load(Ordering::Acquire);
    // SAFETY: a name from the loader ends with a NUL.
    if name.is_null() { c"" } else { unsafe { CStr::from_ptr(name) } }
}

unsafe extern "C" {
    static environ: Texts;
}

/// # Safety
/// That of C's function, here and below.
pub unsafe fn execve(path: *const c_char, arguments: Texts, environment: Texts) -> c_int {
    let program = || Program::at(libc::AT_FDCWD, path);
    // SAFETY: the caller's promise, here and below.
    unsafe {
        with_environment(environment, is_recorded(), program, |environment| {
            replace(path, environment, || next::execve(path, arguments, environment))
        })
    }
}

/// # Safety
/// As above.
pub unsafe fn execv(path: *const c_char, arguments: Texts) -> c_int {
    // SAFETY: as above.
    unsafe { execve(path, arguments, environ) }
}

/// # Safety
/// As above.
pub unsafe fn execvpe(name: *const c_char, arguments: Texts, environment: Texts) -> c_int {
    // SAFETY: as above.
    unsafe {
        with_environment(
            environment,
            is_recorded(),
            || Program::named(name),
            |environment| {
                replace(name, environment, || next::execvpe(name, arguments, environment))
            },
        )
    }
}

/// # Safety
/// As above.
pub unsafe fn execvp(name: *const c_char, arguments: Texts) -> c_int {
    // SAFETY: as above.
    unsafe { execvpe(name, arguments, environ) }
}

/// C's `execle`, whose environment is after the end of its arguments.
///
/// # Safety
/// As above.
pub unsafe extern "C" fn execle(path: *const c_char, arguments: Texts) -> c_int {
    // SAFETY: as above.
    unsafe {
        let environment = arguments.add(texts(arguments).len() + 1).cast::<Texts>().read();
        execve(path, arguments, environment)
    }
}

/// # Safety
/// As above.
pub unsafe extern "C" fn execl(path: *const c_char, arguments: Texts) -> c_int {
    // SAFETY: as above.
    unsafe { execv(path, arguments) }
}

/// # Safety
/// As above.
pub unsafe extern "C" fn execlp(name: *const c_char, arguments: Texts) -> c_int {
    // SAFETY: as above.
    unsafe { execvp(name, arguments) }
}

/// # Safety
/// As above.
pub unsafe fn fexecve(file: c_int, arguments: Texts, environment: Texts) -> c_int {
    // SAFETY: as above.
    unsafe {
        with_environment(
            environment,
            is_recorded(),
            || Program::of(file),
            |environment| {
                let name = c"a file without a name".as_ptr();
                replace(name, environment, || next::fexecve(file, arguments, environment))
            },
        )
    }
}

/// # Safety
/// As above.
pub unsafe fn execveat(
    folder: c_int,
    path: *const c_char,
    arguments: Texts,
    environment: Texts,
    flags: c_int,
) -> c_int {
    let program = || {
        // SAFETY: as above.
        let is_folder = flags & libc::AT_EMPTY_PATH != 0 && unsafe { *path } == 0;
        if is_folder { Program::of(folder) } else { Program::at(folder, path) }
    };
    // SAFETY: as above.
    unsafe {
        with_environment(environment, is_recorded(), program, |environment| {
            replace(path, environment, || {
                next::execveat(folder, path, arguments, environment, flags)
            })
        })
    }
}

/// Calls `execute`, which returns only if it fails. It is noted which program it executes, in which
/// environment.
///
/// # Safety
/// The name has its end, and so has the environment, or is null.
unsafe fn replace(
    name: *const c_char,
    environment: Texts,
    execute: impl FnOnce() -> c_int,
) -> c_int {
    let errno = KeepErrno::new();
    // SAFETY: the caller's promise.
    let noted = executes(unsafe { noted_name(name, environment) });
    before_end();
    drop(errno);
    let result = execute();
    noted.failed();
    result
}

/// Calls `start` with a place for the number of the process that it starts, which is noted.
///
/// # Safety
/// As above; the place is null or valid.
unsafe fn start(
    process: *mut c_int,
    name: *const c_char,
    environment: Texts,
    start: impl FnOnce(*mut c_int) -> c_int,
) -> c_int {
    let mut id = 0;
    let error = start(&raw mut id);
    if error == 0 {
        let _errno = KeepErrno::new();
        // SAFETY: the caller's promise.
        unsafe {
            if !process.is_null() {
                *process = id;
            }
            executed::has_started(id.cast_unsigned(), noted_name(name, environment));
        }
    }
    error
}

/// The name of a program that may allocate; none of one that only lists libraries.
///
/// # Safety
/// As above.
unsafe fn noted_name<'a>(name: *const c_char, environment: Texts) -> &'a [u8] {
    // SAFETY: the caller's promise.
    let (name, all) = unsafe { (CStr::from_ptr(name), texts(environment)) };
    if variable(all, LISTS).is_some() { b"" } else { name.to_bytes() }
}

macro_rules! spawn {
    ($($name:ident: $find:expr;)*) => {
        $(
            /// # Safety
            /// As above.
            pub unsafe fn $name(
                process: *mut c_int,
                program: *const c_char,
                actions: *const c_void,
                attributes: *const c_void,
                arguments: Texts,
                environment: Texts,
            ) -> c_int {
                // SAFETY: as above.
                unsafe {
                    with_environment(
                        environment,
                        executed::follows(),
                        || $find(program),
                        |environment| {
                            start(process, program, environment, |process| {
                                next::$name(process, program, actions, attributes, arguments, environment)
                            })
                        },
                    )
                }
            }
        )*
    };
}
// NOTE: a path that is relative to a folder to which the actions change first may be that of no file here.
// Then nothing is changed.
spawn! {
    posix_spawn: |path| Program::at(libc::AT_FDCWD, path);
    posix_spawnp: Program::named;
}

/// The texts; none if there is no list.
///
/// # Safety
/// The list has its end, or is null.
pub(super) unsafe fn texts<'a>(list: Texts) -> &'a [*const c_char] {
    if list.is_null() {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe {
        let count = (0..).take_while(|at| !(*list.add(*at)).is_null()).count();
        slice::from_raw_parts(list, count)
    }
}

/// The value of a variable, with its number.
pub(super) fn variable<'a>(all: &[*const c_char], name: &[u8]) -> Option<(usize, &'a [u8])> {
    all.iter().enumerate().find_map(|(at, text)| {
        // SAFETY: texts of an environment end with a NUL.
        let text = unsafe { CStr::from_ptr(*text) }.to_bytes();
        Some((at, text.strip_prefix(name)?.strip_prefix(b"=")?))
    })
}

pub(super) const VARIABLE: &[u8] = b"LD_PRELOAD";

/// This library in an environment.
pub(super) struct OwnLibrary<'a> {
    /// The number of the variable.
    at: usize,
    /// The other libraries in it, before and after this one, without what separates these.
    others: [&'a [u8]; 2],
}

impl<'a> OwnLibrary<'a> {
    fn find(environment: &[*const c_char]) -> Option<Self> {
        let library = name_of(&LIBRARY).to_bytes();
        let (at, value) = variable(environment, VARIABLE)?;
        let is_separator = |byte: &u8| matches!(byte, b':' | b' ');
        let mut start = 0;
        let own = value.split(is_separator).find_map(|name| {
            let (from, to) = (start, start + name.len());
            start = to + 1;
            // Without a folder, the loader has looked for it.
            let has_name = || {
                let folder = library.strip_suffix(name);
                folder.is_some_and(|folder| folder.ends_with(b"/")) && !name.contains(&b'/')
            };
            (!name.is_empty() && (name == library || has_name())).then_some((from, to))
        })?;
        let (before, after) = (value.get(..own.0)?, value.get(own.1..)?);
        let others = match before.split_last() {
            Some((_, before)) => [before, after],
            None => [before, after.get(1..).unwrap_or_default()],
        };
        Some(Self { at, others })
    }

    /// The variable without this library; the variable is left out if there is no other one.
    pub(super) fn without(&self) -> Edit<'a> {
        let [before, after] = self.others;
        let is_last = before.is_empty() && after.is_empty();
        let parts = if is_last { Default::default() } else { [VARIABLE, b"=", before, after, b""] };
        Edit { at: Some(self.at), parts }
    }
}

/// A text of an environment that another one takes the place of, or that is added: its parts, or nothing.
#[derive(Default)]
pub(super) struct Edit<'a> {
    pub(super) at: Option<usize>,
    pub(super) parts: [&'a [u8]; 5],
}

impl Edit<'_> {
    fn bytes(&self) -> usize {
        self.parts.iter().map(|part| part.len()).sum()
    }
}

/// Calls `execute` with this environment: without this library in it if `program` cannot load that, and with
/// it if the program `is_recorded` but has lost it or its settings.
///
/// # Safety
/// The environment has its end, or is null.
unsafe fn with_environment(
    environment: Texts,
    is_recorded: bool,
    program: impl FnOnce() -> Option<Program>,
    execute: impl FnOnce(Texts) -> c_int,
) -> c_int {
    /// With arrays of `N` on the stack: the texts, and words of 8 bytes for the new ones.
    #[inline(never)]
    fn edited<const N: usize>(
        all: &[*const c_char],
        edits: &[Edit<'_>; 2],
        execute: impl FnOnce(Texts) -> c_int,
    ) -> c_int {
        let mut room = [[0_u8; 8]; N];
        let mut rest = room.as_flattened_mut();
        let new = edits.each_ref().map(|edit| {
            let size = edit.bytes();
            let (text, after) = std::mem::take(&mut rest).split_at_mut_checked(size + 1)?;
            rest = after;
            let bytes = edit.parts.iter().copied().flatten();
            text.iter_mut().zip(bytes).for_each(|(to, byte)| *to = *byte);
            (size > 0).then_some(text.as_ptr().cast::<c_char>())
        });
        let changed = |at| edits.iter().position(|edit| edit.at == at);
        let kept = all.iter().enumerate().filter_map(|(at, text)| match changed(Some(at)) {
            Some(edit) => new.get(edit).copied().flatten(),
            None => Some(*text),
        });
        let added = edits.iter().zip(new).filter(|(edit, _)| edit.at.is_none());
        let mut texts = [ptr::null(); N];
        let of_new = kept.chain(added.filter_map(|(_, text)| text));
        texts.iter_mut().zip(of_new).for_each(|(to, text)| *to = text);
        execute(texts.as_ptr())
    }

    let errno = KeepErrno::new();
    // SAFETY: the caller's promise.
    let all = unsafe { texts(environment) };
    let own = OwnLibrary::find(all);
    let program = || if is_filtered() { None } else { program() };
    let edits = if variable(all, LISTS).is_some() {
        own.map(|own| [own.without(), Edit::default()])
    } else if own.is_some() && has_settings(all) || !is_recorded {
        own.filter(|_| program().is_some_and(Program::cannot_load))
            .map(|own| [own.without(), Edit::default()])
    } else {
        again::edits(all, own, program)
    };
    drop(errno);
    let Some(edits) = edits else { return execute(environment) };
    // The texts that are added, and the end of each.
    let words = edits.iter().map(|edit| edit.bytes() + 1).sum::<usize>() / 8;
    match 1 + words.max(all.len() + edits.len()) {
        0..=128 => edited::<128>(all, &edits, execute),
        129..=1024 => edited::<1024>(all, &edits, execute),
        1025..=8192 => edited::<8192>(all, &edits, execute),
        // NOTE: a larger one stays as it is: the stack may have no room for it.
        _ => execute(environment),
    }
}

/// With it, the loader lists libraries and runs no program.
const LISTS: &[u8] = b"LD_TRACE_LOADED_OBJECTS";

/// Whether the tracker's settings are in an environment.
fn has_settings(all: &[*const c_char]) -> bool {
    // SAFETY: texts of an environment end with a NUL.
    all.iter().any(|text| unsafe { CStr::from_ptr(*text) }.to_bytes().starts_with(again::PREFIX))
}

/// The open file of a program.
pub(super) struct Program(c_int);

impl Drop for Program {
    fn drop(&mut self) {
        // SAFETY: it is open, and nothing else has its number.
        unsafe { libc::syscall(libc::SYS_close, self.0) };
    }
}

impl Program {
    fn at(folder: c_int, path: *const c_char) -> Option<Self> {
        // NOTE: what is no regular file is not even opened: that could wait, or do something.
        status(folder, path)?;
        let flags = libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NOCTTY | libc::O_NONBLOCK;
        // SAFETY: the path is the program's, or a local with a NUL; the kernel checks it.
        let file = unsafe { libc::syscall(libc::SYS_openat, folder, path, flags) };
        (file >= 0).then_some(Self(file as c_int))
    }

    /// The file that has this number, which need not be open for reading.
    fn of(number: c_int) -> Option<Self> {
        if number < 0 {
            return None;
        }
        let mut path = *b"/proc/self/fd/\0\0\0\0\0\0\0\0\0\0\0";
        let digits = (0..10).rev().map(|place| number.unsigned_abs() / 10_u32.pow(place) % 10);
        let digits = digits.skip_while(|digit| *digit == 0).map(|digit| b'0' + digit as u8);
        let (_, places) = path.split_at_mut_checked(14)?;
        *places.first_mut()? = b'0';
        places.iter_mut().zip(digits).for_each(|(place, digit)| *place = digit);
        Self::at(libc::AT_FDCWD, path.as_ptr().cast())
    }

    /// The one that `execvp` finds.
    fn named(name: *const c_char) -> Option<Self> {
        const USUAL: &[u8] = b"/bin:/usr/bin";
        // SAFETY: the caller of the function has given a text.
        let bytes = unsafe { CStr::from_ptr(name) }.to_bytes();
        if bytes.contains(&b'/') {
            return Self::at(libc::AT_FDCWD, name);
        }
        // SAFETY: the program's environment has its end.
        let path = variable(unsafe { texts(environ) }, b"PATH").map_or(USUAL, |(_, path)| path);
        path.split(|byte| *byte == b':').find_map(|folder| {
            let mut path = [0_u8; libc::PATH_MAX as usize];
            let slash: &[u8] = if folder.is_empty() { b"" } else { b"/" };
            let parts = [folder, slash, bytes];
            if parts.iter().map(|part| part.len()).sum::<usize>() >= path.len() {
                return None;
            }
            path.iter_mut().zip(parts.into_iter().flatten()).for_each(|(to, byte)| *to = *byte);
            let path = path.as_ptr().cast::<c_char>();
            // SAFETY: the path ends with a NUL.
            let error =
                unsafe { libc::syscall(libc::SYS_faccessat, libc::AT_FDCWD, path, libc::X_OK) };
            if error == 0 { Self::at(libc::AT_FDCWD, path) } else { None }
        })
    }

    /// Reads from `offset`; returns what there is.
    fn read<'a>(&self, to: &'a mut [u8], offset: u64) -> &'a [u8] {
        // SAFETY: the bytes are writable.
        let size =
            unsafe { libc::syscall(libc::SYS_pread64, self.0, to.as_mut_ptr(), to.len(), offset) };
        to.get(..size.max(0) as usize).unwrap_or_default()
    }

    /// Whether the loader leaves out this library, because the program runs with more rights than its user.
    pub(super) fn is_secure(&self) -> bool {
        let mut status = MaybeUninit::<libc::stat>::uninit();
        let name = c"security.capability".as_ptr();
        let nothing = ptr::null_mut::<c_void>();
        // SAFETY: the kernel fills the status unless it fails, and writes no bytes of the attribute.
        unsafe {
            libc::syscall(libc::SYS_fstat, self.0, status.as_mut_ptr()) != 0
                || status.assume_init().st_mode & (libc::S_ISUID | libc::S_ISGID) != 0
                || libc::syscall(libc::SYS_fgetxattr, self.0, name, nothing, 0) > 0
        }
    }

    /// Whether the program, or the interpreter of a script, cannot load this library.
    pub(super) fn cannot_load(self) -> bool {
        /// How many scripts Linux follows.
        const MAX_SCRIPTS: usize = 5;
        /// What it reads of each.
        const LINE: usize = 256;
        let mut program = self;
        for _ in 0..=MAX_SCRIPTS {
            let mut line = [0_u8; LINE + 1];
            let Some(text) = program.read(&mut line[..LINE], 0).strip_prefix(b"#!") else {
                return program.is_closed().unwrap_or(false);
            };
            let is_space = |byte: &u8| matches!(byte, b' ' | b'\t');
            let start = 2 + text.iter().take_while(|byte| is_space(byte)).count();
            let is_end = |byte: &u8| is_space(byte) || matches!(byte, b'\n' | 0);
            let Some((_, name)) = line.split_at_mut_checked(start) else { return false };
            let Some(end) = name.iter_mut().find(|byte| is_end(byte)) else { return false };
            *end = 0;
            let interpreter = Self::at(libc::AT_FDCWD, name.as_ptr().cast());
            let Some(interpreter) = interpreter else { return false };
            program = interpreter;
        }
        false
    }

    /// Whether a program cannot load this library; `None` if the file is none.
    fn is_closed(&self) -> Option<bool> {
        /// `elf.h`: `e_machine` of this processor.
        const MACHINE: u16 = 62;
        let mut head = [0_u8; size_of::<libc::Elf64_Ehdr>()];
        let head = self.read(&mut head, 0);
        let class = *head.strip_prefix(b"\x7fELF")?.first()?;
        if class == libc::ELFCLASS32 {
            return Some(true);
        }
        // SAFETY: any bytes are valid numbers.
        let head = (head.len() == size_of::<libc::Elf64_Ehdr>())
            .then(|| unsafe { head.as_ptr().cast::<libc::Elf64_Ehdr>().read_unaligned() })?;
        if head.e_machine != MACHINE {
            return Some(true);
        }
        if let Some(part) = self.parts(&head).find(|part| part.p_type == libc::PT_INTERP) {
            let mut name = [0_u8; 256];
            let name = self.read(&mut name, part.p_offset);
            let name = name.get(..part.p_filesz as usize).unwrap_or(name);
            let is_of_musl = name.windows(7).any(|name| name == b"ld-musl");
            return Some(is_of_musl || self.has_sanitizer(&head).unwrap_or(false));
        }
        // The loader itself is given a program, which it loads libraries into.
        let identity = |status: libc::stat| (status.st_dev, status.st_ino);
        let loader = status(libc::AT_FDCWD, name_of(&LOADER).as_ptr()).map(identity);
        Some(loader.is_none_or(|loader| super::identity(&self.0) != Some(loader)))
    }

    fn parts(&self, head: &libc::Elf64_Ehdr) -> impl Iterator<Item = libc::Elf64_Phdr> {
        let start = head.e_phoff;
        let offset = move |number| start + u64::from(number) * size_of::<libc::Elf64_Phdr>() as u64;
        (0..head.e_phnum).map_while(move |number| {
            let mut part = [0_u8; size_of::<libc::Elf64_Phdr>()];
            let part = self.read(&mut part, offset(number));
            // SAFETY: any bytes are valid numbers.
            (part.len() == size_of::<libc::Elf64_Phdr>())
                .then(|| unsafe { part.as_ptr().cast::<libc::Elf64_Phdr>().read_unaligned() })
        })
    }

    /// Whether a name that the program gives to its loader is that of a sanitizer's function.
    fn has_sanitizer(&self, head: &libc::Elf64_Ehdr) -> Option<bool> {
        const NAMES: [&[u8]; 5] =
            [b"__asan_init", b"__hwasan_init", b"__lsan_init", b"__msan_init", b"__tsan_init"];
        const LONGEST: u64 = 13;
        /// `elf.h`: where the names are, and their bytes.
        const DT_STRTAB: u64 = 5;
        const DT_STRSZ: u64 = 10;
        let dynamic = self.parts(head).find(|part| part.p_type == libc::PT_DYNAMIC)?;
        let mut entries = [0_u8; 2048];
        let entries = self.read(&mut entries, dynamic.p_offset);
        let entry = |wanted: u64| {
            let (entries, _) = entries.as_chunks::<16>();
            let tag = |entry: &[u8; 16]| entry.first_chunk().copied().map(u64::from_le_bytes);
            let found = entries.iter().find(|entry| tag(entry) == Some(wanted))?;
            found.last_chunk().copied().map(u64::from_le_bytes)
        };
        let (address, bytes) = (entry(DT_STRTAB)?, entry(DT_STRSZ)?);
        let names = self.parts(head).find_map(|part| {
            let inside = address.checked_sub(part.p_vaddr).filter(|at| *at < part.p_filesz);
            inside.filter(|_| part.p_type == libc::PT_LOAD).map(|inside| part.p_offset + inside)
        })?;
        let mut some = [0_u8; 4096];
        // Each piece begins with the end of the one before.
        Some((0..bytes).step_by(some.len() - LONGEST as usize).any(|at| {
            let some = self.read(&mut some, names + at);
            NAMES.iter().any(|name| some.windows(name.len()).any(|it| it == *name))
        }))
    }
}

fn status(folder: c_int, path: *const c_char) -> Option<libc::stat> {
    let mut status = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: the kernel checks the path, and fills the status unless it fails.
    let status = unsafe {
        let error = libc::syscall(libc::SYS_newfstatat, folder, path, status.as_mut_ptr(), 0);
        (error == 0).then(|| status.assume_init())?
    };
    (status.st_mode & libc::S_IFMT == libc::S_IFREG).then_some(status)
}
