//! The functions of call stacks, found once each.

use crate::symbols::CachedSymbols;
use memledger_analysis::{Binaries, Report};
use std::path::PathBuf;

/// Finds functions, and keeps what it has found: the same frames come with each refresh.
pub struct Functions {
    symbols: CachedSymbols,
    note: Option<String>,
}

impl Functions {
    /// Also looks for files with debug information in these folders.
    pub fn new(folders: &[PathBuf]) -> Self {
        Self { symbols: CachedSymbols::new(Binaries::new(folders)), note: None }
    }

    /// Finds the functions of a report.
    pub fn find(&mut self, report: &mut Report) {
        report.symbolize(&mut self.symbols);
        self.symbols.save();
        if let Some(note) = self.symbols.take_notes().into_iter().next() {
            self.note.get_or_insert(note);
        }
    }

    /// Why some functions have no names, if that is so.
    pub fn note(&self) -> Option<String> {
        self.note.clone()
    }
}
