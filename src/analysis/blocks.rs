//! What each memory event does to the blocks and to the book.

use super::contexts::Context;
use super::live::{Block, LiveSet};
use super::measured::NO_MEASUREMENT;
use super::rows::{CLASSES, Cell, Moment, class_of};
use super::steps::{Step, StepKind};
use super::streams::{Away, Last, Made, NO_CELL, Pending, Stream};
use super::{Analyzer, HEAPS};

impl Analyzer {
    /// The cell of this context and thread, new if need be.
    #[inline(never)]
    fn cell(&mut self, context: u32, thread: u32) -> u32 {
        let series = self.threads.all[thread as usize].series;
        let book = &mut self.book;
        let contexts = &self.contexts;
        let new = || {
            let measurement = contexts.contexts[context as usize].measurement;
            book.new_cell(context, thread, series, contexts.measurements.around(measurement))
        };
        *self.cells.entry((context, thread)).or_insert_with(new)
    }

    /// An event about a heap that there is not, or about address 0.
    #[cold]
    #[inline(never)]
    pub(super) fn unusable(&mut self, stream: u16, heap: usize, kind: StepKind) {
        let stream = self.stream(stream);
        stream.last = None;
        match kind {
            StepKind::ReallocFree => stream.begin_realloc(Pending::Unknown),
            StepKind::ReallocAlloc => drop(stream.end_realloc()),
            StepKind::Alloc | StepKind::Free => {}
        }
        if heap >= HEAPS {
            self.problem(format!("events in root heap {heap} are ignored; there are {HEAPS}"));
        } else {
            self.problem("events about address 0 are ignored".to_owned());
        }
    }

    /// The cell for what this stream allocates now.
    #[cold]
    #[inline(never)]
    pub(super) fn find_cell(&mut self, stream: u16) -> u32 {
        let Stream { context, thread, .. } = *self.stream(stream);
        let cell = self.cell(context, thread);
        self.stream(stream).cell = cell;
        cell
    }

    /// An allocation; it is event `number`.
    #[inline]
    pub(super) fn allocate(&mut self, step: &Step, number: u64) {
        self.first_seen(step, number, Made::Allocated);
    }

    /// The second half of a reallocation; it is event `number`.
    #[inline(never)]
    pub(super) fn reallocate(&mut self, step: &Step, number: u64) {
        let Step { address, size, hint, heap, .. } = *step;
        let stream = self.stream(step.stream);
        let mut old = match stream.end_realloc() {
            Some(Pending::Known(old)) => old,
            Some(Pending::Unknown) => return self.first_reallocated(step, number),
            None => return self.first_seen(step, number, Made::Allocated),
        };
        let before = old.block;
        old.block.set_size(size);
        let Away { block, .. } = old;
        let size = block.size();
        stream.last = Some(Last { address, block, heap, made: Made::Reallocated });
        let Cell { context, thread: owner, .. } = self.book.cells[block.owner as usize];
        self.threads.all[owner as usize].puts_back((heap, address), &old);
        self.count_foreign(step.stream, context, 1);
        let replaced = self.heaps[usize::from(heap) % HEAPS].insert(address, hint, block);
        if self.counting() {
            if let Some(old) = replaced {
                self.replaced(&old);
            }
            let moment = Moment { time: self.clock.now(), event: number };
            self.book.changed_size(before.size(), size);
            self.book.open(block.place(), size, moment, |tally| tally.reallocated(size));
        } else {
            self.after.allocated_bytes = self.after.allocated_bytes.wrapping_add(size);
        }
    }

    /// A block that is first seen where it is reallocated. It was allocated before the trace
    /// began, so before any measurement: it counts in the scope, but in no measurement.
    #[cold]
    #[inline(never)]
    fn first_reallocated(&mut self, step: &Step, number: u64) {
        let Stream { context, thread, cell, .. } = *self.stream(step.stream);
        let Context { scope, name, measurement } = self.contexts.contexts[context as usize];
        if measurement == NO_MEASUREMENT {
            return self.first_seen(step, number, Made::ReallocatedUnknown);
        }
        let outside = self.contexts.intern(scope, name, NO_MEASUREMENT, &mut self.book);
        self.stream(step.stream).cell = self.cell(outside, thread);
        self.first_seen(step, number, Made::ReallocatedUnknown);
        self.stream(step.stream).cell = cell;
        self.count_foreign(step.stream, outside, 1);
    }

