//! Findings as sentences: what was seen, and what to do about it.

use super::text::{bytes, count, counted, duration, is_untagged, within_global};
use crate::analysis::{Finding, FindingKind, FreedBy, FreedIn, LiveAt, WeightOf};
use std::borrow::Cow;

impl Finding {
    /// What was seen, with the figures: one or two sentences without their last full stop.
    pub fn evidence(&self) -> String {
        let of_sample = if self.is_of_sample { "In the sample of blocks: " } else { "" };
        let text = match &self.kind {
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
            FindingKind::FreedElsewhere { blocks, of, freed_by, freed_in } => {
                let mut others = freed_by.iter().filter(|row| !row.is_own);
                let who = others.next().map_or(String::new(), |row| format!(": {}", freed(row)));
                let rest: Vec<_> = others.map(|row| row.blocks).collect();
                let more = match rest.len() as u64 {
                    0 => String::new(),
                    threads => format!(
                        ", and {} by {}",
                        count(rest.iter().sum()),
                        counted(threads, "other thread", "other threads")
                    ),
                };
                let scopes = scopes(freed_in);
                format!(
                    "{} were freed by another thread than the one that allocated them{who}{more}{scopes}",
                    of_all(*blocks, *of, "freed block", "freed blocks")
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
                    "Reserve {size} when it is made, which is enough for 9 in 10; this saves {saves}"
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
                    "Keep the block within {} bytes, with any header that is part of it",
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

    /// Its kind in two words, as a heading.
    pub fn heading(&self) -> Cow<'static, str> {
        match self.kind_name() {
            "grows" => "grows stepwise".into(),
            "reallocates" => "reallocates often".into(),
            "shrinks" => "shrinks again".into(),
            "short_lived" => "short-lived blocks".into(),
            kind => kind.replace('_', " ").into(),
        }
    }

    /// Whether it is about memory that is held, and not about time.
    pub fn is_of_peak(&self) -> bool {
        !matches!(self.weight_of, WeightOf::Calls | WeightOf::AllocatedBytes)
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
fn of_all(part: u64, of: u64, one: &str, several: &str) -> String {
    match part == of {
        true => format!("all {}", counted(of, one, several)),
        false => format!("{} of {}", count(part), counted(of, one, several)),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn said(kind: FindingKind) -> [String; 2] {
        let finding = Finding { kind, calls: 120, ..Finding::default() };
        [finding.evidence(), finding.suggestion()]
    }

    #[test]
    fn each_kind_is_said_in_sentences() {
        let freed_by = |thread, name: &str, blocks, is_own| FreedBy {
            name: name.to_owned(),
            thread,
            blocks,
            bytes: 100,
            is_own,
        };
        let path = |name: &str| vec!["GlobalScope".to_owned(), name.to_owned()];
        let freed_in = |to: &str, blocks| FreedIn {
            allocated_in: path("read"),
            freed_in: path(to),
            blocks,
            bytes: 100,
        };
        let live_at = |at_ns, live_bytes| LiveAt { event: at_ns, at_ns, live_bytes };
        for (kind, expected) in [
            (
                FindingKind::Grows {
                    blocks: 20,
                    growths: 130,
                    moved: 100,
                    copied_bytes: 4096,
                    largest_bytes: 2048,
                    reserve_bytes: 1024,
                },
                [
                    "20 blocks grew 130 times; 100 times to another address, copying up to 4.0 KiB. \
                     The largest became 2.0 KiB",
                    "Reserve what they need when they are made: 1.0 KiB is enough for 9 in 10. A \
                     recording with call stacks says which they are",
                ],
            ),
            (
                FindingKind::Grows {
                    blocks: 1,
                    growths: 1,
                    moved: 0,
                    copied_bytes: 0,
                    largest_bytes: 16,
                    reserve_bytes: 16,
                },
                [
                    "1 block grew 1 time, each time in place. The largest became 16 B",
                    "Reserve what they need when they are made: 16 B is enough for 9 in 10. A \
                     recording with call stacks says which they are",
                ],
            ),
            (
                FindingKind::Reallocates { reallocations: 1200, allocations: 7 },
                [
                    "1,200 reallocations, and 7 allocations",
                    "Reserve the size that is needed when the block is made",
                ],
            ),
            (
                FindingKind::Reallocates { reallocations: 1200, allocations: 0 },
                ["1,200 reallocations", "Reserve the size that is needed when the block is made"],
            ),
            (
                FindingKind::ShortLived { blocks: 1500, of: 2000, bytes: Some(15_000) },
                [
                    "1,500 of 2,000 blocks ended before their thread allocated again, 10 B each on average",
                    "Reuse one buffer, or do without the block",
                ],
            ),
            (
                FindingKind::ShortLived { blocks: 2000, of: 2000, bytes: None },
                [
                    "all 2,000 blocks ended before their thread allocated again",
                    "Reuse one buffer, or do without the block",
                ],
            ),
            (
                FindingKind::Shrinks { blocks: 2, bytes_before: 4096, bytes_after: 1024 },
                [
                    "2 blocks were made smaller at the end, on average from 2.0 KiB to 512 B: 3.0 KiB \
                     given back",
                    "Allocate the size that is needed, if it is known before",
                ],
            ),
            (
                FindingKind::LeftBehind {
                    blocks: 12,
                    bytes: 1200,
                    freed: 3000,
                    mean_age_ns: 3_000_000_000,
                    freed_within_ns: 20_000_000,
                },
                [
                    "12 blocks are live at the end with 1.2 KiB, 3.00 s old on average, while 3,000 others \
                     were freed, 95 % of them after less than 20.0 ms",
                    "Look for who still holds them: unless they are meant to stay, they are a leak",
                ],
            ),
            (
                FindingKind::OnlyGrows {
                    moments: vec![live_at(1_000_000, 1024), live_at(9_000_000, 4096)],
                    blocks: 7,
                },
                [
                    "live bytes rose at each of 2 moments, from 1.0 KiB at 1.0 ms to 4.0 KiB in 7 blocks \
                     at the end",
                    "If it is a cache or a queue, give it a limit; if it is the result, all is well",
                ],
            ),
            (
                FindingKind::OneSize {
                    size: 24,
                    blocks: 5000,
                    of: 5000,
                    at_peak: 1024,
                    overhead_bytes: 8192,
                },
                [
                    "all 5,000 blocks have 24 bytes, and 1,024 were live at the peak; glibc adds about \
                     8.0 KiB to these",
                    "Keep them in one Vec or an arena instead of a block each",
                ],
            ),
            (
                FindingKind::RoundsUp {
                    size: 4097,
                    class_below: 4096,
                    class: 5120,
                    blocks: 1200,
                    of: 1201,
                    at_peak: 1024,
                },
                [
                    "1,200 of 1,201 blocks have 4,097 bytes, 1 more than the size class of 4,096. An \
                     allocator with four classes in each doubling, such as jemalloc, gives each 5,120; \
                     the 1,024 that were live at the peak waste 1023.0 KiB",
                    "Keep the block within 4,096 bytes, with any header that is part of it",
                ],
            ),
            (
                FindingKind::FreedElsewhere {
                    blocks: 50,
                    of: 60,
                    freed_by: vec![
                        freed_by(3, "consumer", 40, false),
                        freed_by(1, "main", 10, true),
                        freed_by(4, "", 10, false),
                    ],
                    freed_in: vec![freed_in("read", 10), freed_in("merge", 50)],
                },
                [
                    "50 of 60 freed blocks were freed by another thread than the one that allocated \
                     them: 40 by consumer (3), and 10 by 1 other thread; 50 of read were freed in merge",
                    "Give the blocks back to the thread that allocates them, to be used again",
                ],
            ),
        ] {
            assert_eq!(said(kind), expected);
        }
    }

    #[test]
    fn one_container_is_told_what_it_saves() {
        let kind = FindingKind::Grows {
            blocks: 20,
            growths: 130,
            moved: 0,
            copied_bytes: 0,
            largest_bytes: 2048,
            reserve_bytes: 1024,
        };
        let mut finding = Finding { kind, calls: 120, is_of_sample: true, ..Finding::default() };
        finding.place.function = Some("read".to_owned());
        let expected = "Reserve 1.0 KiB when it is made, which is enough for 9 in 10; this saves 120 reallocations";
        assert_eq!(finding.suggestion(), expected);
        assert!(finding.evidence().starts_with("In the sample of blocks: 20 blocks grew"));
    }
}
