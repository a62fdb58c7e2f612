//! The session of one measurement: a scope of its own, and the figures that the analyzer has of it.
//!
//! ```text
//! begin   an analyzer         the running ledger's, or one that is kept until the last measurement ends
//!         a node of the tree  no other measurement's; this thread enters it
//! ...     the measured code, and what enters its context elsewhere
//! end     collect             everything up to now, or return why that failed
//!         the node's figures  since the beginning
//! ```

mod check;
mod node;

use crate::dump::{Figures, InProcessAnalyzer};
use crate::error::{Unmeasured, UnmeasuredKind, not_started, unmeasured};
use crate::ledger::lifecycle::{start, stop};
use crate::ledger::recording::{self, Recording};
use crate::platform::os::{self, BlockedSignals, Instant};
use crate::scopes;
use crate::scopes::current::{self, Entered};
use crate::scopes::tree::{self, OTHER};
use crate::trace::entry::{for_caller, refuse_forked};
use crate::trace::worker::{self, WORKER_TIMEOUT};
use crate::trace::write::{ReentrancyGuard, is_untracked, registry, state};
use memledger_analysis::Analyzer;
use memledger_analysis::in_process::{Baseline, Holders, MeasuredFigures};
use node::Node;
use std::panic::Location;
use std::sync::MutexGuard;

/// A measurement under way. Dropped without an end, it ends without a result.
pub(crate) struct MeasureSession {
    /// Whether a context had been captured on this thread, in the measurements around this one.
    captured_before: bool,
    entered: Entered,
    site: &'static Location<'static>,
    /// The tracker's own memory: allocated and dropped with the guard set.
    active: Option<Active>,
}

struct Active {
    generation: u64,
    pid: u32,
    /// The number of events lost before the measurement began.
    lost: u64,
    scopes_turned_off: u32,
    node: Node,
    analyzer: InProcessAnalyzer,
    before: Baseline,
}

/// The figures of a measurement, which are checked with the guard set.
pub(crate) struct Outcome<'a> {
    pub(crate) figures: Figures,
    analyzer: &'a mut Analyzer,
    node: Node,
    before: &'a Baseline,
}

impl Outcome<'_> {
    /// The scopes, the tags and the stacks of the measured blocks, unsorted.
    pub(crate) fn holders(&mut self) -> Holders {
        self.analyzer.holders(self.node.id(), self.before)
    }
}

/// Makes the text of a budget that is exceeded, later: when the program's events are collected again.
pub(crate) type Text = Box<dyn FnOnce() -> String>;

impl MeasureSession {
    /// Begins to measure what this thread does, and all that enters its context from here on.
    #[track_caller]
    pub(crate) fn begin(name: &'static str) -> Result<Self, Unmeasured> {
        if is_untracked() {
            return Err(unmeasured(
                UnmeasuredKind::TrackerCode,
                "this is the tracker's own code, whose memory is not recorded",
            ));
        }
        let active = {
            let _untracked = ReentrancyGuard::enter();
            let _signals = BlockedSignals::new();
            Active::new(name)
        };
        let active = active.map_err(for_caller)?;
        let captured_before = current::set_captured(false);
        let entered = current::enter_node(active.node.number());
        let site = Location::caller();
        Ok(Self { captured_before, entered, site, active: Some(active) })
    }

    /// Ends the measurement.
    pub(super) fn figures(self) -> Result<Figures, Unmeasured> {
        self.end(|_| None).map(|(figures, _)| figures)
    }

