//! Forked children that are recorded, and that end without a report: each has a watcher.
#![expect(unsafe_code, reason = "ends processes")]

use crate::counts::{Counts, counts_agree_in, map_counts_in, reported, wait_for_report};
use crate::descriptors::open;
use crate::fork::{fork, wait};
use crate::harness::{Case, Outcome, Run, builder, case, churn, kill, leave, left};
use crate::watcher::fork_without_handlers;
use memledger::{Name, Worker, alloc_scope};
use memledger_analysis::UntrackedKind;
use std::collections::BTreeMap;
use std::fs;
use std::hint::black_box;
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, id};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

pub(crate) const CASES: &[Case] = &[
    case("children of one thread that are killed lose nothing", killed, |run| {
        check_killed(run.env("TEST_THREADS", "0"));
    }),
    case("children of eight threads that are killed lose nothing", killed, |run| {
        check_killed(run.env("TEST_THREADS", "7"));
    }),
    case("however a child of a child ends, it has a report of all", generations, |run| {
        let outcome = reported(set(run).env("MEMLEDGER_REPORT_ON_SIGNALS", "1").spawn());
        outcome.whole();
        let lines: Vec<_> = outcome.stdout.lines().collect();
        assert_eq!(lines.len(), 2 * WAYS.len(), "{lines:?}");
        for child in lines {
            check_child(&outcome, child, false);
        }
    }),
    case("a compact trace of a child is completed, too", killed, |run| {
        let run = set(run).env("TEST_THREADS", "0").env("MEMLEDGER_TRACE", "trace.memledger");
        let outcome = reported(run.spawn());
        let mut checked = 0;
        for child in outcome.stdout.lines() {
            if outcome.path(&format!("trace.{child}.memledger")).exists() {
                let names = (format!("trace.{child}.memledger"), format!("report.{child}.json"));
                wait_for_report(&outcome.path(&names.1));
                let report = outcome.whole_as(&names.0, &names.1);
                counts_agree_in(&format!("counts.{child}"), &outcome, &report, true);
                checked += 1;
            }
        }
        assert!(checked > 0);
    }),
    case("workers that are replaced leave no watcher and no descriptor", replaced, |run| {
        let outcome = reported(set(run).deadline(100).spawn());
        outcome.exited(0).whole();
        let folder = outcome.path("");
        let until = Instant::now() + Duration::from_secs(60);
        while watchers_in(&folder) > 0 {
            assert!(Instant::now() < until, "watchers stay");
            std::thread::yield_now();
        }
    }),
    case("forks show the program no descriptor and no child", shows_nothing, |run| {
        let outcome = reported(set(run).spawn());
        outcome.exited(0).whole();
        outcome.quiet();
        assert_eq!(outcome.stdout.lines().count(), 2 * SHOWN_FORKS, "{}", outcome.stdout);
        for child in outcome.stdout.lines() {
            check_left(&outcome, child);
        }
    }),
    case(
        "without a table of the tracker's own, too, a child has a watcher",
        without_table,
        |run| {
            let outcome = reported(run.spawn());
            outcome.exited(0);
            check_left(&outcome, outcome.stdout.trim());
        },
    ),
    case("a child that can have no watcher says so, and is as without one", cannot, |run| {
        let outcome = reported(set(run).env("MEMLEDGER_REPORT_ON_SIGNALS", "1").spawn());
        outcome.exited(0).whole();
        let lines: Vec<_> = outcome.stderr.lines().collect();
        let why = "memledger: there is no watcher: ulimit -f allows files of 67108864 bytes, ";
        assert!(lines.len() == 1 && lines[0].starts_with(why), "{lines:?}");
        check_left(&outcome, outcome.stdout.trim());
    }),
    case("a child's watcher keeps no page of a large program", large, |run| {
        let outcome = reported(set(run).spawn());
        outcome.exited(0).whole();
        for line in outcome.stdout.lines() {
            let resident = line.parse::<u64>().unwrap();
            assert!(resident < LARGE as u64 / 8, "{}", outcome.stdout);
        }
        assert_eq!(outcome.stdout.lines().count(), 2 + FORKS, "{}", outcome.stdout);
    }),
    case("a child that replaces itself leaves its names to the new program", replaces, |run| {
        let outcome = reported(set(run).spawn());
        outcome.exited(0).whole();
        for child in outcome.stdout.lines() {
            let names = (format!("trace.{child}.utrace"), format!("report.{child}.json"));
            wait_for_report(&outcome.path(&names.1));
            let report = outcome.whole_as(&names.0, &names.1);
            assert_eq!(left(&report, IN_PROGRAM as u64), 1);
            assert_eq!(left(&report, IN_CHILD as u64), 0);
        }
        assert_eq!(outcome.files().len(), 2 + 2 * 2, "{:?}", outcome.files());
    }),
    case(
        "a child that replaces itself by a program without the tracker has a trace",
        by_true,
        |run| {
            let outcome = reported(set(run).spawn());
            outcome.exited(0).whole();
            let child = outcome.stdout.trim();
            let names = (format!("trace.{child}.utrace"), format!("report.{child}.json"));
            wait_for_report(&outcome.path(&names.1));
            let report = outcome.same(&names.0, &names.1);
            assert_eq!(left(&report, IN_CHILD as u64), 1);
            let kinds = report.untracked.reasons.iter().map(|reason| reason.kind);
            let kinds = kinds.collect::<Vec<_>>();
            // NOTE: what has ended before the watcher looks is not noticed.
            assert!(kinds.is_empty() || kinds == [UntrackedKind::Replaced], "{kinds:?}");
            assert_eq!(report.trace.complete, kinds.is_empty());
        },
    ),
];

