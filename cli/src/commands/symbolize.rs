//! `memledger symbolize`: the same trace, or text of a black box, with the functions of its call stacks.

mod black_box;

use super::completeness::damaged;
use super::export::is_same;
use super::input::{display_name, is_stdin, open_watched, unreadable};
use super::output::{unwritable, write_to};
use crate::cache::trace_arg;
use crate::error::{CliError, Outcome};
use crate::symbols::{SymbolArgs, symbolize};
use crate::terminal::note;
use memledger_analysis::{Report, Symbolized, add_symbols};
use memledger_export::text;
use memledger_format::ErrorKind;
use std::io::{self, Cursor, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  memledger symbolize run.memledger -o run-with-symbols.memledger
  memledger symbolize run.utrace -o named.utrace --symbols target/release
  memledger symbolize server.log

The output is the trace plus the function, file and line of each address in its call stacks, so \
that it can be read where the program's files are missing. Symbols already in the trace are \
kept. Of a text it is the text, with the functions of each frame of a black box in it: by the files \
of the same build.";

/// Arguments of `memledger symbolize`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct SymbolizeArgs {
    /// The trace, or a text with a black box; - for standard input
    #[arg(value_parser = trace_arg())]
    trace: PathBuf,
    /// Write this file; - for standard output, where a text goes without it
    #[arg(short, long, value_name = "OUT")]
    output: Option<PathBuf>,
    #[command(flatten)]
    symbols: SymbolArgs,
}

/// Copies the trace to the file of `-o`, or to `out`, and adds symbols.
pub fn run(args: &SymbolizeArgs, out: &mut dyn Write) -> Result<Outcome, CliError> {
    let stdout = PathBuf::from("-");
    let output = args.output.as_ref().unwrap_or(&stdout);
    let to_stdout = is_stdin(output);
    if !to_stdout && is_same(&args.trace, output) {
        return Err(CliError::Usage(format!(
            "cannot write to {}: it is also the input",
            output.display()
        )));
    }
    let unread =
        |error: io::Error| CliError::Failed(format!("{}: {error}", display_name(&args.trace)));
    let (start, mut source) = start_of(open_watched(&args.trace)?).map_err(unread)?;
    if black_box::is_text(&start) {
        let mut text = Vec::new();
        source.read_to_end(&mut text).map_err(unread)?;
        if !black_box::has_frames(&text) {
            let name = display_name(&args.trace);
            let why = "is no trace, and a text without frames of a black box";
            return Err(CliError::Failed(format!("{name} {why}")));
        }
        return symbolize_text(&text, args, output, out);
    }
    if args.output.is_none() {
        return Err(CliError::Usage("a trace needs a file for the copy: -o FILE".to_owned()));
    }
    if to_stdout && io::stdout().is_terminal() {
        return Err(CliError::Usage(
            "refusing to write a binary trace to a terminal; use -o FILE or redirect the output"
                .to_owned(),
        ));
    }
    let symbolize = |report: &mut Report| symbolize(report, &args.symbols);
    let symbolized = write_to(output, out, |to| {
        add_symbols(source, to, symbolize).map_err(|error| match error.kind() {
            ErrorKind::Write => unwritable(output, error.into_io()),
            _ => unreadable(&args.trace, error),
        })
    })?;
    let Symbolized { addresses, with_symbols, summary, .. } = &symbolized;
    note(&match (addresses, with_symbols) {
        (0, _) => {
            "the trace has no call stacks in modules, so there are no symbols to add".to_owned()
        }
        (addresses, with_symbols) => format!(
            "of the {} in the trace, {} with symbols",
            text::counted(*addresses, "address", "addresses"),
            text::counted(*with_symbols, "is", "are")
        ),
    });
    Ok(damaged(&args.trace, summary).map_or(Outcome::Done, Outcome::Incomplete))
}

/// The bytes that a trace begins with, and all of it.
fn start_of(mut source: Box<dyn Read>) -> io::Result<(Vec<u8>, impl Read)> {
    let mut start = Vec::new();
    source.by_ref().take(64).read_to_end(&mut start)?;
    Ok((start.clone(), Cursor::new(start).chain(source)))
}

/// The same for a text.
fn symbolize_text(
    text: &[u8],
    args: &SymbolizeArgs,
    output: &Path,
    out: &mut dyn Write,
) -> Result<Outcome, CliError> {
    let named = write_to(output, out, |to| {
        black_box::write(text, &args.symbols, to).map_err(|error| unwritable(output, error))
    })?;
    note(&format!("{} named", text::counted(named, "frame is", "frames are")));
    Ok(Outcome::Done)
}
