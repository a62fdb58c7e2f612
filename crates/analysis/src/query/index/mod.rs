//! What answers any query about a trace after one pass over it.
//!
//! The order of events is divided into *steps*: a step begins at a time of the trace, at a bookmark, and
//! after the event that reached the peak. All rules are about when a block became live and when it
//! ended, compared with positions. So rows are enough that say of how many blocks of a bucket, and of how
//! many bytes, these are of which steps; blocks that lived within one step are one row of their bucket. A
//! query at positions where steps begin is then a sum over rows, and exactly what a [`Query`] finds.
//!
//! ```text
//! step    0   |   1   |   2   |   3                    rows: bucket, first step, last step
//!         A───┼───────┼─A                              5     0           2
//!         B───┼───────┼───────┼─────▶ live             5     0           never
//!             | C─C   |                                7     1           1
//! ```
//!
//! If there are too many steps or rows, neighbouring steps become one: memory is limited, whatever the
//! length of the trace. Bookmarks and the peak stay.
//!
//! | file | what |
//! |---|---|
//! | `indexer.rs` | makes the index while the trace is read |
//! | `rows.rs` | the rows |
//! | `steps.rs` | where steps begin |
//!
//! [`Query`]: super::Query
//!
//! Rows are made during the pass, not from the file of lives that `memledger view` writes after it: to
//! write that file takes three times as long as the pass, and the first picture does not wait for it.

mod indexer;
mod rows;
mod steps;

pub use indexer::{IndexLimits, QueryIndexer};
pub use rows::IndexRow;
pub use steps::{StepMoment, StepStart};

use super::answer::{Answer, Found, Unanswered};
use super::rules::Rule;
use crate::analyzer::Analyzer;
use crate::cutoff::{Position, Reached};
use crate::observer::BlockObserver;
use indexer::step_of;
use memledger_document::Report;
use steps::Steps;

/// The lives of all blocks of a trace, by step and bucket: see [`QueryIndexer`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueryIndex {
    /// Where each step begins, in their order, and the end of the last.
    pub steps: Vec<StepStart>,
    /// The blocks, each in one row.
    pub rows: Vec<IndexRow>,
    /// The bookmarks, each with the number of its event.
    pub bookmarks: Vec<(String, u64)>,
}

/// What an index says to a query.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Indexed {
    /// The positions, as many as the rule has.
    pub positions: Vec<IndexedPosition>,
    /// What was found, by the numbers of buckets: rows of [`Report::by_bucket`]. The last ones are missing
    /// if nothing was found in them.
    pub by_bucket: Vec<Found>,
    /// All of it.
    pub total: Found,
}

/// Where a position is in an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct IndexedPosition {
    /// Where it was asked for, in nanoseconds since the start; of an event or a bookmark, the last time in
    /// the trace before it.
    pub asked_ns: u64,
    /// Where the answer is for: the same, unless it is not exact.
    pub at_ns: u64,
    /// Whether no step begins there: the answer is for another position, the nearest that has one.
    pub is_moved: bool,
    /// The step that begins there.
    pub step: u32,
}

impl<O: BlockObserver> Analyzer<O> {
    /// The index of what was read so far, by an indexer that is the observer or a part of it. Counting
    /// continues after it. Costs time in proportion to rows and live blocks.
    ///
    /// ```
    /// use memledger_analysis::{Analyzer, Position, QueryIndexer, Rule};
    /// use memledger_analysis::read::read;
    /// use std::fs::File;
    ///
    /// let mut analyzer = Analyzer::observing(QueryIndexer::default());
    /// read(File::open("../../tests/samples/memledger-small.utrace")?, &mut analyzer)?;
    /// let index = analyzer.query_index(|indexer| indexer);
    /// let live = index.find(Rule::AliveAtA, &[Position::Event(analyzer.peak_event())])?;
    /// assert_eq!(live.total.bytes, analyzer.report().totals.peak_bytes);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn query_index(&mut self, indexer: impl Fn(&mut O) -> &mut QueryIndexer) -> QueryIndex {
        self.flush();
        if self.is_counting() {
            self.observe_live();
        }
        let bookmarks = self.bookmarks().events();
        indexer(self.observer_mut()).index(bookmarks)
    }
}

