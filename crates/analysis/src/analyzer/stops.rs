//! What an analyzer does between two events: reports at points, positions, points of the timeline, and the end of
//! counting.

use super::Analyzer;
use crate::cutoff::Reached;
use crate::live_set::{Block, HEAPS};
use crate::observer::{BlockEvent, BlockObserver};
use crate::report::ResidentMemory;
use crate::report::build::Sources;

impl<O: BlockObserver> Analyzer<O> {
    /// The next position is here, after event `event`; counting stops if it is the last. The caller has flushed
    /// everything.
    #[cold]
    pub(super) fn reach(&mut self, event: u64, at_ns: u64) {
        let bookmarks = self.timeline.bookmarks();
        if !self.cutoff.reach(Reached { event, at_ns }, |name| bookmarks.event(name)) {
            return self.stop_counting();
        }
        self.observer.reached(event);
    }

    /// Stops counting and keeps the report as it is now. The caller has flushed everything.
    #[cold]
    pub(super) fn stop_counting(&mut self) {
        if self.cutoff.is_counting() {
            self.observe_live();
            let report = self.sources().build();
            self.cutoff.stop(report);
            self.model.reset_last_blocks();
        }
    }

    /// The timeline has a point after the event that was counted last, or a report is asked for there.
    #[cold]
    #[inline(never)]
    pub(super) fn stop_at_event(&mut self) {
        self.flush();
        if self.cutoff.is_at_sample() {
            self.take_time_point();
        }
        if self.cutoff.is_at_point() {
            self.pass_points(None);
        }
    }

    /// Adds a point to the timeline. The caller has flushed everything.
    pub(super) fn take_time_point(&mut self) {
        let point = self.sources().time_point(self.timeline.clock().now());
        let (model, threads) = (&self.model, self.model.threads().all().len());
        self.timeline.series_mut().take(point, threads, |number| model.thread_point(number));
        self.model.accounts_mut().reset_most_bytes();
        self.cutoff.set_next_sample(self.timeline.series().next_event());
    }

    /// Makes the reports of points that are here: before an event of the time `next`, or after the event that
    /// was counted last. The caller has flushed everything.
    #[cold]
    pub(super) fn pass_points(&mut self, next: Option<u64>) {
        let mut cutoff = std::mem::take(&mut self.cutoff);
        let passed_all = cutoff.pass_points(next, |cutoff| {
            let sources = Sources { cutoff, ..self.sources() };
            sources.build()
        });
        self.cutoff = cutoff;
        if passed_all {
            self.stop_counting();
            self.cutoff.stop_here();
        }
    }

    /// Heaps, addresses and blocks of all that is live. NOTE: in an order that differs from run to run.
    pub(crate) fn live_blocks(&self) -> impl Iterator<Item = (u8, u64, Block)> {
        self.model.heaps().iter()
    }

    /// What the resident memory was before this time, divided among what is live and these blocks: heaps, addresses, sizes.
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
        let now = self.cutoff.duration(self.timeline.clock().now());
        let number = self.cutoff.events();
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
