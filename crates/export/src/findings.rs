//! Findings as sentences: what was seen, and what to do about it.

use crate::names::{is_untagged, short, shown_scope};
use crate::units::{bytes, count, counted, duration, percent};
use memledger_document::{
    Finding, FindingKind, FreedBy, FreedIn, GrowsUntil, LiveAt, PeakPart, Place, WeightOf,
};
use memledger_format::words::escape;

/// Blocks of which at least this share of the peak is, in millionths, need no advice to be larger.
const MUCH_OF_PEAK: u64 = 250_000;

/// What was seen, with the figures: one or two sentences without their last full stop.
pub fn evidence(finding: &Finding) -> String {
    let of_sample = if finding.is_of_sample { "In the sample of blocks: " } else { "" };
    let text = match &finding.kind {
        FindingKind::Grows { blocks, growths, moved, copied_bytes, largest_bytes, .. } => {
            let copied = match moved {
                0 => ", each time in place".to_owned(),
                _ => format!(
                    "; {} to another address, copying up to {}",
                    counted(*moved, "time", "times"),
                    bytes(*copied_bytes)
                ),
            };
            let largest = bytes(*largest_bytes);
            format!(
                "{} grew {}{copied}. The largest became {largest}",
                counted(*blocks, "block", "blocks"),
                counted(*growths, "time", "times"),
            )
        }
        FindingKind::Reallocates { reallocations, allocations: 0 } => {
            counted(*reallocations, "reallocation", "reallocations")
        }
        FindingKind::Reallocates { reallocations, allocations } => format!(
            "{}, and {}",
            counted(*reallocations, "reallocation", "reallocations"),
            counted(*allocations, "allocation", "allocations"),
        ),
        FindingKind::ShortLived { blocks, of, bytes: size } => {
            let size = size.map_or(String::new(), |size| {
                format!(", {} each on average", bytes(size / (*blocks).max(1)))
            });
            let blocks = of_all(*blocks, *of, "block", "blocks");
            format!("{blocks} ended before their thread allocated again{size}")
        }
        FindingKind::Shrinks { blocks, bytes_before, bytes_after } => {
            let blocks_text = counted(*blocks, "block was", "blocks were");
            let each = |all: u64| bytes(all / (*blocks).max(1));
            format!(
                "{blocks_text} made smaller at the end, on average from {} to {}: {} given back",
                each(*bytes_before),
                each(*bytes_after),
                bytes(bytes_before.saturating_sub(*bytes_after)),
            )
        }
        FindingKind::LeftBehind { blocks, bytes: size, freed, mean_age_ns, freed_within_ns } => {
            let within = match freed_within_ns {
                0..2 => "no measurable time".to_owned(),
                _ => format!("less than {}", duration(*freed_within_ns)),
            };
            let live = counted(*blocks, "block is", "blocks are");
            format!(
                "{live} still live with {}, {} old on average, while {} others were freed, \
                 95 % of them after {within}",
                bytes(*size),
                duration(*mean_age_ns),
                count(*freed),
            )
        }
        FindingKind::OnlyGrows { moments, blocks, until } => only_grows(moments, *blocks, *until),
        FindingKind::HoldsPeak { first, second } => {
            let all = bytes_of_whole(finding);
            let part = |of: &PeakPart| percent(of.bytes, all);
            format!(
                "{} of the peak is below {}, and {} below {}: both are live at once, and all of the \
                 second came while the first stayed",
                part(first),
                at_line(&first.name, first.file.as_deref(), first.line),
                part(second),
                at_line(&second.name, second.file.as_deref(), second.line),
            )
        }
        FindingKind::StaysAfterPeak {
            bytes: stays,
            blocks,
            live_bytes,
            peak_bytes,
            peak_at_ns,
        } => format!(
            "live bytes fell from {} at the peak ({}) to {}; {} of these came with the peak in {}, and stay",
            bytes(*peak_bytes),
            duration(*peak_at_ns),
            bytes(*live_bytes),
            bytes(*stays),
            counted(*blocks, "block", "blocks"),
        ),
        FindingKind::KeptByMalloc {
            kept_bytes,
            returnable_bytes,
            resident_bytes,
            live_bytes,
            before_end_ns,
            is_estimate,
            blocks,
            pages,
        } => {
            let when = before_end_ns.map_or_else(String::new, |at| {
                format!(" at {}, before the program freed what it had", duration(at))
            });
            let (about, trim) = match is_estimate {
                true => ("about ", "malloc_trim of glibc"),
                false => ("", "malloc_trim"),
            };
            let between = match blocks {
                0 => String::new(),
                _ => format!(
                    ". It lies between {} of {} in {}",
                    counted(*blocks, "live block", "live blocks"),
                    place_of(&finding.place),
                    counted(*pages, "page", "pages"),
                ),
            };
            format!(
                "malloc keeps {about}{} that was freed, of {} resident{when}, with {} live; about {} of it \
                 could be returned ({trim}){between}",
                bytes(*kept_bytes),
                bytes(*resident_bytes),
                bytes(*live_bytes),
                bytes(*returnable_bytes),
            )
        }
        FindingKind::OneSize { size, blocks, of, at_peak, overhead_bytes } => format!(
            "{} have {size} bytes, and {} were live at the peak; glibc adds about {} to these",
            of_all(*blocks, *of, "block", "blocks"),
            count(*at_peak),
            bytes(*overhead_bytes),
        ),
        FindingKind::RoundsUp { size, class_below, class, blocks, of, at_peak } => format!(
            "{} have {} bytes, {} more than the size class of {}. An allocator with four classes in \
             each doubling, such as jemalloc, gives each {}; the {} that were live at the peak waste {}",
            of_all(*blocks, *of, "block", "blocks"),
            count(*size),
            size - class_below,
            count(*class_below),
            count(*class),
            count(*at_peak),
            bytes(at_peak.saturating_mul(class - size)),
        ),
        FindingKind::FreedElsewhere {
            blocks,
            of,
            waiting,
            waiting_bytes,
            median_ns,
            freed_by,
            freed_in,
        } => {
            let threads = passed(finding.place.thread.as_ref(), freed_by);
            format!(
                "{} were passed{threads}, which freed them{}; {} ({}) waited at once at the peak, and half \
                 of all lived longer than {}",
                of_all(*blocks, *of, "freed block", "freed blocks"),
                scopes(freed_in),
                count(*waiting),
                bytes(*waiting_bytes),
                duration(*median_ns),
            )
        }
    };
    format!("{of_sample}{text}")
}

