//! The rows of a report, as the model has them.

use super::{Key, LAST_CLASS, Path};
use memledger_analysis::{Figures, Frames, Report};
use std::collections::BTreeMap;
/// The rows of a report under the keys of the model.
pub(super) fn rows(report: &Report) -> BTreeMap<Key, Figures> {
    fn known(text: &str) -> &'static str {
        let names = ["GlobalScope", "a", "b", "Unknown", "Unnamed", "G", "H", "X", "Y"];
        names.into_iter().find(|name| *name == text).expect("a name of the model")
    }
    let path = |names: &[String]| names.iter().map(|name| known(name)).collect::<Path>();
    let mut rows = BTreeMap::new();
    let mut add = |key, figures| assert_eq!(rows.insert(key, figures), None, "a row comes once");
    for row in &report.by_scope {
        add(Key::ScopeAndBelow(path(&row.path)), row.inclusive);
        if row.figures != Figures::default() {
            add(Key::Scope(path(&row.path)), row.figures);
        }
    }
    for row in &report.by_group {
        add(Key::GroupAndBelow(path(&row.group)), row.inclusive);
        if row.figures != Figures::default() {
            add(Key::Group(path(&row.group)), row.figures);
        }
    }
    for row in &report.by_name {
        add(Key::Name(path(&row.group), known(&row.name)), row.figures);
    }
    for row in &report.by_thread {
        add(Key::Thread(row.id), row.figures);
    }
    for row in &report.by_heap {
        add(Key::Heap(row.id.into()), row.figures);
    }
    for row in &report.by_size {
        add(Key::Size(row.max_bytes.unwrap_or(LAST_CLASS)), row.figures);
        let Figures { live_blocks, live_bytes, .. } = row.figures;
        assert!(live_bytes >= live_blocks * row.min_bytes, "{row:?}");
        assert!(row.max_bytes.is_none_or(|max| live_bytes <= live_blocks * max), "{row:?}");
    }
    for row in report.by_stack.iter() {
        let frame = |&frame: &u32| report.frames[frame as usize].offset + 0x1001;
        add(Key::Stack(row.frames.iter().map(frame).collect()), row.figures);
    }
    rows
}

/// In each list, every column but the peaks sums to the totals.
pub(super) fn columns_add_up(report: &Report) {
    let mut lists = vec![
        report.by_scope.iter().map(|row| row.figures).collect(),
        report.by_group.iter().map(|row| row.figures).collect(),
        report.by_name.iter().map(|row| row.figures).collect(),
        report.by_thread.iter().map(|row| row.figures).collect(),
        report.by_heap.iter().map(|row| row.figures).collect(),
        report.by_size.iter().map(|row| row.figures).collect(),
    ];
    if !report.by_stack.is_empty() {
        lists.push(report.by_stack.iter().map(|row| row.figures).collect());
        for rows in [
            report.by_function(Frames::Folded),
            report.by_line(Frames::All),
            report.by_crate(Frames::Folded),
        ] {
            lists.push(rows.iter().map(|row| row.figures).collect());
        }
    }
    let totals = report.totals;
    for list in lists {
        let list: Vec<Figures> = list;
        let sum = |column: fn(&Figures) -> u64| list.iter().map(column).sum::<u64>();
        assert_eq!(sum(|f| f.allocations), totals.allocations);
        assert_eq!(sum(|f| f.frees), totals.frees);
        assert_eq!(sum(|f| f.reallocations), totals.reallocations);
        assert_eq!(sum(|f| f.allocated_bytes), totals.allocated_bytes);
        assert_eq!(sum(|f| f.live_blocks), totals.live_blocks);
        assert_eq!(sum(|f| f.live_bytes), totals.live_bytes);
        assert_eq!(sum(|f| f.live_bytes_at_peak), totals.peak_bytes);
        assert_eq!(sum(|f| f.live_blocks_at_peak), totals.blocks_at_peak);
        assert_eq!(sum(|f| f.short_lived), totals.short_lived);
        for f in &list {
            let balance = f.allocations + f.moved_in.blocks - f.frees - f.moved_out.blocks;
            assert_eq!(f.live_blocks, balance, "{f:?}");
        }
    }
}
