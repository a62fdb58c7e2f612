//! Stacks for flame graphs: `outermost;inner;innermost bytes`, one line for each stack.
//!
//! The number is the column that the report is sorted by; with [`Sort::Peak`] the row's own peak,
//! which does not add up. In a sampled trace it is the estimate.

use super::format::ReportFormat;
use super::options::{Options, Sort};
use crate::analysis::{CallKind, Calls, Figures, Report, StackRow};
use crate::words::escape;
use std::collections::BTreeMap;
use std::io::{self, Write};

/// As folded stacks.
pub(super) struct Format;

impl ReportFormat for Format {
    fn name(&self) -> &'static str {
        "folded"
    }

    fn about(&self) -> &'static str {
        "A line for each call stack, for flame graphs; of the column that --sort names"
    }

    fn endings(&self) -> &'static [&'static str] {
        &["folded"]
    }

    fn write(&self, report: &Report, options: &Options, out: &mut dyn Write) -> io::Result<()> {
        let calls = Calls::of(report, options.all_frames);
        // NOTE: stacks that differ only in folded calls, or in places within a function, are one line.
        let mut lines = BTreeMap::<String, u64>::new();
        let mut shown = Vec::new();
        for row in &report.by_stack {
            let number = column(row, options.sort);
            if number > 0 {
                calls.shown(row, &mut shown);
                let sum = lines.entry(line(report, row, &calls, &shown)).or_default();
                *sum = sum.saturating_add(number);
            }
        }
        lines.iter().try_for_each(|(line, number)| writeln!(out, "{line} {number}"))
    }
}

fn column(row: &StackRow, sort: Sort) -> u64 {
    let figures: Figures = row.estimates().map_or(row.figures, |estimates| estimates.values());
    match sort {
        Sort::Peak => row.figures.peak_bytes,
        sort => sort.of(&figures),
    }
}

/// The calls of a stack, outermost first. A `;` in a name would look like the end of the name.
fn line(report: &Report, row: &StackRow, calls: &Calls<'_>, shown: &[u32]) -> String {
    let shown = shown.iter().rev().map(|&call| calls.get(call).name(CallKind::Function));
    let label = row.label(report).or(row.missing()).map(Into::into);
    let names = label.into_iter().chain(shown);
    names.map(|name| escape(&name).replace(';', ",")).collect::<Vec<_>>().join(";")
}
