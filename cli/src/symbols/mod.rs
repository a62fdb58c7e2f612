//! The functions of addresses, from binaries and their debug information.
//!
//! `addr2line` reads the debug information. It was chosen by measurement: docs/stacks.md has the
//! table.

mod debuginfod;
mod dwarf;
mod object_file;
mod search;
mod symbol_table;

use crate::progress::Steps;
use crate::terminal::note;
use debuginfod::Debuginfod;
use dwarf::Dwarf;
use memledger::analysis::{Module, Report, SourceFrame, Symbolizer};
use object_file::ObjectFile;
use search::{Found, Search};
use std::collections::HashMap;
use std::path::PathBuf;
use symbol_table::SymbolTable;

/// Where a command finds the functions of a trace's addresses.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Symbols")]
pub struct SymbolArgs {
    /// A folder with binaries or debug information; may be given more than once
    #[arg(long = "symbols", value_name = "DIR")]
    pub folders: Vec<PathBuf>,
    /// Do not ask the servers in DEBUGINFOD_URLS for debug information
    #[arg(long)]
    pub no_debuginfod: bool,
}

/// The symbolizer of a command: it reads the binaries of the trace's modules when they are first
/// asked for, and notes on stderr why a module has no symbols.
pub fn for_trace(args: &SymbolArgs) -> Binaries {
    Binaries::new(args, Box::new(note))
}

/// Finds the functions of all frames of a report, if it has stacks.
pub fn symbolize(report: &mut Report, args: &SymbolArgs) {
    let addresses = report.frames.iter().filter(|frame| frame.module.is_some()).count();
    if addresses > 0 {
        let mut binaries = for_trace(args);
        binaries.expect(addresses as u64);
        report.symbolize(&mut binaries);
    }
}

/// Finds functions in binaries and their debug information.
pub struct Binaries {
    search: Search,
    modules: HashMap<(String, Vec<u8>), Option<Binary>>,
    /// What gets a sentence about each module without symbols.
    notes: Box<dyn FnMut(&str)>,
    progress: Steps,
}

/// The symbols of one module.
struct Binary {
    file: ObjectFile,
    dwarf: Option<Dwarf>,
    symbols: SymbolTable,
    /// A sentence has said that some of the debug information is damaged.
    is_damaged: bool,
}

impl Binaries {
    /// As [`for_trace`]; `notes` gets the sentences.
    pub fn new(args: &SymbolArgs, notes: Box<dyn FnMut(&str)>) -> Self {
        let servers = (!args.no_debuginfod).then(Debuginfod::from_environment).flatten();
        Self {
            search: Search::new(&args.folders, servers),
            modules: HashMap::new(),
            notes,
            progress: Steps::new("addresses"),
        }
    }

    /// Says how many addresses will be asked for, for the display of progress.
    pub fn expect(&mut self, addresses: u64) {
        self.progress.expect(addresses);
    }
}

impl Symbolizer for Binaries {
    fn frames(&mut self, module: &Module, offset: u64) -> Vec<SourceFrame> {
        self.progress.step();
        let Self { search, modules, notes, progress } = self;
        let key = (module.path.clone(), module.build_id.clone());
        let note = &mut |sentence: &str| progress.hidden(|| notes(sentence));
        let binary = modules.entry(key).or_insert_with(|| Binary::open(search, module, note));
        binary.as_mut().map_or_else(Vec::new, |binary| binary.frames(search, offset, note))
    }
}

impl Binary {
    /// Finds and reads the files of a module. If there is none, says why in one sentence.
    fn open(search: &mut Search, module: &Module, note: &mut dyn FnMut(&str)) -> Option<Self> {
        let Found { file, alt, package, refused } = search.find(module);
        let Some(file) = file else {
            // The kernel's code in every process has no file.
            if let Some(sentence) = refused.first() {
                note(&format!("{sentence}; its frames are the module and an offset"));
            } else if module.path.starts_with('/') {
                note(&format!(
                    "there is no file with the symbols of {}; its frames are the module and an offset",
                    module.path
                ));
            }
            return None;
        };
        let dwarf = file.has_dwarf().then(|| Dwarf::open(&file, alt.as_ref(), package.as_ref()));
        let dwarf = dwarf.and_then(|dwarf| {
            dwarf.inspect_err(|sentence| note(&format!("{sentence}; it is not used"))).ok()
        });
        if dwarf.is_none()
            && let Some(sentence) = refused.first()
        {
            note(&format!("{sentence}; there is no file and line"));
        }
        Some(Self { symbols: SymbolTable::read(&file), file, dwarf, is_damaged: false })
    }

    fn frames(
        &mut self,
        search: &Search,
        offset: u64,
        note: &mut dyn FnMut(&str),
    ) -> Vec<SourceFrame> {
        let Some(address) = self.file.linked_address(offset) else { return Vec::new() };
        let part = |written: PathBuf| search.part(&written, &self.file.path);
        let found = self.dwarf.as_ref().map(|dwarf| dwarf.frames(address, part));
        let frames = found.unwrap_or(Ok(Vec::new())).unwrap_or_else(|error| {
            if !std::mem::replace(&mut self.is_damaged, true) {
                note(&format!(
                    "the debug information of {} is damaged: {error}; some functions have no file and \
                     line",
                    self.file.path.display()
                ));
            }
            Vec::new()
        });
        let last = frames.len().saturating_sub(1);
        let mut frames: Vec<_> = (frames.into_iter().enumerate())
            .filter_map(|(at, frame)| {
                // Only the outermost function has a symbol of its own.
                let by_symbol = || (at == last).then(|| self.symbols.name(address)).flatten();
                let function = frame.function.or_else(by_symbol)?;
                Some(SourceFrame { function, file: frame.file, line: frame.line })
            })
            .collect();
        if frames.is_empty() {
            let function = self.symbols.name(address);
            frames.extend(function.map(|function| SourceFrame {
                function,
                file: None,
                line: None,
            }));
        }
        frames
    }
}
