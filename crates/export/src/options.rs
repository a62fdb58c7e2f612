//! The options of a report, for formats that have options.

use crate::column::Column;
use memledger_document::internal::by_key;
use memledger_document::{Figure, Figures, Frames};

/// What the tables divide the memory by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum By {
    /// Scope stacks, as a tree.
    Scope,
    /// Groups, as a tree.
    Group,
    /// Names within their groups.
    Name,
    /// Threads.
    Thread,
    /// Root heaps.
    Heap,
    /// Sizes, in classes that double.
    Size,
    /// How long blocks lived; of queries only.
    Lifetime,
    /// Call stacks, as a tree.
    Stack,
    /// Functions.
    Function,
    /// Source lines.
    Line,
    /// Crates.
    Crate,
}

impl By {
    /// Those of reports.
    pub const ALL: [Self; 10] = [
        Self::Scope,
        Self::Group,
        Self::Name,
        Self::Thread,
        Self::Heap,
        Self::Size,
        Self::Stack,
        Self::Function,
        Self::Line,
        Self::Crate,
    ];

    /// Those of queries.
    pub const OF_QUERIES: [Self; 11] = {
        let mut all = [Self::Lifetime; 11];
        let (of_reports, _) = all.split_at_mut(Self::ALL.len());
        of_reports.copy_from_slice(&Self::ALL);
        all
    };

    /// Its name on the command line and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Scope => "scope",
            Self::Group => "group",
            Self::Name => "name",
            Self::Thread => "thread",
            Self::Heap => "heap",
            Self::Size => "size",
            Self::Lifetime => "lifetime",
            Self::Stack => "stack",
            Self::Function => "function",
            Self::Line => "line",
            Self::Crate => "crate",
        }
    }

    /// Whether its rows are made from call stacks.
    pub fn is_of_calls(self) -> bool {
        matches!(self, Self::Stack | Self::Function | Self::Line | Self::Crate)
    }
}

/// The key by which rows are sorted, the largest first. Equal rows are sorted by their own peak,
/// then by allocated bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Sort {
    /// Bytes live when the total was at its peak.
    #[default]
    AtPeak,
    /// Bytes still live.
    Live,
    /// The row's own largest live bytes.
    Peak,
    /// All bytes ever allocated.
    Allocated,
    /// The number of allocations.
    Count,
}

impl Sort {
    fn figure(self) -> &'static Figure<Figures> {
        match self {
            Self::AtPeak => const { by_key("live_bytes_at_peak") },
            Self::Live => const { by_key("live_bytes") },
            Self::Peak => const { by_key("peak_bytes") },
            Self::Allocated => const { by_key("allocated_bytes") },
            Self::Count => const { by_key("allocations") },
        }
    }

    /// The key of that figure in JSON.
    pub(crate) fn key(self) -> &'static str {
        self.figure().key
    }

    /// The figure of a row that it is sorted by.
    #[doc(hidden)]
    pub fn of(self, figures: &Figures) -> u64 {
        self.figure().number(figures)
    }

    /// The same of a sum over rows, which has no peak of its own: the bytes live at the peak of all.
    #[doc(hidden)]
    pub fn of_sum(self, figures: &Figures) -> u64 {
        if self == Self::Peak { figures.live_bytes_at_peak } else { self.of(figures) }
    }
}

/// How the text is shaped. No option changes a figure.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// Whether to use colours.
    pub color: bool,
    /// Columns of a line. Tables leave figures out rather than cut names.
    pub width: usize,
    /// The maximum number of rows in a table. The short tables of allocated bytes and of live bytes have half
    /// as many.
    pub top: usize,
    /// One table only, instead of the short ones.
    pub by: Option<By>,
    /// The order of rows.
    pub sort: Sort,
    /// Whether the figures of scopes and groups include those of the rows inside them.
    pub inclusive: bool,
    /// Whether the tree of stacks begins with the functions that allocate and has their callers below
    /// them, instead of the reverse.
    pub bottom_up: bool,
    /// Which frames of call stacks are shown.
    pub frames: Frames,
    /// Only rows with this text in their name, in upper or lower case.
    pub filter: Option<String>,
    /// Which moment the report is of, if not of the end: `50%`, `1.5s`.
    pub moment: Option<String>,
    /// Whether to show all findings, instead of the first of them and tables.
    pub findings: bool,
    /// The name of the trace, for commands that the text suggests; without it they have `RUN` in its place.
    pub trace: Option<String>,
    /// Whether to show threads, sizes, the largest blocks, the tracker's own bytes, bookmarks and
    /// the accuracy of times as well.
    pub verbose: bool,
    /// How many of the largest live blocks the text shows. `None`: [`top`](Self::top) of them if
    /// [`verbose`](Self::verbose), else none.
    pub largest_live: Option<usize>,
    /// The columns of the table of [`by`](Self::by), instead of those of a report.
    pub(crate) columns: Option<&'static [Column]>,
    /// Whether the text may name flags of the `memledger` command; set when that command makes the
    /// text.
    pub flags: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            color: false,
            width: 80,
            top: 10,
            by: None,
            sort: Sort::AtPeak,
            inclusive: true,
            bottom_up: false,
            frames: Frames::Folded,
            filter: None,
            moment: None,
            findings: false,
            trace: None,
            verbose: false,
            largest_live: None,
            columns: None,
            flags: false,
        }
    }
}
