//! `memledger export`: the same trace in another format.

mod csv;
mod dhat;
mod firefox;
mod heaptrack;
#[cfg(feature = "parquet")]
mod parquet;
mod pass;
mod perfetto;
mod rows;
mod tables;
mod to_tables;

use self::to_tables::TableName;
use super::completeness::{damaged, incomplete};
use super::input::{is_stdin, open, open_watched, unreadable};
use super::output::{unwritable, write_to};
use super::quantity::{NS_UNITS, scaled};
use super::report::Sort;
use crate::error::{CliError, Outcome};
use crate::symbols::{self, SymbolArgs};
use memledger_analysis::Analyzer;
use memledger_analysis::convert::{ChannelList, convert, convert_channels};
use memledger_analysis::dump::{ReportFormat, text};
use memledger_analysis::read::read;
use memledger_export::FORMATS;
use memledger_format::Error;
use memledger_format::Transport;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  memledger export run.memledger --to utrace -o run.utrace     for Unreal Insights
  memledger export run.utrace --to memledger -o run.memledger  a fraction of the size
  memledger export run.memledger --to utrace --channels -memory -o logs.utrace   what the program logged
  memledger export run.memledger --to folded -o - | inferno-flamegraph > run.svg
  memledger export run.memledger --to pprof -o heap.pb.gz && go tool pprof -http=: heap.pb.gz
  memledger export run.memledger --to speedscope -o run.speedscope.json   for www.speedscope.app
  memledger export run.memledger --to parquet -o run/          tables for DuckDB
  memledger export run.memledger --to csv --table blocks -o -  one of them as text
  memledger export run.memledger --to firefox -o run.json      for profiler.firefox.com
  memledger export run.memledger --to heaptrack -o run.zst     for heaptrack_gui
  memledger export run.memledger --to perfetto -o run.pftrace  for ui.perfetto.dev
  zstdcat run.utrace.zst | memledger export - --to memledger -o run.memledger

utrace and memledger hold the same stream of events; a trace can be turned from one into the other and
back. Of a damaged trace all packets that can be read are written. folded has a line for each call
stack, outermost function first, and a number: the bytes live at the peak, or the --column. pprof has
alloc_objects, alloc_space, inuse_objects, inuse_space, peak_objects and peak_space (-sample_index),
with scope, group, name and thread as labels (-tagfocus, -tagroot). speedscope has four profiles: bytes
live at the peak, live at the end and allocated, and allocations; --column is the one shown first. Where
a trace has no call stacks, formats by stack have scopes, then group / name.";

/// Arguments of `memledger export`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct ExportArgs {
    /// The trace; - for standard input
    trace: PathBuf,
    /// The format
    #[arg(long, value_enum, value_name = "FORMAT")]
    to: To,
    /// The file to write, - for standard output; for tables: the folder to write
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    /// For tables: only this one, to a file or to standard output
    #[arg(long, value_enum, value_name = "TABLE")]
    table: Option<TableName>,
    /// For folded: what is counted; for speedscope: what is shown first
    #[arg(long, value_enum, default_value = "at-peak")]
    column: Sort,
    /// For utrace and memledger: only these channels, with commas between them; -NAME is all but that
    #[arg(long, value_name = "LIST", allow_hyphen_values = true, value_parser = channels)]
    channels: Option<ChannelList>,
    /// For formats by stack: frames of the standard library and of allocation machinery, too
    #[arg(long)]
    all_frames: bool,
    /// For perfetto: the time from one dump of the heap profile to the next, instead of a hundredth of the
    /// trace
    #[arg(long, value_name = "TIME", value_parser = interval)]
    interval: Option<u64>,
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
    /// Call stacks for www.speedscope.app: name it run.speedscope.json
    Speedscope,
    /// A heap profile for DHAT's viewer, dh_view.html of Valgrind
    Dhat,
    /// A heap profile for go tool pprof, Parca and Pyroscope: name it heap.pb.gz
    Pprof,
    /// What each function and each call of it allocated, for KCachegrind and callgrind_annotate
    Callgrind,
    /// Tables of blocks, events and stacks for DuckDB, DataFusion or Spark: a folder
    #[cfg(feature = "parquet")]
    Parquet,
    /// The same tables as comma-separated values
    Csv,
    /// For the Firefox Profiler: allocations and frees over time
    Firefox,
    /// For heaptrack_print and heaptrack_gui; compressed if OUT ends in .gz or .zst
    Heaptrack,
    /// For ui.perfetto.dev: heap profiles, counters and slices of scopes; name it run.pftrace
    Perfetto,
}

