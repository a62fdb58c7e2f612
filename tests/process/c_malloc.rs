//! The memory of `malloc` beside that of Rust, in a program that tracks both.

#![expect(unsafe_code, reason = "the functions of C")]

use memledger::{
    Destination, Ledger, ReportTo, TrackingAllocator, alloc_scope, group, tag, tagged,
};
use memledger_analysis::read::read;
use memledger_analysis::{Analyzer, HeapRow, Report, ScopeRow};
use std::ffi::c_void;
use std::fs::File;
use std::hint::black_box;
use std::io::Read;
use std::ptr;
use std::sync::{Mutex, PoisonError};

#[global_allocator]
static ALLOC: TrackingAllocator = TrackingAllocator::system();
memledger::track_c_malloc!();

/// A process records once at a time.
static ONE_LEDGER: Mutex<()> = Mutex::new(());

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
/// reallocations, 106,247 bytes; 1 byte stays. A compiler leaves out blocks that nothing looks at.
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
        let block = black_box(aligned_alloc(64, 640));
        assert_eq!(block.addr() % 64, 0);
        free(block);
        free(black_box(memalign(32, 50)));
        free(black_box(valloc(60)));
        free(black_box(pvalloc(1)));
        let block = black_box(calloc(7, 11));
        assert!(std::slice::from_raw_parts(block.cast::<u8>(), 77).iter().all(|byte| *byte == 0));
        free(block);
        free(black_box(libc::strdup(c"twelve bytes".as_ptr())).cast());
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
    let _alone = ONE_LEDGER.lock().unwrap_or_else(PoisonError::into_inner);
    let ledger =
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
    let sum = |figure: fn(&memledger_analysis::Figures) -> u64| {
        report.by_heap.iter().map(|row| figure(&row.figures)).sum::<u64>()
    };
    assert_eq!(sum(|figures| figures.live_bytes), report.totals.live_bytes);
    assert_eq!(sum(|figures| figures.allocations), report.totals.allocations);
    assert_eq!(sum(|figures| figures.live_bytes_at_peak), report.totals.peak_bytes);
    assert!(heaps[0].peak_bytes >= 12_345 + 800 + 5000);
    assert!(heaps[1].peak_bytes >= 100_000 && heaps[1].peak_bytes <= report.totals.peak_bytes);
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
    let _ = ledger.finish();
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

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
const PAGE: usize = 4096;

/// New pages of memory, with these permissions and flags.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
fn map(pages: usize, access: i32, flags: i32) -> *mut c_void {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | flags;
    // SAFETY: new pages affect no other memory.
    let start = unsafe { libc::mmap(ptr::null_mut(), pages * PAGE, access, flags, -1, 0) };
    assert_ne!(start, libc::MAP_FAILED);
    start
}

