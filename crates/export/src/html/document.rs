//! The document that the page shows.

use super::notes::notes;
use super::tree::{InternedFrame, Tree, number};
use crate::buckets::figures_of;
use crate::json;
use crate::options::Options;
use crate::pretty::{Json, Object, Value, objects};
use crate::text::page::{NONE_FOUND, Resident, resident};
use base64::prelude::BASE64_STANDARD;
use base64::write::EncoderWriter;
use memledger_document::{BucketRow, FIGURES, Figures, Report, Rss, ThreadSeries, TimePoint};
use std::io::{self, BufWriter, Write};

/// Bytes that are coded at once.
const PIECE: usize = 3 << 10;

pub(super) struct Document<'a> {
    report: &'a Report,
    options: &'a Options,
    /// What has changed since another report, and that one.
    diff: Option<(Box<dyn Json + 'a>, &'a Report)>,
    tree: Tree,
}

impl<'a> Document<'a> {
    pub(super) fn new(
        report: &'a Report,
        options: &'a Options,
        diff: Option<(Box<dyn Json + 'a>, &'a Report)>,
    ) -> Self {
        Self { report, options, diff, tree: Tree::of(report) }
    }
}

impl Json for Document<'_> {
    fn write(&self, value: Value<'_, '_>) -> io::Result<()> {
        let Self { report, options, diff, tree } = self;
        let (diff, old) = diff.as_ref().map(|(diff, old)| (diff, *old)).unzip();
        value.object(|object| {
            object.entry("schema", "memledger.page/1")?;
            object.entry("moment", &options.moment)?;
            object.entry("notes", &notes(report))?;
            json::tables(report, object)?;
            object.entry("stack_sampling_bytes", &report.stack_sampling_bytes)?;
            json::blocks(report, object, |row| tree.node(row).map(u64::from))?;
            if report.findings.as_ref().is_some_and(Vec::is_empty) {
                object.entry("none_found", NONE_FOUND)?;
            }
            if let Some(resident) = resident(report, options) {
                object.entry("resident", &resident)?;
            }
            if !report.llm_tags.is_empty() {
                object.entry("llm_tags", &report.llm_tags)?;
            }
            object.entry("strings", &tree.strings.all)?;
            object.entry("short", &Short(tree.short()))?;
            object.entry("frames", &Frames(tree))?;
            object.entry("stacks", &Stacks(tree))?;
            object.entry("buckets", &Buckets { report, tree })?;
            object.entry("timeline", &Timeline(report))?;
            object.entry("old_timeline", &old.map(Timeline))?;
            if let Some(rss) = report.rss.as_ref().filter(|rss| !rss.timeline.is_empty()) {
                object.entry("rss_timeline", &RssTimeline(rss))?;
            }
            object.entry("diff", &diff)
        })
    }
}

objects! {
    Resident, of => {
        "all": of.all,
        "when": of.when,
        "parts": of.parts,
        "rest": of.rest,
    }
}

struct Short(Vec<(u32, String)>);

impl Json for Short {
    fn write(&self, value: Value<'_, '_>) -> io::Result<()> {
        let (strings, texts): (Vec<_>, Vec<_>) = self.0.iter().cloned().unzip();
        value.object(|object| {
            object.entry("string", &Numbers(strings.iter().copied().map(u64::from)))?;
            object.entry("text", &texts)
        })
    }
}

struct Frames<'a>(&'a Tree);

impl Json for Frames<'_> {
    fn write(&self, value: Value<'_, '_>) -> io::Result<()> {
        let of = |part: fn(&InternedFrame) -> u32| {
            Numbers(self.0.frames.all.iter().map(part).map(u64::from))
        };
        value.object(|object| {
            object.entry("name", &of(|frame| frame.name))?;
            object.entry("file", &of(|frame| frame.file))?;
            object.entry("line", &of(|frame| frame.line))?;
            object.entry("crate", &of(|frame| frame.owner))?;
            object.entry("folded", &of(|frame| frame.is_folded.into()))
        })
    }
}

struct Stacks<'a>(&'a Tree);

objects! {
    Stacks<'_>, of => {
        "parent": Numbers(of.0.parents()),
        "frame": Numbers(of.0.frames()),
    }
}

struct Buckets<'a> {
    report: &'a Report,
    tree: &'a Tree,
}