const IN_CHILD: usize = 3_000_017;
const IN_PROGRAM: usize = 3_000_029;

fn set(run: Run) -> Run {
    run.tracked().env("MEMLEDGER_WATCH", "1").env("MEMLEDGER_FOLLOW_FORKS", "1")
}

#[track_caller]
fn check_killed(run: Run) {
    let outcome = reported(set(run).deadline(100).spawn());
    outcome.exited(0).whole();
    let mut told = 0;
    for child in outcome.stdout.lines() {
        if outcome.path(&format!("trace.{child}.utrace")).exists() {
            check_child(&outcome, child, true);
        } else {
            // The machine was so busy that a lock was not free in time.
            told += 1;
        }
    }
    assert!(told < CHILDREN, "none was recorded");
    assert!(outcome.stderr.lines().all(|line| line.contains("a forked process is not recorded")));
    assert_eq!(outcome.stderr.lines().count(), told, "{}", outcome.stderr);
}

/// The trace and the report of a child are whole, and have what it has counted.
#[track_caller]
fn check_child(outcome: &Outcome, child: &str, at_work: bool) {
    let (trace, report) = (format!("trace.{child}.utrace"), format!("report.{child}.json"));
    wait_for_report(&outcome.path(&report));
    let report = outcome.equal(&trace, &report);
    assert_eq!(report.trace.from_process_start, Some(true));
    // On a busy machine, a thread may not have waited for the fork; that is said.
    let missed = report.trace.missed_at_start;
    assert_eq!(report.trace.complete, missed == 0, "{missed}, {:?}", report.losses);
    assert_eq!((report.losses.lost_events, report.losses.serial_holes), (0, 0));
    assert_eq!(report.trace.pid, Some(child.parse().unwrap()));
    assert!(report.by_thread.iter().any(|row| row.name == "main"));
    counts_agree_in(&format!("counts.{child}"), outcome, &report, at_work);
}

/// The trace and the report of a child are whole, and have the block that it has left.
#[track_caller]
fn check_left(outcome: &Outcome, child: &str) {
    let (trace, report) = (format!("trace.{child}.utrace"), format!("report.{child}.json"));
    wait_for_report(&outcome.path(&report));
    assert_eq!(left(&outcome.whole_as(&trace, &report), IN_CHILD as u64), 1);
}

/// How many watchers have this working directory.
fn watchers_in(folder: &Path) -> usize {
    watchers(folder).len()
}

/// The watchers with this working directory.
fn watchers(folder: &Path) -> Vec<PathBuf> {
    let folder = folder.canonicalize().unwrap();
    let processes = fs::read_dir("/proc").unwrap().flatten().map(|process| process.path());
    let is_one = |process: &PathBuf| {
        fs::read_to_string(process.join("comm")).is_ok_and(|name| name == "memledger-watch\n")
            && fs::read_link(process.join("cwd")).is_ok_and(|of| of == folder)
    };
    processes.filter(is_one).collect()
}

fn wait_until(what: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(60);
    while !what() {
        assert!(Instant::now() < until);
        std::thread::yield_now();
    }
}

fn exists(name: &str) -> bool {
    Path::new(name).exists()
}

const CHILDREN: usize = 10;
/// Each of a hundred blocks.
const BUSY_ROUNDS: usize = 2_000;

