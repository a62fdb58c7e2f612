//! What has changed from one report to another: rows that are matched by name.
//!
//! Two runs of a program have other addresses, other ids of threads, and, after a change or at another level
//! of optimisation, other frames and lines. What stays is names: of scopes, groups and threads, and of
//! functions, also of those that were inlined. So rows are matched by these only, unless lines are asked for;
//! see [`stable_function`] for the parts of a function's name that the compiler numbers, and `functions.rs`
//! for functions of which one of the two has the last part of the name only.

mod functions;

pub use functions::stable_function;
use memledger_document::internal::{Call, Calls};
use memledger_document::{DiffBy, DiffRow, DiffSide, Figures, Frames, Report, made};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Compares reports.
pub trait Compare {
    /// Compares this report with a newer one, row by row. Rows are sorted by path; those that are equal in
    /// both reports are among them. Functions are those that [`Report::symbolize`] has found.
    ///
    /// Costs time in proportion to the rows of both, and for functions and stacks to their frames.
    ///
    /// # Examples
    /// ```
    /// use memledger_analysis::{Analyzer, Compare, DiffBy, Frames};
    ///
    /// let [old, new] = [(); 2].map(|()| Analyzer::new().report());
    /// for row in old.diff(&new, DiffBy::Scope, Frames::Folded) {
    ///     println!("{}", row.path.join(" > "));
    /// }
    /// ```
    fn diff(&self, newer: &Report, by: DiffBy, frames: Frames) -> Vec<DiffRow>;
}

impl Compare for Report {
    fn diff(&self, newer: &Report, by: DiffBy, frames: Frames) -> Vec<DiffRow> {
        let mut rows = BTreeMap::new();
        match by {
            DiffBy::Function | DiffBy::Stack => return by_calls([self, newer], by, frames),
            DiffBy::Thread => by_thread([self, newer], &mut rows),
            DiffBy::Line => by_line([self, newer], frames, &mut rows),
            _ => {
                for (at, report) in [self, newer].into_iter().enumerate() {
                    add_paths(report, by, at, &mut rows);
                }
            }
        }
        let row = |(path, [old, new]): (Vec<String>, Sides)| {
            made!(DiffRow { path: path.into_iter().map(Arc::from).collect(), old, new })
        };
        rows.into_iter().map(row).collect()
    }
}

