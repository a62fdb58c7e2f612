//! The line at the end of a recording, in the place of its report, in a build without the feature `report`,
//! which has no analyzer.

use super::{ReportTo, Snapshot, WHY, refusal};
use crate::error::Error;
use crate::platform::os;
use crate::problems;
use crate::trace::sink::Sink;
use memledger_format::initial_live_set::{InitialBlock, InitialLiveSet};
use memledger_format::words::{count, escape};
use std::convert::Infallible;
use std::ffi::OsStr;
use std::fs::File;
use std::io;

/// The analyzer of the process itself, which is never made.
#[derive(Clone)]
pub(crate) struct InProcessAnalyzer(Infallible);

pub(crate) fn heap_figures() -> [Option<u64>; 5] {
    [None; 5]
}

impl InProcessAnalyzer {
    pub(crate) fn new() -> Option<Self> {
        None
    }

    /// Where one is asked for, there is none.
    pub(crate) fn is_none(&self) -> ! {
        match self.0 {}
    }

    pub(crate) fn set_limit(&self, _: u64) {
        match self.0 {}
    }

    pub(crate) fn try_initial_live_set(&self) -> Option<InitialLiveSet> {
        match self.0 {}
    }

    pub(crate) fn reserve_blocks(&self) -> Result<Vec<InitialBlock>, Error> {
        match self.0 {}
    }

    pub(crate) fn initial_live_set(&self, _: Vec<InitialBlock>) -> InitialLiveSet {
        match self.0 {}
    }
}

impl Sink for InProcessAnalyzer {
    fn packet(&mut self, _: u16, _: &[u8]) {
        match self.0 {}
    }

    fn sync(&mut self) -> Result<(), Error> {
        match self.0 {}
    }

    fn finish(&mut self) -> Result<(), Error> {
        match self.0 {}
    }
}

impl Snapshot {
    pub(crate) fn of(analyzer: &InProcessAnalyzer, _: Option<usize>) -> Self {
        analyzer.is_none()
    }
}

pub(crate) const NOT_BUILT: Option<&str> = Some(WHY);

pub(crate) fn make_figures<A>(_: impl FnOnce() -> A, _: bool) -> Result<Vec<u8>, Error> {
    Err(refusal())
}

pub(crate) fn make_profile<A>(_: impl FnOnce() -> A) -> Result<Vec<u8>, Error> {
    Err(refusal())
}

/// There is a line at the end.
pub(crate) struct ReportOutput;

impl ReportOutput {
    pub(crate) fn largest_live(&self) -> Option<usize> {
        None
    }

    /// The descriptor that a watcher needs to write it.
    pub(crate) fn descriptor(&self) -> os::RawFd {
        2
    }

    /// What a watcher of a forked child needs: nothing, because it only completes the trace.
    pub(crate) fn hand_over(&self) -> io::Result<(Vec<u8>, Vec<u8>, File)> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn received(_: &ReportTo, _: (&[u8], &[u8]), _: File) -> Option<Self> {
        None
    }

    pub(crate) fn prepare(&self, analyzer: &InProcessAnalyzer) {
        analyzer.is_none()
    }
}

/// What `MEMLEDGER_REPORT` asks for: only `off` can be had.
pub(crate) fn asked(value: &OsStr) -> Result<Option<ReportTo>, String> {
    match value.to_str() {
        Some("off") => Ok(None),
        _ => Err(format!("{WHY}; `memledger report` makes one of a trace (MEMLEDGER_TRACE)")),
    }
}

pub(crate) fn open_report(_: &ReportTo) -> Result<ReportOutput, Error> {
    Ok(ReportOutput)
}

/// Writes the line: how many events were recorded, and where they are.
pub(crate) fn write_report(
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
pub(crate) fn write_report_of(_: io::Result<File>, _: ReportOutput, _: bool) {}

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
