//! The programs with memledger linked; `MEMLEDGER_*` variables say what it does.

use memledger::{Ledger, TrackingAllocator};
use programs::Seen;
use std::fs;
use std::process::ExitCode;

#[global_allocator]
static ALLOC: TrackingAllocator = TrackingAllocator::system();

fn main() -> ExitCode {
    programs::main(|| {
        // Asking where nothing is recorded would start a recording.
        if ["MEMLEDGER_TRACE", "MEMLEDGER_REPORT"]
            .iter()
            .all(|name| std::env::var_os(name).is_none())
        {
            return Seen::default();
        }
        let Ok(ledger) = Ledger::builder().start() else { return Seen::default() };
        ledger.flush();
        let stats = ledger.recent_stats();
        Seen {
            events: Some(stats.events),
            lost: Some(stats.lost_events),
            worker_ns: worker_ns(),
            ..Seen::default()
        }
    })
}

/// How long the thread that the tracker names after itself has run. It is one of the first.
///
/// NOTE: the folder of all threads is not listed. That takes 32 KiB of memory, for which glibc
/// first joins all small blocks that the program has freed: a quarter of a second.
fn worker_ns() -> Option<u64> {
    let file = |thread: u32, name: &str| {
        fs::read_to_string(format!("/proc/self/task/{thread}/{name}")).ok()
    };
    let first = std::process::id();
    let is_worker = |&thread: &u32| file(thread, "comm").is_some_and(|c| c.trim() == "memledger");
    let worker = (first..first + 64).find(is_worker)?;
    file(worker, "schedstat")?.split(' ').next()?.parse().ok()
}