/// What to do about it: one sentence without its full stop.
pub fn suggestion(finding: &Finding) -> String {
    match &finding.kind {
        FindingKind::Grows { reserve_bytes, blocks, peak_millionths, .. } => {
            reserve(finding, *reserve_bytes, *blocks, *peak_millionths)
        }
        FindingKind::Reallocates { .. } => {
            "Reserve the size that is needed when the block is made".to_owned()
        }
        FindingKind::ShortLived { .. } => "Reuse one buffer, or do without the block".to_owned(),
        FindingKind::Shrinks { .. } => {
            "Allocate the size that is needed, if it is known before".to_owned()
        }
        FindingKind::LeftBehind { .. } => {
            "Look for who still holds them: unless they are meant to stay, they are a leak"
                .to_owned()
        }
        FindingKind::OnlyGrows { .. } => {
            "If it is a cache or a queue, give it a limit; if it is the result, all is well"
                .to_owned()
        }
        FindingKind::HoldsPeak { first, .. } => {
            format!("Free {} before that, or make both piece by piece", escape(&short(&first.name)))
        }
        FindingKind::StaysAfterPeak { .. } => {
            "Shrink it when most of what it was for is gone, or make it anew".to_owned()
        }
        FindingKind::KeptByMalloc { kept_bytes, returnable_bytes, blocks, .. } => {
            if *blocks == 0 || returnable_bytes.saturating_mul(2) >= *kept_bytes {
                "Call malloc_trim(0) after such a phase, or keep less at once".to_owned()
            } else {
                "Give the blocks that stay a pool of their own, or allocate them before the others"
                    .to_owned()
            }
        }
        FindingKind::OneSize { .. } => {
            "Keep them in one Vec or an arena instead of a block each".to_owned()
        }
        FindingKind::RoundsUp { class_below, .. } => {
            format!(
                "Keep the block within {} bytes, with any header that is part of it",
                count(*class_below)
            )
        }
        FindingKind::FreedElsewhere { .. } => {
            "Bound the queue between them, or make its reader faster".to_owned()
        }
    }
}

/// The suggestion for a finding of blocks that grow: a container, or several of one scope.
fn reserve(finding: &Finding, reserve_bytes: u64, blocks: u64, peak_millionths: u64) -> String {
    let size = bytes(reserve_bytes);
    if !is_one_container(finding) {
        // A scope has containers of many kinds.
        return format!(
            "Reserve what they need when they are made: {size} is enough for 9 in 10. A recording \
             with call stacks says which they are"
        );
    }
    if peak_millionths >= MUCH_OF_PEAK {
        // What is too large is not to be made so from the start.
        let share = percent(peak_millionths, 1_000_000);
        return format!(
            "Its blocks are {share} of the peak: shrink them when a burst is over; reserve only what is always needed"
        );
    }
    let enough = if blocks == 1 { "" } else { ", which is enough for 9 in 10" };
    let calls = counted(finding.calls, "reallocation", "reallocations");
    format!("Reserve {size} when it is made{enough}; this saves {calls}")
}

