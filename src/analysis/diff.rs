//! What has changed from one report to another: rows that are matched by name.
//!
//! Two runs of a program have other addresses, other ids of threads, and, after a change or at another level of
//! optimisation, other frames and lines. What stays is names: of scopes, groups and threads, and of functions,
//! also of those that were inlined. So rows are matched by these only; see [`stable_function`] for the parts of a
//! function's name that the compiler numbers, and `functions.rs` for functions of which one of the two has the last
//! part of the name only.

mod functions;

use super::columns::Figures;
use super::report::{Calls, Report};
pub use functions::stable_function;
use std::collections::{BTreeMap, HashMap};

/// What two reports are compared by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DiffBy {
    /// Scope stacks.
    Scope,
    /// Groups.
    Group,
    /// Names within their groups.
    Name,
    /// Threads, by name. Numbers in the names do not count: `worker-1` and `worker-7` are `worker-*`.
    Thread,
    /// Functions.
    Function,
    /// Call stacks: the functions, without lines.
    Stack,
}

/// The figures of a row in one of two reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DiffSide {
    /// Its own. Of several rows with one name the sum, but the largest of their peaks. In a sampled trace,
    /// figures of functions and stacks are estimates. Functions and stacks have no peaks of their own.
    pub own: Figures,
    /// The same with all scopes or groups inside, or all that the function called. Equal to `own` for
    /// names, threads and stacks.
    pub inclusive: Figures,
}

/// A row that is in one of two reports, or in both.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DiffRow {
    /// Names from the outermost inwards: scopes, groups, the groups and the name, the functions of a
    /// stack; one name for threads and functions.
    pub path: Vec<String>,
    /// Its figures in the old report.
    pub old: Option<DiffSide>,
    /// Its figures in the new report.
    pub new: Option<DiffSide>,
}

impl Report {
    /// Compares this report with a newer one, row by row. Rows are sorted by path; those that are equal in
    /// both reports are among them. Functions are those that [`Report::symbolize`] has found; frames of the
    /// standard library and of allocation machinery are folded, unless `all_frames` are wanted.
    ///
    /// Costs time in proportion to the rows of both, and for functions and stacks to their frames.
    pub fn diff(&self, newer: &Report, by: DiffBy, all_frames: bool) -> Vec<DiffRow> {
        let mut rows = BTreeMap::new();
        match by {
            DiffBy::Function | DiffBy::Stack => return by_calls([self, newer], by, all_frames),
            DiffBy::Thread => by_thread([self, newer], &mut rows),
            DiffBy::Scope | DiffBy::Group | DiffBy::Name => {
                for (at, report) in [self, newer].into_iter().enumerate() {
                    add_paths(report, by, at, &mut rows);
                }
            }
        }
        rows.into_iter().map(|(path, [old, new])| DiffRow { path, old, new }).collect()
    }
}

/// By path: the figures in the old and in the new report.
type Rows = BTreeMap<Vec<String>, Sides>;
type Sides = [Option<DiffSide>; 2];

impl DiffSide {
    fn add(&mut self, own: &Figures, inclusive: &Figures) {
        for (sum, figures) in [(&mut self.own, own), (&mut self.inclusive, inclusive)] {
            let peak = sum.peak_bytes.max(figures.peak_bytes);
            sum.add(figures);
            sum.add_moves(figures);
            // NOTE: peaks of different rows are at different times; the sum has at least the largest.
            sum.peak_bytes = peak.max(sum.live_bytes).max(sum.live_bytes_at_peak);
        }
    }
}

fn add_paths(report: &Report, by: DiffBy, at: usize, rows: &mut Rows) {
    let mut add = |path: Vec<String>, own: &Figures, inclusive: &Figures| {
        rows.entry(path).or_default()[at].get_or_insert_default().add(own, inclusive);
    };
    match by {
        DiffBy::Scope => {
            report.by_scope.iter().for_each(|r| add(r.path.clone(), &r.figures, &r.inclusive));
        }
        DiffBy::Group => {
            report.by_group.iter().for_each(|r| add(r.group.clone(), &r.figures, &r.inclusive));
        }
        _ => report.by_name.iter().for_each(|row| {
            let path = row.group.iter().chain([&row.name]).cloned().collect();
            add(path, &row.figures, &row.figures);
        }),
    }
}

