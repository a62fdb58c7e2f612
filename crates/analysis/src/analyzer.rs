//! Passes each event to the part that handles it.
//!
//! The analyzer has one part for each question, and the fields of a part are private to it:
//!
//! | part | question |
//! |---|---|
//! | `decode::Decoding` | what the bytes mean |
//! | `apply::Model` | who holds what: streams and contexts, live blocks, accounts |
//! | `Timeline` | when |
//! | `Facts` | what the trace says of itself |
//! | `Diagnostics` | what is missing |
//! | `Cutoff` | where counting stops |
//!
//! `report/build.rs` reads all parts and changes none.

mod in_process;
mod rare_events;
mod stops;
mod top_live;

use super::apply::{ApplyEnv, Model};
use super::build::Sources;
use super::cutoff::{Cutoff, Position, Reached};
use super::decode::{Decoding, NameRole, Role};
use super::decode::{Operation, OperationKind, OperationQueue, StreamHeap};
use super::diagnostics::Diagnostics;
use super::facts::Facts;
use super::live_set::HEAPS;
use super::llm_tags::LlmTags;
use super::observer::{Actor, BlockObserver, NoObserver};
use super::read::event::{u32_at, u64_at};
use super::rss::RssHistory;
use super::symbols::StoredSymbols;
use super::timeline::{Bookmarks, Timeline};
use super::untracked::UntrackedMemory;
use crate::read::{Damage, Event, Hole, Row, Visitor};
use memledger_document::Report;
use memledger_format::schema::EventType;

/// Replays a trace and accounts for every block.
///
/// Beyond Unreal's memory events it understands those of our writer: `Memledger.Trace`, `ThreadStart`,
/// `Lost`, `LargeSize`, `ReallocFailed`, `Alive`, `ScopeEntries`, `Rss`, `ResidentMemory`,
/// `AllocatorStatistics`, `Untracked` and `Report`, and the fields `Kind` and `Owner` of `Memory.TagSpec`.
/// All figures stop at `Memledger.Report`, so that a report made from the file equals the one the program
/// made of itself; later events count in [`Report::after_report`] only.
///
/// Up to 32 events are queued; [`flush`](Self::flush) applies them. [`read`] flushes at the end of
/// its input, and a [`Decoder`] at each sync and at its end. So only a program that looks at a
/// report in between, or that passes events to the analyzer itself, has to call `flush`.
///
/// How special cases are counted:
/// - The two halves of a reallocation are separate operations for peaks. Between them the block
///   counts as freed; after the second half it is one reallocation and no free.
/// - A block that is reallocated into another size class moves to it (`moved_in`, `moved_out`), and
///   the reallocation counts in its new class.
/// - A reallocation of an unknown block is an allocation: the block is first seen there.
/// - An allocation at the address of a live block ends that block, which leaves the accounts
///   without a free (`moved_out`), so that in every row
///   `live_blocks = allocations - frees + moved_in - moved_out`. The same holds for a block that
///   the program declares to be a heap.
/// - `Memory.UpdateAlloc` moves a block to the tag that is current on its stream. In our own traces
///   the block keeps the scope stack that it was first allocated in. Everything counted before
///   stays in the old row.
///
/// [`read`]: crate::read::read
/// [`Decoder`]: crate::read::Decoder
#[derive(Clone, Debug)]
#[must_use = "it counts nothing until it has read a trace"]
pub struct Analyzer<O = NoObserver> {
    decoding: Decoding,
    /// Operations that are not applied to the model yet.
    queue: OperationQueue,
    model: Model,
    timeline: Timeline,
    facts: Facts,
    llm_tags: LlmTags,
    rss: RssHistory,
    untracked: UntrackedMemory,
    diagnostics: Diagnostics,
    cutoff: Cutoff,
    /// The maximum number of blocks in [`Report::largest_live`].
    largest_live: usize,
    /// Stacks count only blocks of scopes with this in their path, in lower case.
    scope: Option<String>,
    /// Whether reports have a row for each stack, and one for each bucket.
    by_stack: bool,
    by_bucket: bool,
    symbols: StoredSymbols,
    observer: O,
}

impl Default for Analyzer {
    fn default() -> Self {
        Self::new()
    }
}

impl Analyzer {
    /// An analyzer that has seen no event.
    pub fn new() -> Self {
        Self::observing(NoObserver)
    }
}

