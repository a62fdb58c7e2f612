//! Makes a report: sums the buckets into rows, and sorts.

mod largest;
mod stack_table;
mod sums;
mod top_live;

pub use top_live::{HeldBy, TopHolder, TopLive, write_plain};

use crate::accounts::{Bucket, Tally, class_bounds};
use crate::apply::Model;
use crate::attribution::{Context, Name, OUTERMOST, ROOT, Thread};
use crate::cutoff::Cutoff;
use crate::diagnostics::Diagnostics;
use crate::facts::Facts;
use crate::live_set::HEAPS;
use crate::llm_tags::LlmTags;
use crate::rss::RssHistory;
use crate::timeline::Timeline;
use crate::untracked::UntrackedMemory;
use largest::Largest;
use memledger_document::internal::{FilePages, order, sort, static_variables};
use memledger_document::{
    BucketRow, Figures, GroupRow, HeapRow, Module, NameRow, PeakMoment, Report, ScopeRow, SizeRow,
    ThreadRow, TimePoint, TimeSeries, Totals, TraceInfo, made,
};
use stack_table::StackTable;
use std::cmp::Ordering;
use sums::{TreeFigures, add_counts, add_moves, by_node, by_row};

/// What a report is made from.
pub(crate) struct Sources<'a> {
    pub(crate) model: &'a Model,
    pub(crate) timeline: &'a Timeline,
    pub(crate) facts: &'a Facts,
    pub(crate) llm_tags: &'a LlmTags,
    pub(crate) rss: &'a RssHistory,
    pub(crate) untracked: &'a UntrackedMemory,
    pub(crate) diagnostics: &'a Diagnostics,
    pub(crate) cutoff: &'a Cutoff,
    /// How many of the largest live blocks the report has.
    pub(crate) largest_live: usize,
    /// Stacks count only blocks of scopes with this in their path, in lower case.
    pub(crate) scope: Option<&'a str>,
    /// Whether the report has a row for each stack.
    pub(crate) by_stack: bool,
    /// Whether the report has a row for each bucket.
    pub(crate) by_bucket: bool,
    /// Whether the report has what is made from single blocks, and the figures over time.
    pub(crate) by_block: bool,
}

