//! The answer of a query: its rows, as JSON and as text.
//!
//! The JSON has the schema `memledger.query/1`:
//!
//! ```text
//! "rule", "insights", "about"
//! "positions"  [{ "asked", "at_ns", "event" }]   A, B, C, D as far as the rule has them
//! "trace", "losses", "stack_sampling_bytes"      as in the report
//! "total"      { "blocks", "bytes" }
//! "runs"       { "scope", "runs", "entries", "open", "with_blocks", "still_live_blocks", "still_live_bytes",
//!                "largest": [{ "thread", "thread_id", "began_at_ns", "began_by_event", "ended_at_ns",
//!                "is_open", "blocks", "bytes" }] }   with --in-each
//! "by"         what the rows are of: "scope", "group" ...
//! "rows"       [{ what it is of, "blocks", "bytes", "inclusive" }]
//!              sizes have "min_bytes" and "max_bytes", lifetimes "from_ns" and "below_ns"; in a sampled
//!              trace those of calls and stacks have what is in the sample, and "estimates" and
//!              "inclusive_estimates": { "blocks": { "value", "low", "high" }, "bytes" }
//! "blocks"     [{ "address", "bytes", "allocated_at_ns", "freed_at_ns", "freed_by_event", "thread", "path",
//!                 "group", "name", "stack" }]   with --blocks
//! ```
//!
//! The rule grown-and-declined also has `declined_blocks` and `declined_bytes` beside each `blocks` and
//! `bytes`.

use crate::options::{By, Options, Sort};
use crate::pretty::{self, Json, Object, Value, objects};
use crate::text::{query, tag};
use memledger_analysis::{Answer, Found, FoundBlock, Reached, Rule, ScopeRun, ScopeRuns};
use memledger_document::internal::{CallKind, Calls, Weights};
use memledger_document::{Estimates, Frames, Report, SizeRow};
use std::cmp::Reverse;
use std::collections::HashMap;
use std::io::{self, Write};

/// One row of an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AnswerRow {
    /// What it is of: the names of scopes or groups, the outermost first; a group and its name; the
    /// functions of a stack, the innermost first; or one name.
    pub path: Vec<String>,
    /// The id of a thread.
    pub id: Option<u32>,
    /// The smallest and the largest size of a size class; the last class has no largest. Of a class of
    /// lifetimes the shortest, and the shortest above it, in nanoseconds.
    pub bounds: Option<(u64, Option<u64>)>,
    /// What was found in it.
    pub found: Found,
    /// The same with all scopes or groups inside it, or all that a function called.
    pub inclusive: Found,
    /// In a trace with a sample of call stacks: estimates for both, of which `found` and `inclusive` are the
    /// sample.
    pub estimates: Option<Box<[Estimates; 2]>>,
}

impl AnswerRow {
    /// What was found, and the same with all inside it: in a sample, the estimates.
    fn values(&self) -> [Found; 2] {
        match &self.estimates {
            Some(estimates) => estimates.each_ref().map(|it| Found::of(&it.values())),
            None => [self.found, self.inclusive],
        }
    }
}

