//! Makes the same emissions through Perfetto's C library and through memledger, each case on a thread of
//! its own, and writes what both sessions have got: `GROUP.c.pftrace` and `GROUP.ours.pftrace`.
//! `scripts/check_perfetto_golden.sh` compares them.
//!
//! ```sh
//! cargo run -p memledger-bench-perfetto --features sdk --bin golden -- FOLDER
//! ```

mod cases;

use cases::{CASES, Peer};
use memledger::perfetto::TrackEventConfig;
use memledger::{Destination, Ledger, TrackingAllocator};
use memledger_bench_perfetto::{Session, SessionConfig, start};
use std::num::NonZeroU64;
use std::path::Path;
use std::thread;

#[global_allocator]
static ALLOC: TrackingAllocator = TrackingAllocator::system();

/// What the sessions of a group enable.
const ENABLED: &[&str] = &["golden", "dyn.on*"];
const DISABLED: &[&str] = &["*"];
const ENABLED_TAGS: &[&str] = &["wanted"];
const DISABLED_TAGS: &[&str] = &["unwanted"];

/// How often each case is run: what is written for a place in the program can differ after its first event.
const ROUNDS: usize = 3;

/// How the times of a group are written.
struct Group {
    name: &'static str,
    absolute: bool,
    unit_ns: u64,
}

const GROUPS: [Group; 4] = [
    Group { name: "default", absolute: false, unit_ns: 0 },
    Group { name: "microseconds", absolute: false, unit_ns: 1000 },
    Group { name: "absolute", absolute: true, unit_ns: 0 },
    Group { name: "absolute_microseconds", absolute: true, unit_ns: 1000 },
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args().nth(1).ok_or("usage: golden FOLDER")?;
    let ledger = Ledger::builder().channels(["scope"]).start()?;
    start();
    let peer = Peer::new();
    for group in &GROUPS {
        run(&ledger, group, &peer, Path::new(&folder))?;
    }
    drop(ledger);
    Ok(())
}

fn run(
    ledger: &Ledger,
    group: &Group,
    peer: &Peer,
    folder: &Path,
) -> Result<(), Box<dyn std::error::Error>> {
    let mut config = TrackEventConfig::default().absolute_timestamps(group.absolute);
    if let Some(unit) = NonZeroU64::new(group.unit_ns) {
        config = config.timestamp_unit_ns(unit);
    }
    config = ENABLED.iter().fold(config, |config, pattern| config.enable(*pattern));
    config = DISABLED.iter().fold(config, |config, pattern| config.disable(*pattern));
    config = ENABLED_TAGS.iter().fold(config, |config, pattern| config.enable_tag(*pattern));
    config = DISABLED_TAGS.iter().fold(config, |config, pattern| config.disable_tag(*pattern));
    let theirs = SessionConfig {
        enabled: ENABLED,
        disabled: DISABLED,
        enabled_tags: ENABLED_TAGS,
        disabled_tags: DISABLED_TAGS,
        absolute_timestamps: group.absolute,
        unit_ns: group.unit_ns,
        buffer_kib: 16 << 10,
    };
    let path = |peer| folder.join(format!("{}.{peer}.pftrace", group.name));
    let ours = ledger.trace_to(Destination::track_events(path("ours"), config))?;
    let theirs = Session::start(&theirs);
    // Each emission is made on every session that runs: others must not change what these write.
    let beside = Destination::track_event_ring(1 << 20, TrackEventConfig::all());
    let beside = ledger.trace_to(beside)?;
    let all = SessionConfig { enabled: &["*"], ..SessionConfig::default() };
    let beside_theirs = Session::start(&all);
    for (name, case) in CASES {
        thread::scope(|scope| {
            let case = || (0..ROUNDS).for_each(|_| case(peer));
            thread::Builder::new().name((*name).to_owned()).spawn_scoped(scope, case).map(drop)
        })?;
    }
    ours.stop();
    let lost = ours.status().lost_events;
    if lost > 0 {
        return Err(format!("{lost} events are lost").into());
    }
    std::fs::write(path("c"), theirs.stop())?;
    beside.stop();
    drop(beside_theirs.stop());
    Ok(())
}
