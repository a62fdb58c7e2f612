//! One recording, from its start to its end, and the cycle in which it collects events.
//!
//! The steps of a cycle must be in this order, because an event must never precede what it refers
//! to:
//! 1. advance the watermark, the epoch up to which all events are committed,
//! 2. read every thread's commit cursor,
//! 3. read the tables of names and threads,
//! 4. send the important events that result from step 3, and the call stacks,
//! 5. number and send the threads' events up to the limits of steps 1 and 2.
//!
//! A session has one part for each task, and the fields of a part are private to its file:
//!
//! | part | task |
//! |---|---|
//! | [`Output`] | the sinks, and a short history for a sink that joins soon |
//! | [`Announcer`] | event providers, types, important events |
//! | [`Threads`] | the stream of each thread, and how far it is drained |
//! | [`Watermark`] | the epoch up to which all events are committed |
//! | [`Timeline`] | serials, markers, and the serial below which all events have been sent |
//!
//! The merge borrows four of them for one cycle.

use super::announcer::{Announcer, EventProvider};
use super::checkpoint::Checkpoints;
use super::late_join::{self, JoinPoint};
use super::merge::Merge;
use super::output::Output;
use super::streams::{CONTROL, WORKER};
use super::threads::Threads;
use super::timeline::{Timeline, Trailer, settled_below};
use super::watch::Watch;
use super::watermark::Watermark;
use crate::error::{Error, ErrorKind};
use crate::platform::clock;
use crate::platform::os::Instant;
use crate::trace::sink::Sink;
use crate::trace::sink::queue::Queued;
use crate::trace::write::{
    backpressure, buffer, buffer_pool, loss, quiesce, registry, reserve, shortage,
};
use std::time::Duration;

/// How often the worker looks for threads that ended without notice, and writes figures to the
/// stream.
const HOUSEKEEPING_INTERVAL: Duration = Duration::from_secs(1);

/// One recording.
pub(crate) struct Session {
    output: Output,
    announcer: Announcer,
    threads: Threads,
    watermark: Watermark,
    timeline: Timeline,
    last_housekeeping: Instant,
    failed: bool,
    watch: Option<Watch>,
}

impl Session {
    /// A session that begins with the next event, or with the first of the process if
    /// `from_process_start`.
    pub(crate) fn new(
        sinks: Vec<Box<dyn Sink>>,
        providers: Vec<Box<dyn EventProvider>>,
        from_process_start: bool,
        on_problem: fn(Error),
    ) -> Self {
        let timeline = Timeline::new(from_process_start);
        let mut session = Self {
            output: Output::new(sinks, on_problem),
            announcer: Announcer::new(providers),
            threads: Threads::new(),
            watermark: Watermark::new(timeline.began().0),
            timeline,
            last_housekeeping: Instant::now(),
            failed: false,
            watch: None,
        };
        session.describe();
        session
    }

    /// Sends what a stream starts with: types, the start of the clock, the program, our streams.
    fn describe(&mut self) {
        let (start, preamble) = (self.timeline.began().0, self.timeline.preamble());
        for sink in self.output.sinks() {
            self.announcer.describe(start, &preamble, &mut **sink);
        }
        self.announcer.add_own_streams();
        self.announcer.announce(&mut self.output);
        // NOTE: sent before any event of a thread. A reader that has not seen `Memledger.Settled`
        // assumes that the stream never has it, and counts events that are late in the first cycles
        // as lost.
        self.output.packet(CONTROL, &settled_below(self.timeline.first_serial()));
        // Unreal's readers trust serials after a group of three syncs.
        (0..3).for_each(|_| self.output.sync());
    }

    /// Keeps what is sent, up to `limit` bytes, so that a sink can join as if from the start.
    pub(crate) fn keep_history(&mut self, limit: usize) {
        self.output.keep_history(limit);
    }

    /// Adds a sink that receives everything since the start; gives the sink back if the history has
    /// been discarded.
    pub(crate) fn join(&mut self, sink: Box<dyn Sink>) -> Result<(), Box<dyn Sink>> {
        if !self.output.has_history() {
            return Err(sink);
        }
        self.join_at_start(sink);
        Ok(())
    }