/// All rows of an answer, in no order.
fn all_rows(answer: &Answer, by: By, options: &Options) -> Vec<AnswerRow> {
    let report = answer.report();
    let one = |path: Vec<String>, of: &_, inclusive: &_| AnswerRow {
        path,
        found: Found::of(of),
        inclusive: Found::of(inclusive),
        ..AnswerRow::default()
    };
    let calls = |kind| {
        let rows = report.by_call(kind, options.frames);
        let rows = rows.into_iter().map(|row| AnswerRow {
            estimates: row.estimates().map(Box::new),
            ..one(vec![row.name], &row.figures, &row.inclusive)
        });
        rows.collect()
    };
    match by {
        By::Scope => {
            let rows = report.by_scope.iter();
            rows.map(|row| one(row.path.clone(), &row.figures, &row.inclusive)).collect()
        }
        By::Group => {
            let rows = report.by_group.iter();
            rows.map(|row| one(row.group.clone(), &row.figures, &row.inclusive)).collect()
        }
        By::Name => {
            let rows = report.by_name.iter().map(|row| {
                let path = row.group.iter().chain([&row.name]).cloned().collect();
                one(path, &row.figures, &row.figures)
            });
            rows.collect()
        }
        By::Thread => {
            let rows = report.by_thread.iter().map(|row| AnswerRow {
                id: Some(row.id),
                ..one(vec![row.name.clone()], &row.figures, &row.figures)
            });
            rows.collect()
        }
        By::Heap => {
            let rows = report.by_heap.iter();
            rows.map(|row| one(vec![row.name.clone()], &row.figures, &row.figures)).collect()
        }
        By::Size => {
            let rows = report.by_size.iter();
            let bounds = |row: &SizeRow| (row.min_bytes, row.max_bytes);
            rows.map(|row| of_class(bounds(row), Found::of(&row.figures))).collect()
        }
        By::Lifetime => {
            let rows = answer.by_lifetime.iter();
            rows.map(|row| of_class((row.from_ns, Some(row.below_ns)), row.found)).collect()
        }
        By::Stack => stacks(report, options.frames),
        By::Function => calls(CallKind::Function),
        By::Line => calls(CallKind::Line),
        By::Crate => calls(CallKind::Crate),
    }
}

fn of_class(bounds: (u64, Option<u64>), found: Found) -> AnswerRow {
    AnswerRow { bounds: Some(bounds), found, inclusive: found, ..AnswerRow::default() }
}

/// The rows of an answer, without those in which nothing was found: the most bytes first. Only the
/// rows whose name has [`Options::filter`] in it; [`Options::top`] is ignored.
pub fn rows(answer: &Answer, by: By, options: &Options) -> Vec<AnswerRow> {
    let mut rows = all_rows(answer, by, options);
    let shows = |row: &AnswerRow| match by {
        By::Name => {
            row.path.split_last().is_some_and(|(name, group)| options.shows(&tag(group, name)))
        }
        By::Size | By::Lifetime => true,
        By::Thread => {
            let id = row.id.unwrap_or_default();
            options.shows(&format!("{} ({id})", row.path.concat()))
        }
        _ => options.shows(&row.path.join(" > ")),
    };
    let none = Found::default();
    rows.retain(|row| (row.found != none || row.inclusive != none) && shows(row));
    let key = |found: &Found| match options.sort {
        Sort::Count => [found.blocks, found.declined_blocks],
        _ => [found.bytes, found.declined_bytes],
    };
    rows.sort_by_cached_key(|row| {
        let [found, inclusive] = row.values();
        (Reverse((key(&inclusive), key(&found))), row.path.clone())
    });
    rows
}

/// Stacks with the same functions share a row.
fn stacks(report: &Report, frames: Frames) -> Vec<AnswerRow> {
    let calls = Calls::of(report, frames);
    let mut rows = Vec::<AnswerRow>::new();
    let (mut index, mut weights) = (HashMap::new(), HashMap::<usize, Weights>::new());
    for (number, figures) in report.by_stack.all_figures().enumerate() {
        let functions = calls.shown(number).map(|call| calls.function(call).to_owned());
        let path: Vec<_> = functions.collect();
        let at = *index.entry(path.clone()).or_insert_with(|| {
            rows.push(AnswerRow { path, ..AnswerRow::default() });
            rows.len() - 1
        });
        let found = Found::of(&figures);
        rows[at].found.add_found(found);
        rows[at].inclusive.add_found(found);
        if let Some(of_stack) = report.by_stack.weights(number) {
            weights.entry(at).or_default().add(of_stack);
        }
    }
    for (at, weights) in weights {
        rows[at].estimates = Some(Box::new([weights.estimates(); 2]));
    }
    rows
}

