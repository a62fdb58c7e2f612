//! The processes of a run, as a tree.

use memledger_analysis::Report;
use memledger_export::text::{bytes, count, escape};
use std::io::{self, Write};

/// One process that has left a trace.
#[derive(Clone, Debug, Default)]
pub struct Process {
    pid: u32,
    parent: Option<u32>,
    program: String,
    peak_bytes: u64,
    live_bytes: u64,
    allocated_bytes: u64,
    allocations: u64,
    /// It began with blocks of its parent.
    has_inherited: bool,
    /// The largest RSS, and what no other process had at the last reading; `None` if the system does not say.
    rss_bytes: Option<[u64; 2]>,
}

impl Process {
    pub fn of(report: &Report) -> Self {
        Self {
            pid: report.trace.pid.unwrap_or(0),
            parent: report.trace.parent_pid,
            program: report.trace.program.clone().unwrap_or_default(),
            peak_bytes: report.totals.peak_bytes,
            live_bytes: report.totals.live_bytes,
            allocated_bytes: report.totals.allocated_bytes,
            allocations: report.totals.allocations,
            has_inherited: report.trace.initial_live_blocks.is_some_and(|blocks| blocks > 0),
            rss_bytes: report
                .rss
                .as_ref()
                .map(|rss| [rss.most_bytes, rss.private_bytes])
                .filter(|[_, private]| *private > 0),
        }
    }
}

type Figures = [String; COLUMNS];
const COLUMNS: usize = 5;
const HEADERS: [&str; COLUMNS] = ["peak", "at end", "allocated", "count", "RSS"];

fn figures(bytes_of: [Option<u64>; 3], allocations: Option<u64>, rss: Option<u64>) -> Figures {
    let shown = |of: Option<u64>, show: fn(u64) -> String| of.map_or_else(|| "-".to_owned(), show);
    let [peak, live, allocated] = bytes_of.map(|of| shown(of, bytes));
    [peak, live, allocated, shown(allocations, count), shown(rss, bytes)]
}

/// Writes a line for each process, below that of its parent, and their sums. Peaks have no sum: they are
/// at different times. Nor have blocks if those of one process are in another, too.
///
/// RSS is the largest one of a process without a parent here, and of a child what it does not share. So the
/// sum is at most what all had.
pub fn write(processes: &[Process], out: &mut dyn Write) -> io::Result<()> {
    let mut rows = vec![("Processes".to_owned(), HEADERS.map(str::to_owned))];
    let mut all_rss = Some(0_u64);
    for (process, depth) in tree(processes) {
        let name = format!("{}{} ({})", "  ".repeat(depth + 1), process.program, process.pid);
        let rss = process.rss_bytes.map(|[most, private]| if depth == 0 { most } else { private });
        all_rss = all_rss.zip(rss).map(|(all, rss)| all.saturating_add(rss));
        let bytes = [process.peak_bytes, process.live_bytes, process.allocated_bytes].map(Some);
        rows.push((escape(&name), figures(bytes, Some(process.allocations), rss)));
    }
    let are_apart = processes.iter().all(|process| !process.has_inherited);
    let sum = |of: fn(&Process) -> u64| {
        are_apart.then(|| processes.iter().map(of).fold(0, u64::saturating_add))
    };
    let bytes = [None, sum(|process| process.live_bytes), sum(|process| process.allocated_bytes)];
    let allocations = sum(|process| process.allocations);
    rows.push((format!("  all {}", processes.len()), figures(bytes, allocations, all_rss)));
    let longest = |texts: &mut dyn Iterator<Item = &String>| {
        texts.map(|text| text.chars().count()).max().unwrap_or(0)
    };
    let name_width = longest(&mut rows.iter().map(|(name, _)| name));
    let widths = std::array::from_fn::<_, COLUMNS, _>(|column| {
        longest(&mut rows.iter().map(|(_, figures)| &figures[column]))
    });
    for (name, figures) in &rows {
        write!(out, "{name:<name_width$}")?;
        for (figure, width) in figures.iter().zip(widths) {
            write!(out, "  {figure:>width$}")?;
        }
        writeln!(out)?;
    }
    writeln!(out)
}

/// Each process, behind its parent, with its depth. One whose parent has left no trace is at the top.
fn tree(processes: &[Process]) -> Vec<(&Process, usize)> {
    let has_parent = |process: &Process| {
        process.parent != Some(process.pid)
            && processes.iter().any(|other| Some(other.pid) == process.parent)
    };
    let mut found = Vec::new();
    let mut next: Vec<_> =
        processes.iter().rev().filter(|process| !has_parent(process)).map(|top| (top, 0)).collect();
    while let Some((process, depth)) = next.pop() {
        found.push((process, depth));
        let children = processes
            .iter()
            .rev()
            .filter(|other| other.parent == Some(process.pid) && has_parent(other));
        next.extend(children.map(|child| (child, depth + 1)));
        // A number that was used twice could make a circle.
        if found.len() > processes.len() {
            break;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: u32, parent: u32, program: &str) -> Process {
        let parent = Some(parent);
        let (peak_bytes, live_bytes, allocated_bytes) = (2048, 1024, 4096);
        Process {
            pid,
            parent,
            program: program.to_owned(),
            peak_bytes,
            live_bytes,
            allocated_bytes,
            allocations: 10,
            has_inherited: false,
            rss_bytes: Some([5 << 20, 1 << 20]),
        }
    }

    #[test]
    fn each_process_is_below_its_parent() {
        let processes = [
            process(5, 1, "make"),
            process(9, 7, "as"),
            process(6, 5, "sh"),
            process(7, 5, "cc\u{1b}"),
        ];
        let mut text = Vec::new();
        write(&processes, &mut text).expect("a vector takes all");
        let text = String::from_utf8(text).expect("text");
        assert_eq!(
            text,
            "\
Processes            peak   at end  allocated  count      RSS
  make (5)        2.0 KiB  1.0 KiB    4.0 KiB     10  5.0 MiB
    sh (6)        2.0 KiB  1.0 KiB    4.0 KiB     10  1.0 MiB
    cc\\u{1b} (7)  2.0 KiB  1.0 KiB    4.0 KiB     10  1.0 MiB
      as (9)      2.0 KiB  1.0 KiB    4.0 KiB     10  1.0 MiB
  all 4                 -  4.0 KiB   16.0 KiB     40  8.0 MiB

"
        );
    }

    #[test]
    fn blocks_that_two_processes_have_are_not_summed_up() {
        let parent = process(5, 1, "server");
        let child = Process { has_inherited: true, rss_bytes: None, ..process(6, 5, "server") };
        let mut text = Vec::new();
        write(&[parent, child], &mut text).expect("a vector takes all");
        let text = String::from_utf8(text).expect("text");
        assert!(
            text.contains("  all 2               -        -          -      -        -"),
            "{text}"
        );
    }

    #[test]
    fn a_circle_ends() {
        let processes = [process(1, 2, "a"), process(2, 1, "b"), process(3, 3, "c")];
        assert!(tree(&processes).len() <= 4);
    }
}
