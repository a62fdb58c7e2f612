//! What the resident memory of a program is.

use crate::files::check_told;
use crate::harness::{Case, REPORT, TRACE, builder, case, churn};
use memledger::{Ledger, LedgerBuilder, Worker};
use memledger_analysis::{AllocatorStatistics, ResidentMemory};
use std::fs;
use std::hint::black_box;
#[cfg(unix)]
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

pub(crate) const CASES: &[Case] = &[
    #[cfg(unix)]
    case("each kind of resident memory is told apart", every_kind, |run| {
        let outcome = run.run();
        outcome.exited(0);
        let own = fs::read_to_string(outcome.path(OWN)).unwrap().parse::<u64>().unwrap();
        let rss = outcome.whole().rss.unwrap();
        let end = rss.end.unwrap();
        // What the end of the recording itself needs comes on top.
        let near = |bytes: u64, expected: u64| bytes.abs_diff(expected) < 4 * MIB;
        assert!(near(end.rss_bytes(), own), "{own}: {end:?}");
        assert!(near(end.live_bytes, TOUCHED), "{end:?}");
        assert!(near(end.live_not_resident_bytes, UNTOUCHED), "{end:?}");
        // The tracker's blocks are in there, too, and are taken off as if all were resident.
        assert!(near(end.anonymous_bytes, MAPPED), "{end:?}");
        assert!(end.stack_bytes >= MIB && near(end.stack_bytes, MIB), "{end:?}");
        assert!(end.binary_bytes > MIB, "{end:?}");
        assert_eq!((end.shared_bytes, end.file_bytes), (SHARED, FILE), "{end:?}");
        let peak = rss.peak.unwrap();
        assert!(rss.most_bytes >= peak.rss_bytes() && peak.rss_bytes() >= end.rss_bytes());
        assert!(!rss.timeline.is_empty());
    }),
    case("memory that was given back is in the peak only", gives_back, |run| {
        let rss = run.run().whole().rss.unwrap();
        let most = rss.most_bytes;
        let (peak, end) = (rss.peak.unwrap(), rss.end.unwrap());
        let is_there = |memory: &ResidentMemory| memory.live_bytes >= TOUCHED;
        assert!(is_there(&peak) && !is_there(&end), "{end:?}");
        assert!(most >= peak.rss_bytes() && peak.rss_bytes() > end.rss_bytes());
        assert!(peak.at_ns < end.at_ns);
    }),
    case("RSS is not read where the settings say so", plain, |run| {
        let outcome = run.tracked().env("MEMLEDGER_RSS", "off").run();
        assert_eq!(outcome.quiet().whole().rss, None);
        let outcome = outcome.again().tracked().env("MEMLEDGER_RSS", "20ms").run();
        assert!(outcome.quiet().whole().rss.is_some());
        for value in ["1", "0s", "1h", "-1s", "s"] {
            let outcome = outcome.again().tracked().env("MEMLEDGER_RSS", value).run();
            check_told(&outcome, &["MEMLEDGER_RSS", value, "such as 100ms or 2s"]);
            assert_eq!(outcome.files(), [REPORT, TRACE]);
        }
    }),
    #[cfg(target_os = "linux")]
    case("each allocator says what it has", plain, |run| {
        let outcome = run.tracked().run();
        let rss = outcome.quiet().whole().rss.unwrap();
        let [glibc] = &rss.allocators[..] else { panic!("{rss:?}") };
        assert_eq!(glibc.allocator, "glibc");
        assert_eq!(figure(glibc, "in use") + figure(glibc, "free"), figure(glibc, "arenas"));
        // What is live, and what the tracker has, is in use.
        let tracker = rss.end.unwrap().tracker_block_bytes;
        let in_use = figure(glibc, "in use") + figure(glibc, "mapped");
        assert!(in_use >= tracker && tracker > 0, "{in_use}, {tracker}");
        for (library, name, whole) in [
            ("libjemalloc.so.2", "jemalloc", "allocated"),
            ("libmimalloc.so.2", "mimalloc", "committed"),
            ("libtcmalloc_minimal.so.4", "tcmalloc", "allocated"),
        ] {
            let Some(path) = installed(library) else { continue };
            let outcome = outcome.again().tracked().env("LD_PRELOAD", path).run();
            let rss = outcome.quiet().whole().rss.unwrap();
            let found = rss.allocators.iter().find(|found| found.allocator == name).unwrap();
            assert!(figure(found, whole) >= rss.end.unwrap().tracker_block_bytes, "{found:?}");
        }
    }),
    #[cfg(target_os = "linux")]
    case("a jemalloc whose functions have a prefix says what it has", plain, |run| {
        let Some(jemalloc) = installed("libjemalloc.so.2") else {
            eprintln!("NOT TESTED: jemalloc is not installed");
            return;
        };
        let prefixed = concat!(env!("OUT_DIR"), "/libprefixed_jemalloc.so");
        let libraries = format!("{prefixed} {}", jemalloc.display());
        let rss = run.tracked().env("LD_PRELOAD", libraries).run().quiet().whole().rss.unwrap();
        let named = |name| rss.allocators.iter().find(move |found| found.allocator == name);
        let found = named("jemalloc (_rjem_)").unwrap_or_else(|| panic!("{rss:?}"));
        let names = |of: &AllocatorStatistics| {
            of.figures.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>()
        };
        assert_eq!(names(found), names(named("jemalloc").unwrap()));
        let tracker = rss.end.as_ref().unwrap().tracker_block_bytes;
        assert!(figure(found, "allocated") >= tracker && tracker > 0, "{found:?}");
    }),
    #[cfg(target_os = "linux")]
    case("an end does not wait until glibc has walked millions of blocks", frees_millions, |run| {
        let outcome = run.run();
        outcome.exited(0);
        let rss = outcome.whole().rss.unwrap();
        assert!(rss.end.is_some() && rss.allocators.is_empty(), "{rss:?}");
    }),
    #[cfg(target_os = "linux")]
    case("an end while a thread stays in malloc has a report", ends_beside_malloc, |run| {
        let outcome = run.run();
        outcome.exited(0);
        assert!(outcome.stderr.contains("corrupted top size"), "{}", outcome.stderr);
        let report = outcome.whole();
        let rss = report.rss.unwrap();
        assert!(rss.end.is_some() && rss.allocators.is_empty(), "{rss:?}");
    }),
    #[cfg(target_os = "linux")]
    case("after a crash in malloc no allocator is asked", crashes_in_malloc, |run| {
        let outcome = run.run();
        assert_eq!(outcome.status.signal(), Some(libc::SIGABRT), "{}", outcome.stderr);
        let rss = outcome.whole().rss.unwrap();
        assert!(rss.end.is_some() && rss.allocators.is_empty(), "{rss:?}");
    }),
];

