//! The first lines: the overall figures, and what is missing from them.

use super::style::Style;
use super::table::wrapped;
use super::{calls, findings, llm, over_time, rss};
use crate::findings as sentences;
use crate::missing::{lacks, untracked, word};
use crate::names::fit;
use crate::options::Options;
use crate::units::{bytes, count, counted, duration, percent};
use memledger_document::internal::MAX_REASONS;
use memledger_document::{CoverageWord, Losses, PeakMoment, Report};
use memledger_format::schema::untracked::FORK;
use memledger_format::words::escape;
use std::io::{self, Write};
use unicode_width::UnicodeWidthStr;

/// Columns of a line's name, with its margins.
const INDENT: usize = 15;
/// The heaps that a program has which is not in Rust.
const OF_ANY_PROGRAM: [&str; 3] = ["C", "Mapped", "Thread stacks"];
/// A set that has less than this share of the peak, in millionths, says nothing of it.
const MUCH: u64 = 100_000;
/// Columns of a program's name.
const PROGRAM: usize = 60;

/// What comes before findings: the overall figures, what is missing, and who has most of the peak.
pub(super) fn head(
    report: &Report,
    options: &Options,
    style: Style,
    out: &mut dyn Write,
) -> io::Result<()> {
    for line in wrapped(&headline(report, options), options.width, options.width) {
        writeln!(out, "{}", style.bold(&line))?;
    }
    let mut lines = Lines { width: options.width, out };
    alarms(report, style, &mut lines)?;
    if let Some(sentence) = llm::without_blocks(report) {
        lines.write("no blocks", &sentence)?;
    } else if report.trace.memory_recorded == Some(false) && report.totals.allocations == 0 {
        lines.write(
            "no figures",
            "the channel \"memory\" is not in this recording: neither allocations nor frees are. \
             MEMLEDGER_CHANNELS names the channels of a program, and has memory,scope by default",
        )?;
    } else {
        since(report, &mut lines)?;
        totals(report, options, &mut lines)?;
    }
    Ok(())
}

/// What comes after them.
pub(super) fn rest(report: &Report, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let mut lines = Lines { width: options.width, out };
    if let Some(text) = rss::line(report, options) {
        lines.write("resident", &text)?;
    }
    if let Some(line) = over_time::line(report) {
        lines.write("over time", &line)?;
    }
    if report.trace.coverage.word != CoverageWord::Incomplete
        && let Some(sentence) = untracked(report)
    {
        lines.write("untracked", &sentence)?;
    }
    if let Some(text) = children(report) {
        lines.write("children", &text)?;
    }
    mismatches(report, &mut lines)?;
    // A report that a program makes of itself.
    let is_asked = report.totals.allocations > 0 && report.findings.is_none();
    if is_asked && (options.findings || options.by.is_none()) {
        lines.write(
            "findings",
            "not looked for: they need each block, which a trace has (memledger report TRACE)",
        )?;
    }
    stacks(report, options, &mut lines)?;
    if report.trace.tracker_optimized == Some(false) {
        lines.write(
            "slow",
            "the tracker was built without optimisation; [profile.dev.package.memledger] \
             opt-level = 3 in Cargo.toml makes it 4 times as fast",
        )?;
    }
    if options.verbose { details(report, options, &mut lines) } else { Ok(()) }
}

/// The program, the duration, and whether the figures are complete.
pub(super) fn headline(report: &Report, options: &Options) -> String {
    let trace = &report.trace;
    let program = fit(&escape(trace.program.as_deref().unwrap_or("an unnamed program")), PROGRAM);
    let mut text = format!("Memory of {program}");
    if let Some(pid) = trace.pid {
        text.push_str(&format!(" (process {pid})"));
    }
    text.push_str(&format!(", {}", duration(trace.duration_ns)));
    if let Some(moment) = &options.moment {
        text.push_str(&format!(", as it was at {}", fit(&escape(moment), PROGRAM)));
    }
    text.push_str(&format!(", {}", word(report)));
    match report.losses {
        Losses { lost_unknown: true, .. } => text.push_str(", EVENTS LOST"),
        Losses { lost_events: 0, .. } => {}
        Losses { lost_events, .. } => {
            text.push_str(&format!(", {}", counted(lost_events, "EVENT LOST", "EVENTS LOST")));
        }
    }
    if trace.missed_at_start > 0 {
        let blocks = counted(trace.missed_at_start, "BLOCK", "BLOCKS");
        text.push_str(&format!(", START ESTIMATED TO {blocks}"));
    }
    text
}

