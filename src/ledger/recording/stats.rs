//! Figures of the recording itself.

use crate::alloc::stats as allocator;
use crate::ledger::Stats;
use crate::ledger::reports::in_process;
use crate::scopes::{self, tree};
use crate::stacks;
use crate::trace::sink::queue;
use crate::trace::worker::{self, Trailer};
use crate::trace::write::{buffer_pool, loss, state};

/// The heap, as the recording's analyzer has it.
#[derive(Clone, Copy)]
pub(in crate::ledger) struct HeapFigures {
    pub(in crate::ledger) live_bytes: u64,
    pub(in crate::ledger) peak_bytes: u64,
    pub(in crate::ledger) live_blocks: u64,
    pub(in crate::ledger) blocks_at_peak: u64,
}

impl Stats {
    /// The figures as of the last cycle; a few loads.
    pub(in crate::ledger) fn of_last_cycle() -> Self {
        let heap = in_process::figures();
        Self {
            live_bytes: heap.map(|heap| heap.live_bytes),
            peak_bytes: heap.map(|heap| heap.peak_bytes),
            live_blocks: heap.map(|heap| heap.live_blocks),
            blocks_at_peak: heap.map(|heap| heap.blocks_at_peak),
            recording: state::load() & state::RECORD != 0 && state::is_running(),
            events: worker::collected(),
            lost_events: loss::total(),
            buffer_bytes: buffer_pool::used() as u64,
            overhead_bytes: overhead_bytes(),
            failed_allocations: allocator::failures(),
            scope_misuses: scopes::misuse::count(),
            refused_contexts: tree::refused(),
            lost_destinations: queue::failures(),
        }
    }
}

/// All memory of the tracker: the blocks that its own code allocated, and its mapped pages.
fn overhead_bytes() -> u64 {
    allocator::own_bytes() + worker::mapped_bytes() + scopes::bytes() + stacks::bytes()
}

/// The figures in the last event of a stream.
pub(in crate::ledger) fn trailer() -> Trailer {
    Trailer {
        overhead_bytes: overhead_bytes(),
        scope_misuses: scopes::misuse::count(),
        failed_allocations: allocator::failures(),
    }
}
