//! `memledger symbolize`: the same trace with the functions of its call stacks.

use super::completeness::damaged;
use super::export::is_same;
use super::input::{is_stdin, open_watched, unreadable};
use super::output::{unwritable, write_to};
use crate::error::{CliError, Outcome};
use crate::symbols::{SymbolArgs, symbolize};
use crate::terminal::note;
use memledger_analysis::{Report, Symbolized, add_symbols};
use memledger_export::text;
use memledger_format::ErrorKind;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  memledger symbolize run.memledger -o run-with-symbols.memledger
  memledger symbolize run.utrace -o named.utrace --symbols target/release

The output is the trace plus the function, file and line of each address in its call stacks, so \
that it can be read where the program's files are missing. Symbols already in the trace are \
kept.";

/// Arguments of `memledger symbolize`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct SymbolizeArgs {
    /// The trace; - for standard input
    trace: PathBuf,
    /// Write this file; - for standard output
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    #[command(flatten)]
    symbols: SymbolArgs,
}

/// Copies the trace to the file of `-o`, or to `out`, and adds symbols.
pub fn run(args: &SymbolizeArgs, out: &mut dyn Write) -> Result<Outcome, CliError> {
    let to_stdout = is_stdin(&args.output);
    if to_stdout && io::stdout().is_terminal() {
        return Err(CliError::Usage(
            "refusing to write a binary trace to a terminal; use -o FILE or redirect the output"
                .to_owned(),
        ));
    }
    if !to_stdout && is_same(&args.trace, &args.output) {
        return Err(CliError::Usage(format!(
            "cannot write to {}: it is also the input",
            args.output.display()
        )));
    }
    let source = open_watched(&args.trace)?;
    let symbolize = |report: &mut Report| symbolize(report, &args.symbols);
    let symbolized = write_to(&args.output, out, |to| {
        add_symbols(source, to, symbolize).map_err(|error| match error.kind() {
            ErrorKind::Write => unwritable(&args.output, error.into_io()),
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
