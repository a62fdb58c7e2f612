//! The answer of a query as text: what was asked, what was found, and a table of it.

use super::column::Column;
use super::screen::{Lines, alarms};
use super::sections::{block_table, one};
use super::style::Style;
use super::units::{bytes, count, counted, duration};
use crate::analysis::{Answer, Found, Reached, Rule, column};
use crate::dump::options::{By, Options, Sort};
use crate::words::escape;
use std::io::{self, Write};

/// The columns of rows; those of [`Found::of`].
const FOUND: &[Column] = &[
    Column::Named(&column::live_bytes_at_peak, "bytes"),
    Column::Share,
    Column::Named(&column::allocations, "blocks"),
    Column::Mean,
];
/// The columns of what has grown and declined.
const CHANGED: &[Column] = &[
    Column::Named(&column::live_bytes_at_peak, "grown"),
    Column::Named(&column::allocated_bytes, "declined"),
    Column::Change,
    Column::Named(&column::allocations, "blocks grown"),
    Column::Named(&column::frees, "declined"),
];

pub(in crate::dump) fn write(
    answer: &Answer,
    asked: &[String],
    options: &Options,
    by: By,
    out: &mut dyn Write,
) -> io::Result<()> {
    let style = Style { color: options.color };
    let report = answer.report();
    let rule = answer.rule;
    let title = format!("{}: blocks {}", rule.name(), rule.about());
    let title = if rule == Rule::GrownAndDeclined {
        format!("{}: what has grown between A and B, and what has declined", rule.name())
    } else {
        title
    };
    for line in super::table::wrapped(&title, options.width, options.width) {
        writeln!(out, "{}", style.bold(&line))?;
    }
    let mut lines = Lines { width: options.width, out };
    alarms(report, style, &mut lines)?;
    let asked = asked.iter().map(String::as_str).chain(std::iter::repeat("end"));
    for ((name, asked), at) in ["A", "B", "C", "D"].iter().zip(asked).zip(&answer.positions) {
        lines.write(name, &position(asked, at))?;
    }
    let Found { blocks, bytes: size, declined_blocks, declined_bytes, .. } = answer.total;
    let found = |blocks, size| match blocks {
        0 => "nothing".to_owned(),
        _ => format!("{} in {}", bytes(size), counted(blocks, "block", "blocks")),
    };
    if rule == Rule::GrownAndDeclined {
        lines.write("grown", &found(blocks, size))?;
        lines.write("declined", &found(declined_blocks, declined_bytes))?;
    } else {
        lines.write("found", &found(blocks, size))?;
    }
    if let Some(mean) = report.stack_sampling_bytes.filter(|_| by.is_of_calls()) {
        let text = format!(
            "of a sample of blocks, one in {} on average: the rows have what is in the sample, and \
             the others count as (not in the sample). What was found is exact",
            bytes(mean)
        );
        lines.write("stacks", &text)?;
    }
    let options = Options {
        by: Some(by),
        columns: Some(if rule == Rule::GrownAndDeclined { CHANGED } else { FOUND }),
        sort: if options.sort == Sort::Count { Sort::Count } else { Sort::AtPeak },
        ..options.clone()
    };
    let table = one(report, &options, by);
    if !table.rows.is_empty() {
        table.write(style, options.width, out)?;
    }
    if answer.blocks.is_empty() {
        return Ok(());
    }
    block_table(answer, &options).write(style, options.width, out)
}

/// A position as it was asked for, and where it is.
fn position(asked: &str, at: &Reached) -> String {
    let (time, event) = (duration(at.at_ns), count(at.event));
    format!("{}: at {time}, after event {event}", escape(asked))
}
