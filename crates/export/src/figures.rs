//! The figures of all rows of a report as one short document in JSON, schema `memledger.figures/1`, for a
//! reader that asks a running program for it each second: `memledger top`.
//!
//! ```text
//! { "schema": "memledger.figures/1",
//!   "trace", "totals", "losses":  as in memledger.report/1
//!   "columns":   the names of the figures, in their order
//!   "by_scope":  [{ "path", "figures": [numbers], "inclusive": [numbers] }]
//!   "by_group":  [{ "group", "figures", "inclusive" }]
//!   "by_name":   [{ "group", "name", "figures" }]
//!   "by_thread": [{ "id", "name", "system_id", "figures" }]
//!   "by_heap":   [{ "id", "name", "figures" }]
//!   only with stacks, of a program that records them:
//!   "stack_sampling_bytes", "modules":  as in memledger.report/1
//!   "frames":    [{ "module": index or null, "offset": bytes from its base }]
//!   "by_stack":  [{ "kind", "frames", "end", "figures" }] }   estimates, if stacks are sampled
//! ```
//! Each row is one line. It has what is shown in a list and nothing that is made from single blocks, so a
//! report of 1,000 scopes is a third as long as in `memledger.report/1`.

use crate::json::stacks::{end_of, kind_of};
use crate::pretty::{self, Json, List, OneLine, Value, objects};
use memledger_document::{
    FIGURES, Figure, Figures, Frame, GroupRow, HeapRow, NameRow, Report, ScopeRow, StackRow,
    ThreadRow,
};
use std::io::{self, Write};

/// The figures of a row, in the order of the report's columns.
fn columns() -> impl Iterator<Item = &'static Figure<Figures>> {
    let left_out = ["live_bytes_at_peak", "live_blocks_at_peak", "short_lived"];
    FIGURES.iter().filter(move |column| !left_out.contains(&column.key))
}

/// Writes the figures of `report`.
pub fn write(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    pretty::write(&Document(report), out)?;
    out.write_all(b"\n")
}

struct Document<'a>(&'a Report);

impl Json for Document<'_> {
    fn write(&self, value: Value<'_, '_>) -> io::Result<()> {
        let Self(report) = self;
        value.object(|object| {
            object.entry("schema", "memledger.figures/1")?;
            object.entry("trace", &OneLine(&report.trace))?;
            object.entry("totals", &OneLine(&report.totals))?;
            object.entry("losses", &OneLine(&report.losses))?;
            object.entry(
                "columns",
                &OneLine(columns().map(|column| column.key).collect::<Vec<_>>()),
            )?;
            object.entry("by_scope", &rows(&report.by_scope))?;
            object.entry("by_group", &rows(&report.by_group))?;
            object.entry("by_name", &rows(&report.by_name))?;
            object.entry("by_thread", &rows(&report.by_thread))?;
            object.entry("by_heap", &rows(&report.by_heap))?;
            if report.by_stack.is_empty() {
                return Ok(());
            }
            object.entry("stack_sampling_bytes", &report.stack_sampling_bytes)?;
            object.entry("modules", &report.modules)?;
            object.entry("frames", &rows(&report.frames))?;
            let stacks = report.by_stack.iter().map(|row| OneLine(BriefStack(row)));
            object.entry("by_stack", &List(stacks))
        })
    }
}

/// A value as this document has it.
struct Brief<'a, T>(&'a T);

fn rows<T>(rows: &[T]) -> Vec<OneLine<Brief<'_, T>>> {
    rows.iter().map(|row| OneLine(Brief(row))).collect()
}

impl Json for Brief<'_, Figures> {
    fn write(&self, value: Value<'_, '_>) -> io::Result<()> {
        columns().map(|column| column.number(self.0)).collect::<Vec<_>>().write(value)
    }
}

