//! Stacks for flame graphs: `outermost;inner;innermost bytes`, one line for each stack.
//!
//! The number is the column that the report is sorted by; a merged stack has no peak of its own, so
//! [`Sort::Peak`] is that of [`Sort::AtPeak`]. In a sampled trace it is the estimate.

use super::stacks::Stacks;
use crate::ReportFormat;
use crate::format::Sealed;
use crate::text::Options;
#[cfg(doc)]
use crate::text::Sort;
use memledger_document::Report;
use memledger_format::words::escape;
use std::io::{self, Write};

/// As folded stacks.
pub(super) struct Format;

impl Sealed for Format {}
impl ReportFormat for Format {
    fn name(&self) -> &'static str {
        "folded"
    }

    fn about(&self) -> &'static str {
        "Call stacks for flame graphs, one per line, with the column of --sort"
    }

    fn endings(&self) -> &'static [&'static str] {
        &["folded"]
    }

    fn needs_buckets(&self) -> bool {
        true
    }

    fn write(&self, report: &Report, options: &Options, out: &mut dyn Write) -> io::Result<()> {
        let stacks = Stacks::of(report, options.frames, false);
        // A `;` in a name would look like the end of the name.
        let names = stacks.frames.iter().map(|frame| escape(&frame.name).replace(';', ","));
        let names: Vec<_> = names.collect();
        let lines = stacks.all.iter().filter_map(|stack| {
            let number = Some(options.sort.of_sum(&stack.figures)).filter(|&number| number > 0)?;
            let frames = stack.frames.iter().map(|&frame| &*names[frame as usize]);
            Some((frames.collect::<Vec<_>>().join(";"), number))
        });
        let mut lines: Vec<_> = lines.collect();
        lines.sort_unstable();
        lines.iter().try_for_each(|(line, number)| writeln!(out, "{line} {number}"))
    }
}
