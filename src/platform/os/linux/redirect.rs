//! Redirects functions of the running program: finds them in the objects that are loaded, and writes jumps at
//! their starts.
//!
//! The instructions that make room for a jump are moved to pages near the object. These are never writable
//! and executable at once, and the jumps are written through `/proc/self/mem`, as a debugger writes its
//! breakpoints: the code stays executable. Without `/proc`, the code can be written to for that moment. Where
//! the system forbids either (SELinux, `MemoryDenyWriteExecute`), nothing is changed.

use super::loaded::{Loaded, has_shadow_stack};
use super::{objects, program_file};
use memledger_redirect::{JUMP, branches, build_id, functions, jump};
pub(crate) use memledger_redirect::{Refusal, Room};
use std::ffi::{CString, c_void};
use std::fmt::Write;
use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::ptr;

/// The program or a library, with functions that are looked for.
pub(crate) struct Object {
    pub(crate) is_program: bool,
    /// From its first address to its end.
    pub(crate) addresses: (usize, usize),
    pub(crate) functions: Vec<Named>,
    /// The allocators in it whose names have a prefix of its own.
    pub(crate) renamed: Vec<Prefixed>,
    /// Its code, and where a compiler has put parts of these functions.
    code: Vec<Range<usize>>,
}

/// An allocator that may have a prefix before its names.
pub(crate) struct Renamed {
    /// The name of its first function, without the prefix, and those of others that are there, too.
    pub(crate) witness: &'static str,
    pub(crate) others: &'static [&'static str],
    /// What is in the place of the prefix in the names that are looked for.
    pub(crate) known_as: &'static str,
}

/// Such an allocator in an object.
pub(crate) struct Prefixed {
    pub(crate) allocator: &'static Renamed,
    /// The address of its first function.
    pub(crate) witness: usize,
}

/// A function.
#[derive(Clone)]
pub(crate) struct Symbol {
    pub(crate) name: String,
    pub(crate) address: usize,
    size: usize,
    /// See [`memledger_redirect::Function::is_local`].
    pub(crate) is_local: bool,
}

/// One that was looked for.
pub(crate) struct Named {
    symbol: Symbol,
    /// The name that was looked for: another one if its allocator has a prefix of its own.
    pub(crate) known_as: String,
    /// One more than the place of that allocator in [`Object::renamed`]; 0 otherwise.
    pub(crate) group: usize,
}

impl Symbol {
    fn unchanged(self) -> Named {
        Named { known_as: self.name.clone(), symbol: self, group: 0 }
    }
}

impl std::ops::Deref for Named {
    type Target = Symbol;

    fn deref(&self) -> &Symbol {
        &self.symbol
    }
}

/// What compilers append to the name of a function for the parts that rarely run.
const COLD: &str = ".cold";

/// What is looked for.
pub(crate) struct Wanted<'a> {
    /// In the program's file, functions of these names.
    pub(crate) is_wanted: &'a dyn Fn(&[u8]) -> bool,
    /// In a library, those for others with one of these names,
    pub(crate) names: &'a dyn Fn() -> Vec<String>,
    /// if it has one of these.
    pub(crate) witnesses: &'a [CString],
    /// In each of them, the same allocators with prefixes of their own.
    pub(crate) renamed: &'static [Renamed],
}

