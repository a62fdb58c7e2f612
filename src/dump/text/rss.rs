//! What the resident memory of the program was.

use super::table::{Row, Table};
use super::units::{bytes, duration, percent};
use crate::analysis::{Report, ResidentMemory, Rss};
use crate::dump::options::Options;
use std::cmp::Reverse;

/// The names of [`ResidentMemory::parts`], briefly and whole.
const PARTS: [(&str, &str); 9] = [
    ("live blocks", "live blocks"),
    ("allocator", "allocator: free, rounding"),
    ("other anonymous", "anonymous, no live block in it"),
    ("tracker", "tracker"),
    ("stacks", "stacks of threads"),
    ("binaries", "binaries: code, statics"),
    ("files", "other files"),
    ("shared", "shared memory"),
    ("kernel", "kernel"),
];

/// The numbers of the parts that are anything, the largest first.
fn largest_first(memory: &ResidentMemory) -> Vec<usize> {
    let parts = memory.parts();
    let mut numbers: Vec<_> = (0..PARTS.len()).filter(|&part| parts[part].1 > 0).collect();
    numbers.sort_by_key(|&part| Reverse(parts[part].1));
    numbers
}

/// The resident memory in a line; `None` if the trace has no figures.
pub(super) fn line(report: &Report, options: &Options) -> Option<String> {
    let rss = report.rss.as_ref()?;
    let end = rss.end?;
    let all = end.rss_bytes();
    let part = |number: usize| {
        let share = percent(end.parts()[number].1, all);
        format!("{share} {}", PARTS[number].0)
    };
    let numbers = largest_first(&end).into_iter();
    let parts = numbers.filter(|&part| end.parts()[part].1 >= all / 100).map(part);
    let when = if options.moment.is_some() { "then" } else { "at end" };
    let limit = match rss.limit_bytes {
        Some(limit) => format!(" of {} that the control group allows", bytes(limit)),
        None => String::new(),
    };
    Some(format!(
        "{} {when} (RSS), {} at most{limit}: {}",
        bytes(all),
        bytes(rss.most_bytes),
        parts.collect::<Vec<_>>().join(", ")
    ))
}

/// The table, in the order of what the memory was at the end; without rows if the trace has no figures.
pub(super) fn table(report: &Report, options: &Options) -> Table {
    let is_then = options.moment.is_some();
    let mut table = Table {
        title: "Resident memory (RSS)".to_owned(),
        headers: vec![if is_then { "then" } else { "at end" }, "share"],
        kept: 1,
        names: 0,
        rows: Vec::new(),
        footer: None,
    };
    let Some((rss, end)) = report.rss.as_ref().and_then(|rss| Some((rss, rss.end?))) else {
        return table;
    };
    let mut moments = vec![end];
    if let Some(peak) = rss.peak.filter(|peak| *peak != end) {
        moments.push(peak);
        table.headers.extend(["at peak", "share"]);
    }
    let mut parts = largest_first(&end);
    for part in moments.iter().flat_map(largest_first) {
        if !parts.contains(&part) {
            parts.push(part);
        }
    }
    let row = |level, name: &str, of: &dyn Fn(&ResidentMemory) -> u64| {
        let cells = |memory| [bytes(of(memory)), percent(of(memory), memory.rss_bytes())];
        Row { level, name: name.to_owned(), cells: moments.iter().flat_map(cells).collect() }
    };
    table.rows.push(row(0, "all", &ResidentMemory::rss_bytes));
    let part = |part: usize| row(1, PARTS[part].1, &move |memory| memory.parts()[part].1);
    table.rows.extend(parts.into_iter().map(part));
    table.footer = footer(rss, end, is_then);
    table
}

/// What the table does not say.
fn footer(rss: &Rss, end: ResidentMemory, is_then: bool) -> Option<String> {
    let mut sentences = Vec::new();
    if let Some(peak) = rss.peak.filter(|peak| *peak != end) {
        sentences.push(format!("the peak is the one at {}", duration(peak.at_ns)));
    }
    if rss.peak.is_some_and(|peak| rss.most_bytes > peak.rss_bytes()) {
        sentences.push(format!("RSS was {} at most", bytes(rss.most_bytes)));
    }
    if end.live_not_resident_bytes > 0 {
        sentences.push(format!(
            "{} of live blocks {} not resident {}: never written, or swapped out",
            bytes(end.live_not_resident_bytes),
            if is_then { "were" } else { "are" },
            if is_then { "then" } else { "at the end" },
        ));
    }
    (!sentences.is_empty()).then(|| sentences.join("; "))
}
