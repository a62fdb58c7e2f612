//! The program and its libraries, as the loader lists them.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ops::Range;
use std::ptr;

const DT_STRTAB: u64 = 5;
const DT_SYMTAB: u64 = 6;

/// The program or a library.
pub(super) struct Object<'a> {
    /// How far it is from where it was linked.
    pub(super) base: usize,
    /// The numbers of objects that the loader has loaded and unloaded.
    #[allow(dead_code, reason = "only `loads.rs` needs it")]
    pub(super) counts: (u64, u64),
    /// The name under which the loader lists it, empty for the program. Valid as long as the object is
    /// loaded.
    #[allow(dead_code, reason = "not everywhere needed")]
    pub(super) name: *const c_char,
    headers: &'a [libc::Elf64_Phdr],
    /// Its thread-local memory in this thread, null if this has none yet.
    #[allow(dead_code, reason = "only the library of `preload/` asks for it")]
    thread_memory: *const c_void,
}

impl Object<'_> {
    /// The addresses and sizes of its parts of one type (`PT_LOAD`, `PT_NOTE`).
    pub(super) fn parts(&self, part_type: u32) -> impl Iterator<Item = (usize, usize)> {
        let headers = self.headers.iter().filter(move |header| header.p_type == part_type);
        headers.map(|header| {
            (self.base.wrapping_add(header.p_vaddr as usize), header.p_memsz as usize)
        })
    }

    pub(super) fn has(&self, address: usize) -> bool {
        self.parts(libc::PT_LOAD).any(|(start, bytes)| address.wrapping_sub(start) < bytes)
    }

    /// From the first address of what is loaded of it to its end.
    #[cfg(all(c_mmap, not(target_feature = "crt-static")))]
    pub(super) fn addresses(&self) -> Option<(usize, usize)> {
        let end = self.parts(libc::PT_LOAD).map(|(start, bytes)| start + bytes).max();
        self.parts(libc::PT_LOAD).map(|(start, _)| start).min().zip(end)
    }

    /// The address of a function or variable that it defines for others.
    pub(super) fn defined(&self, name: &CStr) -> Option<usize> {
        self.symbol(name).map(|symbol| self.base.wrapping_add(symbol.st_value as usize))
    }

    /// The same with its size in bytes.
    #[allow(dead_code, reason = "only `loads.rs` needs it")]
    pub(super) fn variable(&self, name: &CStr) -> Option<(usize, usize)> {
        let symbol = self.symbol(name)?;
        Some((self.base.wrapping_add(symbol.st_value as usize), symbol.st_size as usize))
    }

    /// The address and size of a function that it defines for others.
    #[cfg(redirects)]
    pub(super) fn function(&self, name: &CStr) -> Option<(usize, usize)> {
        const STT_FUNC: u8 = 2;
        let symbol = self.symbol(name).filter(|symbol| symbol.st_info & 15 == STT_FUNC)?;
        Some((self.base.wrapping_add(symbol.st_value as usize), symbol.st_size as usize))
    }

    /// The names in its table that end with this text, each in full.
    #[cfg(redirects)]
    pub(super) fn names_with_end(&self, end: &str) -> Vec<String> {
        const DT_STRSZ: u64 = 10;
        let mut all = Vec::new();
        let (Some(start), Some(bytes)) = (self.table(DT_STRTAB), self.entry(DT_STRSZ)) else {
            return all;
        };
        // SAFETY: the loader itself reads this table, in which each name ends with a NUL.
        let names =
            unsafe { std::slice::from_raw_parts::<u8>(ptr::with_exposed_provenance(start), bytes) };
        let mut rest = names;
        // PERF: searched as bytes, not text by text: most names end otherwise.
        while let Some(at) = position(rest, end.as_bytes()) {
            let stop = names.len() - rest.len() + at + end.len();
            rest = &names[stop..];
            if rest.first() == Some(&0) {
                let start =
                    names[..stop].iter().rposition(|byte| *byte == 0).map_or(0, |nul| nul + 1);
                all.push(String::from_utf8_lossy(&names[start..stop]).into_owned());
            }
        }
        all
    }

    /// Its parts with code that can be read.
    #[cfg(redirects)]
    pub(super) fn code(&self) -> impl Iterator<Item = (usize, usize)> {
        const READABLE_CODE: u32 = libc::PF_R | libc::PF_X;
        let is_code = |header: &&libc::Elf64_Phdr| {
            header.p_type == libc::PT_LOAD && header.p_flags & READABLE_CODE == READABLE_CODE
        };
        let parts = self.headers.iter().filter(is_code);
        parts.map(|part| (self.base.wrapping_add(part.p_vaddr as usize), part.p_filesz as usize))
    }

    /// What its dynamic section has for a tag, of the numbers `DT_*` of `elf.h`.
    fn entry(&self, tag: u64) -> Option<usize> {
        let (start, bytes) = self.parts(libc::PT_DYNAMIC).next()?;
        let entries = ptr::with_exposed_provenance::<[u64; 2]>(start);
        // SAFETY: the loader itself reads this table.
        let mut entries = (0..bytes / 16).map(|at| unsafe { entries.add(at).read() });
        Some(entries.find(|[found, _]| *found == tag)?[1] as usize)
    }

    /// The address of a table of its dynamic section.
    fn table(&self, tag: u64) -> Option<usize> {
        let address = self.entry(tag)?;
        // The loader has put addresses in, where the section can be written to.
        Some(if address < self.base { self.base.wrapping_add(address) } else { address })
    }

    /// Calls `look` with the name of each function and variable that it takes from other objects, and where
    /// it has the address.
    #[cfg(redirects)]
    pub(super) fn imports(&self, mut look: impl FnMut(&CStr, usize)) {
        const DT_PLTRELSZ: u64 = 2;
        const DT_RELA: u64 = 7;
        const DT_RELASZ: u64 = 8;
        const DT_JMPREL: u64 = 23;
        /// A pointer in the program's data, a slot for a variable or a function, one for the calls of a
        /// function.
        const KINDS: [u64; 3] = [1, 6, 7];
        let (Some(names), Some(symbols)) = (self.table(DT_STRTAB), self.table(DT_SYMTAB)) else {
            return;
        };
        for (table, bytes) in [(DT_RELA, DT_RELASZ), (DT_JMPREL, DT_PLTRELSZ)] {
            let (Some(table), Some(bytes)) = (self.table(table), self.entry(bytes)) else {
                continue;
            };
            for at in 0..bytes / size_of::<[u64; 3]>() {
                // SAFETY: the loader itself reads these tables; names end with a NUL.
                unsafe {
                    let relocations = ptr::with_exposed_provenance::<[u64; 3]>(table);
                    let [offset, info, _] = relocations.add(at).read();
                    let symbol = ptr::with_exposed_provenance::<libc::Elf64_Sym>(symbols);
                    let symbol = &*symbol.add((info >> 32) as usize);
                    if KINDS.contains(&(info & 0xffff_ffff)) && symbol.st_shndx == 0 {
                        let name = names + symbol.st_name as usize;
                        let name = CStr::from_ptr(ptr::with_exposed_provenance(name));
                        look(name, self.base.wrapping_add(offset as usize));
                    }
                }
            }
        }
    }

    /// Where `size` bytes that fit are in its code: the address after the first ones from `near` on, or of
    /// all.
    #[cfg(redirects)]
    pub(super) fn in_code(
        &self,
        near: usize,
        size: usize,
        fits: impl Fn(&[u8]) -> bool,
    ) -> Option<usize> {
        let find = |(start, bytes): (usize, usize)| {
            let code = ptr::with_exposed_provenance::<u8>(start);
            // SAFETY: the loader has mapped it, readable.
            let code = unsafe { std::slice::from_raw_parts(code, bytes) };
            code.windows(size).position(&fits).map(|at| start + at + size)
        };
        let rest = self.code().filter(|(start, bytes)| near.wrapping_sub(*start) < *bytes);
        let rest = rest.map(|(start, bytes)| (near, start + bytes - near));
        rest.chain(self.code()).find_map(find)
    }

    /// What it defines for others under a name, by the table of GNU's form. On AArch64, the kernel's object
    /// has only the older one.
    fn symbol(&self, name: &CStr) -> Option<&libc::Elf64_Sym> {
        match self.table(DT_GNU_HASH) {
            Some(hashes) => self.first_of(numbers_by_hash(hashes, name)?, name),
            None => self.first_of(self.all_numbers()?, name),
        }
    }

    /// The first of the symbols with these numbers that it defines under a name.
    fn first_of(
        &self,
        mut numbers: impl Iterator<Item = usize>,
        name: &CStr,
    ) -> Option<&libc::Elf64_Sym> {
        let (names, symbols) = (self.table(DT_STRTAB)?, self.table(DT_SYMTAB)?);
        numbers.find_map(|number| {
            // SAFETY: the loader itself reads these tables; names end with a NUL.
            let (symbol, its_name) = unsafe {
                let symbol = ptr::with_exposed_provenance::<libc::Elf64_Sym>(symbols);
                let symbol = &*symbol.add(number);
                let at = ptr::with_exposed_provenance(names + symbol.st_name as usize);
                (symbol, CStr::from_ptr(at))
            };
            (its_name == name && symbol.st_shndx != 0).then_some(symbol)
        })
    }

    /// The numbers of its symbols, by its older table: the second word is how many there are.
    fn all_numbers(&self) -> Option<Range<usize>> {
        const DT_HASH: u64 = 4;
        let table = ptr::with_exposed_provenance::<u32>(self.table(DT_HASH)?);
        // SAFETY: the loader itself reads this table.
        Some(1..unsafe { table.add(1).read() } as usize)
    }
}

