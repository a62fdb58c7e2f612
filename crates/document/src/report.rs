//! The parts of a report about all blocks together.

use crate::coverage::{Coverage, CoverageKind};
use crate::figure::Unit::{Bytes, Count, Flag, Id, Nanoseconds, Part};
use crate::figure::{Figure, figure};
use crate::figures::Totals;
use crate::findings::{Finding, FreedIn, PeakBy};
use crate::llm::LlmTagRow;
use crate::rows::{
    BucketRow, Frame, GroupRow, HeapRow, LiveBlock, NameRow, ScopeRow, SizeRow, ThreadRow,
};
use crate::rss::Rss;
use crate::series::TimeSeries;
use crate::stacks::StackRows;
use crate::statics::{self, FilePages, StaticVariable};
use crate::symbolizer::{CodeRange, Module, Symbolizer};
use crate::untracked::{MAX_REASONS, Untracked, UntrackedKind, UntrackedReason};

/// Everything known about the memory of one run.
///
/// Times are nanoseconds since the trace began, sizes are bytes as the program asked for them.
/// Each of the `by_` lists divides the same blocks another way: every column but the peaks,
/// `moved_in` and `moved_out` sums to [`totals`](Self::totals). In all columns, a block counts in
/// the row of its *first* allocation, whichever thread frees or reallocates it; but in `by_size`, a
/// block that is reallocated to a size of another class moves to that class, and in `by_stack`, to
/// the stack of its reallocation. Lists are sorted by
/// live bytes, then allocated bytes (both descending), then by path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// What was traced.
    pub trace: TraceInfo,
    /// All blocks together.
    pub totals: Totals,
    /// When all blocks together were at their peak.
    pub peak: PeakMoment,
    /// Losses and contradictions in the trace.
    pub losses: Losses,
    /// What the writer traced after it had made its own report.
    pub after_report: AfterReport,
    /// The moments that the program has named, in their order.
    pub bookmarks: Vec<Bookmark>,
    /// How live and allocated memory went; not in JSON.
    pub timeline: TimeSeries,
    /// By scope stack.
    pub by_scope: Vec<ScopeRow>,
    /// By group.
    pub by_group: Vec<GroupRow>,
    /// By group and name.
    pub by_name: Vec<NameRow>,
    /// By thread.
    pub by_thread: Vec<ThreadRow>,
    /// By root heap. Most traces have one; `track_c_malloc!` adds another.
    pub by_heap: Vec<HeapRow>,
    /// By size, in classes that double.
    pub by_size: Vec<SizeRow>,
    /// By call stack; empty in a trace without stacks.
    pub by_stack: StackRows,
    /// The frames of these stacks.
    pub frames: Vec<Frame>,
    /// The files that these frames are in.
    pub modules: Vec<Module>,
    /// The parts of these files that are loaded as code, each with its module, an index of
    /// [`modules`](Self::modules); empty until [`symbolize`](Self::symbolize) finds some.
    pub code: Vec<(usize, CodeRange)>,
    /// The values of Unreal's memory tags; empty unless the trace has them.
    pub llm_tags: Vec<LlmTagRow>,
    /// The resident memory of the program (RSS), and what it was; `None` if the trace does not say.
    pub rss: Option<Rss>,
    /// The static variables that have much of it, the largest first: at most 100. Empty in a trace without
    /// stacks, and if no file has 256 KiB of them in memory.
    pub static_variables: Vec<StaticVariable>,
    /// The pages in which these are; files are modules.
    #[doc(hidden)]
    pub static_pages: Vec<FilePages>,
    /// What of the program's memory may be in no block.
    pub untracked: Untracked,
    /// By all of these together, in the order of their numbers
    /// (`BlockEvent::bucket`); empty unless
    /// `Analyzer::by_bucket` asks for it.
    pub by_bucket: Vec<BucketRow>,
    /// If only a sample of blocks has stacks: the mean number of bytes from one sample to the next.
    pub stack_sampling_bytes: Option<u64>,
    /// If stacks are only those of scopes with a text in their path: the text, in lower case
    /// (`Analyzer::stacks_in_scope`).
    pub stacks_in_scope: Option<String>,
    /// The largest blocks still live, the largest first.
    pub largest_live: Vec<LiveBlock>,
    /// Who has most of the peak, with what was seen of each block: `Analyzer::find` puts it here. Others ask
    /// [`find_peak_by`](Self::find_peak_by).
    pub peak_by: Option<PeakBy>,
    /// What to look at first; `None` unless `Analyzer::find` was asked.
    pub findings: Option<Vec<Finding>>,
    /// Who frees what another allocates; empty unless
    /// `Analyzer::freed_in` was asked and its answer put here.
    pub freed_in: Vec<FreedIn>,
}

