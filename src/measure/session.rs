//! What a piece of the program does with memory: a scope of its own, and what the analyzer says of it.
//!
//! ```text
//! begin   an analyzer         the running ledger's, or one that is kept until the last measurement ends
//!         a node of the tree  no other measurement's; this thread enters it
//! ...     the measured code, and what enters its context elsewhere
//! end     collect             everything up to now, or say why not
//!         the node's figures  since the beginning
//! ```
//! A node is used again when nothing can be in it any more: its context was never captured, and all
//! its blocks are freed. So a measurement that is repeated for ever takes one node.

use crate::analysis::{Analyzer, Baseline, Holder, MeasuredFigures};
use crate::error::Error;
use crate::ledger::entry::{clone_for_caller, refuse_forked};
use crate::ledger::in_process::InProcessAnalyzer;
use crate::ledger::recording::{self, HOOK_TIMEOUT, Recording, WORKER_TIMEOUT};
use crate::ledger::{start, stop};
use crate::platform::os::{self, BlockedSignals};
use crate::scopes;
use crate::scopes::current::{self, Entered};
use crate::scopes::tree::{self, NodeKind, OTHER};
use crate::trace::worker::{self, Session};
use crate::trace::write::{ReentrancyGuard, is_untracked, loss, state};
use std::collections::BTreeMap;
use std::panic::Location;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// A measurement that has begun. Dropped without an end, it ends without a result.
pub(crate) struct Measuring {
    /// Whether a context has been captured, on this thread, in the measured code around this.
    captured_before: bool,
    entered: Entered,
    site: &'static Location<'static>,
    /// The tracker's own memory: taken and dropped with the guard set.
    begun: Option<Begun>,
}

struct Begun {
    generation: u64,
    pid: u32,
    /// Events lost before.
    lost: u64,
    scopes_turned_off: u32,
    node: Node,
    analyzer: InProcessAnalyzer,
    before: Baseline,
}

/// The figures of a measurement, which are checked with the guard set.
pub(crate) struct Found<'a> {
    pub(crate) figures: MeasuredFigures,
    analyzer: &'a mut Analyzer,
    node: Node,
    before: &'a Baseline,
}

impl Found<'_> {
    /// The scopes and the tags of the measured blocks, unsorted.
    pub(crate) fn holders(&mut self) -> (Vec<Holder>, Vec<Holder>) {
        self.analyzer.holders(self.node.id(), self.before)
    }
}

