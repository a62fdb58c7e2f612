//! Facts and findings as sentences: what was seen, and what to do about it.

use crate::names::{short, shown_scope};
use crate::units::{age, bytes, count, counted, duration, percent};
use memledger_document::{
    Course, FigureSource, Finding, FindingKind, FreedBy, PeakBy, Place, SourceLines, Trend, Unit,
    WeightOf, short_path,
};
use memledger_format::words::escape;

/// What is said of a kind. Names in braces are figures; `{blocks:block|blocks}` counts something; a part in
/// brackets is left out if one of its figures is missing.
struct Template {
    kind: FindingKind,
    /// In two or three words.
    heading: &'static str,
    /// What was seen.
    witness: &'static str,
    /// What to do about it: the first of which no figure is missing.
    advice: &'static [&'static str],
}

const TEMPLATES: [Template; 7] = [
    Template {
        kind: FindingKind::LeftBehind,
        heading: "left behind",
        witness: "{blocks:block|blocks} ({bytes}) not freed, {mean_age_ns} old on average, while {freed:other|others} \
                  from the same place were, 95 % of them within {freed_within_ns}[, and {freed_at_end} more as the \
                  program ended][. One in {one_in} is left[ at \
                  {sites:call stack|each of {sites} call stacks}]]",
        advice: &["Most blocks of this place are freed: find the way on which these are not"],
    },
    Template {
        kind: FindingKind::NoLongerFreed,
        heading: "no longer freed",
        witness: "until {at_ns}, {freed:block was|blocks were} freed, 95 % of them within {freed_within_ns}; since \
                  then {blocks:block|blocks} ({bytes}) came, and none was freed",
        advice: &["Find what freed them until {at_ns}, and why it stopped"],
    },
    Template {
        kind: FindingKind::Queue,
        heading: "long queue",
        witness: "{passed} of {freed:freed block|freed blocks} were freed by other threads[, most by {to}]; \
                  {blocks:block was|blocks were} live at the peak ({bytes}). The median lived {median_ns}",
        advice: &["Bound what waits between the threads, or make the one that frees faster"],
    },
    Template {
        kind: FindingKind::Temporary,
        heading: "temporary",
        witness: "{bytes} in {blocks:block|blocks} were freed after the peak, 95 % of them within {lived_ns}, while \
                  {other_bytes} of {beside} stayed",
        advice: &["Make and free it piece by piece: then less of it is in the peak"],
    },
    Template {
        kind: FindingKind::AgainAndAgain,
        heading: "again and again",
        witness: "{calls:call|calls} of the allocator for {allocated_bytes}, of which never more than \
                  {most_live_bytes} were live",
        advice: &[
            "Where the result is the same each time, keep it; otherwise use the memory again",
        ],
    },
    Template {
        kind: FindingKind::GrowsStepwise,
        heading: "grows stepwise",
        witness: "{blocks:block|blocks} grew {growths:time|times}[; {moved:time|times} to another address, copying up \
                  to {copied_bytes}]. The largest became {largest_bytes}",
        advice: &[
            "Reserve {reserve_bytes} when it is made[: {covered} of {blocks:block|blocks} never needed more]",
        ],
    },
    Template {
        kind: FindingKind::Fragmentation,
        heading: "fragmentation",
        witness: "the allocator keeps {about}{kept_bytes} that was freed, of {resident_bytes} resident[ at \
                  {before_end_ns}, before the program freed what it had], with {live_bytes} live[. Between it lie \
                  {blocks:live block|live blocks} of this place, in {pages:page|pages}]",
        advice: &[
            "Give these {blocks:block|blocks} a pool of their own, or allocate them before the rest",
            "Hold less at once; malloc_trim(0) asks glibc, if it is that, to give back what it can",
        ],
    },
];

/// Figures that are quantiles of how long blocks lived.
const QUANTILES: [&str; 3] = ["freed_within_ns", "lived_ns", "median_ns"];

fn template(finding: &Finding) -> &'static Template {
    let of_kind = TEMPLATES.iter().find(|template| template.kind == finding.kind);
    of_kind.unwrap_or(&TEMPLATES[0])
}

