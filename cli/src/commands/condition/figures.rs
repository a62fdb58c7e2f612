//! The figures of a whole report and of its rows, by the names that they have in its JSON.

use crate::commands::by::By;
use memledger_analysis::{Moves, Report, StackKind, StackRow, stable_function};
use memledger_export::json;
use memledger_export::text::shown_heap;
use serde_json::Value;
use std::sync::LazyLock;

/// A selector of rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector {
    pub of: By,
    /// The name of the row, or the last elements of its path.
    pub name: String,
    /// The group of a name.
    pub group: Option<String>,
}

/// Whether a figure is a number or a boolean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FigureType {
    Number,
    Flag,
}

/// A report, parsed from its JSON.
pub struct Figures(Value);

impl Figures {
    pub fn of(report: &Report) -> Self {
        let mut document = document_of(report);
        // NOTE: a document has rows by heap only if there are several.
        if let [heap] = &*report.by_heap {
            let mut other = Report::default();
            other.by_heap = vec![heap.clone(); 2];
            document["by_heap"] = vec![document_of(&other)["by_heap"][0].take()].into();
        }
        Self(document)
    }

    /// A figure of the whole report; `true` is 1. `None` if the report does not have it.
    pub fn total(&self, key: &str) -> Option<u64> {
        let value = PARTS.into_iter().find_map(|part| self.0[part].get(key))?;
        value.as_u64().or_else(|| value.as_bool().map(u64::from))
    }

    /// By how many blocks the figures can be wrong.
    pub fn missed_at_start(&self) -> u64 {
        self.total("missed_at_start").unwrap_or_default()
    }

    /// All rows by this, each with the name that it has in the text report.
    pub fn rows(&self, of: By) -> impl Iterator<Item = (String, &Value)> {
        let (list, path) = match of {
            By::Scope => ("by_scope", "path"),
            By::Group => ("by_group", "group"),
            By::Name => ("by_name", "group"),
            By::Thread => ("by_thread", ""),
            By::Function => ("by_function", ""),
            By::Heap => ("by_heap", ""),
        };
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        self.0[list].as_array().into_iter().flatten().map(move |row| {
            let path: Vec<_> = row[path].as_array().into_iter().flatten().map(text).collect();
            let name = match of {
                By::Scope | By::Group => path.join(" > "),
                By::Name => format!("{} / {}", path.join(" > "), text(&row["name"])),
                By::Thread if row["name"] == "" => format!("thread {}", row["id"]),
                By::Heap => shown_heap(&text(&row["name"])).to_owned(),
                By::Thread => text(&row["name"]),
                By::Function => stable_function(&text(&row["function"])).into_owned(),
            };
            (name, row)
        })
    }

    /// The rows that `selector` selects.
    pub fn select(&self, selector: &Selector) -> Vec<(String, &Value)> {
        let Selector { of, name, group } = selector;
        // The heap of malloc is C in JSON.
        let name = if *of == By::Heap { shown_heap(name) } else { name };
        let chosen = |label: &str| match group {
            None => is_end(label, name, of.separator()),
            Some(group) => label
                .strip_suffix(name)
                .and_then(|rest| rest.strip_suffix(" / "))
                .is_some_and(|path| is_end(path, group, " > ")),
        };
        self.rows(*of).filter(|(label, _)| chosen(label)).collect()
    }
}

/// The JSON of a report.
fn document_of(report: &Report) -> Value {
    let mut document = Vec::new();
    // Writing to memory does not fail, and the JSON written above is valid.
    let _ = json::write(report, &mut document);
    serde_json::from_slice(&document).unwrap_or_default()
}

const PARTS: [&str; 3] = ["totals", "losses", "trace"];

/// Whether `path` is `end`, or ends with it at an element boundary.
fn is_end(path: &str, end: &str, separator: &str) -> bool {
    path.strip_suffix(end).is_some_and(|rest| rest.is_empty() || rest.ends_with(separator))
}

/// A figure of a row: the inclusive figure, where the row has one.
pub fn row_figure(row: &Value, key: &str) -> Option<u64> {
    let value = row["inclusive"].get(key).or_else(|| row.get(key));
    // The JSON leaves out `moved` figures that are 0.
    value.map_or(key.starts_with("moved_").then_some(0), Value::as_u64)
}

/// A report with one row of each kind, and with every optional key.
static SAMPLE: LazyLock<Figures> = LazyLock::new(|| {
    let mut report = Report::default();
    let mut moved = Moves::default();
    (moved.blocks, moved.bytes) = (1, 1);
    report.by_scope.push(Default::default());
    report.by_group.push(Default::default());
    report.by_name.push(Default::default());
    report.by_thread.push(Default::default());
    report.by_heap.push(Default::default());
    report.totals.moved_in = moved;
    report.by_scope[0].figures.moved_in = moved;
    report.by_group[0].figures.moved_in = moved;
    report.by_name[0].figures.moved_in = moved;
    report.by_thread[0].figures.moved_in = moved;
    report.by_heap[0].figures.moved_in = moved;
    let mut stack = StackRow::default();
    (stack.kind, stack.figures.moved_in) = (StackKind::NotTaken, moved);
    report.by_stack.push(stack);
    Figures::of(&report)
});

/// All figures of the whole report, or of rows.
pub fn known_figures(of: Option<By>) -> Vec<(String, FigureType)> {
    let Figures(document) = &*SAMPLE;
    let objects: Vec<_> = match of {
        None => PARTS.map(|part| &document[part]).into(),
        Some(By::Scope) => vec![&document["by_scope"][0]],
        Some(By::Group) => vec![&document["by_group"][0]],
        Some(By::Name) => vec![&document["by_name"][0]],
        Some(By::Thread) => vec![&document["by_thread"][0]],
        Some(By::Function) => vec![&document["by_function"][0]],
        Some(By::Heap) => vec![&document["by_heap"][0]],
    };
    let figure_type = |key: &str, value: &Value| match value {
        _ if matches!(key, "pid" | "program" | "id" | "system_id") => None,
        Value::Bool(_) => Some(FigureType::Flag),
        // Figures that a trace may lack.
        Value::Null if matches!(key, "from_process_start" | "memory_recorded") => {
            Some(FigureType::Flag)
        }
        Value::Null | Value::Number(_) => Some(FigureType::Number),
        _ => None,
    };
    let entries = objects.into_iter().filter_map(Value::as_object).flatten();
    entries.filter_map(|(key, value)| Some((key.clone(), figure_type(key, value)?))).collect()
}
