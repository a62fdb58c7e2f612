//! Call stacks through code that is not the program's own: libraries that come and go, code in no
//! file, and stacks that are not a thread's.
#![expect(unsafe_code, reason = "functions of libraries, and of code in no file")]

use crate::harness::{Case, Outcome, TRACE, builder, case, leave};
use crate::system;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use memledger::{Ledger, Stacks, Worker};
use memledger_analysis::{Report, StackEnd, StackRow};
use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
use std::ffi::CString;
use std::hint::black_box;
use std::path::{Path, PathBuf};

pub(crate) const CASES: &[Case] = &[
    case("stacks are in the library that was loaded when they were taken", libraries, |run| {
        let outcome = run.run();
        outcome.quiet();
        outcome.whole();
        let early = (EARLY, "first");
        let (first, second) = ((FIRST, "first"), (SECOND, "second"));
        outcome.export_channels("late.utrace", "memory,callstack", "filtered.utrace");
        for (name, blocks) in [
            (TRACE, &[early, first, second][..]),
            ("late.utrace", &[early, first, second]),
            ("late.memledger", &[early, first, second]),
            ("filtered.utrace", &[early, first, second]),
            ("again.utrace", &[first, second]),
        ] {
            check_libraries(&outcome, name, blocks);
        }
    }),
    case("no stack is in a library that came later, or that was gone", quick, |run| {
        let outcome = run.run();
        outcome.quiet();
        let report = outcome.whole();
        for (bytes, blocks, library, end) in [
            (EARLY, 1, Some("first"), StackEnd::Complete),
            (FIRST, 2, None, StackEnd::LibraryChanged),
            (SECOND, 1, None, StackEnd::NoUnwindInformation),
            (LATE, 1, Some("second"), StackEnd::Complete),
        ] {
            let row = row_of(&report, bytes);
            assert_eq!(row.figures.allocations, blocks, "{bytes}");
            let within = row.frames.iter().filter_map(|frame| {
                own_library(&report.modules[report.frames[*frame as usize].module?].path)
            });
            let within = within.collect::<Vec<_>>();
            let expected = library.map(file_of);
            assert_eq!(within, expected.iter().collect::<Vec<_>>(), "{bytes} in {row:#?}");
            assert_eq!(row.end, end, "{bytes}");
        }
    }),
    #[cfg(target_arch = "x86_64")]
    case("code in no file ends a stack", jit, |run| {
        let outcome = run.run();
        outcome.quiet();
        let report = outcome.whole();
        let row = row_of(&report, FIRST);
        assert_eq!((row.figures.allocations, row.end), (1000, StackEnd::NoUnwindInformation));
        let modules = row.frames.iter().map(|frame| report.frames[*frame as usize].module);
        let modules = modules.collect::<Vec<_>>();
        let (last, inner) = modules.split_last().unwrap();
        assert!(last.is_none() && inner.iter().all(Option::is_some), "{modules:?}");
        // The address is the code's own, behind the call.
        let at = report.frames[*row.frames.last().unwrap() as usize].offset;
        assert_eq!(format!("{:x}", at + 1), outcome.stdout.trim());
    }),
    case("a stack of a coroutine continues where it was resumed", coroutine, |run| {
        let outcome = run.run();
        outcome.quiet();
        let report = outcome.whole();
        let has = |row: &StackRow, function: &str| {
            // Debug information may have the last part of a name only.
            let within = |frame: &&u32| {
                let functions = report.frames[**frame as usize].functions.iter();
                functions
                    .map(|at| at.function.rsplit("::").next())
                    .any(|name| name == Some(function))
            };
            row.frames.iter().filter(within).count()
        };
        let (first, second) = (row_of(&report, FIRST), row_of(&report, SECOND));
        assert_eq!((first.figures.allocations, second.figures.allocations), (100, 100));
        assert_eq!((has(&first, "inside"), has(&first, "outside")), (6, 0), "{first:#?}");
        assert_eq!((has(&second, "inside"), has(&second, "outside")), (0, 1), "{second:#?}");
        // The library says how its first function leads to the thread's own stack.
        assert_eq!((first.end, second.end), (StackEnd::Complete, StackEnd::Complete));
        assert_eq!(first.frames.last(), second.frames.last());
    }),
];

