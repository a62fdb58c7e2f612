//! The report as JSON, schema `memledger.report/1`.
//!
//! The order of keys is part of the format, so that two reports can be compared as text. Keys
//! may be added; none is renamed or dropped within `/1`.

mod findings;
mod stacks;

use crate::format::{ReportFormat, Sealed};
use crate::options::Options;
use crate::pretty::{
    self, Json, List, Object, OneLine, Value, columns, figure, figures, moves, objects,
};
use memledger_document::{
    AFTER_REPORT, AfterReport, AllocatorStatistics, Bookmark, Coverage, CoverageReason, Figures,
    GroupRow, HeapRow, LOSSES, LiveBlock, LlmTagRow, LlmTagSeries, Losses, NameRow, PeakMoment,
    Report, ResidentHeap, ResidentMemory, Rss, ScopeRow, SizeRow, StaticVariable, TOTALS, TRACE,
    ThreadRow, TimeSpan, Totals, TraceInfo, Untracked, UntrackedKind, UntrackedReason, Weighed,
};
use std::io::{self, Write};

/// Writes `report` as one JSON document and a line feed.
pub fn write(report: &Report, out: &mut impl Write) -> io::Result<()> {
    pretty::write(report, out)?;
    out.write_all(b"\n")
}

/// Writes the rows of `report`, and nothing that is made of single blocks or calls: for a reader that asks a
/// running program each second. For `memledger` only.
#[doc(hidden)]
pub fn write_rows(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    pretty::write(&Rows(report), out)?;
    out.write_all(b"\n")
}

struct Rows<'a>(&'a Report);

impl Json for Rows<'_> {
    fn write(&self, value: Value<'_, '_>) -> io::Result<()> {
        let Self(report) = self;
        value.object(|object| {
            object.entry("schema", SCHEMA)?;
            tables(report, object)?;
            if report.by_heap.len() == 1 {
                object.entry("by_heap", &report.by_heap)?;
            }
            if report.by_stack.is_empty() { Ok(()) } else { stacks::rows(report, object) }
        })
    }
}

const SCHEMA: &str = "memledger.report/1";

/// As JSON.
#[derive(Debug)]
pub struct Format;

impl Sealed for Format {}
impl ReportFormat for Format {
    fn name(&self) -> &'static str {
        "json"
    }

    fn about(&self) -> &'static str {
        "For programs; contains its schema's name"
    }

    fn endings(&self) -> &'static [&'static str] {
        &["json"]
    }

    fn write(&self, report: &Report, _: &Options, mut out: &mut dyn Write) -> io::Result<()> {
        write(report, &mut out)
    }
}

impl Json for Report {
    fn write(&self, value: Value<'_, '_>) -> io::Result<()> {
        value.object(|object| {
            object.entry("schema", SCHEMA)?;
            tables(self, object)?;
            if !self.by_stack.is_empty() {
                stacks::entries(self, object)?;
            }
            blocks(self, object, |stack| Some(stack as u64))?;
            if !self.llm_tags.is_empty() {
                object.entry("llm_tags", &self.llm_tags)?;
            }
            if !self.freed_in.is_empty() {
                object.entry("freed_in", &self.freed_in)?;
            }
            Ok(())
        })
    }
}

/// Adds the entries before those of stacks.
pub(crate) fn tables(report: &Report, object: &mut Object<'_, '_>) -> io::Result<()> {
    object.entry("trace", &report.trace)?;
    object.entry("totals", &report.totals)?;
    object.entry("peak", &report.peak)?;
    object.entry("losses", &report.losses)?;
    object.entry("after_report", &report.after_report)?;
    object.entry("bookmarks", &report.bookmarks)?;
    object.entry("by_scope", &report.by_scope)?;
    object.entry("by_group", &report.by_group)?;
    object.entry("by_name", &report.by_name)?;
    object.entry("by_thread", &report.by_thread)?;
    // Most programs have one heap, whose figures are the totals.
    if report.by_heap.len() > 1 {
        object.entry("by_heap", &report.by_heap)?;
    }
    object.entry("by_size", &report.by_size)?;
    report.rss.iter().try_for_each(|rss| object.entry("rss", rss))?;
    if !report.static_variables.is_empty() {
        let rows = report.static_variables.iter().map(|variable| Static { variable, report });
        object.entry("static_variables", &List(rows))?;
    }
    object.entry("untracked", &report.untracked)
}

