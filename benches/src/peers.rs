//! Other allocators that track, called by hand beside ours. The ones that link next to another
//! global allocator, under permissive licences (tracking-allocator: MPL-2.0), and in use.
//!
//! | peer | what it does with an event |
//! |---|---|
//! | `dhat` | takes its lock around the call, walks 10 frames, keeps a table of live blocks |
//! | `alloc-track` | keeps a sharded table of live blocks, bytes per thread; no call stacks here |
//! | `tracking-allocator` | puts a header on the block, calls a tracker: here one that counts |
//! | `stats_alloc` | counts in two shared atomics |
//! | `divan` | counts in the thread's own cell |
//! | 70 nops | nothing, in as many instructions as memledger ([`nops`](crate::nops)) |
//!
//! Only memledger records every event with its order; the last three cannot say what is live.

use crate::bursts::{Team, compare_loads, named};
use crate::counter::Counter;
use crate::nops::Nops;
use crate::targets::Figures;
use crate::workload::{Calls, Workload};
use alloc_track::{AllocTrack, BacktraceMode};
use criterion::BenchmarkGroup;
use criterion::measurement::WallTime;
use divan::AllocProfiler;
use stats_alloc::StatsAlloc;
use std::alloc::{GlobalAlloc, System};
use tracking_allocator::{AllocationRegistry, Allocator};

static DHAT: dhat::Alloc = dhat::Alloc;
static ALLOC_TRACK: AllocTrack<System> = AllocTrack::new(System, BacktraceMode::None);
static TRACKING: Allocator<System> = Allocator::system();
static STATS: StatsAlloc<System> = StatsAlloc::system();
static DIVAN: AllocProfiler<System> = AllocProfiler::system();

/// Iterations of a peer's burst: most are slower than memledger, and have no buffers to fill.
const BURST: u64 = 2_000;

/// The figures of one load on one team, of every peer; each beside `System` in the same rounds.
pub fn compare_peers<W: Workload>(
    group: &mut BenchmarkGroup<'_, WallTime>,
    load: &str,
    team: &Team,
    figures: &mut Figures,
) {
    one::<W>(group, load, team, figures, "70 nops", &Nops);
    one::<W>(group, load, team, figures, "divan", &DIVAN);
    let counted = STATS.stats();
    let calls = one::<W>(group, load, team, figures, "stats_alloc", &STATS);
    let change = STATS.stats() - counted;
    let change = (change.allocations as u64, change.deallocations as u64);
    assert_eq!(change, (calls.allocations, calls.frees), "stats_alloc counts");

    Counter::start();
    let before = Counter::calls();
    let calls = one::<W>(group, load, team, figures, "tracking-allocator", &TRACKING);
    let after = Counter::calls();
    let counted = (after.0 - before.0, after.1 - before.1);
    assert_eq!(counted, (calls.allocations, calls.frees), "tracking-allocator counts");
    AllocationRegistry::disable_tracking();

    one::<W>(group, load, team, figures, "alloc-track", &ALLOC_TRACK);

    let profiler = dhat::Profiler::builder().testing().build();
    let calls = one::<W>(group, load, team, figures, "dhat", &DHAT);
    assert_eq!(dhat::HeapStats::get().total_blocks, calls.allocations, "dhat counts");
    drop(profiler);
}

fn one<W: Workload>(
    group: &mut BenchmarkGroup<'_, WallTime>,
    load: &str,
    team: &Team,
    figures: &mut Figures,
    peer: &'static str,
    allocator: &(impl GlobalAlloc + Sync),
) -> Calls {
    let name = format!("{load}/{}/{peer}", named(team.threads()));
    let allocators = (&System, allocator);
    let (compared, calls) = compare_loads::<W>(group, &name, team, BURST, &|| {}, allocators);
    figures.compared(load, team.threads(), peer, compared);
    calls
}
