//! The tracker over an allocator that is not the system's.

use memledger::{Ledger, ReportTo, TrackingAllocator, alloc_scope};
use mimalloc::MiMalloc;
use std::hint::black_box;

#[global_allocator]
static ALLOC: TrackingAllocator<MiMalloc> = TrackingAllocator::new(MiMalloc);

#[test]
fn mimalloc_below_is_counted_to_the_byte() {
    let folder = std::env::temp_dir().join(format!("memledger-mimalloc-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let ledger = Ledger::builder()
        .report_on_exit(ReportTo::file(folder.join("report.json")))
        .start()
        .unwrap();
    let mut kept = Vec::with_capacity(1000);
    alloc_scope!("blocks", {
        for size in 1..=1000_usize {
            kept.push(black_box(vec![0_u8; size]));
        }
    });
    for block in &mut kept {
        block.reserve_exact(1000);
    }
    kept.truncate(400);
    let snapshot = ledger.snapshot().unwrap();
    let path = ["GlobalScope", "blocks"];
    let row = snapshot.report().by_scope.iter().find(|row| row.path == path).unwrap();
    let figures = &row.figures;
    assert_eq!(figures.allocations, 1000);
    assert_eq!(figures.reallocations, 1000);
    assert_eq!(figures.frees, 600);
    assert_eq!(figures.live_blocks, 400);
    assert_eq!(figures.live_bytes, (1..=400).map(|size| size + 1000).sum::<u64>());
    assert_eq!(figures.allocated_bytes, (1..=1000).map(|size| size + size + 1000).sum::<u64>());
    assert_eq!(snapshot.report().losses.unmatched_frees, 0);
    let _ = ledger.finish();
    let report = std::fs::read_to_string(folder.join("report.json")).unwrap();
    assert!(report.contains("\"complete\": true"));
    // It is linked into the program, so the loader does not know its functions.
    #[cfg(unix)]
    assert!(report.contains("\"allocator\": \"mimalloc\""), "{report}");
    std::fs::remove_dir_all(&folder).unwrap();
}
