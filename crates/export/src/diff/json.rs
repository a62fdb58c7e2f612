//! A difference as JSON, schema `memledger.diff/1`.
//!
//! ```text
//! "schema", "column"
//! "old", "new"   { "name", "trace", "totals", "losses" }, as in memledger.report/1
//! "tables"       [{ "by", "new", "gone", "grown", "shrunk", "same": counts of rows by "column",
//!                   "rows": [{ "path", "state", "change", "old", "new" }] }]
//! ```
//! The rows are those that differ in any figure, the largest change of the column first. `old` and `new` of a
//! row are its figures or null; `inclusive` holds those with all inside.

use super::compared::{Diff, DiffOptions};
use super::rows::{Changed, State};
use crate::pretty::columns;
use crate::pretty::{self, Json, List, Value, objects};
use memledger_document::internal::sort;
use memledger_document::{DiffBy, DiffSide, Report};
use std::cmp::Reverse;
use std::io::{self, Write};

pub(super) fn write(diff: &Diff<'_>, options: &DiffOptions, out: &mut dyn Write) -> io::Result<()> {
    pretty::write(&Document::new(diff, options), out)?;
    out.write_all(b"\n")
}

/// The document, as a value.
pub(crate) struct Document<'a> {
    diff: &'a Diff<'a>,
    options: DiffOptions,
}

impl<'a> Document<'a> {
    pub(crate) fn new(diff: &'a Diff<'a>, options: &DiffOptions) -> Self {
        Self { diff, options: DiffOptions { filter: None, ..options.clone() } }
    }
}

impl Json for Document<'_> {
    fn write(&self, value: Value<'_, '_>) -> io::Result<()> {
        let Self { diff, options } = self;
        let [old, new] = &options.names;
        value.object(|object| {
            object.entry("schema", "memledger.diff/1")?;
            object.entry("column", options.sort.key())?;
            object.entry("old", &Side { name: old, report: diff.old })?;
            object.entry("new", &Side { name: new, report: diff.new })?;
            let tables = (0..diff.tables.len()).map(|table| Table { document: self, table });
            object.entry("tables", &tables.collect::<Vec<_>>())
        })
    }
}

struct Side<'a> {
    name: &'a str,
    report: &'a Report,
}

objects! {
    Side<'_>, of => {
        "name": of.name,
        "trace": of.report.trace,
        "totals": of.report.totals,
        "losses": of.report.losses,
    }
}

struct Table<'a> {
    document: &'a Document<'a>,
    table: usize,
}

impl Json for Table<'_> {
    fn write(&self, value: Value<'_, '_>) -> io::Result<()> {
        let Document { diff, options } = self.document;
        let (by, rows) = &diff.tables[self.table];
        let (_, of_state) = diff.changed(self.table, options);
        let differs = rows.iter().filter(|row| row.old != row.new);
        let mut rows: Vec<_> =
            differs.map(|row| Row { by: *by, row: Changed::of(row, *by, options) }).collect();
        sort::by_key(&mut rows, |Row { row, .. }| Reverse(row.old.abs_diff(row.new)));
        value.object(|object| {
            object.entry("by", by.name())?;
            for (state, count) in State::ALL.iter().zip(of_state) {
                object.entry(state.name(), &(count as u64))?;
            }
            object.entry("rows", &rows)
        })
    }
}

struct Row<'a> {
    by: DiffBy,
    row: Changed<'a>,
}

impl Json for Row<'_> {
    fn write(&self, value: Value<'_, '_>) -> io::Result<()> {
        let Changed { row, state, old, new } = &self.row;
        value.object(|object| {
            object.entry("path", &List(row.path.iter().map(|name| &**name)))?;
            object.entry("state", state.name())?;
            object.entry("change", &(i128::from(*new) - i128::from(*old)))?;
            object.entry("old", &row.old.map(|side| (self.by, side)))?;
            object.entry("new", &row.new.map(|side| (self.by, side)))
        })
    }
}

impl Json for (DiffBy, DiffSide) {
    fn write(&self, value: Value<'_, '_>) -> io::Result<()> {
        let (by, side) = self;
        value.object(|object| {
            columns(object, &side.own)?;
            match by {
                DiffBy::Scope | DiffBy::Group | DiffBy::Function | DiffBy::Line => {
                    object.entry("inclusive", &side.inclusive)
                }
                _ => Ok(()),
            }
        })
    }
}