impl<O: BlockObserver> Analyzer<O> {
    /// An analyzer that has seen no event, and passes on what happens to each block.
    pub fn observing(observer: O) -> Self {
        Self {
            decoding: Decoding::default(),
            queue: OperationQueue::default(),
            model: Model::default(),
            timeline: Timeline::default(),
            facts: Facts::default(),
            llm_tags: LlmTags::default(),
            rss: RssHistory::default(),
            untracked: UntrackedMemory::default(),
            diagnostics: Diagnostics::default(),
            cutoff: Cutoff::default(),
            largest_live: 100,
            scope: None,
            by_stack: true,
            by_bucket: false,
            symbols: StoredSymbols::default(),
            observer,
        }
    }

    /// The observer. It has seen all events up to the last [`flush`](Self::flush).
    pub fn observer(&self) -> &O {
        &self.observer
    }

    /// The same, to be changed.
    pub fn observer_mut(&mut self) -> &mut O {
        &mut self.observer
    }

    /// The observer alone.
    pub fn into_observer(self) -> O {
        self.observer
    }

    /// The same with another observer, which `of` makes of this one. Counting continues. An observer that
    /// holds [`FindingsObserver`](super::FindingsObserver), say, can give way to it, which
    /// [`find`](Analyzer::find) needs.
    pub fn map_observer<P>(self, of: impl FnOnce(O) -> P) -> Analyzer<P> {
        Analyzer {
            decoding: self.decoding,
            queue: self.queue,
            model: self.model,
            timeline: self.timeline,
            facts: self.facts,
            llm_tags: self.llm_tags,
            rss: self.rss,
            untracked: self.untracked,
            diagnostics: self.diagnostics,
            cutoff: self.cutoff,
            largest_live: self.largest_live,
            scope: self.scope,
            by_stack: self.by_stack,
            by_bucket: self.by_bucket,
            symbols: self.symbols,
            observer: of(self.observer),
        }
    }

    /// The names of the scope stack in which an actor acted, outermost first; `None` for one that freed a
    /// block in a trace without the scopes of frees (the channel `freescope`).
    pub fn scope_path(&self, actor: Actor) -> Option<Vec<String>> {
        let contexts = self.model.contexts();
        let is_known = actor.context != Actor::NO_CONTEXT;
        is_known.then(|| contexts.scopes().path(contexts.get(actor.context).scope))
    }

    /// The id and the name of the thread that acted, as in [`Report::by_thread`]; the name is empty if it
    /// has none.
    pub fn thread_of(&self, actor: Actor) -> (u32, &str) {
        let thread = self.model.threads().get(actor.thread);
        (thread.id, &thread.name)
    }

    /// Stops counting at this position: the report is the one there.
    pub fn until(self, position: Position) -> Self {
        self.reports_at(&[position])
    }

    /// Makes [`reports`](Self::reports) return the reports at these positions, all from one pass. Counting
    /// stops at the last of them; without any, it does not stop.
    pub fn reports_at(mut self, positions: &[Position]) -> Self {
        self.cutoff = Cutoff::new(positions, true);
        self
    }

    /// The reports at the positions of [`reports_at`](Self::reports_at), in the order in which they were
    /// asked for. Each is the one that an analyzer [until](Self::until) that position has; of those that the
    /// trace does not come to, that of its end.
    pub fn reports(&self) -> Vec<Report> {
        let mut whole = None;
        let mut report = |at: Option<&Report>| {
            let mut report = match at {
                None => return whole.get_or_insert_with(|| self.report()).clone(),
                Some(report) => report.clone(),
            };
            self.sources().fill(&mut report);
            if !self.symbols.is_empty() {
                report.symbolize(&mut &self.symbols);
            }
            report
        };
        self.cutoff.stops().iter().map(|stop| report(stop.report.as_deref())).collect()
    }

    /// Passes each of these positions on to the observer. The report is that of the last one.
    pub(super) fn positions(mut self, positions: &[Position]) -> Self {
        self.cutoff = Cutoff::new(positions, false);
        self
    }

    /// Sets the maximum number of blocks in [`Report::largest_live`] (100 by default).
    pub fn largest_live(mut self, blocks: usize) -> Self {
        self.largest_live = blocks;
        self
    }

    /// Makes the rows of stacks count only blocks that were allocated in scopes with `text` in their
    /// path, in upper or lower case. These rows then have no peaks of their own.
    pub fn stacks_in_scope(mut self, text: &str) -> Self {
        self.scope = Some(text.to_lowercase());
        self
    }

    /// Leaves [`Report::by_stack`] empty, and so the rows by function, line and crate. The losses
    /// of stacks are counted all the same.
    pub fn without_stacks(mut self) -> Self {
        self.by_stack = false;
        self
    }

    /// Fills [`Report::by_bucket`]: about 200 bytes for each combination of scope stack,
    /// name, thread and call stack.
    pub fn by_bucket(mut self) -> Self {
        self.by_bucket = true;
        self
    }

