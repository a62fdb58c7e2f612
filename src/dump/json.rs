//! The report as JSON, schema `memledger.report/1`.
//!
//! The order of keys is part of the format, so that two reports can be compared as text. Keys
//! may be added; none is renamed or dropped within `/1`.

use super::format::ReportFormat;
use super::json_stacks;
use super::options::Options;
use super::pretty::{self, Json, List, Object, OneLine, Value};
use crate::analysis::{
    AfterReport, AllocatorStatistics, Bookmark, COLUMNS, Figures, GroupRow, HeapRow, LiveBlock,
    LlmTagRow, LlmTagSeries, Losses, Moves, NameRow, PeakMoment, Report, ResidentHeap,
    ResidentMemory, Rss, ScopeRow, SizeRow, ThreadRow, TimeSpan, Totals, TraceInfo, Untracked,
    UntrackedKind, UntrackedReason, Weighed,
};
use std::io::{self, Write};

/// Writes `report` as one JSON document and a line feed.
pub fn write(report: &Report, out: &mut impl Write) -> io::Result<()> {
    pretty::write(report, out)?;
    out.write_all(b"\n")
}

/// As JSON.
pub(super) struct Format;

impl ReportFormat for Format {
    fn name(&self) -> &'static str {
        "json"
    }

    fn about(&self) -> &'static str {
        "To be processed; the schema is named in it"
    }

    fn endings(&self) -> &'static [&'static str] {
        &["json"]
    }

    fn write(&self, report: &Report, _: &Options, mut out: &mut dyn Write) -> io::Result<()> {
        write(report, &mut out)
    }
}

/// Writes an object with the given entries.
macro_rules! object {
    ($value:expr, $($key:literal => $entry:expr),+ $(,)?) => {
        $value.object(|object| {
            $(object.entry($key, &$entry)?;)+
            Ok(())
        })
    };
}