objects! {
    Brief<'_, ScopeRow>, Self(row) => {
        "path": row.path,
        "figures": Brief(&row.figures),
        "inclusive": Brief(&row.inclusive),
    }
    Brief<'_, GroupRow>, Self(row) => {
        "group": row.group,
        "figures": Brief(&row.figures),
        "inclusive": Brief(&row.inclusive),
    }
    Brief<'_, NameRow>, Self(row) => {
        "group": row.group,
        "name": row.name,
        "figures": Brief(&row.figures),
    }
    Brief<'_, ThreadRow>, Self(row) => {
        "id": row.id,
        "name": row.name,
        "system_id": row.system_id,
        "figures": Brief(&row.figures),
    }
    Brief<'_, HeapRow>, Self(row) => {
        "id": row.id,
        "name": row.name,
        "figures": Brief(&row.figures),
    }
    Brief<'_, Frame>, Self(frame) => {
        "module": frame.module.map(|module| module as u64),
        "offset": frame.offset,
        "is_guess": frame.is_guess,
    }
}

/// A stack as this document has it.
struct BriefStack(StackRow);

impl Json for BriefStack {
    fn write(&self, value: Value<'_, '_>) -> io::Result<()> {
        let Self(row) = self;
        let figures = row.estimates().map_or(row.figures, |estimates| estimates.values());
        value.object(|object| {
            object.entry("kind", kind_of(row))?;
            object.entry("frames", &row.frames)?;
            object.entry("end", end_of(row))?;
            object.entry("figures", &Brief(&figures))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;
    use memledger_analysis::Analyzer;
    use memledger_analysis::read::read;
    use serde_json::{Value, json};

    /// Each row with its figures by name, as in the other document.
    fn named(row: &Value, columns: &[Value], key: &str) -> Value {
        let figures = row[key].as_array().unwrap().iter();
        let pairs = columns.iter().zip(figures);
        pairs.map(|(name, figure)| (name.as_str().unwrap().to_owned(), figure.clone())).collect()
    }

    #[test]
    fn the_figures_are_those_of_the_report() {
        let sample =
            concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/samples/memledger-small.utrace");
        let mut analyzer = Analyzer::new();
        read(std::fs::File::open(sample).unwrap(), &mut analyzer).unwrap();
        let report = analyzer.report();
        let (mut short, mut whole) = (Vec::new(), Vec::new());
        write(&report, &mut short).unwrap();
        json::write(&report, &mut whole).unwrap();
        let [short, whole]: [Value; 2] =
            [short, whole].map(|document| serde_json::from_slice(&document).unwrap());
        for key in ["trace", "totals", "losses"] {
            assert_eq!(short[key], whole[key], "{key}");
        }
        let columns = short["columns"].as_array().unwrap();
        assert!(columns.len() > 6, "{columns:?}");
        for table in ["by_scope", "by_group", "by_name", "by_thread"] {
            let [rows, expected] = [&short, &whole].map(|of| of[table].as_array().unwrap());
            assert_eq!(rows.len(), expected.len(), "{table}");
            assert!(!rows.is_empty(), "{table}");
            for (row, expected) in rows.iter().zip(expected) {
                for key in ["path", "group", "name", "id"] {
                    assert_eq!(row[key], expected[key], "{table}");
                }
                let figures = named(row, columns, "figures");
                for (name, figure) in figures.as_object().unwrap() {
                    assert_eq!(*figure, expected[name], "{table}, {name}");
                }
                if row["inclusive"].is_array() {
                    let inclusive = named(row, columns, "inclusive");
                    for (name, figure) in inclusive.as_object().unwrap() {
                        assert_eq!(*figure, expected["inclusive"][name], "{table}, {name}");
                    }
                }
            }
        }
        // With one heap, which the report leaves out, too.
        let [heap] = &short["by_heap"].as_array().unwrap()[..] else { panic!("{short:?}") };
        assert_eq!([&heap["id"], &heap["name"]], [&json!(0), &json!("Rust")]);
        for (name, figure) in named(heap, columns, "figures").as_object().unwrap() {
            assert_eq!(*figure, short["totals"][name], "{name}");
        }
    }
}
