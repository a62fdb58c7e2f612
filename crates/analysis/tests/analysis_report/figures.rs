//! Exact values in small, readable situations.

use memledger_analysis::{Analyzer, Figures, Position, Report, ScopeRow};
use memledger_test_support::feed::{Feed, V::N};

pub fn scope<'a>(report: &'a Report, path: &[&str]) -> &'a ScopeRow {
    report.by_scope.iter().find(|row| row.path == path).unwrap_or_else(|| panic!("no row {path:?}"))
}

/// `GlobalScope` > `a` > `b`, with `b` also tagged as `X` of group `Outer` > `Inner`.
pub fn with_scopes() -> Feed {
    let mut feed = Feed::new();
    feed.spec(0, 100, -1, -1, "GlobalScope");
    feed.spec(0, 101, 100, -1, "a");
    feed.spec(0, 102, 101, -1, "b");
    feed.spec(1, 200, -1, -1, "Outer");
    feed.spec(1, 201, 200, -1, "Inner");
    feed.spec(2, 202, 201, -1, "X");
    feed.spec(3, 300, 102, 202, "b with X");
    feed.thread(2, 1, "main");
    feed
}

#[test]
fn the_peak_keeps_its_first_moment_and_every_row_as_it_was_then() {
    let mut feed = with_scopes();
    feed.marker(10);
    feed.alloc(2, 0x10, 100);
    feed.enter(2, 101);
    feed.marker(20);
    feed.alloc(2, 0x20, 50); // the peak: 150
    feed.leave(2);
    feed.free(2, 0x10);
    feed.marker(30);
    feed.alloc(2, 0x30, 100); // 150 again, but not more
    feed.enter(2, 101);
    feed.free(2, 0x20);
    feed.alloc(2, 0x40, 20);
    let report = feed.report();
    let totals = report.totals;
    assert_eq!((totals.peak_bytes, totals.peak_bytes_at_ns, totals.blocks_at_peak), (150, 20, 2));
    assert_eq!((totals.live_bytes, totals.live_blocks, totals.peak_blocks), (120, 2, 2));
    let outer = &scope(&report, &["GlobalScope"]);
    assert_eq!(outer.figures.peak_bytes, 100);
    assert_eq!((outer.figures.live_bytes_at_peak, outer.figures.live_blocks_at_peak), (100, 1));
    assert_eq!((outer.inclusive.peak_bytes, outer.inclusive.live_bytes_at_peak), (150, 150));
    let a = &scope(&report, &["GlobalScope", "a"]);
    assert_eq!((a.figures.peak_bytes, a.figures.live_bytes_at_peak), (50, 50));
    assert_eq!((a.figures.live_bytes, a.figures.allocations, a.figures.frees), (20, 2, 1));
    assert_eq!(a.inclusive, a.figures);
    assert_eq!(report.trace.time_resolution_ns, 10);
}

#[test]
fn what_has_no_name_at_the_peak_is_in_no_scope_and_has_no_tag() {
    let mut feed = with_scopes();
    feed.spec(3, 301, 100, 202, "X outside all scopes");
    feed.alloc(2, 0x10, 7); // no scope, no tag
    feed.enter(2, 101);
    feed.alloc(2, 0x20, 50); // a scope
    feed.leave(2);
    feed.enter(2, 301);
    feed.alloc(2, 0x30, 30); // a tag
    feed.leave(2);
    assert_eq!(feed.report().totals.unnamed_bytes_at_peak, 7);
    feed.free(2, 0x20);
    feed.alloc(2, 0x40, 11); // after the peak
    let report = feed.report();
    assert_eq!((report.totals.peak_bytes, report.totals.unnamed_bytes_at_peak), (87, 7));
    let largest: Vec<_> = report.by_scope.iter().map(|row| row.largest_live_bytes).collect();
    assert_eq!(scope(&report, &["GlobalScope"]).largest_live_bytes, 30);
    assert_eq!(largest.iter().max(), Some(&30));
}

