//! Where the report goes. At the start only its name is reserved; the file is created when the report is
//! written.

use super::files::{expand, report_in_use};
use super::in_process::InProcessAnalyzer;
use super::problems;
use super::report_to::ReportTo;
use crate::dump;
use crate::error::{Error, NOT_LINKED};
use crate::platform::os;
use crate::scopes;
use crate::trace::sink::file::LaterFile;
use std::io;
use std::path::PathBuf;

/// Where the report goes.
pub(super) enum ReportOutput {
    Stderr { verbose: bool },
    File { file: LaterFile, path: PathBuf, json: bool, verbose: bool },
}

/// Reserves the name of the report's file, if it goes to one.
pub(super) fn open_report(report: &ReportTo) -> Result<ReportOutput, Error> {
    let verbose = report.verbose;
    let Some(path) = &report.path else { return Ok(ReportOutput::Stderr { verbose }) };
    let asked = expand(path, &mut problems::add);
    let json = match asked.extension().and_then(|extension| extension.to_str()) {
        Some("json") => true,
        Some("txt") => false,
        _ => {
            return Err(Error::UnknownReportFormat(asked));
        }
    };
    let (file, path) = LaterFile::prepare(&asked)?;
    if path != asked {
        report_in_use(&asked, &path);
    }
    Ok(ReportOutput::File { file, path, json, verbose })
}

/// Writes the report of `analyzer`, if there is one.
pub(super) fn write_report(
    output: ReportOutput,
    unlinked: bool,
    analyzer: Option<&InProcessAnalyzer>,
) {
    if unlinked {
        return problems::add(format!("no allocation was recorded, because {NOT_LINKED}"));
    }
    let Some(analyzer) = analyzer else { return };
    // NOTE: checks for memory first. Without memory, making the report would end the process.
    let room = analyzer.look(|analyzer| analyzer.report_bytes());
    if Vec::<u8>::new().try_reserve_exact(room).is_err() {
        return problems::add(format!(
            "the report is not written: it takes about {} KiB, and the system has no memory left",
            room >> 10
        ));
    }
    let report = analyzer.report();
    let mut bytes = Vec::new();
    // Writing to memory does not fail.
    let _ = match output {
        ReportOutput::File { json: true, .. } => dump::json::write(&report, &mut bytes),
        ReportOutput::File { verbose, .. } => {
            let options = dump::text::Options { verbose, ..Default::default() };
            dump::text::write(&report, &options, &mut bytes)
        }
        ReportOutput::Stderr { verbose } => {
            let mut options = dump::text::Options { verbose, ..Default::default() };
            options.color = os::is_terminal(2);
            options.width = os::terminal_width(2).unwrap_or(options.width);
            dump::text::write(&report, &options, &mut bytes)
        }
    };
    match output {
        ReportOutput::Stderr { .. } => {
            let _ = os::write_all(2, &bytes);
        }
        ReportOutput::File { file, path, .. } => write_file(&file, path, &bytes),
    }
    if let Some(site) = scopes::misuse::first() {
        problems::add(format!(
            "{} scopes were left out of order, or never; the first was entered at {site}",
            scopes::misuse::count()
        ));
    }
}

/// Writes the report to its file, or to stderr if the system does not let the file be written.
///
/// NOTE: a program may have given up its rights since the start (`setresuid`, a sandbox), or have no
/// descriptor or no space on the disk left. Only a file created at the start could be written then, but
/// a program that is killed would leave it behind. An unnamed file (`O_TMPFILE`) needs the same rights
/// to get a name. Descriptor 2 is open already and needs none. It is not used if the program has closed
/// the tracker's descriptors: 2 may be a file of the program then.
fn write_file(file: &LaterFile, path: PathBuf, bytes: &[u8]) {
    let Err(mut source) = file.write(bytes) else { return };
    let is_ours = file.is_ours();
    if is_ours {
        source = io::Error::other(format!("{source}; the report follows on stderr instead"));
    }
    problems::report(Error::File { path, action: "write", source });
    if is_ours {
        let _ = os::write_all(2, bytes);
    }
}
