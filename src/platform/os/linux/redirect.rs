//! Redirects functions of the running program: finds them in the objects that are loaded, and writes jumps at
//! their starts.
//!
//! The instructions that make room for a jump are moved to pages near the object. These are never writable
//! and executable at once, and the jumps are written through `/proc/self/mem`, as a debugger writes its
//! breakpoints: the code stays executable. Where the system forbids either (SELinux,
//! `MemoryDenyWriteExecute`, no `/proc`), nothing is changed.

use super::loaded::{Loaded, has_shadow_stack};
use super::objects;
use memledger_redirect::{JUMP, branches, build_id, functions, jump};
pub(crate) use memledger_redirect::{Refusal, Room};
use std::ffi::{CString, c_void};
use std::fmt::Write;
use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::ptr;

/// The program or a library, with functions that are looked for.
pub(crate) struct Object {
    pub(crate) is_program: bool,
    /// From its first address to its end.
    pub(crate) addresses: (usize, usize),
    pub(crate) functions: Vec<Named>,
    /// Its code, and where a compiler has put parts of these functions.
    code: Vec<Range<usize>>,
}

pub(crate) struct Named {
    pub(crate) name: String,
    pub(crate) address: usize,
    pub(crate) size: usize,
    /// See [`memledger_redirect::Function::is_local`].
    pub(crate) is_local: bool,
}

/// What compilers append to the name of a function for the parts that rarely run.
const COLD: &str = ".cold";

/// The objects that have functions of interest: in the program's file, those whose name `is_wanted`; in a
/// library, those for others whose name is one of `names`, if it has one of `witnesses`. With `since`, of the
/// libraries that may be new.
pub(crate) fn objects(
    since: Option<&Loaded>,
    is_wanted: impl Fn(&[u8]) -> bool,
    witnesses: &[String],
    names: impl Fn() -> Vec<String>,
) -> Vec<Object> {
    let own = (&raw const OWN).addr();
    let names_of = |all: Vec<String>| {
        all.into_iter().filter_map(|name| CString::new(name).ok()).collect::<Vec<_>>()
    };
    let witnesses = names_of(witnesses.to_vec());
    let mut all = Vec::new();
    let mut is_program = true;
    objects::find(|object| {
        let is_first = std::mem::replace(&mut is_program, false);
        if since.is_some_and(|before| is_first || !before.may_lack(object)) {
            return None;
        }
        let code = object.code().map(|(start, bytes)| start..start + bytes).collect::<Vec<_>>();
        let addresses = object.addresses()?;
        let mut found = Object { is_program: is_first, addresses, functions: Vec::new(), code };
        if is_first {
            found.functions = functions_of_program(object.base, &is_wanted);
        } else if !object.has(own) && witnesses.iter().any(|name| object.function(name).is_some()) {
            for name in names_of(names()) {
                if let (Some((address, size)), Ok(name)) =
                    (object.function(&name), name.into_string())
                {
                    found.functions.push(Named { name, address, size, is_local: false });
                }
            }
        }
        // Tables of symbols can be wrong.
        let is_in_code = |it: &Named| {
            let is_in = |code: &Range<usize>| {
                code.contains(&it.address) && it.size <= code.end - it.address
            };
            found.code.iter().any(is_in)
        };
        found.functions.retain(is_in_code);
        if !found.functions.is_empty() {
            all.push(found);
        }
        None::<()>
    });
    all
}

static OWN: u8 = 0;

/// The functions in the table of symbols of the program's file, or of its debug file if it is stripped.
fn functions_of_program(base: usize, is_wanted: &impl Fn(&[u8]) -> bool) -> Vec<Named> {
    let wanted = |name: &[u8]| {
        let of = name.strip_suffix(COLD.as_bytes()).unwrap_or(name);
        is_wanted(of).then(|| String::from_utf8_lossy(name).into_owned())
    };
    let read = |path: &Path| -> Option<(Vec<Named>, Option<Vec<u8>>)> {
        let file = Mapped::open(path).ok()?;
        let found = functions(file.bytes(), wanted);
        let named = found.into_iter().map(|it| Named {
            name: it.wanted,
            address: base.wrapping_add(it.address as usize),
            size: it.size as usize,
            is_local: it.is_local,
        });
        Some((named.collect(), build_id(file.bytes()).map(<[u8]>::to_vec)))
    };
    let Some((found, id)) = read(Path::new("/proc/self/exe")) else { return Vec::new() };
    if !found.is_empty() {
        return found;
    }
    let Some((first, rest)) = id.as_deref().and_then(<[u8]>::split_first) else { return found };
    let mut path = format!("/usr/lib/debug/.build-id/{first:02x}/");
    for byte in rest {
        let _ = write!(path, "{byte:02x}");
    }
    path.push_str(".debug");
    read(Path::new(&path)).map_or(found, |(found, _)| found)
}

