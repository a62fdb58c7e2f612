//! The report: sums the cells into rows, and sorts.

use super::Analyzer;
use super::contexts::{Contexts, OUTERMOST};
use super::live::LiveSet;
use super::report::{
    Figures, GroupRow, LiveBlock, Moves, NameRow, PeakMoment, Report, ScopeRow, SizeRow, ThreadRow,
    Totals,
};
use super::rows::{Cell, Counts, Moved, class_bounds};
use super::tree::{ROOT, Tree};
use std::cmp::Reverse;

impl Analyzer {
    /// The report of everything seen so far. Costs time in proportion to rows and live blocks.
    pub fn report(&self) -> Report {
        self.settled().report_as_it_stands()
    }

    /// An upper estimate of the bytes needed to make the report and to write it.
    #[cfg(feature = "enable")]
    pub(crate) fn report_bytes(&self) -> usize {
        /// Bytes of a row with its names and its text.
        const ROW: usize = 2 << 10;
        let rows = self.book.cells.len() + self.contexts.contexts.len() + self.threads.all.len();
        (64 << 10) + ROW * rows
    }

    fn report_as_it_stands(&self) -> Report {
        let mut report = match &self.finished {
            Some(report) => report.as_ref().clone(),
            None => self.build(),
        };
        // What is missing shows even if it is noticed behind the point where counting stopped.
        let (noted, told, missing) = self.lost;
        report.losses = self.losses;
        let refused = self.heaps.iter().map(LiveSet::refused).sum::<u64>();
        report.losses.lost_events = noted.max(told).saturating_add(missing).saturating_add(refused);
        report.after_report = self.after;
        let whole =
            !self.damaged && report.losses.lost_events == 0 && self.losses.serial_holes == 0;
        report.trace.complete = whole && (self.told_all || self.ended);
        if self.until != super::Until::End {
            report.after_report = super::AfterReport::default();
        }
        report
    }

    pub(super) fn build(&self) -> Report {
        let scopes = self.scope_figures();
        let (largest_live, largest_by_cell) = self.largest();
        let groups = self.group_figures();
        let mut trace = self.trace.clone();
        trace.duration_ns = match self.reported_at {
            Some(time) if self.until != super::Until::End => time,
            reported => reported.unwrap_or(0).max(self.clock.now()),
        };
        trace.time_resolution_ns = self.clock.resolution();
        // Only our writer reports where its stream began; channels of other writers mean something
        // else.
        if trace.from_process_start.is_some() {
            trace.scopes_off = self.scopes_off.spans_until(trace.duration_ns);
        }
        Report {
            trace,
            totals: self.totals(),
            peak: self.peak_moment(),
            bookmarks: self.bookmarks.all(),
            by_scope: self.scope_rows(scopes, &largest_by_cell),
            by_group: self.group_rows(groups),
            by_name: self.name_rows(),
            by_thread: self.thread_rows(),
            by_size: self.size_rows(),
            largest_live,
            ..Report::default()
        }
    }

    fn totals(&self) -> Totals {
        let total = &self.book.total;
        let mut totals = Totals {
            live_blocks: total.live_blocks,
            live_bytes: total.live_bytes,
            peak_bytes: total.peak_bytes,
            peak_bytes_at_ns: total.peak_at_ns,
            blocks_at_peak: total.blocks_at_peak,
            peak_blocks: total.peak_blocks,
            unnamed_bytes_at_peak: self.unnamed_at_peak(),
            overhead_bytes: self.overhead,
            ..Totals::default()
        };
        for size in &self.book.sizes {
            let cell = &size.counts.tally;
            totals.allocations += cell.allocations;
            totals.frees += cell.frees;
            totals.reallocations += cell.reallocations;
            totals.allocated_bytes = totals.allocated_bytes.wrapping_add(cell.allocated_bytes);
            totals.short_lived += cell.short_lived;
            add_moves(&mut totals.moved_out, size.left);
            add_moves(&mut totals.moved_in, size.back);
        }
        totals
    }

    fn peak_moment(&self) -> PeakMoment {
        let total = &self.book.total;
        if total.peak_bytes == 0 {
            return PeakMoment::default();
        }
        let (after_bookmark, before_bookmark) = self.bookmarks.around(total.peak_at_event);
        let is_told = self.peak_before.0 == total.epoch;
        let to_ns = is_told.then_some(self.peak_before.1);
        PeakMoment { from_ns: total.peak_at_ns, to_ns, after_bookmark, before_bookmark }
    }