/// An answer, with what it takes to write it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Written<'a> {
    /// The answer.
    pub answer: &'a Answer,
    /// The positions as they were asked for: `1.5s`, `end`.
    pub asked: &'a [String],
    /// How the answer is shaped: [`Options::by`] says what the rows are of (scopes, if it says
    /// nothing).
    pub options: &'a Options,
}

impl<'a> Written<'a> {
    /// The answer, the positions as they were asked for, and how it is shaped.
    pub fn new(answer: &'a Answer, asked: &'a [String], options: &'a Options) -> Self {
        Self { answer, asked, options }
    }

    fn by(&self) -> By {
        self.options.by.unwrap_or(By::Scope)
    }

    /// Writes it as text for a terminal.
    pub fn text(&self, out: &mut dyn Write) -> io::Result<()> {
        query::write(self.answer, self.asked, self.options, self.by(), out)
    }

    /// Writes it as one JSON document and a line feed. All rows are in it.
    pub fn json(&self, out: &mut dyn Write) -> io::Result<()> {
        pretty::write(self, out)?;
        out.write_all(b"\n")
    }
}

impl Json for Written<'_> {
    fn write(&self, value: Value<'_, '_>) -> io::Result<()> {
        let Answer { rule, positions, total, blocks, .. } = self.answer;
        let report = self.answer.report();
        let (by, has_declined) = (self.by(), *rule == Rule::GrownAndDeclined);
        let rows = rows(self.answer, by, self.options);
        let rows: Vec<_> = rows.iter().map(|row| Row { row, by, has_declined }).collect();
        let asked = self.asked.iter().map(String::as_str).chain(std::iter::repeat("end"));
        let positions: Vec<_> =
            asked.zip(positions).map(|(asked, at)| ReachedTime { asked, at }).collect();
        let with_stacks = !report.by_stack.is_empty();
        let blocks: Vec<_> =
            blocks.iter().map(|found| Block { found, report, with_stacks }).collect();
        value.object(|object| {
            object.entry("schema", "memledger.query/1")?;
            object.entry("rule", rule.name())?;
            object.entry("insights", rule.insights())?;
            object.entry("about", rule.about())?;
            object.entry("positions", &positions)?;
            object.entry("trace", &report.trace)?;
            object.entry("losses", &report.losses)?;
            object.entry("stack_sampling_bytes", &report.stack_sampling_bytes)?;
            object.entry("total", &Sums { found: total, has_declined })?;
            if let Some(runs) = &self.answer.runs {
                object.entry("runs", runs)?;
            }
            object.entry("by", by.name())?;
            object.entry("rows", &rows)?;
            object.entry("blocks", &blocks)
        })
    }
}

struct ReachedTime<'a> {
    asked: &'a str,
    at: &'a Reached,
}

objects! {
    ReachedTime<'_>, of => {
        "asked": of.asked,
        "at_ns": of.at.at_ns,
        "event": of.at.event,
    }
    ScopeRuns, of => {
        "scope": of.scope.as_str(),
        "runs": of.runs,
        "entries": of.entries,
        "open": of.open,
        "with_blocks": of.with_blocks,
        "still_live_blocks": of.still_live_blocks,
        "still_live_bytes": of.still_live_bytes,
        "largest": of.largest,
    }
    ScopeRun, of => {
        "thread": of.thread.as_str(),
        "thread_id": of.thread_id,
        "began_at_ns": of.began_at_ns,
        "began_by_event": of.began_by_event,
        "ended_at_ns": of.ended_at_ns,
        "is_open": of.is_open,
        "blocks": of.blocks,
        "bytes": of.bytes,
    }
}

struct Sums<'a> {
    found: &'a Found,
    has_declined: bool,
}

impl Sums<'_> {
    fn entries(&self, object: &mut Object<'_, '_>) -> io::Result<()> {
        object.entry("blocks", &self.found.blocks)?;
        object.entry("bytes", &self.found.bytes)?;
        if self.has_declined {
            object.entry("declined_blocks", &self.found.declined_blocks)?;
            object.entry("declined_bytes", &self.found.declined_bytes)?;
        }
        Ok(())
    }
}