/// Sizes of blocks that nothing else has.
const EARLY: usize = 1_000_003;
const FIRST: usize = 1_100_003;
const SECOND: usize = 1_200_007;
const LATE: usize = 1_300_013;

type Work = unsafe extern "C" fn(extern "C" fn(usize), usize);

extern "C" fn allocate(bytes: usize) {
    leave(bytes);
    // So that it is no tail call.
    black_box(());
}

/// The only stack that blocks of this size have.
#[track_caller]
fn row_of(report: &Report, bytes: usize) -> StackRow {
    let is_of = |row: &StackRow| {
        let figures = &row.figures;
        figures.allocated_bytes > 0 && figures.allocated_bytes == figures.allocations * bytes as u64
    };
    let mut rows = report.by_stack.iter().filter(is_of).collect::<Vec<_>>();
    assert_eq!(rows.len(), 1, "{bytes}: {rows:#?}");
    rows.remove(0)
}

/// Where `build.rs` has put a library.
fn file_of(library: &str) -> PathBuf {
    let name = format!("{DLL_PREFIX}{library}{DLL_SUFFIX}");
    Path::new(env!("OUT_DIR")).join(name)
}

/// The path of a module that is one of these libraries.
fn own_library(path: &str) -> Option<&Path> {
    // Wine puts a drive before it.
    let path = path.strip_prefix(r"\\?\").unwrap_or(path).trim_start_matches("Z:");
    Some(Path::new(path)).filter(|path| path.starts_with(env!("OUT_DIR")))
}

struct Library {
    loaded: system::Library,
    work: Work,
}

impl Library {
    fn load(name: &str) -> Self {
        let loaded = system::Library::load(&file_of(name));
        let (work, offset) = loaded.function(&CString::new(format!("{name}_work")).unwrap());
        println!("{name} {offset:x}");
        // SAFETY: it is a function of this type.
        let work = unsafe { std::mem::transmute::<*const (), Work>(work) };
        Self { loaded, work }
    }

    fn work(&self, bytes: usize) {
        // SAFETY: the library is loaded.
        unsafe { (self.work)(allocate, bytes) };
    }

    fn unload(self) {
        self.loaded.unload();
    }
}

/// Loads one library after another, as a rule at the same address.
fn come_and_go(ledger: &Ledger, early: bool) {
    let library = Library::load("first");
    if early {
        library.work(EARLY);
    }
    // The worker looks for libraries.
    ledger.flush();
    library.work(FIRST);
    library.unload();
    let library = Library::load("second");
    ledger.flush();
    library.work(SECOND);
    library.unload();
}

fn libraries() {
    let ledger = builder().stacks(Stacks::On).start().unwrap();
    come_and_go(&ledger, true);
    for name in ["late.utrace", "late.memledger"] {
        ledger.trace_to_file(name).unwrap();
    }
    drop(ledger);
    let ledger = Ledger::builder().trace_to_file("again.utrace").stacks(Stacks::On);
    let ledger = ledger.start().unwrap();
    come_and_go(&ledger, false);
    drop(ledger);
}

/// Loads and unloads libraries, as a rule at the same address, while the worker does not look.
fn quick() {
    let ledger = builder().worker(Worker::Manual).stacks(Stacks::On).start().unwrap();
    let first = Library::load("first");
    ledger.collect();
    first.work(EARLY);
    first.unload();
    for name in ["second", "first"] {
        let library = Library::load(name);
        library.work(FIRST);
        library.unload();
    }
    ledger.collect();
    // The worker sees neither that this library comes nor that it goes.
    let first = Library::load("first");
    first.work(SECOND);
    first.unload();
    let second = Library::load("second");
    ledger.collect();
    second.work(LATE);
    drop(ledger);
    second.unload();
}

/// The blocks of these sizes were allocated in these libraries.
#[track_caller]
fn check_libraries(outcome: &Outcome, name: &str, blocks: &[(usize, &str)]) {
    let (report, _) = outcome.trace(name);
    for (bytes, library) in blocks {
        let row = row_of(&report, *bytes);
        let frames = row.frames.iter().map(|frame| &report.frames[*frame as usize]);
        let within = frames.filter_map(|frame| {
            Some((own_library(&report.modules[frame.module?].path)?, frame.offset))
        });
        let within = within.collect::<Vec<_>>();
        let [(path, offset)] = within[..] else {
            panic!("{name}, {bytes}: {within:?} in {row:#?}")
        };
        assert_eq!(path, file_of(library), "{name}, {bytes}");
        let start =
            outcome.stdout.lines().find_map(|line| line.strip_prefix(&format!("{library} ")));
        let start = u64::from_str_radix(start.unwrap(), 16).unwrap();
        assert!((start..start + 64).contains(&offset), "{name}, {bytes}: {offset:x} {start:x}");
        // Before the worker has seen the library, a stack ends there.
        let ends = [StackEnd::Complete, StackEnd::NoUnwindInformation];
        assert!(ends[..if *bytes == EARLY { 2 } else { 1 }].contains(&row.end), "{name}: {row:#?}");
    }
}

#[cfg(target_arch = "x86_64")]
type JitWork = extern "sysv64" fn(extern "sysv64" fn(usize), usize);

#[cfg(target_arch = "x86_64")]
extern "sysv64" fn allocate_for_jit(bytes: usize) {
    allocate(bytes);
    black_box(());
}

/// Code as a JIT compiler makes it, which calls the function in its first argument with its second.
#[cfg(target_arch = "x86_64")]
fn jit() {
    #[rustfmt::skip]
    const CODE: [u8; 17] = [
        0x48, 0x83, 0xec, 0x08, // sub rsp, 8
        0x48, 0x89, 0xf8,       // mov rax, rdi
        0x48, 0x89, 0xf7,       // mov rdi, rsi
        0xff, 0xd0,             // call rax
        0x48, 0x83, 0xc4, 0x08, // add rsp, 8
        0xc3,                   // ret
    ];
    const BEHIND_CALL: usize = 12;
    let ledger = builder().stacks(Stacks::On).start().unwrap();
    let page = system::map_code(0, &CODE);
    println!("{:x}", page + BEHIND_CALL);
    let code = std::ptr::with_exposed_provenance::<()>(page);
    // SAFETY: the code is a function of this type.
    let work = unsafe { std::mem::transmute::<*const (), JitWork>(code) };
    for round in 0..1000 {
        work(allocate_for_jit, FIRST);
        if round % 100 == 0 {
            ledger.flush();
        }
    }
    drop(ledger);
}

/// A coroutine that allocates, and is left, below several calls.
fn coroutine() {
    #[inline(never)]
    fn inside(yielder: &Yielder<(), ()>, depth: usize) {
        match depth {
            0 => allocate(FIRST),
            _ => inside(yielder, depth - 1),
        }
        if depth == 2 {
            yielder.suspend(());
        }
    }
    #[inline(never)]
    fn outside() {
        allocate(SECOND);
        black_box(());
    }
    let ledger = builder().stacks(Stacks::On).start().unwrap();
    let mut coroutine = Coroutine::new(|yielder, ()| {
        (0..100).for_each(|_| inside(yielder, 5));
    });
    for _ in 0..100 {
        assert!(matches!(coroutine.resume(()), CoroutineResult::Yield(())));
        outside();
    }
    assert!(matches!(coroutine.resume(()), CoroutineResult::Return(())));
    drop(ledger);
}
