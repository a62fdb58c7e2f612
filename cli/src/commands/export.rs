//! `memledger export`: the same trace in another format.

use super::completeness::damaged;
use super::input::{display_name, is_stdin, open, open_watched, unreadable};
use super::output::{unwritable, write_to};
use super::report::Sort;
use crate::error::{CliError, Outcome};
use crate::symbols::{self, SymbolArgs};
use memledger::Error;
use memledger::analysis::Analyzer;
use memledger::dump::{FORMATS, text};
use memledger::trace::convert::convert;
use memledger::trace::format::Transport;
use memledger::trace::read::read;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  memledger export run.memledger --to utrace -o run.utrace     for Unreal Insights
  memledger export run.utrace --to memledger -o run.memledger  a fraction of the size
  memledger export run.memledger --to folded -o - | inferno-flamegraph > run.svg
  zstdcat run.utrace.zst | memledger export - --to memledger -o run.memledger

Both formats hold the same stream of events; a trace can be turned from one into the other and back.
Of a damaged trace all packets that can be read are written. folded has a line for each call stack,
outermost function first, and a number: the bytes live at the peak, or the --column.";

/// Arguments of `memledger export`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct ExportArgs {
    /// The trace; - for standard input
    trace: PathBuf,
    /// The format
    #[arg(long, value_enum, value_name = "FORMAT")]
    to: To,
    /// The file to write; - for standard output
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    /// For folded: what is counted
    #[arg(long, value_enum, default_value = "at-peak")]
    column: Sort,
    /// For folded: frames of the standard library and of allocation machinery, too
    #[arg(long)]
    all_frames: bool,
    #[command(flatten)]
    symbols: SymbolArgs,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum To {
    /// The plain Unreal Trace stream, which Unreal's own tools read
    Utrace,
    /// The same in compact packets
    Memledger,
    /// Call stacks for flame graphs, one line each
    Folded,
}

/// Reads the trace and writes it in the other format to the file of `-o`, or to `out`.
pub fn run(args: &ExportArgs, out: &mut dyn Write) -> Result<Outcome, CliError> {
    if !is_stdin(&args.output) && is_same(&args.trace, &args.output) {
        return Err(CliError::Usage(format!(
            "{} is what is read: it cannot be written as well",
            args.output.display()
        )));
    }
    let to = match args.to {
        To::Utrace => Transport::Unreal,
        To::Memledger => Transport::Compact,
        To::Folded => return folded(args, out),
    };
    if is_stdin(&args.output) && io::stdout().is_terminal() {
        return Err(CliError::Usage(
            "a trace is no text for a terminal; give -o a file, or send standard output to one"
                .to_owned(),
        ));
    }
    let source = open(&args.trace)?;
    let summary = write_to(&args.output, out, |out| {
        convert(source, out, to).map_err(|error| match error {
            Error::Write(error) => unwritable(&args.output, error),
            error => unreadable(&args.trace, error),
        })
    })?;
    Ok(damaged(&args.trace, &summary).map_or(Outcome::Done, Outcome::Incomplete))
}

/// Writes the call stacks.
fn folded(args: &ExportArgs, out: &mut dyn Write) -> Result<Outcome, CliError> {
    let mut analyzer = Analyzer::new().largest_live(0);
    let summary = read(open_watched(&args.trace)?, &mut analyzer)
        .map_err(|error| unreadable(&args.trace, error))?;
    let mut report = analyzer.report();
    if report.by_stack.is_empty() {
        return Err(CliError::Failed(format!(
            "{} has no call stacks; MEMLEDGER_STACKS=on records them",
            display_name(&args.trace)
        )));
    }
    symbols::symbolize(&mut report, &args.symbols);
    let mut options = text::Options::default();
    (options.sort, options.all_frames) = (args.column.into(), args.all_frames);
    let format = FORMATS.by_name("folded").ok_or(CliError::Failed("no such format".to_owned()))?;
    write_to(&args.output, out, |out| {
        format.write(&report, &options, out).map_err(|error| unwritable(&args.output, error))
    })?;
    Ok(damaged(&args.trace, &summary).map_or(Outcome::Done, Outcome::Incomplete))
}

/// Whether both paths refer to the same file.
pub(super) fn is_same(trace: &Path, output: &Path) -> bool {
    let trace = if is_stdin(trace) { Path::new("/dev/stdin") } else { trace };
    #[cfg(unix)]
    let identity = |path: &Path| {
        use std::os::unix::fs::MetadataExt;
        let found = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file);
        found.map(|metadata| (metadata.dev(), metadata.ino()))
    };
    #[cfg(not(unix))]
    let identity = |path: &Path| std::fs::canonicalize(path).ok();
    identity(output).is_some_and(|output| identity(trace) == Some(output))
}
