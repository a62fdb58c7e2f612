//! The programs with memledger linked; `MEMLEDGER_*` variables say what it does.

use memledger::{Ledger, TrackingAllocator};
use programs::Seen;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

#[global_allocator]
static ALLOC: TrackingAllocator = TrackingAllocator::system();

fn main() -> ExitCode {
    programs::main(|| {
        // Asking where nothing is recorded would start a recording.
        if ["MEMLEDGER_FILE", "MEMLEDGER_REPORT"]
            .iter()
            .all(|name| std::env::var_os(name).is_none())
        {
            return Seen::default();
        }
        let Ok(ledger) = Ledger::builder().start() else { return Seen::default() };
        ledger.flush();
        let stats = ledger.stats();
        Seen {
            events: Some(stats.events),
            lost: Some(stats.lost_events),
            worker_ns: worker_ns(),
            ..Seen::default()
        }
    })
}

/// How long the thread that the tracker names after itself has run.
fn worker_ns() -> Option<u64> {
    let mut threads = fs::read_dir("/proc/self/task").ok()?.flatten().map(|entry| entry.path());
    let is_worker = |thread: &PathBuf| {
        fs::read_to_string(thread.join("comm")).is_ok_and(|name| name.trim() == "memledger")
    };
    let worker = threads.find(is_worker)?;
    fs::read_to_string(worker.join("schedstat")).ok()?.split(' ').next()?.parse().ok()
}
