//! A heap profile for DHAT's viewer.

use super::args::ExportArgs;
use crate::commands::completeness::incomplete;
use crate::commands::input::{is_stdin, open_watched, unreadable};
use crate::commands::output::{frames, unwritable, write_to};
use crate::error::{CliError, Outcome};
use crate::symbols;
use memledger_analysis::read::read;
use memledger_analysis::{Analyzer, Position};
use memledger_export::tools::dhat::Profile;
use std::io::Write;

/// Reads the trace twice, for the report and for what each program point had live, and writes both.
pub(super) fn write(args: &ExportArgs, out: &mut dyn Write) -> Result<Outcome, CliError> {
    if is_stdin(&args.trace) {
        return Err(CliError::Usage(
            "dhat needs to read the trace twice, which standard input does not allow; give a file"
                .to_owned(),
        ));
    }
    let failed = |error| unreadable(&args.trace, error);
    let mut analyzer = Analyzer::new().largest_live(0).by_bucket();
    let summary = read(open_watched(&args.trace)?, &mut analyzer).map_err(failed)?;
    let mut report = analyzer.report();
    drop(analyzer);
    symbols::symbolize(&mut report, &args.symbols);
    // Up to the same event, if the trace has grown since.
    let until = Position::Event(report.trace.events);
    let profile = Profile::of(&report, frames(args.all_frames));
    let mut analyzer = Analyzer::observing(profile).until(until).largest_live(0);
    read(open_watched(&args.trace)?, &mut analyzer).map_err(failed)?;
    write_to(&args.output, out, |out| {
        analyzer.observer().write(&report, out).map_err(|error| unwritable(&args.output, error))
    })?;
    Ok(incomplete(&args.trace, &report, &summary).map_or(Outcome::Done, Outcome::Incomplete))
}