#[test]
fn a_trace_that_joined_later_says_since_when_and_with_how_many_blocks() {
    let mut feed = with_scopes();
    let full = feed.report().trace;
    assert_eq!((full.recording_since_ns, full.initial_live_blocks), (Some(0), Some(0)));
    feed.marker(3_000);
    feed.alloc(2, 0x10, 100);
    feed.alloc(2, 0x20, 100);
    feed.marker(9_000);
    feed.emit("Memledger.Alive", 2, &[N(2)]);
    feed.marker(12_000);
    feed.free(2, 0x10);
    let trace = feed.report().trace;
    assert_eq!(trace.from_process_start, Some(true));
    assert_eq!((trace.recording_since_ns, trace.initial_live_blocks), (Some(9_000), Some(2)));
    // A stream that does not know the initial live blocks still knows approximately when it began.
    let mut feed = Feed::with(Analyzer::new(), false);
    feed.emit("Memledger.Trace", 1, &[N(1), N(77), N(0), N(0)]);
    feed.marker(9_000);
    feed.marker(12_000);
    let trace = feed.report().trace;
    assert_eq!((trace.recording_since_ns, trace.initial_live_blocks), (Some(9_000), None));
    // Unreal's writer does not say.
    let trace = Feed::unreal().report().trace;
    assert_eq!((trace.recording_since_ns, trace.initial_live_blocks), (None, None));
}

#[test]
fn a_trace_says_whether_memory_is_recorded() {
    let mut feed = with_scopes();
    assert_eq!(feed.report().trace.memory_recorded, None);
    feed.channel("Scope", true);
    assert_eq!(feed.report().trace.memory_recorded, None);
    feed.channel("Memory", false);
    assert_eq!(feed.report().trace.memory_recorded, Some(false));
    feed.channel("Memory", true);
    assert_eq!(feed.report().trace.memory_recorded, Some(true));
}

#[test]
fn an_inclusive_peak_is_of_the_sum_and_not_the_sum_of_the_peaks() {
    let mut feed = with_scopes();
    feed.enter(2, 101);
    feed.alloc(2, 0x10, 100); // a: 100, before it has a scope inside
    feed.free(2, 0x10);
    feed.enter(2, 102);
    feed.alloc(2, 0x20, 70); // b: 70
    feed.leave(2);
    feed.alloc(2, 0x30, 40); // a: 40, together 110
    let report = feed.report();
    let a = scope(&report, &["GlobalScope", "a"]);
    assert_eq!((a.figures.peak_bytes, a.inclusive.peak_bytes), (100, 110));
    assert_eq!((a.figures.allocations, a.inclusive.allocations), (2, 3));
    let b = scope(&report, &["GlobalScope", "a", "b"]);
    assert_eq!((b.figures.peak_bytes, b.inclusive.peak_bytes), (70, 70));
}

#[test]
fn a_context_counts_in_its_scope_and_in_its_groups() {
    let mut feed = with_scopes();
    feed.enter(2, 300);
    feed.alloc(2, 0x10, 8);
    feed.leave(2);
    feed.alloc(2, 0x20, 4);
    let report = feed.report();
    assert_eq!(scope(&report, &["GlobalScope", "a", "b"]).figures.live_bytes, 8);
    assert_eq!(scope(&report, &["GlobalScope", "a"]).figures, Figures::default());
    assert_eq!(scope(&report, &["GlobalScope", "a"]).inclusive.live_bytes, 8);
    let groups: Vec<_> = report.by_group.iter().map(|row| row.group.join("/")).collect();
    assert_eq!(groups, ["Outer/Inner", "Unknown", "Outer"]);
    assert_eq!(report.by_group[2].inclusive.live_bytes, 8);
    let names: Vec<_> = report.by_name.iter().map(|row| row.name.as_str()).collect();
    assert_eq!(names, ["X", "Unnamed"]);
    assert_eq!(report.by_name[1].group, ["Unknown"]);
}

#[test]
fn names_are_equal_by_text() {
    let mut feed = with_scopes();
    feed.spec(0, 150, 100, -1, "a");
    feed.spec(1, 250, -1, -1, "Outer");
    feed.spec(1, 251, 250, -1, "Inner");
    feed.spec(2, 252, 251, -1, "X");
    feed.spec(3, 350, 150, 252, "");
    feed.spec(3, 351, 101, 202, "");
    for (address, tag) in [(0x10, 350), (0x20, 351), (0x30, 150)] {
        feed.enter(2, tag);
        feed.alloc(2, address, 1);
        feed.leave(2);
    }
    let report = feed.report();
    assert_eq!(scope(&report, &["GlobalScope", "a"]).figures.allocations, 3);
    assert_eq!(report.by_name.len(), 2);
    assert_eq!(
        report.by_name.iter().find(|r| r.name == "X").map(|r| r.figures.allocations),
        Some(2)
    );
}

