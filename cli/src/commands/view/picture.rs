//! What is shown and asked of a trace that was read.

use crate::commands::observer_thread::ObserverThread;
use crate::error::CliError;
use memledger::analysis::{Analyzer, Position, QueryIndex, QueryIndexer, Report, Symbolizer};
use memledger::dump::html::Page;
use memledger::dump::text;

/// A trace that was read, as far as it was then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    /// The document of the page, `memledger.page/1`.
    pub page: Vec<u8>,
    /// The program.
    pub program: Option<String>,
    /// What answers queries.
    pub index: QueryIndex,
    /// By bucket: its thread, an index of `by_thread` in the document.
    pub threads: Vec<u32>,
    /// The names of these threads.
    pub thread_names: Vec<String>,
    /// The event that reached the peak.
    pub peak_event: u64,
    pub duration_ns: u64,
    /// Whether the trace still grew.
    pub is_growing: bool,
    /// What a reader should know, that the document does not say.
    pub notes: Vec<String>,
}

impl Picture {
    /// The picture of what `analyzer` has read, and its report.
    pub fn of(
        analyzer: &mut Analyzer<ObserverThread<QueryIndexer>>,
        symbolizer: &mut dyn Symbolizer,
    ) -> Result<(Self, Report), CliError> {
        let index = analyzer.query_index(ObserverThread::observer);
        let mut report = analyzer.report();
        report.symbolize(symbolizer);
        report.findings = Some(report.brief_findings());
        let mut page = Vec::new();
        Page::new(&report, &text::Options::default())
            .write_json(&mut page)
            .map_err(|error| CliError::Failed(format!("the page cannot be made: {error}")))?;
        let picture = Self {
            page,
            program: report.trace.program.clone(),
            index,
            threads: report.by_bucket.iter().map(|bucket| bucket.thread as u32).collect(),
            thread_names: report.by_thread.iter().map(|row| thread(&row.name, row.id)).collect(),
            peak_event: analyzer.peak_event(),
            duration_ns: report.trace.duration_ns,
            is_growing: false,
            notes: Vec::new(),
        };
        Ok((picture, report))
    }

    /// The position of the end of what this is about: a pass may read more.
    pub fn end(&self) -> Position {
        Position::Event(self.index.steps.last().map_or(0, |step| step.before.event))
    }
}

/// The name of a thread, which may have none.
pub fn thread(name: &str, id: u32) -> String {
    if name.is_empty() { format!("thread {id}") } else { format!("{name} ({id})") }
}
