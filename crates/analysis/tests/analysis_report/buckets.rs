//! What holds for the buckets of any report, and for what an observer sees of them.

use memledger_analysis::{BlockChange, BlockEvent, BlockObserver, BucketRow, Figures, Report};
use std::collections::HashMap;

/// The buckets of each row of a list sum to the row.
pub fn buckets_add_up(report: &Report) {
    type RowOf = fn(&BucketRow) -> Option<usize>;
    let lists: [(Vec<Figures>, RowOf); 5] = [
        (report.by_scope.iter().map(|row| row.figures).collect(), |bucket| Some(bucket.scope)),
        (report.by_name.iter().map(|row| row.figures).collect(), |bucket| Some(bucket.name)),
        (report.by_thread.iter().map(|row| row.figures).collect(), |bucket| Some(bucket.thread)),
        (report.by_heap.iter().map(|row| row.figures).collect(), |bucket| Some(bucket.heap)),
        (report.by_stack.iter().map(|row| row.figures).collect(), |bucket| bucket.stack),
    ];
    for (rows, row_of) in lists {
        let mut sums = vec![Figures::default(); rows.len()];
        for bucket in &report.by_bucket {
            if let Some(row) = row_of(bucket) {
                sums[row].add(&bucket.figures);
            }
        }
        for (mut row, sum) in rows.into_iter().zip(sums) {
            row.peak_bytes = 0;
            (row.moved_in, row.moved_out) = Default::default();
            assert_eq!(sum, row);
        }
    }
}

/// The figures of each bucket, from what an observer sees.
#[derive(Default)]
pub struct Sums(HashMap<u32, Figures>);

impl Sums {
    fn live(&mut self, bucket: u32, blocks: i64, bytes: u64) -> &mut Figures {
        let row = self.0.entry(bucket).or_default();
        row.live_blocks = row.live_blocks.wrapping_add_signed(blocks);
        row.live_bytes = row.live_bytes.wrapping_add_signed(blocks * bytes as i64);
        row
    }
}

impl BlockObserver for Sums {
    fn observe(&mut self, event: &BlockEvent, change: BlockChange) {
        let bytes = event.bytes;
        match change {
            BlockChange::Allocated => {
                let row = self.live(event.bucket, 1, bytes);
                row.allocations += 1;
                row.allocated_bytes += bytes;
            }
            BlockChange::Freed { short_lived, .. } => {
                let row = self.live(event.bucket, -1, bytes);
                row.frees += 1;
                row.short_lived += u64::from(short_lived);
            }
            BlockChange::ReallocBegun => self.live(event.bucket, -1, bytes).frees += 1,
            BlockChange::Left => _ = self.live(event.bucket, -1, bytes),
            BlockChange::Reallocated { bucket_before, .. } => {
                self.live(bucket_before, 0, 0).frees -= 1;
                let row = self.live(event.bucket, 1, bytes);
                row.reallocations += 1;
                row.allocated_bytes += bytes;
            }
            BlockChange::ReallocFailed { .. } => {
                let row = self.live(event.bucket, 0, 0);
                row.reallocations -= 1;
                row.allocated_bytes -= bytes;
            }
            BlockChange::Corrected { bytes_before, is_live } => {
                let row = self.live(event.bucket, 0, 0);
                row.allocated_bytes += bytes - bytes_before;
                row.live_bytes += if is_live { bytes - bytes_before } else { 0 };
            }
            BlockChange::Moved { from } => {
                self.live(from, -1, bytes);
                self.live(event.bucket, 1, bytes);
            }
            BlockChange::Returned => _ = self.live(event.bucket, 1, bytes),
        }
    }
}

/// What the observer has seen adds up to the report.
pub fn observed_adds_up(report: &Report, observed: &Sums) {
    for (number, bucket) in (0..).zip(&report.by_bucket) {
        let mut sum = observed.0.get(&number).copied().unwrap_or_default();
        sum.live_blocks_at_peak = bucket.figures.live_blocks_at_peak;
        sum.live_bytes_at_peak = bucket.figures.live_bytes_at_peak;
        assert_eq!(sum, bucket.figures, "bucket {number}");
    }
    assert!(observed.0.len() <= report.by_bucket.len());
}