/// The node of a measurement in the tree of contexts.
#[derive(Clone, Copy)]
struct Node {
    /// The stack around it and its name.
    place: (u32, &'static str),
    number: u32,
}

impl Node {
    fn id(self) -> i32 {
        tree::wire_id(self.number) as i32
    }
}

/// A node that can be used again: at once, or when its blocks are freed.
struct Idle {
    number: u32,
    /// The recording in which some of its blocks were live.
    live_in: Option<u64>,
}

/// Nodes without a measurement. Locked only while the recording is locked, so that a fork finds it free.
static IDLE: Mutex<BTreeMap<(u32, &'static str), Vec<Idle>>> = Mutex::new(BTreeMap::new());
/// The number of the latest node of a measurement.
static LATEST: AtomicU32 = AtomicU32::new(0);

/// At most this many nodes whose blocks were live are looked at before a new one is taken.
const LOOKS: usize = 16;

impl Measuring {
    /// Begins to measure what this thread does, and all that enters its context from here on.
    pub(crate) fn begin(
        name: &'static str,
        site: &'static Location<'static>,
    ) -> Result<Self, Error> {
        if is_untracked() {
            return Err(unmeasured("this is the tracker's own code, whose memory is not recorded"));
        }
        let begun = clone_for_caller({
            let _untracked = ReentrancyGuard::enter();
            let _signals = BlockedSignals::new();
            Begun::new(name)
        })?;
        let captured_before = current::set_captured(false);
        let entered = current::enter_node(begun.node.number);
        Ok(Self { captured_before, entered, site, begun: Some(begun) })
    }

    /// Ends it, and calls `judge` with the figures.
    pub(crate) fn end(
        mut self,
        judge: impl FnOnce(&mut Found<'_>) -> Result<(), Error>,
    ) -> Result<MeasuredFigures, Error> {
        self.stop(judge)
    }

    fn stop(
        &mut self,
        judge: impl FnOnce(&mut Found<'_>) -> Result<(), Error>,
    ) -> Result<MeasuredFigures, Error> {
        let Some(begun) = self.begun.take() else {
            return Err(unmeasured("it has ended already"));
        };
        let stack = current::stack();
        let stayed = stack != OTHER && tree::is_within(stack, begun.node.number);
        current::leave(self.entered, self.site);
        let captured = current::set_captured(self.captured_before);
        if captured {
            // A captured context is also within all measurements around this one.
            current::set_captured(true);
        }
        clone_for_caller({
            let _untracked = ReentrancyGuard::enter();
            let _signals = BlockedSignals::new();
            begun.end(stayed, captured, judge)
        })
    }
}

impl Drop for Measuring {
    fn drop(&mut self) {
        if self.begun.is_some() {
            let _ = self.stop(|_| Ok(()));
        }
    }
}

impl Begun {
    fn new(name: &'static str) -> Result<Self, Error> {
        refuse_forked().map_err(|error| unmeasured(error.to_string()))?;
        let mut current = started()?;
        let Some(recording) = current.as_mut() else { return Err(ended()) };
        let begun = Self::in_recording(name, recording);
        if begun.is_ok() {
            recording.measurements += 1;
        }
        end_if_over(&mut current);
        begun
    }

    fn in_recording(name: &'static str, recording: &mut Recording) -> Result<Self, Error> {
        // NOTE: before the check whether the channel is on.
        let scopes_turned_off = scopes::CHANNEL.times_turned_off();
        recording.refuse_measurement()?;
        // Nothing is collected meanwhile.
        let Some(mut session) = worker::session_within(WORKER_TIMEOUT) else { return Err(stuck()) };
        let Some(session) = session.as_mut() else { return Err(ended()) };
        let analyzer = recording.analyzer_for_measurements(session).clone();
        let Some(node) = Node::take(name, recording.generation, &analyzer) else {
            return Err(unmeasured(format!(
                "the table of scopes and names is full: all {} are used up",
                tree::PROGRAM_NODES
            )));
        };
        let before = analyzer.look(|analyzer| analyzer.begin_measurement(node.id()));
        let (generation, pid, lost) = (recording.generation, os::process_id(), loss::so_far());
        Ok(Self { generation, pid, lost, scopes_turned_off, node, analyzer, before })
    }

    fn end(
        self,
        stayed: bool,
        captured: bool,
        judge: impl FnOnce(&mut Found<'_>) -> Result<(), Error>,
    ) -> Result<MeasuredFigures, Error> {
        if state::is_forked() || os::process_id() != self.pid {
            // NOTE: not dropped. A thread that does not exist in the child may hold the analyzer's lock.
            std::mem::forget(self);
            return Err(unmeasured("the process was forked meanwhile, and this is the child"));
        }
        let mut current = recording::current();
        let is_same = |running: &&mut Recording| running.generation == self.generation;
        let Some(recording) = current.as_mut().filter(is_same) else {
            return Err(ended());
        };
        recording.measurements -= 1;
        let found = if stayed { self.find(captured, judge) } else { Err(left()) };
        end_if_over(&mut current);
        found
    }

    fn find(
        &self,
        captured: bool,
        judge: impl FnOnce(&mut Found<'_>) -> Result<(), Error>,
    ) -> Result<MeasuredFigures, Error> {
        let Self { node, ref before, .. } = *self;
        self.collect()?;
        let (figures, judged) = self.analyzer.look(|analyzer| {
            let figures = analyzer.measured(node.id(), before);
            (figures, judge(&mut Found { figures, analyzer, node, before }))
        });
        if !captured {
            node.give_back((figures.live_blocks != 0).then_some(self.generation));
        }
        judged.map(|()| figures)
    }

    /// Brings the analyzer up to now, and checks that nothing is missing.
    fn collect(&self) -> Result<(), Error> {
        let Some(mut session) = worker::session_within(WORKER_TIMEOUT) else { return Err(stuck()) };
        let Some(session) = session.as_mut() else { return Err(ended()) };
        collect_everything(session)?;
        if scopes::CHANNEL.times_turned_off() != self.scopes_turned_off {
            return Err(unmeasured("the channel \"scope\" was turned off meanwhile"));
        }
        match loss::so_far().wrapping_sub(self.lost) {
            0 => Ok(()),
            lost => Err(unmeasured(format!(
                "{lost} events were lost meanwhile, since the buffers were full and the worker did not come in time; start a ledger before, with a larger LedgerBuilder::buffer_limit and OnFull::Wait"
            ))),
        }
    }
}

/// The recording that is under way. Starts one if there is none.
fn started() -> Result<MutexGuard<'static, Option<Recording>>, Error> {
    let deadline = Instant::now() + WORKER_TIMEOUT;
    loop {
        let current = recording::current();
        if current.is_some() {
            return Ok(current);
        }
        drop(current);
        // NOTE: another thread may start first. Then this start fails, and there is a recording, or was.
        if let Err(error) = start::for_measurements()
            && (!os::SUPPORTED || Instant::now() >= deadline)
        {
            return Err(unmeasured(error.to_string()));
        }
    }
}

/// Ends the recording if only measurements needed it, and the last of them has ended.
fn end_if_over(current: &mut Option<Recording>) {
    if let Some(recording) = current.take_if(|recording| recording.is_over()) {
        stop::end(recording, false);
    }
}

/// Collects until everything from before the call is collected.
fn collect_everything(session: &mut Session) -> Result<(), Error> {
    let deadline = Instant::now() + WORKER_TIMEOUT;
    while Instant::now() < deadline && !session.has_failed() {
        worker::tick(session, HOOK_TIMEOUT);
        if session.has_everything() {
            return Ok(());
        }
    }
    Err(unmeasured(format!(
        "the tracker could not collect everything within {} s; Ledger::problems may say why",
        WORKER_TIMEOUT.as_secs()
    )))
}

impl Node {
    /// A node for a measurement of this thread alone. `None` if there is none.
    fn take(name: &'static str, generation: u64, analyzer: &InProcessAnalyzer) -> Option<Self> {
        let place = (current::stack(), name);
        let reused = idle().get_mut(&place).and_then(|nodes| {
            let is_free = |idle: &Idle| {
                // NOTE: events that are not collected yet can only be frees.
                idle.live_in != Some(generation)
                    || !analyzer.look(|analyzer| {
                        analyzer.is_measurement_live(tree::wire_id(idle.number) as i32)
                    })
            };
            let looks = LOOKS.min(nodes.len());
            let found = nodes.iter().take(looks).position(is_free);
            if found.is_none() {
                nodes.rotate_left(looks);
            }
            found.map(|index| nodes.swap_remove(index).number)
        });
        let new = || {
            let latest = LATEST.fetch_add(1, Ordering::Relaxed) + 1;
            tree::find_or_add(NodeKind::Scope, place.0, latest, name)
        };
        Some(Self { place, number: reused.or_else(new)? })
    }

    fn give_back(self, live_in: Option<u64>) {
        let idle_node = Idle { number: self.number, live_in };
        idle().entry(self.place).or_default().push(idle_node);
    }
}

fn idle() -> MutexGuard<'static, BTreeMap<(u32, &'static str), Vec<Idle>>> {
    IDLE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn unmeasured(why: impl Into<String>) -> Error {
    Error::Unmeasured(why.into())
}

fn ended() -> Error {
    unmeasured("the recording ended meanwhile: its ledger was dropped or finished")
}

fn left() -> Error {
    unmeasured("the measured code has left its own scope, by dropping a guard from outside it")
}

fn stuck() -> Error {
    unmeasured(format!("the worker has been stuck in a write for {} s", WORKER_TIMEOUT.as_secs()))
}
