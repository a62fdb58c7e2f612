//! The tables, and the document around them.

use crate::modes::Mode;
use crate::summary::{Row, Summary};
use comfy_table::{CellAlignment, Table, TableStyle, presets};
use serde_json::json;
use std::process::Command;

const HEADER: [&str; 11] = [
    "",
    "wall s",
    "ratio",
    "CPU s",
    "ratio",
    "MiB",
    "ratio",
    "M events",
    "B/event",
    "hook ns",
    "worker ns",
];

/// For a terminal.
pub(crate) fn text(summaries: &[Summary]) {
    for summary in summaries {
        println!("{}: {}", summary.program.name(), summary.input);
        println!("{}", table(summary, presets::UTF8_FULL_CONDENSED));
        notes(summary, "");
        println!();
    }
}

/// For scripts.
pub(crate) fn json(summaries: &[Summary]) -> serde_json::Result<String> {
    serde_json::to_string_pretty(&json!({
        "schema": "memledger.overhead/1",
        "machine": machine(),
        "programs": summaries,
    }))
}

/// `benches/overhead.md`.
pub(crate) fn markdown(summaries: &[Summary], modes: &[Mode], rounds: u32) {
    let peers = summaries.iter().flat_map(|summary| &summary.modes).any(|row| row.mode == "dhat");
    let flags = if peers { " --peers" } else { "" };
    let rounds_flag = if rounds == 5 { String::new() } else { format!(" --rounds {rounds}") };
    println!(
        "# What tracking costs whole programs

Three real programs, each of whose events is recorded, in each way that memledger offers{}. This page is the output of one
command, which is to be run on an idle machine:

```sh
cargo run --release -p memledger-benches --bin overhead -- --format markdown{flags}{rounds_flag} > benches/overhead.md
```

Made on {}: {}.",
        if peers { ", beside two other trackers" } else { "" },
        said("date", &["-u", "+%F"]),
        machine(),
    );
    for summary in summaries {
        println!("\n## {}: {}\n", summary.program.name(), summary.input);
        println!("{}", table(summary, presets::ASCII_MARKDOWN));
        notes(summary, "\n");
    }
    println!(
        "
## How to read it

*wall* is the time from the start of the process to its end, its report and last flush included; *CPU* is the CPU time of all
its threads, the tracker's worker included; *MiB* is the peak of its resident memory. Each is the median of {rounds} rounds. A
round runs all modes one after the other, and a *ratio* is the median, over the rounds, of the mode's figure divided by
that of `plain` in the same round, so it is valid on a machine whose speed changes; differences of a few percent
are noise. *B/event* is the size of the trace file divided by its number of events: an allocation or a free is one event, a reallocation two.
*worker ns* is the CPU time of the worker, per event. *hook ns* is the CPU time, per event, that the program's own threads took more than in `plain`:
the hook itself, the effect of hook and worker on the caches, and the start and the end of the recording. If there are as many busy threads as cores, the worker's
CPU time adds to the wall time.

| program | what it does |
|---|---|
| `json` | reads one document with `serde_json` into a `Value`, looks at all of it, drops it |
| `syn` | parses sources with `syn`, one file after the other |
| `threads` | two threads split sources into words, a third counts and frees them |

| mode | what it does |
|---|---|"
    );
    for mode in modes {
        println!("| {} | {} |", mode.name, mode.meaning);
    }
    println!(
        "
## What was checked

The tables have only figures of runs in which nothing was lost. Of each run: the program's result is the same as without a
tracker. Of each run that records: no event was lost; of each trace file, read back as a whole, and of each
report: no hole in the serials, no free without its allocation, no address allocated twice, nothing cut off; and the
numbers of allocations, frees and reallocations are those that an independent allocator (`stats_alloc`) counted in
the same program, within 100 events plus one in ten thousand, since threads that wait for each other do not always allocate
the same number of times. `plain` is a binary of its own, into which memledger is not linked."
    );
}

fn table(summary: &Summary, style: TableStyle) -> Table {
    let mut table = Table::new();
    table.load_style(style).set_header(HEADER);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    for row in &summary.modes {
        table.add_row(columns(row));
    }
    table
}

fn columns(row: &Row) -> [String; 11] {
    let figure = |text: String| if row.problem.is_some() { "-".to_owned() } else { text };
    let optional = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
    [
        row.mode.to_owned(),
        figure(format!("{:.2}", row.wall_seconds)),
        figure(format!("{:.2}", row.wall_ratio)),
        figure(format!("{:.2}", row.cpu_seconds)),
        figure(format!("{:.2}", row.cpu_ratio)),
        figure(format!("{:.0}", row.peak_rss_bytes / f64::from(1 << 20))),
        figure(format!("{:.2}", row.peak_rss_ratio)),
        optional(row.events.map(|events| format!("{:.1}", events as f64 / 1e6))),
        optional(row.bytes_per_event.map(|bytes| format!("{bytes:.2}"))),
        optional(row.hook_ns_per_event.map(|ns| format!("{ns:.1}"))),
        optional(row.worker_ns_per_event.map(|ns| format!("{ns:.1}"))),
    ]
}

/// What a row cannot say: why it has no figures, or fewer runs than the others.
fn notes(summary: &Summary, before: &str) {
    let most = summary.modes.iter().map(|row| row.runs).max().unwrap_or_default();
    for row in &summary.modes {
        if let Some(problem) = &row.problem {
            println!("{before}{}: no figures, {problem}.", row.mode);
        } else if row.runs < most {
            println!("{before}{}: so slow that it was run only {} time.", row.mode, row.runs);
        }
        if let (Some(ratio), Some(without)) = (row.without_stacks_ratio, row.without_stacks) {
            println!("{before}{}: {ratio:.3} times the wall time of `{without}`.", row.mode);
        }
    }
}

fn machine() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let value = |text: &str, key: &str| {
        let line = text.lines().find(|line| line.starts_with(key))?;
        Some(line.split(':').nth(1)?.trim().to_owned())
    };
    let cpu = value(&read("/proc/cpuinfo"), "model name").unwrap_or_else(|| "unknown CPU".into());
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let memory = value(&read("/proc/meminfo"), "MemTotal")
        .and_then(|kib| kib.trim_end_matches(" kB").parse::<u64>().ok())
        .unwrap_or_default();
    format!(
        "{cpu}, {cores} cores, {} GiB, Linux {}, {}, commit {}, load {} as the last run ended",
        memory >> 20,
        read("/proc/sys/kernel/osrelease").trim(),
        said("rustc", &["--version"]),
        said("git", &["rev-parse", "--short", "HEAD"]),
        read("/proc/loadavg").split(' ').next().unwrap_or_default(),
    )
}

fn said(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    text.ok().filter(|text| !text.is_empty()).unwrap_or_else(|| "unknown".to_owned())
}
