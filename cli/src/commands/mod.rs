//! One file per command: its arguments, and a call of the library. Here is what they share.

pub mod control;
pub mod events;
pub mod export;
pub mod expr;
pub mod fetch;
pub mod figures;
pub mod info;
mod progress;
pub mod report;
pub mod serve;
pub mod traces;

use crate::serve::read_token;
use memledger::dump::text;
use memledger::remote::store::Store;
use memledger::trace::read::Summary;
use std::fmt;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// How a command prints data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// To be read
    Text,
    /// To be processed; the schema is named in it
    Json,
}

/// How a command ended that could do its work.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All is well.
    Done,
    /// The result is printed, but something is missing from it; the sentence says what.
    Incomplete(String),
    /// A `--fail-if` held; the sentence says which.
    Held(String),
}

/// Why a command could not do its work. Each is one sentence.
#[derive(Debug)]
pub enum CliError {
    /// The command line asks for something that cannot be.
    Usage(String),
    /// The input cannot be used, or something else went wrong.
    Failed(String),
    /// The result could not be written to standard output.
    Output(io::Error),
}

impl CliError {
    /// The result could not be written to standard output.
    pub fn output(error: io::Error) -> Self {
        Self::Output(error)
    }
}

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(sentence) | Self::Failed(sentence) => f.write_str(sentence),
            Self::Output(error) => write!(f, "writing to standard output failed: {error}"),
        }
    }
}

impl std::error::Error for CliError {}

/// Writes a sentence to stderr, with quoted text escaped for the terminal. A failed write is
/// ignored.
pub fn note(sentence: &str) {
    let _ = writeln!(io::stderr(), "memledger: {}", text::escape(sentence));
}

/// The name of a trace in sentences: `-` is standard input.
pub fn display_name(path: &Path) -> String {
    if is_stdin(path) { "standard input".to_owned() } else { path.display().to_string() }
}

/// Whether `path` stands for standard input.
pub fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Opens a trace: `-` is standard input.
pub fn open(path: &Path) -> Result<Box<dyn Read>, CliError> {
    Ok(open_sized(path)?.0)
}

/// As above, and shows how far reading has come. Not for a command that prints while it reads.
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
        io::ErrorKind::PermissionDenied => failed(&"you are not allowed to read it"),
        _ => failed(&error),
    })?;
    match file.metadata() {
        Ok(metadata) if metadata.is_dir() => Err(failed(&"it is a directory, not a trace")),
        Ok(metadata) if metadata.is_file() => Ok((Box::new(file), Some(metadata.len()))),
        _ => Ok((Box::new(file), None)),
    }
}

/// The sentence for a trace that cannot be read at all.
pub fn unreadable(path: &Path, error: memledger::Error) -> CliError {
    CliError::Failed(format!("{}: {error}", display_name(path)))
}

/// The exit status of a command whose figures are complete, or `incomplete`, which the user may
/// `allow`.
pub fn outcome(incomplete: Option<String>, allow: bool) -> Outcome {
    match incomplete {
        None => Outcome::Done,
        Some(sentence) if allow => {
            note(&sentence);
            Outcome::Done
        }
        Some(sentence) => Outcome::Incomplete(sentence),
    }
}

/// What is missing from figures, as one sentence; `None` if nothing is.
pub fn missing(path: &Path, summary: &Summary) -> Option<String> {
    damaged(path, summary).or_else(|| (!summary.is_complete()).then(|| without_end(path)))
}

/// What could not be read of a trace, as one sentence; `None` if all of it could.
pub fn damaged(path: &Path, summary: &Summary) -> Option<String> {
    let counts = &summary.counts;
    let mut parts = Vec::new();
    if let Some(error) = &summary.error {
        parts.push(format!("reading it failed after {} bytes ({error})", summary.input_bytes));
    }
    if counts.damages > 0 {
        let unread = summary.skipped_bytes + summary.truncated_bytes;
        parts.push(format!(
            "{} could not be read ({unread} bytes)",
            text::counted(counts.damages, "place", "places")
        ));
    }
    if counts.holes > 0 {
        parts.push(format!(
            "{} missing in {}",
            match counts.missing_unknown {
                true => "an unknown number of events is".to_owned(),
                false => text::counted(counts.missing, "event is", "events are"),
            },
            text::counted(counts.holes, "place", "places")
        ));
    }
    (!parts.is_empty()).then(|| {
        let parts = parts.join(", and ");
        format!("{} is damaged: {parts}; the result is only of the rest", display_name(path))
    })
}

/// The sentence for a trace without its end.
pub fn without_end(path: &Path) -> String {
    format!(
        "{} has no end: the program was killed or is still running, or the trace was cut; the \
         result is only of what there is (--allow-incomplete takes it)",
        display_name(path)
    )
}

/// Which store a command asks.
#[derive(Debug, clap::Args)]
pub struct StoreArgs {
    /// The store: HOST or HOST:PORT, where the port is 1989 if it is not given
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1")]
    store: String,
    /// The file with the token that a store on another machine asks for
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

impl StoreArgs {
    /// Connects to it.
    fn connect(&self) -> Result<Store, CliError> {
        if Path::new(&self.store).is_dir() {
            let store = &self.store;
            return Err(CliError::Usage(format!(
                "--store {store} is a folder, but the address of a store is needed, HOST or \
                 HOST:PORT; memledger serve --folder {store} makes one of it"
            )));
        }
        let token = self.token_file.as_deref().map(read_token).transpose()?;
        let store = Store::connect(&self.store).map_err(|error| failed_store(&error))?;
        match token {
            None => Ok(store),
            Some(token) => store.with_token(&token).map_err(|error| failed_store(&error)),
        }
    }
}

/// What a store could not do.
fn failed_store(error: &memledger::Error) -> CliError {
    CliError::Failed(error.to_string())
}
