//! Programs that filter their system calls so that one which they never make ends them: they end as without
//! the tracker, and their reports are whole.
//!
//! Each test runs this program again, as a child: first without a recording, then with one.
#![expect(unsafe_code, reason = "the functions of C")]

use libtest_mimic::{Arguments, Trial};
use memledger::TrackingAllocator;
use memledger_analysis::read::read;
use memledger_analysis::{Analyzer, CoverageWord, Report};
use std::fs::{self, File};
use std::hint::{black_box, spin_loop};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

#[global_allocator]
static ALLOC: TrackingAllocator = TrackingAllocator::system();
memledger::track_c_malloc!();

const SCENARIO: &str = "TEST_SCENARIO";
/// One block from before the filter, and others from under it.
const BEFORE: usize = 1_000_003;
const UNDER: usize = 777;
const THREADS: u32 = 8;

/// A test: what the child does, and how many blocks of [`UNDER`] bytes it leaves.
struct Case {
    name: &'static str,
    child: fn(),
    blocks: u32,
    /// Whether its buffers have room for all of its events.
    is_whole: bool,
}

const fn case(name: &'static str, child: fn(), blocks: u32, is_whole: bool) -> Case {
    Case { name, child, blocks, is_whole }
}

const CASES: [Case; 10] = [
    case(
        "a filter that kills the process before exit",
        || alone(by_prctl, KILL_PROCESS, exit),
        5,
        true,
    ),
    case(
        "a filter that kills the process before _exit",
        || alone(by_call, KILL_PROCESS, _exit),
        5,
        true,
    ),
    case("a filter that kills the thread", || alone(by_prctl, KILL_THREAD, exit), 5, true),
    case("a filter that refuses", || alone(by_prctl, REFUSE, exit), 5, true),
    case("a filter of all threads", || alone(of_all, KILL_PROCESS, exit), 5, true),
    case("a filter that the kernel does not take", not_taken, 5, true),
    case("eight threads under filters", || threads(Some(by_call), 1_000), THREADS, true),
    case("eight threads under a filter of all", || threads(None, 1_000), THREADS, true),
    case("more events than buffers hold", || threads(None, 20_000), THREADS, false),
    case("the child of a vfork exits", child_exits, 5, true),
];

fn main() {
    if let Ok(scenario) = std::env::var(SCENARIO) {
        let case = CASES.iter().find(|case| case.name == scenario);
        return (case.expect("a scenario").child)();
    }
    let trials = CASES.map(|case| {
        Trial::test(format!("filter::{}", case.name.replace(' ', "_")), move || {
            check(&case);
            Ok(())
        })
    });
    libtest_mimic::run(&Arguments::from_args(), trials.into()).exit();
}

fn check(case: &Case) {
    let folder = tempfile::tempdir().expect("a folder");
    let run = |variables: &[(&str, &str)]| -> Output {
        let mut command = Command::new("timeout");
        command.arg("60").arg(std::env::current_exe().expect("a program"));
        let variables = variables.iter().copied().chain([(SCENARIO, case.name)]);
        command.envs(variables).current_dir(folder.path()).stdin(Stdio::null());
        command.output().expect("the child starts")
    };
    let plain = run(&[]);
    let tracked = run(&[
        ("MEMLEDGER_TRACE", "trace.utrace"),
        ("MEMLEDGER_REPORT", "report.json"),
        ("MEMLEDGER_WATCH", "1"),
        ("MEMLEDGER_BUFFER_LIMIT", if case.is_whole { "8MiB" } else { "128KiB" }),
    ]);
    let said = |output: &Output| {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    assert_eq!(said(&plain), (Some(4), "done\n".to_owned(), String::new()));
    assert_eq!(said(&plain), said(&tracked));
    let report = report(folder.path());
    let count = |bytes: usize| {
        report.largest_live.iter().filter(|block| block.bytes == bytes as u64).count() as u32
    };
    assert_eq!(count(BEFORE), 1);
    assert_eq!(report.losses.lost_events == 0, case.is_whole, "{:?}", report.losses);
    assert_eq!(report.trace.coverage.word != CoverageWord::Incomplete, case.is_whole);
    assert!(count(UNDER) == case.blocks || !case.is_whole, "{}", count(UNDER));
}

/// The report of the trace, once the watcher has written its own.
fn report(folder: &std::path::Path) -> Report {
    let until = Instant::now() + Duration::from_secs(60);
    while !fs::read_to_string(folder.join("report.json")).is_ok_and(|text| text.ends_with("}\n")) {
        assert!(Instant::now() < until, "no report");
        std::thread::yield_now();
    }
    let mut analyzer = Analyzer::new();
    let file = File::open(folder.join("trace.utrace")).expect("a trace");
    read(file, &mut analyzer).expect("it can be read");
    analyzer.report()
}

const KILL_PROCESS: u32 = libc::SECCOMP_RET_KILL_PROCESS;
const KILL_THREAD: u32 = libc::SECCOMP_RET_KILL_THREAD;
const REFUSE: u32 = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;

/// A filter of these calls: what it does with `calls`, and with others.
fn with_filter(
    calls: &[libc::c_long],
    [theirs, others]: [u32; 2],
    set: impl Fn(*mut libc::sock_fprog),
) {
    let (load, skip, end) = (
        libc::BPF_LD | libc::BPF_W | libc::BPF_ABS,
        libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
        libc::BPF_RET | libc::BPF_K,
    );
    let filter = |code: u32, jf, k| libc::sock_filter { code: code as u16, jt: 0, jf, k };
    let mut filters = [filter(end, 0, others); 16];
    filters[0] = filter(load, 0, 0);
    for (pair, call) in filters[1..].chunks_exact_mut(2).zip(calls) {
        pair.copy_from_slice(&[filter(skip, 1, *call as u32), filter(end, 0, theirs)]);
    }
    // NOTE: an array, whose end is not used: a block would be freed under the filter.
    let mut program =
        libc::sock_fprog { len: 2 + 2 * calls.len() as u16, filter: filters.as_mut_ptr() };
    // SAFETY: takes numbers.
    assert_eq!(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }, 0);
    set(&raw mut program);
}

