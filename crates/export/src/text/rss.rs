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
    /// When that was: `at most, at 4.18 s`, `at end`.
    pub(crate) when: String,
    /// Its parts, in the same unit: `0.1 live + 152 freed but kept by malloc`.
    pub(crate) parts: String,
    /// What it was at another time, what may be, and what of live blocks is not resident.
    pub(crate) rest: String,
}

/// The resident memory in a line; `None` if the trace has no figures.
pub(super) fn line(report: &Report, options: &Options) -> Option<String> {
    if let Some(Resident { all, when, parts, rest }) = resident(report, options) {
        return Some(format!("{all} {when} (RSS) = {parts}; {rest}"));
    }
    let rss = report.rss.as_ref()?;
    let (now, when, most, limit) =
        (bytes(rss.end_bytes), at_end(options), bytes(rss.most_bytes), limit(rss));
    Some(format!(
        "{now} {when} (RSS), {most} at most{limit}; what it is was not read since it changed"
    ))
}

fn at_end(options: &Options) -> &'static str {
    if options.moment.is_some() { "then" } else { "at end" }
}

fn limit(rss: &Rss) -> String {
    let allows = |limit| format!(" of {} that the control group allows", bytes(limit));
    rss.limit_bytes.map_or(String::new(), allows)
}

/// The most resident memory as the sum of its parts, or that at the end, if the pages were not looked into
/// when it was most; `None` if the trace does not have them.
pub(crate) fn resident(report: &Report, options: &Options) -> Option<Resident> {
    let rss = report.rss.as_ref()?;
    let end = rss.end.as_ref()?;
    let is_most =
        |peak: &&ResidentMemory| is_about(peak.rss_bytes(), rss.most_bytes) && *peak != end;
    let most = rss.peak.as_ref().filter(is_most).filter(|_| options.moment.is_none());
    let memory = most.filter(|most| !is_about(end.rss_bytes(), most.rss_bytes())).unwrap_or(end);
    let unit = Unit::of(memory.rss_bytes());
    let (at_end, run_ns) = (at_end(options), report.trace.duration_ns);
    let when = match memory.at_ns {
        at_ns if memory != end => format!("at most, at {}", duration(at_ns)),
        at_ns if is_old(run_ns.saturating_sub(at_ns), run_ns) => {
            format!("{at_end}, its pages as of {}", duration(at_ns))
        }
        _ => at_end.to_owned(),
    };
    let mut rest = match rss.freed_bytes().filter(|_| memory != end) {
        _ if memory == end => format!("{} at most", bytes(rss.most_bytes)),
        Some(freed) if is_much(freed, end.rss_bytes()) => {
            format!(
                "{} at end, {} of it freed but kept by malloc",
                bytes(rss.end_bytes),
                bytes(freed)
            )
        }
        _ => format!("{} at end", bytes(rss.end_bytes)),
    };
    rest += &limit(rss);
    let absent = memory.live_not_resident_bytes;
    if is_much(absent, memory.rss_bytes()) {
        let swapped = if memory.swapped_bytes > 0 { ", or swapped out" } else { "" };
        rest += &format!("; {} of live blocks were never written{swapped}", bytes(absent));
    }
    let all = format!("{} {}", unit.amount(memory.rss_bytes()), unit.name);
    Some(Resident { all, when, parts: sum(rss, memory, &unit), rest })
}

fn sum(rss: &Rss, memory: &ResidentMemory, unit: &Unit) -> String {
    let mut parts = parts(rss, memory);
    let (live, _) = parts.remove(LIVE);
    sort::by_key(&mut parts, |(bytes, _)| Reverse(*bytes));
    let is_named = |bytes: u64| bytes >= memory.rss_bytes() / 100;
    let named = parts.iter().take(NAMED).take_while(|(bytes, _)| is_named(*bytes)).count();
    let rest: u64 = parts[named..].iter().map(|(bytes, _)| bytes).sum();
    parts.truncate(named);
    parts.extend((rest > 0).then_some((rest, "other")));
    let live = format!("{} live", unit.amount(live));
    let terms = parts.iter().map(|(bytes, name)| format!(" + {} {name}", unit.amount(*bytes)));
    terms.fold(live, |sum, term| sum + &term)
}

/// Whether it is 95 % of `all`, or more.
fn is_about(part: u64, all: u64) -> bool {
    u128::from(part) * 100 >= u128::from(all) * 95
}

/// Whether it is 1 MiB and 5 % of `all`, or more.
fn is_much(part: u64, all: u64) -> bool {
    part >= 1 << 20 && u128::from(part) * 20 >= u128::from(all)
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

#[cfg(test)]
mod tests {
    use super::*;
    use memledger_document::made;

    const MIB: u64 = 1 << 20;

    #[test]
    fn the_most_is_divided_if_it_was_looked_into() {
        let at = |at_ns, live, kept, absent| {
            made!(ResidentMemory {
                at_ns,
                live_bytes: live * MIB,
                allocator_bytes: kept * MIB,
                live_not_resident_bytes: absent * MIB
            })
        };
        let end = at(100_000_000, 10, 20, 0);
        let said = |peak, most_bytes| {
            let mut report = Report::default();
            let (end_bytes, end) = (30 * MIB, Some(end.clone()));
            report.rss = Some(made!(Rss { most_bytes, end_bytes, peak: Some(peak), end }));
            line(&report, &Options::default()).expect("a line")
        };
        assert_eq!(
            said(at(50_000_000, 90, 10, 3), 104 * MIB),
            "100 MiB at most, at 50.0 ms (RSS) = 90 live + 10 kept by the allocator; 30.0 MiB at end"
        );
        // Much is 5 %.
        assert!(
            said(at(50_000_000, 90, 10, 5), 104 * MIB)
                .ends_with("; 5.0 MiB of live blocks were never written")
        );
        // The largest that was looked into is not about the most, or it is about that at the end.
        let of_end = "30 MiB at end (RSS) = 10 live + 20 kept by the allocator; ";
        assert_eq!(
            said(at(50_000_000, 90, 10, 0), 106 * MIB),
            format!("{of_end}106.0 MiB at most")
        );
        assert_eq!(said(at(50_000_000, 31, 0, 0), 31 * MIB), format!("{of_end}31.0 MiB at most"));
        assert_eq!(said(end.clone(), 30 * MIB), format!("{of_end}30.0 MiB at most"));
    }
}