impl Report {
    /// Whether it has anything that is named by the program's files.
    #[doc(hidden)]
    pub fn has_names(&self) -> bool {
        !self.by_stack.is_empty() || !self.static_variables.is_empty()
    }

    /// Finds the functions of all frames for which the trace has no symbols, and the static variables: asks
    /// once for each frame that is in a module. Costs what the symbolizer costs.
    pub fn symbolize(&mut self, symbolizer: &mut dyn Symbolizer) {
        let mut is_asked_for = vec![false; self.modules.len()];
        for frame in self.frames.iter_mut().filter(|frame| frame.functions.is_empty()) {
            if let Some(number) = frame.module
                && let Some(module) = self.modules.get(number)
            {
                frame.functions = symbolizer.frames(module, frame.offset);
                is_asked_for[number] = true;
            } else if let (None, Some(pid)) = (frame.module, self.trace.pid) {
                frame.functions = symbolizer.made_at_run_time(pid, frame.offset);
            }
        }
        self.code.retain(|(module, _)| !is_asked_for[*module]);
        for (number, module) in self.modules.iter().enumerate().filter(|(at, _)| is_asked_for[*at])
        {
            self.code.extend(symbolizer.code(module).into_iter().map(|range| (number, range)));
        }
        let variables = |module: &Module| symbolizer.variables(module);
        self.static_variables = statics::rows(&self.static_pages, &self.modules, variables);
    }

    /// Adds those of the started programs as reasons that have no trace, each program once: `has_trace` says
    /// it of a process.
    pub fn judge_children(&mut self, has_trace: impl Fn(u32) -> bool) {
        let reasons = &mut self.untracked.reasons;
        for (process, program) in &self.untracked.started {
            let is_same =
                |it: &UntrackedReason| it.kind == UntrackedKind::Child && it.file == *program;
            if !has_trace(*process) && !reasons.iter().any(is_same) && reasons.len() < MAX_REASONS {
                let function = Some(process).filter(|it| **it != 0);
                let function = function.map_or(String::new(), u32::to_string);
                let kind = UntrackedKind::Child;
                reasons.push(UntrackedReason { kind, function, file: program.clone() });
            }
        }
        if self.untracked.has(UntrackedKind::Child) {
            self.trace.coverage.add(CoverageKind::Child);
            self.trace.complete = false;
        }
    }
}

/// What was traced.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TraceInfo {
    /// The program's name, if the trace says it.
    pub program: Option<String>,
    /// Its process id, if the trace says it.
    pub pid: Option<u32>,
    /// The id of the process that had started it, or had inherited it, when the recording began, if the
    /// trace says it.
    pub parent_pid: Option<u32>,
    /// How long it was traced: up to the writer's report, else to the last marker.
    pub duration_ns: u64,
    /// The largest distance between two time stamps that have a memory event between them.
    pub time_resolution_ns: u64,
    /// How many events the report is made from, without those that say which frames a call stack has: how
    /// many these are depends on the transport.
    pub events: u64,
    /// Whether tracking began with the process; `None` if the writer does not say. It is also true
    /// for a trace that joined such a recording later and begins with all blocks that were live
    /// then.
    pub from_process_start: Option<bool>,
    /// When the channel `scope` was off, to the nearest marker: allocations made then count in the
    /// outermost scope, whatever scopes they were in. Empty in traces of other writers.
    pub scopes_off: Vec<TimeSpan>,
    /// Whether the tracker in the program was built with optimisation; without it an event costs 28
    /// times as much. `None` if the writer does not say.
    pub tracker_optimized: Option<bool>,
    /// The time at which the events of the trace begin: 0 for a trace from the start, otherwise the
    /// time at which it joined a running recording. `None` if the writer does not say.
    pub recording_since_ns: Option<u64>,
    /// Blocks live at that time, with which the trace begins: they count as allocations. `None` if
    /// the writer did not know them, or does not say.
    pub initial_live_blocks: Option<u64>,
    /// Whether allocations and frees are recorded: the channel `memory`; `None` if the writer does
    /// not say. It is also false for a trace that has the values of Unreal's memory tags
    /// ([`Report::llm_tags`]), and no allocations and frees.
    pub memory_recorded: Option<bool>,
    /// By how many blocks [`initial_live_blocks`](Self::initial_live_blocks) can be wrong: in the child of a
    /// fork, allocations and frees of the parent's other threads just before the fork.
    pub missed_at_start: u64,
    /// Whether nothing is missing: the [word](Self::coverage) is
    /// [`Complete`](crate::CoverageWord::Complete).
    pub complete: bool,
    /// How complete the figures are, and why they are not.
    pub coverage: Coverage,
    /// Whether the trace has its end. The end of
    /// our writer's trace is its own report (`Memledger.Report`). Unreal's writer marks no end, so
    /// a trace of that writer counts as ended when its source could be read to the end and has a
    /// sync, which the writer sends after the start of the trace. A trace that was cut later,
    /// between two packets, shows the cut only where a serial is missing.
    pub ended: bool,
}

