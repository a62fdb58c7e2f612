//! The runs of a scope: the stretches of a thread's events in which the scope is open, each with the
//! blocks that were allocated in it.
//!
//! ```text
//! events of a thread   alloc  alloc  free  alloc  alloc  alloc
//! open at each         -      X      -     X > Y  -      X
//! runs of X                   |------------|      .      |-- open when counting stops
//! ```
//! A run begins with the first allocation in the scope and is over with the first outside it, which is
//! how the tracker writes scopes. A free has a scope only in a trace that says so (`freescope`).

use super::rules::Kind;
use crate::hash::IntMap;
use crate::observer::{Actor, BlockChange, BlockEvent};
use memledger_document::internal::sort;
use std::cmp::Reverse;
use std::collections::HashMap;

/// How many of the largest runs are kept.
const LARGEST: usize = 10;

/// At most this many blocks are between the halves of their reallocation.
const MAX_PENDING: usize = 4096;

/// In place of a scope: outside the scope that is asked for.
const OUTSIDE: u32 = u32::MAX;

/// Where a block is: its root heap and its address.
type BlockAddress = (u8, u64);

/// One run of a scope.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScopeRun {
    /// The id of the thread that it was on.
    pub thread_id: u32,
    /// The name of this thread; empty if it has none.
    pub thread: String,
    /// When it began: the last time in the trace before its first allocation.
    pub began_at_ns: u64,
    /// The event that was its first allocation.
    pub began_by_event: u64,
    /// When it was over, or when counting stopped.
    pub ended_at_ns: u64,
    /// Whether it was still open when counting stopped.
    pub is_open: bool,
    /// How many of its blocks the rule found: those live then, or those freed before.
    pub blocks: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// The runs of a scope.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScopeRuns {
    /// The scope, as it was asked for.
    pub scope: String,
    /// How many runs were over, or were open when counting stopped.
    pub runs: u64,
    /// How often the program entered the scope in the whole trace, if the trace says so. Entries without an
    /// allocation outside the scope between them are one run.
    pub entries: Option<u64>,
    /// How many runs were open when counting stopped.
    pub open: u64,
    /// How many left a block behind.
    pub with_blocks: u64,
    /// How many blocks that runs left behind were still live when counting stopped, including those of open
    /// runs.
    pub still_live_blocks: u64,
    /// The bytes of these.
    pub still_live_bytes: u64,
    /// The runs in which the rule found most, the most bytes first: at most 10.
    pub largest: Vec<ScopeRun>,
}

/// Blocks, and their bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    blocks: u64,
    bytes: u64,
}

impl Sum {
    fn add(&mut self, block: &BlockEvent) {
        self.blocks += 1;
        self.bytes = self.bytes.wrapping_add(block.bytes);
    }
}

/// A run that is over, with what is needed to name it.
#[derive(Clone, Copy, Debug)]
struct FinishedRun {
    by: Actor,
    began_at_ns: u64,
    began_by_event: u64,
    ended_at_ns: u64,
    is_open: bool,
    /// What it left behind.
    left: Sum,
    /// What the rule found in it.
    found: Sum,
}

/// A run that is not over.
#[derive(Clone, Debug)]
struct OpenRun {
    number: u64,
    by: Actor,
    scope: u32,
    began_at_ns: u64,
    began_by_event: u64,
    /// What the rule found of its blocks that were freed.
    found: Sum,
    /// Its blocks, and places for more.
    blocks: Vec<Option<BlockEvent>>,
    /// Which of `blocks` have none.
    vacant: Vec<u32>,
}

/// A stream: who acts on it, and in which scope.
#[derive(Clone, Debug)]
struct Stream {
    by: Actor,
    scope: u32,
    run: Option<OpenRun>,
}

/// Whose block is live somewhere. PERF: the block itself is with its run, so that the table of all blocks
/// has small rows: nearly all of its look-ups are of blocks that are freed.
#[derive(Clone, Copy, Debug)]
struct RunBlock {
    /// The number of its run, which is over if the stream has another.
    run: u64,
    /// Where it is among the blocks of its run.
    at: u32,
    /// The stream of its run.
    stream: u16,
}