/// What is missing, in the colour of an alarm.
pub(super) fn alarms(report: &Report, style: Style, lines: &mut Lines<'_>) -> io::Result<()> {
    for (name, sentence) in lacks(report) {
        let mut text = Vec::new();
        Lines { width: lines.width, out: &mut text }.write(name, &sentence)?;
        for line in String::from_utf8_lossy(&text).lines() {
            writeln!(lines.out, "{}", style.alarm(line))?;
        }
    }
    Ok(())
}

/// The time from which there are figures, unless that is the start of the process.
fn since(report: &Report, lines: &mut Lines<'_>) -> io::Result<()> {
    let trace = &report.trace;
    let since = duration(trace.recording_since_ns.unwrap_or(0));
    match trace.initial_live_blocks {
        Some(blocks) if trace.recording_since_ns > Some(0) => {
            let blocks = counted(blocks, "block was", "blocks were");
            let whole = match trace.from_process_start {
                Some(true) => "",
                _ => ". Blocks from before the program was watched at all are missing",
            };
            lines.write(
                "since",
                &format!("{since}; {blocks} live then (counted as allocated){whole}"),
            )
        }
        _ if trace.from_process_start == Some(false) => lines.write(
            "since",
            &format!("{since}, not from the start of the process: blocks from before are missing"),
        ),
        _ => Ok(()),
    }
}

fn totals(report: &Report, options: &Options, lines: &mut Lines<'_>) -> io::Result<()> {
    let totals = &report.totals;
    let live = match &options.moment {
        Some(_) => "live then",
        None => "live at end",
    };
    let peak_note = when_at_peak(&report.peak);
    let reallocations = counted(totals.reallocations, "reallocation", "reallocations");
    let at_once = percent(totals.short_lived, totals.allocations);
    let rows = [
        ("peak", totals.peak_bytes, totals.blocks_at_peak, peak_note),
        (live, totals.live_bytes, totals.live_blocks, where_live(report)),
        (
            "allocated",
            totals.allocated_bytes,
            totals.allocations,
            format!("{reallocations}, {at_once} freed before the next allocation"),
        ),
    ];
    let rows = rows.map(|(name, size, blocks, note)| (name, bytes(size), count(blocks), note));
    let sizes = rows.iter().map(|row| row.1.width()).max().unwrap_or(0);
    let counts = rows.iter().map(|row| row.2.width()).max().unwrap_or(0);
    for (name, size, blocks, note) in &rows {
        let unit = if blocks == "1" { "block " } else { "blocks" };
        if blocks == "0" {
            lines.write(name, "nothing")?;
        } else {
            lines.write_with(name, &format!("{size:>sizes$} in {blocks:>counts$} {unit}"), note)?;
        }
    }
    peak_by(report, options, lines)?;
    let mut unnamed = calls::unnamed(report);
    unnamed.try_for_each(|(word, sentence)| lines.write(word, sentence))?;
    not_named(report, lines)
}

/// Who has most of the peak, and how that went there.
fn peak_by(report: &Report, options: &Options, lines: &mut Lines<'_>) -> io::Result<()> {
    let Some(mut set) = report.find_peak_by() else { return Ok(()) };
    // What holds memory for no reason comes before the rest of the peak.
    if report.findings.iter().flatten().any(|finding| finding.weight_of.is_held()) {
        set.next.clear();
    }
    if set.weight < MUCH {
        return lines.write("peak by", "many: nothing has 10 % of it");
    }
    let places = std::iter::once(&set).chain(&set.next).map(|set| &set.place);
    let names = findings::names_in(places, options);
    let sentences = sentences::peak_by(&set, &|name| findings::shown(name, &names));
    let mut named = std::iter::once("peak by").chain(std::iter::repeat("")).zip(sentences);
    named.try_for_each(|(name, sentence)| lines.write(name, &sentence))
}

/// How much of the peak is in no scope and has no tag; where there is neither, and no call stack, how to name
/// memory.
fn not_named(report: &Report, lines: &mut Lines<'_>) -> io::Result<()> {
    let totals = &report.totals;
    let has_names = report.by_scope.len() > 1 || report.by_name.len() > 1;
    // A program without the tracker can have neither.
    let is_any = report.by_heap.iter().all(|heap| OF_ANY_PROGRAM.contains(&&*heap.name));
    let text = match totals.unnamed_bytes_at_peak {
        0 => return Ok(()),
        bytes if has_names => {
            let share = percent(bytes, totals.peak_bytes);
            format!("{share} of the peak is in no scope and has no tag")
        }
        _ if report.by_stack.any_taken() => return Ok(()),
        _ if is_any => "all of it: `memledger run --stacks` names functions".to_owned(),
        _ => "all of it: MEMLEDGER_STACKS=on names functions, and alloc_scope!(\"name\") in the program its parts"
            .to_owned(),
    };
    lines.write("not named", &text)
}