    /// Ends the measurement, and calls `judge` with the figures. Returns these, and the text that it makes.
    pub(super) fn end(
        mut self,
        judge: impl FnOnce(&mut Outcome<'_>) -> Option<Text>,
    ) -> Result<(Figures, Option<String>), Unmeasured> {
        self.stop(judge)
    }

    fn stop(
        &mut self,
        judge: impl FnOnce(&mut Outcome<'_>) -> Option<Text>,
    ) -> Result<(Figures, Option<String>), Unmeasured> {
        let Some(active) = self.active.take() else {
            return Err(ended());
        };
        let stack = current::stack();
        let stayed = stack != OTHER && tree::is_within(stack, active.node.number());
        current::leave(self.entered, self.site);
        let captured = current::set_captured(self.captured_before);
        if captured {
            // A captured context is also within all measurements around this one.
            current::set_captured(true);
        }
        let ended = {
            let _untracked = ReentrancyGuard::enter();
            let _signals = BlockedSignals::new();
            active.end(stayed, captured, judge)
        };
        ended.map(|(figures, text)| (figures, text.map(for_caller))).map_err(for_caller)
    }
}

impl Drop for MeasureSession {
    fn drop(&mut self) {
        if self.active.is_some() {
            let _ = self.stop(|_| None);
        }
    }
}

impl Active {
    fn new(name: &'static str) -> Result<Self, Unmeasured> {
        refuse_forked().map_err(|error| not_started(&error))?;
        let mut current = started()?;
        let Some(recording) = current.as_mut() else { return Err(ended()) };
        let active = Self::in_recording(name, recording);
        if active.is_ok() {
            recording.measurements += 1;
        }
        end_if_over(&mut current);
        active
    }

    fn in_recording(name: &'static str, recording: &mut Recording) -> Result<Self, Unmeasured> {
        // NOTE: read before the check that the channel is on: if it is turned off after that check,
        // the end of the measurement sees it.
        let scopes_turned_off = scopes::CHANNEL.times_turned_off();
        recording.refuse_measurement()?;
        // While the session is locked, no other thread collects.
        let Some(mut session) = worker::session_within(WORKER_TIMEOUT) else { return Err(stuck()) };
        let Some(session) = session.as_mut() else { return Err(ended()) };
        let Some(analyzer) = recording.analyzer_for_measurements(session).cloned() else {
            return Err(stuck());
        };
        let Some(node) = Node::take(name, recording.generation, &analyzer) else {
            let size = tree::PROGRAM_NODES;
            return Err(unmeasured(
                UnmeasuredKind::TableFull,
                format_args!("the table of scopes and names is full: all {size} are used up"),
            ));
        };
        let before = analyzer.with_analyzer(|analyzer| analyzer.begin_measurement(node.id()));
        let (generation, pid, lost) = (recording.generation, os::process_id(), registry::losses());
        Ok(Self { generation, pid, lost, scopes_turned_off, node, analyzer, before })
    }

    fn end(
        self,
        stayed: bool,
        captured: bool,
        judge: impl FnOnce(&mut Outcome<'_>) -> Option<Text>,
    ) -> Result<(Figures, Option<String>), Unmeasured> {
        if state::is_forked() || os::process_id() != self.pid {
            // NOTE: not dropped. A thread that does not exist in the child may hold the analyzer's
            // lock.
            std::mem::forget(self);
            return Err(unmeasured(
                UnmeasuredKind::Forked,
                "the process was forked meanwhile, and this is the child",
            ));
        }
        let mut current = recording::current();
        let is_same = |running: &&mut Recording| running.generation == self.generation;
        let Some(recording) = current.as_mut().filter(is_same) else {
            return Err(ended());
        };
        recording.measurements -= 1;
        let outcome = if stayed { self.find(captured, judge) } else { Err(left_scope()) };
        drop(self);
        end_if_over(&mut current);
        drop(current);
        // NOTE: without the lock. The text reads debug information, which can take seconds.
        let (figures, text) = outcome?;
        Ok((figures, text.map(|text| text())))
    }

    fn find(
        &self,
        captured: bool,
        judge: impl FnOnce(&mut Outcome<'_>) -> Option<Text>,
    ) -> Result<(Figures, Option<Text>), Unmeasured> {
        let Self { node, ref before, .. } = *self;
        self.collect()?;
        let (figures, judged) = self.analyzer.with_analyzer(|analyzer| {
            let figures = Figures::of(&analyzer.measured(node.id(), before));
            (figures, judge(&mut Outcome { figures, analyzer, node, before }))
        });
        if !captured {
            node.give_back((figures.live_blocks != 0).then_some(self.generation));
        }
        Ok((figures, judged))
    }

    /// Collects all events up to now into the analyzer, and checks that none is missing.
    fn collect(&self) -> Result<(), Unmeasured> {
        let Some(mut session) = worker::session_within(WORKER_TIMEOUT) else { return Err(stuck()) };
        let Some(session) = session.as_mut() else { return Err(ended()) };
        if !worker::collect_everything(session, WORKER_TIMEOUT) {
            let seconds = WORKER_TIMEOUT.as_secs();
            return Err(unmeasured(
                UnmeasuredKind::TimedOut,
                format_args!(
                    "the tracker could not collect everything within {seconds} s; Ledger::problems may say why"
                ),
            ));
        }
        if scopes::CHANNEL.times_turned_off() != self.scopes_turned_off {
            return Err(unmeasured(
                UnmeasuredKind::ChannelOff,
                "the channel \"scope\" was turned off meanwhile",
            ));
        }
        match registry::losses().wrapping_sub(self.lost) {
            0 => Ok(()),
            lost => Err(unmeasured(
                UnmeasuredKind::EventsLost,
                format_args!(
                    "{lost} events were lost meanwhile because the buffers were full; start a ledger first, with a larger LedgerBuilder::buffer_limit and OnFull::Wait"
                ),
            )),
        }
    }
}

impl Figures {
    fn of(measured: &MeasuredFigures) -> Self {
        Self {
            allocations: measured.tally.allocations,
            frees: measured.tally.frees,
            reallocations: measured.tally.reallocations,
            foreign_reallocations: measured.foreign_reallocations,
            allocated_bytes: measured.tally.allocated_bytes,
            live_blocks: measured.live_blocks,
            live_bytes: measured.live_bytes,
            peak_bytes: measured.peak_bytes,
        }
    }
}

/// The recording that is under way. Starts one if there is none.
fn started() -> Result<MutexGuard<'static, Option<Recording>>, Unmeasured> {
    let deadline = Instant::now() + WORKER_TIMEOUT;
    loop {
        let current = recording::current();
        if current.is_some() {
            return Ok(current);
        }
        drop(current);
        // NOTE: another thread may start first. Then this start fails, and that recording is
        // running, or has ended already.
        if let Err(error) = start::for_measurements()
            && Instant::now() >= deadline
        {
            return Err(not_started(&error));
        }
    }
}

/// Ends the recording if a measurement started it, and the last measurement has ended.
fn end_if_over(current: &mut Option<Recording>) {
    if let Some(recording) = current.take_if(|recording| recording.is_over()) {
        stop::end(recording, false);
    }
}

fn ended() -> Unmeasured {
    let why = "the recording ended meanwhile: its ledger was dropped or finished";
    unmeasured(UnmeasuredKind::RecordingEnded, why)
}

fn left_scope() -> Unmeasured {
    let why = "the measured code has left its own scope, by dropping a guard from outside it";
    unmeasured(UnmeasuredKind::LeftScope, why)
}

fn stuck() -> Unmeasured {
    let seconds = WORKER_TIMEOUT.as_secs();
    unmeasured(
        UnmeasuredKind::TimedOut,
        format_args!("the worker has been stuck in a write for {seconds} s"),
    )
}

#[cfg(test)]
mod tests {
    use crate::measure::measure;

    #[test]
    fn nothing_is_measured_of_the_trackers_own() {
        let mut has_run = false;
        let ((), measured) = crate::trace::write::untracked(|| measure(|| has_run = true));
        assert_eq!(
            measured.unwrap_err().to_string(),
            "memory could not be measured: this is the tracker's own code, whose memory is not recorded"
        );
        assert!(has_run);
    }
}