/// Takes what becomes of a block that a run has allocated, and says whether the rule finds the block.
pub(super) type Counted<'a> = &'a mut dyn FnMut(Kind, &BlockEvent) -> bool;

/// Follows the runs of one scope. Its memory is in proportion to the live blocks that runs have
/// allocated, to scopes and to streams.
#[derive(Clone, Debug)]
pub(super) struct Runs {
    /// The names, the outermost first, that are somewhere in the path of the scope.
    names: Vec<String>,
    /// By context: the scope that it is in.
    contexts: Vec<Option<u32>>,
    scopes: HashMap<Vec<String>, u32>,
    streams: Vec<Stream>,
    held: IntMap<BlockAddress, RunBlock>,
    /// Blocks between the halves of their reallocation, by the event that is the first half.
    pending: Vec<(u64, RunBlock)>,
    /// What runs that are over left behind and is live.
    left_blocks: u64,
    left_bytes: u64,
    /// How many runs have begun.
    begun: u64,
    over: u64,
    with_blocks: u64,
    largest: Vec<FinishedRun>,
}

impl Runs {
    /// The runs of the scope with this name, or with these names, the outermost first, between ` > `.
    pub(super) fn new(scope: &str) -> Self {
        Self {
            names: scope.split(" > ").map(str::to_owned).collect(),
            contexts: Vec::new(),
            scopes: HashMap::new(),
            streams: Vec::new(),
            held: IntMap::default(),
            pending: Vec::new(),
            left_blocks: 0,
            left_bytes: 0,
            begun: 0,
            over: 0,
            with_blocks: 0,
            largest: Vec::new(),
        }
    }

    /// How many names of `path` lead to the outermost scope that is asked for, if it is in the path.
    pub(super) fn depth_in(&self, path: &[String]) -> Option<usize> {
        let at = path.windows(self.names.len()).position(|names| names == self.names)?;
        Some(at + self.names.len())
    }

    /// The stream is in this context from here on.
    #[inline]
    pub(super) fn enter(&mut self, stream: u16, by: Actor, path: &dyn Fn() -> Vec<String>) {
        let index = by.context as usize;
        let scope = match self.contexts.get(index) {
            Some(&Some(scope)) => scope,
            _ => self.add_context(index, path()),
        };
        let stream = self.stream(stream);
        (stream.by, stream.scope) = (by, scope);
    }

    #[cold]
    fn add_context(&mut self, index: usize, mut path: Vec<String>) -> u32 {
        let scope = match self.depth_in(&path) {
            None => OUTSIDE,
            Some(depth) => {
                path.truncate(depth);
                let next = self.scopes.len() as u32;
                *self.scopes.entry(path).or_insert(next)
            }
        };
        if index >= self.contexts.len() {
            self.contexts.resize(index + 1, None);
        }
        self.contexts[index] = Some(scope);
        scope
    }

    fn stream(&mut self, stream: u16) -> &mut Stream {
        let index = usize::from(stream);
        if index >= self.streams.len() {
            let outside = Stream { by: Actor::default(), scope: OUTSIDE, run: None };
            self.streams.resize(index + 1, outside);
        }
        &mut self.streams[index]
    }

    /// All blocks so far were live when the trace began: no run has allocated them.
    pub(super) fn begin(&mut self) {
        *self = Self { names: std::mem::take(&mut self.names), ..Self::new("") };
    }

