//! `memledger export --to parquet` and `--to csv`: a folder with a file of each table, or one table.

use super::args::{ExportArgs, To};
use super::csv::CsvTables;
#[cfg(feature = "parquet")]
use super::parquet::ParquetTables;
use super::pass::{outcome, pass};
use super::rows::{TableWriter, ToTables, actors};
use super::tables::{LIVE_BLOCKS, TABLES, Table, of_folder};
use crate::commands::finding;
use crate::commands::input::{is_stdin, open_watched, unreadable};
use crate::commands::moment::unanswered;
use crate::commands::output::{Part, unwritable, write_to};
use crate::error::{CliError, Outcome};
use crate::symbols;
use memledger_analysis::read::read;
use std::fs;
use std::io::{self, BufWriter, Write};
#[cfg(feature = "parquet")]
use std::io::{IsTerminal, Seek};
use std::path::Path;
use tempfile::TempDir;

/// The name of a table on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum TableName {
    /// One row per block
    Blocks,
    /// One row per allocation, free or other change of a block
    Events,
    /// One row per combination of thread, scope stack, group, name and call stack
    Contexts,
    /// One row per frame of a call stack
    Stacks,
    /// One row per function of a frame
    Frames,
    /// One row per bookmark
    Bookmarks,
    /// One row per block that is live at the end, with thread, scope, name, function and line
    Live,
}

impl TableName {
    fn table(self) -> &'static Table {
        TABLES[self as usize]
    }
}

/// Writes all tables, or the one that is asked for.
pub fn run(args: &ExportArgs, out: &mut dyn Write) -> Result<Outcome, CliError> {
    let ending = if matches!(args.to, To::Csv) { "csv" } else { "parquet" };
    if let Some(name) = args.table {
        return write_to(&args.output, out, |out| one(args, name.table(), out));
    }
    let names_a_file = args.output.extension().is_some_and(|found| found == ending);
    if is_stdin(&args.output) || names_a_file {
        return Err(CliError::Usage(format!(
            "--to {ending} writes a folder with {} tables: give -o a folder, or name one table \
             with --table",
            of_folder().len()
        )));
    }
    folder(args, ending)
}

fn one(args: &ExportArgs, table: &'static Table, out: &mut dyn Write) -> Result<Outcome, CliError> {
    let failed = |error| unwritable(&args.output, error);
    match args.to {
        #[cfg(feature = "parquet")]
        To::Parquet => {
            if is_stdin(&args.output) && io::stdout().is_terminal() {
                return Err(CliError::Usage(
                    "refusing to write binary Parquet to a terminal; use -o FILE".to_owned(),
                ));
            }
            // NOTE: another thread writes it, which cannot have `out`.
            let mut file = tempfile::tempfile().map_err(failed)?;
            let shared = file.try_clone().map_err(failed)?;
            let tables = ParquetTables::new(vec![(table, shared)]).map_err(failed)?;
            let outcome = write(args, tables, ParquetTables::finish)?;
            file.rewind().and_then(|()| io::copy(&mut file, out)).map_err(failed)?;
            Ok(outcome)
        }
        _ => {
            let tables = CsvTables::new(vec![(table, out)]).map_err(failed)?;
            write(args, tables, CsvTables::finish)
        }
    }
}

/// Writes the tables into a new folder, which gets its name when all are whole. If there is a folder of
/// tables by that name, its files are replaced.
fn folder(args: &ExportArgs, ending: &str) -> Result<Outcome, CliError> {
    let path = &args.output;
    let failed = |error| unwritable(path, error);
    let file_of = |table: &Table| format!("{}.{ending}", table.name);
    let exists = match fs::read_dir(path) {
        Ok(entries) => {
            for entry in entries {
                let name = entry.map_err(failed)?.file_name();
                if !of_folder().iter().any(|table| *file_of(table) == *name) {
                    return Err(CliError::Failed(format!(
                        "cannot write {}: it is a folder with other files in it ({}); give -o a \
                         new folder",
                        path.display(),
                        name.to_string_lossy()
                    )));
                }
            }
            true
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => false,
        Err(error) => return Err(failed(error)),
    };
    // The files and the folder get their names when all are whole.
    let parts = of_folder().iter().map(|table| Ok((*table, Part::new(path)?)));
    let parts = parts.collect::<io::Result<Vec<_>>>().map_err(failed)?;
    let files =
        parts.iter().map(|(table, part)| Ok((*table, BufWriter::new(part.file().try_clone()?))));
    let files = files.collect::<io::Result<Vec<_>>>().map_err(failed)?;
    let outcome = match args.to {
        #[cfg(feature = "parquet")]
        To::Parquet => {
            let tables = ParquetTables::new(files).map_err(failed)?;
            write(args, tables, ParquetTables::finish)?
        }
        _ => write(args, CsvTables::new(files).map_err(failed)?, CsvTables::finish)?,
    };
    let new = temporary(path).map_err(failed)?;
    for (table, part) in parts {
        part.persist(&new.path().join(file_of(table))).map_err(failed)?;
    }
    if exists {
        for table in of_folder() {
            let name = file_of(table);
            // What is there keeps its permissions, as other outputs do.
            if let Ok(before) = fs::metadata(path.join(&name)) {
                fs::set_permissions(new.path().join(&name), before.permissions())
                    .map_err(failed)?;
            }
            fs::rename(new.path().join(&name), path.join(&name)).map_err(failed)?;
        }
    } else {
        fs::rename(new.path(), path).map_err(failed)?;
        let _ = new.keep();
    }
    Ok(outcome)
}

/// A folder beside `path` that is removed when it is dropped.
fn temporary(path: &Path) -> io::Result<TempDir> {
    let mut builder = tempfile::Builder::new();
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let made = builder.prefix(".").suffix(".part").tempdir_in(parent.unwrap_or(Path::new(".")));
    // NOTE: the error would name the temporary folder.
    made.map_err(|error| error.kind().into())
}

/// Reads the trace and writes its tables.
fn write<W: TableWriter>(
    args: &ExportArgs,
    tables: W,
    finish: impl FnOnce(W) -> io::Result<()>,
) -> Result<Outcome, CliError> {
    let of_finding = |number| -> Result<_, CliError> {
        let query = finding::query_of(&args.trace, number, &args.symbols)?;
        let mut analyzer = query.numbers().analyzer();
        let source = open_watched(&args.trace)?;
        read(source, &mut analyzer).map_err(|error| unreadable(&args.trace, error))?;
        analyzer.block_numbers().map_err(|why| unanswered(why, &[]))
    };
    let only = args.finding.map(of_finding).transpose()?;
    let has_live = args.table.is_some_and(|name| name.table().name == LIVE_BLOCKS.name);
    let observer = ToTables::new(tables, only, has_live);
    let (mut analyzer, summary) = pass(&args.trace, observer, ToTables::has_failed)?;
    let actors = actors(&analyzer);
    let mut report = analyzer.take_report();
    let observer = analyzer.into_observer();
    let failed = |error| unwritable(&args.output, error);
    let rest = observer.write_stacks(&report, actors).map_err(failed)?;
    symbols::symbolize(&mut report, &args.symbols);
    rest.finish(&report).and_then(finish).map_err(failed)?;
    let outcome = outcome(&args.trace, &report, &summary);
    // PERF: the process ends; with 260,000 stacks, freeing every row of the report takes some 50 ms.
    std::mem::forget(report);
    Ok(outcome)
}
