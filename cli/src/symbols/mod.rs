//! The functions of addresses: the library's `Binaries`, with `--symbols`, debuginfod and a progress
//! bar.

mod debuginfod;

use crate::progress::Steps;
use crate::terminal::note;
use debuginfod::Debuginfod;
use memledger::analysis::{Binaries, Module, Report, SourceFrame, Symbolizer};
use std::path::PathBuf;

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

/// Finds the functions of all frames of a report that have none. Notes on stderr why a module has no
/// symbols, and shows the progress.
pub fn symbolize(report: &mut Report, args: &SymbolArgs) {
    let in_modules = report.frames.iter().filter(|frame| frame.module.is_some());
    let missing = in_modules.filter(|frame| frame.functions.is_empty()).count();
    if missing > 0 {
        let mut symbolizer = WithProgress::new(args);
        symbolizer.progress.expect(missing as u64);
        report.symbolize(&mut symbolizer);
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
        Self { binaries, progress: Steps::new("addresses") }
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
}
