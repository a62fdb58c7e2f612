//! Buckets that are one place: a function if the trace has stacks, otherwise a scope with a name.

use super::matrix::Matrix;
use super::moments::{CLOCKS, EVENTS, LiveSnapshot};
use super::observer::{EndedBlocks, FindingsObserver, LIFETIMES};
use super::shutdown::{Freed, Shutdown};
use super::thresholds::MIN_BYTES;
use crate::analyzer::Analyzer;
use crate::hash::IntMap;
use memledger_document::internal::{Calls, sort};
use memledger_document::{
    BucketRow, Figures, FreedBy, FreedIn, Place, Report, StackKind, WeightOf, made,
};
use std::cmp::Reverse;
use std::collections::HashMap;

/// No more callers than this are named.
const CALLERS: usize = 3;

/// All places, and what was seen of the blocks of each.
pub(super) struct Places {
    pub(super) all: Vec<PlaceStats>,
    /// All blocks that findings can be of: the whole, or the sample.
    pub(super) whole: Figures,
    pub(super) peak_bytes: u64,
    pub(super) is_of_sample: bool,
    /// By bucket: its place, if there are findings of it.
    pub(super) place_of: Vec<Option<usize>>,
    pub(super) clocks: Clocks,
    pub(super) shutdown: Option<Shutdown>,
}

/// What clocks say at the moments of the observer.
#[derive(Default)]
pub(super) struct Clocks {
    /// By clock: the moments at its distances.
    pub(super) moments: [Vec<[u64; CLOCKS]>; CLOCKS],
    /// The live bytes of the whole program at them.
    pub(super) live: [Vec<u64>; CLOCKS],
    /// At the peak.
    pub(super) peak: [u64; CLOCKS],
    /// At the end.
    pub(super) end: [u64; CLOCKS],
}

impl Clocks {
    fn of(analyzer: &Analyzer<FindingsObserver>, report: &Report) -> Self {
        let observer = analyzer.observer();
        let at = |clock| observer.moments(clock).iter().map(|moment| moment.at).collect();
        let moments: [Vec<[u64; CLOCKS]>; CLOCKS] = std::array::from_fn(at);
        let all = || moments.iter().flatten();
        let last = all().map(|at| at[EVENTS]).max().unwrap_or(0);
        let end =
            [report.trace.events.max(last), report.trace.duration_ns, observer.allocated_bytes()];
        // What was allocated up to the peak is known of the moments only.
        let event = analyzer.peak_event();
        let before = all().filter(|at| at[EVENTS] <= event).max_by_key(|at| at[EVENTS]);
        let allocated = before.map_or(0, |[.., allocated]| *allocated);
        let sum = |moment: &LiveSnapshot| {
            moment.live().fold(0, |sum: u64, (_, live)| sum.wrapping_add(live))
        };
        let live = std::array::from_fn(|clock| observer.moments(clock).iter().map(sum).collect());
        Self { moments, live, peak: [event, report.totals.peak_bytes_at_ns, allocated], end }
    }
}

/// What was seen of the blocks of one place.
#[derive(Default)]
pub(super) struct PlaceStats {
    /// Without a line.
    place: Place,
    lines: Vec<Line>,
    pub(super) figures: Figures,
    /// Whether the place is one piece of code: a stack, a scope, or a tag.
    pub(super) is_named: bool,
    pub(super) short_lived_bytes: u64,
    pub(super) lifetimes: [u64; LIFETIMES],
    pub(super) ended: EndedBlocks,
    /// The size that most blocks were allocated with, and their number.
    pub(super) size: (u64, u64),
    /// By clock: live bytes at its moments; empty if there never are enough of them.
    pub(super) live: [Vec<u64>; CLOCKS],
    /// The ages of the youngest live block, and of the one in the middle, if they were looked at.
    pub(super) ages: (u64, u64),
    /// Without what was freed when the program ended.
    pub(super) freed_by: Vec<FreedBy>,
    pub(super) freed_in: Vec<FreedIn>,
    /// What was freed when it ended.
    pub(super) freed_at_shutdown: Freed,
    sizes: IntMap<u64, u64>,
    /// The rows of scope, name and thread of the bucket that was added last.
    last: (usize, usize, usize),
}

