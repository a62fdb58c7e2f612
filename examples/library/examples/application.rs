//! An application that tracks what its libraries have marked.
//!
//! ```text
//! cargo run -p memledger-library-example --example application
//! ```

use memledger::{Ledger, TrackingAllocator};
use memledger_library_example::Counter;

#[global_allocator]
static ALLOC: TrackingAllocator = TrackingAllocator::system();

fn main() {
    let _ledger = Ledger::from_env();
    let mut counter = Counter::default();
    counter.add(include_str!("application.rs"));
    println!("\"let\" occurs {} times", counter.times("let"));
}
