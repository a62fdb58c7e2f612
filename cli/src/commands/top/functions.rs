//! The functions of call stacks, found once each.

use memledger_analysis::{Binaries, Module, Report, SourceFrame, Symbolizer};
use std::collections::HashMap;
use std::path::PathBuf;

/// Finds functions, and keeps what it has found: the same frames come with each refresh.
pub struct Functions {
    binaries: Binaries,
    known: HashMap<Module, HashMap<u64, Vec<SourceFrame>>>,
    note: Option<String>,
}

impl Functions {
    /// Looks into these folders, too, for files with debug information.
    pub fn new(folders: &[PathBuf]) -> Self {
        Self { binaries: Binaries::new(folders), known: HashMap::new(), note: None }
    }

    /// Finds the functions of a report.
    pub fn find(&mut self, report: &mut Report) {
        report.symbolize(self);
    }

    /// Why some functions have no names, if that is so.
    pub fn note(&self) -> Option<String> {
        self.note.clone()
    }
}

impl Symbolizer for Functions {
    fn frames(&mut self, module: &Module, offset: u64) -> Vec<SourceFrame> {
        if let Some(found) = self.known.get(module).and_then(|frames| frames.get(&offset)) {
            return found.clone();
        }
        let found = self.binaries.frames(module, offset);
        if let Some(note) = self.binaries.take_notes().into_iter().next() {
            self.note.get_or_insert(note);
        }
        self.known.entry(module.clone()).or_default().insert(offset, found.clone());
        found
    }

    fn made_at_run_time(&mut self, pid: u32, address: u64) -> Vec<SourceFrame> {
        self.binaries.made_at_run_time(pid, address)
    }
}
