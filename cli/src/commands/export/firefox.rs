//! A profile for the Firefox Profiler.

use super::args::ExportArgs;
use super::pass::{outcome, pass, symbolized};
use crate::commands::output::{unwritable, write_to};
use crate::error::{CliError, Outcome};
use crate::terminal::note;
use memledger_export::passes::firefox::Allocations;
use std::io::Write;

/// Reads the trace and writes it to the file of `-o`, or to `out`.
pub(super) fn run(args: &ExportArgs, out: &mut dyn Write) -> Result<Outcome, CliError> {
    write_to(&args.output, out, |out| {
        let (analyzer, summary) = pass(&args.trace, Allocations::default(), |_| false)?;
        let (report, allocations) = symbolized(analyzer, &args.symbols);
        if let Some(ms) = allocations.rounded_to_ms() {
            note(&format!(
                "the trace has more allocations than the profiler opens: times in the profile are \
                 rounded down to {ms} ms, and sums are exact"
            ));
        }
        allocations.write(&report, out).map_err(|error| unwritable(&args.output, error))?;
        Ok(outcome(&args.trace, &report, &summary))
    })
}
