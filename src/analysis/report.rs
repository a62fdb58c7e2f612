//! The report: plain numbers and names, the same whether they come from a file or from the
//! process itself. Its JSON form is documented as `memledger.report/1`.

/// Everything known about the memory of one run.
///
/// Times are nanoseconds since the trace began, sizes are bytes as the program asked for them.
/// Each of the five `by_` lists divides the same blocks another way: every column but the peaks
/// sums to [`totals`](Self::totals). All columns of a row belong to the *first* allocation of a
/// block, whichever thread frees or reallocates it; but in `by_size`, a block that is reallocated to
/// a size of another class moves there. Lists are sorted by live bytes, then allocated bytes
/// (both descending), then by path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// What was traced.
    pub trace: TraceInfo,
    /// All blocks together.
    pub totals: Totals,
    /// When all blocks together were at their peak.
    pub peak: PeakMoment,
    /// What is missing or did not fit together.
    pub losses: Losses,
    /// What the writer traced after it had made its own report.
    pub after_report: AfterReport,
    /// The moments that the program has named, in their order.
    pub bookmarks: Vec<Bookmark>,
    /// By scope stack.
    pub by_scope: Vec<ScopeRow>,
    /// By group.
    pub by_group: Vec<GroupRow>,
    /// By group and name.
    pub by_name: Vec<NameRow>,
    /// By thread.
    pub by_thread: Vec<ThreadRow>,
    /// By size, in classes that double.
    pub by_size: Vec<SizeRow>,
    /// The largest blocks still live, the largest first.
    pub largest_live: Vec<LiveBlock>,
}

/// What was traced.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TraceInfo {
    /// The program's name, if the trace tells it.
    pub program: Option<String>,
    /// Its process id, if the trace tells it.
    pub pid: Option<u32>,
    /// How long it was traced: up to the writer's report, else to the last marker.
    pub duration_ns: u64,
    /// How far apart two time stamps are at most while something happens.
    pub time_resolution_ns: u64,
    /// How many events the report is made from.
    pub events: u64,
    /// Whether tracking began with the process; `None` if the writer does not say. A trace that began
    /// later with all blocks live at that time has everything that was tracked.
    pub from_process_start: Option<bool>,
    /// When the channel `scope` was off, to the nearest marker: allocations made then count in the
    /// outermost scope, whatever scopes they were in. Empty in traces of other writers.
    pub scopes_off: Vec<TimeSpan>,
    /// Whether the tracker in the program was built with optimisation; without it an event costs 28
    /// times as much. `None` if the writer does not say.
    pub tracker_optimized: Option<bool>,
    /// The time of the first events in the trace: 0 if they begin with it, otherwise the time at
    /// which it joined a running recording. `None` if the writer does not say.
    pub recording_since_ns: Option<u64>,
    /// Blocks live at that time, with which the trace begins: they count as allocations. `None` if
    /// the writer did not know them, or does not say.
    pub initial_live_blocks: Option<u64>,
    /// Whether allocations and frees are recorded: the channel `memory`; `None` if the writer does
    /// not say.
    pub memory_recorded: Option<bool>,
    /// Whether nothing is missing: no event lost, no damage, and the trace has its end. The end of
    /// our writer's trace is its own report (`Memledger.Report`). Unreal's writer marks no end, so a
    /// trace of it counts as ended when its source could be read to the end and has a sync, which
    /// follows its start. A trace that was cut later, between two packets, shows the cut only where
    /// a serial is missing.
    pub complete: bool,
}

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
    /// When it was set: no earlier than any event before it in the order, and no later than any after
    /// it.
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

/// All blocks together.
///
/// `live_blocks = allocations - frees + moved_in_blocks - moved_out_blocks`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Totals {
    /// Allocations; a reallocation is none.
    pub allocations: u64,
    /// Frees of known blocks.
    pub frees: u64,
    /// Successful reallocations.
    pub reallocations: u64,
    /// The sizes of all allocations and the new sizes of all reallocations.
    pub allocated_bytes: u64,
    /// Blocks not freed yet.
    pub live_blocks: u64,
    /// Their bytes.
    pub live_bytes: u64,
    /// The largest live bytes at any time.
    pub peak_bytes: u64,
    /// When the peak was first reached, or just before: see [`Report::peak`].
    pub peak_bytes_at_ns: u64,
    /// Live blocks then.
    pub blocks_at_peak: u64,
    /// Bytes live at the peak that were allocated in no scope and have no tag.
    pub unnamed_bytes_at_peak: u64,
    /// The largest number of live blocks at any time.
    pub peak_blocks: u64,
    /// Blocks freed by the thread that allocated them before it allocated again.
    pub short_lived: u64,
    /// Memory of the tracker itself, if the writer tells it.
    pub overhead_bytes: Option<u64>,
    /// Blocks that came back into the ledger without an allocation (see `moved_out`).
    pub moved_in: Moves,
    /// Blocks that left the ledger without a free: replaced by another at the same address, or
    /// declared a heap by the program.
    pub moved_out: Moves,
}

