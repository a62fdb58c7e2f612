//! The values of Unreal's memory tags: how many bytes the engine's own low-level memory tracker (LLM)
//! counted under each tag, at times that the engine chose.

use super::hash::FoldHash;
use memledger_document::internal::sort;
use memledger_document::{LlmTagRow, LlmTagSeries, LlmValue, made};
use std::collections::{BTreeMap, HashMap};

/// The maximum number of tags that are kept, and of pairs of a tracker and a tag. An engine has some hundred
/// tags; one that makes a tag of each asset has some thousands.
const MAX_TAGS: usize = 16_384;
/// The maximum number of characters of a name that are kept.
const MAX_NAME: usize = 512;
/// The maximum number of names in the path of a tag.
const MAX_DEPTH: usize = 64;
/// When a series has this many points, every two become one.
const MAX_POINTS: usize = 64;

/// The tags and their values so far. PERF: at most 80 MiB.
#[derive(Clone, Debug, Default)]
pub(super) struct LlmTags {
    tags: HashMap<u64, Tag, FoldHash>,
    trackers: BTreeMap<u8, String>,
    values: HashMap<(u8, u64), Values, FoldHash>,
    /// Whether there are more tags than are kept.
    pub(super) is_full: bool,
}

#[derive(Clone, Debug)]
struct Tag {
    /// The tag that it is inside; 0 if it is in none.
    parent: u64,
    name: String,
}

/// The values of a tag in one tracker.
#[derive(Clone, Debug)]
struct Values {
    samples: u64,
    first: LlmValue,
    last: LlmValue,
    min: LlmValue,
    peak: LlmValue,
    /// The largest value of each `step` samples.
    points: Vec<LlmValue>,
    step: u64,
}

/// The engine writes 0 for no tag, or -1, also in 32 bits.
fn is_tag(id: u64) -> bool {
    !matches!(id, 0 | 0xffff_ffff | u64::MAX)
}

fn short(name: &str) -> String {
    name.chars().take(MAX_NAME).collect()
}

impl LlmTags {
    /// A tag is declared, or declared again.
    pub(super) fn declare(&mut self, id: u64, parent: u64, name: &str) {
        if !is_tag(id) {
            return;
        }
        if self.tags.len() >= MAX_TAGS && !self.tags.contains_key(&id) {
            self.is_full = true;
            return;
        }
        let parent = if is_tag(parent) { parent } else { 0 };
        self.tags.insert(id, Tag { parent, name: short(name) });
    }

    pub(super) fn name_tracker(&mut self, id: u8, name: &str) {
        self.trackers.insert(id, short(name));
    }

    /// The tag `id` has this value in a tracker.
    pub(super) fn set(&mut self, tracker: u8, id: u64, value: LlmValue) {
        if !is_tag(id) {
            return;
        }
        let count = self.values.len();
        match self.values.get_mut(&(tracker, id)) {
            Some(values) => values.add(value),
            None if count >= MAX_TAGS => self.is_full = true,
            None => {
                self.values.insert((tracker, id), Values::new(value));
            }
        }
    }

    /// Whether a value was set.
    pub(super) fn has_values(&self) -> bool {
        !self.values.is_empty()
    }

    /// The names from the outermost tag to this one.
    fn path(&self, id: u64) -> Vec<String> {
        let mut path = Vec::new();
        let mut next = id;
        // NOTE: damage can make a tag its own ancestor.
        while next != 0 && path.len() < MAX_DEPTH {
            let tag = self.tags.get(&next);
            let name = tag.map(|tag| tag.name.clone()).filter(|name| !name.is_empty());
            path.push(name.unwrap_or_else(|| format!("tag {next:#x}")));
            next = tag.map_or(0, |tag| tag.parent);
        }
        path.reverse();
        path
    }

    pub(super) fn rows(&self) -> Vec<LlmTagRow> {
        let rows = self.values.iter().map(|(&(tracker, id), values)| {
            made!(LlmTagRow {
                tracker: self
                    .trackers
                    .get(&tracker)
                    .cloned()
                    .unwrap_or(format!("tracker {tracker}")),
                path: self.path(id),
                samples: values.samples,
                first: values.first,
                last: values.last,
                min: values.min,
                peak: values.peak,
                series: values.series(),
            })
        });
        let mut rows: Vec<_> = rows.collect();
        sort::by(&mut rows, |a, b| {
            let figures = |row: &LlmTagRow| (row.last.bytes, row.peak.bytes);
            let by_name = || (&a.tracker, &a.path).cmp(&(&b.tracker, &b.path));
            figures(b).cmp(&figures(a)).then_with(by_name)
        });
        rows
    }
}

