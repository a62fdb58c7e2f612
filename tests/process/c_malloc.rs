//! The memory of `malloc` beside that of Rust, in a program that tracks both.

#![expect(unsafe_code, reason = "the functions of C")]

use memledger::analysis::{Analyzer, HeapRow, Report, ScopeRow};
use memledger::trace::read::read;
use memledger::{
    Destination, Ledger, ReportTo, TrackingAllocator, alloc_scope, group, tag, tagged,
};
use std::ffi::c_void;
use std::fs::File;
use std::hint::black_box;
use std::io::Read;
use std::ptr;

#[global_allocator]
static ALLOC: TrackingAllocator = TrackingAllocator::system();
memledger::track_c_malloc!();

group! {
    /// What a C library holds.
    LIBRARY = "Library";
}

fn scope<'a>(report: &'a Report, name: &str) -> &'a ScopeRow {
    let path = ["GlobalScope", name];
    report.by_scope.iter().find(|row| row.path == path).expect("the scope has a row")
}

fn heap<'a>(report: &'a Report, name: &str) -> &'a HeapRow {
    report.by_heap.iter().find(|row| row.name == name).expect("the heap has a row")
}

/// Calls every function, with arguments that are refused, too. 11 allocations, 10 frees, 2
/// reallocations, 106,247 bytes; 1 byte stays.
fn call_all_functions() -> *mut c_void {
    use libc::{aligned_alloc, calloc, free, malloc, memalign, posix_memalign, realloc};
    unsafe extern "C" {
        fn reallocarray(block: *mut c_void, count: usize, size: usize) -> *mut c_void;
        fn valloc(size: usize) -> *mut c_void;
        fn pvalloc(size: usize) -> *mut c_void;
    }
    let too_much = black_box(1 << 62);
    // SAFETY: each block is used as C's functions allow, here and below.
    unsafe {
        free(ptr::null_mut());
        free(black_box(malloc(0)));
        let block = realloc(ptr::null_mut(), 10);
        let block = realloc(block, 100_000);
        let block = reallocarray(block, 10, 20);
        assert!(black_box(reallocarray(block, usize::MAX, 2)).is_null());
        assert!(black_box(malloc(too_much)).is_null());
        assert!(black_box(calloc(1 << 33, 1 << 33)).is_null());
        assert_eq!(*libc::__errno_location(), libc::ENOMEM);
        assert!(realloc(block, 0).is_null());
        let mut block = ptr::null_mut();
        assert_eq!(posix_memalign(&raw mut block, 3, 10), libc::EINVAL);
        assert_eq!(posix_memalign(&raw mut block, 8, too_much), libc::ENOMEM);
        assert_eq!(posix_memalign(&raw mut block, 256, 1000), 0);
        assert_eq!(block.addr() % 256, 0);
        free(block);
        let block = aligned_alloc(64, 640);
        assert_eq!(block.addr() % 64, 0);
        free(block);
        free(black_box(memalign(32, 50)));
        free(black_box(valloc(60)));
        free(black_box(pvalloc(1)));
        let block = calloc(7, 11);
        assert!(std::slice::from_raw_parts(block.cast::<u8>(), 77).iter().all(|byte| *byte == 0));
        free(block);
        free(libc::strdup(c"twelve bytes".as_ptr()).cast());
        *libc::__errno_location() = 4321;
        free(black_box(malloc(100)));
        assert_eq!(*libc::__errno_location(), 4321, "a free keeps errno");
        black_box(malloc(1))
    }
}

