//! Jobs of a `rayon` pool in the scopes of the code that hands them out.
//!
//!     cargo run -p memledger-runtime-examples --example rayon

use memledger::{Ledger, ScopeContext, TrackingAllocator, alloc_scope};
use rayon::prelude::*;

#[global_allocator]
static ALLOC: TrackingAllocator = TrackingAllocator::system();

fn main() {
    let _ledger = Ledger::from_env(); // a report on stderr when it is dropped

    let thumbnails: Vec<Vec<u8>> = alloc_scope!("thumbnails", {
        // The pool's threads know nothing of this one. What they need is copied into every job.
        let context = ScopeContext::current();
        (0..200_usize)
            .into_par_iter()
            .map(|picture| {
                context.run(|| {
                    let pixels = alloc_scope!("decode", { vec![picture as u8; 100_000] });
                    pixels.into_iter().step_by(100).collect()
                })
            })
            .collect()
    });

    // The same for `join`, `scope` and `spawn`: one `run` in each closure.
    let (left, right) = thumbnails.split_at(100);
    let context = alloc_scope!("checksums", { ScopeContext::current() });
    let checksum =
        |part: &[Vec<u8>]| part.iter().map(|one| vec![one.len() as u64]).collect::<Vec<_>>();
    let sums = rayon::join(|| context.run(|| checksum(left)), || context.run(|| checksum(right)));
    println!("{} thumbnails, {} checksums", thumbnails.len(), sums.0.len() + sums.1.len());
}