/// Adds the entries after those of stacks. `stack_of`: the number that a row of
/// [`Report::by_stack`] has in this document.
pub(crate) fn blocks(
    report: &Report,
    object: &mut Object<'_, '_>,
    stack_of: impl Fn(usize) -> Option<u64>,
) -> io::Result<()> {
    let has_stacks = !report.by_stack.is_empty();
    let stack_of = |block: &LiveBlock| has_stacks.then(|| block.stack.and_then(&stack_of));
    let largest = report.largest_live.iter();
    let largest = largest.map(|block| Largest { block, stack: stack_of(block) });
    object.entry("largest_live", &List(largest))?;
    object.entry("peak_by", &report.find_peak_by())?;
    object.entry("findings", &report.findings)
}

/// A static variable, with the file that it is in.
struct Static<'a> {
    variable: &'a StaticVariable,
    report: &'a Report,
}

objects! {
    Static<'_>, Self { variable, report } => {
        "variable": variable.name,
        "module": report.modules.get(variable.module).map(|module| module.path.as_str()),
        "bytes": variable.bytes,
        "size": Some(variable.size).filter(|_| variable.name.is_some()),
    }
    TimeSpan, of => {
        "from_ns": of.from_ns,
        "to_ns": of.to_ns,
    }
    Coverage, of => {
        "word": of.word.name(),
        "unseen_bytes": of.unseen_bytes(),
        "reasons": of.reasons,
    }
    CoverageReason, of => {
        "kind": of.kind.name(),
        "bytes": of.bytes,
        "from_ns": of.from_ns,
        "to_ns": of.to_ns,
    }
    Rss, of => {
        "most_bytes": of.most_bytes,
        "private_bytes": of.private_bytes,
        "limit_bytes": of.limit_bytes,
        "peak": of.peak,
        "end_bytes": of.end_bytes,
        "end": of.end,
        "allocators": of.allocators,
    }
    Untracked, of => {
        "known": of.is_known(),
        "beside": of.is_beside,
        "not_followed": of.not_followed,
        "reasons": of.reasons,
        "weighed": of.weighed,
        "unseen_peak": of.unseen_peak,
    }
    UntrackedReason, of => {
        "kind": match of.kind {
            UntrackedKind::Malloc => "malloc",
            UntrackedKind::New => "new",
            UntrackedKind::Allocator => "allocator",
            UntrackedKind::Go => "go",
            UntrackedKind::Scopes => "scopes",
            UntrackedKind::Replaced => "replaced",
            UntrackedKind::Child => "child",
            UntrackedKind::Handle => "handle",
            UntrackedKind::Unreadable => "unreadable",
        },
        "function": of.function,
        "file": of.file,
    }
    Weighed, of => {
        "at_ns": of.at_ns,
        "rss_bytes": of.rss_bytes,
        "untracked_bytes": of.untracked_bytes,
    }
}

impl Json for ResidentMemory {
    fn write(&self, value: Value<'_, '_>) -> io::Result<()> {
        value.object(|object| {
            object.entry("at_ns", &self.at_ns)?;
            object.entry("rss_bytes", &self.rss_bytes())?;
            let mut parts = self.parts().into_iter();
            parts.try_for_each(|(key, bytes)| object.entry(key, &bytes))?;
            if self.live_by_heap.len() > 1 {
                object.entry("live_by_heap", &self.live_by_heap)?;
            }
            object.entry("live_not_resident_bytes", &self.live_not_resident_bytes)?;
            object.entry("huge_page_bytes", &self.huge_page_bytes)?;
            object.entry("swapped_bytes", &self.swapped_bytes)?;
            object.entry("tracker_block_bytes", &self.tracker_block_bytes)
        })
    }
}

