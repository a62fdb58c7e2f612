//! A file for heaptrack_print and heaptrack_gui.

use super::args::ExportArgs;
use super::pass::{outcome, pass, symbolized};
use crate::commands::output::{unwritable, write_to};
use crate::error::{CliError, Outcome};
use memledger_export::tools::heaptrack::Spool;
use std::io::Write;

/// Reads the trace and writes it to the file of `-o`, or to `out`. A file that ends in `.gz` or `.zst` is
/// compressed, as heaptrack expects of such a name.
pub(super) fn run(args: &ExportArgs, out: &mut dyn Write) -> Result<Outcome, CliError> {
    let failed = |error| unwritable(&args.output, error);
    write_to(&args.output, out, |out| {
        let spool = Spool::new().map_err(failed)?;
        let (analyzer, summary) = pass(&args.trace, spool, Spool::has_failed)?;
        let (report, spool) = symbolized(analyzer, &args.symbols);
        let ending = args.output.extension().and_then(|ending| ending.to_str());
        let written = match ending {
            Some("gz") => {
                let mut out = flate2::write::GzEncoder::new(out, flate2::Compression::default());
                spool.write(&report, &mut out).and_then(|()| out.finish().map(drop))
            }
            Some("zst") => zstd::Encoder::new(out, 0).and_then(|mut out| {
                spool.write(&report, &mut out)?;
                out.finish().map(drop)
            }),
            _ => spool.write(&report, out),
        };
        written.map_err(failed)?;
        Ok(outcome(&args.trace, &report, &summary))
    })
}
