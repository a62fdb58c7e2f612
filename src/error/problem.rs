//! What went wrong, as the program gets it.

use std::fmt::{Display, Formatter, Result};

/// What the tracker could not do as it was asked. [`Ledger::problems`](crate::Ledger::problems) and
/// [`Ledger::finish`](crate::Ledger::finish) return them.
///
/// [`Display`] gives one sentence, with the numbers. It was also a line on stderr, but for
/// [`ProblemKind::Overridden`], and for lost events, which the report names.
///
/// ```
/// use memledger::{Ledger, ProblemKind};
///
/// # let ledger = Ledger::builder().start()?;
/// let problems = ledger.problems();
/// let is_written = problems.iter().all(|problem| problem.kind() != ProblemKind::Output);
/// assert!(is_written, "{problems:?}");
/// # Ok::<(), memledger::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub(crate) kind: ProblemKind,
    pub(crate) sentence: String,
}

/// What a [`Problem`] is about.
///
/// [`Problem`] has an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ProblemKind {
    /// A setting, in code, the environment or a flag: it is not allowed, names nothing, or comes too late.
    Setting,
    /// A trace, a report or a destination: it is not written or sent as was asked.
    Output,
    /// What was recorded lacks something, such as events that are lost, functions of call stacks, or channels
    /// of the program.
    Incomplete,
    /// Settings in code that are not used, because a recording from the environment has others. It is no line
    /// on stderr, and alone it does not make [`Ledger::finish`](crate::Ledger::finish) fail.
    Overridden,
    /// The tracker itself: it has no thread, no memory or no watcher, or a defect.
    Tracker,
}

impl Problem {
    /// What it is about.
    pub fn kind(&self) -> ProblemKind {
        self.kind
    }
}

impl Display for Problem {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str(&self.sentence)
    }
}