objects! {
    ResidentHeap, of => {
        "id": of.id,
        "name": of.name,
        "bytes": of.bytes,
    }
    AllocatorStatistics, of => {
        "allocator": of.allocator,
        "figures": of.figures,
    }
    (String, u64), (name, bytes) => {
        "name": name,
        "bytes": bytes,
    }
    Bookmark, of => {
        "name": of.name,
        "at_ns": of.at_ns,
    }
}

impl Json for TraceInfo {
    fn write(&self, value: Value<'_, '_>) -> io::Result<()> {
        value.object(|object| {
            TRACE.iter().try_for_each(|entry| match entry.key {
                "program" => object.entry(entry.key, &self.program),
                "scopes_off" => object.entry(entry.key, &self.scopes_off),
                "coverage" => object.entry(entry.key, &self.coverage),
                _ => figure(object, entry, self),
            })
        })
    }
}

impl Json for Totals {
    fn write(&self, value: Value<'_, '_>) -> io::Result<()> {
        value.object(|object| {
            figures(object, TOTALS.iter(), self)?;
            moves(object, [self.moved_in, self.moved_out])
        })
    }
}

impl Json for Losses {
    fn write(&self, value: Value<'_, '_>) -> io::Result<()> {
        value.object(|object| figures(object, LOSSES.iter(), self))
    }
}

impl Json for AfterReport {
    fn write(&self, value: Value<'_, '_>) -> io::Result<()> {
        value.object(|object| figures(object, AFTER_REPORT.iter(), self))
    }
}

objects! {
    PeakMoment, of => {
        "from_ns": of.from_ns,
        "to_ns": of.to_ns,
        "after_bookmark": of.after_bookmark,
        "before_bookmark": of.before_bookmark,
    }
}

impl Json for Figures {
    fn write(&self, value: Value<'_, '_>) -> io::Result<()> {
        value.object(|object| columns(object, self))
    }
}

objects! {
    ScopeRow, of => {
        "path": of.path,
        "entries": of.entries,
        ..of.figures,
        "inclusive": of.inclusive,
        "largest_live_bytes": of.largest_live_bytes,
    }
    GroupRow, of => {
        "group": of.group,
        ..of.figures,
        "inclusive": of.inclusive,
    }
    NameRow, of => {
        "group": of.group,
        "name": of.name,
        ..of.figures,
    }
    ThreadRow, of => {
        "id": of.id,
        "name": of.name,
        "system_id": of.system_id,
        ..of.figures,
    }
    HeapRow, of => {
        "id": of.id,
        "name": of.name,
        ..of.figures,
    }
    SizeRow, of => {
        "min_bytes": of.min_bytes,
        "max_bytes": of.max_bytes,
        ..of.figures,
    }
    LlmTagRow, of => {
        "tracker": of.tracker,
        "path": of.path,
        "samples": of.samples,
        "first_bytes": of.first.bytes,
        "first_at_ns": of.first.at_ns,
        "last_bytes": of.last.bytes,
        "last_at_ns": of.last.at_ns,
        "min_bytes": of.min.bytes,
        "min_at_ns": of.min.at_ns,
        "peak_bytes": of.peak.bytes,
        "peak_at_ns": of.peak.at_ns,
        "series": of.series,
    }
    LlmTagSeries, of => {
        "at_ns": OneLine(&of.at_ns),
        "bytes": OneLine(&of.bytes),
    }
}

/// A live block, with its stack if the trace has stacks.
struct Largest<'a> {
    block: &'a LiveBlock,
    stack: Option<Option<u64>>,
}

impl Json for Largest<'_> {
    fn write(&self, value: Value<'_, '_>) -> io::Result<()> {
        let block = self.block;
        value.object(|object| {
            object.entry("address", &format!("{:#x}", block.address))?;
            object.entry("bytes", &block.bytes)?;
            object.entry("thread", &block.thread)?;
            object.entry("group", &block.group)?;
            object.entry("name", &block.name)?;
            object.entry("path", &block.path)?;
            object.entry("allocated_at_ns", &block.allocated_at_ns)?;
            self.stack.iter().try_for_each(|stack| object.entry("stack", stack))
        })
    }
}