#[test]
fn a_block_is_short_lived_if_its_thread_frees_it_before_allocating_again() {
    let mut feed = Feed::new();
    feed.thread(2, 1, "one");
    feed.thread(3, 2, "two");
    feed.alloc(2, 0x10, 8);
    feed.free(2, 0x10); // short
    feed.alloc(2, 0x20, 8);
    feed.alloc(2, 0x30, 8);
    feed.free(2, 0x20); // not: 0x30 came between
    feed.free(3, 0x30); // not: another thread
    feed.alloc(2, 0x40, 8);
    feed.alloc(3, 0x50, 8);
    feed.realloc(2, 0x40, 0x60, 16);
    feed.free(2, 0x60); // short: a reallocation is no allocation
    feed.free(3, 0x50); // short
    let report = feed.report();
    assert_eq!(report.totals.short_lived, 3);
    let by: Vec<_> =
        report.by_thread.iter().map(|r| (r.name.as_str(), r.figures.short_lived)).collect();
    assert_eq!(by, [("one", 2), ("two", 1)]);
}

#[test]
fn a_reallocation_keeps_its_rows_and_its_halves_are_steps() {
    let mut feed = with_scopes();
    feed.thread(3, 2, "other");
    feed.marker(5);
    feed.alloc(2, 0x10, 10);
    feed.alloc(2, 0x20, 10);
    feed.marker(9);
    feed.enter(3, 102);
    feed.realloc(3, 0x10, 0x30, 500);
    let report = feed.report();
    let totals = report.totals;
    assert_eq!((totals.allocations, totals.reallocations, totals.frees), (2, 1, 0));
    assert_eq!((totals.allocated_bytes, totals.live_bytes), (520, 510));
    assert_eq!((totals.peak_bytes, totals.peak_blocks), (510, 2), "never both halves at once");
    assert_eq!(report.by_thread.len(), 1, "the thread that reallocates has no blocks of its own");
    assert_eq!(report.by_scope.len(), 1);
    let largest = &report.largest_live[0];
    assert_eq!((largest.address, largest.bytes, largest.allocated_at_ns), (0x30, 500, 5));
    assert_eq!(
        (largest.thread.as_str(), largest.path.as_slice()),
        ("main", &["GlobalScope".to_owned()][..])
    );
}

/// The row of this size class.
fn size(report: &Report, max_bytes: u64) -> Figures {
    let row = report.by_size.iter().find(|row| row.max_bytes == Some(max_bytes));
    row.unwrap_or_else(|| panic!("no class up to {max_bytes}")).figures
}

#[test]
fn a_block_that_grows_or_shrinks_moves_to_its_class() {
    let mut feed = with_scopes();
    for block in 1..=1000 {
        feed.alloc(2, block << 16, 300);
        feed.realloc(2, block << 16, block << 16 | 8, 4000);
    }
    let report = feed.report();
    let small = size(&report, 512);
    assert_eq!((small.allocations, small.reallocations, small.frees), (1000, 0, 0));
    assert_eq!((small.live_blocks, small.live_bytes, small.allocated_bytes), (0, 0, 300_000));
    assert_eq!((small.moved_out.blocks, small.moved_out.bytes), (1000, 300_000));
    assert_eq!(small.peak_bytes, 300);
    let large = size(&report, 4096);
    assert_eq!((large.allocations, large.reallocations, large.frees), (0, 1000, 0));
    assert_eq!(
        (large.live_blocks, large.live_bytes, large.allocated_bytes),
        (1000, 4_000_000, 4_000_000)
    );
    assert_eq!((large.moved_in.blocks, large.moved_in.bytes), (1000, 4_000_000));
    assert_eq!(report.totals.moved_in.blocks + report.totals.moved_out.blocks, 0);
    // The blocks shrink to their old class, are renamed on the way, and change size within a class.
    feed.enter(2, 300);
    feed.emit("Memory.UpdateAlloc", 2, &[N(1 << 16 | 8), N(0)]);
    feed.leave(2);
    feed.realloc(2, 1 << 16 | 8, 1 << 16, 20);
    feed.realloc(2, 1 << 16, 1 << 16, 17);
    feed.free(2, 1 << 16);
    let report = feed.report();
    let tiny = size(&report, 32);
    assert_eq!((tiny.reallocations, tiny.frees, tiny.live_blocks), (2, 1, 0));
    assert_eq!((tiny.moved_in.blocks, tiny.moved_in.bytes, tiny.moved_out.blocks), (1, 20, 0));
    let large = size(&report, 4096);
    assert_eq!((large.live_blocks, large.moved_out.blocks, large.frees), (999, 1, 0));
    let x = report.by_name.iter().find(|row| row.name == "X").expect("the new name").figures;
    assert_eq!((x.reallocations, x.frees, x.moved_in.bytes, x.moved_out.blocks), (2, 1, 4000, 0));
}

