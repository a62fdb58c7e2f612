//! The columns of figures: which there are, and what they show.

use super::lines::{Line, Rate};
use super::model::{Model, Sort};
use super::theme::Meaning;
use memledger_export::text::{bytes_briefly, count};

/// A column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    Live,
    /// How live bytes have changed since the mark.
    Change,
    Peak,
    Rate,
    CountRate,
    Allocated,
    AllocatedSince,
    Count,
    CountSince,
    Blocks,
}

/// Nothing is shown as this, so that figures can be seen among zeros.
const NONE: &str = "-";

impl Column {
    /// The columns in their order: those that are left out first where there is no room are at the end.
    pub fn all(model: &Model) -> Vec<Self> {
        use Column::*;
        let all: &[Self] = match model.mark() {
            None => &[Live, Peak, Rate, CountRate, Allocated, Count, Blocks],
            Some(_) => &[
                Live,
                Change,
                AllocatedSince,
                CountSince,
                Rate,
                CountRate,
                Peak,
                Allocated,
                Count,
                Blocks,
            ],
        };
        // A trace that is complete when it is read has no moment before.
        let has_rates = model.before().is_some();
        let is_there = |column: &Self| match column {
            Peak => model.by.has_peak(),
            Rate | CountRate => has_rates,
            _ => true,
        };
        all.iter().copied().filter(is_there).collect()
    }

    pub fn header(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Change => "change",
            Self::Peak => "peak",
            Self::Rate => "rate",
            Self::CountRate => "count/s",
            Self::Allocated => "allocated",
            Self::AllocatedSince => "+allocated",
            Self::Count => "count",
            Self::CountSince => "+count",
            Self::Blocks => "blocks",
        }
    }

    /// What it is sorted by.
    pub fn sort(self) -> Option<Sort> {
        match self {
            Self::Live => Some(Sort::Live),
            Self::Change => Some(Sort::Change),
            Self::Peak => Some(Sort::Peak),
            Self::Rate => Some(Sort::Rate),
            Self::Allocated => Some(Sort::Allocated),
            Self::Count => Some(Sort::Count),
            Self::CountRate | Self::AllocatedSince | Self::CountSince | Self::Blocks => None,
        }
    }

    /// The least width, so that columns do not move as figures change.
    pub fn width(self) -> usize {
        match self {
            Self::Live | Self::Peak | Self::Allocated => 9,
            Self::Change | Self::AllocatedSince => 10,
            Self::Rate => 10,
            Self::CountRate | Self::Blocks => 9,
            Self::CountSince => 10,
            Self::Count => 11,
        }
    }

    /// The text of a row, and what it means.
    pub fn cell(self, line: &Line) -> (String, Meaning) {
        let values = &line.values;
        let change = line.change;
        match self {
            Self::Live => (size(values.live), Meaning::Live),
            Self::Peak => (size(values.peak), Meaning::Peak),
            Self::Allocated => (size(values.allocated), Meaning::Allocated),
            Self::Count => (number(values.count), Meaning::Plain),
            Self::Blocks => (number(values.blocks), Meaning::Plain),
            Self::Rate => (bytes_rate(line.rate), Meaning::Allocated),
            Self::CountRate => {
                (line.rate.map_or(String::new(), |rate| number(rate.count)), Meaning::Plain)
            }
            Self::Change => change.map_or_else(Default::default, |change| signed(change.live)),
            Self::AllocatedSince => {
                let text = |bytes: u64| {
                    if bytes == 0 { NONE.to_owned() } else { format!("+{}", bytes_briefly(bytes)) }
                };
                (change.map_or(String::new(), |change| text(change.allocated)), Meaning::Allocated)
            }
            Self::CountSince => {
                let text = |number: u64| {
                    if number == 0 { NONE.to_owned() } else { format!("+{}", count(number)) }
                };
                (change.map_or(String::new(), |change| text(change.count)), Meaning::Plain)
            }
        }
    }
}

fn size(bytes: u64) -> String {
    if bytes == 0 { NONE.to_owned() } else { bytes_briefly(bytes) }
}

fn number(number: u64) -> String {
    if number == 0 { NONE.to_owned() } else { count(number) }
}

/// Bytes per second; nothing if there is no earlier moment.
pub fn bytes_rate(rate: Option<Rate>) -> String {
    match rate {
        None => String::new(),
        Some(Rate { bytes: 0, .. }) => NONE.to_owned(),
        Some(Rate { bytes, .. }) => format!("{}/s", bytes_briefly(bytes)),
    }
}

/// A change with its sign, and its meaning.
pub fn signed(change: i128) -> (String, Meaning) {
    let size = u64::try_from(change.unsigned_abs()).unwrap_or(u64::MAX);
    match change {
        0 => (NONE.to_owned(), Meaning::Plain),
        1.. => (format!("+{}", bytes_briefly(size)), Meaning::Grew),
        // The sign that is as wide as a digit, as in other texts of changes.
        _ => (format!("-{}", bytes_briefly(size)), Meaning::Shrank),
    }
}
