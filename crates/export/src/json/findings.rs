//! Findings in the JSON of a report.

use crate::findings;
use crate::pretty::{Json, Value, objects};
use memledger_document::{
    Finding, FindingKind, FreedBy, FreedIn, GrowsUntil, LiveAt, PeakPart, Place,
};
use std::io;

objects! {
    Finding, of => {
        "kind": of.kind_name(),
        "heading": findings::heading(of),
        "evidence": findings::evidence(of),
        "suggestion": findings::suggestion(of),
        "bytes": of.bytes,
        "calls": of.calls,
        "weight_millionths": of.weight,
        "weight_of": findings::key(of.weight_of),
        "of_sample": of.is_of_sample,
        "place": of.place,
        "figures": of.kind,
    }
    Place, of => {
        "function": of.function,
        "file": of.file,
        "line": of.line,
        "callers": of.callers,
        "path": of.scope,
        "has_inner_scopes": of.has_inner_scopes,
        "group": of.group,
        "name": of.name,
        "thread_id": of.thread.as_ref().map(|(id, _)| *id),
        "thread": of.thread.as_ref().map(|(_, name)| name),
    }
}

/// Adds entries to an object.
macro_rules! entries {
    ($object:ident, $($key:literal: $entry:expr),+ $(,)?) => {{
        $($object.entry($key, $entry)?;)+
        Ok(())
    }};
}

/// The figures under their own names.
impl Json for FindingKind {
    fn write(&self, value: Value<'_, '_>) -> io::Result<()> {
        value.object(|object| match self {
            Self::Grows {
                blocks,
                growths,
                moved,
                copied_bytes,
                largest_bytes,
                reserve_bytes,
                peak_millionths,
            } => entries!(object,
                "blocks": blocks,
                "growths": growths,
                "moved": moved,
                "copied_bytes": copied_bytes,
                "largest_bytes": largest_bytes,
                "reserve_bytes": reserve_bytes,
                "peak_millionths": peak_millionths,
            ),
            Self::Reallocates { reallocations, allocations } => entries!(object,
                "reallocations": reallocations,
                "allocations": allocations,
            ),
            Self::ShortLived { blocks, of, bytes } => entries!(object,
                "blocks": blocks,
                "of": of,
                "bytes": bytes,
            ),
            Self::Shrinks { blocks, bytes_before, bytes_after } => entries!(object,
                "blocks": blocks,
                "bytes_before": bytes_before,
                "bytes_after": bytes_after,
            ),
            Self::LeftBehind { blocks, bytes, freed, mean_age_ns, freed_within_ns } => {
                entries!(object,
                    "blocks": blocks,
                    "bytes": bytes,
                    "freed": freed,
                    "mean_age_ns": mean_age_ns,
                    "freed_within_ns": freed_within_ns,
                )
            }
            Self::OnlyGrows { moments, blocks, until } => {
                object.entry("blocks", blocks)?;
                match until {
                    GrowsUntil::End { youngest_ns, median_ns } => {
                        object.entry("until", "end")?;
                        object.entry("youngest_ns", youngest_ns)?;
                        object.entry("median_ns", median_ns)?;
                    }
                    GrowsUntil::Peak => object.entry("until", "peak")?,
                }
                object.entry("moments", moments)
            }
            Self::HoldsPeak { first, second } => entries!(object,
                "first": first,
                "second": second,
            ),
            Self::StaysAfterPeak { bytes, blocks, live_bytes, peak_bytes, peak_at_ns } => {
                entries!(object,
                    "bytes": bytes,
                    "blocks": blocks,
                    "live_bytes": live_bytes,
                    "peak_bytes": peak_bytes,
                    "peak_at_ns": peak_at_ns,
                )
            }
            Self::KeptByMalloc {
                kept_bytes,
                returnable_bytes,
                resident_bytes,
                live_bytes,
                before_end_ns,
                is_estimate,
                blocks,
                pages,
            } => entries!(object,
                "kept_bytes": kept_bytes,
                "returnable_bytes": returnable_bytes,
                "resident_bytes": resident_bytes,
                "live_bytes": live_bytes,
                "blocks": blocks,
                "pages": pages,
                "before_end_ns": before_end_ns,
                "estimate": is_estimate,
            ),
            Self::OneSize { size, blocks, of, at_peak, overhead_bytes } => entries!(object,
                "size": size,
                "blocks": blocks,
                "of": of,
                "at_peak": at_peak,
                "overhead_bytes": overhead_bytes,
            ),
            Self::RoundsUp { size, class_below, class, blocks, of, at_peak } => entries!(object,
                "size": size,
                "class_below": class_below,
                "class": class,
                "blocks": blocks,
                "of": of,
                "at_peak": at_peak,
            ),
            Self::FreedElsewhere {
                blocks,
                of,
                waiting,
                waiting_bytes,
                median_ns,
                freed_by,
                freed_in,
            } => entries!(object,
                "blocks": blocks,
                "of": of,
                "waiting": waiting,
                "waiting_bytes": waiting_bytes,
                "median_ns": median_ns,
                "freed_by": freed_by,
                "freed_in": freed_in,
            ),
        })
    }
}

objects! {
    PeakPart, of => {
        "name": of.name,
        "file": of.file,
        "line": of.line,
        "bytes": of.bytes,
        "blocks": of.blocks,
    }
    LiveAt, of => {
        "event": of.event,
        "at_ns": of.at_ns,
        "live_bytes": of.live_bytes,
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
