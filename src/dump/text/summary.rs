//! The lines at the top: what happened over all.

use super::escape;
use super::table::{WIDTH, fit};
use super::units::{bytes, count, counted, duration, share};
use super::{Options, Style};
use crate::analysis::Report;
use std::io::{self, Write};

/// Where the values start.
const INDENT: usize = 25;

pub(super) fn write(
    report: &Report,
    options: &Options,
    style: Style,
    out: &mut dyn Write,
) -> io::Result<()> {
    let (trace, totals) = (&report.trace, &report.totals);
    let program = trace.program.as_deref().unwrap_or("an unnamed program");
    let mut title = format!("Memory of {}", escape(program));
    if let Some(pid) = trace.pid {
        title.push_str(&format!(" (process {pid})"));
    }
    writeln!(out, "{}\n", style.bold(&fit(&title, WIDTH)))?;

    let mut line = |name: &str, value: &str| write_line(name, value, out);
    let events = counted(trace.events, "event", "events");
    line("traced", &format!("{}, {events}", duration(trace.duration_ns)))?;
    let live = match &options.moment {
        Some(moment) => fit(&format!("live at {}", escape(moment)), INDENT - 3),
        None => "still live at the end".to_owned(),
    };
    let held = |size, blocks| format!("{} in {}", bytes(size), counted(blocks, "block", "blocks"));
    line(&live, &held(totals.live_bytes, totals.live_blocks))?;
    let peak = held(totals.peak_bytes, totals.blocks_at_peak);
    line("peak", &format!("{peak}, after {}", duration(totals.peak_bytes_at_ns)))?;
    let reallocations = counted(totals.reallocations, "reallocation", "reallocations");
    let allocations = counted(totals.allocations, "allocation", "allocations");
    line(
        "allocated",
        &format!("{} in {allocations}, {reallocations}", bytes(totals.allocated_bytes)),
    )?;
    line("freed", &counted(totals.frees, "block", "blocks"))?;
    let short = share(totals.short_lived, totals.allocations);
    line("short-lived", &format!("{} ({short} of all allocations)", count(totals.short_lived)))?;
    if let Some(overhead) = totals.overhead_bytes {
        line("the tracker itself", &bytes(overhead))?;
    }
    if trace.time_resolution_ns > 0 {
        line("times are accurate to", &duration(trace.time_resolution_ns))?;
    }
    if trace.tracker_optimized == Some(false) {
        line(
            "slow",
            "the tracker was built without optimisation; [profile.dev.package.memledger] \
             opt-level = 3 in Cargo.toml makes it 4 times as fast",
        )?;
    }
    if trace.from_process_start == Some(false) {
        line("not from the start", "blocks from before tracking began are missing")?;
    }
    losses(report, style, out)?;
    let after = report.after_report;
    if after.allocations + after.frees > 0 {
        let allocations = counted(after.allocations, "allocation", "allocations");
        let frees = counted(after.frees, "free", "frees");
        write_line("after the report", &format!("{allocations} and {frees}, not counted"), out)?;
    }
    bookmarks(report, options, out)
}

/// The moments that the program has named; of many, the first.
fn bookmarks(report: &Report, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let mut title = "bookmarks";
    for bookmark in report.bookmarks.iter().take(options.top) {
        let at = duration(bookmark.at_ns);
        write_line(title, &format!("{at}: {}", escape(&bookmark.name)), out)?;
        title = "";
    }
    let more = report.bookmarks.len().saturating_sub(options.top);
    if more > 0 {
        write_line("", &format!("and {} more", count(more as u64)), out)?;
    }
    Ok(())
}

/// `name` and `value`; a value that is too long goes on in the next line.
fn write_line(name: &str, value: &str, out: &mut dyn Write) -> io::Result<()> {
    let mut name = name;
    let mut line = String::new();
    for word in value.split(' ') {
        if !line.is_empty() && INDENT + line.chars().count() + 1 + word.chars().count() > WIDTH {
            writeln!(out, "  {name:<width$}{line}", width = INDENT - 2)?;
            (name, line) = ("", String::new());
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    writeln!(out, "  {name:<width$}{line}", width = INDENT - 2)
}

/// What is missing: loud if anything is.
fn losses(report: &Report, style: Style, out: &mut dyn Write) -> io::Result<()> {
    let losses = &report.losses;
    let mut loud = Vec::new();
    if losses.lost_events > 0 || losses.lost_unknown {
        let holes = match losses.serial_holes {
            0 => String::new(),
            holes => format!(" ({})", counted(holes, "hole", "holes")),
        };
        let lost = match losses.lost_unknown {
            true => "AN UNKNOWN NUMBER OF EVENTS".to_owned(),
            false => counted(losses.lost_events, "EVENT", "EVENTS"),
        };
        loud.push(format!("{lost} LOST{holes}: the figures are too low where they are missing"));
    }
    if losses.truncated_bytes > 0 {
        let bytes = counted(losses.truncated_bytes, "byte", "bytes");
        loud.push(format!("{bytes} of the trace could not be read"));
    }
    if loud.is_empty() && report.trace.complete {
        write_line("losses", "nothing lost", out)?;
    } else if loud.is_empty() {
        loud.push(
            "the trace ends before the writer's report: the program did not end by itself, or \
             the trace was cut"
                .to_owned(),
        );
    }
    for sentence in loud {
        let mut text = Vec::new();
        write_line("LOSSES", &sentence, &mut text)?;
        for line in String::from_utf8_lossy(&text).lines() {
            writeln!(out, "{}", style.alarm(line))?;
        }
    }
    let mut odd = |number, one: &str, many: &str| match number {
        0 => Ok(()),
        _ => write_line("odd", &counted(number, one, many), out),
    };
    odd(
        losses.unmatched_frees,
        "free of a block never allocated",
        "frees of blocks never allocated",
    )?;
    odd(
        losses.frees_of_earlier_blocks,
        "free of a block from before tracking began",
        "frees of blocks from before tracking began",
    )?;
    odd(
        losses.duplicate_allocations,
        "allocation where a block was still live",
        "allocations where a block was still live",
    )?;
    odd(losses.scope_misuses, "scope left in the wrong order", "scopes left in the wrong order")
}
