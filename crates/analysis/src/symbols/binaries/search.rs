//! Where the files with the symbols of a module are.

use super::file_path::path_of_module;
use super::object_file::{ObjectFile, hex};
use crate::Module;
use memledger_document::internal::sort;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

/// Where distributions install debug information.
const SYSTEM: &str = "/usr/lib/debug";

/// Folders within a folder of `--symbols` are searched up to this depth.
const DEPTH: usize = 16;
/// At most this number of files of a folder of `--symbols` are known.
const MAX_FILES: usize = 1 << 20;

/// A folder of `--symbols`, with any layout.
struct Folder {
    /// The files by name. Made when first needed.
    by_name: HashMap<OsString, Vec<PathBuf>>,
    /// The files by build id. Made when no file has the right name.
    by_build_id: Option<HashMap<Vec<u8>, Vec<PathBuf>>>,
}

impl Folder {
    fn read(root: &Path) -> Self {
        let mut by_name: HashMap<_, Vec<_>> = HashMap::new();
        let (mut folders, mut count) = (vec![(root.to_owned(), 0)], 0);
        while let Some((folder, depth)) = folders.pop() {
            let mut entries: Vec<_> =
                fs::read_dir(&folder).into_iter().flatten().flatten().collect();
            sort::by_key(&mut entries, fs::DirEntry::file_name);
            for entry in entries {
                let path = entry.path();
                // NOTE: a link to a folder is not followed, because it can lead back.
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    if depth < DEPTH {
                        folders.push((path, depth + 1));
                    }
                } else if count < MAX_FILES {
                    count += 1;
                    by_name.entry(entry.file_name()).or_default().push(path);
                }
            }
        }
        Self { by_name, by_build_id: None }
    }

    fn named(&self, name: &OsStr) -> Vec<PathBuf> {
        self.by_name.get(name).cloned().unwrap_or_default()
    }

    fn with_build_id(&mut self, build_id: &[u8]) -> Vec<PathBuf> {
        let by_name = &self.by_name;
        let by_build_id = self.by_build_id.get_or_insert_with(|| {
            let mut found: HashMap<_, Vec<_>> = HashMap::new();
            let mut paths: Vec<_> = by_name.values().flatten().cloned().collect();
            paths.sort();
            for file in paths.iter().filter_map(|path| ObjectFile::open(path).ok()) {
                found.entry(file.headers.build_id).or_default().push(file.path);
            }
            found
        });
        by_build_id.get(build_id).cloned().unwrap_or_default()
    }
}

/// The files of one module.
#[derive(Default)]
pub(super) struct Found {
    /// The file with the debug information, or else the one with symbols only.
    pub(super) file: Option<ObjectFile>,
    /// What its debug information shares with that of other files.
    pub(super) alt: Option<ObjectFile>,
    /// The package of its split debug information.
    pub(super) package: Option<ObjectFile>,
    /// Why files were not used.
    pub(super) refused: Vec<String>,
}

/// Finds the files of modules.
#[derive(Default)]
pub(super) struct Search {
    folders: Vec<Folder>,
    fetch: Option<Fetch>,
    /// A sentence has said that files that were found do not fit into memory.
    pub(super) lacks_memory: bool,
    /// A sentence has said that a library has no PDB file.
    lacks_pdb_of_library: bool,
}

/// Gets the file with this build id in hexadecimal; see [`Binaries::fetch_with`](super::Binaries).
type Fetch = Box<dyn FnMut(&str, &str) -> Result<Option<PathBuf>, String>>;

impl Search {
    /// Searches `folders` first, then where the trace says, then the system's folders.
    pub(super) fn new(folders: &[PathBuf]) -> Self {
        let folders = folders.iter().map(|folder| Folder::read(folder)).collect();
        Self { folders, ..Self::default() }
    }

    /// Asks `fetch` last.
    pub(super) fn fetch_with(&mut self, fetch: Fetch) {
        self.fetch = Some(fetch);
    }

    /// Finds the file with the most to say about a module: debug information, or else symbols.
    pub(super) fn find(&mut self, module: &Module) -> Found {
        let mut found = Found::default();
        for path in self.local(module) {
            consider(&path, module, &mut found);
            if found.file.as_ref().is_some_and(ObjectFile::has_debug_info) {
                break;
            }
        }
        if let Some(file) = found.file.take_if(|file| !file.has_debug_info()) {
            let refused = &mut found.refused;
            let other = self.linked(&file, module, refused);
            found.file = other.or_else(|| self.pdb(&file, module, refused)).or(Some(file));
        }
        self.fetch(module, &mut found);
        if let Some(file) = &found.file {
            found.alt = self.alt(file, &mut found.refused);
            found.package = self.package(file, module);
        }
        found
    }

