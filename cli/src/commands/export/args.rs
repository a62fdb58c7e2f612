//! The arguments of `memledger export`.

use super::to_tables::TableName;
use crate::cache::trace_arg;
use crate::commands::input::is_stdin;
use crate::commands::report::Sort;
use crate::error::CliError;
use crate::quantity::{NS_UNITS, scaled};
use crate::symbols::SymbolArgs;
use clap::ValueEnum;
use memledger_analysis::convert::ChannelList;
use std::io::{self, IsTerminal};
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  memledger export run.memledger --to utrace -o run.utrace   for Unreal Insights
  memledger export run.utrace --to memledger -o run.memledger   much smaller
  memledger export run.memledger --to memledger --packed -o keep.memledger
  memledger export run.memledger --to utrace --channels -memory -o logs.utrace
  memledger export run.memledger --to folded -o - | inferno-flamegraph > run.svg
  memledger export run.memledger --to pprof -o heap.pb.gz
  memledger export run.memledger --to speedscope -o run.speedscope.json
  memledger export run.memledger --to parquet -o run/       tables for DuckDB
  memledger export run.memledger --to csv --table live -o -   of live blocks
  memledger export last --finding 1 --to csv -o blocks/
  memledger export run.memledger --to firefox -o run.json
  memledger export run.memledger --to heaptrack -o run.zst
  memledger export run.memledger --to perfetto -o run.pftrace
  zstdcat run.utrace.zst | memledger export - --to memledger -o run.memledger

utrace and memledger hold the same events and convert into each other without loss. If the trace \
is damaged, every readable packet is written. --packed makes a memledger file several times \
smaller; it takes longer to write and read.

folded has one line per call stack, outermost function first, and a number: the bytes live at \
the peak, or --column.

pprof has the sample types alloc_objects, alloc_space, inuse_objects, inuse_space, peak_objects \
and peak_space (-sample_index), and scope, group, name and thread as labels (-tagfocus, \
-tagroot).

speedscope has four profiles: bytes live at the peak, live at the end and allocated, and \
allocations; --column is shown first.

For a trace without call stacks, formats of call stacks use scopes, then group / name.";

/// Arguments of `memledger export`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct ExportArgs {
    /// The trace; last for that of the last run, - for standard input
    #[arg(value_parser = trace_arg())]
    pub(super) trace: PathBuf,
    /// Output format
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub(super) to: To,
    /// Write this file, or this folder for tables; - for standard output
    #[arg(short, long, value_name = "OUT")]
    pub(super) output: PathBuf,
    /// For csv and parquet: write only this table, to a file or to standard output
    #[arg(long, value_enum, value_name = "TABLE")]
    pub(super) table: Option<TableName>,
    /// For csv and parquet: write only the blocks of finding N of memledger report, and their events
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) finding: Option<u32>,
    /// For folded: the column to count; for speedscope: the column to show first
    /// [default: at-peak]
    #[arg(long, value_enum)]
    pub(super) column: Option<Sort>,
    /// For utrace and memledger: comma-separated channels to keep; -NAME excludes one
    #[arg(long, value_name = "LIST", allow_hyphen_values = true, value_parser = channels)]
    pub(super) channels: Option<ChannelList>,
    /// For memledger: write a smaller file for archives
    #[arg(long)]
    pub(super) packed: bool,
    /// For formats of call stacks: include frames of the standard library and of allocators
    #[arg(long)]
    pub(super) all_frames: bool,
    /// For perfetto: time between dumps of the heap profile [default: 1% of the trace]
    #[arg(long, value_name = "TIME", value_parser = interval)]
    pub(super) interval: Option<u64>,
    #[command(flatten)]
    pub(super) symbols: SymbolArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum To {
    /// Unreal Trace, for Unreal's own tools
    Utrace,
    /// The same events in memledger's compact format
    Memledger,
    /// Call stacks for flame graphs, one per line
    Folded,
    /// Call stacks for www.speedscope.app; name it run.speedscope.json
    Speedscope,
    /// A heap profile for DHAT's viewer, Valgrind's dh_view.html
    Dhat,
    /// A heap profile for go tool pprof, Parca and Pyroscope; name it heap.pb.gz
    Pprof,
    /// A folder with tables of blocks, events and stacks, for DuckDB, DataFusion or Spark
    #[cfg(feature = "parquet")]
    Parquet,
    /// The same tables as comma-separated values
    Csv,
    /// Allocations and frees over time, for the Firefox Profiler (profiler.firefox.com)
    Firefox,
    /// A trace for heaptrack_print and heaptrack_gui; compressed if OUT ends in .gz or .zst
    Heaptrack,
    /// Heap profiles, counters and slices of scopes, for ui.perfetto.dev; name it run.pftrace
    Perfetto,
}