impl Sources<'_> {
    /// The report of the current state, or of the point where counting stopped.
    pub(crate) fn report(&self) -> Report {
        let mut report = self.cutoff.report().map_or_else(|| self.build(), Report::clone);
        self.finish(&mut report);
        report
    }

    /// Adds what comes after the point where counting stopped.
    pub(crate) fn finish(&self, report: &mut Report) {
        self.fill(report);
        report.after_report = self.cutoff.after();
    }

    /// Adds losses. They are included even if they are noticed after the point where counting stopped.
    pub(crate) fn fill(&self, report: &mut Report) {
        let is_ours = report.trace.from_process_start.is_some();
        report.untracked.is_beside = is_ours && !self.model.contexts().heaps().has_name("C");
        self.diagnostics.fill(report, self.model.heaps().refused());
    }

    /// The report of the current state, without losses.
    pub(crate) fn build(&self) -> Report {
        let trace = self.trace();
        let mut rss = self
            .rss
            .rss(self.model.contexts().heaps(), |heap| self.model.heaps().sizes(heap..heap + 1));
        let mapped = rss.iter_mut().flat_map(|rss| [&mut rss.peak, &mut rss.end]).flatten();
        let mut mapped: Vec<_> = mapped.flat_map(|memory| &mut memory.mapped_by).collect();
        let mappers: Vec<_> = mapped.iter().filter_map(|row| Some(row.stack? as u32)).collect();
        let mut stacks = StackTable::of(self, self.by_stack, &mappers);
        for row in &mut mapped {
            row.stack = row.stack.and_then(|stack| stacks.row(stack as u32));
        }
        let largest = match self.by_block {
            true => Largest::of(self.model, self.largest_live, |stack| stacks.row(stack)),
            false => Largest::default(),
        };
        let static_pages = self.static_pages(&mut stacks.modules);
        let (by_scope, scopes) = self.scope_rows(&largest.by_bucket);
        let (by_name, names) = self.name_rows();
        let (by_thread, threads) = self.thread_rows();
        let (by_heap, heaps) = self.heap_rows();
        let timeline = match self.by_block {
            true => self.series(trace.duration_ns, &threads),
            false => TimeSeries::default(),
        };
        let by_bucket = if self.by_bucket {
            self.bucket_rows([&scopes, &names, &threads, &heaps], &stacks)
        } else {
            Vec::new()
        };
        made!(Report {
            trace,
            totals: self.totals(),
            peak: self.peak_moment(),
            bookmarks: self.timeline.bookmarks().all(),
            timeline,
            by_scope,
            by_group: self.group_rows(),
            by_name,
            by_thread,
            by_heap,
            by_size: self.size_rows(),
            by_stack: stacks.stacks,
            by_bucket,
            frames: stacks.frames,
            llm_tags: self.llm_tags.rows(),
            rss,
            static_variables: static_variables(&static_pages, &stacks.modules, |_| Vec::new()),
            static_pages,
            untracked: self.untracked.report(self.facts, self.model.heaps().windows(), || {
                self.model.reserved_in_order()
            }),
            modules: stacks.modules,
            stacks_in_scope: self.scope.map(str::to_owned),
            stack_sampling_bytes: Some(self.model.accounts().sampling()).filter(|&mean| mean > 0),
            largest_live: largest.blocks
        })
    }

    /// The resident pages of static variables, in these modules or new ones.
    fn static_pages(&self, modules: &mut Vec<Module>) -> Vec<FilePages> {
        let mut pages = self.rss.pages().to_vec();
        for FilePages { file, .. } in &mut pages {
            let module = &self.model.callstacks().files()[*file as usize];
            let known = modules.iter().position(|known| known == module);
            *file = known.unwrap_or_else(|| {
                modules.push(module.clone());
                modules.len() - 1
            }) as u32;
        }
        pages
    }

    /// What the trace says about itself.
    fn trace(&self) -> TraceInfo {
        let mut trace = self.facts.trace().clone();
        trace.events = self.cutoff.events();
        trace.duration_ns = self.cutoff.end(self.timeline.clock().now()).at_ns;
        trace.time_resolution_ns = self.timeline.clock().resolution();
        // Only our writer reports where its stream began; channels of other writers mean something
        // else.
        if trace.from_process_start.is_some() {
            trace.scopes_off = self.timeline.scopes_off(trace.duration_ns);
        }
        if self.llm_tags.has_values() && !self.facts.has_memory_types() {
            trace.memory_recorded = Some(false);
        }
        trace
    }

    /// The figures over time; `rows` has the row of each thread.
    fn series(&self, now_ns: u64, rows: &[usize]) -> TimeSeries {
        self.timeline.series().report(
            self.time_point(now_ns),
            self.model.threads().all().len(),
            |number| self.model.thread_point(number),
            |number| rows[number as usize],
        )
    }

    fn totals(&self) -> Totals {
        let accounts = self.model.accounts();
        let total = accounts.total();
        let mut totals = made!(Totals {
            live_blocks: total.live_blocks,
            live_bytes: total.live_bytes,
            peak_bytes: total.peak_bytes,
            peak_bytes_at_ns: total.peak_at_ns,
            blocks_at_peak: total.blocks_at_peak,
            peak_blocks: total.peak_blocks,
            unnamed_bytes_at_peak: self.unnamed_at_peak(),
            overhead_bytes: self.facts.overhead_bytes(),
        });
        self.tally().set(&mut totals);
        for class in accounts.size_classes() {
            add_moves(&mut totals.moved_out, class.left);
            add_moves(&mut totals.moved_in, class.returned);
        }
        totals
    }

    /// What was counted of all blocks.
    fn tally(&self) -> Tally {
        let mut tally = Tally::default();
        let classes = self.model.accounts().size_classes();
        classes.iter().for_each(|class| tally.add(&class.counts.tally));
        tally
    }

    /// The figures of the timeline as they are now.
    pub(crate) fn time_point(&self, at_ns: u64) -> TimePoint {
        let accounts = self.model.accounts();
        let total = accounts.total();
        let tally = self.tally();
        made!(TimePoint {
            at_ns,
            events: self.cutoff.events(),
            live_bytes: total.live_bytes,
            live_blocks: total.live_blocks,
            peak_bytes: total.most_bytes,
            allocated_bytes: tally.allocated_bytes,
            allocations: tally.allocations,
            frees: tally.frees,
            reallocations: tally.reallocations,
        })
    }

    fn peak_moment(&self) -> PeakMoment {
        let total = self.model.accounts().total();
        if total.peak_bytes == 0 {
            return PeakMoment::default();
        }
        let around = self.timeline.bookmarks().around(total.peak_at_event);
        let (after_bookmark, before_bookmark) = around;
        let to_ns = self.timeline.time_after_peak(total.generation);
        made!(PeakMoment { from_ns: total.peak_at_ns, to_ns, after_bookmark, before_bookmark })
    }

    /// Bytes live at the peak in no scope and without a tag.
    fn unnamed_at_peak(&self) -> u64 {
        let accounts = self.model.accounts();
        let generation = accounts.total().generation;
        let contexts = self.model.contexts();
        let outermost = contexts.get(OUTERMOST);
        let unnamed = accounts.buckets().filter(|bucket| {
            let context = contexts.get(bucket.context);
            (context.scope, context.name) == (outermost.scope, outermost.name)
        });
        unnamed.fold(0, |sum, bucket| sum.wrapping_add(bucket.counts.at_peak(generation).1))
    }

    /// The rows, and the row of each node of the tree of scopes.
    fn scope_rows(&self, largest_by_bucket: &[u64]) -> (Vec<ScopeRow>, Vec<usize>) {
        let contexts = self.model.contexts();
        let accounts = self.model.accounts();
        let scope_of = |context: u32| contexts.get(context).scope;
        let figures = by_node(accounts, contexts.scopes(), scope_of);
        let mut largest = vec![0; figures.len()];
        for (bucket, &bytes) in accounts.buckets().zip(largest_by_bucket) {
            let largest: &mut u64 = &mut largest[scope_of(bucket.context) as usize];
            *largest = bytes.max(*largest);
        }
        let entries = contexts.entries();
        // The writer reports no entries for a scope that was never entered.
        let counts_all = self.facts.counts_entries() && self.diagnostics.has_report();
        let never = counts_all.then_some(0);
        let row = |(node, figures): (usize, Option<_>)| {
            let (figures, inclusive) = figures?;
            let (largest_live_bytes, node) = (largest[node], node as u32);
            let path = contexts.scopes().path(node);
            let entries = entries.get(&node).copied().or(never).filter(|_| node != ROOT);
            Some(made!(ScopeRow { path, entries, figures, inclusive, largest_live_bytes }))
        };
        let rows = figures.into_iter().enumerate().map(row);
        sorted(rows, |a, b| order(&a.figures, &b.figures).then_with(|| a.path.cmp(&b.path)))
    }

    fn group_rows(&self) -> Vec<GroupRow> {
        let contexts = self.model.contexts();
        let group_of = |context: u32| {
            let name = contexts.get(context).name;
            contexts.names()[name as usize].group
        };
        let figures: TreeFigures = by_node(self.model.accounts(), contexts.groups(), group_of);
        let row = |(node, figures): (usize, Option<_>)| {
            let (figures, inclusive) = figures?;
            Some(made!(GroupRow { group: contexts.groups().path(node as u32), figures, inclusive }))
        };
        // The root of the tree of groups is not a group itself.
        let rows = figures.into_iter().enumerate().skip(1).filter_map(row);
        let mut rows: Vec<_> = rows.collect();
        sort::by(&mut rows, |a, b| {
            order(&a.figures, &b.figures).then_with(|| a.group.cmp(&b.group))
        });
        rows
    }

    /// The rows, and the row of each name.
    fn name_rows(&self) -> (Vec<NameRow>, Vec<usize>) {
        let (contexts, accounts) = (self.model.contexts(), self.model.accounts());
        let names = contexts.names();
        let sums = by_row(accounts, names.len(), |bucket| Some(contexts.get(bucket.context).name));
        let row = |(name, figures): (&Name, Option<_>)| {
            let figures: Figures = figures?;
            Some(made!(NameRow {
                group: contexts.groups().path(name.group),
                name: name.text.to_string(),
                figures: made!(Figures { peak_bytes: accounts.peak(name.peak), ..figures }),
            }))
        };
        sorted(names.iter().zip(sums).map(row), |a, b| {
            order(&a.figures, &b.figures)
                .then_with(|| (&a.group, &a.name).cmp(&(&b.group, &b.name)))
        })
    }

    /// The rows, and the row of each thread.
    fn thread_rows(&self) -> (Vec<ThreadRow>, Vec<usize>) {
        let accounts = self.model.accounts();
        let threads = self.model.threads().all();
        let sums = by_row(accounts, threads.len(), |bucket| Some(bucket.thread));
        let row = |(thread, figures): (&Thread, Option<_>)| {
            let figures: Figures = figures?;
            Some(made!(ThreadRow {
                id: thread.id,
                name: thread.name.clone(),
                system_id: thread.system_id,
                figures: made!(Figures { peak_bytes: accounts.peak(thread.peak), ..figures }),
            }))
        };
        // A stable sort: threads are in the order in which they were first seen.
        sorted(threads.iter().zip(sums).map(row), |a, b| {
            order(&a.figures, &b.figures).then(a.id.cmp(&b.id))
        })
    }

    /// The rows, and the row of each root heap.
    fn heap_rows(&self) -> (Vec<HeapRow>, Vec<usize>) {
        let (contexts, accounts) = (self.model.contexts(), self.model.accounts());
        let heap_of = |bucket: &Bucket| Some(contexts.get(bucket.context).heap.into());
        let sums = by_row(accounts, HEAPS, heap_of);
        let row = |(heap, figures): (u8, Option<_>)| {
            let figures: Figures = figures?;
            let tracker = contexts.heaps().peak(heap);
            let peak_bytes =
                tracker.map_or(accounts.total().peak_bytes, |peak| accounts.peak(peak));
            let name = contexts.heaps().name(heap);
            Some(made!(HeapRow {
                id: heap.into(),
                name,
                figures: made!(Figures { peak_bytes, ..figures })
            }))
        };
        sorted((0..).zip(sums).map(row), |a, b| order(&a.figures, &b.figures).then(a.id.cmp(&b.id)))
    }

    /// The rows of all buckets. Each bucket has a row in the other lists, because the sums of these
    /// are over all buckets.
    fn bucket_rows(
        &self,
        [scopes, names, threads, heaps]: [&[usize]; 4],
        stacks: &StackTable,
    ) -> Vec<BucketRow> {
        let (contexts, accounts) = (self.model.contexts(), self.model.accounts());
        let generation = accounts.total().generation;
        let row = |(number, bucket): (usize, Bucket)| {
            let Context { scope, name, heap, .. } = contexts.get(bucket.context);
            let figures = bucket.figures(generation);
            let weights = accounts.weights(number as u32).map(Box::new);
            made!(BucketRow {
                scope: scopes[scope as usize],
                name: names[name as usize],
                thread: threads[bucket.thread as usize],
                heap: heaps[usize::from(heap)],
                stack: stacks.row(bucket.stack),
                figures,
                weights,
                sampling: accounts.sampling_of(number as u32),
            })
        };
        accounts.buckets().enumerate().map(row).collect()
    }

    fn size_rows(&self) -> Vec<SizeRow> {
        let accounts = self.model.accounts();
        let mut rows = Vec::new();
        for (number, class) in accounts.size_classes().iter().enumerate() {
            let mut figures = Figures::default();
            add_counts(&mut figures, &class.counts, accounts.total().generation);
            for (out, into) in [(class.left, class.returned), (class.resized_out, class.resized_in)]
            {
                add_moves(&mut figures.moved_out, out);
                add_moves(&mut figures.moved_in, into);
            }
            if figures == Figures::default() {
                continue;
            }
            figures.peak_bytes = class.peak;
            let (min_bytes, max_bytes) = class_bounds(number);
            rows.push(made!(SizeRow { min_bytes, max_bytes, figures }));
        }
        sort::by(&mut rows, |a, b| {
            order(&a.figures, &b.figures).then(a.min_bytes.cmp(&b.min_bytes))
        });
        rows
    }
}

/// The rows in their order, and for each item the place of its row; 0 if it has none.
fn sorted<T>(
    rows: impl Iterator<Item = Option<T>>,
    order: impl Fn(&T, &T) -> Ordering,
) -> (Vec<T>, Vec<usize>) {
    let mut items = 0;
    let counted = rows.inspect(|_| items += 1).enumerate();
    let mut rows: Vec<_> = counted.filter_map(|(item, row)| Some((item, row?))).collect();
    sort::by(&mut rows, |(_, a), (_, b)| order(a, b));
    let mut places = vec![0; items];
    for (place, &(item, _)) in rows.iter().enumerate() {
        places[item] = place;
    }
    (rows.into_iter().map(|(_, row)| row).collect(), places)
}
