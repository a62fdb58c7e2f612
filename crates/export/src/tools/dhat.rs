//! Heap profiles for DHAT's viewer, `dh_view.html`, which comes with Valgrind.
//!
//! DHAT's *program point* is a stack: functions without folded calls, or scopes and a name (see
//! `stacks.rs`). For each point the file has what was allocated, what was live at the peak and at the
//! end, how long its blocks lived, and the most that was live at once. The last two are not in a report,
//! so the trace is read twice: once for the report, and once with the profile as observer.
//!
//! A reallocation is a block of its own, as in DHAT: `tbk` is allocations and reallocations.

use super::stacks::{NamedFrame, Stacks};
use crate::pretty::{self, Json, OneLine, Value};
use memledger_analysis::{BlockChange, BlockEvent, BlockObserver};
use memledger_document::{BucketRow, Figures, Frames, Report};
use std::io::{self, Write};

/// A heap profile for DHAT's viewer.
///
/// ```
/// use memledger_analysis::{Analyzer, Frames, Position};
/// use memledger_export::tools::dhat::Profile;
/// use memledger_analysis::read::read;
/// use std::fs::File;
///
/// let trace = "../../tests/samples/memledger-small.utrace";
/// let mut analyzer = Analyzer::new().by_bucket();
/// read(File::open(trace)?, &mut analyzer)?;
/// let report = analyzer.report();
/// // Up to the same event, if the trace has grown since.
/// let until = Position::Event(report.trace.events);
/// let mut second = Analyzer::observing(Profile::of(&report, Frames::Folded)).until(until);
/// read(File::open(trace)?, &mut second)?;
/// let mut document = Vec::new();
/// second.observer().write(&report, &mut document)?;
/// assert!(document.starts_with(b"{"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Profile {
    stacks: Stacks,
    /// By stack.
    points: Vec<Point>,
    /// The rows of a sampled trace, which know what a block counts for; else none.
    sampled: Vec<BucketRow>,
}

/// What the observer sees of one point. In a sampled trace, each block counts for all that it stands for.
#[derive(Clone, Debug, Default)]
struct Point {
    live: Sum,
    /// The state with the most live bytes; the first of equal ones.
    most: Sum,
    /// Nanoseconds, times [`ONE`].
    ///
    /// NOTE: the time of an end is added, and that of a beginning is subtracted, so no block needs
    /// the time of its last reallocation.
    lifetimes: i128,
}

/// Blocks and bytes, times [`ONE`].
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    blocks: i128,
    bytes: i128,
}

/// How often a block counts that counts once. Integers are exact: what is added and taken back later
/// leaves 0.
const ONE: i128 = 1 << 16;

fn rounded(sum: i128) -> u64 {
    u64::try_from((sum + ONE / 2) / ONE).unwrap_or(if sum < 0 { 0 } else { u64::MAX })
}

impl Profile {
    /// The points of `report`, which has [`Report::by_bucket`]; what only an observer sees is 0.
    pub fn of(report: &Report, frames: Frames) -> Self {
        let stacks = Stacks::of(report, frames, true);
        let points = vec![Point::default(); stacks.all.len()];
        let is_sampled = report.stack_sampling_bytes.is_some();
        let sampled = if is_sampled { report.by_bucket.clone() } else { Vec::new() };
        Self { stacks, points, sampled }
    }

    /// Writes the profile, with the figures of the report that it was made of.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write(&self, report: &Report, out: &mut dyn Write) -> io::Result<()> {
        pretty::write(&Document { profile: self, report }, out)?;
        writeln!(out)
    }

    /// Counts a block of a bucket as live, or no longer live if `blocks` is negative.
    fn add(&mut self, bucket: u32, blocks: i128, bytes: u64, at_ns: u64) {
        let bucket = bucket as usize;
        let Some(&Some(stack)) = self.stacks.of_bucket.get(bucket) else { return };
        let one = match self.sampled.get(bucket) {
            Some(row) => (row.weight(bytes) * ONE as f64).round() as i128,
            None => ONE,
        };
        let blocks = blocks * one;
        let Point { live, most, lifetimes } = &mut self.points[stack];
        live.blocks += blocks;
        live.bytes += blocks * i128::from(bytes);
        *lifetimes -= blocks * i128::from(at_ns);
        if live.bytes > most.bytes {
            *most = *live;
        }
    }
}