    /// The files that can be on this machine, those with debug information first.
    fn local(&mut self, module: &Module) -> Vec<PathBuf> {
        let path = path_of_module(module);
        let (by_id, build_id) = (by_build_id(&module.build_id), &module.build_id);
        let pdb = has_pdb(&path).then(|| path.with_extension("pdb"));
        let mut paths = Vec::new();
        for folder in &mut self.folders {
            let start = paths.len();
            if let Some(by_id) = by_id.as_ref().and_then(|path| path.file_name()) {
                paths.extend(folder.named(by_id));
            }
            if let Some(name) = path.file_name() {
                paths.extend(folder.named(&appended(name, ".debug")));
                paths.extend(
                    pdb.iter().filter_map(|pdb| pdb.file_name()).flat_map(|n| folder.named(n)),
                );
                paths.extend(folder.named(name));
            }
            let is_it = |path: &PathBuf| {
                ObjectFile::open(path).is_ok_and(|file| file.check(module).is_ok())
            };
            if !build_id.is_empty() && !paths[start..].iter().any(is_it) {
                paths.extend(folder.with_build_id(build_id));
            }
        }
        // A path that is not absolute names no file: `linux-vdso.so.1`.
        let dsym = path.file_name().map(|name| {
            let bundle = PathBuf::from(appended(path.as_os_str(), ".dSYM"));
            bundle.join("Contents/Resources/DWARF").join(name)
        });
        paths.extend(
            [pdb, dsym, Some(path)].into_iter().flatten().filter(|path| path.is_absolute()),
        );
        paths.extend(by_id.map(|by_id| Path::new(SYSTEM).join(by_id)));
        paths
    }

    /// The PDB file that `file` names: in a folder, beside it, or where the linker has written it.
    ///
    /// NOTE: if it is not there, only the first library gets a sentence: programs have dozens of Windows.
    fn pdb(
        &mut self,
        file: &ObjectFile,
        module: &Module,
        refused: &mut Vec<String>,
    ) -> Option<ObjectFile> {
        let written = file.headers.pdb.as_ref()?;
        let name = written.file_name()?;
        let mut paths: Vec<_> = self.folders.iter().flat_map(|f| f.named(name)).collect();
        paths.extend(file.path.parent().map(|folder| folder.join(name)));
        paths.extend(Some(written.clone()).filter(|path| path.is_absolute()));
        let mut found = Found::default();
        for path in paths {
            consider(&path, module, &mut found);
        }
        if found.file.is_none() && found.refused.is_empty() && refused.is_empty() {
            let is_library = module.is_library();
            let is_said = is_library && std::mem::replace(&mut self.lacks_pdb_of_library, true);
            let others =
                if is_library { " (those of other libraries may also be missing)" } else { "" };
            let (path, written) = (file.path.display(), written.display());
            let sentence =
                format!("the functions of {path} are in {written}, which is not there{others}");
            refused.extend((!is_said).then_some(sentence));
        }
        refused.append(&mut found.refused);
        found.file
    }

    /// The file that `.gnu_debuglink` of `file` names, if it has debug information.
    fn linked(
        &mut self,
        file: &ObjectFile,
        module: &Module,
        refused: &mut Vec<String>,
    ) -> Option<ObjectFile> {
        let (name, crc) = file.headers.debug_link.as_ref()?;
        let name = name.file_name()?;
        let mut paths: Vec<_> = self.folders.iter().flat_map(|f| f.named(name)).collect();
        if let Some(folder) = file.path.parent() {
            paths.extend([folder.join(name), folder.join(".debug").join(name)]);
            let below_root = folder.strip_prefix("/").unwrap_or(folder);
            paths.push(Path::new(SYSTEM).join(below_root).join(name));
        }
        paths.into_iter().filter(|path| path.is_file() && *path != file.path).find_map(|path| {
            let other = ObjectFile::open(&path).ok().filter(ObjectFile::has_debug_info)?;
            // The build id decides. Files without one have only the CRC.
            let refusal = match (other.check(module), other.crc()) {
                (Err(sentence), _) if !other.headers.build_id.is_empty() => sentence,
                (_, Ok(actual)) if actual == *crc => return Some(other),
                (_, Ok(actual)) => format!(
                    "{} is not the debug information of {}: its CRC is {actual:08x} instead of \
                     {crc:08x}",
                    path.display(),
                    file.path.display()
                ),
                (_, Err(error)) => format!("{} cannot be read: {error}", path.display()),
            };
            refused.push(refusal);
            None
        })
    }

