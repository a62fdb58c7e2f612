//! Allocations and frees, put off for a moment and applied together.
//!
//! The block of an event is somewhere in a table larger than the caches: looking it up means to
//! wait for memory. So what comes in a row is gathered first, then everything it will look at is
//! fetched at once, then it is applied, in order. Whatever else happens is preceded by a
//! [`settle`](Analyzer::settle), so nothing can tell the difference.
//!
//! Most of them are rows of allocations and frees of one thread: what is the same for all of a row
//! is looked up once.

use super::live::Block;
use super::rows::Moment;
use super::streams::{Last, Made, NO_CELL};
use super::{Analyzer, HEAPS};

/// PERF: so many look-ups are waited for at once; the steps themselves are 1 KiB. With 100 000
/// live blocks and busy caches a report takes half the time it took event by event.
const MOST: usize = 32;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum StepKind {
    #[default]
    Alloc,
    Free,
    /// The first half of a reallocation.
    ReallocFree,
    /// The second half.
    ReallocAlloc,
}

/// One allocation or free, with all that its event says.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Step {
    pub(super) address: u64,
    pub(super) size: u64,
    /// Where its heap's live set has found it.
    pub(super) hint: u32,
    pub(super) stream: u16,
    pub(super) heap: u8,
    pub(super) kind: StepKind,
}

/// The steps that were put off: those of the last events, without another between them.
#[derive(Clone, Debug, Default)]
pub(super) struct Steps {
    steps: [Step; MOST],
    len: usize,
    /// The number of the first one's event.
    first: u64,
}

impl Steps {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl Analyzer {
    /// Takes in an allocation or a free.
    #[inline]
    pub(super) fn put_off(
        &mut self,
        kind: StepKind,
        stream: u16,
        heap: usize,
        address: u64,
        size: u64,
    ) {
        if heap >= HEAPS || address == 0 {
            self.settle_steps();
            return self.unusable(stream, heap, kind);
        }
        let Steps { steps, len, first } = &mut self.steps;
        steps[*len % MOST] = Step { address, size, hint: 0, stream, heap: heap as u8, kind };
        if *len == 0 {
            *first = self.trace.events;
        }
        *len += 1;
        if *len == MOST {
            self.apply_steps();
        }
    }

    /// Applies what was put off.
    #[inline]
    pub(super) fn settle_steps(&mut self) {
        if !self.steps.is_empty() {
            self.apply_steps();
        }
        if !self.book.is_told() {
            self.book.end_run();
        }
    }

    #[inline(never)]
    fn apply_steps(&mut self) {
        self.clock.tick();
        let count = std::mem::take(&mut self.steps.len).min(MOST);
        let mut fetched = 0;
        for step in &mut self.steps.steps[..count] {
            let (hint, some) = self.heaps[usize::from(step.heap)].touch(step.address);
            step.hint = hint;
            fetched ^= some;
        }
        std::hint::black_box(fetched);
        let first = self.steps.first;
        let mut at = 0;
        while at < count {
            let usual = self.apply_usual(at, count);
            at += usual;
            if usual == 0 {
                let step = self.steps.steps[at];
                let number = first + at as u64;
                match step.kind {
                    StepKind::Alloc => self.allocate(&step, number),
                    StepKind::ReallocAlloc => self.reallocate(&step, number),
                    StepKind::Free | StepKind::ReallocFree => self.free(&step),
                }
                at += 1;
            }
        }
    }

    /// Applies allocations and frees of one stream, from step `start` on, up to what is unusual;
    /// returns how many.
    #[inline]
    fn apply_usual(&mut self, start: usize, end: usize) -> usize {
        let stream_id = self.steps.steps[start % MOST].stream;
        let stream = self.stream(stream_id);
        let (thread, mut cell) = (stream.thread, stream.cell);
        if !self.counting() {
            return 0;
        }
        let now = self.clock.now();
        let mut newest = self.threads.all[thread as usize].newest;
        let (mut allocations, mut last) = (0, None);
        let mut at = start;
        while at < end {
            let Step { address, size, hint, stream, heap, kind } = self.steps.steps[at % MOST];
            if stream != stream_id {
                break;
            }
            let place = (heap, address);
            match kind {
                StepKind::Alloc => {
                    // NOTE: not before there is an allocation: a cell is a row.
                    if cell == NO_CELL {
                        cell = self.find_cell(stream_id);
                    }
                    let live = &mut self.heaps[usize::from(heap) % HEAPS];
                    let block = Block::allocated(size, now, cell);
                    if let Some(old) = live.insert(address, hint, block) {
                        self.replaced(&old);
                    }
                    let size = block.size();
                    let event = self.steps.first + at as u64;
                    let moment = Moment { time: now, event };
                    self.book.open(block.place(), size, moment, |tally| tally.allocated(size));
                    newest = place;
                    allocations += 1;
                    last = Some((place, block));
                }
                StepKind::Free => {
                    let live = &mut self.heaps[usize::from(heap) % HEAPS];
                    let Some(block) = live.remove(address, hint) else { break };
                    let owner = block.owner;
                    let is_own = || owner == cell || self.book.thread_of(owner) == thread;
                    let short = newest == place && is_own();
                    self.book.close(block.place(), block.size(), |tally| tally.freed(short));
                    last = None;
                }
                StepKind::ReallocFree | StepKind::ReallocAlloc => break,
            }
            at += 1;
        }
        if at > start {
            self.threads.all[thread as usize].allocated(allocations, newest);
            self.streams[usize::from(stream_id)].last = last.map(|((heap, address), block)| Last {
                address,
                block,
                heap,
                made: Made::Allocated,
            });
        }
        at - start
    }
}