/// What is said of a trace, in the order of the JSON.
#[rustfmt::skip]
pub const TRACE: &[Figure<TraceInfo>] = &[
    figure("program", Part, |_| None, "The program's name, if the trace says it."),
    figure("pid", Id, |of| of.pid.map(u64::from), "Its process id, if the trace says it."),
    figure("parent_pid", Count, |of| of.parent_pid.map(u64::from), "The process that had started it."),
    figure("duration_ns", Nanoseconds, |of| of.duration_ns.into(), "How long it was traced."),
    figure("time_resolution_ns", Nanoseconds, |of| of.time_resolution_ns.into(), "How far apart times are."),
    figure("events", Count, |of| of.events.into(), "How many events the report is made from."),
    figure("from_process_start", Flag, |of| of.from_process_start.map(u64::from), "Whether it has the start."),
    figure("scopes_off", Part, |_| None, "When scopes were not recorded."),
    figure("tracker_optimized", Flag, |of| of.tracker_optimized.map(u64::from),
        "Whether the tracker was optimised."),
    figure("complete", Flag, |of| Some(of.complete.into()), "Whether nothing is missing."),
    figure("coverage", Part, |_| None, "How complete the figures are, and why they are not."),
    figure("recording_since_ns", Nanoseconds, |of| of.recording_since_ns, "When its events begin."),
    figure("initial_live_blocks", Count, |of| of.initial_live_blocks, "Blocks live at that time."),
    figure("memory_recorded", Flag, |of| of.memory_recorded.map(u64::from), "Whether blocks are recorded."),
    figure("missed_at_start", Count, |of| of.missed_at_start.into(),
        "By how many blocks these can be wrong."),
    figure("ended", Flag, |of| Some(of.ended.into()), "Whether the trace has its end."),
];

/// A span of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TimeSpan {
    /// When it began.
    pub from_ns: u64,
    /// When it ended; in a report as of an earlier moment, that moment.
    pub to_ns: u64,
}

/// A moment with a name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Bookmark {
    /// Its name, as the program printed it.
    pub name: String,
    /// When it was set: no earlier than any event before it in the order, and no later than any
    /// after it.
    pub at_ns: u64,
}

/// The position of the peak of all blocks between the times in the trace.
///
/// The trace gives a time every 10 ms while something happens, every millisecond at the start of a
/// recording, and at each bookmark.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PeakMoment {
    /// The last time in the trace before the peak.
    pub from_ns: u64,
    /// The first time in the trace after the peak; `None` if there is none, or none yet.
    pub to_ns: Option<u64>,
    /// The last bookmark before the peak, by the order of events.
    pub after_bookmark: Option<String>,
    /// The first bookmark after the peak.
    pub before_bookmark: Option<String>,
}

/// Losses and contradictions in the trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Losses {
    /// Events that are known to be missing.
    pub lost_events: u64,
    /// More are missing, but the number is unknown: `lost_events` is `null` in JSON.
    pub lost_unknown: bool,
    /// Places in the order of events where some are missing.
    pub serial_holes: u64,
    /// Frees of blocks that were never allocated.
    pub unmatched_frees: u64,
    /// Frees of unknown blocks in a trace that began after its process: the blocks may be older.
    pub frees_of_earlier_blocks: u64,
    /// Allocations of an address that was still live.
    pub duplicate_allocations: u64,
    /// Bytes of the trace that could not be read.
    pub truncated_bytes: u64,
    /// Scopes misused, as counted by the writer: left in another order than they were entered, or never.
    pub scope_misuses: u64,
    /// Allocations and reallocations whose stack has more frames than the program's limit. This and
    /// the next seven count those in [`Report::by_stack`].
    pub stacks_over_frame_limit: u64,
    /// Those whose stack lacks its outer frames, because code has no unwind information.
    pub stacks_without_unwind_information: u64,
    /// Those whose stack lacks its outer frames, because its memory could not be read.
    pub stacks_unreadable: u64,
    /// Those whose stack lacks its outer frames, because a library had just been unloaded, so that the next
    /// frame can be in one that was loaded in its place.
    pub stacks_in_changed_libraries: u64,
    /// Those whose stack has frames that are a guess ([`Frame::is_guess`](crate::Frame::is_guess)).
    pub stacks_guessed: u64,
    /// Those that have only the outer frames of their stack, because all stacks together had taken the memory
    /// that they may (`MEMLEDGER_STACK_MEMORY`).
    pub stacks_cut: u64,
    /// The bytes that these have allocated.
    pub stacks_cut_bytes: u64,
    /// Those whose stack is `(other)`, because there was no memory for even that.
    pub stacks_other: u64,
}

