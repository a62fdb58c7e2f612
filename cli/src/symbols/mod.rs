//! The functions of addresses: the library's `Binaries`, with `--symbols`, debuginfod, a progress bar, and a
//! folder in which functions are kept for the next command.

mod debuginfod;
mod kept;
mod table;

pub use kept::CachedSymbols;

use crate::progress::Steps;
use crate::terminal::note;
use debuginfod::Debuginfod;
use memledger_analysis::{Binaries, CodeRange, Module, Report, SourceFrame, Symbolizer};
use std::ops::Range;
use std::path::PathBuf;

/// What the progress is counted in.
const UNIT: &str = "addresses";

/// Where a command finds the functions of a trace's addresses.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Symbols")]
pub struct SymbolArgs {
    /// Search this folder for binaries and debug information; repeatable
    #[arg(long = "symbols", value_name = "DIR")]
    pub folders: Vec<PathBuf>,
    /// Do not ask the servers in DEBUGINFOD_URLS for debug information
    #[arg(long)]
    pub no_debuginfod: bool,
}

/// Finds the functions of reports, one after the other: what was read for one is kept for the next, and a
/// sentence about a file comes once.
pub struct Symbols<'a> {
    args: &'a SymbolArgs,
    /// Made when a report needs it.
    symbolizer: Option<WithProgress>,
}

impl<'a> Symbols<'a> {
    pub fn new(args: &'a SymbolArgs) -> Self {
        Self { args, symbolizer: None }
    }

    /// Finds the functions of all frames of a report that have none. Notes on stderr why a module has no
    /// symbols, and shows the progress.
    pub fn find(&mut self, report: &mut Report) {
        let missing = missing(report);
        if missing > 0 {
            let symbolizer = self.symbolizer.get_or_insert_with(|| WithProgress::new(self.args));
            symbolizer.progress.expect(missing);
            report.symbolize(symbolizer);
            symbolizer.end_report();
        }
    }
}

/// Finds the functions of one report, as [`Symbols::find`] does.
pub fn symbolize(report: &mut Report, args: &SymbolArgs) {
    Symbols::new(args).find(report);
}

/// The same for two reports, which have most addresses in common if they are of one program.
pub fn symbolize_both([old, new]: [&mut Report; 2], args: &SymbolArgs) {
    if missing(old) + missing(new) > 0 {
        let mut symbolizer = WithProgress::new(args);
        symbolizer.progress.expect(missing(old) + missing(new));
        new.symbolize(&mut symbolizer);
        old.symbolize(&mut symbolizer);
    }
}

/// How many addresses have no function yet, those of code made at run time among them, and how many files
/// have static variables without a name.
fn missing(report: &Report) -> u64 {
    let frames = report.frames.iter().filter(|frame| frame.functions.is_empty());
    let files = report.static_variables.iter().filter(|variable| variable.name.is_none());
    (frames.count() + files.count()) as u64
}

/// The symbolizer of a command.
pub struct WithProgress {
    symbols: CachedSymbols,
    progress: Steps,
}

impl WithProgress {
    /// It does not know how many addresses it will be asked for.
    pub fn new(args: &SymbolArgs) -> Self {
        let mut binaries = Binaries::new(&args.folders);
        let servers = (!args.no_debuginfod).then(Debuginfod::from_environment).flatten();
        if let Some(mut servers) = servers {
            binaries = binaries.fetch_with(move |id, kind| servers.fetch(id, kind));
        }
        Self { symbols: CachedSymbols::new(binaries), progress: Steps::new(UNIT) }
    }

    /// No more addresses come for now: removes the progress, and keeps what was found.
    pub fn end_report(&mut self) {
        self.progress = Steps::new(UNIT);
        self.symbols.save();
        self.print_notes();
    }

    fn print_notes(&mut self) {
        for sentence in self.symbols.take_notes() {
            self.progress.hidden(|| note(&sentence));
        }
    }
}

impl Symbolizer for WithProgress {
    fn frames(&mut self, module: &Module, offset: u64) -> Vec<SourceFrame> {
        self.progress.step(&module.path);
        let frames = self.symbols.frames(module, offset);
        self.print_notes();
        frames
    }

    fn made_at_run_time(&mut self, pid: u32, address: u64) -> Vec<SourceFrame> {
        self.progress.step("code made at run time");
        self.symbols.made_at_run_time(pid, address)
    }

    fn variables(&mut self, module: &Module) -> Vec<(Range<u64>, String)> {
        self.symbols.variables(module)
    }

    fn code(&mut self, module: &Module) -> Vec<CodeRange> {
        self.symbols.code(module)
    }
}