#[test]
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
fn what_is_mapped_is_counted_by_the_page() {
    use libc::{
        IPC_PRIVATE, IPC_RMID, MAP_FAILED, MAP_FIXED, MAP_NORESERVE, MAP_PRIVATE, MAP_SHARED,
        MREMAP_MAYMOVE, PROT_NONE, PROT_READ, PROT_WRITE,
    };
    const BOTH: i32 = PROT_READ | PROT_WRITE;
    let folder = std::env::temp_dir().join(format!("memledger-c-mmap-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let _alone = ONE_LEDGER.lock().unwrap_or_else(PoisonError::into_inner);
    let ledger = Ledger::builder().analyze_in_process(true).start().unwrap();
    // NOTE: not all of the heap, in which are stacks for signal handlers of the test's other threads.
    let check = |report: &Report, expected: &[(&str, usize)]| {
        for (name, pages) in expected {
            let path = ["GlobalScope", name];
            let row = report.by_scope.iter().find(|row| row.path == path);
            let live = row.map_or(0, |row| row.figures.live_bytes as usize / PAGE);
            assert_eq!(live, *pages, "{name}");
        }
    };
    let file = File::open("/proc/self/exe").unwrap();
    // SAFETY: each part is unmapped once; no other code has addresses of these pages.
    unsafe {
        // 16 pages without 4 in the middle, which another scope gives back.
        let middle = alloc_scope!("divided", { map(16, BOTH, 0) });
        alloc_scope!("other", { assert_eq!(libc::munmap(middle.byte_add(4 * PAGE), 4 * PAGE), 0) });
        // A file in place of two of them.
        let fd = std::os::fd::AsRawFd::as_raw_fd(&file);
        let on_top = libc::mmap(middle, 2 * PAGE, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 0);
        assert_eq!(on_top, middle);
        // Reserved addresses, of which 12 pages are written to, and 2 no more.
        let reserved = alloc_scope!("reserved", { map(1 << 18, PROT_NONE, MAP_NORESERVE) });
        alloc_scope!("committed", {
            assert_eq!(libc::mprotect(reserved.byte_add(10 * PAGE), 8 * PAGE, BOTH), 0);
            assert_eq!(libc::mprotect(reserved.byte_add(12 * PAGE), 10 * PAGE, BOTH), 0);
        });
        let flags = MAP_PRIVATE | libc::MAP_ANONYMOUS | MAP_FIXED;
        let again = libc::mmap(reserved.byte_add(10 * PAGE), 2 * PAGE, PROT_NONE, flags, -1, 0);
        assert_ne!(again, MAP_FAILED);
        // A file of no disk.
        let memory = libc::memfd_create(c"memory".as_ptr(), 0);
        assert_eq!(libc::ftruncate(memory, 32 * PAGE as i64), 0);
        let shared = alloc_scope!("shared", {
            libc::mmap(ptr::null_mut(), 32 * PAGE, BOTH, MAP_SHARED, memory, 0)
        });
        assert_ne!(shared, MAP_FAILED);
        // Moved, in another scope; the block stays that of its owner.
        let moved = alloc_scope!("moved", { map(4, BOTH, 0) });
        let moved = libc::mremap(moved, 4 * PAGE, 64 * PAGE, MREMAP_MAYMOVE);
        let moved = libc::mremap(moved, 64 * PAGE, 8 * PAGE, MREMAP_MAYMOVE);
        assert_ne!(moved, MAP_FAILED);
        // Moved, and mapped as before.
        let both = alloc_scope!("both", {
            let first = map(4, BOTH, 0);
            let flags = MREMAP_MAYMOVE | libc::MREMAP_DONTUNMAP;
            [first, libc::mremap(first, 4 * PAGE, 4 * PAGE, flags, ptr::null_mut::<c_void>())]
        });
        assert_ne!(both[1], MAP_FAILED, "{}", std::io::Error::last_os_error());
        // A reservation that was moved is one.
        let far = map(8, PROT_NONE, 0);
        let far = libc::mremap(far, 8 * PAGE, 16 * PAGE, MREMAP_MAYMOVE);
        alloc_scope!("far", { assert_eq!(libc::mprotect(far, PAGE, BOTH), 0) });
        let segment = libc::shmget(IPC_PRIVATE, 3 * PAGE - 1, 0o600);
        let attached = alloc_scope!("segment", { libc::shmat(segment, ptr::null(), 0) });
        libc::shmctl(segment, IPC_RMID, ptr::null_mut());
        alloc_scope!("program break", {
            assert_ne!(libc::sbrk(5 * PAGE as isize), MAP_FAILED);
            assert_ne!(libc::sbrk(-2 * PAGE as isize), MAP_FAILED);
        });
        // Calls that fail, and files, are no memory.
        assert_eq!(libc::mmap(ptr::null_mut(), 0, BOTH, MAP_PRIVATE, -1, 0), MAP_FAILED);
        assert_eq!(libc::munmap(middle.byte_add(1), PAGE), -1);
        assert_eq!(*libc::__errno_location(), libc::EINVAL);
        let of_file = libc::mmap(ptr::null_mut(), PAGE, PROT_READ, MAP_PRIVATE, fd, 0);
        libc::munmap(of_file, PAGE);
        // glibc maps a large block by itself: it counts once.
        let large = black_box(libc::malloc(10 << 20));
        libc::free(large);

        let snapshot = ledger.snapshot().unwrap();
        let report = snapshot.report();
        let expected = [
            ("divided", 10),
            ("committed", 10),
            ("shared", 32),
            ("moved", 8),
            ("both", 8),
            ("far", 1),
            ("segment", 3),
            ("program break", 3),
        ];
        check(report, &expected);
        assert!(report.by_scope.iter().all(|row| !row.path.contains(&"reserved".to_owned())));
        assert_eq!(heap(report, "Mapped").figures.reallocations, 2);
        assert_eq!((report.losses.unmatched_frees, report.losses.duplicate_allocations), (0, 0));

        // A stream that joins late knows what is mapped and what is reserved.
        let late = folder.join("late.memledger");
        ledger.trace_to(Destination::file(&late)).unwrap();
        alloc_scope!("farther", {
            assert_eq!(libc::mprotect(far.byte_add(PAGE), 2 * PAGE, BOTH), 0);
        });
        // Other pages can be in the gap by now.
        libc::munmap(middle, 4 * PAGE);
        libc::munmap(middle.byte_add(8 * PAGE), 8 * PAGE);
        libc::munmap(reserved, (1 << 18) * PAGE);
        libc::shmdt(attached);
        let end = ledger.snapshot().unwrap();
        let _ = ledger.finish();
        let mut analyzer = Analyzer::new();
        read(File::open(&late).unwrap(), &mut analyzer).unwrap();
        for report in [&analyzer.report(), end.report()] {
            let given_back = [("divided", 0), ("committed", 0), ("segment", 0), ("farther", 2)];
            check(report, &given_back);
            check(report, &expected[2..6]);
            check(report, &expected[7..]);
            assert_eq!(report.losses.unmatched_frees, 0);
        }
        both.into_iter().for_each(|pages| _ = libc::munmap(pages, 4 * PAGE));
        libc::munmap(shared, 32 * PAGE);
        libc::munmap(moved, 8 * PAGE);
        libc::munmap(far, 16 * PAGE);
        assert_ne!(libc::sbrk(-3 * PAGE as isize), MAP_FAILED);
        libc::close(memory);
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