    /// `counts`: whether what is allocated and over here counts.
    #[inline]
    pub(super) fn observe(
        &mut self,
        event: &BlockEvent,
        change: BlockChange,
        counts: bool,
        count: Counted<'_>,
    ) {
        let place = (event.heap, event.address);
        match change {
            BlockChange::Allocated => {
                if self.is_in_run(event, counts, count) && counts {
                    self.hold(place, event);
                }
            }
            BlockChange::Freed { by, .. } => {
                if by.context != Actor::NO_CONTEXT {
                    self.is_in_run(event, counts, count);
                }
                self.end(place, event, count);
            }
            BlockChange::Left => {
                self.is_in_run(event, counts, count);
                self.end(place, event, count);
            }
            BlockChange::ReallocBegun => {
                self.is_in_run(event, counts, count);
                if let Some(held) = self.held.remove(&place) {
                    if self.pending.len() == MAX_PENDING {
                        self.pending.remove(0);
                    }
                    self.pending.push((event.number, held));
                }
            }
            BlockChange::Reallocated { begun, bytes_before, .. } => {
                self.is_in_run(event, counts, count);
                let pending = self.pending.iter().rposition(|(number, _)| *number == begun);
                if let Some(at) = pending {
                    let (_, held) = self.pending.swap_remove(at);
                    self.held.insert(place, held);
                    self.change(held, event, bytes_before);
                }
            }
            BlockChange::Corrected { is_live: true, bytes_before } => {
                if let Some(&held) = self.held.get(&place) {
                    self.change(held, event, bytes_before);
                }
            }
            BlockChange::Moved { .. } => {
                if let Some(&held) = self.held.get(&place) {
                    self.change(held, event, event.bytes);
                }
            }
            BlockChange::Corrected { .. }
            | BlockChange::ReallocFailed { .. }
            | BlockChange::Returned => {}
        }
    }

    /// Whether the stream of the event is in a run. One that is over ends here, and one can begin.
    #[inline]
    fn is_in_run(&mut self, event: &BlockEvent, counts: bool, count: Counted<'_>) -> bool {
        let stream = self.stream(event.stream);
        let (by, scope) = (stream.by, stream.scope);
        if let Some(run) = &stream.run {
            if run.scope == scope && run.by.thread == by.thread {
                return true;
            }
            if let Some(run) = stream.run.take() {
                self.finish(&run, event, counts, count);
            }
        }
        if scope == OUTSIDE {
            return false;
        }
        let number = self.begun;
        self.begun += 1;
        let (began_at_ns, began_by_event) = (event.at_ns, event.number);
        let (found, blocks, vacant) = (Sum::default(), Vec::new(), Vec::new());
        let run = OpenRun { number, by, scope, began_at_ns, began_by_event, found, blocks, vacant };
        self.stream(event.stream).run = Some(run);
        true
    }

    /// Keeps a block that the stream's run has allocated.
    #[inline]
    fn hold(&mut self, place: BlockAddress, event: &BlockEvent) {
        let Some(run) = &mut self.stream(event.stream).run else { return };
        let at = match run.vacant.pop() {
            Some(at) => {
                run.blocks[at as usize] = Some(*event);
                at
            }
            None => {
                run.blocks.push(Some(*event));
                run.blocks.len() as u32 - 1
            }
        };
        let held = RunBlock { run: run.number, at, stream: event.stream };
        self.held.insert(place, held);
    }

    /// The run of a block, if it is not over.
    #[inline]
    fn run_of(&mut self, held: RunBlock) -> Option<&mut OpenRun> {
        let run = self.streams[usize::from(held.stream)].run.as_mut();
        run.filter(|run| run.number == held.run)
    }

    /// A block is another from here on.
    fn change(&mut self, held: RunBlock, event: &BlockEvent, bytes_before: u64) {
        match self.run_of(held) {
            Some(run) => run.blocks[held.at as usize] = Some(*event),
            None => {
                let others = self.left_bytes.wrapping_sub(bytes_before);
                self.left_bytes = others.wrapping_add(event.bytes);
            }
        }
    }