/// What was seen, with the figures: one or two sentences without their last full stop.
pub fn evidence(finding: &Finding) -> String {
    let of_sample = if finding.is_of_sample { "In the sample of blocks: " } else { "" };
    of_sample.to_owned() + &filled(template(finding).witness, finding).unwrap_or_default()
}

/// What to do about it: one sentence without its full stop.
pub fn suggestion(finding: &Finding) -> String {
    let advice = template(finding).advice;
    advice.iter().find_map(|text| filled(text, finding)).unwrap_or_default()
}

/// Its kind in two or three words, as a heading.
pub fn heading(finding: &Finding) -> &'static str {
    template(finding).heading
}

/// A template with the figures of a finding; `None` if one is missing outside of brackets.
fn filled(template: &str, finding: &Finding) -> Option<String> {
    let mut text = String::new();
    let mut rest = template;
    while let Some(at) = rest.find(['{', '[']) {
        text += &rest[..at];
        let is_hole = rest.as_bytes()[at] == b'{';
        let inner = &rest[at + 1..];
        let end = end_of(inner, if is_hole { b'{' } else { b'[' })?;
        let part = &inner[..end];
        rest = &inner[end + 1..];
        match is_hole {
            true => text += &hole(part, finding)?,
            false => text += &filled(part, finding).unwrap_or_default(),
        }
    }
    Some(text + rest)
}

/// The end of a part that begins with such a bracket.
fn end_of(text: &str, open: u8) -> Option<usize> {
    let close = if open == b'{' { b'}' } else { b']' };
    let mut depth = 0;
    text.bytes().position(|byte| {
        depth += i32::from(byte == open) - i32::from(byte == close);
        depth < 0
    })
}

/// Fills a hole: `key`, or `key:one|several`.
fn hole(part: &str, finding: &Finding) -> Option<String> {
    let (key, words) = part.split_once(':').map_or((part, None), |(key, words)| (key, Some(words)));
    match key {
        "beside" => return finding.beside.as_ref().map(|name| escape(&short(name))),
        "to" => return to(finding),
        "about" => {
            let is_estimate =
                finding.figures.first().is_some_and(|it| it.source == FigureSource::Smaps);
            return Some(if is_estimate { "about " } else { "" }.to_owned());
        }
        _ => {}
    }
    let figure = finding.figures.iter().find(|figure| figure.key == key)?;
    let value = figure.value;
    let Some((one, several)) = words.and_then(|words| words.split_once('|')) else {
        return Some(match figure.unit {
            Unit::Bytes => bytes(value),
            // Quantiles are no times.
            Unit::Nanoseconds if QUANTILES.contains(&key) => age(value),
            Unit::Nanoseconds => duration(value),
            _ => count(value),
        });
    };
    match several.contains('{') {
        true if value == 1 => Some(format!("its {one}")),
        true => filled(several, finding),
        false => Some(counted(value, one, several)),
    }
}

/// In a sentence, after a percentage.
pub(crate) fn words(of: WeightOf) -> &'static str {
    match of {
        WeightOf::Calls => "of all allocations and reallocations",
        WeightOf::AllocatedBytes => "of all allocated bytes",
        WeightOf::Peak => "of the peak",
        WeightOf::Resident => "of the resident memory",
    }
}

/// The key of this figure in the totals of the JSON, if it is one of these.
pub(crate) fn key(of: WeightOf) -> &'static str {
    match of {
        WeightOf::Calls => "calls",
        WeightOf::AllocatedBytes => "allocated_bytes",
        WeightOf::Peak => "peak_bytes",
        WeightOf::Resident => "resident_memory",
    }
}

/// The thread that freed most of what others allocated.
fn to(finding: &Finding) -> Option<String> {
    let FreedBy { thread, name, .. } = finding.freed_by.iter().find(|row| !row.is_own)?;
    // A thread without a name of its own has that of the program.
    let is_alike = finding.place.thread.as_ref().is_some_and(|(_, from)| from == name);
    Some(match &**name {
        "" => format!("thread {thread}"),
        name if is_alike => format!("{} ({thread})", escape(name)),
        name => escape(name),
    })
}

