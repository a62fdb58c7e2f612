//! What a program says of its memory itself: its report, and the figures of its analyzer.

mod black_box;
mod figures;
#[cfg(any(feature = "pprof", feature = "perfetto"))]
pub(crate) mod functions;
mod in_process;
mod own_report;
#[cfg_attr(not(feature = "pprof"), path = "../disabled/dump/profile.rs")]
mod profile;
mod report;
mod report_to;
mod snapshot;
#[cfg_attr(not(feature = "symbols"), path = "../disabled/dump/symbols.rs")]
pub(crate) mod symbols;
#[cfg(all(test, feature = "symbols"))]
#[path = "../disabled/dump/symbols.rs"]
mod without_symbols;

pub(crate) use figures::make_figures;
pub(crate) use in_process::{InProcessAnalyzer, heap_figures};
pub(crate) use profile::make_profile;
pub(crate) use report::{ReportOutput, asked, open_report, write_report, write_report_of};
pub use report_to::ReportTo;
pub use snapshot::{Figures, Snapshot};

/// Why this build makes no report, nor anything else that needs an analyzer in the process: it does.
pub(crate) const NOT_BUILT: Option<&str> = None;
