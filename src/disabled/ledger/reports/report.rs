//! The line at the end of a recording, in the place of its report, in a build without the feature `report`.

use super::NOT_BUILT;
use super::in_process::InProcessAnalyzer;
use crate::error::Error;
use crate::ledger::problems;
use crate::ledger::report_to::ReportTo;
use crate::platform::os;
use memledger_format::words::{count, escape};
use std::ffi::OsStr;
use std::fs::File;
use std::io;

/// There is a line at the end.
pub(in crate::ledger) struct ReportOutput;

impl ReportOutput {
    /// The descriptor that a watcher needs to write it.
    pub(in crate::ledger) fn descriptor(&self) -> os::RawFd {
        2
    }

    /// What a watcher of a forked child needs: nothing, because it only completes the trace.
    pub(in crate::ledger) fn hand_over(&self) -> io::Result<(Vec<u8>, Vec<u8>, File)> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(in crate::ledger) fn received(_: &ReportTo, _: (&[u8], &[u8]), _: File) -> Option<Self> {
        None
    }

    pub(in crate::ledger) fn prepare(&self, analyzer: &InProcessAnalyzer) {
        analyzer.is_none()
    }
}

/// What `MEMLEDGER_REPORT` asks for: only `off` can be had.
pub(in crate::ledger) fn asked(value: &OsStr) -> Result<Option<ReportTo>, String> {
    match value.to_str() {
        Some("off") => Ok(None),
        _ => Err(format!("{NOT_BUILT}; `memledger report` makes one of a trace (MEMLEDGER_TRACE)")),
    }
}

pub(in crate::ledger) fn open_report(_: &ReportTo) -> Result<ReportOutput, Error> {
    Ok(ReportOutput)
}

/// Writes the line: how many events were recorded, and where they are.
pub(in crate::ledger) fn write_report(
    _: ReportOutput,
    unlinked: bool,
    _: Option<&InProcessAnalyzer>,
    (events, to): (u64, [Option<&str>; 2]),
) {
    if unlinked {
        return problems::add_unlinked();
    }
    let line = line(events, to);
    let _ = os::write_to_stderr(format!("memledger: {}\n", escape(&line)).as_bytes());
}

/// The trace that a watcher has completed stays as it is.
pub(in crate::ledger) fn write_report_of(_: io::Result<File>, _: ReportOutput, _: bool) {}

/// What is said of `events` in a file and at a host.
fn line(events: u64, to: [Option<&str>; 2]) -> String {
    let names: Vec<_> = to.into_iter().flatten().collect();
    let names =
        if names.is_empty() { "nowhere".to_owned() } else { format!("to {}", names.join(" and ")) };
    let next = match to {
        [Some(file), _] => format!("; 'memledger report {file}' shows them"),
        [None, Some(_)] => String::new(),
        [None, None] => "; MEMLEDGER_TRACE=run.memledger names a file".to_owned(),
    };
    let events = count(events);
    format!("recorded {events} events {names}{next} (a report here needs the feature report)")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_where_the_events_are() {
        let end = " (a report here needs the feature report)";
        for (to, said) in [
            (
                [Some("a.memledger"), None],
                "to a.memledger; 'memledger report a.memledger' shows them",
            ),
            ([Some("a"), Some("b:1")], "to a and b:1; 'memledger report a' shows them"),
            ([None, Some("b:1")], "to b:1"),
            ([None, None], "nowhere; MEMLEDGER_TRACE=run.memledger names a file"),
        ] {
            assert_eq!(line(12_345, to), format!("recorded 12,345 events {said}{end}"));
        }
    }
}
