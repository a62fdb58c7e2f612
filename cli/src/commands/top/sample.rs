//! The figures of one moment, as the screen shows them.

use crate::commands::by::By;
use memledger_analysis::{CallRow, Figures, Frames, Report};
use memledger_export::text::{apart, shown_heap, shown_scope, tag};
use std::collections::HashMap;

/// The figures of a row, or of all rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Values {
    pub live: u64,
    pub blocks: u64,
    pub peak: u64,
    pub allocated: u64,
    pub count: u64,
}

impl From<&Figures> for Values {
    fn from(figures: &Figures) -> Self {
        Self {
            live: figures.live_bytes,
            blocks: figures.live_blocks,
            peak: figures.peak_bytes,
            allocated: figures.allocated_bytes,
            count: figures.allocations,
        }
    }
}

/// One row: its key is its path, outermost name first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    pub path: Vec<String>,
    /// The name to show, if it is not the last of the path.
    pub label: Option<String>,
    pub own: Values,
    pub inclusive: Values,
}

impl Row {
    fn flat(name: String, label: Option<String>, own: &Figures, inclusive: &Figures) -> Self {
        Self { path: vec![name], label, own: own.into(), inclusive: inclusive.into() }
    }

    pub fn values(&self, inclusive: bool) -> &Values {
        if inclusive { &self.inclusive } else { &self.own }
    }
}

/// The figures of one moment.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    pub program: Option<String>,
    pub pid: Option<u32>,
    /// Time of the trace.
    pub duration_ns: u64,
    pub total: Values,
    pub lost_events: u64,
    /// Events are missing, and their number is not known.
    pub lost_unknown: bool,
    /// Blocks with a stack are a sample of all: figures by function are estimates.
    pub is_sampled: bool,
    /// Whether the call stacks were asked for, so that rows by function are there if the program records
    /// them.
    pub has_functions: bool,
    rows: HashMap<By, Table>,
}

/// The rows of one list, and where each is.
#[derive(Clone, Debug, Default)]
struct Table {
    rows: Vec<Row>,
    by_path: HashMap<Vec<String>, usize>,
}

impl Sample {
    /// The figures of a report, which has functions if `has_functions`.
    pub fn of(report: &Report, has_functions: bool) -> Self {
        let totals = &report.totals;
        let mut sample = Self {
            program: report.trace.program.clone(),
            pid: report.trace.pid,
            duration_ns: report.trace.duration_ns,
            total: Values {
                live: totals.live_bytes,
                blocks: totals.live_blocks,
                peak: totals.peak_bytes,
                allocated: totals.allocated_bytes,
                count: totals.allocations,
            },
            lost_events: report.losses.lost_events,
            lost_unknown: report.losses.lost_unknown,
            is_sampled: report.stack_sampling_bytes.is_some(),
            has_functions,
            rows: HashMap::new(),
        };
        let in_tree = |path: &[String], figures: &Figures, inclusive: &Figures| Row {
            path: path.to_vec(),
            // The outermost scope.
            label: (path.len() == 1).then(|| shown_scope(path)).filter(|name| *name != path[0]),
            own: figures.into(),
            inclusive: inclusive.into(),
        };
        let scopes = report.by_scope.iter();
        sample.add(By::Scope, scopes.map(|row| in_tree(&row.path, &row.figures, &row.inclusive)));
        let groups = report.by_group.iter();
        sample.add(By::Group, groups.map(|row| in_tree(&row.group, &row.figures, &row.inclusive)));
        let names = report
            .by_name
            .iter()
            .map(|row| Row::flat(tag(&row.group, &row.name), None, &row.figures, &row.figures));
        sample.add(By::Name, names);
        let threads = report.by_thread.iter().map(|row| {
            let name = match row.name.as_str() {
                "" => format!("thread {}", row.id),
                name => format!("{name} ({})", row.id),
            };
            Row::flat(name, None, &row.figures, &row.figures)
        });
        sample.add(By::Thread, threads);
        let heaps = report.by_heap.iter();
        let heaps = heaps.map(|row| {
            let label = Some(shown_heap(&row.name).to_owned()).filter(|label| *label != row.name);
            Row::flat(row.name.clone(), label, &row.figures, &row.figures)
        });
        sample.add(By::Heap, heaps);
        if has_functions {
            sample.add(By::Function, functions(report).into_iter());
        }
        sample
    }

    fn add(&mut self, by: By, rows: impl Iterator<Item = Row>) {
        let rows: Vec<_> = rows.collect();
        let by_path = rows.iter().enumerate().map(|(at, row)| (row.path.clone(), at)).collect();
        self.rows.insert(by, Table { rows, by_path });
    }

    /// Whether functions say who allocates, and neither scopes nor tags do.
    pub fn is_of_functions_only(&self) -> bool {
        let has_names = [By::Scope, By::Name].iter().any(|by| self.rows(*by).len() > 1);
        !has_names && !self.rows(By::Function).is_empty()
    }

    /// Takes the functions of other figures.
    pub fn take_functions(&mut self, of: &Self) {
        self.has_functions = of.has_functions;
        if let Some(functions) = of.rows.get(&By::Function) {
            self.rows.insert(By::Function, functions.clone());
        }
    }

    pub fn rows(&self, by: By) -> &[Row] {
        self.rows.get(&by).map_or(&[], |table| &table.rows)
    }

    /// The row at a path; `None` if it was not there yet.
    pub fn row(&self, by: By, path: &[String]) -> Option<&Row> {
        let table = self.rows.get(&by)?;
        table.by_path.get(path).map(|&at| &table.rows[at])
    }
}

/// The rows by function.
fn functions(report: &Report) -> Vec<Row> {
    let functions = report.by_function(Frames::Folded);
    // By name, so that a number stays with its function.
    let mut names: Vec<_> = functions.iter().map(|row| &*row.name).collect();
    names.sort_unstable();
    let labels: HashMap<_, _> = names.iter().copied().zip(apart(names.iter().copied())).collect();
    let row = |row: &CallRow| {
        let [own, inclusive] = match row.estimates() {
            Some(estimates) => estimates.map(|estimates| estimates.values()),
            None => [row.figures, row.inclusive],
        };
        Row::flat(row.name.clone(), labels.get(&*row.name).cloned(), &own, &inclusive)
    };
    functions.iter().map(row).collect()
}
