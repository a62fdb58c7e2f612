//! The functions of addresses, from binaries and their debug information.
//!
//! `addr2line` reads the debug information: of four symbolizers it was the fastest, with the fewest
//! dependencies. Its loader is not used: it finds no separate debug information. Nothing here takes a lock,
//! but the allocator's.
//!
//! ```text
//! search.rs        where the files of a module can be
//! object_file.rs   one file with code, and whether it is the right one
//! headers.rs       what its headers say: ELF, and, in pe.rs and macho.rs, those of Windows and macOS
//! dwarf.rs         its debug information
//! pdb/             that of Windows, in a file of its own
//! symbol_table.rs  its symbols
//! demangled.rs     names as their source has them
//! perf_map.rs      functions that a process has made at run time
//! ```

mod debug_frame;
mod debug_info;
mod demangled;
mod dwarf;
mod file_path;
mod headers;
#[cfg(any(target_os = "macos", feature = "read"))]
mod macho;
mod object_file;
#[cfg(any(windows, feature = "read"))]
mod pdb;
#[cfg(any(windows, feature = "read"))]
mod pe;
mod perf_map;
mod search;
mod symbol_table;

use crate::{CodeRange, FileStamp, Module, SourceFrame, Symbolizer};
use debug_frame::DebugFrame;
use debug_info::DebugInfo;
use demangled::with_path;
use object_file::ObjectFile;
use perf_map::PerfMap;
use search::{Found, Search};
use std::collections::HashMap;
use std::ops::Range;
use std::path::PathBuf;
use symbol_table::SymbolTable;

/// Finds functions in the binaries of modules and in their debug information, as
/// [docs/stacks.md](https://github.com/memledger/memledger/blob/main/docs/stacks.md#symbols) says. A
/// file of another build is refused.
///
/// A module's files are searched for and read when the first of its addresses is asked for. The sections that
/// are needed are read into memory, and stay there: up to the size of the file, and again as much.
///
/// # Examples
/// ```
/// use memledger_analysis::{Analyzer, Binaries};
///
/// let mut report = Analyzer::new().report();
/// let mut binaries = Binaries::new(&["target/debug-files".into()]);
/// report.symbolize(&mut binaries);
/// for note in binaries.take_notes() {
///     eprintln!("{note}");
/// }
/// ```
#[derive(Default)]
pub struct Binaries {
    search: Search,
    modules: HashMap<Key, Option<Binary>>,
    /// By process: the functions that it has made at run time.
    made: HashMap<u32, PerfMap>,
    notes: Vec<String>,
}

/// What identifies a file: its path, and its build id or its stamp.
type Key = (String, Vec<u8>, Option<FileStamp>);

fn key(module: &Module) -> Key {
    (module.path.clone(), module.build_id.clone(), module.stamp)
}

/// The files of one module.
struct Binary {
    file: ObjectFile,
    alt: Option<ObjectFile>,
    package: Option<ObjectFile>,
    /// Why files were not used.
    refused: Vec<String>,
    /// What is in them, once an address was asked for; `None` if it cannot be read.
    tables: Option<Option<Tables>>,
    /// See [`Binaries::fingerprint`].
    fingerprint: Option<String>,
    /// A sentence has said that some of the debug information is damaged.
    is_damaged: bool,
}

/// What the files of a module say of its addresses.
struct Tables {
    debug_info: Option<Box<dyn DebugInfo>>,
    symbols: SymbolTable,
}

impl Binaries {
    /// Searches `folders`, then the paths from which modules were loaded, then the system's folders.
    pub fn new(folders: &[PathBuf]) -> Self {
        Self { search: Search::new(folders), ..Self::default() }
    }

    /// Asks `fetch` for files that are not on this machine, by build id in hexadecimal, and by what
    /// is needed: `"debuginfo"` or `"executable"`, as a debuginfod server calls them. It returns
    /// the path of a file, `None` if there is none, or one sentence that says why it cannot.
    pub fn fetch_with(
        mut self,
        fetch: impl FnMut(&str, &str) -> Result<Option<PathBuf>, String> + 'static,
    ) -> Self {
        self.search.fetch_with(Box::new(fetch));
        self
    }