/// A file in memory.
struct Mapped {
    start: *mut c_void,
    bytes: usize,
}

impl Mapped {
    fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let bytes = file.metadata()?.len() as usize;
        // SAFETY: new pages, which only this value has.
        let start = unsafe {
            libc::mmap(
                ptr::null_mut(),
                bytes,
                libc::PROT_READ,
                libc::MAP_PRIVATE,
                file.as_raw_fd(),
                0,
            )
        };
        if start == libc::MAP_FAILED {
            Err(io::Error::last_os_error())
        } else {
            Ok(Self { start, bytes })
        }
    }

    fn bytes(&self) -> &[u8] {
        // NOTE: the kernel refuses to write to the file of a running program.
        // SAFETY: the pages are mapped until this value is dropped.
        unsafe { std::slice::from_raw_parts(self.start.cast(), self.bytes) }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: only this value knows the pages.
        unsafe { libc::munmap(self.start, self.bytes) };
    }
}

impl Named {
    fn code(&self) -> &[u8] {
        // SAFETY: the range is in code that the loader has mapped. It is changed only after it was read.
        unsafe { std::slice::from_raw_parts(ptr::with_exposed_provenance(self.address), self.size) }
    }

    /// Where it leads at once, if it does nothing else.
    pub(crate) fn leads_to(&self) -> Option<usize> {
        Room::leads_to(self.code(), self.address as u64).map(|address| address as usize)
    }

    /// The room for a jump at its start.
    pub(crate) fn room(&self) -> Result<Room, Refusal> {
        let room = Room::in_function(self.code(), self.address as u64)?;
        if room.calls() && has_shadow_stack() { Err(Refusal::Calls) } else { Ok(room) }
    }
}

impl Object {
    /// The places, in the order of their addresses, that code elsewhere may branch into, behind their start.
    ///
    /// PERF: of more code than 8 MiB, which takes some 8 ms, only the parts are looked at that a compiler has
    /// moved away from these functions.
    pub(crate) fn entered(&self, places: &[Range<u64>]) -> Vec<Range<u64>> {
        const MAX_CODE_BYTES: usize = 8 << 20;
        let is_all = self.code.iter().map(|code| code.len()).sum::<usize>() <= MAX_CODE_BYTES;
        let code = self.code.iter().filter(|_| is_all).cloned();
        let cold = self.functions.iter().filter(|it| it.name.ends_with(COLD));
        let cold = cold.map(|it| it.address..it.address + it.size);
        let entered = |target: u64| {
            let behind = places.partition_point(|place| place.end <= target);
            places.get(behind).filter(|place| place.start < target).cloned()
        };
        let of = |code: Range<usize>| {
            let start = ptr::with_exposed_provenance(code.start);
            // SAFETY: as above.
            let bytes = unsafe { std::slice::from_raw_parts::<u8>(start, code.len()) };
            branches(bytes, code.start as u64)
        };
        code.chain(cold).flat_map(of).filter_map(entered).collect()
    }
}

/// Pages near an object, for the instructions that are moved; and the jumps to them.
pub(crate) struct Pages {
    start: usize,
    bytes: usize,
    used: usize,
    jumps: Vec<(usize, [u8; JUMP])>,
}

/// The bytes that a function has in the pages at most.
const EACH: usize = 128;
const PAGE: usize = 4096;