/// An option that not every format takes.
struct Choice {
    option: &'static str,
    is_given: fn(&ExportArgs) -> bool,
    formats: &'static [To],
    /// What to do in place of giving it for another format.
    instead: &'static str,
}

/// The formats that are tables.
const OF_TABLES: &[To] = &[
    #[cfg(feature = "parquet")]
    To::Parquet,
    To::Csv,
];

/// Which formats take an option. NOTE: not `--no-debuginfod`, which each of them heeds.
const CHOICES: &[Choice] = &[
    Choice {
        option: "--table",
        is_given: |args| args.table.is_some(),
        formats: OF_TABLES,
        instead: "leave it out",
    },
    Choice {
        option: "--finding",
        is_given: |args| args.finding.is_some(),
        formats: OF_TABLES,
        instead: "memledger query --finding N has the same blocks as a table",
    },
    Choice {
        option: "--column",
        is_given: |args| args.column.is_some(),
        formats: &[To::Folded, To::Speedscope],
        instead: "leave it out",
    },
    Choice {
        option: "--channels",
        is_given: |args| args.channels.is_some(),
        formats: &[To::Utrace, To::Memledger],
        instead: "export the trace to memledger first, and that to the other format",
    },
    Choice {
        option: "--packed",
        is_given: |args| args.packed,
        formats: &[To::Memledger],
        instead: "leave it out",
    },
    Choice {
        option: "--all-frames",
        is_given: |args| args.all_frames,
        formats: &[To::Folded, To::Speedscope, To::Dhat, To::Pprof, To::Perfetto],
        instead: "leave it out, the others have all frames",
    },
    Choice {
        option: "--interval",
        is_given: |args| args.interval.is_some(),
        formats: &[To::Perfetto],
        instead: "leave it out",
    },
    Choice {
        option: "--symbols",
        is_given: |args| !args.symbols.folders.is_empty(),
        formats: &[
            To::Folded,
            To::Speedscope,
            To::Dhat,
            To::Pprof,
            #[cfg(feature = "parquet")]
            To::Parquet,
            To::Csv,
            To::Firefox,
            To::Heaptrack,
            To::Perfetto,
        ],
        instead: "memledger symbolize writes a trace with its functions",
    },
];

/// Refuses an option that the format would ignore.
pub(super) fn refuse_ignored(args: &ExportArgs) -> Result<(), CliError> {
    let is_ignored =
        |choice: &&Choice| !choice.formats.contains(&args.to) && (choice.is_given)(args);
    let Some(Choice { option, formats, instead, .. }) = CHOICES.iter().find(is_ignored) else {
        return Ok(());
    };
    let names: Vec<_> = formats.iter().map(|format| format.name()).collect();
    let formats = match names.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} and {last}", others.join(", ")),
        _ => names.concat(),
    };
    Err(CliError::Usage(format!(
        "{option} is for {formats}, not for {}: {instead}",
        args.to.name()
    )))
}

impl To {
    /// Its name on the command line.
    fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }
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
pub(super) fn refuse_terminal(args: &ExportArgs, what: &str) -> Result<(), CliError> {
    if is_stdin(&args.output) && io::stdout().is_terminal() {
        return Err(CliError::Usage(format!(
            "refusing to write {what} to a terminal; use -o FILE or redirect the output"
        )));
    }
    Ok(())
}
