//! The report: plain numbers and names, the same whether they come from a file or from the
//! process itself. Its JSON form is documented as `memledger.report/1`.
//!
//! | file | what |
//! |---|---|
//! | `coverage.rs` | whether all memory is in the report: complete, complete but for some, or not |
//! | `rows.rs` | the rows |
//! | `call_sums.rs` | the figures of functions, lines and crates, summed up the tree of stacks |
//! | `calls.rs` | the calls of stacks, and which of them are shown |
//! | `findings.rs` | what a finding says |
//! | `crates.rs` | the crate of a function, and which functions are folded |
//! | `rss.rs` | the resident memory |
//! | `series.rs` | how the figures of all blocks went |
//! | `packed.rs` | the figures of many rows in few bytes |
//! | `labels.rs` | the texts in place of frames that a stack does not have |
//! | `stacks.rs` | the rows of stacks, as they are kept |
//! | `statics.rs` | the static variables that are resident |
//! | `types.rs` | all else in a report |

mod call_sums;
mod calls;
mod coverage;
mod crates;
mod findings;
mod labels;
mod llm;
mod own;
mod packed;
mod rows;
mod rss;
mod series;
mod stacks;
mod statics;
mod types;
mod untracked;

pub use call_sums::CallRow;
pub(crate) use calls::Call;
pub use calls::CallKind;
pub use calls::{Calls, Frames, GUESS};
pub use coverage::{Coverage, CoverageKind, CoverageReason, CoverageWord};
pub use crates::{end_of_angles, split_outside};
pub(crate) use crates::{is_last_part, last_part, with_module};
pub use findings::{
    Finding, FindingKind, FreedBy, FreedIn, GrowsUntil, LiveAt, PeakPart, Place, WeightOf,
};
pub use llm::{LlmTagRow, LlmTagSeries, LlmValue};
pub use own::short_path;
pub(crate) use rows::order;
pub use rows::{
    BucketRow, Frame, GroupRow, HeapRow, LiveBlock, NameRow, ScopeRow, SizeRow, StackKind,
    StackRow, ThreadRow,
};
pub use rss::{AllocatorStatistics, ResidentHeap, ResidentMapping, ResidentMemory, Rss, RssPoint};
pub use series::{ThreadSeries, TimePoint, TimeSeries};
pub use stacks::StackRows;
pub(crate) use stacks::TakenStacks;
pub use statics::StaticVariable;
pub(crate) use statics::{FilePages, rows as static_variables};
pub use types::{AfterReport, Bookmark, Losses, PeakMoment, Report, TimeSpan, TraceInfo};
pub(crate) use untracked::MAX_REASONS;
pub use untracked::{Untracked, UntrackedKind, UntrackedReason, Weighed};