impl Pages {
    /// Pages with room for this number of functions. They are below the object, because a program's heap
    /// grows above it.
    pub(crate) fn near((object, _): (usize, usize), functions: usize) -> io::Result<Self> {
        const STEP: usize = 64 << 10;
        /// What is in the object has to be within 2 GiB.
        const TRIES: usize = (1 << 30) / STEP;
        let bytes = (functions * EACH).next_multiple_of(PAGE);
        let below = (object & !(STEP - 1)).wrapping_sub(bytes.next_multiple_of(STEP));
        for try_number in 0..TRIES {
            let Some(wanted) = below.checked_sub(try_number * STEP).filter(|it| *it >= STEP) else {
                break;
            };
            let access = libc::PROT_READ | libc::PROT_WRITE;
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
            // SAFETY: new pages, where there are none.
            let start = unsafe {
                libc::mmap(ptr::without_provenance_mut(wanted), bytes, access, flags, -1, 0)
            };
            if start.expose_provenance() == wanted {
                return Ok(Self { start: wanted, bytes, used: 0, jumps: Vec::new() });
            }
            if start != libc::MAP_FAILED {
                // NOTE: before Linux 4.17, the address is only a wish.
                // SAFETY: the pages that were just made.
                unsafe { libc::munmap(start, bytes) };
            }
        }
        Err(io::Error::other("no free addresses are within 1 GiB of it"))
    }

    /// Where the moved instructions of the next function will be.
    pub(crate) fn next(&self) -> usize {
        self.start + self.used
    }

    /// Adds a function, whose calls will lead to `to` with `argument` in `r11`.
    pub(crate) fn add(&mut self, room: &Room, to: usize, argument: usize) -> Result<(), Refusal> {
        let original = self.next();
        let moved = room.moved_to(original as u64)?;
        let entrance = original + moved.len();
        let jump = jump(room.place().start, entrance as u64).ok_or(Refusal::Fixed)?;
        // Intel's manual, volume 2: `mov r11, imm64`; `jmp [rip]` with the address behind it.
        let mut code = moved;
        code.extend([0x49, 0xbb]);
        code.extend(argument.to_le_bytes());
        code.extend([0xff, 0x25, 0, 0, 0, 0]);
        code.extend(to.to_le_bytes());
        if code.len() > EACH || self.used + code.len() > self.bytes {
            return Err(Refusal::Fixed);
        }
        // SAFETY: the code fits into the pages, which only this value knows.
        unsafe {
            ptr::with_exposed_provenance_mut::<u8>(original)
                .copy_from_nonoverlapping(code.as_ptr(), code.len())
        };
        self.used += code.len().next_multiple_of(16);
        self.jumps.push((room.place().start as usize, jump));
        Ok(())
    }

    /// Makes the changes; all, or, if there is an error, none. Returns where the moved instructions are.
    pub(crate) fn make(self) -> io::Result<Range<usize>> {
        // SAFETY: only this value knows the pages.
        let made = unsafe {
            libc::mprotect(
                ptr::with_exposed_provenance_mut(self.start),
                self.bytes,
                libc::PROT_READ | libc::PROT_EXEC,
            )
        };
        if made != 0 {
            return Err(self.given_back(io::Error::last_os_error()));
        }
        let memory = match OpenOptions::new().read(true).write(true).open("/proc/self/mem") {
            Ok(memory) => memory,
            Err(error) => return Err(self.given_back(error)),
        };
        let mut before = Vec::<(u64, [u8; JUMP])>::new();
        for (address, jump) in &self.jumps {
            let mut old = [0_u8; JUMP];
            let written = memory
                .read_exact_at(&mut old, *address as u64)
                .and_then(|()| memory.write_all_at(jump, *address as u64));
            if let Err(error) = written {
                for (address, old) in &before {
                    // NOTE: what could be written to can be written to again.
                    let _ = memory.write_all_at(old, *address);
                }
                return Err(self.given_back(error));
            }
            before.push((*address as u64, old));
        }
        Ok(self.start..self.start + self.bytes)
    }

    fn given_back(&self, error: io::Error) -> io::Error {
        give_back(self.start..self.start + self.bytes);
        error
    }
}

pub(crate) fn give_back(pages: Range<usize>) {
    // SAFETY: nothing leads to them.
    unsafe { libc::munmap(ptr::with_exposed_provenance_mut(pages.start), pages.len()) };
}