/// Kills children that are at work on eight threads, each a little later.
///
/// NOTE: what each thread does is bounded, here and in the children. On a busy machine it takes long until
/// the last child is killed, and threads that never stop write gigabytes meanwhile, which watchers read.
fn killed() {
    static STOP: AtomicBool = AtomicBool::new(false);
    let threads = std::env::var("TEST_THREADS").unwrap().parse::<usize>().unwrap();
    let busy = || {
        for _ in 0..BUSY_ROUNDS {
            if STOP.load(Ordering::Relaxed) {
                break;
            }
            alloc_scope!("busy", { churn(100) });
        }
    };
    let others = (0..threads).map(|_| std::thread::spawn(busy)).collect::<Vec<_>>();
    for number in 0..CHILDREN {
        alloc_scope!(Name::intern(&format!("before child {number}")), { churn(10) });
        let child = fork(work_until_killed);
        wait_until(|| exists(&format!("ready.{child}")));
        let until = Instant::now() + Duration::from_micros(number as u64 * 3_400);
        while Instant::now() < until {
            std::thread::yield_now();
        }
        kill(child, libc::SIGKILL);
        assert_eq!(wait(child), libc::SIGKILL);
        println!("{child}");
    }
    STOP.store(true, Ordering::Relaxed);
    others.into_iter().for_each(|thread| thread.join().unwrap());
}

fn work_until_killed() {
    let counts = map_counts_in(&format!("counts.{}", id()));
    let work = |counts: &'static Counts| -> ! {
        for _ in 0..BUSY_ROUNDS {
            alloc_scope!("counted", { counts.work(100) });
        }
        loop {
            std::thread::park();
        }
    };
    for counts in &counts[1..8] {
        std::thread::spawn(move || work(counts));
    }
    alloc_scope!("counted", { counts[0].work(100) });
    fs::write(format!("ready.{}", id()), "").unwrap();
    work(&counts[0]);
}

const WAYS: [&str; 6] = ["KILL", "TERM", "abort", "SEGV", "_exit", "exit"];

/// A child and its child for each way to end.
fn generations() {
    for way in WAYS {
        let child = fork(|| {
            do_and_end(way, || {
                let grandchild = fork(|| do_and_end(way, || {}));
                wait(grandchild);
                println!("{grandchild}");
            });
        });
        wait(child);
        println!("{child}");
    }
}

fn do_and_end(way: &str, first: impl FnOnce()) {
    let counts = map_counts_in(&format!("counts.{}", id()));
    // The child of this one has none of these blocks.
    first();
    alloc_scope!("counted", { counts[0].work(3_000) });
    // What a child frees that no handler of a fork knows of, is not in what this one shares with its watcher.
    // NOTE: a small block, for which the C library takes no lock, because another thread may have had it.
    let free = alloc_scope!("counted", { counts[0].leave() });
    assert_eq!(wait(fork_without_handlers(free)), 0);
    // A name that is new, and a thread that has ended.
    alloc_scope!(Name::intern(&format!("of {way}")), { churn(10) });
    std::thread::spawn(|| alloc_scope!("counted", { counts[1].work(100) })).join().unwrap();
    alloc_scope!("counted", { counts[0].work(3_000) });
    // SAFETY: none. This is the end.
    unsafe {
        match way {
            "KILL" => libc::kill(libc::getpid(), libc::SIGKILL),
            "TERM" => libc::raise(libc::SIGTERM),
            "abort" => libc::abort(),
            "SEGV" => {
                black_box(16 as *mut u8).write_volatile(1);
                0
            }
            "_exit" => libc::_exit(5),
            _ => libc::exit(5),
        };
    }
    std::thread::sleep(Duration::from_secs(60));
}

/// A server that kills its workers and forks others.
fn replaced() {
    let own = std::env::current_dir().unwrap();
    let open = || fs::read_dir("/proc/self/fd").unwrap().count();
    let before = open();
    // That of the server, and that of the family.
    wait_until(|| watchers_in(&own) == 2);
    for _ in 0..20 {
        let (mut reader, writer) = io::pipe().unwrap();
        let mut writer = Some(writer);
        let child = fork(|| {
            drop(writer.take());
            churn(100);
            fs::write(format!("ready.{}", id()), "").unwrap();
            std::thread::sleep(Duration::from_secs(60));
        });
        drop(writer);
        wait_until(|| exists(&format!("ready.{child}")));
        wait_until(|| watchers_in(&own) == 3);
        // The pipe has an end once the child, which lives on, has closed its side, and no watcher has a copy.
        assert_eq!(reader.read(&mut [0]).unwrap(), 0);
        kill(child, libc::SIGKILL);
        assert_eq!(wait(child), libc::SIGKILL);
    }
    wait_until(|| watchers_in(&own) == 2);
    assert_eq!(open(), before);
    // SAFETY: no status is written.
    let waited = unsafe { libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG) };
    assert_eq!(waited, -1, "no child is left");
}

const SHOWN_FORKS: usize = 10;