    /// Applies the queued events, so that [`report`](Self::report) includes them. Costs nothing if
    /// none are queued, and at most the time of 32 events.
    #[inline]
    pub fn flush(&mut self) {
        if !self.queue.is_empty() {
            self.apply_queue();
        }
        self.model.flush();
    }

    /// The report of everything up to the last [`flush`](Self::flush). Costs time in proportion to
    /// rows and live blocks.
    pub fn report(&self) -> Report {
        let mut report = self.sources().report();
        if !self.symbols.is_empty() {
            report.symbolize(&mut &self.symbols);
        }
        report
    }

    /// The same report, of an analyzer that has read all that it will, once. Costs less than
    /// [`report`](Self::report), which copies all rows if the trace is complete.
    pub fn take_report(&mut self) -> Report {
        let taken = self.cutoff.take_report();
        let sources = self.sources();
        let mut report = taken.map_or_else(|| sources.build(), |report| *report);
        sources.finish(&mut report);
        if !self.symbols.is_empty() {
            report.symbolize(&mut &self.symbols);
        }
        report
    }

    /// The stack that events refer to by `id` (`CallstackId`): a report of this one stack, without
    /// figures. Its functions are those that the trace has; [`Report::symbolize`] finds others. `None`
    /// if no event so far describes the stack.
    pub fn callstack(&self, id: u32) -> Option<Report> {
        let stack = self.model.callstacks().find(id)?;
        let mut report = self.sources().stacks(&[stack]);
        report.symbolize(&mut &self.symbols);
        Some(report)
    }

    /// Whether events still count.
    pub(super) fn is_counting(&self) -> bool {
        self.cutoff.is_counting()
    }

    pub(super) fn cutoff(&self) -> &Cutoff {
        &self.cutoff
    }

    pub(super) fn bookmarks(&self) -> &Bookmarks {
        self.timeline.bookmarks()
    }

    /// Where counting is, or where it stopped.
    pub(super) fn end(&self) -> Reached {
        self.cutoff.end(self.timeline.clock().now())
    }

    pub(super) fn symbols(&self) -> &StoredSymbols {
        &self.symbols
    }

    /// Inconsistencies in the trace, one sentence each: the first 32, without duplicates.
    pub fn problems(&self) -> &[String] {
        self.diagnostics.problems()
    }

    /// The number of the event that first reached the largest total, for [`Position::Event`], up to
    /// the last [`flush`](Self::flush).
    pub fn peak_event(&self) -> u64 {
        self.model.accounts().total().peak_at_event
    }

    /// Live and peak bytes of the whole program up to the last [`flush`](Self::flush); a few loads.
    pub fn live_and_peak_bytes(&self) -> (u64, u64) {
        let total = self.model.accounts().total();
        (total.live_bytes, total.peak_bytes)
    }

    /// The duration of the trace so far in nanoseconds, as in a [`report`](Self::report); a few loads.
    pub fn duration_ns(&self) -> u64 {
        self.end().at_ns
    }

    /// The number of the event that first set the bookmark `name`, for [`Position::Event`]; `None` if
    /// none did.
    pub fn bookmark_event(&self, name: &str) -> Option<u64> {
        self.timeline.bookmarks().event(name)
    }