    /// Adds a sink before the first cycle.
    pub(crate) fn join_at_start(&mut self, mut sink: Box<dyn Sink>) {
        self.announcer.describe(self.timeline.began().0, &self.timeline.preamble(), &mut *sink);
        self.announcer.replay(&mut *sink);
        // As in `describe`.
        sink.packet(CONTROL, &settled_below(self.timeline.first_serial()));
        for _ in 0..3 {
            if let Err(error) = sink.sync() {
                return self.output.report_problem(error);
            }
        }
        for definitions in self.announcer.definitions() {
            definitions(&mut |stream, packet| sink.packet(stream, packet));
        }
        self.output.replay(&mut *sink);
        self.output.add(sink);
        self.output.sync();
    }

    /// Adds a sink whose stream starts here, right after a cycle. The sink's own thread calls
    /// `begin`, which sends what is specific to this position.
    pub(crate) fn join_late(
        &mut self,
        mut sink: Queued,
        begin: impl FnOnce(JoinPoint, &mut dyn Sink) -> Result<(), Error> + Send + 'static,
    ) {
        let point = self.describe_to(&mut sink);
        sink.defer(Box::new(move |sink| begin(point, sink)));
        self.output.add(Box::new(sink));
    }

    /// Does the same as [`join_late`](Self::join_late) for a sink without a queue: calls `begin` on
    /// this thread.
    pub(crate) fn join_inline(
        &mut self,
        mut sink: Box<dyn Sink>,
        begin: impl FnOnce(JoinPoint, &mut dyn Sink) -> Result<(), Error>,
    ) {
        let point = self.describe_to(&mut *sink);
        match begin(point, &mut *sink) {
            Ok(()) => self.output.add(sink),
            Err(error) => self.output.report_problem(error),
        }
    }

    /// Sends to a late sink what all streams start with; returns the position at which the sink
    /// joins.
    fn describe_to(&mut self, sink: &mut dyn Sink) -> JoinPoint {
        // Brings the figures up to date first, because the late stream starts with them.
        self.announcer.report_figures(&mut self.output);
        let (start, from_process_start) = self.timeline.began();
        self.announcer.describe(start, &[], sink);
        self.announcer.replay(sink);
        JoinPoint {
            serial: self.timeline.next_serial(),
            start,
            marked_at: self.timeline.marked_at(),
            from_process_start,
            definitions: self.announcer.definitions(),
            streams: late_join::open_streams(&self.threads, &self.announcer),
        }
    }

    /// Whether there is a sink with this number.
    pub(crate) fn has_sink(&self, number: u64) -> bool {
        self.output.has_sink(number)
    }

    /// Ends the stream of one sink, right after a cycle, as if the recording ended here.
    pub(crate) fn end_one(&mut self, number: u64, trailer: &Trailer) {
        let mut timeline = self.timeline;
        let markers = timeline.mark(clock::now_since_start());
        let serial = timeline.next_serial();
        let mut last = self.threads.closings();
        last.push((WORKER, markers.as_flattened().to_vec()));
        last.push((CONTROL, settled_below(serial)));
        last.push((WORKER, trailer.report(serial, clock::now_since_start())));
        self.output.finish_one(number, &last);
    }

    /// Continues the clock of another recording, which began at `start`, in cycles.
    pub(crate) fn continue_from(&mut self, start: u64, from_process_start: bool) {
        self.timeline.continue_from(start, from_process_start);
    }

    /// The start of the clock in cycles, and whether the recording has all events since the process
    /// began.
    pub(crate) fn began(&self) -> (u64, bool) {
        self.timeline.began()
    }

    /// Makes the next cycle send all figures that have changed, for a caller that is about to read
    /// them.
    pub(crate) fn want_figures(&mut self) {
        self.last_housekeeping = self
            .last_housekeeping
            .checked_sub(HOUSEKEEPING_INTERVAL)
            .unwrap_or(self.last_housekeeping);
    }

    /// The callback that problems are reported to.
    pub(crate) fn on_problem(&self) -> fn(Error) {
        self.output.on_problem()
    }

    /// Whether the last cycle has collected every event before it.
    pub(crate) fn has_everything(&self) -> bool {
        !self.failed && self.watermark.is_current()
    }

