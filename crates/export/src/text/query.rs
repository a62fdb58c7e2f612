//! The answer of a query as text: what was asked, what was found, and a table of it.

use super::screen::{Lines, alarms};
use super::sections::{block_table, one};
use super::style::Style;
use super::table::{Row, Table};
use crate::column::{Cells, Column};
use crate::options::{By, Options, Sort};
use crate::units::{bytes, count, counted, duration};
use memledger_analysis::{Answer, Found, Reached, Rule, ScopeRuns};
use memledger_document::internal::by_key;
use memledger_format::words::escape;
use std::io::{self, Write};

/// The columns of rows; those of [`Found::of`].
const FOUND: &[Column] = &[
    Column::Named(by_key("live_bytes_at_peak"), "bytes"),
    Column::Share,
    Column::Named(by_key("allocations"), "blocks"),
    Column::Mean,
];
/// The columns of what has grown and declined.
const CHANGED: &[Column] = &[
    Column::Named(by_key("live_bytes_at_peak"), "grown"),
    Column::Named(by_key("allocated_bytes"), "declined"),
    Column::Change,
    Column::Named(by_key("allocations"), "blocks grown"),
    Column::Named(by_key("frees"), "declined"),
];

pub(crate) fn write(
    answer: &Answer,
    asked: &[String],
    options: &Options,
    by: By,
    out: &mut dyn Write,
) -> io::Result<()> {
    let style = Style { color: options.color };
    let report = answer.report();
    let rule = answer.rule;
    for line in super::table::wrapped(&title(answer), options.width, options.width) {
        writeln!(out, "{}", style.bold(&line))?;
    }
    let mut lines = Lines { width: options.width, out };
    alarms(report, style, &mut lines)?;
    let asked = asked.iter().map(String::as_str).chain(std::iter::repeat("end"));
    for ((name, asked), at) in ["A", "B", "C", "D"].iter().zip(asked).zip(&answer.positions) {
        lines.write(name, &position(asked, at))?;
    }
    found_lines(answer, &mut lines)?;
    if let Some(mean) = report.stack_sampling_bytes.filter(|_| by.is_of_calls()) {
        let text = format!(
            "of a sample of blocks, one in {} on average: the rows are estimates. The ranges cover \
             95 of 100; what was found is exact",
            bytes(mean)
        );
        lines.write("stacks", &text)?;
    }
    let columns = if rule == Rule::GrownAndDeclined { CHANGED } else { FOUND };
    let options = Options {
        by: Some(by),
        columns: Some(columns),
        sort: if options.sort == Sort::Count { Sort::Count } else { Sort::AtPeak },
        ..options.clone()
    };
    let table = match by {
        By::Lifetime => lifetimes(answer, columns),
        by => one(report, &options, by),
    };
    if !table.rows.is_empty() {
        table.write(style, options.width, out)?;
    }
    if let Some(runs) = answer.runs.as_ref().filter(|runs| !runs.largest.is_empty()) {
        largest_runs(runs).write(style, options.width, out)?;
    }
    if answer.blocks.is_empty() {
        return Ok(());
    }
    block_table(answer, &options).write(style, options.width, out)
}

/// How much was found, and in how many runs.
fn found_lines(answer: &Answer, lines: &mut Lines<'_>) -> io::Result<()> {
    let rule = answer.rule;
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
    if let Some(runs) = &answer.runs {
        lines.write("runs", &runs_line(rule, runs))?;
        if rule == Rule::Grown && blocks > 0 {
            let live = found(runs.still_live_blocks, runs.still_live_bytes);
            lines.write("live at B", &format!("{live} of what was found"))?;
        }
    }
    Ok(())
}

/// What was asked.
fn title(answer: &Answer) -> String {
    let rule = answer.rule;
    match &answer.runs {
        None if rule == Rule::GrownAndDeclined => {
            format!("{}: what has grown between A and B, and what has declined", rule.name())
        }
        None => format!("{}: blocks {}", rule.name(), rule.about()),
        Some(runs) => {
            let what = match rule {
                Rule::Grown => "allocated in it and live when it was over",
                _ => "allocated and freed in it",
            };
            format!("{} in each run of {}: blocks {what}", rule.name(), escape(&runs.scope))
        }
    }
}

/// How many runs there were.
fn runs_line(rule: Rule, runs: &ScopeRuns) -> String {
    let mut line = count(runs.runs);
    if let Some(entries) = runs.entries.filter(|entries| *entries > runs.runs) {
        line += &format!(" (the trace has {} entries)", count(entries));
    }
    if rule == Rule::Grown {
        line += &format!(", of which {} left something behind", count(runs.with_blocks));
    }
    if runs.open > 0 {
        line += &format!("; {} at B", counted(runs.open, "run is open", "runs are open"));
    }
    line
}

/// How long the blocks lived, the shortest first.
fn lifetimes(answer: &Answer, columns: &[Column]) -> Table {
    let rows = answer.by_lifetime.iter().map(|row| {
        let (from, below) = (duration(row.from_ns), duration(row.below_ns));
        let name =
            if row.from_ns == 0 { format!("under {below}") } else { format!("{from} to {below}") };
        let (figures, peak) = (&row.found.figures(), answer.total.bytes);
        let (entries, largest, inclusive, estimates) = (None, 0, None, None);
        let cells = Cells { figures, peak, entries, largest, inclusive, estimates };
        Row { level: 0, name, cells: columns.iter().map(|column| column.cell(&cells)).collect() }
    });
    Table {
        title: "By lifetime".to_owned(),
        headers: columns.iter().map(|column| column.header(false)).collect(),
        kept: columns.len(),
        names: 0,
        rows: rows.collect(),
        footer: None,
    }
}

/// The runs in which most was found.
fn largest_runs(runs: &ScopeRuns) -> Table {
    let rows = runs.largest.iter().map(|run| {
        let ended = match run.is_open {
            true => "open".to_owned(),
            false => duration(run.ended_at_ns),
        };
        let name = format!("{} ({})", run.thread, run.thread_id);
        let cells = vec![bytes(run.bytes), count(run.blocks), duration(run.began_at_ns), ended];
        Row { level: 0, name: name.trim_start().to_owned(), cells }
    });
    Table {
        title: "Largest runs, by thread".to_owned(),
        headers: vec!["bytes", "blocks", "began at", "over at"],
        kept: 4,
        names: 0,
        rows: rows.collect(),
        footer: None,
    }
}

/// A position as it was asked for, and where it is.
fn position(asked: &str, at: &Reached) -> String {
    let (time, event) = (duration(at.at_ns), count(at.event));
    format!("{}: at {time}, after event {event}", escape(asked))
}
