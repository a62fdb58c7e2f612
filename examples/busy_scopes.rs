//! A program that does little but allocate: what tracking costs it is what it costs at most.
//!
//! ```sh
//! MEMLEDGER_REPORT=off MEMLEDGER_TRACE=busy.memledger cargo run --release --example busy_scopes -- 10
//! scripts/top_cost.py          # what `memledger top` costs it
//! ```
//! It allocates and frees as many million blocks as its argument says, in six scopes, with 20,000 of them
//! live, and prints how long that took: by the clock, by the processor's time of its thread, and by that of
//! all its threads.

use memledger::{Ledger, TrackingAllocator, alloc_scope};
use std::fs;
use std::hint::black_box;
use std::time::Instant;

#[global_allocator]
static ALLOC: TrackingAllocator = TrackingAllocator::system();

const LIVE: usize = 20_000;
/// How many blocks are allocated in a scope before the next one.
const IN_SCOPE: usize = 64;

/// Replaces blocks by others of 16 to 512 bytes, the same ones in each run.
fn work(live: &mut [Vec<u8>], state: &mut u64) {
    for _ in 0..IN_SCOPE {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let random = (*state >> 33) as usize;
        live[random % LIVE] = black_box(Vec::with_capacity(16 + random / LIVE % 497));
    }
}

fn main() {
    let ledger = Ledger::from_env();
    let millions = std::env::args().nth(1).and_then(|millions| millions.parse().ok()).unwrap_or(5);
    let (mut live, mut state) = (vec![Vec::new(); LIVE], 1);
    let (started, thread, process) = (Instant::now(), thread_seconds(), process_seconds());
    for _ in 0..millions * 1_000_000 / (6 * IN_SCOPE) {
        alloc_scope!("read", { work(&mut live, &mut state) });
        alloc_scope!("parse", { work(&mut live, &mut state) });
        alloc_scope!("plan", { work(&mut live, &mut state) });
        alloc_scope!("run", { work(&mut live, &mut state) });
        alloc_scope!("format", { work(&mut live, &mut state) });
        alloc_scope!("write", { work(&mut live, &mut state) });
    }
    let wall = started.elapsed().as_secs_f64();
    let thread = thread_seconds() - thread;
    // What the report on exit takes belongs to it.
    drop(ledger);
    println!("{wall:.3} {thread:.3} {:.3}", process_seconds() - process);
}

/// How long this thread has run.
fn thread_seconds() -> f64 {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let ns: Option<f64> = text.split(' ').next().and_then(|ns| ns.parse().ok());
    ns.unwrap_or_default() / 1e9
}

/// How long all threads of this process have run, in steps of 10 ms.
fn process_seconds() -> f64 {
    let text = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = text.rsplit(") ").next().unwrap_or_default().split(' ');
    let ticks: f64 = fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum();
    ticks / 100.0
}
