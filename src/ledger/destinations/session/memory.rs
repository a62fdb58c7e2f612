//! The memory part of a session: slices from the stream, counters and heap profiles from the reports of the
//! program's own analyzer.

use crate::dump::InProcessAnalyzer;
use crate::dump::functions::Functions;
use crate::error::Error;
use crate::perfetto::{MemoryWriter, Track};
use crate::platform::os::{self, Instant};
use crate::problems;
use crate::scopes::events::scope_path;
use memledger_analysis::Report;
use memledger_export::perfetto::{LiveMemory, Moment, Process};
use std::time::Duration;

/// There are this many points of counters from one dump to the next.
const POINTS_PER_DUMP: u32 = 10;
/// The shortest time from one dump to the next.
const MIN_INTERVAL: Duration = Duration::from_millis(10);

/// See the [module](self). The first call of `restart` begins it.
pub(super) struct SessionMemory {
    analyzer: InProcessAnalyzer,
    interval: Duration,
    live: Option<LiveMemory>,
    /// The peak before the session, in bytes.
    peak_before: u64,
    /// When there was the last dump, and the last point.
    dumped: Option<Instant>,
    pointed: Option<Instant>,
}

impl SessionMemory {
    /// A dump each `interval`.
    pub(super) fn new(analyzer: InProcessAnalyzer, interval: Duration) -> Self {
        let interval = interval.max(MIN_INTERVAL);
        // NOTE: counting stops at the end of the recording, with a report that is kept. It needs the buckets
        // of the last dump.
        let peak_before = analyzer.with_analyzer(|analyzer| {
            analyzer.set_by_bucket();
            analyzer.flush();
            analyzer.live_and_peak_bytes().1
        });
        Self { analyzer, interval, live: None, peak_before, dumped: None, pointed: None }
    }

    /// The report, and the functions of callstacks that are new.
    fn report(&mut self, live: &mut LiveMemory) -> Result<Report, Error> {
        let mut report = self
            .analyzer
            .report_of("a dump of the heap", |analyzer| analyzer.report_by_bucket())?;
        let has_new_stacks = live.new_buckets(&report).iter().any(|bucket| bucket.stack.is_some());
        if cfg!(feature = "symbols") && has_new_stacks {
            Functions::lock()?.add_to(&mut report);
        }
        live.learn(&report);
        Ok(report)
    }

    fn live(&mut self, now: Moment, out: &mut Vec<u8>) -> LiveMemory {
        self.live.take().unwrap_or_else(|| {
            let name = std::env::args_os().next().unwrap_or_default();
            let name = name.to_string_lossy().into_owned();
            let (uuid, pid) = (Track::process().uuid(), os::process_id());
            LiveMemory::new(Process { pid, uuid, name, command: Vec::new() }, now, out)
        })
    }

    fn points(&mut self, live: &mut LiveMemory, now: Moment, out: &mut Vec<u8>) {
        let is_due =
            |last: Option<Instant>, interval| last.is_none_or(|last| last.elapsed() >= interval);
        if is_due(self.dumped, self.interval) {
            (self.dumped, self.pointed) = (Some(Instant::now()), Some(Instant::now()));
            match self.report(live) {
                Ok(report) => {
                    live.point(&report, now, out);
                    live.dump(&report, now, out);
                }
                Err(error) => problems::report(error),
            }
        } else if is_due(self.pointed, self.interval / POINTS_PER_DUMP) {
            self.pointed = Some(Instant::now());
            let report = self.analyzer.with_analyzer(|analyzer| analyzer.report_of_rows(false));
            live.point(&report, now, out);
        }
    }
}

impl MemoryWriter for SessionMemory {
    fn allocated(
        &mut self,
        thread: (u32, u32, &str),
        context: u32,
        sum: (i64, i64),
        out: &mut Vec<u8>,
    ) {
        if let Some(live) = &mut self.live {
            live.allocated(thread, context, sum, || scope_path(context), out);
        }
    }

    fn sync(&mut self, now: Moment, out: &mut Vec<u8>) {
        let mut live = self.live(now, out);
        live.step(now, out);
        self.points(&mut live, now, out);
        self.live = Some(live);
    }

    fn restart(&mut self, now: Moment, out: &mut Vec<u8>) {
        match &mut self.live {
            Some(live) => live.restart(now, out),
            None => self.live = Some(self.live(now, out)),
        }
    }

    fn finish(&mut self, now: Moment, out: &mut Vec<u8>) {
        let mut live = self.live(now, out);
        let start = self.analyzer.with_analyzer(|analyzer| analyzer.start_cycle());
        match self.report(&mut live) {
            Ok(report) => {
                // A cycle is a nanosecond of the monotonic clock.
                let peak_ns = start.saturating_add(report.totals.peak_bytes_at_ns);
                let peak = Moment { at_ns: peak_ns.saturating_add(now.asleep_ns), ..now };
                // NOTE: not by times. That of the peak is of the worker's cycle before it, which may have
                // been before the session.
                let is_ours = report.totals.peak_bytes > self.peak_before;
                live.finish(&report, is_ours.then_some(peak), now, out);
            }
            Err(error) => problems::report(error),
        }
    }
}