/// A figure of an allocator.
#[cfg(unix)]
#[track_caller]
fn figure(of: &AllocatorStatistics, name: &str) -> u64 {
    of.figures.iter().find(|(found, _)| found == name).unwrap_or_else(|| panic!("{of:?}")).1
}

/// Where a library is installed.
#[cfg(unix)]
fn installed(library: &str) -> Option<PathBuf> {
    let folders = ["/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib"];
    folders.iter().map(|folder| Path::new(folder).join(library)).find(|path| path.exists())
}

#[cfg(unix)]
const OWN: &str = "own";
const MIB: u64 = 1 << 20;
const TOUCHED: u64 = 64 * MIB;
#[cfg(unix)]
const UNTOUCHED: u64 = 256 * MIB;
#[cfg(unix)]
const MAPPED: u64 = 32 * MIB;
#[cfg(unix)]
const SHARED: u64 = 8 * MIB;
#[cfg(unix)]
const FILE: u64 = 2 * MIB;

#[cfg(unix)]
#[expect(unsafe_code, reason = "system calls")]
fn map(bytes: u64, flags: libc::c_int, file: libc::c_int) {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping, which only this function uses; all its pages are written.
    unsafe {
        let at = libc::mmap(std::ptr::null_mut(), bytes as usize, access, flags, file, 0);
        assert_ne!(at, libc::MAP_FAILED);
        std::ptr::write_bytes(at.cast::<u8>(), 1, bytes as usize);
    }
}