    /// A block of the context `owner` was reallocated on this stream (`by` 1), or was not after
    /// all (-1).
    #[inline]
    fn count_foreign(&mut self, stream: u16, owner: u32, by: i64) {
        if self.contexts.measurements.is_empty() {
            return;
        }
        let context = self.stream(stream).context;
        let measurement = |context: u32| self.contexts.contexts[context as usize].measurement;
        let (here, owner) = (measurement(context), measurement(owner));
        self.contexts.measurements.count_foreign(here, owner, by);
    }

    /// A block that was not known before.
    #[inline]
    fn first_seen(&mut self, step: &Step, number: u64, made: Made) {
        let Step { address, size, hint, heap, .. } = *step;
        let stream = self.stream(step.stream);
        let (thread, mut cell) = (stream.thread, stream.cell);
        if cell == NO_CELL {
            cell = self.find_cell(step.stream);
        }
        let block = Block::allocated(size, self.clock.now(), cell);
        let size = block.size();
        self.streams[usize::from(step.stream)].last = Some(Last { address, block, heap, made });
        self.threads.all[thread as usize].allocated(1, (heap, address));
        let replaced = self.heaps[usize::from(heap) % HEAPS].insert(address, hint, block);
        if self.counting() {
            if let Some(old) = replaced {
                self.replaced(&old);
            }
            let moment = Moment { time: block.allocated_at, event: number };
            self.book.open(block.place(), size, moment, |tally| tally.allocated(size));
        } else {
            self.after.allocations += 1;
            self.after.allocated_bytes = self.after.allocated_bytes.wrapping_add(size);
        }
    }

    #[cold]
    #[inline(never)]
    pub(super) fn replaced(&mut self, old: &Block) {
        self.losses.duplicate_allocations += 1;
        let place = old.place();
        self.book.close(place, old.size(), |_| ());
        self.book.left(place, old.size());
    }

    /// A free, or the first half of a reallocation.
    #[inline]
    pub(super) fn free(&mut self, step: &Step) {
        let Step { address, hint, heap, .. } = *step;
        let stream = self.stream(step.stream);
        stream.last = None;
        let thread = stream.thread;
        let realloc = step.kind == StepKind::ReallocFree;
        let Some(block) = self.heaps[usize::from(heap) % HEAPS].remove(address, hint) else {
            if realloc {
                self.stream(step.stream).begin_realloc(Pending::Unknown);
            }
            return self.free_of_unknown(heap, address);
        };
        let owner = self.book.cells[block.owner as usize].thread;
        let owner_thread = &self.threads.all[owner as usize];
        if realloc {
            let away = owner_thread.takes_out((heap, address), block);
            self.streams[usize::from(step.stream)].begin_realloc(Pending::Known(away));
        }
        if self.counting() {
            let short = !realloc
                && owner == thread
                && self.threads.all[thread as usize].is_newest((heap, address));
            let place = block.place();
            self.book.close(place, block.size(), |tally| tally.freed(short));
        } else {
            self.after.frees += u64::from(!realloc);
        }
    }

    #[cold]
    #[inline(never)]
    fn free_of_unknown(&mut self, heap: u8, address: u64) {
        if let Some(Away { block, .. }) = self.marked.remove(&(heap, address)) {
            if self.counting() {
                let place = block.place();
                self.book.came_back(place, block.size());
                self.book.count(place, |tally| tally.freed(false));
            }
        } else if self.counting() {
            *self.unknown_frees() += 1;
        }
    }

    /// The counter for frees of blocks that are not known.
    fn unknown_frees(&mut self) -> &mut u64 {
        if self.trace.from_process_start == Some(false) {
            &mut self.losses.frees_of_earlier_blocks
        } else {
            &mut self.losses.unmatched_frees
        }
    }

    /// The block just allocated on this stream is larger than its size field could say. That is
    /// 32 GiB, so it was in the last size class, and stays there.
    pub(super) fn large_size(&mut self, stream_id: u16, address: u64, size: u64) {
        let is_large = |block: &Block| [block.size(), size].map(class_of) == [CLASSES - 1; 2];
        let last = self.stream(stream_id).last;
        let Some(mut last) = last.filter(|l| l.address == address && is_large(&l.block)) else {
            return self.problem(
                "a Memledger.LargeSize does not follow the allocation it speaks of".to_owned(),
            );
        };
        let old = last.block;
        last.block.set_size(size);
        let new = last.block.size();
        self.streams[usize::from(stream_id)].last = Some(last);
        // NOTE: another thread may have freed the block already.
        let heap = &mut self.heaps[usize::from(last.heap)];
        let is_live = heap.get(address) == Some(old);
        if is_live {
            heap.replace(address, last.block);
        }
        if self.counting() {
            let moment = self.moment();
            let place = old.place();
            self.book.count(place, |tally| tally.corrected(old.size(), new));
            if is_live {
                self.book.close(place, old.size(), |_| ());
                self.book.open(place, new, moment, |_| ());
            }
        } else {
            let before = self.after.allocated_bytes.wrapping_sub(old.size());
            self.after.allocated_bytes = before.wrapping_add(new);
        }
    }