    /// Bytes live at the peak in no scope and without a tag.
    fn unnamed_at_peak(&self) -> u64 {
        let epoch = self.book.total.epoch;
        let contexts = &self.contexts.contexts;
        let outermost = contexts[OUTERMOST as usize];
        let unnamed = self.book.cells.iter().filter(|cell| {
            let context = contexts[cell.context as usize];
            (context.scope, context.name) == (outermost.scope, outermost.name)
        });
        unnamed.fold(0, |sum, cell| sum.wrapping_add(cell.counts.at_peak(epoch).1))
    }

    fn add_counts(&self, figures: &mut Figures, cell: &Counts) {
        let (blocks, bytes) = cell.at_peak(self.book.total.epoch);
        let tally = &cell.tally;
        figures.allocations += tally.allocations;
        figures.frees += tally.frees;
        figures.reallocations += tally.reallocations;
        figures.allocated_bytes = figures.allocated_bytes.wrapping_add(tally.allocated_bytes);
        figures.live_blocks += cell.live_blocks;
        figures.live_bytes = figures.live_bytes.wrapping_add(cell.live_bytes);
        figures.live_blocks_at_peak += blocks;
        figures.live_bytes_at_peak = figures.live_bytes_at_peak.wrapping_add(bytes);
        figures.short_lived += tally.short_lived;
    }

    /// Sums the cells into `rows` rows; `row_of` says where a cell with this context and thread
    /// belongs. A row is `None` where nothing happened.
    fn sum(&self, rows: usize, row_of: impl Fn(u32, u32) -> u32) -> Vec<Option<Figures>> {
        let mut sums = vec![None; rows];
        for Cell { counts, context, thread, .. } in &self.book.cells {
            let sum = sums[row_of(*context, *thread) as usize].get_or_insert_default();
            self.add_counts(sum, counts);
        }
        for (&(from, to), &moved) in &self.book.moves {
            let row = |cell: u32| {
                let Cell { context, thread, .. } = self.book.cells.get(cell as usize)?;
                Some(row_of(*context, *thread))
            };
            let (from, to) = (row(from), row(to));
            if from != to {
                if let Some(from) = from {
                    add_moves(&mut sums[from as usize].get_or_insert_default().moved_out, moved);
                }
                if let Some(to) = to {
                    add_moves(&mut sums[to as usize].get_or_insert_default().moved_in, moved);
                }
            }
        }
        sums
    }

    /// Figures of each node alone and with all below it.
    fn tree_figures(
        &self,
        tree: &Tree,
        node_of: impl Fn(u32) -> u32,
    ) -> Vec<Option<(Figures, Figures)>> {
        let own = self.sum(tree.nodes.len(), |context, _| node_of(context));
        let mut sums = vec![None; own.len()];
        for (node, figures) in own.into_iter().enumerate().rev() {
            // NOTE: parents stand before their children, so all children are in by now.
            if let Some(figures) = figures {
                let (alone, inclusive) = sums[node].get_or_insert_default();
                *alone = figures;
                add_figures(inclusive, &figures);
            }
            if let Some((_, below)) = sums[node]
                && node != ROOT as usize
            {
                let parent = tree.nodes[node].parent as usize;
                add_figures(&mut sums[parent].get_or_insert_default().1, &below);
            }
        }
        self.inclusive_moves(tree, &node_of, &mut sums);
        for (sum, node) in sums.iter_mut().zip(&tree.nodes) {
            if let Some((alone, inclusive)) = sum {
                let peak = |series: u32| {
                    self.book
                        .series
                        .get(series as usize)
                        .map_or(self.book.total.peak_bytes, |s| s.peak)
                };
                alone.peak_bytes = peak(node.own);
                inclusive.peak_bytes = peak(node.inclusive);
            }
        }
        sums
    }