    fn fetch(&mut self, module: &Module, found: &mut Found) {
        let Some(fetch) = &mut self.fetch else { return };
        if module.build_id.is_empty() || found.file.as_ref().is_some_and(ObjectFile::has_debug_info)
        {
            return;
        }
        for kind in ["debuginfo", "executable"] {
            // The executable has no more than the file that is here.
            if kind == "executable" && found.file.is_some() {
                break;
            }
            match fetch(&hex(&module.build_id), kind) {
                Ok(Some(path)) => consider(&path, module, found),
                Ok(None) => {}
                Err(sentence) => found.refused.push(sentence),
            }
        }
    }

    /// The file that `.gnu_debugaltlink` names.
    fn alt(&mut self, file: &ObjectFile, refused: &mut Vec<String>) -> Option<ObjectFile> {
        let (path, build_id) = file.headers.alt_link.as_ref()?;
        let beside = file.path.parent().map(|folder| folder.join(path));
        let mut paths: Vec<_> = (self.folders.iter())
            .flat_map(|folder| folder.named(path.file_name().unwrap_or_default()))
            .chain(beside)
            .chain(by_build_id(build_id).map(|path| Path::new(SYSTEM).join(path)))
            .collect();
        let is_it = |path: &PathBuf| {
            ObjectFile::open(path).ok().filter(|file| file.headers.build_id == *build_id)
        };
        if let Some(found) = paths.iter().find_map(is_it) {
            return Some(found);
        }
        let fetched = self.fetch.as_mut().map(|fetch| fetch(&hex(build_id), "debuginfo"));
        paths = fetched.into_iter().flatten().flatten().collect();
        let found = paths.iter().find_map(is_it);
        if found.is_none() {
            refused.push(format!(
                "{} needs {} with the build id {}, which is not there: some functions have no names",
                file.path.display(),
                path.display(),
                hex(build_id)
            ));
        }
        found
    }

    /// The package of split debug information: beside the file, beside the module, or in a folder.
    fn package(&self, file: &ObjectFile, module: &Module) -> Option<ObjectFile> {
        let module = path_of_module(module);
        let name = appended(module.file_name()?, ".dwp");
        let beside = [&file.path, &module].map(|path| appended(path.as_os_str(), ".dwp").into());
        let mut paths = self.folders.iter().flat_map(|folder| folder.named(&name)).chain(beside);
        paths.find_map(|path: PathBuf| ObjectFile::open(&path).ok())
    }

    /// One part of split debug information: where the compiler put it, beside the file, or in a folder.
    pub(super) fn part(&self, written: &Path, beside: &Path) -> Option<ObjectFile> {
        let name = written.file_name()?;
        let mut paths = vec![written.to_owned()];
        paths.extend(beside.parent().map(|folder| folder.join(name)));
        paths.extend(self.folders.iter().flat_map(|folder| folder.named(name)));
        paths.into_iter().find_map(|path| ObjectFile::open(&path).ok())
    }
}

/// Takes the file at `path` if it is the module's and has more than what is found so far.
fn consider(path: &Path, module: &Module, found: &mut Found) {
    if !path.is_file() {
        return;
    }
    match ObjectFile::open(path).and_then(|file| file.check(module).map(|()| file)) {
        Ok(file) if found.file.is_none() || file.has_debug_info() => found.file = Some(file),
        Ok(_) => {}
        Err(sentence) => found.refused.push(sentence),
    }
}

/// Whether a file with this name can have a PDB file.
fn has_pdb(path: &Path) -> bool {
    path.extension()
        .is_some_and(|ending| ["exe", "dll"].iter().any(|it| ending.eq_ignore_ascii_case(it)))
}

/// `.build-id/xx/yyyy.debug`
fn by_build_id(build_id: &[u8]) -> Option<PathBuf> {
    let text = hex(build_id);
    let (folder, name) = text.split_at_checked(2)?;
    Some(Path::new(".build-id").join(folder).join(format!("{name}.debug")))
}

fn appended(name: &OsStr, ending: &str) -> OsString {
    let mut name = name.to_owned();
    name.push(ending);
    name
}