impl Losses {
    /// Frees of blocks that were never allocated, and allocations of live addresses: figures are wrong by the
    /// events that were not seen.
    pub fn contradictions(&self) -> u64 {
        self.unmatched_frees.saturating_add(self.duplicate_allocations)
    }
}

/// The losses, in the order of the JSON.
#[rustfmt::skip]
pub const LOSSES: &[Figure<Losses>] = &[
    figure("lost_events", Count, |of| (!of.lost_unknown).then_some(of.lost_events),
        "Events that are known to be missing."),
    figure("serial_holes", Count, |of| of.serial_holes.into(), "Places where events are missing."),
    figure("unmatched_frees", Count, |of| of.unmatched_frees.into(), "Frees of blocks never allocated."),
    figure("frees_of_earlier_blocks", Count, |of| of.frees_of_earlier_blocks.into(),
        "Frees of unknown blocks in a trace that began after its process."),
    figure("duplicate_allocations", Count, |of| of.duplicate_allocations.into(),
        "Allocations of a live address."),
    figure("truncated_bytes", Bytes, |of| of.truncated_bytes.into(), "Bytes that could not be read."),
    figure("scope_misuses", Count, |of| of.scope_misuses.into(), "Scopes left in another order, or never."),
    figure("stacks_over_frame_limit", Count, |of| of.stacks_over_frame_limit.into(),
        "Allocations whose stack has more frames than the limit of the program."),
    figure("stacks_without_unwind_information", Count, |of| of.stacks_without_unwind_information.into(),
        "Those whose stack lacks its outer frames, for want of unwind information."),
    figure("stacks_unreadable", Count, |of| of.stacks_unreadable.into(),
        "Those whose stack memory could not be read."),
    figure("stacks_in_changed_libraries", Count, |of| of.stacks_in_changed_libraries.into(),
        "Those whose stack ends in a library that came or went."),
    figure("stacks_guessed", Count, |of| of.stacks_guessed.into(), "Those whose stack has guessed frames."),
    figure("stacks_cut", Count, |of| of.stacks_cut.into(), "Those whose stack lacks its inner frames."),
    figure("stacks_cut_bytes", Bytes, |of| of.stacks_cut_bytes.into(),
        "The bytes that these have allocated."),
    figure("stacks_other", Count, |of| of.stacks_other.into(), "Those whose stack had no memory."),
];

/// The counts of events after the writer's own report. No other figure includes them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AfterReport {
    /// Allocations; a reallocation is not one.
    pub allocations: u64,
    /// Frees of known blocks.
    pub frees: u64,
    /// The sizes of all allocations and the new sizes of all reallocations.
    pub allocated_bytes: u64,
    /// How many threads were in a call of the allocator when the recording ended, at most: what it allocated
    /// or freed is in no figure. Where a process was killed, each of its threads can have been in one.
    pub in_flight: u64,
}

/// These counts, in the order of the JSON.
#[rustfmt::skip]
pub const AFTER_REPORT: &[Figure<AfterReport>] = &[
    figure("allocations", Count, |of| of.allocations.into(), "Allocations after the report."),
    figure("frees", Count, |of| of.frees.into(), "Frees of known blocks after it."),
    figure("allocated_bytes", Bytes, |of| of.allocated_bytes.into(), "Bytes allocated after it."),
    figure("in_flight", Count, |of| of.in_flight.into(),
        "Threads in a call of the allocator at the end, at most."),
];

#[doc(hidden)]
impl AfterReport {
    pub fn add_bytes(&mut self, bytes: i64) {
        self.allocated_bytes = self.allocated_bytes.wrapping_add_signed(bytes);
    }
}