/// Threads with one name but for its digits are one row. It has the name itself if all have the same.
fn by_thread(reports: [&Report; 2], rows: &mut Rows) {
    let mut by_pattern = BTreeMap::<String, (Option<&str>, Sides)>::new();
    for (at, report) in reports.into_iter().enumerate() {
        for row in &report.by_thread {
            let (name, sides) = by_pattern
                .entry(without_numbers(&row.name))
                .or_insert_with(|| (Some(&row.name), Sides::default()));
            *name = name.filter(|name| *name == row.name);
            sides[at].get_or_insert_default().add(&row.figures, &row.figures);
        }
    }
    for (pattern, (name, sides)) in by_pattern {
        let name = match name {
            Some("") => "(no name)".to_owned(),
            Some(name) => name.to_owned(),
            None => pattern,
        };
        rows.insert(vec![name], sides);
    }
}

/// `*` in place of each number.
fn without_numbers(name: &str) -> String {
    let mut text = String::new();
    for char in name.chars() {
        if !char.is_ascii_digit() {
            text.push(char);
        } else if !text.ends_with('*') {
            text.push('*');
        }
    }
    text
}

/// Functions or stacks, in numbers of names, so that a name is made once for each call.
fn by_calls(reports: [&Report; 2], by: DiffBy, all_frames: bool) -> Vec<DiffRow> {
    let mut names = Names::default();
    let mut rows = HashMap::<Vec<u32>, Sides>::new();
    let mut calls = reports.map(|report| Calls::of(report, all_frames));
    functions::name_alike(&mut calls);
    for (at, (report, calls)) in reports.into_iter().zip(&calls).enumerate() {
        let mut by_call = vec![None; calls.len()];
        let (mut shown, mut path) = (Vec::new(), Vec::new());
        for stack in &report.by_stack {
            let sampled = report.stack_sampling_bytes.is_some();
            let label = stack.label(report);
            // What is not in the sample counts in the estimates.
            if label.is_some() && sampled && stack.weights().is_none() {
                continue;
            }
            let figures = match stack.estimates() {
                Some(estimates) => estimates.values(),
                None => Figures { peak_bytes: 0, ..stack.figures },
            };
            calls.shown(stack, &mut shown);
            path.clear();
            path.extend(shown.iter().map(|&call| {
                *by_call[call as usize]
                    .get_or_insert_with(|| names.number(&calls.get(call).function))
            }));
            path.extend(label.or(stack.missing()).map(|label| names.number(label)));
            let mut add = |key: &[u32], own: &Figures, inclusive: &Figures| {
                let side = match rows.get_mut(key) {
                    Some(sides) => &mut sides[at],
                    None => &mut rows.entry(key.to_vec()).or_default()[at],
                };
                side.get_or_insert_default().add(own, inclusive);
            };
            if by == DiffBy::Stack {
                add(&path, &figures, &figures);
                continue;
            }
            // NOTE: a label is a row if there is no function.
            path.truncate(shown.len().max(1));
            for (depth, name) in path.iter().enumerate() {
                let own = if depth == 0 { figures } else { Figures::default() };
                // A stack counts once in a function that is in it twice.
                if !path[..depth].contains(name) {
                    add(&[*name], &own, &figures);
                }
            }
        }
    }
    let text = |name: &u32| names.texts[*name as usize].clone();
    let row = |(key, [mut old, mut new]): (Vec<u32>, Sides)| {
        // A sum over stacks has no peak of its own.
        for side in [&mut old, &mut new].into_iter().flatten() {
            (side.own.peak_bytes, side.inclusive.peak_bytes) = (0, 0);
        }
        DiffRow { path: key.iter().rev().map(text).collect(), old, new }
    };
    let mut rows: Vec<_> = rows.into_iter().map(row).collect();
    rows.sort_by(|a, b| a.path.cmp(&b.path));
    rows
}

/// Names, numbered.
#[derive(Default)]
struct Names {
    numbers: HashMap<String, u32>,
    texts: Vec<String>,
}

impl Names {
    fn number(&mut self, name: &str) -> u32 {
        if let Some(&number) = self.numbers.get(name) {
            return number;
        }
        let number = self.texts.len() as u32;
        self.texts.push(name.to_owned());
        self.numbers.insert(name.to_owned(), number);
        number
    }
}

#[cfg(test)]
mod tests;
