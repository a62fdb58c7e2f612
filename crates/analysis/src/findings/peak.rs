//! When the peak is that of two parts of the program at once: a copy, say, and what it was made from.
//!
//! ```text
//! main ┬ read_entries   18.2 MiB ████████████████  as much as at the peak, from here on
//!      └ clean          14.6 MiB         ▁▂▃▄▅▆▇█  all of it came after that
//! ```

use super::moments::{CLOCKS, EVENTS, LiveSnapshot};
use super::observer::FindingsObserver;
use super::places::Places;
use super::thresholds::{HALF_OF_PEAK, MIN_COPY, TO_COME, UNCHANGED};
use super::thresholds::{is_share, millionths};
use crate::analyzer::Analyzer;
use memledger_document::internal::{Calls, sort};
use memledger_document::{Finding, FindingKind, PeakPart, Place, WeightOf, made};
use std::cmp::Reverse;
use std::collections::HashMap;

/// Of what is live at the peak, one function has at least this share for what it calls to be looked into, in
/// percent.
const NEARLY_ALL: u64 = 90;
/// A copy has at most this many times the blocks of what it was made from, and the reverse.
const LIKE: u64 = 2;
/// If one has fewer blocks than that, each has at least this share of the bytes of the other, in percent: two
/// files that are read have one block each, too.
const FEW: u64 = 64;
const SAME: u64 = 90;
/// A loop makes a copy, so this many call stacks have this share of its bytes, in percent. The passes of a
/// compiler have hundreds.
const STACKS: usize = 4;
const OF_STACKS: u64 = 50;
/// No more callers than this are named.
const CALLERS: usize = 3;

/// A bucket with live blocks at the peak.
struct PeakBucket<'a> {
    bucket: usize,
    stack: Option<usize>,
    bytes: u64,
    blocks: u64,
    /// Functions or scopes, outermost first.
    path: Vec<Step<'a>>,
}

/// A function with the line of its call, or a scope.
#[derive(Clone, Copy)]
struct Step<'a> {
    name: &'a str,
    source: Option<(&'a str, u32)>,
}

/// What blocks have in common at one depth of their paths: the next function, or the line where the last one
/// allocates.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Key<'a> {
    Below(&'a str),
    Line(Option<(&'a str, u32)>),
}

impl<'a> PeakBucket<'a> {
    fn key(&self, depth: usize) -> Key<'a> {
        match self.path.get(depth) {
            Some(step) => Key::Below(step.name),
            None => Key::Line(self.path.last().and_then(|step| step.source)),
        }
    }

    /// The step whose line is where its part of the program is.
    fn step(&self, depth: usize) -> Option<&Step<'a>> {
        self.path.get(depth).or(self.path.last())
    }
}