/// A line of a function that allocates.
struct Line {
    /// Its call, as [`Calls::index`] numbers them.
    call: usize,
    /// Allocations and reallocations.
    calls: u64,
    /// Bytes that are live at the peak, or at the end if that is more.
    held_bytes: u64,
    /// Its stack with the most calls, and how many these are.
    stack: (u64, usize),
}

impl PlaceStats {
    /// Whether it is a function, and not a scope.
    pub(super) fn has_function(&self) -> bool {
        self.place.function.is_some()
    }

    /// The place, with the line that has most of what a finding is weighed by, and who calls it there.
    pub(super) fn place(&self, of: WeightOf, calls: &Calls<'_>) -> Place {
        let weight = |line: &&Line| match of {
            WeightOf::Peak | WeightOf::Resident => (line.held_bytes, line.calls),
            WeightOf::Calls | WeightOf::AllocatedBytes => (line.calls, line.held_bytes),
        };
        let mut place = self.place.clone();
        let Some(line) = self.lines.iter().max_by_key(weight) else { return place };
        if let Some((file, line)) = calls.different()[line.call].source() {
            (place.file, place.line) = (Some(file.to_owned()), Some(line));
        }
        // Functions that call one another recur.
        let mut names: Vec<&str> = Vec::new();
        for name in own_calls(calls, line.stack.1).map(|call| calls.function(call)) {
            if names.len() <= CALLERS && !names.contains(&name) {
                names.push(name);
            }
        }
        place.callers = names.into_iter().skip(1).map(str::to_owned).collect();
        place
    }
}

/// The calls of a stack from the innermost one of the program's own code on.
fn own_calls(calls: &Calls<'_>, stack: usize) -> impl Iterator<Item = u32> {
    calls.shown_from_own(stack).filter(|&call| !calls.is_text(call))
}

/// What buckets of one place have in common.
#[derive(PartialEq, Eq, Hash)]
enum Key {
    Function { name: String, file: Option<String> },
    Name { scope: usize, name: usize },
}

/// Makes places of buckets.
struct Builder<'a> {
    report: &'a Report,
    calls: &'a Calls<'a>,
    scope: Option<String>,
    by_key: HashMap<Key, usize>,
    /// PERF: by call: its place. Its key is made once for each call, not for each bucket.
    by_call: Vec<Option<usize>>,
    all: Vec<PlaceStats>,
}

impl Places {
    pub(super) fn of(
        analyzer: &Analyzer<FindingsObserver>,
        calls: &Calls<'_>,
        scope: Option<&str>,
    ) -> Self {
        let report = calls.report;
        let is_of_sample = report.stack_sampling_bytes.is_some();
        let mut builder = Builder {
            report,
            by_call: Vec::new(),
            calls,
            scope: scope.map(str::to_lowercase),
            by_key: HashMap::new(),
            all: Vec::new(),
        };
        let place_of: Vec<_> =
            report.by_bucket.iter().map(|row| builder.place(row, is_of_sample)).collect();
        let mut all = builder.all;
        let shutdown = analyzer.observer().shutdown(report.trace.duration_ns);
        add_seen(&mut all, &place_of, analyzer, (report, shutdown));
        let mut whole = Figures::default();
        let counted = |row: &&BucketRow| !is_of_sample || has_stack(report, row);
        let rows = report.by_bucket.iter().filter(counted);
        rows.for_each(|row| whole.add(&row.figures));
        // In all scopes, also if findings are wanted of some.
        let peak_bytes =
            if is_of_sample { whole.live_bytes_at_peak } else { report.totals.peak_bytes };
        let clocks = Clocks::of(analyzer, report);
        Self { all, whole, peak_bytes, is_of_sample, place_of, clocks, shutdown }
    }
}

/// Whether a scope stack has this text, in lower case, in its path.
pub(super) fn is_in(path: &[String], scope: Option<&str>) -> bool {
    scope.is_none_or(|scope| path.join(" > ").to_lowercase().contains(scope))
}

fn has_stack(report: &Report, row: &BucketRow) -> bool {
    row.stack.and_then(|stack| report.by_stack.kind(stack)) == Some(StackKind::Known)
}