impl Json for Report {
    fn write(&self, value: Value<'_, '_>) -> io::Result<()> {
        value.object(|object| {
            object.entry("schema", "memledger.report/1")?;
            tables(self, object)?;
            if !self.by_stack.is_empty() {
                json_stacks::entries(self, object)?;
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
pub(super) fn tables(report: &Report, object: &mut Object<'_, '_>) -> io::Result<()> {
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
    object.entry("untracked", &report.untracked)
}

/// Adds the entries after those of stacks. `stack_of`: the number that a row of
/// [`Report::by_stack`] has in this document.
pub(super) fn blocks(
    report: &Report,
    object: &mut Object<'_, '_>,
    stack_of: impl Fn(usize) -> Option<u64>,
) -> io::Result<()> {
    let has_stacks = !report.by_stack.is_empty();
    let stack_of = |block: &LiveBlock| has_stacks.then(|| block.stack.and_then(&stack_of));
    let largest = report.largest_live.iter();
    let largest = largest.map(|block| Largest { block, stack: stack_of(block) });
    object.entry("largest_live", &List(largest))?;
    report.findings.iter().try_for_each(|found| object.entry("findings", found))
}

impl Json for TraceInfo {
    fn write(&self, value: Value<'_, '_>) -> io::Result<()> {
        object!(value,
            "program" => self.program,
            "pid" => self.pid,
            "parent_pid" => self.parent_pid,
            "duration_ns" => self.duration_ns,
            "time_resolution_ns" => self.time_resolution_ns,
            "events" => self.events,
            "from_process_start" => self.from_process_start,
            "scopes_off" => self.scopes_off,
            "tracker_optimized" => self.tracker_optimized,
            "complete" => self.complete,
            "recording_since_ns" => self.recording_since_ns,
            "initial_live_blocks" => self.initial_live_blocks,
            "memory_recorded" => self.memory_recorded,
            "missed_at_start" => self.missed_at_start,
            "ended" => self.ended,
        )
    }
}

impl Json for TimeSpan {
    fn write(&self, value: Value<'_, '_>) -> io::Result<()> {
        object!(value, "from_ns" => self.from_ns, "to_ns" => self.to_ns)
    }
}

impl Json for Rss {
    fn write(&self, value: Value<'_, '_>) -> io::Result<()> {
        object!(value,
            "most_bytes" => self.most_bytes,
            "limit_bytes" => self.limit_bytes,
            "peak" => self.peak,
            "end_bytes" => self.end_bytes,
            "end" => self.end,
            "allocators" => self.allocators,
        )
    }
}

impl Json for Untracked {
    fn write(&self, value: Value<'_, '_>) -> io::Result<()> {
        object!(value,
            "known" => self.is_known(),
            "beside" => self.is_beside,
            "reasons" => self.reasons,
            "weighed" => self.weighed,
        )
    }
}

impl Json for UntrackedReason {
    fn write(&self, value: Value<'_, '_>) -> io::Result<()> {
        let kind = match self.kind {
            UntrackedKind::Malloc => "malloc",
            UntrackedKind::New => "new",
            UntrackedKind::Allocator => "allocator",
            UntrackedKind::Go => "go",
        };
        object!(value, "kind" => kind, "function" => self.function, "file" => self.file)
    }
}

impl Json for Weighed {
    fn write(&self, value: Value<'_, '_>) -> io::Result<()> {
        object!(value,
            "at_ns" => self.at_ns,
            "rss_bytes" => self.rss_bytes,
            "untracked_bytes" => self.untracked_bytes,
        )
    }
}

impl Json for ResidentMemory {
    fn write(&self, value: Value<'_, '_>) -> io::Result<()> {
        value.object(|object| {
            object.entry("at_ns", &self.at_ns)?;
            object.entry("rss_bytes", &self.rss_bytes())?;
            entries(object, self.parts().into_iter())?;
            if self.live_by_heap.len() > 1 {
                object.entry("live_by_heap", &self.live_by_heap)?;
            }
            object.entry("live_not_resident_bytes", &self.live_not_resident_bytes)?;
            object.entry("tracker_block_bytes", &self.tracker_block_bytes)
        })
    }
}

impl Json for ResidentHeap {
    fn write(&self, value: Value<'_, '_>) -> io::Result<()> {
        object!(value, "id" => self.id, "name" => self.name, "bytes" => self.bytes)
    }
}

impl Json for AllocatorStatistics {
    fn write(&self, value: Value<'_, '_>) -> io::Result<()> {
        let figure = |(name, bytes): &(String, u64)| Figure { name: name.clone(), bytes: *bytes };
        object!(value,
            "allocator" => self.allocator,
            "figures" => List(self.figures.iter().map(figure)),
        )
    }
}

/// A figure of an allocator.
struct Figure {
    name: String,
    bytes: u64,
}

impl Json for Figure {
    fn write(&self, value: Value<'_, '_>) -> io::Result<()> {
        object!(value, "name" => self.name, "bytes" => self.bytes)
    }
}

impl Json for Bookmark {
    fn write(&self, value: Value<'_, '_>) -> io::Result<()> {
        object!(value, "name" => self.name, "at_ns" => self.at_ns)
    }
}

impl Json for Totals {
    fn write(&self, value: Value<'_, '_>) -> io::Result<()> {
        value.object(|object| {
            entries(object, self.first_columns())?;
            object.entry("peak_bytes", &self.peak_bytes)?;
            object.entry("peak_bytes_at_ns", &self.peak_bytes_at_ns)?;
            object.entry("blocks_at_peak", &self.blocks_at_peak)?;
            object.entry("peak_blocks", &self.peak_blocks)?;
            entries(object, self.last_columns())?;
            object.entry("overhead_bytes", &self.overhead_bytes)?;
            object.entry("unnamed_bytes_at_peak", &self.unnamed_bytes_at_peak)?;
            moves(object, self.moved_in, self.moved_out)?;
            Ok(())
        })
    }
}

impl Json for PeakMoment {
    fn write(&self, value: Value<'_, '_>) -> io::Result<()> {
        object!(value,
            "from_ns" => self.from_ns,
            "to_ns" => self.to_ns,
            "after_bookmark" => self.after_bookmark,
            "before_bookmark" => self.before_bookmark,
        )
    }
}

impl Json for Losses {
    fn write(&self, value: Value<'_, '_>) -> io::Result<()> {
        object!(value,
            "lost_events" => (!self.lost_unknown).then_some(self.lost_events),
            "serial_holes" => self.serial_holes,
            "unmatched_frees" => self.unmatched_frees,
            "frees_of_earlier_blocks" => self.frees_of_earlier_blocks,
            "duplicate_allocations" => self.duplicate_allocations,
            "truncated_bytes" => self.truncated_bytes,
            "scope_misuses" => self.scope_misuses,
            "stacks_over_frame_limit" => self.stacks_over_frame_limit,
            "stacks_without_unwind_information" => self.stacks_without_unwind_information,
            "stacks_unreadable" => self.stacks_unreadable,
            "stacks_in_changed_libraries" => self.stacks_in_changed_libraries,
            "stacks_other" => self.stacks_other,
        )
    }
}

impl Json for AfterReport {
    fn write(&self, value: Value<'_, '_>) -> io::Result<()> {
        object!(value,
            "allocations" => self.allocations,
            "frees" => self.frees,
            "allocated_bytes" => self.allocated_bytes,
            "in_flight" => self.in_flight,
        )
    }
}

/// Adds the keys of moved blocks, if any block moved.
pub(super) fn moves(
    object: &mut Object<'_, '_>,
    moved_in: Moves,
    moved_out: Moves,
) -> io::Result<()> {
    if moved_in != Moves::default() || moved_out != Moves::default() {
        object.entry("moved_in_blocks", &moved_in.blocks)?;
        object.entry("moved_in_bytes", &moved_in.bytes)?;
        object.entry("moved_out_blocks", &moved_out.blocks)?;
        object.entry("moved_out_bytes", &moved_out.bytes)?;
    }
    Ok(())
}

/// Adds an entry for each key and figure.
pub(super) fn entries(
    object: &mut Object<'_, '_>,
    mut figures: impl Iterator<Item = (&'static str, u64)>,
) -> io::Result<()> {
    figures.try_for_each(|(key, figure)| object.entry(key, &figure))
}

/// Adds the columns of a row.
pub(super) fn columns(object: &mut Object<'_, '_>, figures: &Figures) -> io::Result<()> {
    entries(object, COLUMNS.iter().map(|column| (column.key, (column.of)(figures))))?;
    moves(object, figures.moved_in, figures.moved_out)
}

impl Json for Figures {
    fn write(&self, value: Value<'_, '_>) -> io::Result<()> {
        value.object(|object| {
            columns(object, self)?;
            Ok(())
        })
    }
}

impl Json for ScopeRow {
    fn write(&self, value: Value<'_, '_>) -> io::Result<()> {
        value.object(|object| {
            object.entry("path", &self.path)?;
            object.entry("entries", &self.entries)?;
            columns(object, &self.figures)?;
            object.entry("inclusive", &self.inclusive)?;
            object.entry("largest_live_bytes", &self.largest_live_bytes)?;
            Ok(())
        })
    }
}

impl Json for GroupRow {
    fn write(&self, value: Value<'_, '_>) -> io::Result<()> {
        value.object(|object| {
            object.entry("group", &self.group)?;
            columns(object, &self.figures)?;
            object.entry("inclusive", &self.inclusive)?;
            Ok(())
        })
    }
}

impl Json for NameRow {
    fn write(&self, value: Value<'_, '_>) -> io::Result<()> {
        value.object(|object| {
            object.entry("group", &self.group)?;
            object.entry("name", &self.name)?;
            columns(object, &self.figures)?;
            Ok(())
        })
    }
}

impl Json for ThreadRow {
    fn write(&self, value: Value<'_, '_>) -> io::Result<()> {
        value.object(|object| {
            object.entry("id", &self.id)?;
            object.entry("name", &self.name)?;
            object.entry("system_id", &self.system_id)?;
            columns(object, &self.figures)?;
            Ok(())
        })
    }
}

impl Json for HeapRow {
    fn write(&self, value: Value<'_, '_>) -> io::Result<()> {
        value.object(|object| {
            object.entry("id", &self.id)?;
            object.entry("name", &self.name)?;
            columns(object, &self.figures)
        })
    }
}

impl Json for SizeRow {
    fn write(&self, value: Value<'_, '_>) -> io::Result<()> {
        value.object(|object| {
            object.entry("min_bytes", &self.min_bytes)?;
            object.entry("max_bytes", &self.max_bytes)?;
            columns(object, &self.figures)?;
            Ok(())
        })
    }
}

impl Json for LlmTagRow {
    fn write(&self, value: Value<'_, '_>) -> io::Result<()> {
        object!(value,
            "tracker" => self.tracker,
            "path" => self.path,
            "samples" => self.samples,
            "first_bytes" => self.first.bytes,
            "first_at_ns" => self.first.at_ns,
            "last_bytes" => self.last.bytes,
            "last_at_ns" => self.last.at_ns,
            "min_bytes" => self.min.bytes,
            "min_at_ns" => self.min.at_ns,
            "peak_bytes" => self.peak.bytes,
            "peak_at_ns" => self.peak.at_ns,
            "series" => self.series,
        )
    }
}

impl Json for LlmTagSeries {
    fn write(&self, value: Value<'_, '_>) -> io::Result<()> {
        object!(value, "at_ns" => OneLine(&self.at_ns), "bytes" => OneLine(&self.bytes))
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
