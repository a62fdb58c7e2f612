//! What the resident memory of the program was.

use super::table::{Row, Table};
use crate::options::Options;
use crate::units::{bytes, duration, percent};
use memledger_document::internal::sort;
use memledger_document::{AllocatorStatistics, Report, ResidentMemory, Rss};
use std::cmp::Reverse;

/// The names of [`ResidentMemory::parts`], briefly and whole.
const PARTS: [(&str, &str); 13] = [
    ("live blocks", "live blocks"),
    ("kept by the allocator", "kept by the allocator: free, rounding"),
    ("mapped without live blocks", "mapped by libraries or freed as a whole"),
    ("mapped without reservation", "mapped without reservation (MAP_NORESERVE)"),
    ("tracker", "tracker"),
    ("stacks", "stacks of threads"),
    ("stacks of ended threads", "stacks of ended threads"),
    ("binaries", "binaries: code, constants"),
    ("static variables", "static variables"),
    ("files", "other files"),
    ("changed files", "changed private pages of files"),
    ("shared", "shared memory"),
    ("kernel", "kernel"),
];

/// The numbers of some among them.
const LIVE: usize = 0;
const ALLOCATOR: usize = 1;
const ANONYMOUS: usize = 2;

/// The numbers of the parts that are anything, the largest first.
fn largest_first(memory: &ResidentMemory) -> Vec<usize> {
    let parts = memory.parts();
    let mut numbers: Vec<_> = (0..PARTS.len()).filter(|&part| parts[part].1 > 0).collect();
    sort::by_key(&mut numbers, |&part| Reverse(parts[part].1));
    numbers
}

/// How many parts the line names; the others are one.
const NAMED: usize = 3;

/// The resident memory as a sum, as the text and the page say it.
pub(crate) struct Resident {
    /// All of it, with its unit: `162 MiB`.
    pub(crate) all: String,
    /// When its pages were looked into, if that was long before: `, its pages as of 4.18 s`.
    pub(crate) read: String,
    /// Its parts, in the same unit: `0.1 live + 152 freed but kept by malloc`.
    pub(crate) parts: String,
    /// The most that it was, and may be.
    pub(crate) most: String,
}

/// The resident memory in a line; `None` if the trace has no figures.
pub(super) fn line(report: &Report, options: &Options) -> Option<String> {
    let when = if options.moment.is_some() { "then" } else { "at end" };
    if let Some(Resident { all, read, parts, most }) = resident(report) {
        return Some(format!("{all} {when} (RSS{read}) = {parts}; {most}"));
    }
    let rss = report.rss.as_ref()?;
    let (now, most) = (bytes(rss.end_bytes), most(rss));
    Some(format!("{now} {when} (RSS), {most}; what it is was not read since it changed"))
}

/// The most that it was, and may be.
fn most(rss: &Rss) -> String {
    let limit = match rss.limit_bytes {
        Some(limit) => format!(" of {} that the control group allows", bytes(limit)),
        None => String::new(),
    };
    format!("{} at most{limit}", bytes(rss.most_bytes))
}

/// The resident memory as the sum of its parts; `None` if the trace does not have them.
pub(crate) fn resident(report: &Report) -> Option<Resident> {
    let rss = report.rss.as_ref()?;
    let end = rss.end.as_ref()?;
    let all = end.rss_bytes();
    let unit = Unit::of(all);
    let mut parts = parts(rss, end);
    let (live, _) = parts.remove(LIVE);
    sort::by_key(&mut parts, |(bytes, _)| Reverse(*bytes));
    let is_named = |number: usize, bytes: u64| number < NAMED && bytes >= all / 100;
    let named = parts.iter().enumerate().filter(|(number, (bytes, _))| is_named(*number, *bytes));
    let named: Vec<_> = named.map(|(_, part)| *part).collect();
    let rest: u64 = parts[named.len()..].iter().map(|(bytes, _)| bytes).sum();
    let mut sum = format!("{} live", unit.amount(live));
    for (bytes, name) in named.into_iter().chain((rest > 0).then_some((rest, "other"))) {
        sum += &format!(" + {} {name}", unit.amount(bytes));
    }
    let age_ns = report.trace.duration_ns.saturating_sub(end.at_ns);
    let read = match is_old(age_ns, report.trace.duration_ns) {
        true => format!(", its pages as of {}", duration(end.at_ns)),
        false => String::new(),
    };
    let all = format!("{} {}", unit.amount(all), unit.name);
    Some(Resident { all, read, parts: sum, most: most(rss) })
}

/// Whether the pages were looked into so long ago that the line says when: an eighth of the run, and more
/// than 1 s.
fn is_old(age_ns: u64, run_ns: u64) -> bool {
    age_ns > (run_ns / 8).max(1_000_000_000)
}

/// The unit of all amounts in a sum.
struct Unit {
    name: &'static str,
    shift: u32,
}

impl Unit {
    /// MiB, or another one for what is much less or more.
    fn of(all: u64) -> Self {
        match all >> 20 {
            0 => Self { name: "KiB", shift: 10 },
            1..10_240 => Self { name: "MiB", shift: 20 },
            _ => Self { name: "GiB", shift: 30 },
        }
    }

