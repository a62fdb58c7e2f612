//! What has changed from one report to another: rows that are matched by name.

use crate::figures::Figures;
use std::sync::Arc;

/// What two reports are compared by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DiffBy {
    /// Scope stacks.
    Scope,
    /// Groups.
    Group,
    /// Names within their groups.
    Name,
    /// Threads, by name. Numbers in the names do not count: `worker-1` and `worker-7` are `worker-*`.
    Thread,
    /// Root heaps.
    Heap,
    /// Functions.
    Function,
    /// Source lines: for two times of one run, or two runs of one build.
    Line,
    /// Call stacks: the functions, without lines.
    Stack,
}

impl DiffBy {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Scope,
        Self::Group,
        Self::Name,
        Self::Thread,
        Self::Heap,
        Self::Function,
        Self::Line,
        Self::Stack,
    ];

    /// Its name on the command line and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Scope => "scope",
            Self::Group => "group",
            Self::Name => "name",
            Self::Thread => "thread",
            Self::Heap => "heap",
            Self::Function => "function",
            Self::Line => "line",
            Self::Stack => "stack",
        }
    }

    /// Whether its rows are made from call stacks.
    pub fn is_of_calls(self) -> bool {
        matches!(self, Self::Function | Self::Line | Self::Stack)
    }
}

/// The figures of a row in one of two reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DiffSide {
    /// Its own figures. Rows of one name are summed; their peak is the largest peak. In a sampled trace,
    /// figures of functions and stacks are estimates. Functions and stacks have no peaks of their own.
    pub own: Figures,
    /// The same with all scopes or groups inside, or all that the function called. Equal to `own` for
    /// names, threads, heaps and stacks.
    pub inclusive: Figures,
}

/// A row that is in one of two reports, or in both.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DiffRow {
    /// Names from the outermost inwards: scopes, groups, the groups and the name, the functions of a
    /// stack; one name for threads, heaps, functions and lines. Rows share the texts of functions.
    pub path: Vec<Arc<str>>,
    /// Its figures in the old report.
    pub old: Option<DiffSide>,
    /// Its figures in the new report.
    pub new: Option<DiffSide>,
}

impl DiffSide {
    /// Adds the figures of a row.
    #[doc(hidden)]
    pub fn add(&mut self, own: &Figures, inclusive: &Figures) {
        for (sum, figures) in [(&mut self.own, own), (&mut self.inclusive, inclusive)] {
            let peak = sum.peak_bytes.max(figures.peak_bytes);
            sum.add(figures);
            sum.add_moves(figures);
            // NOTE: peaks of different rows are at different times; the sum has at least the largest.
            sum.peak_bytes = peak.max(sum.live_bytes).max(sum.live_bytes_at_peak);
        }
    }
}
