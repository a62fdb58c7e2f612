//! The contract of an allocator: what the program asks for and gets is what the ledger says.
#![expect(unsafe_code, reason = "calls the allocator directly")]

use crate::allocator::{failing_after, in_arena, reserve_arena};
use crate::harness::{Case, case, resident_bytes, start};
use std::alloc::{Layout, alloc, alloc_zeroed, dealloc, realloc};
use std::hint::black_box;

pub(crate) const CASES: &[Case] = &[
    case("a null from the allocator is passed on and no block", null, |run| {
        let report = run.run().quiet().whole();
        assert!(report.largest_live.iter().all(|block| block.bytes != 1_000_003));
    }),
    case("a reallocation that fails leaves the old block", failed_realloc, |run| {
        let report = run.run().quiet().whole();
        let sizes = report.largest_live.iter().map(|block| block.bytes);
        let ours: Vec<_> = sizes.filter(|size| (1_000_000..4_000_000).contains(size)).collect();
        assert_eq!(ours, [1_000_003]);
        let row = &report.by_scope.iter().find(|row| row.path.len() == 2).unwrap().figures;
        assert_eq!((row.allocations, row.reallocations, row.frees), (2, 1, 1));
        assert_eq!(row.allocated_bytes, 1_000_003 + 500 + 700);
        assert_eq!((row.live_blocks, row.live_bytes), (1, 1_000_003));
    }),
    case("every allocation in turn fails, and the program goes on", fail_each, |run| {
        run.run().quiet().whole();
    }),
    case("alignments up to two mebibytes are passed on", aligned, |run| {
        let report = run.run().quiet().whole();
        let row = &report.by_scope.iter().find(|row| row.path.len() == 2).unwrap().figures;
        assert_eq!(row.allocations, 22 * 2);
        assert_eq!(row.reallocations, 22);
        assert_eq!(row.live_blocks, 22);
        assert_eq!(row.live_bytes, 22 * 300);
    }),
    case("zeroed memory is zero and only mapped when touched", zeroed, |run| {
        // Wine asks Linux of each page.
        let run = if cfg!(windows) { run.env("MEMLEDGER_RSS", "off") } else { run };
        let report = run.run().quiet().whole();
        assert_eq!(report.totals.live_bytes / (1 << 30), 4, "4 GiB, none of them in memory");
    }),
    case("sizes beyond 35 bits are exact", huge, |run| {
        let report = run.run().quiet().whole();
        let sizes: Vec<_> = report.largest_live.iter().take(4).map(|block| block.bytes).collect();
        assert_eq!(sizes, [(1 << 42) + 7, (1 << 40) + 5, 1 << 35, (1 << 35) - 1]);
        let row = &report.by_scope.iter().find(|row| row.path.len() == 2).unwrap().figures;
        assert_eq!(row.live_bytes, sizes.iter().sum::<u64>());
        assert_eq!(row.allocated_bytes, row.live_bytes + (1 << 39) + (1 << 41));
        assert_eq!(row.peak_bytes, row.live_bytes + (1 << 41), "before the last free");
    }),
    case("blocks that grow, move, shrink and stay are followed", reallocs, |run| {
        let report = run.run().quiet().whole();
        let row = &report.by_scope.iter().find(|row| row.path.len() == 2).unwrap().figures;
        let sizes = STEPS.iter().map(|&size| size as u64);
        assert_eq!((row.allocations, row.frees), (100, 50));
        assert_eq!(row.reallocations, 100 * STEPS.len() as u64);
        assert_eq!(row.allocated_bytes, 100 * (16 + sizes.sum::<u64>()));
        assert_eq!(row.live_bytes, 50 * *STEPS.last().unwrap() as u64);
    }),
    case("zero sized types are no allocations", zero_sized, |run| {
        let report = run.run().quiet().whole();
        assert!(report.by_scope.iter().all(|row| row.path.len() == 1), "{:?}", report.by_scope);
    }),
];

fn layout(size: usize, align: usize) -> Layout {
    Layout::from_size_align(size, align).unwrap()
}

fn null() {
    let ledger = start();
    let failed = failing_after(0, || {
        for size in [1, 64, 1_000_003] {
            // SAFETY: the sizes are not 0.
            unsafe {
                assert!(black_box(alloc(layout(size, 8))).is_null());
                assert!(black_box(alloc_zeroed(layout(size, 8))).is_null());
            }
        }
    });
    assert_eq!(failed, 6);
    assert_eq!(ledger.stats().failed_allocations, 6);
}