/// When the peak was, to the accuracy of the trace's times, and between which bookmarks, whose
/// order is exact.
fn when_at_peak(peak: &PeakMoment) -> String {
    let from = peak.from_ns;
    let mut text = match peak.to_ns {
        // The times differ by less than 1 %.
        Some(to) if to.saturating_sub(from) < to / 100 => format!("at {}", duration(from)),
        Some(to) if from == 0 => format!("in the first {}", duration(to)),
        Some(to) => format!("between {} and {}", duration(from), duration(to)),
        None => format!("after {}", duration(from)),
    };
    let name = |name: &String| format!("\"{}\"", fit(&escape(name), PROGRAM / 2));
    text += &match (peak.after_bookmark.as_ref(), peak.before_bookmark.as_ref()) {
        (None, None) => String::new(),
        (None, Some(next)) => format!(" (before {})", name(next)),
        (Some(last), None) => format!(" (after {})", name(last)),
        (Some(last), Some(next)) => format!(" (after {}, before {})", name(last), name(next)),
    };
    text
}

/// Where the live blocks are, if all of them are outside the program's scopes.
fn where_live(report: &Report) -> String {
    let mut live = report.by_scope.iter().filter(|row| row.figures.live_blocks > 0);
    match (live.next(), live.next()) {
        (Some(row), None) if row.path.len() == 1 && report.by_scope.len() > 1 => {
            format!("in no scope, the largest {}", bytes(row.largest_live_bytes))
        }
        _ => String::new(),
    }
}

/// Figures that do not match.
fn mismatches(report: &Report, lines: &mut Lines<'_>) -> io::Result<()> {
    let losses = &report.losses;
    let mut line = |title, number, one: &str, many: &str| match number {
        0 => Ok(()),
        _ => lines.write(title, &counted(number, one, many)),
    };
    line(
        "odd",
        losses.frees_of_earlier_blocks,
        "free of a block from before tracking began",
        "frees of blocks from before tracking began",
    )?;
    line("misuse", losses.scope_misuses, "scope misused", "scopes misused")?;
    match &report.trace.scopes_off[..] {
        _ if report.trace.memory_recorded == Some(false) => Ok(()),
        [] => Ok(()),
        [one, others @ ..] => {
            let more = match others.len() as u64 {
                0 => String::new(),
                more => format!(" and {} more", counted(more, "time", "times")),
            };
            let (from, to) = (duration(one.from_ns), duration(one.to_ns));
            lines.write(
                "no scopes",
                &format!(
                    "from {from} to {to}{more}: what was allocated then counts in no scope, since the \
                     channel \"scope\" was off"
                ),
            )
        }
    }
}

/// The children that are in no report.
fn children(report: &Report) -> Option<String> {
    const NAMED: usize = 4;
    let not_followed = &report.untracked.not_followed;
    let (forks, programs): (Vec<_>, Vec<_>) = not_followed.iter().partition(|name| **name == FORK);
    let names = programs
        .iter()
        .take(NAMED)
        .map(|program| escape(program.rsplit('/').next().unwrap_or(program)));
    let mut all: Vec<_> = names.collect();
    match programs.len().saturating_sub(NAMED) {
        0 => {}
        more if not_followed.len() < MAX_REASONS => all.push(format!("{more} other programs")),
        _ => all.push("other programs".to_owned()),
    }
    all.extend((!forks.is_empty()).then(|| "its forks and what they ran".to_owned()));
    (!all.is_empty()).then(|| {
        format!("not in this report: {} (memledger run --follow-children)", all.join(", "))
    })
}

