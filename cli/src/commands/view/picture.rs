//! What is shown and asked of a trace that was read.

use crate::commands::observer_thread::ObserverThread;
use crate::error::CliError;
use memledger_analysis::{
    Analyzer, BlockChange, BlockEvent, BlockObserver, FindingsObserver, QueryIndex, QueryIndexer,
    Report, Symbolizer,
};
use memledger_export::html::Page;
use memledger_export::text;

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

/// What sees each block of a trace that is read: for queries, and for findings.
#[derive(Default)]
pub struct BlockObservers {
    index: QueryIndexer,
    findings: FindingsObserver,
}

impl BlockObserver for BlockObservers {
    #[inline]
    fn observe(&mut self, event: &BlockEvent, change: BlockChange) {
        self.index.observe(event, change);
        self.findings.observe(event, change);
    }

    fn bookmark(&mut self, event: u64) {
        self.index.bookmark(event);
        self.findings.bookmark(event);
    }

    /// NOTE: findings are of what the analyzer has at the end.
    fn stop(&mut self, live: &mut dyn Iterator<Item = BlockEvent>) {
        self.index.stop(live);
    }
}

/// The analyzer of a trace that is read.
pub type Reading = Analyzer<ObserverThread<BlockObservers>>;

impl Picture {
    /// The picture of what `analyzer` has read of a trace that grows: without findings.
    pub fn of_growing(
        analyzer: &mut Reading,
        symbolizer: &mut dyn Symbolizer,
    ) -> Result<Self, CliError> {
        let (index, report) = read(analyzer, symbolizer);
        let picture = Self::of(index, &report, analyzer.peak_event())?;
        Ok(Self { is_growing: true, ..picture })
    }

    /// The picture of all of a trace, its report, and the contradictions in it.
    pub fn of_whole(
        mut analyzer: Reading,
        symbolizer: &mut dyn Symbolizer,
    ) -> Result<(Self, Report, Vec<String>), CliError> {
        let (index, mut report) = read(&mut analyzer, symbolizer);
        let analyzer = analyzer.map_observer(|thread| thread.into_observer().findings);
        analyzer.find(&mut report, None);
        let picture = Self::of(index, &report, analyzer.peak_event())?;
        Ok((picture, report, analyzer.problems().to_vec()))
    }

    fn of(index: QueryIndex, report: &Report, peak_event: u64) -> Result<Self, CliError> {
        let mut page = Vec::new();
        Page::new(report, &text::Options::default())
            .write_json(&mut page)
            .map_err(|error| CliError::Failed(format!("the page cannot be made: {error}")))?;
        Ok(Self {
            page,
            program: report.trace.program.clone(),
            index,
            threads: report.by_bucket.iter().map(|bucket| bucket.thread as u32).collect(),
            thread_names: report.by_thread.iter().map(|row| thread(&row.name, row.id)).collect(),
            peak_event,
            duration_ns: report.trace.duration_ns,
            is_growing: false,
            notes: Vec::new(),
        })
    }

    /// The last event of what this is about: a pass may read more.
    pub fn end(&self) -> u64 {
        self.index.steps.last().map_or(0, |step| step.before.event)
    }
}

/// What was read so far.
fn read(analyzer: &mut Reading, symbolizer: &mut dyn Symbolizer) -> (QueryIndex, Report) {
    let index = analyzer.query_index(|thread| &mut thread.observer().index);
    let mut report = analyzer.report();
    report.symbolize(symbolizer);
    (index, report)
}

/// The name of a thread, which may have none.
pub fn thread(name: &str, id: u32) -> String {
    if name.is_empty() { format!("thread {id}") } else { format!("{name} ({id})") }
}
