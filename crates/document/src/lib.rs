//! What a report says: rows, figures, findings and differences.
//!
//! `memledger-analysis` makes a [`Report`] of a trace, and `memledger-export` writes it. Here are the types,
//! and the tables of their figures, such as [`FIGURES`]: what they are called, and what they are numbers of.
//! The keys of the JSON, the columns of the text and the names in conditions are made of these.
//!
//! | file | what |
//! |---|---|
//! | `report.rs` | the report, and its parts about all blocks together |
//! | `rows.rs` | the rows |
//! | `figures.rs` | the figures of rows and of all blocks, and their tables; `figure.rs`: an entry of such a table |
//! | `estimate.rs` | figures of a whole, from a sample of it |
//! | `stacks.rs` | the rows of stacks, kept in few bytes (`tree.rs`, `packed.rs`) |
//! | `symbolizer.rs` | the files of a program, and what names the functions in them |
//! | `calls.rs` | the calls of stacks, and which of them are shown |
//! | `call_sums.rs` | the figures of functions, lines and crates, summed up the tree of stacks |
//! | `crates.rs` | the crate of a function, and which functions are folded; `own.rs`: whose code a call is |
//! | `labels.rs` | the texts in place of frames that a stack does not have |
//! | `coverage.rs`, `untracked.rs` | whether all memory is in the report, and why not |
//! | `rss.rs`, `statics.rs` | the resident memory, and the static variables in it |
//! | `series.rs` | how the figures of all blocks went |
//! | `findings.rs` | facts and findings: what is said of blocks beyond sums; `place.rs`: where a set of blocks is |
//! | `diff.rs` | what has changed from one report to another |
//! | `llm.rs` | the values of Unreal's memory tags |
#![warn(missing_debug_implementations, missing_docs, clippy::unwrap_used)]
#![forbid(unsafe_code)]

/// A value whose fields other crates cannot set all at once: the default one, or another, with these.
#[doc(hidden)]
#[macro_export]
macro_rules! made {
    ($type:ident { $($field:ident $(: $value:expr)?),* $(,)? }) => {
        $crate::made!($type { $($field $(: $value)?,)* ..$type::default() })
    };
    ($type:ident { $($field:ident $(: $value:expr)?,)* ..$of:expr }) => {{
        let mut made: $type = $of;
        $(made.$field = $crate::made!(@ $field $(, $value)?);)*
        made
    }};
    (@ $field:ident) => {
        $field
    };
    (@ $field:ident, $value:expr) => {
        $value
    };
}

mod call_sums;
mod calls;
mod coverage;
mod crates;
mod diff;
mod estimate;
mod figure;
mod figures;
mod findings;
mod labels;
mod llm;
mod own;
mod packed;
mod place;
mod report;
mod rows;
mod rss;
mod series;
mod sort;
mod stacks;
mod statics;
mod symbolizer;
mod tree;
mod untracked;

pub use call_sums::CallRow;
pub use calls::Frames;
pub use coverage::{Coverage, CoverageKind, CoverageReason, CoverageWord};
pub use diff::{DiffBy, DiffRow, DiffSide};
pub use figure::{Figure, Unit};
pub use figures::{Estimate, Estimates, FIGURES, Figures, MOVES, Moves, TOTALS, Totals};
pub use findings::{
    BlockSet, Caller, Course, FigureSource, Finding, FindingFigure, FindingKind, FreedBy, FreedIn,
    PeakBy, Place, SetPosition, SourceLines, Trend, WeightOf,
};
pub use llm::{LlmTagRow, LlmTagSeries, LlmValue};
pub use own::short_path;
pub use report::{
    AFTER_REPORT, AfterReport, Bookmark, LOSSES, Losses, PeakMoment, Report, TRACE, TimeSpan,
    TraceInfo,
};
pub use rows::{
    BucketRow, Frame, GroupRow, HeapRow, LiveBlock, NameRow, SCOPE_FIGURES, ScopeRow, SizeRow,
    StackKind, StackRow, ThreadRow,
};
pub use rss::{AllocatorStatistics, ResidentHeap, ResidentMapping, ResidentMemory, Rss, RssPoint};
pub use series::{ThreadSeries, TimePoint, TimeSeries};
pub use stacks::StackRows;
pub use statics::StaticVariable;
pub use symbolizer::{CodeRange, FileStamp, Module, SourceFrame, Symbolizer};
pub use tree::StackEnd;
pub use untracked::{Untracked, UntrackedKind, UntrackedReason, Weighed};

// For other crates of memledger only: no interface.
#[doc(hidden)]
pub mod internal;