impl Json for Sums<'_> {
    fn write(&self, value: Value<'_, '_>) -> io::Result<()> {
        value.object(|object| self.entries(object))
    }
}

/// The estimates under the keys of what they are of, as [`Found::of`] has them.
struct Estimated<'a> {
    of: &'a Estimates,
    has_declined: bool,
}

impl Json for Estimated<'_> {
    fn write(&self, value: Value<'_, '_>) -> io::Result<()> {
        value.object(|object| {
            object.entry("blocks", &self.of.allocations)?;
            object.entry("bytes", &self.of.live_bytes_at_peak)?;
            if self.has_declined {
                object.entry("declined_blocks", &self.of.frees)?;
                object.entry("declined_bytes", &self.of.allocated_bytes)?;
            }
            Ok(())
        })
    }
}

struct Row<'a> {
    row: &'a AnswerRow,
    by: By,
    has_declined: bool,
}

impl Json for Row<'_> {
    fn write(&self, value: Value<'_, '_>) -> io::Result<()> {
        let Self { row, by, has_declined } = *self;
        value.object(|object| {
            match by {
                By::Scope => object.entry("path", &row.path)?,
                By::Group => object.entry("group", &row.path)?,
                By::Name => {
                    let (name, group) =
                        row.path.split_last().map_or(("", &[][..]), |(n, g)| (n, g));
                    object.entry("group", &group.to_vec())?;
                    object.entry("name", name)?;
                }
                By::Thread => {
                    object.entry("id", &row.id)?;
                    object.entry("name", &row.path.concat())?;
                }
                By::Size => {
                    object.entry("min_bytes", &row.bounds.map(|(min, _)| min))?;
                    object.entry("max_bytes", &row.bounds.and_then(|(_, max)| max))?;
                }
                By::Lifetime => {
                    object.entry("from_ns", &row.bounds.map(|(from, _)| from))?;
                    object.entry("below_ns", &row.bounds.and_then(|(_, below)| below))?;
                }
                By::Stack => object.entry("functions", &row.path)?,
                By::Heap | By::Function | By::Line | By::Crate => {
                    object.entry(by.name(), &row.path.concat())?;
                }
            }
            Sums { found: &row.found, has_declined }.entries(object)?;
            if let Some(estimates) = &row.estimates {
                let [own, inclusive] =
                    estimates.each_ref().map(|of| Estimated { of, has_declined });
                object.entry("estimates", &own)?;
                object.entry("inclusive_estimates", &inclusive)?;
            }
            match by {
                By::Name | By::Thread | By::Heap | By::Size | By::Lifetime | By::Stack => Ok(()),
                _ => object.entry("inclusive", &Sums { found: &row.inclusive, has_declined }),
            }
        })
    }
}

struct Block<'a> {
    found: &'a FoundBlock,
    report: &'a Report,
    with_stacks: bool,
}

impl Json for Block<'_> {
    fn write(&self, value: Value<'_, '_>) -> io::Result<()> {
        let FoundBlock { block, single, .. } = self.found;
        let (freed_by_event, freed_at_ns) = single.freed().unzip();
        value.object(|object| {
            object.entry("address", &format!("{:#x}", block.address))?;
            object.entry("bytes", &block.bytes)?;
            object.entry("allocated_at_ns", &block.allocated_at_ns)?;
            object.entry("freed_at_ns", &freed_at_ns)?;
            object.entry("freed_by_event", &freed_by_event)?;
            object.entry("thread", &block.thread)?;
            object.entry("thread_id", &block.thread_id)?;
            object.entry("path", &block.path)?;
            object.entry("group", &block.group)?;
            object.entry("name", &block.name)?;
            if self.with_stacks {
                let functions =
                    block.stack.map(|stack| self.report.functions_of(stack, Frames::Folded));
                object.entry("stack", &functions)?;
            }
            Ok(())
        })
    }
}
