//! C's functions that execute programs, as the library of `preload/` defines them.
//!
//! The library leaves itself out of `LD_PRELOAD` where the program cannot load it: one of 32 bits or for
//! another processor, of which the loader says that in the program's errors; one of musl, or with a
//! sanitizer, which would not start; a static one, which could start one of these. Nor does it appear in what
//! `ldd` lists. The rest of the environment stays as it is.
//!
//! NOTE: the child of a `vfork` may call these, and has its parent's memory. So nothing is allocated, and
//! only its own stack is written. They are no cancellation points either: files are read by system calls.

mod program;

use super::super::executed::{self, executes, is_recorded};
use super::super::{KeepErrno, before_end};
use super::next_functions::next_functions;
use super::{again, is_filtered, objects};
pub(super) use program::Program;
use std::ffi::{CStr, c_char, c_int, c_void};
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

/// The next functions that start a shell by themselves, in the environment of the process.
static SHELLS: [(AtomicPtr<c_void>, &CStr); 2] =
    [(AtomicPtr::new(ptr::null_mut()), c"system"), (AtomicPtr::new(ptr::null_mut()), c"popen")];

fn find_shells() {
    for (place, name) in &SHELLS {
        // SAFETY: the name ends with a NUL.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
        place.store(found, Ordering::Release);
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
    find_shells();
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
        let is_empty = || path.is_null() || is_text(path) && unsafe { *path } == 0;
        let is_folder = flags & libc::AT_EMPTY_PATH != 0 && is_empty();
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
/// As above, but the name may be no text.
unsafe fn noted_name<'a>(name: *const c_char, environment: Texts) -> &'a [u8] {
    // SAFETY: the caller's promise.
    let lists = variable(unsafe { texts(environment) }, LISTS).is_some();
    if lists || !is_text(name) {
        return b"";
    }
    // SAFETY: the kernel can read it.
    unsafe { CStr::from_ptr(name) }.to_bytes()
}

/// Whether the kernel can read a path: a program may try whether a wrong one is refused.
fn is_text(path: *const c_char) -> bool {
    // SAFETY: the kernel checks the path; the error's place is valid for this thread.
    let is_known = || unsafe {
        libc::syscall(libc::SYS_faccessat, libc::AT_FDCWD, path, libc::F_OK) == 0
            || *super::super::errno() != libc::EFAULT
    };
    !path.is_null() && (is_filtered() || is_known())
}

/// Called before C's `system`. Returns the next one, to which the program's call jumps: the thread may be
/// cancelled in it.
pub extern "C" fn before_system() -> *mut c_void {
    before_shell(0)
}

/// Called before C's `popen`. Returns the next one.
pub extern "C" fn before_popen() -> *mut c_void {
    before_shell(1)
}

/// Notes a shell that will have no trace, because the process no longer has this library in its environment.
fn before_shell(number: usize) -> *mut c_void {
    let _errno = KeepErrno::new();
    let is_recorded = || {
        // SAFETY: the program's environment has its end.
        let all = unsafe { texts(environ) };
        OwnLibrary::find(all).is_some() && has_settings(all)
    };
    if !executed::follows() || !is_recorded() {
        executed::has_started(executed::NO_NUMBER, b"sh");
    }
    let (place, _) = &SHELLS[number];
    if place.load(Ordering::Acquire).is_null() {
        // The constructor of another library calls it before this one has begun.
        find_shells();
    }
    place.load(Ordering::Acquire)
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