/// The finding of the peak, if it is that of two parts.
pub(super) fn find(
    analyzer: &Analyzer<FindingsObserver>,
    calls: &Calls<'_>,
    places: &Places,
) -> Option<Finding> {
    let peak = places.peak_bytes;
    let is_half = |bytes: u64| bytes >= MIN_COPY && is_share(bytes, peak, HALF_OF_PEAK);
    if peak < 2 * MIN_COPY {
        return None;
    }
    let mut held = held(calls, places);
    let depth = narrow(&mut held, peak);
    let mut parts = HashMap::<_, Vec<&PeakBucket<'_>>>::new();
    held.iter().for_each(|held| parts.entry(held.key(depth)).or_default().push(held));
    let mut parts: Vec<_> = parts.into_values().collect();
    let bytes = |part: &[&PeakBucket<'_>]| part.iter().map(|held| held.bytes).sum::<u64>();
    parts.retain(|part| is_half(bytes(part)));
    sort::by_key(&mut parts, |part| Reverse(bytes(part)));
    let [one, two, ..] = &parts[..] else { return None };
    if !is_like(main_blocks(one)?, main_blocks(two)?) {
        return None;
    }
    let [live_one, live_two] = [one, two].map(|part| live(analyzer, part, places));
    let (first, second) = if stays_while(&live_one, bytes(one), &live_two, bytes(two)) {
        (one, two)
    } else if stays_while(&live_two, bytes(two), &live_one, bytes(one)) {
        (two, one)
    } else {
        return None;
    };
    let (first, came) = (part_of(first, depth), part_of(second, depth));
    Some(made!(Finding {
        place: place(&came, second, depth, !calls.report.by_stack.is_empty()),
        bytes: came.bytes,
        calls: 0,
        weight: millionths(came.bytes, peak),
        weight_of: WeightOf::Peak,
        is_of_sample: places.is_of_sample,
        kind: FindingKind::HoldsPeak { first, second: came },
    }))
}

/// All that is live at the peak at places of which there are findings.
fn held<'a>(calls: &'a Calls<'_>, places: &Places) -> Vec<PeakBucket<'a>> {
    let report = calls.report;
    let mut held = Vec::new();
    for (bucket, row) in report.by_bucket.iter().enumerate() {
        let (bytes, blocks) = (row.figures.live_bytes_at_peak, row.figures.live_blocks_at_peak);
        if bytes == 0 || places.place_of.get(bucket).copied().flatten().is_none() {
            continue;
        }
        let path = match row.stack {
            Some(stack) => {
                let shown = calls.shown(stack).rev().filter(|&call| !calls.is_text(call));
                let shown = shown.map(|call| calls.get(call));
                shown
                    .map(|call| Step { name: call.name_of_function(), source: call.source() })
                    .collect()
            }
            None if report.by_stack.is_empty() => {
                let path = report.by_scope.get(row.scope).map_or(&[][..], |row| &row.path);
                path.iter().skip(1).map(|name| Step { name, source: None }).collect()
            }
            None => Vec::new(),
        };
        held.push(PeakBucket { bucket, stack: row.stack, bytes, blocks, path });
    }
    held
}

/// Leaves what is below the innermost function that has nearly all. Returns the depth at which it divides.
fn narrow(held: &mut Vec<PeakBucket<'_>>, peak: u64) -> usize {
    let mut depth = 0;
    loop {
        let mut sums = HashMap::<_, u64>::new();
        for held in &*held {
            let sum = sums.entry(held.key(depth)).or_default();
            *sum = sum.saturating_add(held.bytes);
        }
        let most = sums.into_iter().max_by_key(|(_, bytes)| *bytes);
        let Some((key @ Key::Below(_), bytes)) = most else { return depth };
        if !is_share(bytes, peak, NEARLY_ALL) {
            return depth;
        }
        held.retain(|held| held.key(depth) == key);
        depth += 1;
    }
}

/// The live bytes of a part at all moments before the peak, in their order.
fn live(
    analyzer: &Analyzer<FindingsObserver>,
    part: &[&PeakBucket<'_>],
    places: &Places,
) -> Vec<u64> {
    let observer = analyzer.observer();
    let all = (0..CLOCKS).flat_map(|clock| observer.moments(clock));
    let mut all: Vec<_> =
        all.filter(|moment| moment.at[EVENTS] < places.clocks.peak[EVENTS]).collect();
    sort::by_key(&mut all, |moment| moment.at[EVENTS]);
    let sum = |moment: &LiveSnapshot| part.iter().map(|held| moment.live_bytes(held.bucket)).sum();
    all.into_iter().map(sum).collect()
}

/// Whether one part stays as it is at the peak from a moment on after which the other comes.
fn stays_while(first: &[u64], first_at_peak: u64, second: &[u64], second_at_peak: u64) -> bool {
    let moments = first.iter().zip(second).rev();
    let same = moments.take_while(|(bytes, _)| {
        is_share(**bytes, first_at_peak, UNCHANGED) && is_share(first_at_peak, **bytes, UNCHANGED)
    });
    let mut to_come = same.map(|(_, bytes)| bytes);
    to_come.any(|&bytes| !is_share(bytes, second_at_peak, TO_COME))
}

/// The blocks of the fewest call stacks that have most of a part's bytes, and these bytes; `None` if that are
/// many stacks. Of scopes, each is one.
fn main_blocks(part: &[&PeakBucket<'_>]) -> Option<(u64, u64)> {
    let mut stacks = HashMap::<_, (u64, u64)>::new();
    for held in part {
        let (bytes, blocks) = stacks.entry(held.stack).or_default();
        *bytes += held.bytes;
        *blocks += held.blocks;
    }
    let mut stacks: Vec<_> = stacks.into_values().collect();
    stacks.sort_unstable_by_key(|figures| Reverse(*figures));
    let all = stacks.iter().map(|(bytes, _)| bytes).sum();
    let mut sum = (0, 0);
    for (bytes, blocks) in stacks.into_iter().take(STACKS) {
        sum = (sum.0 + blocks, sum.1 + bytes);
        if is_share(sum.1, all, OF_STACKS) {
            return Some(sum);
        }
    }
    None
}

/// Whether one part can be a copy of the other, by their main blocks and the bytes of these.
fn is_like(one: (u64, u64), other: (u64, u64)) -> bool {
    let is_within = |one: u64, other: u64, factor: u64| one <= other.saturating_mul(factor);
    let is_same = || is_share(one.1, other.1, SAME) && is_share(other.1, one.1, SAME);
    let has_few = one.0.min(other.0) < FEW;
    is_within(one.0, other.0, LIKE) && is_within(other.0, one.0, LIKE) && (!has_few || is_same())
}

fn part_of(part: &[&PeakBucket<'_>], depth: usize) -> PeakPart {
    let mut lines = HashMap::<_, u64>::new();
    for held in part {
        if let Some(source) = held.step(depth).and_then(|step| step.source) {
            *lines.entry(source).or_default() += held.bytes;
        }
    }
    let line = lines.into_iter().max_by_key(|&(line, bytes)| (bytes, line)).map(|(line, _)| line);
    let name = part.first().and_then(|held| held.step(depth)).map_or("", |step| step.name);
    made!(PeakPart {
        name: name.to_owned(),
        file: line.map(|(file, _)| file.to_owned()),
        line: line.map(|(_, line)| line),
        bytes: part.iter().map(|held| held.bytes).sum(),
        blocks: part.iter().map(|held| held.blocks).sum(),
    })
}

/// Where the finding is: at what came.
fn place(holder: &PeakPart, part: &[&PeakBucket<'_>], depth: usize, has_stacks: bool) -> Place {
    let Some(held) = part.first() else { return Place::default() };
    let outer = held.path.iter().take(depth).map(|step| step.name.to_owned());
    if !has_stacks {
        let global = "GlobalScope".to_owned();
        let scope = std::iter::once(global).chain(outer).chain([holder.name.clone()]).collect();
        return made!(Place { scope });
    }
    made!(Place {
        function: Some(holder.name.clone()),
        file: holder.file.clone(),
        line: holder.line,
        callers: outer.rev().filter(|name| *name != holder.name).take(CALLERS).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_comes_while_what_it_is_of_stays() {
        let first = [10, 50, 100, 100, 100, 100];
        let second = [0, 0, 0, 30, 60, 90];
        assert!(stays_while(&first, 100, &second, 100));
        assert!(!stays_while(&second, 100, &first, 100));
        // Both grow together, or one of them changes meanwhile.
        assert!(!stays_while(&first, 100, &first, 100));
        assert!(!stays_while(&[10, 50, 100, 90, 100, 100], 100, &second, 100));
        assert!(!stays_while(&[], 100, &[], 100));
    }
}
