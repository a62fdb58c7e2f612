//! The analyzer within the program that it analyses. For `memledger` only: no interface.

use super::Analyzer;
use crate::build::Sources;
use crate::measured::{Baseline, Holders, MeasuredFigures};
use memledger_document::{CoverageWord, Report};
use memledger_format::initial_live_set::{InitialBlock, InitialLiveSet};

#[doc(hidden)]
impl Analyzer {
    /// An analyzer for the program that it runs in, which may ask for measurements.
    pub fn measuring() -> Self {
        let mut analyzer = Self::new();
        analyzer.model.accounts_mut().measured_mut().enable();
        analyzer
    }

    /// Live blocks, the blocks at the peak of bytes, and the most blocks, up to the last
    /// [`flush`](Self::flush); a few loads.
    pub fn blocks(&self) -> [u64; 3] {
        let total = self.model.accounts().total();
        [total.live_blocks, total.blocks_at_peak, total.peak_blocks]
    }

    /// See [`largest_live`](Self::largest_live).
    pub fn set_largest_live(&mut self, blocks: usize) {
        self.largest_live = blocks;
    }

    /// Gives reports a row for each bucket: [`by_bucket`](Self::by_bucket).
    pub fn set_by_bucket(&mut self) {
        self.by_bucket = true;
    }

    /// The [`report`](Self::report) with a row for each bucket, and without single blocks and sizes: the time
    /// is in proportion to rows, not to live blocks.
    pub fn report_by_bucket(&self) -> Report {
        Sources { by_block: false, by_bucket: true, ..self.sources() }.report()
    }

    /// The start of the trace, in cycles.
    pub fn start_cycle(&self) -> u64 {
        self.timeline.clock().start_cycle()
    }

    /// The [`report`](Self::report) without single blocks, sizes and, unless `stacks`, call stacks: the
    /// time is in proportion to rows, not to live blocks. It is of a program that runs, which is complete
    /// without an end.
    pub fn report_of_rows(&self, stacks: bool) -> Report {
        let by_stack = stacks;
        let sources = Sources { by_stack, by_block: false, by_bucket: false, ..self.sources() };
        let mut report = sources.report();
        report.trace.coverage = self.diagnostics.coverage(&report, true);
        report.trace.complete = report.trace.coverage.word == CoverageWord::Complete;
        report
    }

    /// An upper estimate of the bytes needed to make the report and to write it, with
    /// `largest_live` of the largest live blocks; if that is `None`, with the number that is set in
    /// the analyzer.
    pub fn report_bytes(&self, largest_live: Option<usize>) -> usize {
        /// Bytes of a row with its names and its text.
        const ROW: usize = 2 << 10;
        /// Bytes of a stack: it is 20 bytes and its figures, and a row of text or JSON is made when it is
        /// written.
        const STACK: usize = 512;
        /// Bytes of a frame of the tree of stacks: sums up the tree, and its function, which most share with
        /// others.
        const FRAME: usize = 128;
        let stacks = self.model.callstacks();
        // Each stack has a bucket for each context and thread; these are summed into its row.
        let rows = self.model.accounts().buckets_without_stack()
            + self.model.contexts().len()
            + self.model.threads().all().len();
        let blocks = largest_live.unwrap_or(self.largest_live).min(self.live_block_count());
        let timeline = self.timeline.series().report_bytes();
        let of_stacks = STACK * stacks.len() + FRAME * stacks.tree().len();
        (64 << 10) + timeline + ROW * (rows + blocks) + of_stacks
    }

    /// See [`Model::live_block_count`].
    pub fn live_block_count(&self) -> usize {
        self.model.live_block_count()
    }

    /// See [`Model::initial_live_set`].
    pub fn initial_live_set(&mut self, blocks: Vec<InitialBlock>) -> InitialLiveSet {
        self.flush();
        self.model.initial_live_set(blocks)
    }

    /// See [`Model::is_measurement_live`].
    pub fn is_measurement_live(&mut self, id: i32) -> bool {
        self.flush();
        self.model.is_measurement_live(id)
    }

    /// See [`Model::begin_measurement`].
    pub fn begin_measurement(&mut self, id: i32) -> Baseline {
        self.flush();
        self.model.begin_measurement(id)
    }

    /// See [`Model::measured`].
    pub fn measured(&mut self, id: i32, before: &Baseline) -> MeasuredFigures {
        self.flush();
        self.model.measured(id, before)
    }

    /// See [`Model::holders`].
    pub fn holders(&mut self, id: i32, before: &Baseline) -> Holders {
        self.flush();
        let (scopes, tags, stacks) = self.model.holders(id, before);
        let (numbers, by_stack): (Vec<_>, Vec<_>) = stacks.into_iter().unzip();
        Holders { scopes, tags, by_stack, stacks: self.sources().stacks(&numbers) }
    }
}