#[test]
fn a_reallocation_that_failed_leaves_its_block_in_its_class() {
    let mut feed = Feed::new();
    feed.alloc(2, 0x10, 100);
    feed.realloc(2, 0x10, 0x10, 100);
    feed.emit("Memledger.ReallocFailed", 2, &[N(0x10)]);
    let report = feed.report();
    assert_eq!(report.by_size.len(), 1);
    let row = size(&report, 128);
    assert_eq!((row.reallocations, row.allocated_bytes, row.live_blocks), (0, 100, 1));
    assert_eq!(row.moved_out.blocks, 0);
}

#[test]
fn between_its_halves_a_reallocation_counts_as_a_free() {
    let mut feed = Feed::new();
    feed.alloc(2, 0x10, 10);
    feed.realloc_free(2, 0x10);
    let totals = feed.report().totals;
    assert_eq!((totals.frees, totals.reallocations, totals.live_blocks), (1, 0, 0));
    feed.realloc_alloc(2, 0x20, 30);
    let totals = feed.report().totals;
    assert_eq!((totals.frees, totals.reallocations, totals.live_blocks), (0, 1, 1));
}

#[test]
fn a_failed_reallocation_takes_back_its_count_and_bytes_but_not_its_steps() {
    let mut feed = Feed::new();
    feed.alloc(2, 0x10, 10);
    feed.realloc(2, 0x10, 0x10, 10);
    feed.emit("Memledger.ReallocFailed", 2, &[N(0x10)]);
    let report = feed.report();
    let totals = report.totals;
    assert_eq!((totals.allocations, totals.reallocations, totals.frees), (1, 0, 0));
    assert_eq!((totals.allocated_bytes, totals.live_bytes, totals.live_blocks), (10, 10, 1));
    assert!(feed.analyzer.problems().is_empty());
    // Of a block from before the trace: it counts as allocated here, and nothing was freed.
    feed.realloc(2, 0x90, 0x90, 7);
    feed.emit("Memledger.ReallocFailed", 2, &[N(0x90)]);
    let report = feed.report();
    assert_eq!((report.totals.allocations, report.totals.live_bytes), (2, 17));
    assert_eq!(report.losses.unmatched_frees, 0);
}

#[test]
fn a_large_block_has_its_true_size() {
    const HUGE: u64 = 1 << 40;
    let mut feed = Feed::new();
    feed.alloc(2, 0x10, HUGE);
    feed.emit("Memledger.LargeSize", 2, &[N(0x10), N(HUGE)]);
    feed.alloc(2, 0x20, 16);
    let report = feed.report();
    assert_eq!(report.totals.allocated_bytes, HUGE + 16);
    assert_eq!((report.totals.live_bytes, report.totals.peak_bytes), (HUGE + 16, HUGE + 16));
    assert_eq!((report.totals.live_blocks, report.totals.peak_blocks), (2, 2));
    assert_eq!(report.largest_live[0].bytes, HUGE);
    assert_eq!(report.by_size[0].figures.live_bytes, HUGE);
    feed.realloc(2, 0x10, 0x40, 2 * HUGE);
    feed.emit("Memledger.LargeSize", 2, &[N(0x40), N(2 * HUGE)]);
    feed.free(2, 0x40);
    let totals = feed.report().totals;
    assert_eq!((totals.live_bytes, totals.peak_bytes), (16, 2 * HUGE + 16));
    assert_eq!(totals.allocated_bytes, 3 * HUGE + 16);
}