impl Builder<'_> {
    /// The place of a bucket, new if need be; `None` if there is no finding of it.
    fn place(&mut self, row: &BucketRow, is_of_sample: bool) -> Option<usize> {
        let report = self.report;
        let path = &report.by_scope.get(row.scope)?.path;
        let has_stack = has_stack(report, row);
        if row.figures == Figures::default()
            || is_of_sample && !has_stack
            || !is_in(path, self.scope.as_deref())
        {
            return None;
        }
        let stack = row.stack.filter(|_| has_stack);
        let call = stack.and_then(|stack| own_calls(self.calls, stack).next());
        let known = call.and_then(|call| self.by_call.get(call as usize).copied().flatten());
        let number = match (known, call) {
            (Some(number), _) => number,
            (None, Some(call)) => {
                let number = self.by_key(self.key(call), row)?;
                let last = self.by_call.len().max(call as usize + 1);
                self.by_call.resize(last, None);
                self.by_call[call as usize] = Some(number);
                number
            }
            (None, None) => self.by_key(Key::Name { scope: row.scope, name: row.name }, row)?,
        };
        self.add(number, row);
        if let (Some(call), Some(stack)) = (call, stack) {
            self.add_line(number, self.calls.index(call), stack, row);
        }
        Some(number)
    }

    fn by_key(&mut self, key: Key, row: &BucketRow) -> Option<usize> {
        if let Some(&number) = self.by_key.get(&key) {
            return Some(number);
        }
        let number = self.all.len();
        self.all.push(self.new_place(&key, row)?);
        self.by_key.insert(key, number);
        Some(number)
    }

    fn key(&self, call: u32) -> Key {
        let call = self.calls.get(call);
        let file = call.source().map(|(file, _)| file.to_owned());
        Key::Function { name: call.name_of_function().to_owned(), file }
    }

    fn new_place(&self, key: &Key, row: &BucketRow) -> Option<PlaceStats> {
        let (scope, name) =
            (self.report.by_scope.get(row.scope)?, self.report.by_name.get(row.name)?);
        let thread = self.report.by_thread.get(row.thread)?;
        let mut place = made!(Place {
            scope: scope.path.clone(),
            group: name.group.clone(),
            name: Some(name.name.clone()),
            thread: Some((thread.id, thread.name.clone()))
        });
        let mut is_named = scope.path.len() > 1 || name.group != ["Unknown"];
        if let Key::Function { name, .. } = key {
            is_named = true;
            place.function = Some(name.clone());
        }
        let last = (row.scope, row.name, row.thread);
        Some(PlaceStats { place, is_named, last, ..PlaceStats::default() })
    }

    /// Adds a bucket to the line that its blocks are allocated in.
    fn add_line(&mut self, number: usize, call: usize, stack: usize, row: &BucketRow) {
        let lines = &mut self.all[number].lines;
        let at = lines.iter().position(|line| line.call == call).unwrap_or_else(|| {
            lines.push(Line { call, calls: 0, held_bytes: 0, stack: (0, stack) });
            lines.len() - 1
        });
        let (line, figures) = (&mut lines[at], &row.figures);
        let calls = figures.allocations.wrapping_add(figures.reallocations);
        line.calls = line.calls.wrapping_add(calls);
        let held = figures.live_bytes_at_peak.max(figures.live_bytes);
        line.held_bytes = line.held_bytes.wrapping_add(held);
        line.stack = line.stack.max((calls, stack));
    }

    fn add(&mut self, number: usize, row: &BucketRow) {
        let (report, seen) = (self.report, &mut self.all[number]);
        seen.figures.add(&row.figures);
        // PERF: names are compared only if a row is another one than that of the bucket before.
        let rows = (row.scope, row.name, row.thread);
        if std::mem::replace(&mut seen.last, rows) == rows {
            return;
        }
        let place = &mut seen.place;
        let path = &report.by_scope[row.scope].path;
        let same = place.scope.iter().zip(path).take_while(|(a, b)| a == b).count();
        place.has_inner_scopes |= same < place.scope.len() || same < path.len();
        place.scope.truncate(same);
        let name = &report.by_name[row.name];
        if place.name.as_ref() != Some(&name.name) || place.group != name.group {
            (place.name, place.group) = (None, Vec::new());
        }
        let thread = &report.by_thread[row.thread];
        if place.thread.as_ref().is_some_and(|(id, _)| *id != thread.id) {
            place.thread = None;
        }
    }
}

