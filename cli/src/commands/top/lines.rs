//! The rows of a list: sorted, filtered, as a tree, with rates and changes.

use super::model::{Sort, TimedSample};
use super::sample::{Row, Values};
use crate::commands::by::By;
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

/// What is allocated in one second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rate {
    pub bytes: u64,
    pub count: u64,
}

impl Rate {
    /// What was allocated from one moment to the next; `None` if no time is between them.
    pub fn between(before: Option<&Values>, now: &Values, elapsed_ns: u64) -> Option<Self> {
        let zero = Values::default();
        let before = before.unwrap_or(&zero);
        let per_second = |now: u64, before: u64| {
            let per_second = u128::from(now.saturating_sub(before)) * 1_000_000_000;
            u64::try_from(per_second / u128::from(elapsed_ns)).unwrap_or(u64::MAX)
        };
        (elapsed_ns > 0).then(|| Self {
            bytes: per_second(now.allocated, before.allocated),
            count: per_second(now.count, before.count),
        })
    }
}

/// What has changed since the mark.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Change {
    pub live: i128,
    pub allocated: u64,
    pub count: u64,
}

impl Change {
    pub fn between(mark: Option<&Values>, now: &Values) -> Self {
        let zero = Values::default();
        let mark = mark.unwrap_or(&zero);
        Self {
            live: i128::from(now.live) - i128::from(mark.live),
            allocated: now.allocated.saturating_sub(mark.allocated),
            count: now.count.saturating_sub(mark.count),
        }
    }
}

/// One row to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    pub path: Vec<String>,
    /// As the trace has it: not escaped.
    pub name: String,
    pub level: usize,
    /// Whether the rows inside it are shown; `None` if there are none.
    pub is_expanded: Option<bool>,
    /// Shown only because a row inside it has the text of the filter.
    pub is_around: bool,
    pub values: Values,
    pub rate: Option<Rate>,
    pub change: Option<Change>,
}

/// What the rows are made from.
pub struct Question<'a> {
    pub by: By,
    pub sort: Sort,
    pub reverse: bool,
    pub inclusive: bool,
    pub filter: &'a str,
    pub collapsed: &'a HashSet<Vec<String>>,
    pub now: &'a TimedSample,
    pub before: Option<&'a TimedSample>,
    pub mark: Option<&'a TimedSample>,
}

/// The rows to show, in their order.
pub fn lines(question: &Question<'_>) -> Vec<Line> {
    let rows = question.now.sample.rows(question.by);
    Tree::of(question, rows).lines(question, rows)
}

/// The rows inside each row, sorted.
struct Tree {
    inside: HashMap<Option<usize>, Vec<usize>>,
    /// Whether a row has the text of the filter; `None`: neither it nor a row inside it has.
    matches: Vec<Option<bool>>,
}

impl Tree {
    fn of(question: &Question<'_>, rows: &[Row]) -> Self {
        let by_path: HashMap<&[String], usize> =
            rows.iter().enumerate().map(|(at, row)| (&row.path[..], at)).collect();
        // NOTE: the nearest row around it. The reports of a writer that leaves rows out have gaps.
        let outer = |row: &Row| {
            (1..row.path.len()).rev().find_map(|length| by_path.get(&row.path[..length]).copied())
        };
        let outer: Vec<_> = match question.by.is_tree() {
            true => rows.iter().map(outer).collect(),
            false => vec![None; rows.len()],
        };
        let filter = question.filter.to_lowercase();
        let has = |row: &Row| row.path.join(" > ").to_lowercase().contains(&filter);
        let mut matches: Vec<_> = rows.iter().map(|row| has(row).then_some(true)).collect();
        for at in 0..rows.len() {
            let mut around = outer[at].filter(|_| matches[at] == Some(true));
            while let Some(row) = around.filter(|&row| matches[row].is_none()) {
                matches[row] = Some(false);
                around = outer[row];
            }
        }
        let mut inside: HashMap<_, Vec<usize>> = HashMap::new();
        for (at, outer) in outer.iter().enumerate().filter(|(at, _)| matches[*at].is_some()) {
            inside.entry(*outer).or_default().push(at);
        }
        for rows_inside in inside.values_mut() {
            rows_inside.sort_by_cached_key(|&at| {
                let (first, second) = key(question, &rows[at]);
                let sign = if question.reverse { -1 } else { 1 };
                (Reverse(sign * first), Reverse(sign * second), &rows[at].path)
            });
        }
        Self { inside, matches }
    }

    /// The rows in their order, with those inside them if these are open.
    fn lines(&self, question: &Question<'_>, rows: &[Row]) -> Vec<Line> {
        let inside = |outer| self.inside.get(&outer).into_iter().flatten().rev().copied();
        let mut lines = Vec::new();
        let mut waiting: Vec<_> = inside(None).map(|at| (at, 0)).collect();
        while let Some((at, level)) = waiting.pop() {
            let row = &rows[at];
            // A filter shows what it finds, in closed rows as well.
            let is_open = !question.filter.is_empty() || !question.collapsed.contains(&row.path);
            let has_inside = self.inside.contains_key(&Some(at));
            let last = || row.path.last().cloned().unwrap_or_default();
            lines.push(Line {
                path: row.path.clone(),
                name: row.label.clone().unwrap_or_else(last),
                level,
                is_expanded: has_inside.then_some(is_open),
                is_around: self.matches[at] == Some(false),
                values: *row.values(question.inclusive),
                rate: rate(question, row),
                change: change(question, row),
            });
            if is_open {
                waiting.extend(inside(Some(at)).map(|at| (at, level + 1)));
            }
        }
        lines
    }
}

/// The figures of a row at another moment.
fn at<'a>(question: &Question<'_>, moment: &'a TimedSample, row: &Row) -> Option<&'a Values> {
    let row = moment.sample.row(question.by, &row.path)?;
    Some(row.values(question.inclusive))
}

fn rate(question: &Question<'_>, row: &Row) -> Option<Rate> {
    let before = question.before?;
    // Functions are not there before they were first asked for.
    if before.sample.rows(question.by).is_empty() {
        return None;
    }
    let elapsed = question.now.at_ns.saturating_sub(before.at_ns);
    Rate::between(at(question, before, row), row.values(question.inclusive), elapsed)
}

fn change(question: &Question<'_>, row: &Row) -> Option<Change> {
    let mark = question.mark.filter(|mark| !mark.sample.rows(question.by).is_empty())?;
    Some(Change::between(at(question, mark, row), row.values(question.inclusive)))
}

/// What a row is sorted by.
fn key(question: &Question<'_>, row: &Row) -> (i128, i128) {
    let values = row.values(question.inclusive);
    let first = match question.sort {
        Sort::Live => values.live.into(),
        Sort::Peak => values.peak.into(),
        Sort::Allocated => values.allocated.into(),
        Sort::Count => values.count.into(),
        Sort::Rate => rate(question, row).map_or(0, |rate| rate.bytes.into()),
        Sort::Change => change(question, row).map_or(0, |change| change.live),
    };
    (first, values.allocated.into())
}
