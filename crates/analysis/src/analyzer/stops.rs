//! What an analyzer does between two events: positions, points of the timeline, and the end of counting.

use super::Analyzer;
use crate::cutoff::Reached;
use crate::live_set::{Block, HEAPS};
use crate::observer::{BlockEvent, BlockObserver};
use memledger_document::{Report, ResidentMemory};

impl<O: BlockObserver> Analyzer<O> {
    /// Passes the positions that are here: before an event of the time `next`, or after the event that was
    /// counted last. Counting stops at the last of all. The caller has flushed everything.
    #[cold]
    pub(super) fn pass(&mut self, next: Option<u64>) {
        while let Some((position, here)) = self.cutoff.pass(next, self.timeline.clock().now()) {
            let before = next.map(|_| here.at_ns);
            if self.cutoff.has_passed_all() {
                self.stop_counting(here, before);
            } else {
                self.observer.reached(here.event);
                if self.cutoff.keeps_reports() {
                    let report = self.report_at(here, before);
                    self.cutoff.keep(position, report);
                }
            }
        }
    }

    /// Stops counting and keeps the report as it is now; `before` is the time that events after it are later
    /// than. The caller has flushed everything.
    #[cold]
    pub(super) fn stop_counting(&mut self, here: Reached, before: Option<u64>) {
        let report = self.report_at(here, before);
        self.cutoff.stop(here, report);
        self.observe_live();
        self.model.reset_last_blocks();
    }

    /// The report as it is here.
    fn report_at(&mut self, here: Reached, before: Option<u64>) -> Report {
        self.cutoff.set_end(Some(here));
        let mut report = self.sources().build();
        self.cutoff.set_end(None);
        if report.totals.peak_bytes > 0 {
            report.peak.to_ns = report.peak.to_ns.or(before);
        }
        report
    }

    /// The timeline has a point after the event that was counted last, or a position is there.
    #[cold]
    #[inline(never)]
    pub(super) fn stop_at_event(&mut self) {
        self.flush();
        if self.cutoff.is_at_sample() {
            self.take_time_point();
        }
        self.pass(None);
    }

    /// Adds a point to the timeline. The caller has flushed everything.
    pub(super) fn take_time_point(&mut self) {
        let point = self.sources().time_point(self.timeline.clock().now());
        let (model, threads) = (&self.model, self.model.threads().all().len());
        self.timeline.series_mut().take(point, threads, |number| model.thread_point(number));
        self.model.accounts_mut().reset_most_bytes();
        self.cutoff.set_next_sample(self.timeline.series().next_event());
    }

    /// Heaps, addresses and blocks of all that is live. NOTE: in an order that differs from run to run.
    pub(crate) fn live_blocks(&self) -> impl Iterator<Item = (u8, u64, Block)> {
        self.model.heaps().iter()
    }

    /// What the resident memory was before this time, divided among what is live and these blocks: heaps,
    /// addresses, sizes.
    pub(crate) fn resident_before(
        &self,
        at_ns: u64,
        more: impl Iterator<Item = (u8, u64, u64)> + Clone,
    ) -> Option<ResidentMemory> {
        let heaps = self.model.heaps();
        self.rss.before(at_ns, |heap| {
            let is_in = move |block: &(u8, u64, u64)| usize::from(block.0) % HEAPS == heap;
            heaps.sizes(heap..heap + 1).chain(more.clone().filter(is_in))
        })
    }

    /// Whether the program has mapped addresses in this root heap.
    pub(crate) fn is_mapped_heap(&self, heap: u8) -> bool {
        self.rss.is_mapped(heap)
    }

    /// Passes the live blocks on to the observer. The caller has flushed everything.
    pub(crate) fn observe_live(&mut self) {
        let number = self.cutoff.events();
        let now = self.end().at_ns;
        let blocks = self.model.heaps().iter().map(|(heap, address, block)| BlockEvent {
            number,
            at_ns: now,
            address,
            bytes: block.size(),
            allocated_at_ns: block.allocated_at,
            bucket: block.bucket,
            stream: 0,
            heap,
        });
        self.observer.stop(&mut { blocks });
    }
}
