//! The report: plain numbers and names, the same whether they come from a file or from the
//! process itself. Its JSON form is documented as `memledger.report/1`.
//!
//! | file | what |
//! |---|---|
//! | `build.rs` | makes a report: sums, and sorts |
//! | `largest.rs` | the largest live blocks |
//! | `rows.rs` | the rows |
//! | `sums.rs` | sums buckets into rows |
//! | `types.rs` | all else in a report |

pub(super) mod build;
mod largest;
mod rows;
mod sums;
mod types;

pub use rows::{GroupRow, LiveBlock, NameRow, ScopeRow, SizeRow, ThreadRow};
pub use types::{AfterReport, Bookmark, Losses, PeakMoment, Report, TimeSpan, TraceInfo};
