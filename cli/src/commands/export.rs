//! `memledger export`: the same trace in another format.

mod args;
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

use super::completeness::{damaged, incomplete};
use super::input::{is_stdin, open_watched, unreadable};
use super::needs::Needs;
use super::output::{frames, unwritable, write_to};
use super::report::Sort;
use crate::error::{CliError, Outcome};
use crate::symbols;
pub use args::ExportArgs;
use args::{To, refuse_ignored, refuse_terminal};
use memledger_analysis::Position;
use memledger_analysis::convert::{convert, convert_channels};
use memledger_export::tools::FORMATS;
use memledger_export::{ReportFormat, text};
use memledger_format::ErrorKind;
use memledger_format::handshake::Transport;
use std::io::Write;
use std::path::Path;

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
    refuse_ignored(args)?;
    if !is_stdin(&args.output) && is_same(&args.trace, &args.output) {
        return Err(CliError::Usage(format!(
            "cannot write to {}: it is also the input",
            args.output.display()
        )));
    }
    match args.to.kind() {
        Kind::Stream(Transport::Compact) if args.packed => stream(args, Transport::Packed, out),
        Kind::Stream(transport) => stream(args, transport, out),
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
    let source = open_watched(&args.trace)?;
    let summary = write_to(&args.output, out, |out| {
        let written = match &args.channels {
            Some(channels) => convert_channels(source, out, to, channels),
            None => convert(source, out, to),
        };
        written.map_err(|error| match error.kind() {
            ErrorKind::Write => unwritable(&args.output, error.into_io()),
            _ => unreadable(&args.trace, error),
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
    let (mut options, column) = (text::Options::default(), args.column.unwrap_or(Sort::AtPeak));
    (options.sort, options.frames) = (column.into(), frames(args.all_frames));
    let needs = Needs {
        formats: &[format],
        options: &options,
        until: Position::End,
        scope: None,
        largest_live: 0,
        functions: true,
        findings: false,
    };
    let (report, summary, _) =
        needs.read(&args.trace, |report| symbols::symbolize(report, &args.symbols))?;
    write_to(&args.output, out, |out| {
        format.write(&report, &options, out).map_err(|error| unwritable(&args.output, error))
    })?;
    let incomplete = incomplete(&args.trace, &report, &summary);
    Ok(incomplete.map_or(Outcome::Done, Outcome::Incomplete))
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