    fn amount(&self, bytes: u64) -> String {
        let digits = usize::from(bytes < 10 << self.shift);
        format!("{:.digits$}", bytes as f64 / (1_u64 << self.shift) as f64)
    }
}

/// The parts of the resident memory, live blocks first, with what they are called in a sum. What the
/// allocator has is divided if malloc says how much of it was freed.
fn parts(rss: &Rss, end: &ResidentMemory) -> Vec<(u64, &'static str)> {
    let mut parts: Vec<_> =
        end.parts().into_iter().zip(PARTS).map(|((_, bytes), (name, _))| (bytes, name)).collect();
    let is_end = rss.end.as_ref() == Some(end);
    if let Some(freed) = rss.freed_bytes().filter(|_| is_end) {
        let of_allocator = freed.min(parts[ALLOCATOR].0);
        parts[ALLOCATOR].0 -= of_allocator;
        parts[ALLOCATOR].1 = "rounding of malloc";
        parts[ANONYMOUS].0 -= freed - of_allocator;
        parts.push((freed, "freed but kept by malloc"));
    }
    parts
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
    let Some((rss, end)) = report.rss.as_ref().and_then(|rss| Some((rss, rss.end.as_ref()?)))
    else {
        return table;
    };
    let mut moments = vec![end];
    if let Some(peak) = rss.peak.as_ref().filter(|peak| *peak != end) {
        moments.push(peak);
        table.headers.extend(["at peak", "share"]);
    }
    let mut parts = largest_first(end);
    for part in moments.iter().flat_map(|memory| largest_first(memory)) {
        if !parts.contains(&part) {
            parts.push(part);
        }
    }
    let row = |level, name: &str, of: &dyn Fn(&ResidentMemory) -> u64| {
        let cells =
            |memory: &&ResidentMemory| [bytes(of(memory)), percent(of(memory), memory.rss_bytes())];
        Row { level, name: name.to_owned(), cells: moments.iter().flat_map(cells).collect() }
    };
    table.rows.push(row(0, "all", &ResidentMemory::rss_bytes));
    for part in parts {
        table.rows.push(row(1, PARTS[part].1, &move |memory| memory.parts()[part].1));
        if part == LIVE {
            let heaps = heaps(&moments);
            let heap = |(id, name): (u32, &str)| row(2, name, &|memory| bytes_in(memory, id));
            table.rows.extend(heaps.into_iter().map(heap));
        }
    }
    table.footer = footer(rss, end, is_then);
    table
}

/// The root heaps with resident blocks at any of the moments, if there are several.
fn heaps<'a>(moments: &[&'a ResidentMemory]) -> Vec<(u32, &'a str)> {
    let mut heaps: Vec<(u32, &str)> = Vec::new();
    for heap in moments.iter().flat_map(|memory| &memory.live_by_heap) {
        if heaps.iter().all(|(id, _)| *id != heap.id) {
            heaps.push((heap.id, &heap.name));
        }
    }
    if heaps.len() > 1 { heaps } else { Vec::new() }
}

fn bytes_in(memory: &ResidentMemory, heap: u32) -> u64 {
    memory.live_by_heap.iter().find(|found| found.id == heap).map_or(0, |found| found.bytes)
}

/// What the allocators say of themselves; without rows if the trace has no end.
pub(super) fn allocators(report: &Report) -> Table {
    let mut table = Table {
        title: "What the allocators say".to_owned(),
        headers: vec!["at end"],
        kept: 1,
        names: 0,
        rows: Vec::new(),
        footer: None,
    };
    let Some(rss) = report.rss.as_ref() else { return table };
    for AllocatorStatistics { allocator, figures, .. } in &rss.allocators {
        let row = |level, name: &str, cell| Row {
            level,
            name: name.to_owned(),
            cells: Vec::from_iter(cell),
        };
        table.rows.push(row(0, allocator, None));
        table.rows.extend(figures.iter().map(|(name, of)| row(1, name, Some(bytes(*of)))));
    }
    if let Some(end) = rss.end.as_ref().filter(|_| !rss.allocators.is_empty()) {
        table.footer = Some(format!(
            "to compare: live blocks have {}, and the tracker's {}; what else is in use is rounding, headers, and blocks that are not tracked",
            bytes(report.totals.live_bytes),
            bytes(end.tracker_block_bytes)
        ));
    }
    table
}

/// What the table does not say.
fn footer(rss: &Rss, end: &ResidentMemory, is_then: bool) -> Option<String> {
    let mut sentences = Vec::new();
    if let Some(peak) = rss.peak.as_ref().filter(|peak| *peak != end) {
        sentences.push(format!("the peak is the one at {}", duration(peak.at_ns)));
    }
    if rss.peak.as_ref().is_some_and(|peak| rss.most_bytes > peak.rss_bytes()) {
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
    if rss.allocators.is_empty() && !is_then {
        sentences.push("no allocator has said what it has".to_owned());
    }
    (!sentences.is_empty()).then(|| sentences.join("; "))
}
