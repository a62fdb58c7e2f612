//! Stacks for <https://www.speedscope.app>, in its own format, whose schema is
//! <https://www.speedscope.app/file-format-schema.json>.
//!
//! One file has four profiles, each with a sample for every stack: bytes live at the peak, bytes live
//! at the end, bytes allocated, and allocations. The weights of a profile sum to the total of the
//! report. The profile shown first is that of the column that the report is sorted by.

use super::stacks::{NamedFrame, Stacks};
use crate::ReportFormat;
use crate::format::Sealed;
use crate::pretty::{self, Json, OneLine, Value};
use crate::text::{Options, Sort};
use memledger_document::Report;
use std::io::{self, Write};

/// For speedscope.
pub(super) struct Format;

impl Sealed for Format {}
impl ReportFormat for Format {
    fn name(&self) -> &'static str {
        "speedscope"
    }

    fn about(&self) -> &'static str {
        "Call stacks for www.speedscope.app: live at the peak, live at the end, allocated, counted"
    }

    fn endings(&self) -> &'static [&'static str] {
        &["speedscope.json"]
    }

    fn needs_buckets(&self) -> bool {
        true
    }

    fn write(&self, report: &Report, options: &Options, out: &mut dyn Write) -> io::Result<()> {
        let stacks = Stacks::of(report, options.frames, true);
        pretty::write(&Document { report, options, stacks: &stacks }, out)?;
        writeln!(out)
    }
}

/// The profiles: column, name, unit.
const PROFILES: [(Sort, &str, &str); 4] = [
    (Sort::AtPeak, "bytes live at the peak", "bytes"),
    (Sort::Live, "bytes live at the end", "bytes"),
    (Sort::Allocated, "bytes allocated", "bytes"),
    (Sort::Count, "allocations", "none"),
];

struct Document<'a> {
    report: &'a Report,
    options: &'a Options,
    stacks: &'a Stacks,
}

impl Json for Document<'_> {
    fn write(&self, value: Value<'_, '_>) -> io::Result<()> {
        let Self { report, options, stacks } = *self;
        let profile = |(column, name, unit)| Profile { report, stacks, column, name, unit };
        let active = PROFILES.iter().position(|&(column, ..)| column == options.sort).unwrap_or(0);
        value.object(|object| {
            object.entry("$schema", "https://www.speedscope.app/file-format-schema.json")?;
            object.entry("name", &title(report))?;
            object.entry("exporter", concat!("memledger ", env!("CARGO_PKG_VERSION")))?;
            object.entry("activeProfileIndex", &(active as u64))?;
            object.entry("shared", &Shared(&stacks.frames))?;
            object.entry("profiles", &PROFILES.map(profile).into_iter().collect::<Vec<_>>())
        })
    }
}

/// The program, and whether its figures are complete.
fn title(report: &Report) -> String {
    let mut title = report.trace.program.clone().unwrap_or_else(|| "an unnamed program".to_owned());
    if let Some(pid) = report.trace.pid {
        title.push_str(&format!(" (process {pid})"));
    }
    if !report.trace.complete {
        title.push_str(", incomplete");
    }
    title
}

struct Shared<'a>(&'a [NamedFrame]);

impl Json for Shared<'_> {
    fn write(&self, value: Value<'_, '_>) -> io::Result<()> {
        let frames: Vec<_> = self.0.iter().map(OneLine).collect();
        value.object(|object| object.entry("frames", &frames))
    }
}

impl Json for NamedFrame {
    fn write(&self, value: Value<'_, '_>) -> io::Result<()> {
        value.object(|object| {
            object.entry("name", &self.name)?;
            let Some((file, line)) = &self.source else { return Ok(()) };
            object.entry("file", file)?;
            object.entry("line", line)
        })
    }
}

struct Profile<'a> {
    report: &'a Report,
    stacks: &'a Stacks,
    column: Sort,
    name: &'static str,
    unit: &'static str,
}

impl Json for Profile<'_> {
    fn write(&self, value: Value<'_, '_>) -> io::Result<()> {
        let weights = self.stacks.all.iter().map(|stack| self.column.of(&stack.figures));
        let weights: Vec<_> = weights.collect();
        let stacks = self.stacks.all.iter().zip(&weights).filter(|&(_, &weight)| weight > 0);
        let samples: Vec<_> = stacks.map(|(stack, _)| OneLine(&stack.frames)).collect();
        let weights: Vec<_> = weights.into_iter().filter(|&weight| weight > 0).collect();
        let total = weights.iter().fold(0_u64, |sum, &weight| sum.wrapping_add(weight));
        let estimated = match self.report.stack_sampling_bytes {
            Some(mean) => format!("{}, estimated from one in {mean} bytes", self.name),
            None => self.name.to_owned(),
        };
        value.object(|object| {
            object.entry("type", "sampled")?;
            object.entry("name", &estimated)?;
            object.entry("unit", self.unit)?;
            object.entry("startValue", &0_u64)?;
            object.entry("endValue", &total)?;
            object.entry("samples", &samples)?;
            object.entry("weights", &OneLine(weights))
        })
    }
}