    /// What decides which functions a module has: the files that were found for it, with their sizes and
    /// times. As long as it is the same, each offset has the same functions, so they can be kept. `None` if
    /// they are not to be kept: there is no debug information, which alone takes long to read, or no build
    /// id; it is in parts (`.dwo`), of which each is searched for when it is needed; or a sentence has said
    /// that something is missing.
    ///
    /// Costs a search for the files, of which only the headers are read.
    pub fn fingerprint(&mut self, module: &Module) -> Option<String> {
        let Self { search, modules, notes, .. } = self;
        let binary = binary(modules, search, module, notes).as_ref()?;
        binary.fingerprint.clone().filter(|_| !module.build_id.is_empty())
    }

    /// The sentences since the last call: why modules have no symbols, or not all.
    pub fn take_notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }
}

impl std::fmt::Debug for Binaries {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let modules = self.modules.keys().map(|(path, ..)| path).collect::<Vec<_>>();
        f.debug_struct("Binaries").field("modules", &modules).finish_non_exhaustive()
    }
}

impl Symbolizer for Binaries {
    fn frames(&mut self, module: &Module, offset: u64) -> Vec<SourceFrame> {
        let Self { search, modules, notes, .. } = self;
        let binary = binary(modules, search, module, notes);
        binary.as_mut().map_or_else(Vec::new, |binary| binary.frames(search, module, offset, notes))
    }

    fn made_at_run_time(&mut self, pid: u32, address: u64) -> Vec<SourceFrame> {
        let map = self.made.entry(pid).or_default();
        let known = map.frame(address);
        let found = known.or_else(|| {
            map.update(pid);
            map.frame(address)
        });
        found.into_iter().collect()
    }

    fn variables(&mut self, module: &Module) -> Vec<(Range<u64>, String)> {
        let Self { search, modules, .. } = self;
        // What the notes say is about frames.
        let binary = binary(modules, search, module, &mut Vec::new());
        binary.as_ref().map_or_else(Vec::new, |binary| symbol_table::variables(&binary.file))
    }

    fn code(&mut self, module: &Module) -> Vec<CodeRange> {
        let Self { search, modules, notes, .. } = self;
        let binary = binary(modules, search, module, notes);
        binary.as_ref().map_or_else(Vec::new, |binary| binary.file.headers.code.clone())
    }
}

/// The files of a module, which are searched for at the first call.
fn binary<'a>(
    modules: &'a mut HashMap<Key, Option<Binary>>,
    search: &mut Search,
    module: &Module,
    notes: &mut Vec<String>,
) -> &'a mut Option<Binary> {
    modules.entry(key(module)).or_insert_with(|| Binary::open(search, module, notes))
}

impl Binary {
    /// Finds the files of a module. If there is none, says why in one sentence.
    fn open(search: &mut Search, module: &Module, notes: &mut Vec<String>) -> Option<Self> {
        let Found { file, alt, package, refused } = search.find(module);
        let Some(file) = file else {
            // The kernel's code in every process has no file.
            if let Some(sentence) = refused.first() {
                notes.push(format!("{sentence}; its frames are the module and an offset"));
            } else if module.path.starts_with('/') {
                notes.push(format!(
                    "there is no file with the symbols of {}; its frames are the module and an offset",
                    module.path
                ));
            }
            return None;
        };
        let files = [Some(&file), alt.as_ref(), package.as_ref()].into_iter().flatten();
        let states = files.map(ObjectFile::state).collect::<Option<Vec<_>>>();
        // NOTE: before they are read. A file that changes meanwhile has another state the next time.
        let fingerprint = states.filter(|_| file.has_debug_info()).map(|states| states.join("\n"));
        let (tables, is_damaged) = (None, false);
        Some(Self { file, alt, package, refused, tables, fingerprint, is_damaged })
    }

