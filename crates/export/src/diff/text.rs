//! What has changed between two reports, for a terminal.

use crate::diff::{Changed, Diff, DiffOptions, Total, column, counts, signed, totals};
use crate::options::Sort;
use crate::text::style::Style;
use crate::text::table::{Row, Table, wrapped};
use crate::units::{bytes_briefly, count, duration};
use memledger_document::{Figures, Report};
use memledger_format::words::escape;
use std::io::{self, Write};

/// Columns of which a table shows the change, too, if it is not the one that is compared.
const FURTHER: [(&str, Sort, bool); 4] = [
    ("at peak", Sort::AtPeak, true),
    ("live", Sort::Live, true),
    ("allocated", Sort::Allocated, true),
    ("count", Sort::Count, false),
];

/// Writes `diff` as text.
pub(super) fn write(diff: &Diff<'_>, options: &DiffOptions, out: &mut dyn Write) -> io::Result<()> {
    let style = Style { color: options.color };
    for (label, name, report) in
        [("old", &options.names[0], diff.old), ("new", &options.names[1], diff.new)]
    {
        let line = format!("{label}: {}, {}", escape(name), of(report));
        for (at, line) in
            wrapped(&line, options.width, options.width.saturating_sub(4)).iter().enumerate()
        {
            let line = if at == 0 { line.clone() } else { format!("    {line}") };
            writeln!(out, "{}", style.bold(&line))?;
        }
    }
    sums(diff).write(style, options.width, out)?;
    for at in 0..diff.tables.len() {
        table(diff, at, options).write(style, options.width, out)?;
    }
    Ok(())
}

/// The program, and how long it was traced.
fn of(report: &Report) -> String {
    let trace = &report.trace;
    let program = escape(trace.program.as_deref().unwrap_or("an unnamed program"));
    let process = trace.pid.map_or(String::new(), |pid| format!(" (process {pid})"));
    let lacks = if trace.complete { "" } else { ", not whole" };
    format!("{program}{process}, {}{lacks}", duration(trace.duration_ns))
}

/// The figures of all blocks.
fn sums(diff: &Diff<'_>) -> Table {
    let row = |total: &Total| {
        let text = if total.is_bytes { bytes_briefly } else { count };
        let [old, new] = total.sides.map(text);
        let cells = vec![signed(total.sides, total.is_bytes), total.share(), old, new];
        Row { level: 0, name: total.name.to_owned(), cells }
    };
    Table {
        title: "Totals".to_owned(),
        headers: vec!["change", "", "old", "new"],
        kept: 4,
        names: 0,
        rows: totals(diff.old, diff.new).iter().map(row).collect(),
        footer: None,
    }
}

fn table(diff: &Diff<'_>, at: usize, options: &DiffOptions) -> Table {
    let (by, _) = diff.tables[at];
    let (mut rows, of_state) = diff.changed(at, options);
    let compared = column(options.sort, by);
    let further = FURTHER.map(|column| Some(column).filter(|column| column.0 != compared));
    let is_bytes = options.sort != Sort::Count;
    let text = if is_bytes { bytes_briefly } else { count };
    let left = rows.len().saturating_sub(options.top);
    rows.truncate(options.top);
    let row = |row: &Changed<'_>| {
        let change = signed([row.old, row.new], is_bytes);
        let mut cells = vec![change, row.share(), text(row.old), text(row.new)];
        cells.extend(further.iter().flatten().map(|(_, sort, is_bytes)| {
            signed(row.change(options, |figures: &Figures| sort.of(figures)), *is_bytes)
        }));
        Row { level: 0, name: row.name(by), cells }
    };
    let mut headers = vec!["change", "", "old", "new"];
    headers.extend(further.iter().flatten().map(|(header, ..)| *header));
    let inclusive = if options.inclusive { ", with all inside" } else { "" };
    let sampled = [diff.old, diff.new].iter().any(|report| report.stack_sampling_bytes.is_some())
        && by.is_of_calls();
    let states = counts(&of_state);
    let mut footer = if states.is_empty() { "no rows".to_owned() } else { states };
    if left > 0 {
        footer += &format!("; {} of them more than shown (--top)", count(left as u64));
    }
    if sampled {
        footer += "; figures are estimates from a sample";
    }
    Table {
        title: format!("By {}, {compared}{inclusive}", by.name()),
        headers,
        kept: 4,
        names: 0,
        rows: rows.iter().map(row).collect(),
        footer: Some(footer),
    }
}