impl Json for Buckets<'_> {
    fn write(&self, value: Value<'_, '_>) -> io::Result<()> {
        let Self { report, tree } = *self;
        let rows = report.by_bucket.iter();
        let stack = |row: &BucketRow| number(row.stack.and_then(|stack| tree.node(stack)));
        let estimates = report.stack_sampling_bytes.map(|_| {
            let estimate = |row| figures_of(report, row).unwrap_or_default();
            rows.clone().map(estimate).collect::<Vec<_>>()
        });
        value.object(|object| {
            object.entry("scope", &Numbers(rows.clone().map(|row| row.scope as u64)))?;
            object.entry("name", &Numbers(rows.clone().map(|row| row.name as u64)))?;
            object.entry("thread", &Numbers(rows.clone().map(|row| row.thread as u64)))?;
            object.entry("stack", &Numbers(rows.clone().map(stack)))?;
            match &estimates {
                Some(estimates) => columns(object, estimates.iter()),
                None => columns(object, rows.map(|row| &row.figures)),
            }
        })
    }
}

/// Adds each column of these figures.
fn columns<'a>(
    object: &mut Object<'_, '_>,
    rows: impl Iterator<Item = &'a Figures> + Clone,
) -> io::Result<()> {
    // The peaks of buckets are not kept.
    let mut summed = FIGURES.iter().filter(|column| column.adds_up());
    summed.try_for_each(|column| {
        object.entry(column.key, &Numbers(rows.clone().map(|row| column.number(row))))
    })
}

struct Timeline<'a>(&'a Report);

/// A figure of a point.
type Figure = fn(&TimePoint) -> u64;

impl Json for Timeline<'_> {
    fn write(&self, value: Value<'_, '_>) -> io::Result<()> {
        let series = &self.0.timeline;
        let columns: [(&str, Figure); 9] = [
            ("at_ns", |point| point.at_ns),
            ("events", |point| point.events),
            ("live_bytes", |point| point.live_bytes),
            ("live_blocks", |point| point.live_blocks),
            ("peak_bytes", |point| point.peak_bytes),
            ("allocated_bytes", |point| point.allocated_bytes),
            ("allocations", |point| point.allocations),
            ("frees", |point| point.frees),
            ("reallocations", |point| point.reallocations),
        ];
        value.object(|object| {
            for (key, of) in columns {
                object.entry(key, &Numbers(series.points.iter().map(of)))?;
            }
            object.entry("threads", &series.threads)
        })
    }
}

struct RssTimeline<'a>(&'a Rss);

impl Json for RssTimeline<'_> {
    fn write(&self, value: Value<'_, '_>) -> io::Result<()> {
        let points = self.0.timeline.iter();
        value.object(|object| {
            object.entry("at_ns", &Numbers(points.clone().map(|point| point.at_ns)))?;
            object.entry("rss_bytes", &Numbers(points.map(|point| point.bytes)))
        })
    }
}

objects! {
    ThreadSeries, of => {
        "thread": of.thread.map_or(-1, |thread| thread as i64),
        "live_bytes": Numbers(of.live_bytes.iter().copied()),
        "allocated_bytes": Numbers(of.allocated_bytes.iter().copied()),
    }
}

/// A column of numbers modulo 2^64: a string of base64. Coded are the differences of neighbours, the first
/// from 0, as zigzag (0, -1, 1, -2 ...) and LEB128 (7 bits a byte, the lowest first).
struct Numbers<I>(I);

impl<I: Iterator<Item = u64> + Clone> Json for Numbers<I> {
    fn write(&self, value: Value<'_, '_>) -> io::Result<()> {
        value.plain_text(|out| {
            // PERF: the encoder is slow on single bytes.
            let base64 = EncoderWriter::new(out, &BASE64_STANDARD);
            let mut bytes_of = BufWriter::with_capacity(PIECE, base64);
            let mut last = 0_u64;
            for number in self.0.clone() {
                let difference = number.wrapping_sub(last) as i64;
                last = number;
                let mut rest = (difference << 1 ^ difference >> 63) as u64;
                let (mut bytes, mut count) = ([0; 10], 0);
                while rest >= 0x80 {
                    bytes[count] = rest as u8 | 0x80;
                    (rest, count) = (rest >> 7, count + 1);
                }
                bytes[count] = rest as u8;
                bytes_of.write_all(&bytes[..=count])?;
            }
            let coded = bytes_of.into_inner().map_err(io::IntoInnerError::into_error);
            coded?.finish().map(drop)
        })
    }
}
