//! `memledger export --to perfetto`: a trace for Perfetto's UI.

use super::args::{ExportArgs, refuse_terminal};
use crate::commands::completeness::incomplete;
use crate::commands::input::{is_stdin, open_watched, unreadable};
use crate::commands::output::{frames, unwritable, write_to};
use crate::error::{CliError, Outcome};
use crate::symbols;
use memledger_analysis::read::{Reader, read};
use memledger_analysis::{Analyzer, Position};
use memledger_export::perfetto::{Events, Export, ExportOptions};
use std::io::Write;

/// Reads the trace twice, for the report and for what happened when, and writes both.
pub(super) fn run(args: &ExportArgs, out: &mut dyn Write) -> Result<Outcome, CliError> {
    refuse_terminal(args, "a trace")?;
    if is_stdin(&args.trace) {
        return Err(CliError::Usage(
            "perfetto needs to read the trace twice, which standard input does not allow; give a file"
                .to_owned(),
        ));
    }
    let failed = |error| unreadable(&args.trace, error);
    let mut analyzer = Analyzer::new().largest_live(0).by_bucket();
    let summary = read(open_watched(&args.trace)?, &mut analyzer).map_err(failed)?;
    let mut report = analyzer.report();
    let peak_event = analyzer.peak_event();
    drop(analyzer);
    symbols::symbolize(&mut report, &args.symbols);
    let mut options = ExportOptions::default();
    (options.frames, options.interval_ns) = (frames(args.all_frames), args.interval);
    // Up to the same event, if the trace has grown since.
    let until = Position::Event(report.trace.events);
    let mut analyzer = Analyzer::observing(Events::default()).until(until).largest_live(0);
    let mut reader = Reader::open(open_watched(&args.trace)?).map_err(failed)?;
    write_to(&args.output, out, |out| {
        let unwritable = |error| unwritable(&args.output, error);
        let mut export = Export::new(&report, peak_event, &options);
        while reader.packet(&mut analyzer) {
            export.events(&mut analyzer, out).map_err(unwritable)?;
        }
        reader.finish(&mut analyzer);
        export.finish(&mut analyzer, out).map_err(unwritable)
    })?;
    Ok(incomplete(&args.trace, &report, &summary).map_or(Outcome::Done, Outcome::Incomplete))
}