#[cfg(unix)]
fn every_kind() {
    use std::os::fd::AsRawFd;
    let ledger = builder().start().unwrap();
    let touched = black_box(vec![1_u8; TOUCHED as usize]);
    let untouched = black_box(Vec::<u8>::with_capacity(UNTOUCHED as usize));
    map(MAPPED, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1);
    map(SHARED, libc::MAP_SHARED | libc::MAP_ANONYMOUS, -1);
    // NOTE: on a disk. The pages of a file in memory count as shared.
    let file = tempfile::tempfile_in("/var/tmp").unwrap();
    file.set_len(FILE).unwrap();
    map(FILE, libc::MAP_SHARED, file.as_raw_fd());
    let (ready, is_ready) = mpsc::channel();
    std::thread::spawn(move || {
        black_box([1_u8; MIB as usize]);
        ready.send(()).unwrap();
        std::thread::park();
    });
    is_ready.recv().unwrap();
    let status = fs::read_to_string("/proc/self/smaps_rollup").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("Rss:")).unwrap();
    let kib: u64 = line.trim().strip_suffix(" kB").unwrap().parse().unwrap();
    fs::write(OWN, (kib << 10).to_string()).unwrap();
    drop(ledger);
    drop((touched, untouched));
}

fn gives_back() {
    let interval = Duration::from_nanos(1);
    let ledger = builder().worker(Worker::Manual).rss_interval(interval).start().unwrap();
    ledger.collect();
    let touched = black_box(vec![1_u8; TOUCHED as usize]);
    ledger.collect();
    drop(touched);
    ledger.collect();
    let _ = ledger.finish();
}

fn plain() {
    churn(1000);
}

/// Leaves two million blocks in glibc's lists of free ones, neighbours far from each other.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "C's allocator")]
fn frees_millions() {
    const BLOCKS: usize = 1 << 21;
    const STRIDE: usize = 100_003;
    let _ledger = builder().start().unwrap();
    // SAFETY: `malloc` has no condition.
    let blocks: Vec<_> = (0..BLOCKS).map(|_| unsafe { libc::malloc(black_box(24)) }).collect();
    for number in 0..BLOCKS {
        // SAFETY: the stride is odd, so each block is freed once.
        unsafe { libc::free(blocks[number * STRIDE % BLOCKS]) };
    }
}

/// Starts a recording and has glibc find one of its arenas damaged: it ends the process by `abort`, on a
/// thread that holds the lock of that arena.
///
/// NOTE: the thread gets its arena before the tracker has threads. In an arena that one of them had, the
/// tracker would have blocks.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "damages the heap")]
fn damage_heap(builder: LedgerBuilder) -> (Ledger, JoinHandle<()>) {
    const BYTES: usize = 100_000;
    let barrier = Arc::new(Barrier::new(2));
    let other = barrier.clone();
    let thread = std::thread::spawn(move || {
        // SAFETY: a block of its own.
        unsafe { libc::free(black_box(libc::malloc(1))) };
        other.wait();
        other.wait();
        // SAFETY: not at all: after the last of these blocks is the size of what the arena has left.
        unsafe {
            let last = (0..20).fold(std::ptr::null_mut(), |_, _| black_box(libc::malloc(BYTES)));
            let end = last.byte_add(libc::malloc_usable_size(last)).cast::<usize>();
            end.write(usize::MAX >> 3);
            black_box(libc::malloc(BYTES));
        }
    });
    barrier.wait();
    let ledger = builder.start().unwrap();
    barrier.wait();
    (ledger, thread)
}

#[cfg(target_os = "linux")]
fn crashes_in_malloc() {
    let (_ledger, thread) = damage_heap(builder().report_on_signals(true));
    thread.join().unwrap();
}

/// Ends while another thread is in `malloc`, which it never leaves.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "a signal handler")]
fn ends_beside_malloc() {
    static IS_IN_MALLOC: AtomicBool = AtomicBool::new(false);
    extern "C" fn stay(_: libc::c_int) {
        IS_IN_MALLOC.store(true, Ordering::Release);
        loop {
            // SAFETY: waits for a signal.
            unsafe { libc::pause() };
        }
    }
    // SAFETY: the handler has the form that is required.
    unsafe {
        libc::signal(libc::SIGABRT, stay as extern "C" fn(libc::c_int) as libc::sighandler_t)
    };
    let (ledger, _) = damage_heap(builder());
    while !IS_IN_MALLOC.load(Ordering::Acquire) {
        std::thread::yield_now();
    }
    drop(ledger);
}
