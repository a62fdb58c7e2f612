//! Findings in the JSON of a report.

use super::pretty::{Json, Object, Value};
use crate::analysis::{
    Finding, FindingKind, FreedBy, FreedIn, GrowsUntil, LiveAt, PeakPart, Place,
};
use std::io;

impl Json for Finding {
    fn write(&self, value: Value<'_, '_>) -> io::Result<()> {
        value.object(|object| {
            object.entry("kind", self.kind_name())?;
            object.entry("heading", self.heading())?;
            object.entry("evidence", &self.evidence())?;
            object.entry("suggestion", &self.suggestion())?;
            object.entry("bytes", &self.bytes)?;
            object.entry("calls", &self.calls)?;
            object.entry("weight_millionths", &self.weight)?;
            object.entry("weight_of", self.weight_of.key())?;
            object.entry("of_sample", &self.is_of_sample)?;
            object.entry("place", &self.place)?;
            object.entry("figures", &self.kind)
        })
    }
}

impl Json for Place {
    fn write(&self, value: Value<'_, '_>) -> io::Result<()> {
        value.object(|object| {
            object.entry("function", &self.function)?;
            object.entry("file", &self.file)?;
            object.entry("line", &self.line)?;
            object.entry("callers", &self.callers)?;
            object.entry("path", &self.scope)?;
            object.entry("has_inner_scopes", &self.has_inner_scopes)?;
            object.entry("group", &self.group)?;
            object.entry("name", &self.name)?;
            object.entry("thread_id", &self.thread.as_ref().map(|(id, _)| *id))?;
            object.entry("thread", &self.thread.as_ref().map(|(_, name)| name))
        })
    }
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
            } => numbers(
                object,
                &[
                    ("blocks", *blocks),
                    ("growths", *growths),
                    ("moved", *moved),
                    ("copied_bytes", *copied_bytes),
                    ("largest_bytes", *largest_bytes),
                    ("reserve_bytes", *reserve_bytes),
                    ("peak_millionths", *peak_millionths),
                ],
            ),
            Self::Reallocates { reallocations, allocations } => {
                numbers(object, &[("reallocations", *reallocations), ("allocations", *allocations)])
            }
            Self::ShortLived { blocks, of, bytes } => {
                numbers(object, &[("blocks", *blocks), ("of", *of)])?;
                object.entry("bytes", bytes)
            }
            Self::Shrinks { blocks, bytes_before, bytes_after } => numbers(
                object,
                &[
                    ("blocks", *blocks),
                    ("bytes_before", *bytes_before),
                    ("bytes_after", *bytes_after),
                ],
            ),
            Self::LeftBehind { blocks, bytes, freed, mean_age_ns, freed_within_ns } => numbers(
                object,
                &[
                    ("blocks", *blocks),
                    ("bytes", *bytes),
                    ("freed", *freed),
                    ("mean_age_ns", *mean_age_ns),
                    ("freed_within_ns", *freed_within_ns),
                ],
            ),
            Self::OnlyGrows { moments, blocks, until } => {
                numbers(object, &[("blocks", *blocks)])?;
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
            Self::HoldsPeak { first, second } => {
                object.entry("first", first)?;
                object.entry("second", second)
            }
            Self::StaysAfterPeak { bytes, blocks, live_bytes, peak_bytes, peak_at_ns } => numbers(
                object,
                &[
                    ("bytes", *bytes),
                    ("blocks", *blocks),
                    ("live_bytes", *live_bytes),
                    ("peak_bytes", *peak_bytes),
                    ("peak_at_ns", *peak_at_ns),
                ],
            ),
            Self::KeptByMalloc {
                kept_bytes,
                returnable_bytes,
                resident_bytes,
                live_bytes,
                before_end_ns,
                is_estimate,
                blocks,
                pages,
            } => {
                let figures = [
                    ("kept_bytes", *kept_bytes),
                    ("returnable_bytes", *returnable_bytes),
                    ("resident_bytes", *resident_bytes),
                    ("live_bytes", *live_bytes),
                    ("blocks", *blocks),
                    ("pages", *pages),
                ];
                numbers(object, &figures)?;
                object.entry("before_end_ns", before_end_ns)?;
                object.entry("estimate", is_estimate)
            }
            Self::OneSize { size, blocks, of, at_peak, overhead_bytes } => numbers(
                object,
                &[
                    ("size", *size),
                    ("blocks", *blocks),
                    ("of", *of),
                    ("at_peak", *at_peak),
                    ("overhead_bytes", *overhead_bytes),
                ],
            ),
            Self::RoundsUp { size, class_below, class, blocks, of, at_peak } => numbers(
                object,
                &[
                    ("size", *size),
                    ("class_below", *class_below),
                    ("class", *class),
                    ("blocks", *blocks),
                    ("of", *of),
                    ("at_peak", *at_peak),
                ],
            ),
            Self::FreedElsewhere {
                blocks,
                of,
                waiting,
                waiting_bytes,
                median_ns,
                freed_by,
                freed_in,
            } => {
                numbers(
                    object,
                    &[
                        ("blocks", *blocks),
                        ("of", *of),
                        ("waiting", *waiting),
                        ("waiting_bytes", *waiting_bytes),
                        ("median_ns", *median_ns),
                    ],
                )?;
                object.entry("freed_by", freed_by)?;
                object.entry("freed_in", freed_in)
            }
        })
    }
}

fn numbers(object: &mut Object<'_, '_>, entries: &[(&str, u64)]) -> io::Result<()> {
    entries.iter().try_for_each(|(key, number)| object.entry(key, number))
}

impl Json for PeakPart {
    fn write(&self, value: Value<'_, '_>) -> io::Result<()> {
        value.object(|object| {
            object.entry("name", &self.name)?;
            object.entry("file", &self.file)?;
            object.entry("line", &self.line)?;
            object.entry("bytes", &self.bytes)?;
            object.entry("blocks", &self.blocks)
        })
    }
}

impl Json for LiveAt {
    fn write(&self, value: Value<'_, '_>) -> io::Result<()> {
        value.object(|object| {
            object.entry("event", &self.event)?;
            object.entry("at_ns", &self.at_ns)?;
            object.entry("live_bytes", &self.live_bytes)
        })
    }
}

impl Json for FreedIn {
    fn write(&self, value: Value<'_, '_>) -> io::Result<()> {
        value.object(|object| {
            object.entry("allocated_in", &self.allocated_in)?;
            object.entry("freed_in", &self.freed_in)?;
            object.entry("blocks", &self.blocks)?;
            object.entry("bytes", &self.bytes)
        })
    }
}

impl Json for FreedBy {
    fn write(&self, value: Value<'_, '_>) -> io::Result<()> {
        value.object(|object| {
            object.entry("thread_id", &self.thread)?;
            object.entry("thread", &self.name)?;
            object.entry("blocks", &self.blocks)?;
            object.entry("bytes", &self.bytes)?;
            object.entry("is_own", &self.is_own)
        })
    }
}