/// Adds what the observer has seen of the buckets of each place.
fn add_seen(
    all: &mut [PlaceStats],
    place_of: &[Option<usize>],
    analyzer: &Analyzer<FindingsObserver>,
    (report, shutdown): (&Report, Option<Shutdown>),
) {
    let observer = analyzer.observer();
    let place = |bucket: usize| place_of.get(bucket).copied().flatten();
    for (bucket, seen) in observer.buckets.iter().enumerate() {
        if let Some(place) = place(bucket) {
            let of = &mut all[place];
            of.short_lived_bytes = of.short_lived_bytes.wrapping_add(seen.short_lived_bytes);
            let lifetimes = of.lifetimes.iter_mut().zip(seen.lifetimes);
            lifetimes.for_each(|(sum, count)| *sum += u64::from(count));
            for (size, count) in seen.sizes() {
                *of.sizes.entry(size).or_default() += count;
            }
        }
    }
    for (bucket, ended) in observer.ended() {
        if let Some(place) = place(bucket) {
            all[place].ended.sum(&ended);
        }
    }
    for seen in &mut *all {
        let most = seen.sizes.drain().max_by_key(|&(bytes, count)| (count, bytes));
        seen.size = most.unwrap_or_default();
    }
    add_moments(all, place_of, observer);
    add_freed(all, place, analyzer, (report, shutdown));
}

/// Adds how many bytes were live at each moment.
fn add_moments(all: &mut [PlaceStats], place_of: &[Option<usize>], observer: &FindingsObserver) {
    // PERF: most places never have enough live bytes for a finding about them.
    let has_enough = |seen: &PlaceStats| {
        seen.figures.live_bytes.max(seen.figures.live_bytes_at_peak) >= MIN_BYTES
    };
    let large: Vec<_> = all.iter().map(has_enough).collect();
    let place = |bucket: usize| (*place_of.get(bucket)?).filter(|place| large[*place]);
    for clock in 0..CLOCKS {
        let moments = observer.moments(clock);
        for (seen, _) in all.iter_mut().zip(&large).filter(|(_, large)| **large) {
            seen.live[clock] = vec![0; moments.len()];
        }
        for (number, moment) in moments.iter().enumerate() {
            for (bucket, bytes) in moment.live() {
                if let Some(place) = place(bucket) {
                    let sum = &mut all[place].live[clock][number];
                    *sum = sum.wrapping_add(bytes);
                }
            }
        }
    }
}

/// Adds which threads have freed the blocks of each place, and in which scopes.
fn add_freed(
    all: &mut [PlaceStats],
    place: impl Fn(usize) -> Option<usize>,
    analyzer: &Analyzer<FindingsObserver>,
    (report, shutdown): (&Report, Option<Shutdown>),
) {
    let mut rows = HashMap::<(usize, u32, bool), FreedBy>::new();
    let mut matrices: Vec<_> = all.iter().map(|_| Matrix::default()).collect();
    for (bucket, by, freed) in analyzer.observer().freed() {
        let Some((place, row)) = place(bucket as usize).zip(report.by_bucket.get(bucket as usize))
        else {
            continue;
        };
        all[place].freed_at_shutdown.add(&freed.at_shutdown(shutdown));
        let freed = freed.before(shutdown);
        if freed.blocks == 0 {
            continue;
        }
        matrices[place].add(row.scope, by, freed);
        let (thread, name) = analyzer.thread_of(by);
        let is_own = report.by_thread.get(row.thread).is_some_and(|row| row.id == thread);
        let row = rows.entry((place, thread, is_own)).or_insert_with(|| {
            let name = name.to_owned();
            made!(FreedBy { thread, name, is_own })
        });
        row.blocks += freed.blocks;
        row.bytes = row.bytes.wrapping_add(freed.bytes);
    }
    for ((place, ..), row) in rows {
        all[place].freed_by.push(row);
    }
    for (seen, matrix) in all.iter_mut().zip(matrices) {
        seen.freed_in = matrix.rows(analyzer, report);
        sort::by_key(&mut seen.freed_by, |row| (Reverse(row.blocks), row.thread, row.is_own));
    }
}