/// Where a text is in others.
#[cfg(redirects)]
fn position(all: &[u8], text: &[u8]) -> Option<usize> {
    // SAFETY: the function reads these bytes.
    let found =
        unsafe { libc::memmem(all.as_ptr().cast(), all.len(), text.as_ptr().cast(), text.len()) };
    (!found.is_null()).then(|| found.addr() - all.as_ptr().addr())
}

const DT_GNU_HASH: u64 = 0x6fff_fef5;

/// The numbers of the symbols that a table of GNU's form (<https://flapenguin.me/elf-dt-gnu-hash>) has for
/// the hash of a name.
fn numbers_by_hash(table: usize, name: &CStr) -> Option<impl Iterator<Item = usize>> {
    // SAFETY: the loader itself reads this table.
    let word =
        move |at: usize| unsafe { ptr::with_exposed_provenance::<u32>(table).add(at).read() };
    let hash = name
        .to_bytes()
        .iter()
        .fold(5381_u32, |hash, byte| hash.wrapping_mul(33).wrapping_add(u32::from(*byte)));
    let [buckets, first, filters] = [0, 1, 2].map(|at| word(at) as usize);
    // Before the buckets are four words, and filters of two.
    let buckets_at = 4 + 2 * filters;
    let in_bucket = word(buckets_at + (hash as usize).checked_rem(buckets)?) as usize;
    let hashes_at = (buckets_at + buckets).wrapping_sub(first);
    // A bucket is a row of symbols; the last one's hash is odd. An empty bucket has 0.
    let mut is_over = in_bucket < first.max(1);
    let row = (in_bucket..).map_while(move |number| {
        if is_over {
            return None;
        }
        let found = word(hashes_at.wrapping_add(number));
        is_over = found & 1 == 1;
        Some((number, found))
    });
    Some(row.filter(move |(_, found)| found | 1 == hash | 1).map(|(number, _)| number))
}

