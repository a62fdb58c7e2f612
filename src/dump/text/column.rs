//! The columns of a table.

use super::units::{bytes_briefly, count, percent};
use crate::analysis::Figures;

/// One column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Column {
    /// Live bytes when the total was at its peak.
    AtPeak,
    /// Their share of the peak.
    Share,
    /// The row's own peak.
    Peak,
    Live,
    Blocks,
    /// The largest live block.
    Largest,
    Allocated,
    Count,
    Reallocations,
    /// The share of blocks that were freed at once.
    AtOnce,
    /// How often the scope was entered.
    Entries,
    /// Bytes allocated per entry.
    Each,
}

/// The figures that the cells of a row are made from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cells<'a> {
    pub(super) figures: &'a Figures,
    /// The peak of the total.
    pub(super) peak: u64,
    pub(super) entries: Option<u64>,
    pub(super) largest: u64,
}

/// Shown in a table instead of 0, so that other figures are easy to see.
const NONE: &str = "-";

impl Column {
    /// The header, in a report of the end or of an earlier `moment`.
    pub(super) fn header(self, moment: bool) -> &'static str {
        match self {
            Self::AtPeak => "at peak",
            Self::Share => "share",
            Self::Peak => "own peak",
            Self::Live if moment => "then",
            Self::Live => "at end",
            Self::Blocks => "blocks",
            Self::Largest => "largest",
            Self::Allocated => "allocated",
            Self::Count => "count",
            Self::Reallocations => "reallocations",
            Self::AtOnce => "freed at once",
            Self::Entries => "entries",
            Self::Each => "each",
        }
    }

    pub(super) fn cell(self, of: &Cells<'_>) -> String {
        let Cells { figures, peak, entries, largest } = *of;
        match self {
            Self::AtPeak => size(figures.live_bytes_at_peak),
            Self::Share => share(figures.live_bytes_at_peak, peak),
            Self::Peak => size(figures.peak_bytes),
            Self::Live => size(figures.live_bytes),
            Self::Blocks => number(figures.live_blocks),
            Self::Largest => size(largest),
            Self::Allocated => size(figures.allocated_bytes),
            Self::Count => number(figures.allocations),
            Self::Reallocations => number(figures.reallocations),
            Self::AtOnce => share(figures.short_lived, figures.allocations),
            Self::Entries => number(entries.unwrap_or(0)),
            Self::Each => match figures.allocated_bytes.checked_div(entries.unwrap_or(0)) {
                Some(each) => size(each),
                None => NONE.to_owned(),
            },
        }
    }
}

fn size(size: u64) -> String {
    if size == 0 { NONE.to_owned() } else { bytes_briefly(size) }
}

fn number(number: u64) -> String {
    if number == 0 { NONE.to_owned() } else { count(number) }
}

fn share(part: u64, whole: u64) -> String {
    if part == 0 { NONE.to_owned() } else { percent(part, whole) }
}