/// By path: the figures in the old and in the new report.
type Rows = BTreeMap<Vec<String>, Sides>;
type Sides = [Option<DiffSide>; 2];

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
        DiffBy::Heap => {
            let rows = report.by_heap.iter();
            rows.for_each(|row| add(vec![row.name.clone()], &row.figures, &row.figures));
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

fn by_line(reports: [&Report; 2], frames: Frames, rows: &mut Rows) {
    for (at, report) in reports.into_iter().enumerate() {
        for row in report.by_line(frames) {
            let [own, inclusive] = match row.estimates() {
                Some(estimates) => estimates.map(|estimates| estimates.values()),
                None => [row.figures, row.inclusive],
            };
            let sides = rows.entry(vec![row.name]).or_default();
            sides[at].get_or_insert_default().add(&own, &inclusive);
        }
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

/// Functions or stacks.
///
/// PERF: rows are found by numbers of names, which have the order of the names; texts are looked at once for
/// each different call, and not for each of the frames of each stack.
fn by_calls(reports: [&Report; 2], by: DiffBy, frames: Frames) -> Vec<DiffRow> {
    let mut calls = reports.map(|report| Calls::of(report, frames));
    functions::name_alike(&mut calls);
    let names = Names::of(&calls);
    let mut rows = CallRows { by_name: vec![None; names.0.len()], ..CallRows::default() };
    for (at, calls) in calls.iter().enumerate() {
        let report = calls.report;
        let function = |call: &Call<'_>| names.number(call.name_of_function());
        let numbers: Vec<_> = calls.different().iter().map(function).collect();
        for (row, stack) in report.by_stack.iter().enumerate() {
            let sampled = report.stack_sampling_bytes.is_some();
            // What is not in the sample counts in the estimates.
            if sampled && stack.label(report).is_some() && stack.weights.is_none() {
                continue;
            }
            let figures = match stack.estimates() {
                Some(estimates) => estimates.values(),
                None => made!(Figures { peak_bytes: 0, ..stack.figures }),
            };
            let mut path: Vec<_> = calls.shown(row).rev().collect();
            if by == DiffBy::Function && path.len() > 1 {
                // NOTE: a text is a row if there is no function.
                path.retain(|&call| !calls.is_text(call));
            }
            path.iter_mut().for_each(|call| *call = numbers[calls.index(*call)]);
            match by {
                DiffBy::Stack => rows.add_stack(at, &path, &figures),
                _ => rows.add_functions(at, &path, &figures),
            }
        }
    }
    rows.finish(&names)
}

/// All names of functions, and texts in place of calls: sorted, so that their numbers have the same order.
struct Names(Vec<Arc<str>>);

impl Names {
    fn of(calls: &[Calls<'_>; 2]) -> Self {
        let different = calls.iter().flat_map(Calls::different);
        let mut names: Vec<&str> = different.map(Call::name_of_function).collect();
        names.sort_unstable();
        names.dedup();
        Self(names.into_iter().map(Arc::from).collect())
    }

    fn number(&self, name: &str) -> u32 {
        self.0.partition_point(|known| **known < *name) as u32
    }
}

/// Rows of functions or stacks, by numbers of names.
#[derive(Default)]
struct CallRows {
    /// Paths, outermost first, and figures.
    rows: Vec<(Box<[u32]>, Sides)>,
    /// By name of a function: its row, and the number of the stack that was counted last in it.
    by_name: Vec<Option<(usize, usize)>>,
    by_path: HashMap<Box<[u32]>, usize>,
    stacks: usize,
}

impl CallRows {
    fn add_stack(&mut self, at: usize, path: &[u32], figures: &Figures) {
        let row = match self.by_path.get(path) {
            Some(row) => *row,
            None => {
                self.by_path.insert(path.into(), self.rows.len());
                self.row(path)
            }
        };
        self.side(row, at).add(figures, figures);
    }

    /// Counts a stack in each function that is on it, once.
    fn add_functions(&mut self, at: usize, path: &[u32], figures: &Figures) {
        self.stacks += 1;
        for (depth, &name) in path.iter().rev().enumerate() {
            let (row, counted) = match self.by_name[name as usize] {
                Some(known) => known,
                None => (self.row(&[name]), 0),
            };
            if counted < self.stacks {
                self.by_name[name as usize] = Some((row, self.stacks));
                let side = self.side(row, at);
                side.inclusive.add(figures);
                side.inclusive.add_moves(figures);
                if depth == 0 {
                    side.own.add(figures);
                    side.own.add_moves(figures);
                }
            }
        }
    }

    fn row(&mut self, path: &[u32]) -> usize {
        self.rows.push((path.into(), Sides::default()));
        self.rows.len() - 1
    }

    fn side(&mut self, row: usize, at: usize) -> &mut DiffSide {
        self.rows[row].1[at].get_or_insert_default()
    }

    fn finish(mut self, names: &Names) -> Vec<DiffRow> {
        self.rows.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        let row = |(path, [mut old, mut new]): (Box<[u32]>, Sides)| {
            // A sum over stacks has no peak of its own.
            for side in [&mut old, &mut new].into_iter().flatten() {
                (side.own.peak_bytes, side.inclusive.peak_bytes) = (0, 0);
            }
            let name = |&name: &u32| Arc::clone(&names.0[name as usize]);
            made!(DiffRow { path: path.iter().map(name).collect(), old, new })
        };
        self.rows.into_iter().map(row).collect()
    }
}

#[cfg(test)]
mod tests;