/// This library, which stays loaded. Not the loader's lock is taken, but by the first call.
#[cfg(redirects)]
pub(super) fn own() -> Option<&'static Object<'static>> {
    use std::sync::OnceLock;

    struct Own(Object<'static>);
    // SAFETY: nothing changes of what the loader has of a library.
    unsafe impl Send for Own {}
    // SAFETY: as above.
    unsafe impl Sync for Own {}

    static OWN: OnceLock<Option<Own>> = OnceLock::new();
    let look = || {
        find(|object| {
            // SAFETY: the headers are part of the library.
            let headers = || unsafe {
                std::slice::from_raw_parts(object.headers.as_ptr(), object.headers.len())
            };
            let is_own = object.has((&raw const OWN).addr());
            is_own.then(|| Own(Object { headers: headers(), ..*object }))
        })
    };
    OWN.get_or_init(look).as_ref().map(|own| &own.0)
}

/// What the kernel itself maps into each process, with functions that need no system call ("man 7 vdso");
/// `None` if there is none.
pub(super) fn of_kernel() -> Option<Object<'static>> {
    // SAFETY: asks for a number.
    let start = unsafe { libc::getauxval(libc::AT_SYSINFO_EHDR) } as usize;
    let header = ptr::with_exposed_provenance::<libc::Elf64_Ehdr>(start);
    // SAFETY: the kernel has mapped an ELF file there, whose headers are behind the first one.
    let headers = unsafe {
        let header = header.as_ref()?;
        let headers = ptr::with_exposed_provenance(start + header.e_phoff as usize);
        std::slice::from_raw_parts::<libc::Elf64_Phdr>(headers, usize::from(header.e_phnum))
    };
    let first = headers.iter().find(|header| header.p_type == libc::PT_LOAD)?;
    Some(Object {
        base: start - first.p_vaddr as usize,
        counts: (0, 0),
        name: c"".as_ptr(),
        headers,
        thread_memory: ptr::null(),
    })
}

