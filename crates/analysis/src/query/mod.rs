//! Questions about blocks and up to four positions of a trace: which were allocated between A and B
//! and are still live, and the like.
//!
//! One pass over the trace answers a query. It takes some 50 bytes for each live block more than a report.

mod answer;
mod index;
mod lives;
mod observer;
mod rules;
mod runs;

pub use answer::{Answer, Found, FoundBlock, LifetimeRow, Unanswered};
pub use index::{
    IndexLimits, IndexRow, Indexed, IndexedPosition, QueryIndex, QueryIndexer, StepMoment,
    StepStart,
};
pub use lives::{BlockLife, BlockLives, LargestBlocks, SingleBlock};
pub use observer::QueryObserver;
pub use rules::Rule;
pub use runs::{ScopeRun, ScopeRuns};

use super::analyzer::Analyzer;
use super::cutoff::Position;

/// What rows are of, beside those of buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Size,
    Lifetime,
}

/// A question about blocks.
///
/// ```
/// use memledger_analysis::{Position, Query, Rule};
/// use memledger_analysis::read::read;
/// use std::fs::File;
///
/// // What was allocated in the first millisecond and is still live at the end?
/// let query = Query::new(Rule::Leaked, vec![Position::Event(0), Position::Time(1_000_000)]);
/// let mut analyzer = query.analyzer();
/// read(File::open("../../tests/samples/memledger-small.utrace")?, &mut analyzer)?;
/// let answer = analyzer.answer()?;
/// println!("{} blocks, {} bytes", answer.total.blocks, answer.total.bytes);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "it answers nothing until its analyzer has read a trace"]
pub struct Query {
    rule: Rule,
    positions: Vec<Position>,
    /// The least age of a block, and the age below which it is, in nanoseconds.
    ages: Option<(u64, u64)>,
    by_class: Option<Class>,
    /// Whether the numbers of all blocks are kept.
    numbers: bool,
    /// How many of the largest single blocks the answer has.
    blocks: usize,
    scope: Option<String>,
    /// By bucket; all if it is empty.
    in_buckets: Vec<bool>,
    /// A and B are the beginning and the end of each run of this scope.
    each: Option<String>,
}

impl Query {
    /// The blocks that `rule` finds for the positions A, B, C and D. The end is assumed for those
    /// that are missing; more than the rule has are ignored.
    pub fn new(rule: Rule, mut positions: Vec<Position>) -> Self {
        positions.truncate(rule.times());
        positions.resize(rule.positions(), Position::End);
        let (ages, by_class, numbers, blocks) = (None, None, false, 0);
        let (scope, in_buckets, each) = (None, Vec::new(), None);
        Self { rule, positions, ages, by_class, numbers, blocks, scope, in_buckets, each }
    }

    /// Only blocks of at least `least` nanoseconds and of less than `below`: from their first
    /// allocation until they were freed, or until the last position. A reallocation does not end the
    /// age of a block, so with this, it does not end the block either. Ignored by the rules that
    /// find blocks by their allocation alone ([`Rule::has_ages`]).
    pub fn ages(mut self, least: u64, below: u64) -> Self {
        self.ages = Some((least, below)).filter(|_| self.rule.has_ages());
        self
    }

    /// Adds rows by size to the answer: 100 to 200 bytes for each size class of a row of the others.
    pub fn by_size(mut self) -> Self {
        self.by_class = Some(Class::Size);
        self
    }

    /// Adds rows by lifetime to the answer, in place of those by size: from the first allocation of a block
    /// until the event that ended it, or until the last position.
    pub fn by_lifetime(mut self) -> Self {
        self.by_class = Some(Class::Lifetime);
        self
    }

    /// Keeps the number of each block that is found, for [`Analyzer::block_numbers`]: 20 to 40 bytes a block.
    pub fn numbers(mut self) -> Self {
        self.numbers = true;
        self
    }

    /// Makes the answer list the `blocks` largest single blocks. At most twice as many are kept, 170 bytes
    /// each; with [`in_scope`](Self::in_scope), as many of each combination of scope stack, name, thread and
    /// call stack.
    pub fn blocks(mut self, blocks: usize) -> Self {
        self.blocks = blocks;
        self
    }

    /// Only blocks that were allocated in scopes with `text` in their path, in upper or lower case.
    pub fn in_scope(mut self, text: &str) -> Self {
        self.scope = Some(text.to_lowercase());
        self
    }

    /// Only blocks of these buckets, rows of [`Report::by_bucket`](super::Report::by_bucket); of all if there
    /// are none.
    pub fn in_buckets(mut self, buckets: &[u32]) -> Self {
        let count = buckets.iter().max().map_or(0, |&last| last as usize + 1);
        self.in_buckets = vec![false; count];
        buckets.iter().for_each(|&bucket| self.in_buckets[bucket as usize] = true);
        self
    }

    /// Asks the rule about each run of a scope, and sums the answers: of each run between A and B, for which
    /// the run's own beginning and end are A and B of the rule. Ignored by rules but
    /// [`Rule::Grown`] (what did each run leave behind?) and [`Rule::ShortLived`] ([`Rule::has_runs`]).
    ///
    /// `scope` is a name, or names from outside to inside between ` > `. A run is a stretch of a thread's
    /// events in the outermost scope of these names, and is over with the thread's first allocation outside
    /// it; when counting stops, all runs stop. `GlobalScope` is never closed, and has no runs to ask about. A
    /// reallocation ends no block: a block is of the run that first allocated it. Blocks of no run are not
    /// found, and ages and [`in_scope`](Self::in_scope) are ignored. The memory is 150 bytes for each live
    /// block that a run has allocated.
    pub fn in_each(mut self, scope: &str) -> Self {
        self.each = Some(scope.to_owned()).filter(|_| self.rule.has_runs());
        self
    }

    /// Which blocks are wanted.
    fn parts(&self) -> &'static [rules::Part] {
        match self.each {
            Some(_) => self.rule.parts_in_each(),
            None => self.rule.parts(),
        }
    }

    /// The rule.
    pub fn rule(&self) -> Rule {
        self.rule
    }

    /// An analyzer that reads a trace for this query.
    pub fn analyzer(self) -> Analyzer<QueryObserver> {
        let positions = self.positions.clone();
        Analyzer::observing(QueryObserver::new(self))
            .by_bucket()
            .largest_live(0)
            .positions(&positions)
    }
}
