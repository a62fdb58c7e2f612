//! What a trace says about the program and about itself.

use super::diagnostics::Diagnostics;
use memledger_document::TraceInfo;

/// The facts seen so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    trace: TraceInfo,
    overhead_bytes: Option<u64>,
    /// Whether the writer counts entries of scopes.
    counts_entries: bool,
    /// Whether frees are in their scopes, while there are scopes.
    free_scopes: bool,
    /// Whether the trace has a type of an allocation or a free.
    has_memory_types: bool,
}

/// The fields of `Memledger.Trace`.
pub(super) struct OurTrace {
    pub(super) version: u8,
    pub(super) pid: u32,
    pub(super) from_process_start: bool,
    /// Whether the tracker was built with optimisation, if the trace has the field.
    pub(super) tracker_optimized: Option<bool>,
    /// The process that has started this one, if the trace has the field.
    pub(super) parent_pid: Option<u32>,
}

impl Facts {
    /// Notes the event that every stream of our writer begins with.
    pub(super) fn our_trace(&mut self, ours: OurTrace, diagnostics: &mut Diagnostics) {
        if ours.version > 1 {
            diagnostics.problem(format!(
                "this trace was made by a newer memledger (version {} of its own events; \
                 this one knows 1)",
                ours.version
            ));
        }
        self.trace.pid = Some(ours.pid);
        self.trace.parent_pid = ours.parent_pid;
        self.trace.from_process_start = Some(ours.from_process_start);
        if ours.from_process_start {
            // A later event may still say that the stream joined a recording.
            self.trace.recording_since_ns = Some(0);
            self.trace.initial_live_blocks = Some(0);
        }
        self.trace.tracker_optimized = ours.tracker_optimized;
    }

    /// Whether the trace began after its process: blocks from before are not known.
    #[inline]
    pub(super) fn began_late(&self) -> bool {
        self.trace.from_process_start == Some(false)
    }

    pub(super) fn set_program(&mut self, name: &str) {
        if !name.is_empty() {
            self.trace.program = Some(name.to_owned());
        }
    }

    /// Notes that the trace has reached the time `now`.
    pub(super) fn note_time(&mut self, now: u64) {
        if self.began_late() {
            self.trace.recording_since_ns.get_or_insert(now);
        }
    }

    /// Whether the trace has all blocks of its process so far.
    pub(super) fn has_all_blocks(&self) -> bool {
        self.trace.recording_since_ns == Some(0) && self.trace.memory_recorded != Some(false)
    }

    /// Whether the trace has all blocks that are live, of whatever time.
    pub(super) fn knows_all_blocks(&self) -> bool {
        let is_whole = self.trace.missed_at_start == 0 && self.trace.memory_recorded != Some(false);
        is_whole && self.trace.initial_live_blocks.is_some()
    }

    /// Notes that the stream joined a recording with this many live blocks, after which `missed` events are
    /// missing.
    pub(super) fn joined(&mut self, now: u64, blocks: u64, missed: u64) {
        self.trace.missed_at_start = missed;
        self.trace.recording_since_ns = Some(now);
        // A recording without an in-process analyzer does not know its live blocks: its late
        // streams announce 0.
        let is_known = blocks > 0 || !self.began_late();
        self.trace.initial_live_blocks = is_known.then_some(blocks);
    }

    pub(super) fn set_memory_recorded(&mut self, recorded: bool) {
        self.trace.memory_recorded = Some(recorded);
    }

    pub(super) fn set_has_memory_types(&mut self) {
        self.has_memory_types = true;
    }

    /// Whether the trace has a type of an allocation or a free.
    pub(super) fn has_memory_types(&self) -> bool {
        self.has_memory_types
    }

    pub(super) fn set_overhead_bytes(&mut self, bytes: u64) {
        self.overhead_bytes = Some(bytes);
    }

    pub(super) fn overhead_bytes(&self) -> Option<u64> {
        self.overhead_bytes
    }

    pub(super) fn set_counts_entries(&mut self) {
        self.counts_entries = true;
    }

    /// Whether the writer counts entries of scopes.
    pub(super) fn counts_entries(&self) -> bool {
        self.counts_entries
    }

    pub(super) fn set_free_scopes(&mut self, recorded: bool) {
        self.free_scopes = recorded;
    }

    /// Whether frees are in their scopes, while there are scopes.
    pub(super) fn free_scopes(&self) -> bool {
        self.free_scopes
    }

    pub(super) fn trace(&self) -> &TraceInfo {
        &self.trace
    }
}
