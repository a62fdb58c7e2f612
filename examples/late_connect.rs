//! A trace that starts late and still knows everything that is alive.
//!
//! The program fills a cache, runs for a while, and only then somebody wants a trace. What is in
//! the cache was allocated long before; the trace says by whom and when.
//!
//! ```text
//! cargo run --example late_connect [FILE or HOST:PORT]
//! ```

use memledger::{DestinationHandle, Ledger, TrackingAllocator, alloc_scope, group, tag, tagged};
use std::collections::HashMap;
use std::error::Error;

#[global_allocator]
static ALLOC: TrackingAllocator = TrackingAllocator::system();

group! {
    CACHE = "Cache";
}

fn fill(cache: &mut HashMap<usize, String>) {
    alloc_scope!("fill the cache");
    tagged(tag!(CACHE, "pages"), || {
        for page in 0..10_000 {
            cache.insert(page, format!("page {page}: {}", "text ".repeat(page % 20)));
        }
    });
}

fn start(ledger: &Ledger, place: &str) -> Result<DestinationHandle, memledger::Error> {
    if place.contains(':') { ledger.trace_to_host(place) } else { ledger.trace_to_file(place) }
}

fn main() -> Result<(), Box<dyn Error>> {
    let place = std::env::args().nth(1);
    let place = place.unwrap_or_else(|| {
        let folder = std::env::temp_dir();
        folder.join("late_connect-%p.utrace").to_string_lossy().into_owned()
    });
    // Nothing is written yet, but the process analyzes its events.
    let ledger = Ledger::builder().analyze_in_process(true).start()?;
    let mut cache = HashMap::new();
    fill(&mut cache);

    // Later, a trace is asked for.
    let destination = start(&ledger, &place)?;
    alloc_scope!("evict", {
        cache.retain(|page, _| page % 10 == 0);
    });
    destination.stop();

    let status = destination.status();
    println!("{}: {:?}, {} bytes", status.name, status.state, status.written_bytes);
    if let Some(problem) = status.problem {
        return Err(problem.into());
    }
    #[cfg(feature = "enable")]
    if std::path::Path::new(&status.name).exists() {
        report(&status.name)?;
    }
    println!("{} pages are left", cache.len());
    Ok(())
}

/// What anyone can read from the trace alone.
#[cfg(feature = "enable")]
fn report(file: &str) -> Result<(), Box<dyn Error>> {
    use memledger_analysis::{Analyzer, read};
    let mut analyzer = Analyzer::new();
    read::read(std::fs::File::open(file)?, &mut analyzer)?;
    let report = analyzer.report();
    for row in &report.by_name {
        let figures = &row.figures;
        println!(
            "{} / {}: {} bytes live in {} blocks, {} were freed",
            row.group.join(" > "),
            row.name,
            figures.live_bytes,
            figures.live_blocks,
            figures.frees
        );
    }
    Ok(())
}