/// Which blocks have stacks, and how many of these are not whole; less than 1 % of them only in a verbose
/// report.
fn stacks(report: &Report, options: &Options, lines: &mut Lines<'_>) -> io::Result<()> {
    if let Some(mean) = report.stack_sampling_bytes {
        lines.write(
            "stacks",
            &format!(
                "of a sample of blocks, one in {} on average: figures by stack, function and line \
                 are estimates. The ranges cover 95 of 100; all other figures are exact",
                bytes(mean)
            ),
        )?;
    }
    let losses = &report.losses;
    let reasons = [
        (losses.stacks_over_frame_limit, "over the frame limit"),
        (losses.stacks_without_unwind_information, "in code without unwind information"),
        (losses.stacks_unreadable, "in unreadable memory"),
        (losses.stacks_in_changed_libraries, "in libraries that came or went"),
    ];
    let cut: u64 = reasons.iter().map(|(stacks, _)| stacks).sum();
    let taken = report.by_stack.known();
    if cut > 0 && (options.verbose || cut.saturating_mul(100) >= taken) {
        let reasons = reasons.iter().filter(|(stacks, _)| *stacks > 0);
        let reasons = reasons.map(|(stacks, why)| format!("{} {why}", count(*stacks)));
        let (share, why) = (percent(cut, taken), reasons.collect::<Vec<_>>().join(", "));
        let text = format!("{share} of those taken lack their outer frames: {why}");
        lines.write("stacks", &text)?;
    }
    let guessed = losses.stacks_guessed;
    if guessed > 0 && (options.verbose || guessed.saturating_mul(100) >= taken) {
        let share = percent(guessed, taken);
        let text = format!(
            "{share} of those taken are a guess beyond code without unwind information ([frame pointer])"
        );
        lines.write("stacks", &text)?;
    }
    if losses.stacks_cut > 0 {
        let blocks = counted(losses.stacks_cut, "allocation", "allocations");
        let text = format!(
            "{blocks} of {} lack their inner frames: stacks had taken the memory that they may; raise MEMLEDGER_STACK_MEMORY, or sample",
            bytes(losses.stacks_cut_bytes)
        );
        lines.write("stacks", &text)?;
    }
    match losses.stacks_other {
        0 => Ok(()),
        other => {
            let blocks = counted(other, "allocation has", "allocations have");
            let text =
                format!("{blocks} the stack (other): the program's table of stacks was full");
            lines.write("stacks", &text)
        }
    }
}

/// Lines shown on request only.
fn details(report: &Report, options: &Options, lines: &mut Lines<'_>) -> io::Result<()> {
    let (trace, totals) = (&report.trace, &report.totals);
    lines.write("freed", &counted(totals.frees, "block", "blocks"))?;
    lines.write("most blocks", &format!("{} at once", count(totals.peak_blocks)))?;
    if let Some(overhead) = totals.overhead_bytes {
        lines.write("the tracker", &format!("{} of its own", bytes(overhead)))?;
    }
    lines.write("events", &count(trace.events))?;
    if trace.time_resolution_ns > 0 {
        lines.write("times", &format!("accurate to {}", duration(trace.time_resolution_ns)))?;
    }
    let after = report.after_report;
    if after.allocations + after.frees > 0 {
        let allocations = counted(after.allocations, "allocation", "allocations");
        let frees = counted(after.frees, "free", "frees");
        lines.write("afterwards", &format!("{allocations} and {frees}, not counted"))?;
    }
    if after.in_flight > 0 {
        let calls = counted(after.in_flight, "call", "calls");
        let text = format!("{calls} of the allocator at the end, at most; not counted");
        lines.write("in flight", &text)?;
    }
    let mut title = "bookmarks";
    for bookmark in report.bookmarks.iter().take(options.top) {
        let at = duration(bookmark.at_ns);
        lines.write(title, &format!("{at}: {}", escape(&bookmark.name)))?;
        title = "";
    }
    let more = report.bookmarks.len().saturating_sub(options.top);
    if more > 0 {
        lines.write("", &format!("and {} more", count(more as u64)))?;
    }
    Ok(())
}

/// Lines of a name and a value.
pub(super) struct Lines<'a> {
    pub(super) width: usize,
    pub(super) out: &'a mut dyn Write,
}

impl Lines<'_> {
    /// Writes `name` and `value`; a long value takes further lines.
    pub(super) fn write(&mut self, name: &str, value: &str) -> io::Result<()> {
        self.write_with(name, "", value)
    }

    /// Writes the same, with `figures` before the value. If a line has no room for both, the value
    /// has lines of its own.
    fn write_with(&mut self, name: &str, figures: &str, value: &str) -> io::Result<()> {
        let room = self.width.saturating_sub(INDENT);
        let mut name = name;
        let mut line = |text: &str| {
            let text = format!("  {name:<width$}{text}", width = INDENT - 2);
            name = "";
            writeln!(self.out, "{}", text.trim_end())
        };
        let both = format!("{figures}   {value}");
        if !figures.is_empty() && (value.is_empty() || both.width() <= room) {
            return line(&both);
        }
        if !figures.is_empty() {
            line(figures)?;
        }
        wrapped(value, room, room).iter().try_for_each(|text| line(text))
    }
}
