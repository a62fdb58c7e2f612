//! Facts and findings in the JSON of a report.

use crate::findings;
use crate::pretty::{Json, List, Value, objects};
use memledger_document::{
    BlockSet, Caller, Finding, FindingFigure, FreedBy, FreedIn, PeakBy, Place, SetPosition, Trend,
    Unit,
};
use std::io;

objects! {
    Finding, of => {
        "kind": of.kind.key(),
        "heading": findings::heading(of),
        "evidence": findings::evidence(of),
        "suggestion": findings::suggestion(of),
        "weight_millionths": of.weight,
        "weight_of": findings::key(of.weight_of),
        "of_sample": of.is_of_sample,
        "place": of.place,
        "beside": of.beside,
        "figures": of.figures,
        "freed_by": of.freed_by,
        "set": of.set,
    }
    BlockSet, of => {
        "rule": of.rule,
        "positions": of.positions,
        "freed_until": of.freed_until,
        "stacks": of.stacks,
        "scopes": List(of.scopes.iter().map(|&(scope, name)| Named { scope, name })),
    }
    FindingFigure, of => {
        "key": of.key,
        "value": of.value,
        "unit": unit(of.unit),
        "source": of.source.key(),
    }
    Place, of => {
        "function": of.function,
        "file": of.source.file,
        "line": of.source.lines.first(),
        "lines": of.source.lines,
        "callers": of.callers,
        "shares": List(of.shares.iter().map(|(function, millionths)| Share { function, millionths: *millionths })),
        "path": of.scope,
        "has_inner_scopes": of.has_inner_scopes,
        "group": of.group,
        "name": of.name,
        "thread_id": of.thread.as_ref().map(|(id, _)| *id),
        "thread": of.thread.as_ref().map(|(_, name)| name),
    }
    Caller, of => {
        "function": of.function,
        "file": of.source.file,
        "lines": of.source.lines,
    }
    FreedIn, of => {
        "allocated_in": of.allocated_in,
        "freed_in": of.freed_in,
        "blocks": of.blocks,
        "bytes": of.bytes,
    }
    FreedBy, of => {
        "thread_id": of.thread,
        "thread": of.name,
        "blocks": of.blocks,
        "bytes": of.bytes,
        "is_own": of.is_own,
    }
}

/// A function's share of a set.
struct Share<'a> {
    function: &'a String,
    millionths: u64,
}

impl Json for Share<'_> {
    fn write(&self, value: Value<'_, '_>) -> io::Result<()> {
        value.object(|object| {
            object.entry("function", self.function)?;
            object.entry("millionths", &self.millionths)
        })
    }
}

/// Blocks of a scope that have one name: rows of the report.
struct Named {
    scope: usize,
    name: usize,
}

impl Json for Named {
    fn write(&self, value: Value<'_, '_>) -> io::Result<()> {
        value.object(|object| {
            object.entry("scope", &self.scope)?;
            object.entry("name", &self.name)
        })
    }
}

impl Json for SetPosition {
    fn write(&self, value: Value<'_, '_>) -> io::Result<()> {
        value.object(|object| match self {
            Self::Event(event) => object.entry("event", event),
            Self::Time(at_ns) => object.entry("at_ns", at_ns),
        })
    }
}

fn unit(unit: Unit) -> &'static str {
    match unit {
        Unit::Bytes => "bytes",
        Unit::Nanoseconds => "nanoseconds",
        _ => "count",
    }
}

impl Json for PeakBy {
    fn write(&self, value: Value<'_, '_>) -> io::Result<()> {
        value.object(|object| {
            object.entry("evidence", &findings::peak_evidence(self))?;
            object.entry("weight_millionths", &self.weight)?;
            object.entry("bytes", &self.bytes)?;
            object.entry("blocks", &self.blocks)?;
            object.entry("place", &self.place)?;
            object.entry("next", &self.next)?;
            let Some(course) = &self.course else { return Ok(()) };
            object.entry("size", &course.size)?;
            object.entry("since_ns", &course.since_ns)?;
            object.entry("freed", &course.freed)?;
            object.entry("median_lifetime_ns", &course.median_ns)?;
            object.entry("trend", course.trend.key())?;
            match course.trend {
                Trend::Flat => Ok(()),
                Trend::Rising { since_ns, bytes_per_s } => {
                    object.entry("rising_since_ns", &since_ns)?;
                    object.entry("bytes_per_s", &bytes_per_s)
                }
                Trend::RoseUntil(until) => object.entry("rose_until_ns", &until),
                Trend::Falls(bytes) => object.entry("fell_to_bytes", &bytes),
            }
        })
    }
}
