//! `memledger fetch`: a trace from a store, to a file or to standard output.

use super::input::is_stdin;
use super::output::private;
use super::store::{StoreArgs, failed_store};
use crate::error::{CliError, Outcome};
use crate::progress;
use memledger_export::text::escape;
use memledger_store::{Store, StoredTrace};
use std::fs::File;
use std::io::{self, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  memledger fetch 2166136261                   to 20261121_134519_001.utrace
  memledger fetch 20261121_134519_001 -o run.utrace
  memledger fetch 2166136261 -o - | memledger report -

If the program still runs, its trace is copied until the program ends.";

/// Bytes that are copied at once.
const PIECE: usize = 256 << 10;

/// Arguments of `memledger fetch`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct FetchArgs {
    /// The id or the name of the trace, as memledger traces prints them
    #[arg(value_name = "ID")]
    trace: String,
    /// Write this file; - for standard output [default: the trace's name in this folder, if it is free]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    store: StoreArgs,
}

/// Reads the trace from the store and writes it to the file of `-o`, or to `out`.
pub fn run(args: &FetchArgs, out: &mut dyn Write) -> Result<Outcome, CliError> {
    let to_stdout = args.output.as_deref().is_some_and(is_stdin);
    if to_stdout && io::stdout().is_terminal() {
        return Err(CliError::Usage(
            "refusing to write a binary trace to a terminal; use -o FILE or redirect the output"
                .to_owned(),
        ));
    }
    let mut store = args.store.connect()?;
    let trace = find(&mut store, &args.trace)?;
    let stream = store.read(trace.id).map_err(|error| failed_store(&error))?;
    let size = (!trace.live).then_some(trace.size);
    let mut source = progress::watch(Box::new(stream), size);
    let (copied, place) = if to_stdout {
        (copy(&mut source, out)?, "standard output".to_owned())
    } else {
        let (mut file, path) = create(args.output.as_deref(), &trace)?;
        let failed = |error: &dyn std::fmt::Display| {
            CliError::Failed(format!("cannot write {}: {error}", path.display()))
        };
        let copied = copy(&mut source, &mut file).map_err(|error| match error {
            CliError::Output(error) => failed(&error),
            error => error,
        })?;
        (copied, path.display().to_string())
    };
    drop(source);
    // The stream also ends when the store ends, so ask the store whether the trace is complete.
    let incomplete = |why: String| {
        let bytes = copied.bytes;
        Ok(Outcome::Incomplete(format!("{place} has only the first {bytes} bytes: {why}")))
    };
    if let Some(error) = copied.error {
        return incomplete(format!("the connection broke ({error})"));
    }
    match store.trace(trace.id) {
        Err(error) => incomplete(format!("{error:#}")),
        Ok(Some(now)) if now.live => incomplete("the program is still sending".to_owned()),
        Ok(Some(now)) if now.size > copied.bytes => {
            incomplete(format!("the store has {} bytes of the trace", now.size))
        }
        Ok(_) => Ok(Outcome::Done),
    }
}

/// The trace with this id, or with this name.
fn find(store: &mut Store, wanted: &str) -> Result<StoredTrace, CliError> {
    if let Ok(id) = wanted.parse()
        && let Some(trace) = store.trace(id).map_err(|error| failed_store(&error))?
    {
        return Ok(trace);
    }
    let traces = store.traces().map_err(|error| failed_store(&error))?;
    let count = traces.len();
    traces.into_iter().find(|trace| trace.name == wanted).ok_or_else(|| {
        CliError::Failed(format!(
            "the store at {} has no trace {} among its {count}; memledger traces lists them",
            store.address(),
            escape(wanted)
        ))
    })
}

/// The file to write, and its path. An existing file is overwritten only if `-o` names it.
fn create(path: Option<&Path>, trace: &StoredTrace) -> Result<(File, PathBuf), CliError> {
    let (path, opened) = match path {
        Some(path) => (path.to_owned(), create_private(path)),
        None => {
            let path = PathBuf::from(file_name(trace));
            let opened = private().create_new(true).open(&path);
            (path, opened)
        }
    };
    match opened {
        Ok(file) => Ok((file, path)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(CliError::Failed(
            format!("{} already exists; choose another file with -o FILE", path.display()),
        )),
        Err(error) => Err(CliError::Failed(format!("cannot write {}: {error}", path.display()))),
    }
}

/// Creates or empties a file. An existing file also gets permissions for its user only, unless its
/// name is a link, as that of an open file is (`/dev/stdout`).
fn create_private(path: &Path) -> io::Result<File> {
    let file = private().create(true).truncate(true).open(path)?;
    #[cfg(unix)]
    if path.symlink_metadata()?.is_file() {
        file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
    }
    Ok(file)
}

/// The name of a file in this folder, even if the store sends a hostile one.
fn file_name(trace: &StoredTrace) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let name = &trace.name;
    let good = !name.is_empty() && name.len() <= 100 && name.chars().all(plain);
    match good && !name.starts_with('-') {
        true => format!("{name}.utrace"),
        false => format!("trace-{}.utrace", trace.id),
    }
}

/// How many bytes were copied, and why not all of them.
struct CopyResult {
    bytes: u64,
    error: Option<io::Error>,
}

/// Copies the whole trace. Each piece is flushed, because another program may be reading the
/// output.
fn copy(source: &mut dyn Read, out: &mut dyn Write) -> Result<CopyResult, CliError> {
    let mut buffer = vec![0; PIECE];
    let mut bytes = 0;
    loop {
        match source.read(&mut buffer) {
            Ok(0) => return Ok(CopyResult { bytes, error: None }),
            Ok(count) => {
                let piece = buffer.get(..count).unwrap_or_default();
                out.write_all(piece).and_then(|()| out.flush()).map_err(CliError::output)?;
                bytes += count as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Ok(CopyResult { bytes, error: Some(error) }),
        }
    }
}
