//! What a report needs of a trace, and the pass that collects it.

use super::input::{open_watched, unreadable};
use super::moment::unanswered;
use crate::error::CliError;
use memledger_analysis::read::{Summary, read};
use memledger_analysis::{Analyzer, BlockObserver, FindingsObserver, Position, Report};
use memledger_export::ReportFormat;
use memledger_export::text::Options;
use std::path::Path;

/// What a report is made for. The formats that it is written in decide what the analyzer collects.
pub struct Needs<'a> {
    pub formats: &'a [&'static dyn ReportFormat],
    pub options: &'a Options,
    /// Where counting stops.
    pub until: Position,
    /// The scope that stacks and findings are limited to.
    pub scope: Option<&'a str>,
    /// How many of the largest live blocks are listed.
    pub largest_live: usize,
    /// Whether functions are needed, and findings, whatever the formats show.
    pub functions: bool,
    pub findings: bool,
}

/// A report, the summary of reading, and the contradictions in the trace.
pub type Collected = (Report, Summary, Vec<String>);

impl Needs<'_> {
    /// Reads the trace. `symbolize` finds the functions, if any are shown.
    pub fn read(
        &self,
        trace: &Path,
        symbolize: impl FnOnce(&mut Report),
    ) -> Result<Collected, CliError> {
        if !self.findings
            && !self.options.findings
            && !self.any(|format| format.shows_findings(self.options))
        {
            let (report, summary, analyzer) = self.collect(Analyzer::new(), trace, symbolize)?;
            return Ok((report, summary, analyzer.problems().to_vec()));
        }
        let analyzer = Analyzer::observing(FindingsObserver::default()).by_bucket();
        let (mut report, summary, analyzer) = self.collect(analyzer, trace, symbolize)?;
        analyzer.find(&mut report, self.scope);
        report.freed_in = analyzer.freed_in(&report, self.scope);
        Ok((report, summary, analyzer.problems().to_vec()))
    }

    fn any(&self, does: impl Fn(&dyn ReportFormat) -> bool) -> bool {
        self.formats.iter().any(|format| does(*format))
    }

    fn collect<O: BlockObserver>(
        &self,
        analyzer: Analyzer<O>,
        trace: &Path,
        symbolize: impl FnOnce(&mut Report),
    ) -> Result<(Report, Summary, Analyzer<O>), CliError> {
        let mut analyzer = analyzer.until(self.until.clone()).largest_live(self.largest_live);
        if let Some(scope) = self.scope {
            analyzer = analyzer.stacks_in_scope(scope);
        }
        if !self.functions && !self.any(|format| format.shows_stacks(self.options)) {
            analyzer = analyzer.without_stacks();
        }
        if self.any(|format| format.needs_buckets()) {
            analyzer = analyzer.by_bucket();
        }
        let summary = read(open_watched(trace)?, &mut analyzer);
        let summary = summary.map_err(|error| unreadable(trace, error))?;
        analyzer.reached().map_err(|why| unanswered(why, &[]))?;
        let mut report = analyzer.take_report();
        if self.functions || self.any(|format| format.shows_functions(&report, self.options)) {
            symbolize(&mut report);
        }
        Ok((report, summary, analyzer))
    }
}
