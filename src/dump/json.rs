//! The report as JSON, schema `memledger.report/1`.
//!
//! The order of keys is part of the format, so that two reports can be compared as text. Keys
//! may be added; none is renamed or dropped within `/1`.

use super::pretty;
use crate::analysis::{
    AfterReport, Figures, GroupRow, LiveBlock, Losses, Moves, NameRow, Report, ScopeRow, SizeRow,
    ThreadRow, Totals, TraceInfo,
};
use serde::ser::{Serialize, SerializeMap, Serializer};
use std::io::{self, Write};

/// Writes `report` as one JSON document and a line feed.
pub fn write(report: &Report, out: &mut impl Write) -> io::Result<()> {
    pretty::write(report, out)?;
    out.write_all(b"\n")
}

/// A map with the given entries: `serializer, "key" => value, ...`.
macro_rules! map {
    ($serializer:expr, $($key:literal => $value:expr),+ $(,)?) => {{
        let mut map = $serializer.serialize_map(None)?;
        $(map.serialize_entry($key, &$value)?;)+
        map.end()
    }};
}

impl Serialize for Report {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        map!(serializer,
            "schema" => "memledger.report/1",
            "trace" => self.trace,
            "totals" => self.totals,
            "losses" => self.losses,
            "after_report" => self.after_report,
            "by_scope" => self.by_scope,
            "by_group" => self.by_group,
            "by_name" => self.by_name,
            "by_thread" => self.by_thread,
            "by_size" => self.by_size,
            "largest_live" => self.largest_live,
        )
    }
}

impl Serialize for TraceInfo {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        map!(serializer,
            "program" => self.program,
            "pid" => self.pid,
            "duration_ns" => self.duration_ns,
            "time_resolution_ns" => self.time_resolution_ns,
            "events" => self.events,
            "from_process_start" => self.from_process_start,
            "complete" => self.complete,
        )
    }
}

impl Serialize for Totals {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("allocations", &self.allocations)?;
        map.serialize_entry("frees", &self.frees)?;
        map.serialize_entry("reallocations", &self.reallocations)?;
        map.serialize_entry("allocated_bytes", &self.allocated_bytes)?;
        map.serialize_entry("live_blocks", &self.live_blocks)?;
        map.serialize_entry("live_bytes", &self.live_bytes)?;
        map.serialize_entry("peak_bytes", &self.peak_bytes)?;
        map.serialize_entry("peak_bytes_at_ns", &self.peak_bytes_at_ns)?;
        map.serialize_entry("blocks_at_peak", &self.blocks_at_peak)?;
        map.serialize_entry("peak_blocks", &self.peak_blocks)?;
        map.serialize_entry("short_lived", &self.short_lived)?;
        map.serialize_entry("overhead_bytes", &self.overhead_bytes)?;
        moves(&mut map, self.moved_in, self.moved_out)?;
        map.end()
    }
}

impl Serialize for Losses {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        map!(serializer,
            "lost_events" => self.lost_events,
            "serial_holes" => self.serial_holes,
            "unmatched_frees" => self.unmatched_frees,
            "frees_of_earlier_blocks" => self.frees_of_earlier_blocks,
            "duplicate_allocations" => self.duplicate_allocations,
            "truncated_bytes" => self.truncated_bytes,
            "scope_misuses" => self.scope_misuses,
        )
    }
}

impl Serialize for AfterReport {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        map!(serializer,
            "allocations" => self.allocations,
            "frees" => self.frees,
            "allocated_bytes" => self.allocated_bytes,
        )
    }
}

/// The keys of moved blocks, where any moved.
fn moves<M: SerializeMap>(map: &mut M, moved_in: Moves, moved_out: Moves) -> Result<(), M::Error> {
    if moved_in != Moves::default() || moved_out != Moves::default() {
        map.serialize_entry("moved_in_blocks", &moved_in.blocks)?;
        map.serialize_entry("moved_in_bytes", &moved_in.bytes)?;
        map.serialize_entry("moved_out_blocks", &moved_out.blocks)?;
        map.serialize_entry("moved_out_bytes", &moved_out.bytes)?;
    }
    Ok(())
}

/// The columns of a row.
fn columns<M: SerializeMap>(map: &mut M, figures: &Figures) -> Result<(), M::Error> {
    map.serialize_entry("allocations", &figures.allocations)?;
    map.serialize_entry("frees", &figures.frees)?;
    map.serialize_entry("reallocations", &figures.reallocations)?;
    map.serialize_entry("allocated_bytes", &figures.allocated_bytes)?;
    map.serialize_entry("live_blocks", &figures.live_blocks)?;
    map.serialize_entry("live_bytes", &figures.live_bytes)?;
    map.serialize_entry("peak_bytes", &figures.peak_bytes)?;
    map.serialize_entry("live_bytes_at_peak", &figures.live_bytes_at_peak)?;
    map.serialize_entry("live_blocks_at_peak", &figures.live_blocks_at_peak)?;
    map.serialize_entry("short_lived", &figures.short_lived)?;
    moves(map, figures.moved_in, figures.moved_out)
}

impl Serialize for Figures {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        columns(&mut map, self)?;
        map.end()
    }
}

impl Serialize for ScopeRow {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("path", &self.path)?;
        columns(&mut map, &self.figures)?;
        map.serialize_entry("inclusive", &self.inclusive)?;
        map.end()
    }
}

impl Serialize for GroupRow {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("group", &self.group)?;
        columns(&mut map, &self.figures)?;
        map.serialize_entry("inclusive", &self.inclusive)?;
        map.end()
    }
}

impl Serialize for NameRow {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("group", &self.group)?;
        map.serialize_entry("name", &self.name)?;
        columns(&mut map, &self.figures)?;
        map.end()
    }
}

impl Serialize for ThreadRow {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("id", &self.id)?;
        map.serialize_entry("name", &self.name)?;
        map.serialize_entry("system_id", &self.system_id)?;
        columns(&mut map, &self.figures)?;
        map.end()
    }
}

impl Serialize for SizeRow {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("min_bytes", &self.min_bytes)?;
        map.serialize_entry("max_bytes", &self.max_bytes)?;
        columns(&mut map, &self.figures)?;
        map.end()
    }
}

impl Serialize for LiveBlock {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        map!(serializer,
            "address" => format_args!("{:#x}", self.address),
            "bytes" => self.bytes,
            "thread" => self.thread,
            "group" => self.group,
            "name" => self.name,
            "path" => self.path,
            "allocated_at_ns" => self.allocated_at_ns,
        )
    }
}