/// A place: the function and its lines, and who calls it. `shown` gives the name of a function.
pub(crate) fn functions(place: &Place, shown: &dyn Fn(&str) -> String) -> Option<String> {
    let function = place.function.as_deref()?;
    let mut file = None;
    let mut text = shown(function) + &lines(&place.source, &mut file);
    if let [(_, first), rest @ ..] = &place.shares[..] {
        text += &format!(" {}", percent(*first, 1_000_000));
        for (name, share) in rest {
            text += &format!(", {} {}", shown(name), percent(*share, 1_000_000));
        }
    }
    for caller in &place.callers {
        text += &format!(" < {}{}", shown(&caller.function), lines(&caller.source, &mut file));
    }
    Some(text)
}

/// Lines such as ` (main.rs:29, :31)`: the file is left out where it is the one before.
fn lines<'a>(source: &'a SourceLines, before: &mut Option<&'a str>) -> String {
    let Some(file) = source.file.as_deref().filter(|_| !source.lines.is_empty()) else {
        return String::new();
    };
    let is_same = before.replace(file) == Some(file);
    let mut shown = if is_same { String::new() } else { escape(short_path(file)) };
    for (at, line) in source.lines.iter().enumerate() {
        shown += &format!("{}:{line}", if at > 0 { ", " } else { "" });
    }
    format!(" ({shown})")
}

/// The fact of who has most of the peak: the place, and what is there; a line for each, if how it went is
/// known. A line for each other set.
pub(crate) fn peak_by(set: &PeakBy, shown: &dyn Fn(&str) -> String) -> Vec<String> {
    let place = |set: &PeakBy| {
        let scope = || escape(&shown_scope(&set.place.scope));
        let place = functions(&set.place, shown).unwrap_or_else(scope);
        format!("{} {place}", percent(set.weight, 1_000_000))
    };
    let first = match set.course {
        Some(_) => vec![place(set), peak_evidence(set)],
        None => vec![format!("{}: {}", place(set), peak_evidence(set))],
    };
    let next = set.next.iter().map(|set| {
        let course = set.course.map_or(String::new(), |course| {
            let freed = if course.freed == 0 { "; none was freed" } else { "" };
            format!(", {}{freed}", trend(course.trend))
        });
        format!("{}: {}{course}", place(set), blocks_of(set))
    });
    first.into_iter().chain(next).collect()
}

/// The blocks that most of the peak is, and how they went.
pub(crate) fn peak_evidence(set: &PeakBy) -> String {
    let course = set.course.as_ref().map_or(String::new(), |it| format!(", {}", course(set, it)));
    blocks_of(set) + &course
}

fn blocks_of(set: &PeakBy) -> String {
    let each = match set.course.and_then(|course| course.size) {
        Some(size) if set.blocks > 1 => format!(" of {} each", bytes(size)),
        _ => format!(" ({})", bytes(set.bytes)),
    };
    counted(set.blocks, "block", "blocks") + &each
}

fn trend(trend: Trend) -> String {
    match trend {
        Trend::Flat => "flat".to_owned(),
        Trend::Rising { since_ns, bytes_per_s } => {
            format!("rising to the end, from {} on by {}/s", duration(since_ns), bytes(bytes_per_s))
        }
        Trend::RoseUntil(until) => format!("rose until {}, flat since", duration(until)),
        Trend::Falls(0) => "gone at the end".to_owned(),
        Trend::Falls(left) => format!("fell to {} at the end", bytes(left)),
    }
}

fn course(set: &PeakBy, course: &Course) -> String {
    let since = duration(course.since_ns);
    let freed = match course.freed {
        0 => "none was freed before the end".to_owned(),
        // What a table has given up as it grew, say.
        freed if freed.saturating_mul(20) < set.blocks => {
            "hardly any was freed before the end".to_owned()
        }
        freed => format!(
            "{} freed before the end, half of them within {}",
            counted(freed, "block was", "blocks were"),
            age(course.median_ns)
        ),
    };
    format!("from {since} on, {}; {freed}", trend(course.trend))
}

#[cfg(test)]
mod tests;