    /// Replaces the sums of moves by those that cross the border of a node and all below it.
    fn inclusive_moves(
        &self,
        tree: &Tree,
        node_of: impl Fn(u32) -> u32,
        sums: &mut [Option<(Figures, Figures)>],
    ) {
        for (_, inclusive) in sums.iter_mut().flatten() {
            (inclusive.moved_in, inclusive.moved_out) = Default::default();
        }
        let way_up = |cell: u32| {
            let mut way = Vec::new();
            if let Some(cell) = self.book.cells.get(cell as usize) {
                let mut node = node_of(cell.context);
                way.push(node);
                while node != ROOT {
                    node = tree.nodes[node as usize].parent;
                    way.push(node);
                }
            }
            way
        };
        for (&(from, to), &moved) in &self.book.moves {
            let (from, to) = (way_up(from), way_up(to));
            for node in from.iter().filter(|node| !to.contains(node)) {
                if let Some((_, inclusive)) = &mut sums[*node as usize] {
                    add_moves(&mut inclusive.moved_out, moved);
                }
            }
            for node in to.iter().filter(|node| !from.contains(node)) {
                if let Some((_, inclusive)) = &mut sums[*node as usize] {
                    add_moves(&mut inclusive.moved_in, moved);
                }
            }
        }
    }

    fn scope_figures(&self) -> Vec<Option<(Figures, Figures)>> {
        let Contexts { scopes, contexts, .. } = &self.contexts;
        self.tree_figures(scopes, |context| contexts[context as usize].scope)
    }

    fn group_figures(&self) -> Vec<Option<(Figures, Figures)>> {
        let Contexts { groups, contexts, names, .. } = &self.contexts;
        self.tree_figures(groups, |context| names[contexts[context as usize].name as usize].group)
    }

    fn scope_rows(
        &self,
        figures: Vec<Option<(Figures, Figures)>>,
        largest_by_cell: &[u64],
    ) -> Vec<ScopeRow> {
        let Contexts { scopes, contexts, .. } = &self.contexts;
        let mut largest = vec![0; figures.len()];
        for (cell, &bytes) in self.book.cells.iter().zip(largest_by_cell) {
            let largest: &mut u64 = &mut largest[contexts[cell.context as usize].scope as usize];
            *largest = bytes.max(*largest);
        }
        let entries = self.contexts.entries();
        // The writer reports no entries for a scope that was never entered.
        let never = (self.tells_entries && self.told_all).then_some(0);
        let row = |(node, figures): (usize, Option<_>)| {
            let (figures, inclusive) = figures?;
            let (largest_live_bytes, node) = (largest[node], node as u32);
            let path = scopes.path(node);
            let entries = entries.get(&node).copied().or(never).filter(|_| node != ROOT);
            Some(ScopeRow { path, entries, figures, inclusive, largest_live_bytes })
        };
        let mut rows: Vec<_> = figures.into_iter().enumerate().filter_map(row).collect();
        rows.sort_by(|a, b| order(&a.figures, &b.figures).then_with(|| a.path.cmp(&b.path)));
        rows
    }

    fn group_rows(&self, figures: Vec<Option<(Figures, Figures)>>) -> Vec<GroupRow> {
        let row = |(node, figures): (usize, Option<_>)| {
            let (figures, inclusive) = figures?;
            Some(GroupRow { group: self.contexts.groups.path(node as u32), figures, inclusive })
        };
        // The root of the groups is no group.
        let rows = figures.into_iter().enumerate().skip(1).filter_map(row);
        let mut rows: Vec<_> = rows.collect();
        rows.sort_by(|a, b| order(&a.figures, &b.figures).then_with(|| a.group.cmp(&b.group)));
        rows
    }

    fn name_rows(&self) -> Vec<NameRow> {
        let Contexts { groups, contexts, names, .. } = &self.contexts;
        let sums = self.sum(names.len(), |context, _| contexts[context as usize].name);
        let row = |(name, figures): (&super::contexts::Name, Option<_>)| {
            let figures: Figures = figures?;
            Some(NameRow {
                group: groups.path(name.group),
                name: name.text.to_string(),
                figures: Figures { peak_bytes: self.peak(name.series), ..figures },
            })
        };
        let mut rows: Vec<_> = names.iter().zip(sums).filter_map(row).collect();
        rows.sort_by(|a, b| {
            order(&a.figures, &b.figures)
                .then_with(|| (&a.group, &a.name).cmp(&(&b.group, &b.name)))
        });
        rows
    }