#[test]
fn a_true_size_that_the_size_field_could_say_is_not_believed() {
    let mut feed = Feed::new();
    feed.alloc(2, 0x10, 600);
    feed.emit("Memledger.LargeSize", 2, &[N(0x10), N(1400)]);
    feed.emit("Memledger.LargeSize", 2, &[N(0x10), N(0)]);
    feed.realloc(2, 0x10, 0x20, 40);
    feed.emit("Memledger.LargeSize", 2, &[N(0x20), N(1 << 40)]);
    feed.emit("Memledger.ReallocFailed", 2, &[N(0x20)]);
    let report = feed.report();
    let by_size = report.by_size.iter().map(|row| {
        let figures = &row.figures;
        (figures.allocated_bytes, figures.allocations, figures.reallocations)
    });
    assert_eq!(by_size.collect::<Vec<_>>(), [(0, 0, 0), (600, 1, 0)]);
    let problem = "a Memledger.LargeSize does not follow the allocation it speaks of";
    assert_eq!(feed.analyzer.problems(), [problem]);
}

#[test]
fn the_totals_stop_at_the_writers_report() {
    let mut feed = Feed::new();
    feed.alloc(2, 0x10, 10);
    feed.alloc(2, 0x20, 10);
    feed.our_report(1234);
    let events = feed.events;
    let at_report = feed.report();
    feed.free(2, 0x10);
    feed.alloc(2, 0x30, 5);
    feed.realloc(2, 0x20, 0x40, 50);
    feed.marker(9999);
    let mut report = feed.report();
    assert_eq!(report.trace.events, events, "up to and including the report");
    assert_eq!(report.trace.duration_ns, 1234);
    assert!(report.trace.complete);
    assert_eq!(report.totals.overhead_bytes, Some(4096));
    let after = report.after_report;
    assert_eq!((after.allocations, after.frees, after.allocated_bytes), (1, 1, 55));
    report.after_report = Default::default();
    assert_eq!(report, at_report);
}

#[test]
fn what_follows_the_report_does_not_correct_what_came_before() {
    let mut feed = Feed::new();
    feed.alloc(2, 0x10, 10);
    feed.realloc(2, 0x10, 0x20, 30);
    feed.our_report(5);
    let before = feed.report();
    feed.emit("Memledger.ReallocFailed", 2, &[N(0x20)]);
    feed.emit("Memledger.LargeSize", 2, &[N(0x20), N(1 << 40)]);
    assert_eq!(feed.report(), before);
}

#[test]
fn a_stream_id_used_again_is_another_thread_and_a_thread_id_on_two_streams_is_one() {
    let mut feed = with_scopes();
    feed.enter(2, 102);
    feed.alloc(2, 0x10, 1);
    feed.thread(2, 7, "second");
    feed.alloc(2, 0x20, 2); // its scopes are its own
    feed.thread(3, 1, "main");
    feed.alloc(3, 0x30, 4);
    let report = feed.report();
    let rows: Vec<_> = report
        .by_thread
        .iter()
        .map(|row| (row.id, row.name.as_str(), row.system_id, row.figures.live_bytes))
        .collect();
    assert_eq!(rows, [(1, "main", Some(1001), 5), (7, "second", Some(1007), 2)]);
    assert_eq!(scope(&report, &["GlobalScope"]).figures.live_bytes, 6);
}

#[test]
fn what_does_not_match_is_counted_and_the_rows_still_add_up() {
    let mut feed = Feed::new();
    feed.free(2, 0x99);
    feed.alloc(2, 0x10, 100);
    feed.alloc(2, 0x10, 30); // over a live block
    let report = feed.report();
    assert_eq!((report.losses.unmatched_frees, report.losses.duplicate_allocations), (1, 1));
    let totals = report.totals;
    assert_eq!((totals.allocations, totals.frees, totals.live_blocks), (2, 0, 1));
    assert_eq!((totals.moved_out.blocks, totals.moved_out.bytes), (1, 100));
    assert_eq!((totals.live_bytes, totals.peak_bytes, totals.peak_blocks), (30, 100, 1));
    feed.realloc(2, 0x77, 0x20, 8); // of an unknown block: first seen here
    let report = feed.report();
    assert_eq!((report.totals.allocations, report.totals.reallocations), (3, 0));
    assert_eq!(report.losses.unmatched_frees, 2);
    let mut late = Feed::with(Analyzer::new(), false);
    late.emit("Memledger.Trace", 1, &[N(1), N(77), N(0), N(0)]);
    late.free(2, 0x99);
    let report = late.report();
    assert_eq!((report.losses.unmatched_frees, report.losses.frees_of_earlier_blocks), (0, 1));
    assert_eq!(report.trace.from_process_start, Some(false));
}

