//! The arguments of `memledger export`.

use super::to_tables::TableName;
use crate::commands::input::is_stdin;
use crate::commands::quantity::{NS_UNITS, scaled};
use crate::commands::report::Sort;
use crate::error::CliError;
use crate::symbols::SymbolArgs;
use memledger_analysis::convert::ChannelList;
use std::io::{self, IsTerminal};
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  memledger export run.memledger --to utrace -o run.utrace     for Unreal Insights
  memledger export run.utrace --to memledger -o run.memledger  a fraction of the size
  memledger export run.memledger --to memledger --packed -o keep.memledger   for keeping: a fraction of the size
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

utrace and memledger hold the same events; a trace can be turned from one into the other and
back. Of a damaged trace all packets that can be read are written. A packed trace has a fraction of the
size of the same without --packed, is read like any other, and takes longer to write and read. folded has a line for each call
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
    pub(super) trace: PathBuf,
    /// The format
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub(super) to: To,
    /// The file to write, - for standard output; for tables: the folder to write
    #[arg(short, long, value_name = "OUT")]
    pub(super) output: PathBuf,
    /// For tables: only this one, to a file or to standard output
    #[arg(long, value_enum, value_name = "TABLE")]
    pub(super) table: Option<TableName>,
    /// For folded: what is counted; for speedscope: what is shown first
    #[arg(long, value_enum, default_value = "at-peak")]
    pub(super) column: Sort,
    /// For utrace and memledger: only these channels, with commas between them; -NAME is all but that
    #[arg(long, value_name = "LIST", allow_hyphen_values = true, value_parser = channels)]
    pub(super) channels: Option<ChannelList>,
    /// For memledger: packed for keeping
    #[arg(long)]
    pub(super) packed: bool,
    /// For formats by stack: frames of the standard library and of allocation machinery, too
    #[arg(long)]
    pub(super) all_frames: bool,
    /// For perfetto: the time from one dump of the heap profile to the next, instead of a hundredth of the
    /// trace
    #[arg(long, value_name = "TIME", value_parser = interval)]
    pub(super) interval: Option<u64>,
    #[command(flatten)]
    pub(super) symbols: SymbolArgs,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(super) enum To {
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
            "{what} is no text for a terminal; give -o a file, or send standard output to one"
        )));
    }
    Ok(())
}