    fn thread_rows(&self) -> Vec<ThreadRow> {
        let threads = &self.threads.all;
        let sums = self.sum(threads.len(), |_, thread| thread);
        let row = |(thread, figures): (&super::streams::Thread, Option<_>)| {
            let figures: Figures = figures?;
            Some(ThreadRow {
                id: thread.id,
                name: thread.name.clone(),
                system_id: thread.system_id,
                figures: Figures { peak_bytes: self.peak(thread.series), ..figures },
            })
        };
        let mut rows: Vec<_> = threads.iter().zip(sums).filter_map(row).collect();
        // A stable sort: threads are in the order in which they were first seen.
        rows.sort_by(|a, b| order(&a.figures, &b.figures).then(a.id.cmp(&b.id)));
        rows
    }

    fn size_rows(&self) -> Vec<SizeRow> {
        let mut rows = Vec::new();
        for (class, size) in self.book.sizes.iter().enumerate() {
            let mut figures = Figures::default();
            self.add_counts(&mut figures, &size.counts);
            for (left, came) in [(size.left, size.back), (size.outgrown, size.grown)] {
                add_moves(&mut figures.moved_out, left);
                add_moves(&mut figures.moved_in, came);
            }
            if figures == Figures::default() {
                continue;
            }
            figures.peak_bytes = size.peak;
            let (min_bytes, max_bytes) = class_bounds(class);
            rows.push(SizeRow { min_bytes, max_bytes, figures });
        }
        rows.sort_by(|a, b| order(&a.figures, &b.figures).then(a.min_bytes.cmp(&b.min_bytes)));
        rows
    }

    fn peak(&self, series: u32) -> u64 {
        self.book.series[series as usize].peak
    }

    /// The largest live blocks: by size, then the older, then by address. Also the size of the
    /// largest of each cell.
    fn largest(&self) -> (Vec<LiveBlock>, Vec<u64>) {
        let key = |address: u64, block: &super::live::Block, heap: usize| {
            (Reverse(block.size()), block.allocated_at, address, heap, block.owner)
        };
        let keep = self.largest_live;
        let mut best = Vec::new();
        let mut by_cell = vec![0; self.book.cells.len()];
        for (heap, blocks) in self.heaps.iter().enumerate() {
            for (address, block) in blocks.iter() {
                let largest: &mut u64 = &mut by_cell[block.owner as usize];
                *largest = block.size().max(*largest);
                best.push(key(address, &block, heap));
                // Room for twice as many, so that cutting back is rare.
                if best.len() >= keep.saturating_mul(2).max(64) {
                    best.sort_unstable();
                    best.truncate(keep);
                }
            }
        }
        best.sort_unstable();
        best.truncate(keep);
        let block = |(Reverse(bytes), allocated_at_ns, address, _, owner)| {
            let Cell { context, thread, .. } = self.book.cells[owner as usize];
            let thread = &self.threads.all[thread as usize];
            let context = &self.contexts.contexts[context as usize];
            let name = &self.contexts.names[context.name as usize];
            LiveBlock {
                address,
                bytes,
                thread: thread.name.clone(),
                thread_id: thread.id,
                group: self.contexts.groups.path(name.group),
                name: name.text.to_string(),
                path: self.contexts.scopes.path(context.scope),
                allocated_at_ns,
            }
        };
        (best.into_iter().map(block).collect(), by_cell)
    }
}

/// The order of rows, up to their names.
fn order(a: &Figures, b: &Figures) -> std::cmp::Ordering {
    (b.live_bytes, b.allocated_bytes).cmp(&(a.live_bytes, a.allocated_bytes))
}

fn add_moves(sum: &mut Moves, moved: Moved) {
    sum.blocks = sum.blocks.wrapping_add(moved.blocks);
    sum.bytes = sum.bytes.wrapping_add(moved.bytes);
}

/// Adds the columns that add up, moves left out.
fn add_figures(sum: &mut Figures, other: &Figures) {
    sum.allocations += other.allocations;
    sum.frees += other.frees;
    sum.reallocations += other.reallocations;
    sum.allocated_bytes = sum.allocated_bytes.wrapping_add(other.allocated_bytes);
    sum.live_blocks += other.live_blocks;
    sum.live_bytes = sum.live_bytes.wrapping_add(other.live_bytes);
    sum.live_bytes_at_peak = sum.live_bytes_at_peak.wrapping_add(other.live_bytes_at_peak);
    sum.live_blocks_at_peak += other.live_blocks_at_peak;
    sum.short_lived += other.short_lived;
}