impl To {
    /// How it is written.
    fn kind(self) -> Kind {
        match self {
            Self::Utrace => Kind::Stream(Transport::Unreal),
            Self::Memledger => Kind::Stream(Transport::Compact),
            Self::Folded => Kind::Report("folded"),
            Self::Speedscope => Kind::Report("speedscope"),
            Self::Dhat => Kind::Command(dhat::write),
            Self::Pprof => Kind::Report("pprof"),
            Self::Callgrind => Kind::Report("callgrind"),
            #[cfg(feature = "parquet")]
            Self::Parquet => Kind::Command(to_tables::run),
            Self::Csv => Kind::Command(to_tables::run),
            Self::Firefox => Kind::Command(firefox::run),
            Self::Heaptrack => Kind::Command(heaptrack::run),
            Self::Perfetto => Kind::Command(perfetto::run),
        }
    }
}

/// How a format is written.
enum Kind {
    /// Packet by packet.
    Stream(Transport),
    /// From the report, in the format of this name in the library's table.
    Report(&'static str),
    /// By a file of this command.
    Command(fn(&ExportArgs, &mut dyn Write) -> Result<Outcome, CliError>),
}

/// Reads the trace and writes it in the other format to the file of `-o`, or to `out`.
pub fn run(args: &ExportArgs, out: &mut dyn Write) -> Result<Outcome, CliError> {
    if !is_stdin(&args.output) && is_same(&args.trace, &args.output) {
        return Err(CliError::Usage(format!(
            "{} is what is read: it cannot be written as well",
            args.output.display()
        )));
    }
    match args.to.kind() {
        Kind::Stream(transport) => stream(args, transport, out),
        _ if args.channels.is_some() => Err(CliError::Usage(
            "--channels is for utrace and memledger; export the trace to memledger first, and that to the other format"
                .into(),
        )),
        Kind::Command(write) => write(args, out),
        Kind::Report(name) => {
            let no_format = || CliError::Failed(format!("this build has no format {name}"));
            report(args, FORMATS.by_name(name).ok_or_else(no_format)?, out)
        }
    }
}

/// Writes the same stream of events.
fn stream(args: &ExportArgs, to: Transport, out: &mut dyn Write) -> Result<Outcome, CliError> {
    refuse_terminal(args, "a trace")?;
    let source = open(&args.trace)?;
    let summary = write_to(&args.output, out, |out| {
        let written = match &args.channels {
            Some(channels) => convert_channels(source, out, to, channels),
            None => convert(source, out, to),
        };
        written.map_err(|error| match error {
            Error::UnknownChannel(why) => {
                CliError::Failed(format!("{}: {why}", args.trace.display()))
            }
            Error::Write(error) => unwritable(&args.output, error),
            error => unreadable(&args.trace, error),
        })
    })?;
    Ok(damaged(&args.trace, &summary).map_or(Outcome::Done, Outcome::Incomplete))
}

fn report(
    args: &ExportArgs,
    format: &'static dyn ReportFormat,
    out: &mut dyn Write,
) -> Result<Outcome, CliError> {
    if format.is_binary() {
        refuse_terminal(args, "a profile")?;
    }
    let mut analyzer = Analyzer::new().largest_live(0);
    if format.needs_buckets() {
        analyzer = analyzer.by_bucket();
    }
    let summary = read(open_watched(&args.trace)?, &mut analyzer)
        .map_err(|error| unreadable(&args.trace, error))?;
    let mut report = analyzer.report();
    symbols::symbolize(&mut report, &args.symbols);
    let mut options = text::Options::default();
    (options.sort, options.all_frames) = (args.column.into(), args.all_frames);
    write_to(&args.output, out, |out| {
        format.write(&report, &options, out).map_err(|error| unwritable(&args.output, error))
    })?;
    let incomplete = incomplete(&args.trace, &report, &summary);
    Ok(incomplete.map_or(Outcome::Done, Outcome::Incomplete))
}

/// The value of `--channels`.
fn channels(text: &str) -> Result<ChannelList, String> {
    ChannelList::parse(text).map_err(|error| error.to_string())
}

/// The value of `--interval`, in nanoseconds.
fn interval(text: &str) -> Result<u64, String> {
    let time = scaled(text.trim(), NS_UNITS).filter(|time| *time > 0);
    time.ok_or_else(|| "a time is 1.5s, 200ms or nanoseconds without a unit, and not 0".to_owned())
}

/// Refuses to write bytes that are no text to a terminal.
fn refuse_terminal(args: &ExportArgs, what: &str) -> Result<(), CliError> {
    if is_stdin(&args.output) && io::stdout().is_terminal() {
        return Err(CliError::Usage(format!(
            "{what} is no text for a terminal; give -o a file, or send standard output to one"
        )));
    }
    Ok(())
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
