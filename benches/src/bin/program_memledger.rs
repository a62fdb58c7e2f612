//! The programs with memledger linked; `MEMLEDGER_*` variables say what it does.

use memledger::{Ledger, TrackingAllocator};
use programs::Seen;
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
        Seen { events: Some(stats.events), lost: Some(stats.lost_events), ..Seen::default() }
    })
}
