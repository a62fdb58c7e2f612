//! Findings as sentences: what was seen, and what to do about it.

use super::text::{bytes, count, counted, duration, is_untagged, within_global};
use crate::analysis::{Finding, FindingKind, FreedBy, FreedIn, LiveAt, WeightOf};

impl Finding {
    /// What was seen, with the figures: one or two sentences without their last full stop.
    pub fn evidence(&self) -> String {
        let of_sample = if self.is_of_sample { "In the sample of blocks: " } else { "" };
        let text = match &self.kind {
            FindingKind::Grows { blocks, growths, moved, copied_bytes, largest_bytes, .. } => {
                let copied = match moved {
                    0 => "all in place".to_owned(),
                    _ => format!("{} moved, copying up to {}", count(*moved), bytes(*copied_bytes)),
                };
                let largest = bytes(*largest_bytes);
                format!(
                    "{} grew {}, {copied}; the largest became {largest}",
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
                format!("{} ended before their thread allocated again{size}", of_all(*blocks, *of))
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
            FindingKind::LeftBehind {
                blocks,
                bytes: size,
                freed,
                mean_age_ns,
                freed_within_ns,
            } => {
                let within = match freed_within_ns {
                    0..2 => "no measurable time".to_owned(),
                    _ => format!("less than {}", duration(*freed_within_ns)),
                };
                let live = counted(*blocks, "block is", "blocks are");
                format!(
                    "{live} live at the end with {}, {} old on average, while {} others were freed, \
                     95 % of them after {within}",
                    bytes(*size),
                    duration(*mean_age_ns),
                    count(*freed),
                )
            }
            FindingKind::OnlyGrows { moments, blocks } => only_grows(moments, *blocks),
            FindingKind::OneSize { size, blocks, of, at_peak, overhead_bytes } => format!(
                "{} have {size} bytes, and {} were live at the peak; glibc adds about {} to these",
                of_all(*blocks, *of),
                count(*at_peak),
                bytes(*overhead_bytes),
            ),
            FindingKind::RoundsUp { size, class_below, class, blocks, of, at_peak } => format!(
                "{} have {} bytes, {} more than the class of {}; with four classes in each doubling, \
                 as in jemalloc, each takes {}, and the {} of the peak waste {}",
                of_all(*blocks, *of),
                count(*size),
                size - class_below,
                count(*class_below),
                count(*class),
                count(*at_peak),
                bytes(at_peak.saturating_mul(class - size)),
            ),
            FindingKind::FreedElsewhere { blocks, of, freed_by, freed_in } => {
                let mut others = freed_by.iter().filter(|row| !row.is_own);
                let who = others.next().map_or(String::new(), |row| format!(": {}", freed(row)));
                let more = match others.count() {
                    0 => String::new(),
                    more => format!(", and {}", counted(more as u64, "more", "more")),
                };
                let scopes = scopes(freed_in);
                format!(
                    "{} that were freed were freed by another thread than the one that allocated \
                     them{who}{more}{scopes}",
                    of_all(*blocks, *of)
                )
            }
        };
        format!("{of_sample}{text}")
    }

    /// What to do about it: one sentence without its full stop.
    pub fn suggestion(&self) -> String {
        let calls = |calls| counted(calls, "reallocation", "reallocations");
        match &self.kind {
            // A scope has containers of many kinds.
            FindingKind::Grows { reserve_bytes, .. } if !self.is_one_container() => format!(
                "Reserve what they need when they are made: {} is enough for 9 in 10. A recording \
                 with call stacks says which they are",
                bytes(*reserve_bytes)
            ),
            FindingKind::Grows { reserve_bytes, .. } => {
                let size = bytes(*reserve_bytes);
                let saves = calls(self.calls);
                format!(
                    "Reserve {size} when it is made, which is enough for 9 in 10: saves {saves}"
                )
            }
            FindingKind::Reallocates { .. } => {
                "Reserve the size that is needed when the block is made".to_owned()
            }
            FindingKind::ShortLived { .. } => {
                "Reuse one buffer, or do without the block".to_owned()
            }
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
            FindingKind::OneSize { .. } => {
                "Keep them in one Vec or an arena instead of a block each".to_owned()
            }
            FindingKind::RoundsUp { class_below, .. } => {
                format!(
                    "Make the block fit {} bytes, with what it adds to its data",
                    count(*class_below)
                )
            }
            FindingKind::FreedElsewhere { .. } => {
                "Give the blocks back to the thread that allocates them, to be used again"
                    .to_owned()
            }
        }
    }

    /// Whether its place says more than the scope: one line of code, or one tag.
    fn is_one_container(&self) -> bool {
        let place = &self.place;
        let tag = |name: &String| !is_untagged(&place.group, name);
        place.function.is_some() || place.name.as_ref().is_some_and(tag)
    }

    /// Its kind as one word, as in JSON.
    pub fn kind_name(&self) -> &'static str {
        match self.kind {
            FindingKind::Grows { .. } => "grows",
            FindingKind::Reallocates { .. } => "reallocates",
            FindingKind::ShortLived { .. } => "short_lived",
            FindingKind::Shrinks { .. } => "shrinks",
            FindingKind::LeftBehind { .. } => "left_behind",
            FindingKind::OnlyGrows { .. } => "only_grows",
            FindingKind::OneSize { .. } => "one_size",
            FindingKind::RoundsUp { .. } => "rounds_up",
            FindingKind::FreedElsewhere { .. } => "freed_elsewhere",
        }
    }
}

impl WeightOf {
    /// In a sentence, after a percentage.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Calls => "of all allocations and reallocations",
            Self::AllocatedBytes => "of all allocated bytes",
            Self::Peak => "of the peak",
        }
    }

    /// The key of this figure in the totals of the JSON.
    pub(super) fn key(self) -> &'static str {
        match self {
            Self::Calls => "calls",
            Self::AllocatedBytes => "allocated_bytes",
            Self::Peak => "peak_bytes",
        }
    }
}

/// `3 of 4 blocks`, `all 4 blocks`.
fn of_all(part: u64, of: u64) -> String {
    match part == of {
        true => format!("all {}", counted(of, "block", "blocks")),
        false => format!("{} of {}", count(part), counted(of, "block", "blocks")),
    }
}

fn only_grows(moments: &[LiveAt], blocks: u64) -> String {
    let (Some(first), Some(last)) = (moments.first(), moments.last()) else { return String::new() };
    format!(
        "live bytes rose at each of {} moments, from {} at {} to {} in {} at the end",
        moments.len(),
        bytes(first.live_bytes),
        duration(first.at_ns),
        bytes(last.live_bytes),
        counted(blocks, "block", "blocks"),
    )
}

/// In which scope most were freed, if that is known, and not the one they were allocated in.
fn scopes(freed_in: &[FreedIn]) -> String {
    let Some(most) = freed_in.iter().find(|row| !row.is_same()) else { return String::new() };
    let path = |path: &[String]| crate::words::escape(&within_global(path).join(" > "));
    let (from, to) = (path(&most.allocated_in), path(&most.freed_in));
    format!("; {} of {from} were freed in {to}", count(most.blocks))
}

fn freed(row: &FreedBy) -> String {
    let thread = match row.name.as_str() {
        "" => format!("thread {}", row.thread),
        name => format!("{} ({})", crate::words::escape(name), row.thread),
    };
    format!("{} by {thread}", count(row.blocks))
}