/// What its bytes are a share of.
fn bytes_of_whole(finding: &Finding) -> u64 {
    let whole = u128::from(finding.bytes) * 1_000_000 / u128::from(finding.weight.max(1));
    u64::try_from(whole).unwrap_or(u64::MAX)
}

/// Whether its place says more than the scope: one line of code, or one tag.
fn is_one_container(finding: &Finding) -> bool {
    let place = &finding.place;
    let tag = |name: &String| !is_untagged(&place.group, name);
    place.function.is_some() || place.name.as_ref().is_some_and(tag)
}

/// Its kind in two words, as a heading.
pub fn heading(finding: &Finding) -> &'static str {
    match finding.kind {
        FindingKind::Grows { .. } => "grows stepwise",
        FindingKind::Reallocates { .. } => "reallocates often",
        FindingKind::ShortLived { .. } => "short-lived blocks",
        FindingKind::Shrinks { .. } => "shrinks again",
        FindingKind::LeftBehind { .. } => "left behind",
        FindingKind::OnlyGrows { .. } => "only grows",
        FindingKind::HoldsPeak { .. } => "live together",
        FindingKind::KeptByMalloc { .. } => "malloc keeps",
        FindingKind::StaysAfterPeak { .. } => "never shrinks",
        FindingKind::OneSize { .. } => "one size",
        FindingKind::RoundsUp { .. } => "rounds up",
        FindingKind::FreedElsewhere { .. } => "long queue",
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

/// `3 of 4 blocks`, `all 4 blocks`.
fn of_all(part: u64, of: u64, one: &str, several: &str) -> String {
    match part == of {
        true => format!("all {}", counted(of, one, several)),
        false => format!("{} of {}", count(part), counted(of, one, several)),
    }
}

fn only_grows(moments: &[LiveAt], blocks: u64, until: GrowsUntil) -> String {
    let (Some(first), Some(last)) = (moments.first(), moments.last()) else { return String::new() };
    let (end, note) = match until {
        GrowsUntil::End { youngest_ns, median_ns } => (
            format!("after {}", duration(last.at_ns)),
            format!(
                "all are live still: the youngest is {} old, and half are older than {}",
                duration(youngest_ns),
                duration(median_ns)
            ),
        ),
        GrowsUntil::Peak => (
            format!("at the peak ({})", duration(last.at_ns)),
            "not freed before the program ended".to_owned(),
        ),
    };
    format!(
        "rose throughout the run, from {} at {} to {} in {} {end}; {note}",
        bytes(first.live_bytes),
        duration(first.at_ns),
        bytes(last.live_bytes),
        counted(blocks, "block", "blocks"),
    )
}

/// A function with the place of its call in the last part of the path, such as `clean (main.rs:29)`.
pub(crate) fn at_line(name: &str, file: Option<&str>, line: Option<u32>) -> String {
    let name = escape(&short(name));
    match file.zip(line) {
        Some((file, line)) => {
            let file = file.rsplit('/').next().unwrap_or(file);
            format!("{name} ({}:{line})", escape(file))
        }
        None => name,
    }
}

/// The function of a place with its line, or its scope.
fn place_of(place: &Place) -> String {
    match &place.function {
        Some(function) => at_line(function, place.file.as_deref(), place.line),
        None => escape(&shown_scope(&place.scope)),
    }
}

/// In which scope most were freed, if that is known, and not the one they were allocated in.
fn scopes(freed_in: &[FreedIn]) -> String {
    let Some(most) = freed_in.iter().find(|row| !row.is_same()) else { return String::new() };
    let path = |path: &[String]| escape(&shown_scope(path));
    let (from, to) = (path(&most.allocated_in), path(&most.freed_in));
    format!("; {} of {from} were freed in {to}", count(most.blocks))
}

/// From which thread blocks were passed, if that is one, and to which most of them.
fn passed(from: Option<&(u32, String)>, freed_by: &[FreedBy]) -> String {
    let to = freed_by.iter().find(|row| !row.is_own);
    // A thread without a name of its own has that of the program.
    let alike = to.zip(from).is_some_and(|(to, (_, from))| to.name == *from);
    let name = |id: u32, name: &str| match thread(id, name) {
        text if alike && !name.is_empty() => format!("{text} ({id})"),
        text => text,
    };
    let from = from.map_or(String::new(), |(id, of)| format!(" from {}", name(*id, of)));
    let to = to.map_or(String::new(), |row| format!(" to {}", name(row.thread, &row.name)));
    from + &to
}

/// A thread by its name, or by its number.
fn thread(id: u32, name: &str) -> String {
    match name {
        "" => format!("thread {id}"),
        name => escape(name),
    }
}

#[cfg(test)]
mod tests;