impl BlockObserver for Profile {
    fn observe(&mut self, event: &BlockEvent, change: BlockChange) {
        let &BlockEvent { bucket, bytes, at_ns, .. } = event;
        match change {
            BlockChange::Allocated | BlockChange::Reallocated { .. } | BlockChange::Returned => {
                self.add(bucket, 1, bytes, at_ns);
            }
            BlockChange::Freed { .. } | BlockChange::ReallocBegun | BlockChange::Left => {
                self.add(bucket, -1, bytes, at_ns);
            }
            BlockChange::Moved { from } => {
                self.add(from, -1, bytes, at_ns);
                self.add(bucket, 1, bytes, at_ns);
            }
            BlockChange::Corrected { bytes_before, is_live: true } => {
                self.add(bucket, -1, bytes_before, at_ns);
                self.add(bucket, 1, bytes, at_ns);
            }
            BlockChange::Corrected { is_live: false, .. } | BlockChange::ReallocFailed { .. } => {}
        }
    }
}

struct Document<'a> {
    profile: &'a Profile,
    report: &'a Report,
}

impl Json for Document<'_> {
    fn write(&self, value: Value<'_, '_>) -> io::Result<()> {
        let Self { profile, report } = *self;
        let end_ns = report.trace.duration_ns;
        let points = profile.stacks.all.iter().zip(&profile.points).map(|(stack, point)| {
            OneLine(PointOf { frames: &stack.frames, figures: &stack.figures, point, end_ns })
        });
        // The first frame is that of the viewer's root.
        let names = profile.stacks.frames.iter().map(name);
        let frames: Vec<_> = [String::from("[root]")].into_iter().chain(names).collect();
        // The viewer's unit of its ratio is a million of this one.
        let resolution_us = report.trace.time_resolution_ns / 1000;
        value.object(|object| {
            object.entry("dhatFileVersion", &2_u32)?;
            object.entry("mode", "rust-heap")?;
            object.entry("verb", "Allocated")?;
            object.entry("bklt", &true)?;
            object.entry("bkacc", &false)?;
            object.entry("tu", "µs")?;
            object.entry("Mtu", "s")?;
            // Up to which average its blocks make a point short-lived.
            object.entry("tuth", &resolution_us.max(10))?;
            object.entry("cmd", &command(report))?;
            object.entry("pid", &report.trace.pid.unwrap_or(0))?;
            object.entry("tg", &(report.totals.peak_bytes_at_ns / 1000))?;
            // The viewer divides by it.
            object.entry("te", &(end_ns / 1000).max(1))?;
            object.entry("pps", &points.collect::<Vec<_>>())?;
            object.entry("ftbl", &frames)
        })
    }
}

/// The program, and what is to be known of the figures.
fn command(report: &Report) -> String {
    let mut text = report.trace.program.clone().unwrap_or_else(|| "an unnamed program".to_owned());
    if !report.trace.complete {
        text.push_str(" (incomplete trace)");
    }
    if let Some(mean) = report.stack_sampling_bytes {
        text.push_str(&format!(" (estimated from a sample of one in {mean} bytes)"));
    }
    text
}

fn name(frame: &NamedFrame) -> String {
    match &frame.source {
        Some((file, line)) => format!("{} ({file}:{line})", frame.name),
        None => frame.name.clone(),
    }
}

struct PointOf<'a> {
    frames: &'a [u32],
    figures: &'a Figures,
    point: &'a Point,
    end_ns: u64,
}

impl Json for PointOf<'_> {
    fn write(&self, value: Value<'_, '_>) -> io::Result<()> {
        let Self { frames, figures, point, end_ns } = *self;
        let lifetimes = point.lifetimes + point.live.blocks * i128::from(end_ns);
        // NOTE: estimates are rounded, so that of the most may be one less than another.
        let most_bytes = figures.live_bytes.max(figures.live_bytes_at_peak);
        let most_blocks = if point.most.bytes > 0 { rounded(point.most.blocks) } else { 0 };
        // Innermost first; 0 is the root.
        let frames: Vec<_> = frames.iter().rev().map(|&frame| frame + 1).collect();
        value.object(|object| {
            object.entry("tb", &figures.allocated_bytes)?;
            object.entry("tbk", &(figures.allocations + figures.reallocations))?;
            object.entry("tl", &(rounded(lifetimes) / 1000))?;
            object.entry("mb", &rounded(point.most.bytes).max(most_bytes))?;
            object.entry("mbk", &most_blocks)?;
            object.entry("gb", &figures.live_bytes_at_peak)?;
            object.entry("gbk", &figures.live_blocks_at_peak)?;
            object.entry("eb", &figures.live_bytes)?;
            object.entry("ebk", &figures.live_blocks)?;
            object.entry("fs", &frames)
        })
    }
}
