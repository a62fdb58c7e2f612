//! Allocations and frees, put off for a moment and applied together.
//!
//! The block of an event is somewhere in a table larger than the caches: looking it up means to
//! wait for memory. So what comes in a row is gathered first, then everything it will look at is
//! fetched at once, then it is applied, in order. Whatever else happens is preceded by a
//! [`settle`](Analyzer::settle), so nothing can tell the difference.

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
        let count = std::mem::take(&mut self.steps.len);
        let mut fetched = 0;
        for step in &mut self.steps.steps[..count] {
            let (hint, some) = self.heaps[usize::from(step.heap)].touch(step.address);
            step.hint = hint;
            fetched ^= some;
        }
        std::hint::black_box(fetched);
        let (steps, first) = (self.steps.steps, self.steps.first);
        for (step, number) in steps.iter().take(count).zip(first..) {
            match step.kind {
                StepKind::Alloc => self.allocate(step, number),
                StepKind::ReallocAlloc => self.reallocate(step, number),
                StepKind::Free | StepKind::ReallocFree => self.free(step),
            }
        }
    }
}