    #[inline]
    fn end(&mut self, place: BlockAddress, event: &BlockEvent, count: Counted<'_>) {
        let Some(held) = self.held.remove(&place) else { return };
        match self.run_of(held) {
            Some(run) => {
                run.blocks[held.at as usize] = None;
                run.vacant.push(held.at);
                if count(Kind::Freed, event) {
                    run.found.add(event);
                }
            }
            None => {
                self.left_blocks -= 1;
                self.left_bytes = self.left_bytes.wrapping_sub(event.bytes);
            }
        }
    }

    /// A run is over: its blocks are left behind.
    fn finish(&mut self, run: &OpenRun, event: &BlockEvent, counts: bool, count: Counted<'_>) {
        if counts {
            let over = run.over(event, false, Kind::Left, count);
            self.left_blocks += over.left.blocks;
            self.left_bytes = self.left_bytes.wrapping_add(over.left.bytes);
            self.over += 1;
            self.with_blocks += u64::from(over.left.blocks > 0);
            keep(&mut self.largest, over);
        }
    }

    /// Counting stops after event `event`. Counts the blocks of the runs that are open. Returns the figures
    /// of all runs, and the actors of the largest ones, whose threads the caller names.
    pub(super) fn stop(
        &self,
        scope: &str,
        event: &BlockEvent,
        count: Counted<'_>,
    ) -> (ScopeRuns, Vec<Actor>) {
        let mut runs = ScopeRuns {
            scope: scope.to_owned(),
            runs: self.over,
            with_blocks: self.with_blocks,
            ..ScopeRuns::default()
        };
        let (mut live_blocks, mut live_bytes) = (self.left_blocks, self.left_bytes);
        let mut largest = self.largest.clone();
        for run in self.streams.iter().filter_map(|stream| stream.run.as_ref()) {
            let over = run.over(event, true, Kind::Live, count);
            live_blocks += over.left.blocks;
            live_bytes = live_bytes.wrapping_add(over.left.bytes);
            runs.runs += 1;
            runs.open += 1;
            runs.with_blocks += u64::from(over.left.blocks > 0);
            keep(&mut largest, over);
        }
        (runs.still_live_blocks, runs.still_live_bytes) = (live_blocks, live_bytes);
        sort::by_key(&mut largest, FinishedRun::order);
        largest.truncate(LARGEST);
        let run = |over: &FinishedRun| {
            let FinishedRun { began_at_ns, began_by_event, ended_at_ns, is_open, found, .. } =
                *over;
            ScopeRun {
                began_at_ns,
                began_by_event,
                ended_at_ns,
                is_open,
                blocks: found.blocks,
                bytes: found.bytes,
                ..ScopeRun::default()
            }
        };
        runs.largest = largest.iter().map(run).collect();
        (runs, largest.iter().map(|over| over.by).collect())
    }
}

impl OpenRun {
    /// The run when it is over, or counting stops, by this event: its blocks are of this kind.
    fn over(
        &self,
        over: &BlockEvent,
        is_open: bool,
        kind: Kind,
        count: Counted<'_>,
    ) -> FinishedRun {
        let Self { by, began_at_ns, began_by_event, mut found, .. } = *self;
        let (ended_at_ns, mut left) = (over.at_ns, Sum::default());
        for block in self.blocks.iter().flatten() {
            left.add(block);
            if count(kind, &BlockEvent { number: over.number, at_ns: over.at_ns, ..*block }) {
                found.add(block);
            }
        }
        FinishedRun { by, began_at_ns, began_by_event, ended_at_ns, is_open, left, found }
    }
}

impl FinishedRun {
    fn order(&self) -> (Reverse<u64>, Reverse<u64>, u64) {
        (Reverse(self.found.bytes), Reverse(self.found.blocks), self.began_by_event)
    }
}

/// Keeps a run if it is among the largest.
fn keep(largest: &mut Vec<FinishedRun>, over: FinishedRun) {
    if over.found.blocks == 0 {
        return;
    }
    largest.push(over);
    // The list is cut back at twice the length and more, so that this is rare.
    if largest.len() >= 8 * LARGEST {
        sort::by_key(largest, FinishedRun::order);
        largest.truncate(LARGEST);
    }
}