#[test]
fn each_block_is_counted_once_in_the_heap_of_its_language() {
    let folder = std::env::temp_dir().join(format!("memledger-c-malloc-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let mut ledger =
        Ledger::builder().report_on_exit(ReportTo::file(folder.join("r.json"))).start().unwrap();
    let kept = alloc_scope!("c", { call_all_functions() });
    let vector = alloc_scope!("rust", { black_box(vec![1_u8; 12_345]) });
    let zeroed = alloc_scope!("rust", { black_box(vec![0_u64; 100]) });
    let mixed = alloc_scope!("mixed", {
        let mut grown = Vec::<u8>::with_capacity(1000);
        grown.reserve_exact(5000);
        // SAFETY: as above.
        let c = tagged(tag!(LIBRARY, "buffer"), || unsafe { black_box(libc::malloc(777)) });
        (grown, c)
    });
    // A failed reallocation leaves the block; its size is then what the program may use of it.
    let block = alloc_scope!("failed", {
        // SAFETY: as above.
        unsafe {
            let block = black_box(libc::malloc(40));
            assert!(black_box(libc::realloc(block, black_box(1 << 62))).is_null());
            block
        }
    });
    std::thread::spawn(|| {
        alloc_scope!("thread");
        // SAFETY: as above.
        unsafe { libc::free(black_box(libc::malloc(9))) };
    })
    .join()
    .unwrap();

    let snapshot = ledger.snapshot().unwrap();
    let report = snapshot.report();
    let c = &scope(report, "c").figures;
    assert_eq!((c.allocations, c.frees, c.reallocations), (11, 10, 2));
    assert_eq!((c.allocated_bytes, c.live_bytes, c.live_blocks), (106_247, 1, 1));
    let rust = &scope(report, "rust").figures;
    assert_eq!((rust.allocations, rust.allocated_bytes), (2, 12_345 + 800));
    let mixed_row = &scope(report, "mixed").inclusive;
    assert_eq!((mixed_row.allocations, mixed_row.live_bytes), (2, 5000 + 777));
    let failed = &scope(report, "failed").figures;
    assert_eq!((failed.live_blocks, failed.live_bytes), (1, 40));
    assert_eq!(scope(report, "thread").figures.allocated_bytes, 9);
    let library = report.by_name.iter().find(|row| row.name == "buffer").unwrap();
    assert_eq!(library.figures.live_bytes, 777);

    let heaps = [heap(report, "Rust"), heap(report, "C")].map(|row| row.figures);
    let sum =
        |figure: fn(&memledger::analysis::Figures) -> u64| heaps.iter().map(figure).sum::<u64>();
    assert_eq!(sum(|figures| figures.live_bytes), report.totals.live_bytes);
    assert_eq!(sum(|figures| figures.allocations), report.totals.allocations);
    assert_eq!(sum(|figures| figures.live_bytes_at_peak), report.totals.peak_bytes);
    assert!(heaps[0].peak_bytes >= 12_345 + 800 + 5000);
    assert!(heaps[1].peak_bytes >= 100_000 && heaps[1].peak_bytes < report.totals.peak_bytes);
    assert_eq!(report.losses.unmatched_frees, 0);
    assert_eq!(report.losses.duplicate_allocations, 0);

    // Samples of a profile have their heap: the strings of its labels.
    let mut profile = Vec::new();
    flate2::read::GzDecoder::new(&*ledger.pprof().unwrap()).read_to_end(&mut profile).unwrap();
    for text in ["heap", "Rust", "C"] {
        let string = [b"\x32", &[text.len() as u8][..], text.as_bytes()].concat();
        let has = profile.windows(string.len()).any(|window| *window == *string);
        assert!(has, "{text}");
    }

    // A stream that joins late has the same blocks in the same heaps.
    let late = folder.join("late.memledger");
    ledger.trace_to(Destination::file(&late)).unwrap();
    // SAFETY: as above.
    unsafe {
        libc::free(kept);
        libc::free(block);
        libc::free(mixed.1);
    }
    drop((vector, zeroed, mixed.0));
    let end = ledger.snapshot().unwrap();
    ledger.finish();
    let mut analyzer = Analyzer::new();
    read(File::open(&late).unwrap(), &mut analyzer).unwrap();
    let late = analyzer.report();
    assert_eq!(late.losses.unmatched_frees, 0);
    for name in ["Rust", "C"] {
        let of = |report| heap(report, name).figures.live_blocks;
        assert_eq!(of(&late), of(end.report()), "{name}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
