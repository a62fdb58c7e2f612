//! Which rows have changed, and how they are called.

use super::compared::{Diff, DiffOptions, column};
use crate::names::{short, shown_heap, shown_scope};
use crate::options::Sort;
use crate::units::{bytes_briefly, count, percent};
use memledger_document::internal::sort;
use memledger_document::{DiffBy, DiffRow, DiffSide, Figures, Report};
use std::cmp::Reverse;

/// How a row has changed in the column that is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Only the new report has it.
    New,
    /// Only the old one has it.
    Gone,
    Grown,
    Shrunk,
    Same,
}

impl State {
    pub(crate) const ALL: [Self; 5] =
        [Self::New, Self::Gone, Self::Grown, Self::Shrunk, Self::Same];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Gone => "gone",
            Self::Grown => "grown",
            Self::Shrunk => "shrunk",
            Self::Same => "same",
        }
    }
}

/// A row, with its figures in the column that is compared.
#[derive(Clone, Debug)]
pub(crate) struct Changed<'a> {
    pub(crate) row: &'a DiffRow,
    pub(crate) state: State,
    pub(crate) old: u64,
    pub(crate) new: u64,
}

impl<'a> Changed<'a> {
    pub(crate) fn of(row: &'a DiffRow, by: DiffBy, options: &DiffOptions) -> Self {
        let sort = if column(options.sort, by) == "at peak" { Sort::AtPeak } else { options.sort };
        let figure = |side: Option<DiffSide>| side.map_or(0, |side| sort.of(&of(&side, options)));
        let (old, new) = (figure(row.old), figure(row.new));
        let state = match (&row.old, &row.new) {
            _ if old == new => State::Same,
            (None, _) => State::New,
            (_, None) => State::Gone,
            _ if new > old => State::Grown,
            _ => State::Shrunk,
        };
        Self { row, state, old, new }
    }

    /// The change of another column.
    pub(crate) fn change(
        &self,
        options: &DiffOptions,
        figure: impl Fn(&Figures) -> u64,
    ) -> [u64; 2] {
        [self.row.old, self.row.new].map(|side| side.map_or(0, |side| figure(&of(&side, options))))
    }

    /// The name of the row in one line.
    pub(crate) fn name(&self, by: DiffBy) -> String {
        /// The innermost functions of a stack that a line has.
        const FUNCTIONS: usize = 6;
        let path = &self.row.path;
        match by {
            DiffBy::Scope => shown_scope(path),
            DiffBy::Heap => shown_heap(&path.concat()).to_owned(),
            DiffBy::Name => match path.split_last() {
                Some((name, group)) => format!("{} / {name}", group.join(" > ")),
                None => String::new(),
            },
            DiffBy::Function => path.concat(),
            DiffBy::Stack => {
                let inner = path.iter().rev().take(FUNCTIONS).map(|name| short(name));
                let mut text = inner.collect::<Vec<_>>().join(" < ");
                if path.len() > FUNCTIONS {
                    text.push_str(" < …");
                }
                text
            }
            _ => path.join(" > "),
        }
    }

    /// `new`, `gone`, or the change in percent.
    pub(crate) fn share(&self) -> String {
        match self.state {
            State::New | State::Gone => self.state.name().to_owned(),
            _ => share([self.old, self.new]),
        }
    }
}

fn of(side: &DiffSide, options: &DiffOptions) -> Figures {
    if options.inclusive { side.inclusive } else { side.own }
}

/// The rows of a table that have changed, the largest change first, and how many rows there are of each
/// state of [`State::ALL`].
pub(crate) fn changed<'a>(
    by: DiffBy,
    rows: &'a [DiffRow],
    options: &DiffOptions,
) -> (Vec<Changed<'a>>, [usize; 5]) {
    let filter = options.filter.as_ref().map(|filter| filter.to_lowercase());
    let is_shown = |row: &&DiffRow| {
        let Some(filter) = &filter else { return true };
        row.path.join(" > ").to_lowercase().contains(filter)
    };
    let mut rows: Vec<_> =
        rows.iter().filter(is_shown).map(|row| Changed::of(row, by, options)).collect();
    let mut of_state = [0; 5];
    for row in &rows {
        let place = State::ALL.iter().position(|state| *state == row.state).unwrap_or(4);
        of_state[place] += 1;
    }
    rows.retain(|row| row.state != State::Same);
    // NOTE: a stable sort: equal changes are in the order of their paths.
    sort::by_key(&mut rows, |row| Reverse(row.old.abs_diff(row.new)));
    (rows, of_state)
}

/// `2 new, 1 gone, 5 grown, 3 shrunk, 40 the same`, without those that there are none of.
pub(crate) fn counts(of_state: &[usize; 5]) -> String {
    let parts = State::ALL.iter().zip(of_state).filter(|(_, count)| **count > 0);
    let part = |(state, number): (&State, &usize)| {
        let name = if *state == State::Same { "the same" } else { state.name() };
        format!("{} {name}", count(*number as u64))
    };
    parts.map(part).collect::<Vec<_>>().join(", ")
}

impl Diff<'_> {
    /// See [`changed`].
    pub(crate) fn changed(
        &self,
        table: usize,
        options: &DiffOptions,
    ) -> (Vec<Changed<'_>>, [usize; 5]) {
        let (by, rows) = &self.tables[table];
        changed(*by, rows, options)
    }
}

/// One figure of all blocks.
pub(crate) struct Total {
    pub(crate) name: &'static str,
    pub(crate) is_bytes: bool,
    pub(crate) sides: [u64; 2],
}

impl Total {
    pub(crate) fn share(&self) -> String {
        share(self.sides)
    }
}

/// The figures of all blocks.
pub(crate) fn totals(old: &Report, new: &Report) -> [Total; 6] {
    let (old, new) = (&old.totals, &new.totals);
    let total = |name, is_bytes, old, new| Total { name, is_bytes, sides: [old, new] };
    [
        total("peak", true, old.peak_bytes, new.peak_bytes),
        total("live at end", true, old.live_bytes, new.live_bytes),
        total("live blocks", false, old.live_blocks, new.live_blocks),
        total("allocated", true, old.allocated_bytes, new.allocated_bytes),
        total("allocations", false, old.allocations, new.allocations),
        total("reallocations", false, old.reallocations, new.reallocations),
    ]
}

/// `+1.5 MiB`, `-3`; `=` for no change.
pub(crate) fn signed([old, new]: [u64; 2], is_bytes: bool) -> String {
    let text = if is_bytes { bytes_briefly(old.abs_diff(new)) } else { count(old.abs_diff(new)) };
    match new.cmp(&old) {
        std::cmp::Ordering::Equal => "=".to_owned(),
        std::cmp::Ordering::Greater => format!("+{text}"),
        std::cmp::Ordering::Less => format!("-{text}"),
    }
}

/// The change in percent of the old figure.
fn share([old, new]: [u64; 2]) -> String {
    match (old, new) {
        _ if old == new => "=".to_owned(),
        (0, _) => "from 0".to_owned(),
        (_, 0) => "to 0".to_owned(),
        _ => {
            let sign = if new > old { '+' } else { '-' };
            format!("{sign}{}", percent(old.abs_diff(new), old))
        }
    }
}
