//! The stacks of a report as JSON: only in the report of a trace with stacks.
//!
//! ```text
//! "stack_sampling_bytes"   null, or the mean distance of samples
//! "modules"     [{ "path", "build_id", "base", "size" }]
//! "frames"      [{ "module": index or null, "offset", "is_guess",
//!                  "functions": [{ "function", "file", "line" }] }]
//! "by_stack"    [{ "kind", "frames": [indices, innermost first], "end", columns, "estimates" }]
//! "by_function" [{ "function", columns, "inclusive", "estimates", "inclusive_estimates" }]
//! "by_line"     [{ "line", "file", "line_number", .. }]
//! "by_crate"    [{ "crate", .. }]
//! "mapped_by"   [{ "function", "file", "stack": index or null, "bytes" }]: what is resident at the end of
//!               mappings that are no blocks; only if something is
//! ```

use crate::pretty::{Json, List, Object, Value, columns, figures, moves, objects};
use memledger_document::internal::{CallKind, Calls};
use memledger_document::{
    CallRow, Estimate, Estimates, FIGURES, Figures, Frame, Frames, Module, Report, ResidentMapping,
    SourceFrame, StackEnd, StackKind, StackRow,
};
use std::io;

/// Who has mapped what is resident at the end, and is no block.
struct Mapped<'a> {
    function: Option<&'a str>,
    file: Option<&'a str>,
    of: &'a ResidentMapping,
}

impl<'a> Mapped<'a> {
    fn new(report: &'a Report, calls: &'a Calls<'_>, of: &'a ResidentMapping) -> Self {
        let call = of.stack.and_then(|stack| calls.shown_from_own(stack).next());
        let functions = call.and_then(|call| calls.frame_of(call));
        let functions = functions.map_or(&[][..], |frame| &report.frames[frame].functions);
        let file = functions.iter().find_map(|function| function.file.as_deref());
        Self { function: call.map(|call| calls.function(call)), file, of }
    }
}

impl Json for Mapped<'_> {
    fn write(&self, value: Value<'_, '_>) -> io::Result<()> {
        value.object(|object| {
            object.entry("function", &self.function)?;
            object.entry("file", &self.file)?;
            object.entry("stack", &self.of.stack.map(|stack| stack as u64))?;
            object.entry("bytes", &self.of.bytes)
        })
    }
}

/// Adds the stacks, and what they are made of, to the entries of the report.
pub(super) fn rows(report: &Report, object: &mut Object<'_, '_>) -> io::Result<()> {
    object.entry("stack_sampling_bytes", &report.stack_sampling_bytes)?;
    object.entry("modules", &report.modules)?;
    object.entry("frames", &report.frames)?;
    object.entry("by_stack", &List(report.by_stack.iter()))
}

/// Adds the stacks and their calls to the entries of the report.
pub(super) fn entries(report: &Report, object: &mut Object<'_, '_>) -> io::Result<()> {
    rows(report, object)?;
    let calls = Calls::of(report, Frames::Folded);
    let end = report.rss.as_ref().and_then(|rss| rss.end.as_ref());
    let mapped = end.map_or(&[][..], |end| &end.mapped_by);
    if !mapped.is_empty() {
        let rows = mapped.iter().map(|of| Mapped::new(report, &calls, of));
        object.entry("mapped_by", &List(rows))?;
    }
    for (key, name, kind) in [
        ("by_function", "function", CallKind::Function),
        ("by_line", "line", CallKind::Line),
        ("by_crate", "crate", CallKind::Crate),
    ] {
        let rows = calls.rows(kind);
        let rows: Vec<_> = rows.iter().map(|row| Call { name, kind, row }).collect();
        object.entry(key, &rows)?;
    }
    Ok(())
}

impl Json for Module {
    fn write(&self, value: Value<'_, '_>) -> io::Result<()> {
        let build_id: String = self.build_id.iter().map(|byte| format!("{byte:02x}")).collect();
        value.object(|object| {
            object.entry("path", &self.path)?;
            object.entry("build_id", &Some(build_id).filter(|id| !id.is_empty()))?;
            object.entry("base", &format!("{:#x}", self.base))?;
            object.entry("size", &self.size)
        })
    }
}

objects! {
    Frame, of => {
        "module": of.module.map(|module| module as u64),
        "offset": format!("{:#x}", of.offset),
        "is_guess": of.is_guess,
        "functions": of.functions,
    }
    SourceFrame, of => {
        "function": of.function,
        "file": of.file,
        "line": of.line,
    }
}

/// What is known of a stack.
fn kind_of(row: &StackRow) -> &'static str {
    match row.kind {
        StackKind::Known => "known",
        StackKind::NotTaken => "not taken",
        StackKind::Other => "other",
        StackKind::Unknown => "unknown",
    }
}

fn end_of(row: &StackRow) -> &'static str {
    match row.end {
        StackEnd::Complete => "complete",
        StackEnd::FrameLimit => "frame limit",
        StackEnd::NoUnwindInformation => "no unwind information",
        StackEnd::UnreadableMemory => "unreadable memory",
        StackEnd::LibraryChanged => "library changed",
        StackEnd::Lost => "missing in the trace",
    }
}

impl Json for StackRow {
    fn write(&self, value: Value<'_, '_>) -> io::Result<()> {
        value.object(|object| {
            object.entry("kind", kind_of(self))?;
            object.entry("frames", &self.frames)?;
            object.entry("end", end_of(self))?;
            columns(object, &self.figures)?;
            match self.estimates() {
                Some(estimates) => object.entry("estimates", &estimates),
                None => Ok(()),
            }
        })
    }
}

impl Json for Estimates {
    fn write(&self, value: Value<'_, '_>) -> io::Result<()> {
        value.object(|object| {
            self.all().try_for_each(|(key, estimate)| object.entry(key, &estimate))
        })
    }
}

objects! {
    Estimate, of => {
        "value": of.value,
        "low": of.low,
        "high": of.high,
    }
}

/// A function, line or crate, under the key `name`.
struct Call<'a> {
    name: &'static str,
    kind: CallKind,
    row: &'a CallRow,
}

impl Json for Call<'_> {
    fn write(&self, value: Value<'_, '_>) -> io::Result<()> {
        let row = self.row;
        value.object(|object| {
            object.entry(self.name, &row.name)?;
            if self.kind == CallKind::Line {
                object.entry("file", &row.file)?;
                object.entry("line_number", &row.line)?;
            }
            summed(object, &row.figures)?;
            object.entry("inclusive", &Summed(&row.inclusive))?;
            if let Some([own, inclusive]) = row.estimates() {
                object.entry("estimates", &own)?;
                object.entry("inclusive_estimates", &inclusive)?;
            }
            Ok(())
        })
    }
}

/// The columns of a row that is a sum over stacks: its own peak is not known.
fn summed(object: &mut Object<'_, '_>, row: &Figures) -> io::Result<()> {
    figures(object, FIGURES.iter().filter(|column| column.adds_up()), row)?;
    moves(object, [row.moved_in, row.moved_out])
}

struct Summed<'a>(&'a Figures);

impl Json for Summed<'_> {
    fn write(&self, value: Value<'_, '_>) -> io::Result<()> {
        value.object(|object| summed(object, self.0))
    }
}
