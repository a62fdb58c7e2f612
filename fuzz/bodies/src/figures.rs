//! Conditions that hold for every report.

use memledger_analysis::{Estimate, Figures, Frames, Moves, Report, Totals};
use memledger_export::json;
use serde_json::Value;

/// Columns whose sum over each array equals the totals.
const COLUMNS: usize = 9;

fn columns(row: &Figures) -> [i128; COLUMNS] {
    [
        row.allocations,
        row.frees,
        row.reallocations,
        row.allocated_bytes,
        row.live_blocks,
        row.live_bytes,
        row.live_bytes_at_peak,
        row.live_blocks_at_peak,
        row.short_lived,
    ]
    .map(i128::from)
}

fn totals(totals: &Totals) -> [i128; COLUMNS] {
    [
        totals.allocations,
        totals.frees,
        totals.reallocations,
        totals.allocated_bytes,
        totals.live_blocks,
        totals.live_bytes,
        totals.peak_bytes,
        totals.blocks_at_peak,
        totals.short_lived,
    ]
    .map(i128::from)
}

/// Blocks and bytes moved in, less those moved out.
fn net(moved_in: Moves, moved_out: Moves) -> (i128, i128) {
    let less = |a: u64, b: u64| i128::from(a) - i128::from(b);
    (less(moved_in.blocks, moved_out.blocks), less(moved_in.bytes, moved_out.bytes))
}

/// Rows that are sums over stacks; they have no peaks of their own.
const CALLS: &str = "by function, line or crate";

fn array<'a>(what: &str, all: &Totals, rows: impl Iterator<Item = &'a Figures>) {
    let (mut sums, mut moved) = ([0; COLUMNS], (0, 0));
    for row in rows {
        let (blocks, bytes) = net(row.moved_in, row.moved_out);
        let live = i128::from(row.allocations) - i128::from(row.frees) + blocks;
        assert_eq!(i128::from(row.live_blocks), live, "live blocks of a row {what}: {row:?}");
        let least = row.live_bytes.max(row.live_bytes_at_peak);
        assert!(row.peak_bytes >= least || what == CALLS, "the peak of a row {what}: {row:?}");
        assert!(row.live_blocks > 0 || row.live_bytes == 0, "bytes of no block {what}: {row:?}");
        for (sum, column) in sums.iter_mut().zip(columns(row)) {
            *sum += column;
        }
        moved = (moved.0 + blocks, moved.1 + bytes);
    }
    assert_eq!(sums, totals(all), "columns {what}");
    let all_moved = net(all.moved_in, all.moved_out);
    assert_eq!(moved.0, all_moved.0, "moves {what}");
    // A move to another size class or stack changes the size of the block, so the bytes differ.
    let resized = ["by size", "by stack", CALLS].contains(&what);
    assert!(moved.1 == all_moved.1 || resized, "bytes that moved {what}");
}

/// Checks that each array adds up to the totals, and that the live blocks are those that were
/// allocated or moved in, less those that were freed or moved out.
pub fn add_up(report: &Report) {
    let all = &report.totals;
    let (blocks, _) = net(all.moved_in, all.moved_out);
    let live = i128::from(all.allocations) - i128::from(all.frees) + blocks;
    assert_eq!(i128::from(all.live_blocks), live);
    assert!(all.peak_bytes >= all.live_bytes && all.peak_blocks >= all.live_blocks);
    assert!(all.peak_blocks >= all.blocks_at_peak);
    array("by scope", all, report.by_scope.iter().map(|row| &row.figures));
    array("by group", all, report.by_group.iter().map(|row| &row.figures));
    array("by name", all, report.by_name.iter().map(|row| &row.figures));
    array("by thread", all, report.by_thread.iter().map(|row| &row.figures));
    array("by size", all, report.by_size.iter().map(|row| &row.figures));
    if !report.by_stack.is_empty() {
        let stacks: Vec<_> = report.by_stack.iter().map(|row| row.figures).collect();
        array("by stack", all, stacks.iter());
        for rows in [
            report.by_function(Frames::Folded),
            report.by_line(Frames::All),
            report.by_crate(Frames::Folded),
        ] {
            array(CALLS, all, rows.iter().map(|row| &row.figures));
            assert!(rows.iter().all(|row| row.inclusive.allocations >= row.figures.allocations));
        }
        for estimates in report.by_stack.iter().filter_map(|row| row.estimates()) {
            let Estimate { value, low, high, .. } = estimates.live_bytes;
            assert!(low <= value && value <= high);
        }
    }
    let live = |rows: &[_]| rows.iter().map(|row: &memledger_analysis::LiveBlock| row.bytes).sum();
    let largest: u64 = live(&report.largest_live);
    assert!(largest <= all.live_bytes && report.largest_live.len() as u64 <= all.live_blocks);
    assert!(report.largest_live.is_sorted_by(|a, b| a.bytes >= b.bytes));
    for row in report.by_scope.iter().map(|row| (&row.figures, &row.inclusive)) {
        assert!(row.1.allocations >= row.0.allocations && row.1.live_bytes >= row.0.live_bytes);
    }
}

/// Checks that the JSON of the report parses, is the same each time, and has the totals.
pub fn print(report: &Report) -> Value {
    let write = || {
        let mut out = Vec::new();
        assert!(json::write(report, &mut out).is_ok());
        out
    };
    let text = write();
    assert!(text == write(), "the same each time");
    let document = serde_json::from_slice::<Value>(&text);
    let document = document.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(document["totals"]["live_bytes"], report.totals.live_bytes);
    assert_eq!(document["trace"]["program"].as_str(), report.trace.program.as_deref());
    document
}