#[test]
fn losses_are_added_up_from_all_who_noticed_them() {
    use memledger_analysis::read::{Damage, Visitor};
    let mut feed = Feed::new();
    feed.emit("Memledger.Lost", 2, &[N(1), N(5)]);
    feed.emit("Memledger.Lost", 3, &[N(2), N(2)]);
    feed.lose(10, 100);
    let mut damage = Damage::default();
    (damage.offset, damage.skipped, damage.what) = (Some(3), 40, "Bad.".into());
    feed.analyzer.damage(&damage);
    let values = [N(0), N(0), N(0), N(9), N(3), N(0)];
    feed.emit("Memledger.Report", 2, &values);
    let report = feed.report();
    assert_eq!(report.losses.lost_events, 109, "the writer knows of 9, not only of 7");
    assert_eq!((report.losses.serial_holes, report.losses.truncated_bytes), (1, 40));
    assert_eq!(report.losses.scope_misuses, 3);
    assert!(!report.trace.complete);
    assert_eq!(feed.analyzer.problems(), ["Bad."]);
}

#[test]
fn a_trace_of_our_writer_without_its_report_is_not_complete_and_unreals_is() {
    use memledger_analysis::read::Visitor;
    assert!(!Feed::new().report().trace.complete);
    let mut feed = Feed::unreal();
    assert!(!feed.report().trace.complete, "it may go on");
    feed.analyzer.end(true);
    let unreal = feed.report();
    assert!(unreal.trace.complete);
    assert_eq!((unreal.trace.pid, unreal.trace.from_process_start), (None, None));
    assert_eq!(unreal.totals.overhead_bytes, None);
}

#[test]
fn a_tag_of_unreals_is_a_scope_and_a_pointer_scope_adopts_one() {
    let mut feed = Feed::unreal();
    feed.tag(0, -1, "Untagged");
    feed.tag(7, 8, "Mesh");
    feed.tag(8, -1, "Render");
    feed.enter(2, 7);
    feed.alloc(2, 0x10, 10);
    feed.leave(2);
    feed.emit("Memory.MemoryScopePtr", 2, &[N(0x10)]);
    feed.alloc(2, 0x20, 10);
    feed.emit("Other.Scope", 2, &[N(0)]); // any other scope changes nothing
    feed.alloc(2, 0x30, 10);
    feed.leave(2);
    feed.leave(2);
    feed.leave(2); // one too many
    feed.alloc(2, 0x40, 10);
    feed.enter(2, 4242); // never announced
    feed.alloc(2, 0x50, 10);
    let report = feed.report();
    assert_eq!(scope(&report, &["GlobalScope", "Render", "Mesh"]).figures.live_blocks, 3);
    assert_eq!(scope(&report, &["GlobalScope"]).figures.live_blocks, 1);
    assert_eq!(scope(&report, &["GlobalScope", "(tag 4242)"]).figures.live_blocks, 1);
}

#[test]
fn circles_and_bottomless_stacks_of_scopes_end() {
    let mut feed = Feed::new();
    feed.spec(0, 1, 2, -1, "one");
    feed.spec(0, 2, 1, -1, "two");
    feed.enter(2, 1);
    feed.alloc(2, 0x10, 1);
    for level in 10..1000 {
        feed.spec(0, level, level - 1, -1, &format!("level {level}"));
    }
    for (address, tag) in [(0x20, 999), (0x30, 998), (0x40, 100)] {
        feed.enter(2, tag);
        feed.alloc(2, address, 1);
    }
    let report = feed.report();
    assert_eq!(scope(&report, &["GlobalScope", "two", "one"]).figures.live_blocks, 1);
    let deepest = report.by_scope.iter().max_by_key(|row| row.path.len()).expect("rows");
    assert_eq!(deepest.path.len(), 256);
    assert_eq!(deepest.path.last().map(String::as_str), Some("(other)"));
    assert_eq!(deepest.figures.live_blocks, 2);
}

