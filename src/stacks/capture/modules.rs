//! The modules: the program, its libraries and the vDSO. Outside the hook.
//!
//! The list is the system's, not that of the loader (`dl_iterate_phdr`): a thread in `dlopen` can hold the
//! loader's lock while it waits for room in its buffers, which only the worker makes. It is read again
//! each second, and in the first cycle after the loader has changed its own. A change gives the list a
//! new generation, and all that threads remember is forgotten.
//!
//! The hook compares how many libraries the loader has unloaded with the number when the list was read.
//! If they differ, any address can belong to another library, so a stack ends at the first frame in a
//! library that can be unloaded.

use super::lookup::{self, Rows};
use super::processor::{Code, Packed};
use super::rule::Rule;
use super::unwind_information;
use crate::platform::os::{self, FileId, LoadedFile, Memory, loaded_files};
use crate::stacks::tree;
use std::collections::HashMap;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A module at the addresses where it is, or was, loaded.
struct Module {
    path: String,
    base: u64,
    size: u64,
    build_id: Vec<u8>,
    stamp: [u64; 2],
}

/// Its path, its build id or stamp, and its size.
type File = (String, Vec<u8>, [u64; 2], u64);

struct Modules {
    instances: Vec<(Module, u16)>,
    /// Which instance is loaded at a base, and from which file.
    loaded: HashMap<u64, (FileId, usize)>,
    /// The rows, which a file that is loaded again shares.
    rows: HashMap<File, &'static Rows>,
    /// The codes of the rules that are not common.
    uncommon: HashMap<Packed, Code>,
    changes: Vec<InstanceChange>,
    /// The end of the stacks when the list was last read.
    stacks: u32,
    /// Whether the list had changed when it was last read.
    has_changed: bool,
}

/// A change of the list of modules.
#[derive(Clone, Copy)]
struct InstanceChange {
    /// The index of the instance.
    index: usize,
    /// Whether it was loaded or unloaded.
    is_loaded: bool,
    /// Stacks with lower numbers were taken before.
    stacks: u32,
}

static MODULES: Mutex<Option<Modules>> = Mutex::new(None);

fn lock() -> MutexGuard<'static, Option<Modules>> {
    MODULES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A change of the list of modules.
#[derive(Debug)]
pub(crate) enum Change {
    /// A module was loaded.
    Loaded { base: u64, size: u64, path: String, build_id: Vec<u8>, stamp: [u64; 2] },
    /// The module at this address was unloaded.
    Unloaded { base: u64 },
}

/// The changes after the first `visited`, each with the number up to which stacks were taken before
/// it: these are in the modules that were loaded until then.
pub(crate) fn changes_after(visited: usize) -> Vec<(u32, Change)> {
    let modules = lock();
    let changes = modules.iter().flat_map(|modules| {
        modules.changes.iter().skip(visited).filter_map(|change| {
            let (Module { path, base, size, build_id, stamp }, _) =
                modules.instances.get(change.index)?;
            let (path, build_id, stamp) = (path.clone(), build_id.clone(), *stamp);
            let loaded = Change::Loaded { base: *base, size: *size, path, build_id, stamp };
            let unloaded = Change::Unloaded { base: *base };
            Some((change.stacks, if change.is_loaded { loaded } else { unloaded }))
        })
    });
    changes.collect()
}

/// Forgets the modules that were unloaded. Requires that no stack refers to them.
pub(crate) fn forget_unloaded() {
    if let Some(modules) = &mut *lock() {
        let mut loaded: Vec<_> = modules.loaded.values().map(|(_, index)| *index).collect();
        loaded.sort_unstable();
        let change = |index| InstanceChange { index, is_loaded: true, stacks: 0 };
        modules.changes = loaded.into_iter().map(change).collect();
        modules.stacks = 0;
    }
}

/// See [`os::loader_state`].
pub(crate) fn loader_state() -> Option<u64> {
    os::loader_state(&Memory::open().ok()?)
}

