//! Figures of the recording itself.

use crate::alloc::stats as allocator;
use crate::dump;
use crate::ledger::stats::Stats;
use crate::scopes::{self, tree};
use crate::stacks;
use crate::trace::sink::queue;
use crate::trace::worker::{self, Trailer};
use crate::trace::write::{buffer_pool, loss, state};

impl Stats {
    /// The figures as of the last cycle; a few loads.
    pub(crate) fn of_last_cycle() -> Self {
        let [live_bytes, peak_bytes, live_blocks, blocks_at_peak, peak_blocks] =
            dump::heap_figures();
        Self {
            live_bytes,
            peak_bytes,
            live_blocks,
            blocks_at_peak,
            peak_blocks,
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
pub(crate) fn trailer() -> Trailer {
    Trailer {
        overhead_bytes: overhead_bytes(),
        scope_misuses: scopes::misuse::count(),
        failed_allocations: allocator::failures(),
    }
}
