//! The functions that were found, kept: in memory for all modules, and in a folder for the next command for
//! those with a build id and debug information.
//!
//! Addresses are kept, not all functions of a binary: what is kept is small, and the first command does not
//! wait for functions that are not needed. A program that runs again allocates at the same places, so nearly
//! all addresses are known the second time.

use super::table::{Found, Table};
use crate::cache::{Cache, VARIABLE};
use memledger_analysis::{Binaries, CodeRange, FileStamp, Module, SourceFrame, Symbolizer};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Read, Write as _};
use std::ops::Range;
use std::path::PathBuf;
use std::time::SystemTime;

/// The end of the name of a file.
const SUFFIX: &str = ".functions";
/// The largest file, which takes some million addresses.
const MAX_BYTES: u64 = 64 << 20;

/// Finds each function once.
pub struct CachedSymbols {
    binaries: Binaries,
    modules: HashMap<Key, ModuleSymbols>,
    folder: Option<Folder>,
    notes: Vec<String>,
}

/// What identifies a file: its path, and its build id or its stamp.
type Key = (String, Vec<u8>, Option<FileStamp>);

/// What is known of a module.
#[derive(Default)]
struct ModuleSymbols {
    /// From the folder.
    table: Option<Table>,
    /// Found since.
    found: Found,
}

impl ModuleSymbols {
    fn get(&self, offset: u64) -> Option<Vec<SourceFrame>> {
        self.found.get(&offset).cloned().or_else(|| self.table.as_ref()?.get(offset))
    }
}

impl CachedSymbols {
    /// Keeps what `binaries` finds in the folder that the environment names, or in the user's cache folder.
    pub fn new(binaries: Binaries) -> Self {
        let folder = Folder::from_environment();
        Self { binaries, modules: HashMap::new(), folder, notes: Vec::new() }
    }

    /// Writes what was found since the last call into the folder.
    pub fn save(&mut self) {
        let Some(folder) = &self.folder else { return };
        let mut has_added = false;
        for ((path, build_id, stamp), known) in &mut self.modules {
            if known.found.is_empty() {
                continue;
            }
            let mut module = Module::new(path.clone(), 0, 0, build_id.clone());
            module.stamp = *stamp;
            let Some(fingerprint) = self.binaries.fingerprint(&module) else { continue };
            match folder.add(build_id, &fingerprint, &known.found) {
                Ok(table) => *known = ModuleSymbols { table: Some(table), found: Found::new() },
                Err(error) => {
                    if folder.is_named {
                        let path = folder.path.display();
                        let sentence = format!(
                            "{VARIABLE} is {path}, where no functions can be stored: {error}"
                        );
                        self.notes.push(sentence);
                    }
                    self.folder = None;
                    return;
                }
            }
            has_added = true;
        }
        if let Some(cache) = Cache::from_environment().filter(|_| has_added) {
            cache.trim();
        }
    }

    /// The sentences since the last call: why modules have no symbols, or why none are kept.
    pub fn take_notes(&mut self) -> Vec<String> {
        let mut notes = self.binaries.take_notes();
        notes.append(&mut self.notes);
        notes
    }
}

impl Drop for CachedSymbols {
    fn drop(&mut self) {
        self.save();
    }
}

impl Symbolizer for CachedSymbols {
    fn frames(&mut self, module: &Module, offset: u64) -> Vec<SourceFrame> {
        let Self { binaries, modules, folder, .. } = self;
        let key = (module.path.clone(), module.build_id.clone(), module.stamp);
        let known = modules.entry(key).or_insert_with(|| {
            let load =
                |folder: &Folder| folder.load(&module.build_id, &binaries.fingerprint(module)?);
            ModuleSymbols { table: folder.as_ref().and_then(load), found: Found::new() }
        });
        known.get(offset).unwrap_or_else(|| {
            let frames = binaries.frames(module, offset);
            known.found.insert(offset, frames.clone());
            frames
        })
    }

    fn made_at_run_time(&mut self, pid: u32, address: u64) -> Vec<SourceFrame> {
        self.binaries.made_at_run_time(pid, address)
    }

    fn variables(&mut self, module: &Module) -> Vec<(Range<u64>, String)> {
        self.binaries.variables(module)
    }

    fn code(&mut self, module: &Module) -> Vec<CodeRange> {
        self.binaries.code(module)
    }
}