/// Blocks that changed their row, and their bytes then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moves {
    /// How many.
    pub blocks: u64,
    /// Their sizes when they moved; where they grew or shrank by that, as they left or came.
    pub bytes: u64,
}

/// The columns of one row.
///
/// `live_blocks = allocations - frees + moved_in.blocks - moved_out.blocks`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Figures {
    /// Allocations; a reallocation is none.
    pub allocations: u64,
    /// Frees of known blocks.
    pub frees: u64,
    /// Successful reallocations.
    pub reallocations: u64,
    /// The sizes of all allocations and the new sizes of all reallocations.
    pub allocated_bytes: u64,
    /// Blocks not freed yet.
    pub live_blocks: u64,
    /// Their bytes.
    pub live_bytes: u64,
    /// The row's own largest live bytes at any time.
    pub peak_bytes: u64,
    /// Its live bytes when the total was at its peak.
    pub live_bytes_at_peak: u64,
    /// Its live blocks then.
    pub live_blocks_at_peak: u64,
    /// Blocks freed by the thread that allocated them before it allocated again.
    pub short_lived: u64,
    /// Blocks that came from another row, or from outside the ledger.
    pub moved_in: Moves,
    /// Blocks that went to another row, or left the ledger without a free (see
    /// [`Totals::moved_out`]).
    pub moved_out: Moves,
}

/// What is missing or did not fit together.
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
    /// Such frees in a trace that began after its process: blocks from before.
    pub frees_of_earlier_blocks: u64,
    /// Allocations of an address that was still live.
    pub duplicate_allocations: u64,
    /// Bytes of the trace that could not be read.
    pub truncated_bytes: u64,
    /// Scopes that were left in another order than they were entered, as the writer counts.
    pub scope_misuses: u64,
}

/// What came after the writer's own report and is in no other figure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AfterReport {
    /// Allocations; a reallocation is none.
    pub allocations: u64,
    /// Frees of known blocks.
    pub frees: u64,
    /// The sizes of all allocations and the new sizes of all reallocations.
    pub allocated_bytes: u64,
}

/// One scope stack.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScopeRow {
    /// Names from the outermost scope inwards.
    pub path: Vec<String>,
    /// The number of entries of this very scope while it was recorded, on all threads; a future or a
    /// span counts once. `None` for the outermost scope, which is never entered, in traces of writers
    /// that do not count entries, and in a trace without its end that has no count yet: our writer
    /// reports counts once a second.
    pub entries: Option<u64>,
    /// What was allocated in this very scope.
    pub figures: Figures,
    /// The same together with all scopes inside it.
    pub inclusive: Figures,
    /// The size of the largest live block of this very scope.
    pub largest_live_bytes: u64,
}

/// One group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct GroupRow {
    /// Names from the outermost group inwards.
    pub group: Vec<String>,
    /// What is tagged with a name of this very group.
    pub figures: Figures,
    /// The same together with all groups inside it.
    pub inclusive: Figures,
}

/// One name of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct NameRow {
    /// Names of the groups from the outermost inwards.
    pub group: Vec<String>,
    /// The name.
    pub name: String,
    /// What carries it.
    pub figures: Figures,
}

/// One thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ThreadRow {
    /// Its id in the trace, never used for another thread.
    pub id: u32,
    /// Its name, empty if it has none.
    pub name: String,
    /// The operating system's id, if the trace tells it.
    pub system_id: Option<u32>,
    /// What it allocated.
    pub figures: Figures,
}

/// One class of sizes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SizeRow {
    /// The smallest size in it.
    pub min_bytes: u64,
    /// The largest; `None` in the last class.
    pub max_bytes: Option<u64>,
    /// Blocks of this size class. A block that grows or shrinks into another class moves: it counts in
    /// `moved_out` of its old class with its old size. In its new class count the reallocation,
    /// `moved_in` with its new size, and all later changes.
    pub figures: Figures,
}

/// One live block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LiveBlock {
    /// Where it is now.
    pub address: u64,
    /// Its size now.
    pub bytes: u64,
    /// The name of the thread that first allocated it, empty if it has none.
    pub thread: String,
    /// That thread's id.
    pub thread_id: u32,
    /// Its group.
    pub group: Vec<String>,
    /// Its name within the group.
    pub name: String,
    /// The scope stack it was first allocated in.
    pub path: Vec<String>,
    /// When it was first allocated: the last time in the trace before that.
    pub allocated_at_ns: u64,
}