/// *Hook, once.* Whether every thread has the thread-local memory of this library from its start.
#[cfg(preload)]
pub(crate) fn has_static_thread_memory() -> bool {
    use std::sync::atomic::{AtomicU8, Ordering};
    const UNKNOWN: u8 = 0;
    const NO: u8 = 1;
    const YES: u8 = 2;
    static KNOWN: AtomicU8 = AtomicU8::new(UNKNOWN);
    if KNOWN.load(Ordering::Relaxed) == UNKNOWN {
        // NOTE: the answer is that of the first call, which is before any use.
        let own = (&raw const KNOWN).addr();
        let memory = find(|object| object.has(own).then_some(object.thread_memory));
        let is_there = memory.is_some_and(|memory| !memory.is_null());
        KNOWN.store(if is_there { YES } else { NO }, Ordering::Relaxed);
    }
    KNOWN.load(Ordering::Relaxed) == YES
}

/// The first result of `look`, which is called for each object, the program first. It must not unwind.
///
/// NOTE: the loader holds its locks meanwhile. They are recursive: it also holds them while a library's first
/// functions run, and lets those load libraries.
pub(super) fn find<R, F: FnMut(&Object<'_>) -> Option<R>>(look: F) -> Option<R> {
    struct Search<R, F> {
        look: F,
        found: Option<R>,
    }

    unsafe extern "C" fn visit<R, F: FnMut(&Object<'_>) -> Option<R>>(
        info: *mut libc::dl_phdr_info,
        _: libc::size_t,
        search: *mut c_void,
    ) -> c_int {
        // SAFETY: `info` is the loader's description of an object; `search` is the local passed below.
        let (info, search) = unsafe { (&*info, &mut *search.cast::<Search<R, F>>()) };
        // SAFETY: there are `dlpi_phnum` headers at this address, mapped as long as the object is.
        let headers =
            unsafe { std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
        let object = Object {
            base: info.dlpi_addr as usize,
            counts: (info.dlpi_adds, info.dlpi_subs),
            name: info.dlpi_name,
            headers,
            thread_memory: info.dlpi_tls_data,
        };
        search.found = (search.look)(&object);
        c_int::from(search.found.is_some())
    }

    let mut search = Search { look, found: None };
    // SAFETY: the function has the required form, and the loader calls it only before it returns.
    unsafe { libc::dl_iterate_phdr(Some(visit::<R, F>), (&raw mut search).cast()) };
    search.found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_tables_of_symbols_have_the_same() {
        let mut both = 0;
        find(|object| -> Option<()> {
            let (hashes, all) = (object.table(DT_GNU_HASH)?, object.all_numbers()?);
            for name in [c"printf", c"getpid", c"memledger_no_such_function"] {
                let by_hash = numbers_by_hash(hashes, name).unwrap();
                let found = object.first_of(by_hash, name).map(ptr::from_ref);
                assert_eq!(object.first_of(all.clone(), name).map(ptr::from_ref), found);
                both += i32::from(found.is_some());
            }
            None
        });
        assert!(both == 2 || both == 0, "{both}: not each C library has both tables");
    }
}