    /// The reallocation just made on this stream did not happen: its two halves stay as steps,
    /// its count and its bytes are taken back.
    pub(super) fn realloc_failed(&mut self, stream_id: u16, address: u64) {
        let last = self.stream(stream_id).last.take();
        let last = last.filter(|last| last.address == address);
        let Some(Last {
            block, made: made @ (Made::Reallocated | Made::ReallocatedUnknown), ..
        }) = last
        else {
            return self.problem(
                "a Memledger.ReallocFailed does not follow the reallocation it speaks of"
                    .to_owned(),
            );
        };
        let context = self.book.cells[block.owner as usize].context;
        self.count_foreign(stream_id, context, -1);
        match (made, self.counting()) {
            (Made::Reallocated, true) => {
                let place = block.place();
                self.book.count(place, |tally| tally.not_reallocated(block.size()));
            }
            (Made::Reallocated, false) => {
                let bytes = &mut self.after.allocated_bytes;
                *bytes = bytes.wrapping_sub(block.size());
            }
            // The block is first seen here and counts as an allocation; but nothing was freed.
            (_, true) => {
                let frees = self.unknown_frees();
                *frees = frees.saturating_sub(1);
            }
            (_, false) => {}
        }
    }

    /// A live block gets the tag that is current on the stream.
    pub(super) fn update(&mut self, stream_id: u16, heap: usize, address: u64) {
        let current = self.stream(stream_id).context;
        let Some(block) = self.heaps.get(heap).and_then(|heap| heap.get(address)) else {
            // A program may well rename what it had before the trace began.
            if self.trace.from_process_start != Some(false) {
                self.problem(
                    "a Memory.UpdateAlloc names an address where no block is live".to_owned(),
                );
            }
            return;
        };
        let Cell { context: old, thread, .. } = self.book.cells[block.owner as usize];
        let context = if self.contexts.has_kinds {
            let Context { scope, measurement, .. } = self.contexts.contexts[old as usize];
            let name = self.contexts.contexts[current as usize].name;
            self.contexts.intern(scope, name, measurement, &mut self.book)
        } else {
            current
        };
        if context == old {
            return;
        }
        let owner = self.cell(context, thread);
        let moved = {
            let mut moved = block;
            moved.owner = owner;
            moved
        };
        self.heaps[heap].replace(address, moved);
        if self.counting() {
            self.book.transfer(block.owner, owner, block.size());
        }
    }

    /// The block at `address` is a heap for others: it is not the program's data.
    pub(super) fn mark_heap(&mut self, address: u64) {
        let remove =
            |(heap, set): (usize, &mut LiveSet)| Some((heap as u8, set.remove(address, u32::MAX)?));
        let Some((heap, block)) = self.heaps.iter_mut().enumerate().find_map(remove) else {
            return self.problem(
                "a Memory.HeapMarkAlloc names an address where no block is live".to_owned(),
            );
        };
        let owner = self.book.cells[block.owner as usize].thread;
        let away = self.threads.all[owner as usize].takes_out((heap, address), block);
        self.marked.entry((heap, address)).or_insert(away);
        if self.counting() {
            let place = block.place();
            self.book.close(place, block.size(), |_| ());
            self.book.left(place, block.size());
        }
    }

    /// The block at `address` is a block like any other again.
    pub(super) fn unmark_heap(&mut self, address: u64) {
        let free_again = |&heap: &u8| {
            self.marked.contains_key(&(heap, address))
                && self.heaps[usize::from(heap)].get(address).is_none()
        };
        let heap = (0..HEAPS as u8).find(free_again);
        let found = heap.and_then(|heap| Some((heap, self.marked.remove(&(heap, address))?)));
        let Some((heap, away)) = found else {
            return self.problem(
                "a Memory.HeapUnmarkAlloc names an address where no heap is marked".to_owned(),
            );
        };
        let block = away.block;
        let owner = self.book.cells[block.owner as usize].thread;
        self.threads.all[owner as usize].puts_back((heap, address), &away);
        self.heaps[usize::from(heap)].insert(address, u32::MAX, block);
        if self.counting() {
            let moment = self.moment();
            let place = block.place();
            self.book.came_back(place, block.size());
            self.book.open(place, block.size(), moment, |_| ());
        }
    }
}
