//! The values of Unreal's memory tags.

use super::sections::more;
use super::table::{Row, Table};
use crate::options::{Options, Sort};
use crate::units::{bytes, count, counted, duration};
use memledger_document::internal::sort;
use memledger_document::{LlmTagRow, Report};
use std::cmp::Reverse;

/// How many tags a sentence names.
#[cfg(feature = "html")]
const NAMED: usize = 3;

/// A sentence for a trace that has the values of tags and no single blocks; `None` for any other trace.
pub(crate) fn without_blocks(report: &Report) -> Option<String> {
    let totals = &report.totals;
    let is_without = !report.llm_tags.is_empty()
        && report.trace.memory_recorded == Some(false)
        && totals.allocations + totals.reallocations + totals.frees == 0;
    is_without.then(|| {
        format!(
            "this trace has no single allocations, only the values of {} that the engine itself \
             counted (LLM)",
            counted(report.llm_tags.len() as u64, "memory tag", "memory tags")
        )
    })
}

/// The tags with the largest values, in a sentence.
#[cfg(feature = "html")]
pub(crate) fn largest(report: &Report) -> String {
    let named = named(report).take(NAMED);
    let texts = named.map(|(name, row)| format!("{name} {}", signed(row.last.bytes)));
    texts.collect::<Vec<_>>().join(", ")
}

/// The table of all tags, the largest first.
pub(super) fn table(report: &Report, options: &Options) -> Table {
    let mut rows: Vec<_> = named(report).collect();
    rows.retain(|(name, _)| options.shows(name));
    sort::by_key(&mut rows, |(_, row)| match options.sort {
        Sort::Live => Reverse(row.last.bytes),
        _ => Reverse(row.peak.bytes),
    });
    let left = rows.len().saturating_sub(options.top);
    rows.truncate(options.top);
    let cells = |row: &LlmTagRow| {
        let LlmTagRow { last, peak, min, first, samples, .. } = row;
        let [last, most, least, first] = [last, peak, min, first].map(|value| signed(value.bytes));
        vec![last, most, duration(peak.at_ns), least, first, count(*samples)]
    };
    let last = if options.moment.is_some() { "then" } else { "at end" };
    Table {
        title: "Memory tags of the engine (LLM)".to_owned(),
        headers: vec![last, "peak", "peak at", "least", "first", "values"],
        kept: 2,
        names: 0,
        rows: rows
            .into_iter()
            .map(|(name, row)| Row { level: 0, name, cells: cells(row) })
            .collect(),
        footer: more(options, Sort::Peak, left, 0, 0),
    }
}

/// Each row with its name: the path of the tag, after its tracker if there is more than one.
fn named(report: &Report) -> impl Iterator<Item = (String, &LlmTagRow)> {
    let rows = &report.llm_tags;
    let is_one = rows.iter().all(|row| row.tracker == rows[0].tracker);
    rows.iter().map(move |row| match row.path.join(" > ") {
        path if is_one => (path, row),
        path => (format!("{}: {path}", row.tracker), row),
    })
}

fn signed(value: i64) -> String {
    let sign = if value < 0 { "-" } else { "" };
    format!("{sign}{}", bytes(value.unsigned_abs()))
}