/// A folder with a file for each build id.
struct Folder {
    path: PathBuf,
    /// The user has named it, so it matters whether it can be used.
    is_named: bool,
}

impl Folder {
    fn from_environment() -> Option<Self> {
        let cache = Cache::from_environment()?;
        Some(Self { path: cache.symbols(), is_named: cache.is_named })
    }

    fn file(&self, build_id: &[u8]) -> PathBuf {
        let mut name = String::new();
        for byte in build_id {
            let _ = write!(name, "{byte:02x}");
        }
        self.path.join(name + SUFFIX)
    }

    /// What is kept of the binary with this build id.
    fn load(&self, build_id: &[u8], fingerprint: &str) -> Option<Table> {
        let path = self.file(build_id);
        // NOTE: before it is opened. To open a pipe would wait for a writer.
        fs::metadata(&path).ok().filter(fs::Metadata::is_file)?;
        let file = File::open(path).ok()?;
        let mut bytes = Vec::new();
        (&file).take(MAX_BYTES).read_to_end(&mut bytes).ok()?;
        let table = Table::open(bytes, fingerprint)?;
        // The files that were not used for the longest time are removed first. Without it, the oldest are.
        let _ = file.set_modified(SystemTime::now());
        Some(table)
    }

    /// Adds functions to those that are kept. What another command adds at the same time can be lost, and is
    /// found again.
    fn add(&self, build_id: &[u8], fingerprint: &str, found: &Found) -> io::Result<Table> {
        let mut all = self.load(build_id, fingerprint).map(|table| table.all()).unwrap_or_default();
        all.extend(found.iter().map(|(offset, frames)| (*offset, frames.clone())));
        let table = Table::new(fingerprint, &all).ok_or(io::ErrorKind::FileTooLarge)?;
        let size = table.bytes().len() as u64;
        if size >= MAX_BYTES {
            return Ok(table);
        }
        fs::create_dir_all(&self.path)?;
        // It has the suffix, so that it is removed with the others if this process is killed.
        let mut file =
            tempfile::Builder::new().prefix(".").suffix(SUFFIX).tempfile_in(&self.path)?;
        file.write_all(table.bytes())?;
        file.persist(self.file(build_id)).map_err(|error| error.error)?;
        Ok(table)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_added_stays_with_what_was_there() {
        let folder = tempfile::tempdir().unwrap();
        let folder = Folder { path: folder.path().join("new"), is_named: true };
        let found =
            |offset, name: &str| Found::from([(offset, vec![SourceFrame::new(name, None, None)])]);
        folder.add(&[1], "files", &found(1, "one")).unwrap();
        folder.add(&[1], "files", &found(2, "two")).unwrap();
        folder.add(&[2], "files", &found(3, "three")).unwrap();
        let all = |id: u8, files| folder.load(&[id], files).map(|table| table.all());
        assert_eq!(all(1, "files").unwrap().into_keys().collect::<Vec<_>>(), [1, 2]);
        assert!(all(1, "other files").is_none() && all(3, "files").is_none());
        folder.add(&[1], "other files", &found(4, "four")).unwrap();
        assert_eq!(all(1, "other files").unwrap(), found(4, "four"));
    }

    /// The second time, they are read from the folder: nothing is found in the PDB file.
    #[test]
    fn functions_of_a_pdb_file_are_kept() {
        let samples =
            concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/samples/windows/small-rust.pdb");
        let guid = b"\x3d\xda\xc3\xc8\x18\xd7\xb5\xf2\x4c\x4c\x44\x20PDB.\x01\0\0\0";
        let module = Module::new("C:\\x\\small-rust.exe".to_owned(), 0, 0, guid.to_vec());
        let folder = tempfile::tempdir().unwrap();
        fs::copy(samples, folder.path().join("small-rust.pdb")).unwrap();
        let frames = || {
            let kept = Folder { path: folder.path().join("kept"), is_named: true };
            let binaries = Binaries::new(&[folder.path().to_owned()]);
            let (modules, notes) = (HashMap::new(), Vec::new());
            let mut symbols = CachedSymbols { binaries, modules, folder: Some(kept), notes };
            let frames = symbols.frames(&module, 0x1012);
            let found: usize = symbols.modules.values().map(|known| known.found.len()).sum();
            assert_eq!(symbols.take_notes(), [""; 0]);
            (frames, found)
        };
        let (first, found) = frames();
        assert_eq!((first.len(), found), (4, 1));
        assert_eq!(frames(), (first, 0));
    }
}
