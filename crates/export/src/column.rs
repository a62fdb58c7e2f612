//! The columns of a table.

use crate::units::{bytes_briefly, count, percent};
use memledger_document::{Estimate, Estimates, FIGURES, Figure, Figures, Unit};

/// One column.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Column {
    /// A column of the report.
    Of(&'static Figure<Figures>),
    /// A column of the report that shows something else, below this header.
    Named(&'static Figure<Figures>, &'static str),
    /// Bytes of a block on average, in the answer of a query.
    Mean,
    /// How much more has grown than declined, in the answer of a query.
    Change,
    /// The share of the peak: of the live bytes when the total was at its peak.
    Share,
    /// The largest live block.
    Largest,
    /// The share of short-lived blocks.
    ShortLived,
    /// How often the scope was entered.
    Entries,
    /// Bytes allocated per entry.
    Each,
    /// A column of the report, of a function with all that it called.
    Inclusive(&'static Figure<Figures>),
}

/// The figures that the cells of a row are made from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cells<'a> {
    pub(crate) figures: &'a Figures,
    /// The peak of the total.
    pub(crate) peak: u64,
    pub(crate) entries: Option<u64>,
    pub(crate) largest: u64,
    /// The figures with all that a function called.
    pub(crate) inclusive: Option<&'a Figures>,
    /// If the figures are estimates: these, with their intervals.
    pub(crate) estimates: Option<&'a Estimates>,
}

/// Shown in a table instead of 0, so that other figures are easy to see.
pub(crate) const NONE: &str = "-";

impl Column {
    /// The header. `moment` says whether the report is of a moment before the end.
    pub(crate) fn header(self, moment: bool) -> &'static str {
        match self {
            Self::Of(of) if moment && of.key == "live_bytes" => "then",
            Self::Of(Figure { header: Some(header), .. }) => header,
            Self::Of(hidden) => hidden.key,
            Self::Named(_, header) => header,
            Self::Mean => "each",
            Self::Change => "change",
            Self::Share => "share",
            Self::Largest => "largest",
            Self::ShortLived => "short-lived",
            Self::Entries => "entries",
            Self::Each => "each",
            Self::Inclusive(_) => "with callees",
        }
    }

    pub(crate) fn cell(self, of: &Cells<'_>) -> String {
        let Cells { figures, peak, entries, largest, inclusive, estimates } = *of;
        let estimate = |column: &Figure<Figures>| {
            estimates?.all().find(|(key, _)| *key == column.key).map(|(_, estimate)| estimate)
        };
        match self {
            Self::Of(column) | Self::Named(column, _) if let Some(estimate) = estimate(column) => {
                estimated(estimate, column.unit == Unit::Bytes)
            }
            Self::Inclusive(column) => size(inclusive.map_or(0, |figures| column.number(figures))),
            Self::Mean => {
                size(figures.live_bytes_at_peak.checked_div(figures.allocations).unwrap_or(0))
            }
            Self::Change => {
                let (grown, declined) = (figures.live_bytes_at_peak, figures.allocated_bytes);
                match grown >= declined {
                    true if grown == declined => NONE.to_owned(),
                    true => format!("+{}", size(grown - declined)),
                    false => format!("-{}", size(declined - grown)),
                }
            }
            Self::Of(column) | Self::Named(column, _) if column.unit == Unit::Bytes => {
                size(column.number(figures))
            }
            Self::Of(column) | Self::Named(column, _) => number(column.number(figures)),
            Self::Share => share(figures.live_bytes_at_peak, peak),
            Self::Largest => size(largest),
            Self::ShortLived => share(figures.short_lived, figures.allocations),
            Self::Entries => number(entries.unwrap_or(0)),
            Self::Each => match figures.allocated_bytes.checked_div(entries.unwrap_or(0)) {
                Some(each) => size(each),
                None => NONE.to_owned(),
            },
        }
    }

    fn is(self, column: &Figure<Figures>) -> bool {
        matches!(self, Self::Of(of) if of.key == column.key)
    }
}

/// The columns of the report that the text shows and that are in none of `tables`.
pub(crate) fn in_none_of(tables: &[&[Column]]) -> impl Iterator<Item = Column> {
    let is_further = |column: &Figure<Figures>| {
        let is_chosen = tables.iter().copied().flatten().any(|chosen| chosen.is(column));
        column.header.is_some() && !is_chosen
    };
    FIGURES.iter().filter(move |column| is_further(column)).map(Column::Of)
}

/// `12.3 MiB ±0.4 MiB`; where the interval is not symmetric, its two ends.
fn estimated(estimate: Estimate, is_bytes: bool) -> String {
    let text = if is_bytes { size } else { number };
    let Estimate { value, low, high, .. } = estimate;
    if value == 0 {
        return NONE.to_owned();
    }
    let (below, above) = (value.saturating_sub(low), high.saturating_sub(value));
    let is_symmetric = above.saturating_sub(below) <= above / 4;
    match above {
        0 => text(value),
        _ if is_symmetric => format!("{} ±{}", text(value), text(above.max(below))),
        _ => format!("{} ({}..{})", text(value), text(low), text(high)),
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