/// The objects that have functions of interest. With `since`, of the libraries that may be new.
pub(crate) fn objects(since: Option<&Loaded>, wanted: &Wanted<'_>) -> Vec<Object> {
    let own = (&raw const OWN).addr();
    let mut all = Vec::new();
    let mut is_program = true;
    objects::find(|object| {
        let is_program = std::mem::replace(&mut is_program, false);
        if since.is_some_and(|before| is_program || !before.may_lack(object)) {
            return None;
        }
        let code = object.code().map(|(start, bytes)| start..start + bytes).collect::<Vec<_>>();
        let addresses = object.addresses()?;
        let (functions, renamed) = (Vec::new(), Vec::new());
        let mut found = Object { is_program, addresses, functions, renamed, code };
        if is_program {
            found.look_in_file(object.base, wanted);
        } else if !object.has(own) {
            found.look_in_library(object, wanted);
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

impl Object {
    fn look_in_library(&mut self, library: &objects::Object<'_>, wanted: &Wanted<'_>) {
        let find = |name: &str| {
            let (address, size) = library.function(&CString::new(name).ok()?)?;
            Some(Symbol { name: name.to_owned(), address, size, is_local: false })
        };
        if wanted.witnesses.iter().any(|name| library.function(name).is_some()) {
            let names = (wanted.names)();
            let found = names.iter().filter_map(|name| find(name));
            self.functions.extend(found.map(Symbol::unchanged));
        }
        for allocator in wanted.renamed {
            for name in library.names_with_end(allocator.witness) {
                self.add_renamed(allocator, &name, wanted, find);
            }
        }
    }

    /// Looks in the table of symbols of the program's file, or of its debug file if it is stripped.
    fn look_in_file(&mut self, base: usize, wanted: &Wanted<'_>) {
        let Ok(Ok(file)) = program_file::open().map(|file| Mapped::new(&file)) else { return };
        self.look_in_symbols(base, file.bytes(), wanted);
        let id = build_id(file.bytes()).and_then(<[u8]>::split_first);
        if !self.functions.is_empty() {
            return;
        }
        let Some((first, rest)) = id else { return };
        let mut path = format!("/usr/lib/debug/.build-id/{first:02x}/");
        for byte in rest {
            let _ = write!(path, "{byte:02x}");
        }
        path.push_str(".debug");
        if let Ok(Ok(file)) = File::open(path).map(|file| Mapped::new(&file)) {
            self.look_in_symbols(base, file.bytes(), wanted);
        }
    }

    fn look_in_symbols(&mut self, base: usize, file: &[u8], wanted: &Wanted<'_>) {
        let read = |is_wanted: &dyn Fn(&[u8]) -> bool| {
            let named =
                |name: &[u8]| is_wanted(name).then(|| String::from_utf8_lossy(name).into_owned());
            let symbols = functions(file, named).into_iter().map(|it| Symbol {
                name: it.wanted,
                address: base.wrapping_add(it.address as usize),
                size: it.size as usize,
                is_local: it.is_local,
            });
            symbols.collect::<Vec<_>>()
        };
        let is_known =
            |name: &[u8]| (wanted.is_wanted)(name.strip_suffix(COLD.as_bytes()).unwrap_or(name));
        let allocator_of = |name: &[u8]| {
            wanted.renamed.iter().find(|allocator| name.ends_with(allocator.witness.as_bytes()))
        };
        let found = read(&|name| is_known(name) || allocator_of(name).is_some());
        let (known, witnesses): (Vec<_>, Vec<_>) =
            found.into_iter().partition(|it| is_known(it.name.as_bytes()));
        self.functions.extend(known.into_iter().map(Symbol::unchanged));
        for Symbol { name, .. } in witnesses {
            let Some(allocator) = allocator_of(name.as_bytes()) else { continue };
            let prefix = &name.as_bytes()[..name.len() - allocator.witness.len()];
            let symbols = read(&|name| name.starts_with(prefix));
            let find = |name: &str| symbols.iter().find(|it| it.name == name).cloned();
            self.add_renamed(allocator, &name, wanted, find);
        }
    }

    /// Adds an allocator whose first function has this name, if its others are there.
    fn add_renamed(
        &mut self,
        allocator: &'static Renamed,
        witness: &str,
        wanted: &Wanted<'_>,
        find: impl Fn(&str) -> Option<Symbol>,
    ) {
        let prefix = witness.strip_suffix(allocator.witness).unwrap_or_default();
        let is_known = prefix.is_empty() || (wanted.is_wanted)(witness.as_bytes());
        let has = |name: &str| find(&format!("{prefix}{name}")).is_some();
        let Some(Symbol { address: witness, .. }) = find(witness) else { return };
        if is_known || !allocator.others.iter().all(|name| has(name)) {
            return;
        }
        self.renamed.push(Prefixed { allocator, witness });
        let group = self.renamed.len();
        for name in (wanted.names)() {
            let Some(rest) = name.strip_prefix(allocator.known_as) else { continue };
            for end in ["", COLD] {
                if let Some(symbol) = find(&format!("{prefix}{rest}{end}")) {
                    let known_as = format!("{name}{end}");
                    self.functions.push(Named { symbol, known_as, group });
                }
            }
        }
    }
}

/// A file in memory.
struct Mapped {
    start: *mut c_void,
    bytes: usize,
}

impl Mapped {
    fn new(file: &File) -> io::Result<Self> {
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
        self.write(moved, to, argument)?;
        self.jumps.push((room.place().start as usize, jump));
        Ok(())
    }

    /// Adds a function that is called at an address of its own, which this returns, and stays as it is.
    pub(crate) fn add_entrance(&mut self, to: usize, argument: usize) -> Result<usize, Refusal> {
        let entrance = self.next();
        self.write(Vec::new(), to, argument)?;
        Ok(entrance)
    }

    /// Writes this code, and what leads to `to` with `argument` in `r11`.
    fn write(&mut self, mut code: Vec<u8>, to: usize, argument: usize) -> Result<(), Refusal> {
        // Intel's manual, volume 2: `mov r11, imm64`; `jmp [rip]` with the address behind it.
        code.extend([0x49, 0xbb]);
        code.extend(argument.to_le_bytes());
        code.extend([0xff, 0x25, 0, 0, 0, 0]);
        code.extend(to.to_le_bytes());
        if code.len() > EACH || self.used + code.len() > self.bytes {
            return Err(Refusal::Fixed);
        }
        // SAFETY: the code fits into the pages, which only this value knows.
        unsafe {
            ptr::with_exposed_provenance_mut::<u8>(self.next())
                .copy_from_nonoverlapping(code.as_ptr(), code.len())
        };
        self.used += code.len().next_multiple_of(16);
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
        let memory = OpenOptions::new().read(true).write(true).open("/proc/self/mem");
        let write = |bytes: &[u8; JUMP], address: u64| match &memory {
            Ok(memory) => memory.write_all_at(bytes, address),
            Err(_) => write_in_place(bytes, address as usize),
        };
        let mut before = Vec::<(u64, [u8; JUMP])>::new();
        for (address, jump) in &self.jumps {
            // SAFETY: the jump is in code, which can be read.
            let old = unsafe { ptr::with_exposed_provenance::<[u8; JUMP]>(*address).read() };
            if let Err(error) = write(jump, *address as u64) {
                for (address, old) in &before {
                    // NOTE: what could be written to can be written to again.
                    let _ = write(old, *address);
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

/// Writes to code that no thread executes.
///
/// NOTE: it stays executable meanwhile: a system that would refuse to make it so again, refuses this.
fn write_in_place(bytes: &[u8; JUMP], address: usize) -> io::Result<()> {
    let start = address & !(PAGE - 1);
    let size = (address + JUMP).next_multiple_of(PAGE) - start;
    let protect = |access| {
        // SAFETY: the pages are code, and stay so.
        let done = unsafe { libc::mprotect(ptr::with_exposed_provenance_mut(start), size, access) };
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    };
    protect(libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC)?;
    // SAFETY: the pages can be written to now, and nothing has a reference to code.
    unsafe { ptr::with_exposed_provenance_mut::<[u8; JUMP]>(address).write(*bytes) };
    protect(libc::PROT_READ | libc::PROT_EXEC)
}

pub(crate) fn give_back(pages: Range<usize>) {
    // SAFETY: nothing leads to them.
    unsafe { libc::munmap(ptr::with_exposed_provenance_mut(pages.start), pages.len()) };
}