#[test]
fn a_heap_is_no_block_of_the_program_until_it_is_freed() {
    let mut feed = Feed::unreal();
    feed.alloc(2, 0x1000, 4096);
    feed.emit("Memory.HeapMarkAlloc", 2, &[N(0x1000), N(1), N(16)]);
    feed.alloc(2, 0x1000, 64); // a block in the heap, at its start
    let report = feed.report();
    assert_eq!((report.totals.live_bytes, report.totals.peak_bytes), (64, 4096));
    assert_eq!((report.totals.moved_out.blocks, report.losses.duplicate_allocations), (1, 0));
    feed.free(2, 0x1000);
    feed.emit("Memory.HeapUnmarkAlloc", 2, &[N(0x1000), N(16)]);
    feed.free(2, 0x1000);
    let report = feed.report();
    assert_eq!((report.totals.live_blocks, report.totals.frees), (0, 2));
    assert_eq!(report.totals.moved_in, report.totals.moved_out);
    assert_eq!(report.losses.unmatched_frees, 0);
}

#[test]
fn a_retagged_block_moves_and_its_history_stays() {
    let mut feed = with_scopes();
    feed.enter(2, 101);
    feed.alloc(2, 0x10, 10);
    feed.leave(2);
    feed.enter(2, 300);
    feed.emit("Memory.UpdateAlloc", 2, &[N(0x10), N(0)]);
    feed.leave(2);
    feed.free(2, 0x10);
    let report = feed.report();
    let x = report.by_name.iter().find(|row| row.name == "X").expect("the new row").figures;
    assert_eq!((x.allocations, x.frees, x.moved_in.blocks, x.moved_in.bytes), (0, 1, 1, 10));
    assert_eq!(x.peak_bytes, 10);
    let unnamed = report.by_name.iter().find(|row| row.name == "Unnamed").expect("old").figures;
    assert_eq!((unnamed.allocations, unnamed.frees, unnamed.moved_out.blocks), (1, 0, 1));
    let a = scope(&report, &["GlobalScope", "a"]);
    assert_eq!((a.figures.moved_out.blocks, a.figures.frees), (0, 1), "the scope stays");
    let outer = report.by_group.iter().find(|row| row.group == ["Outer"]).expect("a group");
    assert_eq!((outer.inclusive.moved_in.blocks, outer.figures.moved_in.blocks), (1, 0));
}

#[test]
fn the_report_can_be_as_it_stood_at_a_time_or_after_an_event() {
    let run = |until| {
        let mut feed = Feed::with(Analyzer::new().until(until), false);
        feed.marker(10);
        feed.alloc(2, 0x10, 10);
        feed.marker(20);
        feed.alloc(2, 0x20, 20);
        feed.marker(30);
        feed.free(2, 0x20);
        (feed.report(), feed.analyzer.peak_event())
    };
    let (at, _) = run(Position::Time(15));
    assert_eq!((at.totals.live_bytes, at.trace.duration_ns), (10, 15));
    let (at, _) = run(Position::Time(20));
    assert_eq!(at.totals.live_bytes, 30);
    let (end, peak) = run(Position::End);
    assert_eq!(end.totals.live_bytes, 10);
    let (at, _) = run(Position::Event(peak));
    assert_eq!((at.totals.live_bytes, at.trace.duration_ns), (30, 20));
}

#[test]
fn a_type_that_lacks_a_field_is_ignored_and_noted() {
    use memledger_analysis::read::Visitor;
    use memledger_format::schema::FieldType as T;
    let mut analyzer = Analyzer::new();
    analyzer.event_type(
        0,
        &memledger_test_support::feed::event_type(16, "Memory.Free", true, &[("RootHeap", T::U8)]),
    );
    analyzer.event_type(
        1,
        &memledger_test_support::feed::event_type(17, "Memory.Marker", true, &[("Cycle", T::F64)]),
    );
    assert_eq!(analyzer.problems().len(), 2);
    assert!(analyzer.problems()[0].contains("Memory.Free has no field Address"));
}