    /// Whether recording has ended because of a fault of the tracker.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed
    }

    /// Collects once. Waits for threads inside the hook, at most for `timeout`.
    pub(crate) fn cycle(&mut self, timeout: Duration) {
        backpressure::clear_wake_request();
        if self.failed {
            return;
        }
        let is_housekeeping_due = self.last_housekeeping.elapsed() >= HOUSEKEEPING_INTERVAL;
        if is_housekeeping_due {
            registry::finish_dead();
            self.last_housekeeping = Instant::now();
        }
        let watermark = self.watermark.advance(timeout);
        self.collect(watermark);
        if is_housekeeping_due {
            self.announcer.report_figures(&mut self.output);
        }
        self.announcer.report_readings(false, &mut self.output);
        if self.timeline.is_unsettled() {
            self.settle();
        }
        let has_sent = self.output.is_unsynced();
        if shortage::requested().is_some() {
            // NOTE: before a sink or the tracker is out of memory, too: the analyzer acts in it.
            self.output.sync();
            shortage::answer();
        } else {
            self.output.sync_if_sent();
        }
        if has_sent || self.threads.has_to_release() {
            self.commit();
        }
        self.announcer.note_committed();
        self.rejoin();
        if reserve::is_used() {
            self.give_up();
        }
    }

    /// Makes a watcher continue the recording if the process ends before its end: from now on, what was sent
    /// is kept until the file has it. `trailer` gives the figures for the end of the stream.
    pub(crate) fn watch(&mut self, checkpoints: &'static Checkpoints, trailer: fn() -> Trailer) {
        self.threads.keep_until_release();
        self.watch = Some(Watch { checkpoints, trailer });
        self.output.sync();
        self.commit();
    }

    /// The recording ends early: a watcher must not make a whole one of it.
    fn forget_watch(&self) {
        if let Some(watch) = &self.watch {
            watch.checkpoints.clear();
        }
    }

    /// There is no watcher after all.
    pub(crate) fn unwatch(&mut self) {
        if let Some(watch) = self.watch.take() {
            self.threads.release(watch.checkpoints);
            self.threads.keep_nothing();
        }
    }

    /// Makes a checkpoint, if there is a watcher.
    fn commit(&mut self) {
        if let Some(watch) = &self.watch {
            let announced = self.announcer.announced();
            watch.commit(&mut self.threads, &self.timeline, &self.output, announced);
            backpressure::wake_waiters();
        }
    }

    /// In a watcher, whose process has ended: continues at the last checkpoint, and ends the stream after all
    /// that the threads had committed. `false` if there is none, because the file could not be written.
    ///
    /// # Errors
    /// [`ErrorKind::File`].
    pub(crate) fn finish_after_end(&mut self) -> Result<bool, Error> {
        let Some(watch) = self.watch.take() else { return Ok(false) };
        let Some((checkpoint, threads)) = watch.checkpoints.read() else { return Ok(false) };
        self.output.continue_at(checkpoint.written)?;
        self.timeline = checkpoint.timeline;
        self.announcer.continue_after(checkpoint.announced);
        registry::take_all();
        self.threads.continue_from(checkpoint.process, checkpoint.fresh_stream, threads);
        loss::reset();
        loss::reported(checkpoint.lost);
        loss::count_interrupted();
        self.finish_at(watch.checkpoints.executed.replaced_at(), &checkpoint.trailer);
        Ok(true)
    }

    /// In the watcher of a child of the process whose session this is: makes it that of the child, which has
    /// written `file`.
    pub(crate) fn adopt(&mut self, mut file: Box<dyn Sink>) {
        let checkpoint = self.watch.as_ref().and_then(|watch| watch.checkpoints.read());
        let start = checkpoint.map_or(0, |(checkpoint, _)| checkpoint.timeline.began().0);
        // What the file codes depends on the types that it has seen. The bytes are cut off.
        self.announcer.describe(start, &[], &mut *file);
        self.output.replace(file);
    }

    /// Continues sinks that have dropped packets and have room again.
    fn rejoin(&mut self) {
        for sink in self.output.sinks().iter_mut().filter(|sink| sink.wants_to_rejoin()) {
            sink.rejoin(&late_join::open_streams(&self.threads, &self.announcer));
        }
    }

    /// Does steps 2 to 5 of a cycle.
    fn collect(&mut self, watermark: u64) {
        let ranges = self.threads.read_cursors(&mut self.output);
        let importants = self.announcer.importants();
        let starts = ranges.iter().filter_map(|range| self.threads.introduce(range, importants));
        let starts = starts.collect::<Vec<_>>();
        self.announcer.announce(&mut self.output);
        for (stream, start) in starts {
            self.output.packet(stream, &start);
        }
        let watch = self.watch.as_ref().map(|watch| (watch, self.announcer.announced()));
        let merge = Merge {
            threads: &mut self.threads,
            timeline: &mut self.timeline,
            watermark: &mut self.watermark,
            output: &mut self.output,
            layouts: self.announcer.layouts(),
            watch,
        };
        merge.run(ranges, watermark);
        self.mark_up_to(watermark);
        buffer_pool::all_collected();
        self.output.report_losses();
    }

    /// Writes a marker after the events up to the epoch `watermark`, if one is due.
    fn mark_up_to(&mut self, watermark: u64) {
        if self.timeline.is_marker_due(self.watermark.last_time())
            && self.watermark.has_time_in(watermark)
        {
            let times = self.watermark.take_times_before(watermark + 1);
            times.for_each(|cycle| self.mark(cycle));
        }
    }

    fn mark(&mut self, cycle: u64) {
        for marker in self.timeline.mark(cycle) {
            self.output.packet(WORKER, &marker);
        }
    }

    /// Sends the event that says that everything collected has been sent.
    fn settle(&mut self) {
        self.output.packet(CONTROL, &self.timeline.settle());
    }

    /// Ends the recording because of a fault of the tracker.
    pub(crate) fn fail(&mut self, why: String) {
        self.failed = true;
        self.forget_watch();
        self.output.clear();
        quiesce::pause(Duration::ZERO);
        self.output.report_problem(Error::new(ErrorKind::Internal, why));
    }

    /// Ends the recording because the system has no memory for the tracker: every stream ends at a
    /// whole packet, without `Memledger.Report`, and the events that it lacks are counted.
    fn give_up(&mut self) {
        quiesce::pause(quiesce::HOOK_TIMEOUT);
        self.forget_watch();
        // NOTE: types are announced before the events are counted, since the size of an event of an
        // unknown type is unknown.
        self.announcer.announce(&mut self.output);
        let lost = self.threads.count_uncollected(self.announcer.layouts());
        self.output.report_losses();
        self.output.report_loss(0, lost);
        self.output.finish();
        self.output.clear();
        self.failed = true;
        self.output.report_problem(Error::new(ErrorKind::OutOfMemory, format!(
            "recording ends here, after {} events: the system has no memory left for the tracker; \
             {} events are lost, and what follows is not recorded",
            self.timeline.next_serial() - self.timeline.first_serial(),
            loss::total()
        )));
    }

    /// Ends the stream. Recording is paused, so there are no events after those that are committed.
    pub(crate) fn finish(&mut self, trailer: &Trailer) {
        self.finish_at(None, trailer);
    }

    /// The same for a recording that has ended before, at a time of the clock.
    fn finish_at(&mut self, ended: Option<u64>, trailer: &Trailer) {
        if self.failed {
            return;
        }
        self.collect(u64::MAX - 1);
        if reserve::is_used() {
            self.settle();
            return self.give_up();
        }
        self.announcer.report_figures(&mut self.output);
        self.announcer.report_readings(true, &mut self.output);
        for (stream, closing) in self.threads.closings() {
            self.output.packet(stream, &closing);
        }
        let now = ended.unwrap_or_else(clock::now_since_start).max(self.timeline.marked_at());
        self.mark(now);
        self.settle();
        self.output.packet(WORKER, &trailer.report(self.timeline.next_serial(), now));
        self.output.finish();
    }
}

/// Bytes of pages the tracker has mapped.
pub(crate) fn mapped_bytes() -> u64 {
    buffer::mapped() + registry::mapped()
}