fn failed_realloc() {
    let ledger = start();
    memledger::alloc_scope!("here");
    // SAFETY: layouts match the blocks.
    unsafe {
        let kept = black_box(alloc(layout(1_000_003, 8)));
        let other = black_box(alloc(layout(500, 8)));
        let failed = failing_after(0, || {
            for size in [1, 999, 3_000_000] {
                assert!(black_box(realloc(kept, layout(1_000_003, 8), size)).is_null());
            }
        });
        assert_eq!(failed, 3);
        let other = black_box(realloc(other, layout(500, 8), 700));
        dealloc(other, layout(700, 8));
    }
    assert_eq!(ledger.stats().failed_allocations, 3);
}

/// Each operation with memory reports the lack of it: the n-th call fails, for every n.
fn fail_each() {
    let ledger = start();
    let mut after = 0;
    loop {
        let failed = failing_after(after, || {
            let mut bytes = Vec::<u8>::new();
            for size in [10, 100, 1000, 10_000] {
                if bytes.try_reserve_exact(black_box(size)).is_err() {
                    break;
                }
                bytes.resize(size, 1);
                assert!(bytes.iter().all(|&byte| byte == 1));
            }
            let mut nested = Vec::new();
            for _ in 0..20 {
                let mut inner = Vec::<u64>::new();
                if inner.try_reserve(black_box(50)).is_err() || nested.try_reserve(1).is_err() {
                    break;
                }
                nested.push(inner);
            }
        });
        if failed == 0 {
            break;
        }
        after += 1;
    }
    assert!(after > 20);
    assert!(ledger.stats().failed_allocations >= u64::from(after));
}

fn aligned() {
    let _ledger = start();
    memledger::alloc_scope!("aligned");
    for power in 0..22 {
        let align = 1 << power;
        // SAFETY: layouts match the blocks.
        unsafe {
            let block = black_box(alloc(layout(100, align)));
            assert_eq!(block.addr() % align, 0);
            block.write_bytes(7, 100);
            let block = black_box(realloc(block, layout(100, align), 300));
            assert_eq!(block.addr() % align, 0);
            assert_eq!(std::slice::from_raw_parts(block, 100), [7; 100]);
            let zeroed = black_box(alloc_zeroed(layout(50, align)));
            assert_eq!(zeroed.addr() % align, 0);
            assert_eq!(std::slice::from_raw_parts(zeroed, 50), [0; 50]);
            dealloc(zeroed, layout(50, align));
        }
    }
}

fn zeroed() {
    let _ledger = start();
    let before = resident_bytes();
    for _ in 0..4 {
        // SAFETY: the block is leaked.
        let block = unsafe { black_box(alloc_zeroed(layout(1 << 30, 8))) };
        assert!(!block.is_null());
        for place in [0, 1 << 20, (1 << 30) - 1] {
            // SAFETY: the place lies in the block.
            assert_eq!(unsafe { block.add(place).read() }, 0);
        }
    }
    assert!(resident_bytes() - before < 64 << 20);
    let small = black_box(vec![0_u8; 10_000]);
    assert!(small.iter().all(|&byte| byte == 0));
}

fn huge() {
    reserve_arena();
    let _ledger = start();
    memledger::alloc_scope!("huge");
    in_arena(|| {
        // SAFETY: the layouts match the blocks, whose contents are not accessed.
        unsafe {
            for size in [(1 << 35) - 1, 1 << 35, (1 << 40) + 5] {
                assert!(!black_box(alloc(layout(size, 16))).is_null());
            }
            let grown = black_box(alloc(layout(1 << 39, 16)));
            let grown = black_box(realloc(grown, layout(1 << 39, 16), (1 << 42) + 7));
            assert!(!grown.is_null());
            let freed = black_box(alloc_zeroed(layout(1 << 41, 16)));
            dealloc(freed, layout(1 << 41, 16));
        }
    });
}

const STEPS: [usize; 9] = [24, 1000, 999, 100_000, 99_999, 1_000_000, 10, 2_000_000, 333];

fn reallocs() {
    let _ledger = start();
    memledger::alloc_scope!("reallocs");
    let (mut moved, mut stayed) = (0, 0);
    for number in 0..100 {
        // SAFETY: layouts match the blocks.
        unsafe {
            let mut block = black_box(alloc(layout(16, 8)));
            block.write(number);
            let mut size = 16;
            for next in STEPS {
                let new = black_box(realloc(block, layout(size, 8), next));
                assert_eq!(new.read(), number);
                *(if new == block { &mut stayed } else { &mut moved }) += 1;
                (block, size) = (new, next);
            }
            if number % 2 == 0 {
                dealloc(block, layout(size, 8));
            }
        }
    }
    assert!(moved > 0 && stayed > 0, "{moved} {stayed}");
}

fn zero_sized() {
    let _ledger = start();
    memledger::alloc_scope!("nothing");
    let mut units = Vec::new();
    units.resize(black_box(1000), ());
    black_box(units);
    black_box(Box::new(()));
    black_box(Vec::<u64>::with_capacity(0));
    black_box(String::new());
}