    fn sources(&self) -> Sources<'_> {
        Sources {
            model: &self.model,
            timeline: &self.timeline,
            facts: &self.facts,
            llm_tags: &self.llm_tags,
            rss: &self.rss,
            untracked: &self.untracked,
            diagnostics: &self.diagnostics,
            cutoff: &self.cutoff,
            largest_live: self.largest_live,
            scope: self.scope.as_deref(),
            by_stack: self.by_stack,
            by_bucket: self.by_bucket,
            by_block: true,
        }
    }

    /// The model, and the surroundings of an event.
    #[inline]
    fn parts(&mut self) -> (&mut Model, ApplyEnv<'_, O>) {
        let env = ApplyEnv {
            now: self.timeline.clock().now(),
            began_late: self.facts.began_late(),
            cutoff: &mut self.cutoff,
            diagnostics: &mut self.diagnostics,
            observer: &mut self.observer,
        };
        (&mut self.model, env)
    }

    /// Passes on to the observer in which scopes the events of a stream are.
    #[inline]
    fn scope_changed(&mut self, stream: u16) {
        if self.cutoff.is_counting() {
            let by = self.model.actor(stream);
            let contexts = self.model.contexts();
            let path = || contexts.scopes().path(contexts.get(by.context).scope);
            self.observer.scope_changed(stream, by, &path);
        }
    }

    /// Queues an allocation or a free.
    #[inline]
    fn enqueue(&mut self, operation: Operation) {
        if self.queue.push(operation, self.cutoff.events()) {
            self.apply_queue();
        }
    }

    #[inline(never)]
    fn apply_queue(&mut self) {
        self.timeline.clock_mut().tick();
        let mut env = ApplyEnv {
            now: self.timeline.clock().now(),
            began_late: self.facts.began_late(),
            cutoff: &mut self.cutoff,
            diagnostics: &mut self.diagnostics,
            observer: &mut self.observer,
        };
        self.model.apply(&mut self.queue, &mut env);
    }

    /// Queues an allocation or a free whose fields are not validated yet.
    #[inline]
    fn enqueue_checked(
        &mut self,
        kind: OperationKind,
        stream: u16,
        heap: usize,
        address: u64,
        size: u64,
        stack: u32,
    ) {
        if heap >= HEAPS || address == 0 {
            return self.unusable(kind, stream, heap);
        }
        self.enqueue(Operation::new(
            kind,
            StreamHeap::new(stream, heap as u8),
            address,
            size,
            stack,
        ));
    }

    /// An event after the point that the caller has set as the end of counting. Only events about
    /// the trace itself still matter, because they report losses.
    #[inline(never)]
    fn event_after_cutoff(&mut self, event: &Event<'_>) {
        if let role @ Role::Trace(_) = self.decoding.role(event.type_index) {
            self.rare_event(role, event);
        }
    }

    #[cold]
    #[inline(never)]
    fn unusable(&mut self, kind: OperationKind, stream: u16, heap: usize) {
        self.flush();
        let (model, mut env) = self.parts();
        model.unusable(stream, heap, kind, &mut env);
    }
}

impl<O: BlockObserver> Visitor for Analyzer<O> {
    fn event_type(&mut self, index: usize, event_type: &EventType) {
        match self.decoding.add_type(index, event_type) {
            Ok(Role::Name(NameRole::ScopeEntries { .. })) => self.facts.set_counts_entries(),
            Ok(Role::Alloc { .. } | Role::Free { .. }) => self.facts.set_has_memory_types(),
            Ok(_) => {}
            Err(problem) => self.diagnostics.problem(problem),
        }
    }

    // PERF: inlined, so that no `Event` is built: 50 instead of 54 ns per event from file to
    // report.
    #[inline(always)]
    fn event(&mut self, event: &Event<'_>) {
        if self.cutoff.is_over() {
            return self.event_after_cutoff(event);
        }
        let role = self.decoding.role(event.type_index);
        if role.is_counted() {
            self.cutoff.count_event();
        }
        let fixed = event.fixed;
        match role {
            Role::Alloc { address, stack, size, low, heap, realloc } => {
                let kind = if realloc { OperationKind::ReallocAlloc } else { OperationKind::Alloc };
                let (address, heap) = (u64_at(fixed, address), heap.of(fixed));
                let size = self.decoding.size(fixed, size, low);
                let stack = u32_at(fixed, stack);
                self.enqueue_checked(kind, event.stream, heap, address, size, stack);
            }
            Role::Free { address, heap, realloc } => {
                let kind = if realloc { OperationKind::ReallocFree } else { OperationKind::Free };
                let (address, heap) = (u64_at(fixed, address), heap.of(fixed));
                self.enqueue_checked(kind, event.stream, heap, address, 0, 0);
            }
            role => self.rare_event(role, event),
        }
        if self.cutoff.is_at_stop() {
            self.stop_at_event();
        }
    }

    #[inline]
    fn row(&mut self, row: &mut Row<'_>) {
        let mut bytes = row.bytes;
        loop {
            let room = usize::try_from(self.cutoff.room()).unwrap_or(usize::MAX);
            let free = self.queue.free(self.cutoff.events() + 1);
            let most = free.len().min(room);
            let count = self.decoding.decode(row, &mut bytes, &mut free[..most]);
            self.cutoff.count_open_events(count as u64);
            if !self.queue.add(count) {
                break;
            }
            self.apply_queue();
        }
        row.bytes = bytes;
    }

    fn leave_scope(&mut self, stream: u16) {
        self.flush();
        self.model.leave(stream);
        self.scope_changed(stream);
    }

    fn settle(&mut self) {
        self.flush();
    }

    fn end(&mut self, whole: bool) {
        self.diagnostics.end(whole);
    }

    fn hole(&mut self, hole: Hole) {
        self.diagnostics.hole(hole);
    }

    fn damage(&mut self, damage: &Damage) {
        self.diagnostics.damage(damage);
    }
}
