//! The functions of addresses: the library's `Binaries`, with `--symbols`, debuginfod and a progress
//! bar.

mod debuginfod;

use crate::progress::Steps;
use crate::terminal::note;
use debuginfod::Debuginfod;
use memledger_analysis::{Binaries, CodeRange, Module, Report, SourceFrame, Symbolizer};
use rustc_hash::FxHashMap;
use std::path::PathBuf;

/// What the progress is counted in.
const UNIT: &str = "addresses";

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
            symbolizer.progress = Steps::new(UNIT);
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
        symbolizer.progress.expect(missing(old).max(missing(new)));
        new.symbolize(&mut symbolizer);
        old.symbolize(&mut Known::of(new, symbolizer));
    }
}

/// How many addresses have no function yet, those of code made at run time among them.
fn missing(report: &Report) -> u64 {
    report.frames.iter().filter(|frame| frame.functions.is_empty()).count() as u64
}

/// Knows the functions of a report, and asks another symbolizer for those of other addresses.
struct Known<'a, S> {
    report: &'a Report,
    /// By module and offset, the index of a frame.
    frames: FxHashMap<(usize, u64), usize>,
    other: S,
}

impl<'a, S> Known<'a, S> {
    fn of(report: &'a Report, other: S) -> Self {
        let frames = report.frames.iter().enumerate();
        let frames = frames.filter_map(|(at, frame)| Some(((frame.module?, frame.offset), at)));
        Self { report, frames: frames.collect(), other }
    }
}

impl<S: Symbolizer> Symbolizer for Known<'_, S> {
    fn frames(&mut self, module: &Module, offset: u64) -> Vec<SourceFrame> {
        let is_same = |of: &Module| (&of.path, &of.build_id) == (&module.path, &module.build_id);
        let number = self.report.modules.iter().position(is_same);
        match number.and_then(|number| self.frames.get(&(number, offset))) {
            Some(&frame) => self.report.frames[frame].functions.clone(),
            None => self.other.frames(module, offset),
        }
    }

    fn made_at_run_time(&mut self, pid: u32, address: u64) -> Vec<SourceFrame> {
        self.other.made_at_run_time(pid, address)
    }

    fn code(&mut self, module: &Module) -> Vec<CodeRange> {
        self.other.code(module)
    }
}

/// The symbolizer of a command, which does not know how many addresses it will be asked for.
pub fn symbolizer(args: &SymbolArgs) -> impl Symbolizer + use<> {
    WithProgress::new(args)
}

/// The symbolizer of a command.
struct WithProgress {
    binaries: Binaries,
    progress: Steps,
}

impl WithProgress {
    fn new(args: &SymbolArgs) -> Self {
        let mut binaries = Binaries::new(&args.folders);
        let servers = (!args.no_debuginfod).then(Debuginfod::from_environment).flatten();
        if let Some(mut servers) = servers {
            binaries = binaries.fetch_with(move |id, kind| servers.fetch(id, kind));
        }
        Self { binaries, progress: Steps::new(UNIT) }
    }
}

impl Symbolizer for WithProgress {
    fn frames(&mut self, module: &Module, offset: u64) -> Vec<SourceFrame> {
        self.progress.step();
        let frames = self.binaries.frames(module, offset);
        for sentence in self.binaries.take_notes() {
            self.progress.hidden(|| note(&sentence));
        }
        frames
    }

    fn made_at_run_time(&mut self, pid: u32, address: u64) -> Vec<SourceFrame> {
        self.progress.step();
        self.binaries.made_at_run_time(pid, address)
    }

    fn code(&mut self, module: &Module) -> Vec<CodeRange> {
        self.binaries.code(module)
    }
}