    /// Reads the files. Says in one sentence what is not there.
    fn read(
        &self,
        search: &mut Search,
        module: &Module,
        notes: &mut Vec<String>,
    ) -> Option<Tables> {
        let Self { file, alt, package, refused, .. } = self;
        // NOTE: the process would abort if memory ran out while they are read: the sections that are needed,
        // and as much again for the indices of them.
        let bytes = [Some(file), alt.as_ref(), package.as_ref()].into_iter().flatten();
        let bytes = bytes.fold(0_u64, |sum, file| sum.saturating_add(file.bytes()));
        let room = usize::try_from(bytes.saturating_mul(2)).unwrap_or(usize::MAX);
        if Vec::<u8>::new().try_reserve_exact(room).is_err() {
            if !std::mem::replace(&mut search.lacks_memory, true) {
                notes.push(format!(
                    "some functions of call stacks have no names: to read those of {} takes about {} MiB, \
                     and the system has no memory left",
                    module.path,
                    room >> 20
                ));
            }
            return None;
        }
        let opened =
            debug_info::open(file, alt.as_ref(), package.as_ref()).unwrap_or_else(|sentence| {
                notes.push(format!("{sentence}; it is not used"));
                None
            });
        let (debug_info, exported) = opened.unzip();
        let symbols = exported.flatten().unwrap_or_else(|| SymbolTable::read(file, notes));
        if debug_info.is_none() {
            match refused.first() {
                Some(sentence) => notes.push(format!("{sentence}; there is no file and line")),
                None if file.headers.pdb.is_some() && module.is_library() => {}
                None if symbols.is_empty() => notes.push(format!(
                    "{} has no symbols, because it was stripped; its frames are the module and an \
                     offset",
                    file.path.display()
                )),
                // Libraries are stripped as a rule, and their frames lead to who called them.
                None if !symbols.is_whole() && !module.is_library() => notes.push(format!(
                    "{} has the names of exported functions only, because it was stripped; its other frames are \
                     the module and an offset",
                    file.path.display()
                )),
                None => {}
            }
        }
        Some(Tables { debug_info, symbols })
    }

    fn frames(
        &mut self,
        search: &mut Search,
        module: &Module,
        offset: u64,
        notes: &mut Vec<String>,
    ) -> Vec<SourceFrame> {
        let Some(address) = self.file.linked_address(offset) else { return Vec::new() };
        let notes_before = notes.len();
        if self.tables.is_none() {
            self.tables = Some(self.read(search, module, notes));
        }
        let Some(Some(Tables { debug_info, symbols })) = &mut self.tables else {
            self.fingerprint = None;
            return Vec::new();
        };
        let mut is_in_parts = false;
        let mut part = |written: PathBuf| {
            is_in_parts = true;
            search.part(&written, &self.file.path)
        };
        let found = debug_info.as_mut().map(|debug_info| debug_info.frames(address, &mut part));
        let frames = found.unwrap_or(Ok(Vec::new())).unwrap_or_else(|error| {
            if !std::mem::replace(&mut self.is_damaged, true) {
                notes.push(format!(
                    "the debug information of {} is damaged: {error}; some functions have no file and \
                     line",
                    self.file.path.display()
                ));
            }
            Vec::new()
        });
        if is_in_parts || notes.len() > notes_before {
            self.fingerprint = None;
        }
        let mut frames = named(frames, || symbols.name(address));
        if frames.is_empty() {
            let function = symbols.name(address);
            frames.extend(function.map(|function| SourceFrame::new(function, None, None)));
        }
        frames
    }
}

/// The frames of an address, each with its function. Only the outermost one has a `symbol`.
fn named(found: Vec<DebugFrame>, symbol: impl Fn() -> Option<String>) -> Vec<SourceFrame> {
    let last = found.len().saturating_sub(1);
    (found.into_iter().enumerate())
        .filter_map(|(at, frame)| {
            let symbol = || (at == last).then(&symbol).flatten();
            let function = match frame.function {
                Some(name) if frame.file.as_ref().is_some_and(|file| file.ends_with(".rs")) => {
                    with_path(name, symbol)
                }
                name => name.or_else(symbol)?,
            };
            Some(SourceFrame::new(function, frame.file, frame.line))
        })
        .collect()
}