/// Reads the list of modules again; makes tables for those that are new.
///
/// # Errors
/// The system does not say. Then the modules that are known already stay.
pub(crate) fn refresh() -> io::Result<()> {
    let memory = Memory::open()?;
    let mut modules = lock();
    let (loads, unloads) = (os::loads(), os::unloads());
    let modules = modules.get_or_insert_with(|| Modules {
        instances: Vec::new(),
        loaded: HashMap::new(),
        rows: HashMap::new(),
        uncommon: HashMap::from([
            (Packed::new(Rule::None), Code::NONE),
            (Packed::new(Rule::FramePointer), Code::FRAME_POINTER),
        ]),
        changes: Vec::new(),
        stacks: 0,
        has_changed: false,
    });
    let is_known =
        |base, file: &FileId| modules.loaded.get(&base).is_some_and(|(loaded, _)| loaded == file);
    let (new, all) = loaded_files(&memory, is_known)?;
    let (changes, now) = (modules.changes.len(), tree::end());
    let before = std::mem::replace(&mut modules.stacks, now);
    let gone = modules.take_gone(|base, file| all.get(&base) != Some(file));
    modules.unload(now, &gone);
    // What the stacks since the last call have in no module is in the new ones; but if one was unloaded
    // meanwhile, they can be in that.
    let is_all = gone.is_empty() && lookup::is_listed(unloads);
    for file in new {
        let Some(id) = all.get(&file.base) else { continue };
        modules.load(if is_all { before } else { now }, &memory, file, id.clone());
    }
    let had_changed = std::mem::replace(&mut modules.has_changed, modules.changes.len() != changes);
    // NOTE: twice. While a thread that has looked through the old list takes its answer back, another
    // one can remember it.
    if modules.has_changed || had_changed {
        lookup::forget_known();
    }
    lookup::set_listed(loads, unloads);
    Ok(())
}

impl Modules {
    /// Removes the instances that are gone; returns their indexes.
    fn take_gone(&mut self, is_gone: impl Fn(u64, &FileId) -> bool) -> Vec<usize> {
        let gone = self.loaded.extract_if(|base, (file, _)| is_gone(*base, file));
        gone.map(|(_, (_, index))| index).collect()
    }

    fn unload(&mut self, stacks: u32, gone: &[usize]) {
        for index in gone {
            let Some((_, number)) = self.instances.get(*index) else { continue };
            lookup::set_loaded(*number, None);
            self.changes.push(InstanceChange { index: *index, is_loaded: false, stacks });
        }
    }

    fn load(&mut self, stacks: u32, memory: &Memory, file: LoadedFile, id: FileId) {
        let known = self.instances.iter().position(|(module, _)| {
            (&module.path, module.base, module.size) == (&file.path, file.base, file.size)
                && (&module.build_id, module.stamp) == (&file.build_id, file.stamp)
        });
        let index = match known {
            Some(index) => {
                let (module, number) = &self.instances[index];
                lookup::set_loaded(*number, Some(module.size));
                index
            }
            None => {
                let rows = self.rows_of(memory, &file);
                let is_lasting = os::is_lasting(file.base.wrapping_sub(file.linked_base));
                let name = file.path.rsplit('/').next().unwrap_or_default();
                if name.trim_start_matches("lib").starts_with("python") {
                    lookup::set_has_python();
                }
                let added = lookup::add(file.base, file.size, rows, is_lasting);
                let Some(number) = added else { return };
                let LoadedFile { path, base, size, build_id, stamp, .. } = file;
                self.instances.push((Module { path, base, size, build_id, stamp }, number));
                self.instances.len() - 1
            }
        };
        self.changes.push(InstanceChange { index, is_loaded: true, stacks });
        let base = self.instances[index].0.base;
        self.loaded.insert(base, (id, index));
    }

    fn rows_of(&mut self, memory: &Memory, file: &LoadedFile) -> &'static Rows {
        let key = (file.path.clone(), file.build_id.clone(), file.stamp, file.size);
        if let Some(rows) = self.rows.get(&key) {
            return rows;
        }
        let (mut starts, mut codes) = (Vec::new(), Vec::new());
        for (address, rule) in unwind_information::of_file(memory, file) {
            let Ok(offset) = u32::try_from(address.wrapping_sub(file.linked_base)) else {
                continue;
            };
            starts.push(offset);
            codes.push(self.code_of(rule));
        }
        let rows = Rows::new(starts.leak(), codes.leak());
        let rows: &'static Rows = Box::leak(Box::new(rows));
        self.rows.insert(key, rows);
        rows
    }

    /// The code of a rule; that of [`Rule::None`] if the table of uncommon rules is full.
    fn code_of(&mut self, rule: Packed) -> Code {
        Code::of_common(rule.rule()).unwrap_or_else(|| {
            let index = self.uncommon.len();
            *self
                .uncommon
                .entry(rule)
                .or_insert_with(|| Code::of_uncommon(rule, index).unwrap_or(Code::NONE))
        })
    }
}