/// Forks, and looks at what it can see of that, also on another thread.
fn shows_nothing() {
    static ENDED: AtomicUsize = AtomicUsize::new(0);
    static STOP: AtomicBool = AtomicBool::new(false);
    extern "C" fn ended(_: libc::c_int) {
        ENDED.fetch_add(1, Ordering::Relaxed);
    }
    // SAFETY: the handler only counts.
    unsafe { libc::signal(libc::SIGCHLD, ended as *const () as libc::sighandler_t) };
    let before = open();
    let expected = before.clone();
    let looks = std::thread::spawn(move || {
        while !STOP.load(Ordering::Relaxed) {
            assert_eq!(open(), expected, "while it forks");
        }
    });
    let end = |before: &BTreeMap<i32, String>| {
        assert_eq!(&open(), before, "in a child");
        leave(IN_CHILD);
        kill(id() as libc::pid_t, libc::SIGKILL);
    };
    for _ in 0..SHOWN_FORKS {
        let child = fork(|| {
            ENDED.store(0, Ordering::Relaxed);
            let grandchild = fork(|| end(&before));
            assert_eq!(wait(grandchild), libc::SIGKILL);
            assert_eq!(ENDED.load(Ordering::Relaxed), 1, "SIGCHLD in a child");
            println!("{grandchild}");
            end(&before);
        });
        assert_eq!(wait(child), libc::SIGKILL);
        println!("{child}");
    }
    STOP.store(true, Ordering::Relaxed);
    looks.join().unwrap();
    assert_eq!(ENDED.load(Ordering::Relaxed), SHOWN_FORKS, "SIGCHLD");
    assert_eq!(open(), before);
    // SAFETY: no status is written.
    let waited = unsafe { libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG) };
    assert_eq!(waited, -1, "no child is left");
}

fn without_table() {
    let ledger = builder().worker(Worker::Manual).watch(true).follow_forks(true).start().unwrap();
    let before = open();
    let child = fork(|| {
        leave(IN_CHILD);
        kill(id() as libc::pid_t, libc::SIGKILL);
    });
    assert_eq!(wait(child), libc::SIGKILL);
    println!("{child}");
    assert_eq!(open(), before);
    drop(ledger);
}

fn cannot() {
    let limit = libc::rlimit { rlim_cur: 64 << 20, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: a limit of this process.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit) }, 0);
    let child = fork(|| {
        leave(IN_CHILD);
        kill(id() as libc::pid_t, libc::SIGTERM);
        std::thread::sleep(Duration::from_secs(60));
    });
    assert_eq!(wait(child), libc::SIGTERM);
    println!("{child}");
}

/// Bytes of a program that has far more than a watcher may have.
const LARGE: usize = 256 << 20;
const FORKS: usize = 4;

/// Forks while it has much memory, writes to all of it, and prints how many bytes are resident in each
/// watcher.
fn large() {
    let own = std::env::current_dir().unwrap();
    let mut memory = black_box(vec![1_u8; LARGE]);
    let (children, micros): (Vec<_>, Vec<_>) = (0..FORKS)
        .map(|_| {
            let begin = Instant::now();
            let child = fork(|| {
                churn(100);
                fs::write(format!("ready.{}", id()), "").unwrap();
                std::thread::sleep(Duration::from_secs(60));
            });
            (child, begin.elapsed().as_micros())
        })
        .unzip();
    // For who measures.
    fs::write("micros", format!("{micros:?}\n")).unwrap();
    children.iter().for_each(|child| wait_until(|| exists(&format!("ready.{child}"))));
    wait_until(|| watchers_in(&own) == 2 + FORKS);
    memory.fill(2);
    black_box(&memory);
    for watcher in watchers(&own) {
        let pages = fs::read_to_string(watcher.join("statm")).unwrap();
        let resident = pages.split(' ').nth(1).unwrap().parse::<u64>().unwrap();
        println!("{}", resident * 4096);
    }
    for child in children {
        kill(child, libc::SIGKILL);
        assert_eq!(wait(child), libc::SIGKILL);
    }
}

fn replaces() {
    if std::env::var_os("TEST_REPLACED").is_some() {
        leave(IN_PROGRAM);
        if std::env::var("TEST_REPLACED").unwrap() == "killed" {
            kill(id() as libc::pid_t, libc::SIGKILL);
        }
        return;
    }
    for end in ["killed", "exit"] {
        let child = fork(|| {
            leave(IN_CHILD);
            churn(10_000);
            let mut command = Command::new(std::env::current_exe().unwrap());
            panic!("{}", command.env("TEST_REPLACED", end).exec());
        });
        wait(child);
        println!("{child}");
    }
}

fn by_true() {
    let child = fork(|| {
        leave(IN_CHILD);
        churn(10_000);
        panic!("{}", Command::new("true").exec());
    });
    assert_eq!(wait(child), 0);
    println!("{child}");
}