impl Values {
    fn new(value: LlmValue) -> Self {
        let (first, last, min, peak) = (value, value, value, value);
        Self { samples: 1, first, last, min, peak, points: vec![value], step: 1 }
    }

    fn add(&mut self, value: LlmValue) {
        if value.bytes > self.peak.bytes {
            self.peak = value;
        }
        if value.bytes < self.min.bytes {
            self.min = value;
        }
        self.last = value;
        match self.points.last_mut() {
            Some(point) if !self.samples.is_multiple_of(self.step) => {
                *point = larger(*point, value)
            }
            _ => {
                if self.points.len() == MAX_POINTS {
                    let pairs = self.points.chunks(2);
                    self.points = pairs.map(|pair| larger(pair[0], pair[pair.len() - 1])).collect();
                    self.step *= 2;
                }
                self.points.push(value);
            }
        }
        self.samples += 1;
    }

    /// The points, and the last value.
    fn series(&self) -> LlmTagSeries {
        let last = Some(self.last).filter(|last| self.points.last() != Some(last));
        let points = self.points.iter().copied().chain(last);
        made!(LlmTagSeries {
            at_ns: points.clone().map(|point| point.at_ns).collect(),
            bytes: points.map(|point| point.bytes).collect(),
        })
    }
}

/// The earlier one of two equal values.
fn larger(a: LlmValue, b: LlmValue) -> LlmValue {
    if b.bytes > a.bytes { b } else { a }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(at_ns: u64, bytes: i64) -> LlmValue {
        made!(LlmValue { at_ns, bytes })
    }

    #[test]
    fn a_tag_has_its_path_even_if_tags_are_inside_one_another() {
        let mut tags = LlmTags::default();
        tags.declare(7, 5, "inner");
        tags.declare(5, u64::MAX, "outer");
        tags.declare(0, 0, "none");
        tags.declare(8, 9, "eight");
        tags.declare(9, 8, "nine");
        for id in [7, 8, 0, u64::MAX, 77] {
            tags.set(1, id, value(0, id as i64));
        }
        let paths: Vec<_> = tags.rows().into_iter().map(|row| row.path).collect();
        assert_eq!(paths[0], ["tag 0x4d"]);
        assert_eq!(
            (paths[1].len(), paths[1].last().map(String::as_str)),
            (MAX_DEPTH, Some("eight"))
        );
        assert_eq!(paths[2..], [["outer", "inner"]]);
    }

    #[test]
    fn a_series_keeps_the_largest_value_and_the_last() {
        let mut tags = LlmTags::default();
        for at in 0..100_000_u64 {
            let bytes = if at == 70_001 { 1_000_000 } else { at as i64 % 1000 };
            tags.set(0, 1, value(at, bytes));
        }
        let row = tags.rows().remove(0);
        assert_eq!((row.samples, row.peak), (100_000, value(70_001, 1_000_000)));
        assert_eq!((row.first, row.last, row.min), (value(0, 0), value(99_999, 999), value(0, 0)));
        let series = row.series;
        assert!(series.bytes.len() <= MAX_POINTS + 1 && series.bytes.len() > MAX_POINTS / 2);
        assert_eq!(series.bytes.len(), series.at_ns.len());
        assert!(series.at_ns.is_sorted() && series.bytes.contains(&1_000_000));
        assert_eq!((series.at_ns.last(), series.bytes.last()), (Some(&99_999), Some(&999)));
    }

    #[test]
    fn the_number_of_tags_is_bounded() {
        let mut tags = LlmTags::default();
        for id in 1..=2 * MAX_TAGS as u64 {
            tags.declare(id, 0, &"x".repeat(4096));
            tags.set(0, id, value(0, 1));
        }
        assert!(tags.is_full);
        let rows = tags.rows();
        assert_eq!(rows.len(), MAX_TAGS);
        assert!(rows.iter().all(|row| row.path[0].len() == MAX_NAME));
    }
}
