//! The trace that a command reads: a file, or standard input.

use crate::error::CliError;
use crate::progress;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

const IS_FOLDER: &str = "it is a directory, not a trace";

/// The name of a trace in sentences: `-` is standard input.
pub fn display_name(path: &Path) -> String {
    if is_stdin(path) { "standard input".to_owned() } else { path.display().to_string() }
}

/// Whether `path` means standard input.
pub fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Opens a trace: `-` is standard input.
pub fn open(path: &Path) -> Result<Box<dyn Read>, CliError> {
    Ok(open_sized(path)?.0)
}

/// Opens a trace as [`open`] does, and shows the progress of reading on a terminal. Not for a
/// command that prints while it reads.
pub fn open_watched(path: &Path) -> Result<Box<dyn Read>, CliError> {
    let (source, length) = open_sized(path)?;
    Ok(progress::watch(source, length))
}

/// A trace, and its size if that is known.
fn open_sized(path: &Path) -> Result<(Box<dyn Read>, Option<u64>), CliError> {
    if is_stdin(path) {
        return Ok((Box::new(io::stdin().lock()), None));
    }
    let failed = |what: &dyn fmt::Display| {
        CliError::Failed(format!("cannot open {}: {what}", path.display()))
    };
    let file = File::open(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => failed(&"there is no such file"),
        // NOTE: Windows does not open it.
        _ if path.is_dir() => failed(&IS_FOLDER),
        io::ErrorKind::PermissionDenied => failed(&"you are not allowed to read it"),
        _ => failed(&error),
    })?;
    match file.metadata() {
        Ok(metadata) if metadata.is_dir() => Err(failed(&IS_FOLDER)),
        Ok(metadata) if metadata.is_file() => Ok((Box::new(file), Some(metadata.len()))),
        _ => Ok((Box::new(file), None)),
    }
}

/// The sentence for a trace that cannot be read at all.
pub fn unreadable(path: &Path, error: memledger_format::Error) -> CliError {
    CliError::Failed(format!("{}: {error:#}", display_name(path)))
}