impl QueryIndex {
    /// What a [`Query`](super::Query) with this rule and these positions finds, if no position
    /// [is moved](IndexedPosition::is_moved). Costs time in proportion to rows.
    pub fn find(&self, rule: Rule, positions: &[Position]) -> Result<Indexed, Unanswered> {
        let positions = self.positions(rule, positions)?;
        let (mut by_bucket, mut total) = (Vec::new(), Found::default());
        for (row, part) in self.found(rule, &positions) {
            let bucket = row.bucket as usize;
            if bucket >= by_bucket.len() {
                by_bucket.resize(bucket + 1, Found::default());
            }
            by_bucket[bucket].add((row.blocks, row.bytes), part > 0);
            total.add((row.blocks, row.bytes), part > 0);
        }
        Ok(Indexed { positions, by_bucket, total })
    }

    /// The rows with blocks that the rule finds. So where single blocks may be, and how large they are.
    pub fn rows_of(
        &self,
        rule: Rule,
        positions: &[Position],
    ) -> Result<impl Iterator<Item = &IndexRow>, Unanswered> {
        let positions = self.positions(rule, positions)?;
        Ok(self.found(rule, &positions).map(|(row, _)| row))
    }

    /// The same, each with the part of the rule that finds it.
    fn found(
        &self,
        rule: Rule,
        positions: &[IndexedPosition],
    ) -> impl Iterator<Item = (&IndexRow, usize)> + use<'_> {
        let at: Vec<u32> = positions.iter().map(|position| position.step).collect();
        let found = move |row: &IndexRow| row.span().found_by(rule.parts(), &at);
        self.rows.iter().filter_map(move |row| Some((row, found(row)?)))
    }

    /// The step that an event is in.
    pub fn step_of(&self, event: u64) -> u32 {
        step_of(&self.steps, event)
    }

    /// The same as an answer with the rows of `report`, which is of the same trace and has all buckets.
    pub fn answer(
        &self,
        report: &Report,
        rule: Rule,
        positions: &[Position],
    ) -> Result<Answer, Unanswered> {
        let Indexed { positions, by_bucket, total } = self.find(rule, positions)?;
        let reached = |position: &IndexedPosition| Reached {
            event: self.steps.get(position.step as usize).map_or(0, |step| step.before.event),
            at_ns: position.at_ns,
        };
        let positions = positions.iter().map(reached).collect();
        Ok(Answer::of_buckets(report.clone(), rule, positions, by_bucket, total))
    }

    fn positions(
        &self,
        rule: Rule,
        positions: &[Position],
    ) -> Result<Vec<IndexedPosition>, Unanswered> {
        let steps = Steps::new(&self.steps);
        let mut all = Vec::<IndexedPosition>::new();
        let mut before: Option<&Position> = None;
        for number in 0..rule.positions() {
            let position = positions.get(number).unwrap_or(&Position::End);
            let at = match position {
                Position::Time(time) => steps.at_time(*time),
                Position::Event(event) => steps.at_event(*event),
                Position::Bookmark(name) => steps.at_event(self.bookmark(name)?),
                Position::End => steps.end(),
            };
            let is_before = match (before, position) {
                (Some(Position::Time(a)), Position::Time(b)) => b < a,
                (Some(Position::Event(a)), Position::Event(b)) => b < a,
                _ => false,
            };
            if is_before || all.last().is_some_and(|last| at.step < last.step) {
                return Err(Unanswered::Disordered { position: number });
            }
            before = Some(position);
            all.push(at);
        }
        Ok(all)
    }

    fn bookmark(&self, name: &str) -> Result<u64, Unanswered> {
        let found = self.bookmarks.iter().find(|(set, _)| set == name);
        let no_bookmark = || Unanswered::NoBookmark {
            name: name.to_owned(),
            set: self.bookmarks.iter().map(|(name, _)| name.clone()).collect(),
        };
        found.map(|&(_, event)| event).ok_or_else(no_bookmark)
    }
}