type Set = fn(*mut libc::sock_fprog) -> libc::c_long;

fn by_prctl(program: *mut libc::sock_fprog) -> libc::c_long {
    // SAFETY: the program is the caller's, here and below.
    unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, program).into() }
}

fn by_call(program: *mut libc::sock_fprog) -> libc::c_long {
    // SAFETY: as above.
    unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, program) }
}

fn of_all(program: *mut libc::sock_fprog) -> libc::c_long {
    let (mode, flags) = (libc::SECCOMP_SET_MODE_FILTER, libc::SECCOMP_FILTER_FLAG_TSYNC);
    // SAFETY: as above.
    unsafe { libc::syscall(libc::SYS_seccomp, mode, flags, program) }
}

/// Only what the end of the program needs is allowed.
fn set_filter(set: Set, others: u32) {
    let calls = [libc::SYS_write, libc::SYS_exit_group];
    with_filter(&calls, [libc::SECCOMP_RET_ALLOW, others], |program| assert_eq!(set(program), 0));
}

fn leave(bytes: usize) {
    std::mem::forget(black_box(vec![1_u8; bytes]));
}

fn done() {
    // SAFETY: writes a static text.
    unsafe { libc::write(1, c"done\n".as_ptr().cast(), 5) };
}

fn exit() -> ! {
    // SAFETY: always allowed.
    unsafe { libc::exit(4) }
}

fn _exit() -> ! {
    // SAFETY: always allowed.
    unsafe { libc::_exit(4) }
}

/// Frees blocks that the C library keeps for this thread: later ones need nothing of the kernel.
fn warm_up() {
    drop(black_box([(); 10].map(|()| vec![0_u8; UNDER])));
    (1..1_000).step_by(16).for_each(|bytes| drop(black_box(vec![0_u8; bytes])));
}

fn alone(set: Set, others: u32, end: fn() -> !) {
    leave(BEFORE);
    warm_up();
    set_filter(set, others);
    (0..5).for_each(|_| leave(UNDER));
    done();
    end()
}

/// Nothing is filtered, and nothing changes.
fn not_taken() {
    leave(BEFORE);
    warm_up();
    for set in [by_prctl as Set, by_call, of_all] {
        assert_eq!(set(std::ptr::null_mut()), -1);
    }
    // It has no end.
    let mut filter = libc::sock_filter { code: 0, jt: 0, jf: 0, k: 0 };
    let mut program = libc::sock_fprog { len: 1, filter: &raw mut filter };
    assert_eq!(by_call(&raw mut program), -1);
    (0..5).for_each(|_| leave(UNDER));
    // The worker is woken.
    (0..200_000).for_each(|bytes| drop(black_box(vec![0_u8; bytes % 500 + 1])));
    done();
    exit()
}

static READY: AtomicU32 = AtomicU32::new(0);
static MAY_BEGIN: AtomicU32 = AtomicU32::new(0);
static DONE: AtomicU32 = AtomicU32::new(0);

fn wait_for(word: &AtomicU32, count: u32) {
    while word.load(Ordering::Acquire) < count {
        spin_loop();
    }
}

/// Each thread has a filter of its own, or all get one of the first.
fn threads(set: Option<Set>, count: usize) {
    leave(BEFORE);
    warm_up();
    for _ in 0..THREADS {
        std::thread::spawn(move || {
            warm_up();
            READY.fetch_add(1, Ordering::AcqRel);
            wait_for(&MAY_BEGIN, 1);
            set.into_iter().for_each(|set| set_filter(set, KILL_PROCESS));
            leave(UNDER);
            (0..count).for_each(|bytes| drop(black_box(vec![0_u8; bytes % 500 + 1])));
            DONE.fetch_add(1, Ordering::AcqRel);
            wait_for(&DONE, u32::MAX);
        });
    }
    wait_for(&READY, THREADS);
    if set.is_none() {
        set_filter(of_all, KILL_PROCESS);
    }
    MAY_BEGIN.store(1, Ordering::Release);
    wait_for(&DONE, THREADS);
    done();
    _exit()
}

/// The child runs what is registered for the exit of its parent, in its memory.
fn child_exits() {
    leave(BEFORE);
    warm_up();
    let calls =
        [libc::SYS_getpid, libc::SYS_gettid, libc::SYS_futex, libc::SYS_tgkill, libc::SYS_clone3];
    with_filter(&calls, [KILL_PROCESS, libc::SECCOMP_RET_ALLOW], |program| {
        assert_eq!(by_prctl(program), 0);
    });
    // SAFETY: the child exits at once.
    #[allow(deprecated, reason = "this is what is tested")]
    unsafe {
        let child = libc::vfork();
        if child == 0 {
            libc::exit(0);
        }
        let mut status = -1;
        libc::waitpid(child, &raw mut status, 0);
        assert_eq!(status, 0);
    }
    (0..5).for_each(|_| leave(UNDER));
    done();
    exit()
}
