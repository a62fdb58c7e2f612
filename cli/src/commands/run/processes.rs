//! The processes of a run, as a tree.

use memledger_analysis::Report;
use memledger_analysis::dump::text::{bytes, count, escape};
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
        }
    }

    fn figures(&self, has_peak: bool) -> [String; 4] {
        let peak = if has_peak { bytes(self.peak_bytes) } else { "-".to_owned() };
        [peak, bytes(self.live_bytes), bytes(self.allocated_bytes), count(self.allocations)]
    }
}

const HEADERS: [&str; 4] = ["peak", "at end", "allocated", "count"];

/// Writes a line for each process, below that of its parent, and their sums. Peaks have no sum: they are
/// at different times.
pub fn write(processes: &[Process], out: &mut dyn Write) -> io::Result<()> {
    let mut rows = vec![("Processes".to_owned(), HEADERS.map(str::to_owned))];
    for (process, depth) in tree(processes) {
        let name = format!("{}{} ({})", "  ".repeat(depth + 1), process.program, process.pid);
        rows.push((escape(&name), process.figures(true)));
    }
    let sum = processes.iter().fold(Process::default(), |sum, process| Process {
        live_bytes: sum.live_bytes.saturating_add(process.live_bytes),
        allocated_bytes: sum.allocated_bytes.saturating_add(process.allocated_bytes),
        allocations: sum.allocations.saturating_add(process.allocations),
        ..sum
    });
    rows.push((format!("  all {}", processes.len()), sum.figures(false)));
    let longest = |texts: &mut dyn Iterator<Item = &String>| {
        texts.map(|text| text.chars().count()).max().unwrap_or(0)
    };
    let name_width = longest(&mut rows.iter().map(|(name, _)| name));
    let widths =
        [0, 1, 2, 3].map(|column| longest(&mut rows.iter().map(|(_, figures)| &figures[column])));
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
        let program = program.to_owned();
        Process { pid, parent, program, peak_bytes, live_bytes, allocated_bytes, allocations: 10 }
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
Processes            peak   at end  allocated  count
  make (5)        2.0 KiB  1.0 KiB    4.0 KiB     10
    sh (6)        2.0 KiB  1.0 KiB    4.0 KiB     10
    cc\\u{1b} (7)  2.0 KiB  1.0 KiB    4.0 KiB     10
      as (9)      2.0 KiB  1.0 KiB    4.0 KiB     10
  all 4                 -  4.0 KiB   16.0 KiB     40

"
        );
    }

    #[test]
    fn a_circle_ends() {
        let processes = [process(1, 2, "a"), process(2, 1, "b"), process(3, 3, "c")];
        assert!(tree(&processes).len() <= 4);
    }
}
