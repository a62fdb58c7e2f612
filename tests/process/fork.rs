//! Children: forked, spawned, and other programs that inherit the environment.

use crate::harness::{
    Case, Outcome, REPORT, TRACE, builder, case, churn, kill, leave, left, start,
};
use memledger::perfetto::Track;
use memledger::{ErrorKind, Ledger};
use std::hint::black_box;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub(crate) const CASES: &[Case] = &[
    case("forked children leave the parent's trace alone", forks, |run| {
        let outcome = run.deadline(60).run();
        let report = outcome.quiet().whole();
        assert_eq!(left(&report, IN_CHILD as u64), 0);
        assert_eq!(outcome.files(), [REPORT, TRACE]);
    }),
    case("a forked child that runs on and exits does no harm", long_child, |run| {
        let outcome = run.deadline(60).run();
        let report = outcome.quiet().whole();
        assert_eq!(left(&report, IN_CHILD as u64), 0);
        assert_eq!(outcome.files(), [REPORT, TRACE]);
    }),
    case("a fork before any start changes nothing for the parent", fork_before_start, |run| {
        let report = run.run().quiet().whole();
        assert_eq!(report.trace.from_process_start, Some(true));
    }),
    case("a program that forks before it starts records in the child", daemon, |run| {
        let report = run.run().quiet().whole();
        assert_eq!(report.trace.from_process_start, Some(true));
        assert_eq!(left(&report, 1_000_003), 1, "from before the fork");
        assert_eq!(left(&report, IN_CHILD as u64), 1);
        // The child's thread is another than the parent's, though it continues the same code.
        let names = report.by_thread.iter().map(|row| &row.name[..]).collect::<Vec<_>>();
        assert!(names.contains(&"after the fork"), "{names:?}");
    }),
    case("the files are free again though a forked child lives on", fork_holds_no_lock, |run| {
        let outcome = run.run();
        let report = outcome.quiet().whole();
        assert_eq!(report.trace.from_process_start, Some(false));
        assert_eq!(outcome.files(), [REPORT, TRACE]);
    }),
    case("a child that is to follow writes files of its own", follows, |run| {
        let outcome = run.run();
        check_followed(outcome.quiet());
    }),
    case("the environment can have children follow", follows, |run| {
        let outcome = run.tracked().env("MEMLEDGER_FOLLOW_FORKS", "1").run();
        check_followed(outcome.quiet());
    }),
    case("children of many threads follow without harm", follows_threads, |run| {
        let outcome = run.deadline(300).run();
        outcome.exited(0).whole();
        let children: Vec<_> = outcome.stdout.lines().collect();
        assert_eq!(children.len(), 15);
        let (mut told, mut lines) = (0, outcome.stderr.lines());
        for child in children {
            let name = format!("trace.{child}.utrace");
            if !outcome.path(&name).exists() {
                // The machine was so busy that a lock was not free in time.
                told += 1;
                continue;
            }
            let (report, summary) = outcome.trace(&name);
            assert_eq!((summary.counts.holes, summary.counts.damages), (0, 0));
            // Or so busy that a thread was not out of the hook in time.
            assert_eq!(report.trace.complete, report.trace.missed_at_start == 0);
            assert_eq!(left(&report, 1_000_003), 1);
            assert_eq!(left(&report, IN_CHILD as u64), 1);
            assert_eq!(report.trace.pid, Some(child.parse().unwrap()));
        }
        assert!(lines.all(|line| line.contains("a forked process is not recorded")));
        assert_eq!(outcome.stderr.lines().count(), told, "{}", outcome.stderr);
    }),
    case("destinations of the parent are not the child's", forks_beside, |run| {
        let outcome = run.run();
        outcome.quiet().whole();
        let late = outcome.trace("late.utrace").0;
        assert!(late.trace.complete);
        assert_eq!(left(&late, IN_CHILD as u64), 0);
    }),
    case(
        "a child of threads that register tracks can register some",
        forks_while_registering,
        |run| {
            run.deadline(60).run().exited(0);
        },
    ),
    case("programs can be spawned", spawns, |run| {
        let outcome = run.run();
        outcome.quiet().whole();
        assert_eq!(outcome.files(), [REPORT, TRACE]);
    }),
    case(
        "a program that inherits names for the children of another writes nothing",
        inherits,
        |run| {
            let parent = std::process::id().to_string();
            let outcome = run.tracked().env("MEMLEDGER_PARENT", parent).run();
            outcome.quiet().whole();
            assert_eq!(outcome.files(), [REPORT, TRACE]);
            let outcome = outcome.again().tracked().env("MEMLEDGER_PARENT", "1").run();
            assert_eq!(outcome.quiet().files(), [""; 0]);
        },
    ),
    case("a program that inherits the names writes beside them", inherits, |run| {
        let outcome = run.tracked().run();
        outcome.exited(0);
        outcome.whole();
        let child = outcome.stdout.trim();
        let (trace, report) = (format!("trace.{child}.utrace"), format!("report.{child}.json"));
        assert_eq!(outcome.files(), [&report, REPORT, &trace, TRACE]);
        let inherited = outcome.whole_as(&trace, &report);
        assert_eq!(inherited.trace.pid, Some(child.parse().unwrap()));
        let lines: Vec<_> = outcome.stderr.lines().collect();
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(lines[0].contains(&trace) && lines[1].contains(&report), "{lines:?}");
    }),
];

const IN_CHILD: usize = 3_000_017;
const IN_GRANDCHILD: usize = 3_000_019;

#[expect(unsafe_code, reason = "system calls")]
mod system {
    #[cfg(target_os = "linux")]
    use libc::__errno_location as errno;
    #[cfg(target_os = "macos")]
    use libc::__error as errno;

    /// Forks; the child runs `body` and ends at once, unless that ends it.
    pub(crate) fn fork(body: impl FnOnce()) -> libc::pid_t {
        // SAFETY: the child uses what glibc keeps usable, and ends without unwinding.
        unsafe {
            *errno() = 4321;
            let child = libc::fork();
            // A fork that succeeds leaves it alone.
            let errno = *errno();
            match child {
                0 if errno != 4321 => libc::_exit(41),
                0 => {
                    body();
                    libc::_exit(0);
                }
                -1 => panic!("fork: {}", std::io::Error::last_os_error()),
                child => {
                    assert_eq!(errno, 4321, "errno after a fork");
                    child
                }
            }
        }
    }

    /// Forks, and returns in both processes; the child gets 0.
    pub(crate) fn fork_through() -> libc::pid_t {
        // SAFETY: as above.
        let child = unsafe { libc::fork() };
        assert!(child >= 0, "fork: {}", std::io::Error::last_os_error());
        child
    }

    /// Ends the child of a fork, without what a process does at its end.
    pub(crate) fn exit_now() -> ! {
        // SAFETY: it ends the process.
        unsafe { libc::_exit(0) }
    }

    /// Waits for a child; its status as `wait` gives it.
    pub(crate) fn wait(child: libc::pid_t) -> libc::c_int {
        let mut status = 0;
        loop {
            // SAFETY: the status is written to a local.
            if unsafe { libc::waitpid(child, &raw mut status, 0) } == child {
                return status;
            }
        }
    }

    /// Waits in the child until a signal ends it.
    pub(super) fn wait_for_the_end() {
        loop {
            // SAFETY: waits.
            unsafe { libc::pause() };
        }
    }
}
use system::wait_for_the_end;
pub(crate) use system::{exit_now, fork, fork_through, wait};

/// Eight threads that allocate until `body` has returned.
fn with_busy_threads(ledger: Option<&Ledger>, body: impl FnOnce()) {
    let stop = Arc::new(AtomicBool::new(false));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    memledger::alloc_scope!("busy", { churn(100) });
                }
            });
        }
        if let Some(ledger) = ledger {
            // Holds the ledger's own locks at the moment of a fork, now and then.
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    drop(ledger.snapshot());
                    ledger.stats();
                }
            });
        }
        body();
        stop.store(true, Ordering::Relaxed);
    });
}

fn forks() {
    let ledger = start();
    with_busy_threads(None, || {
        for _ in 0..200 {
            let child = fork(|| {
                leave(IN_CHILD);
                memledger::alloc_scope!("child", { churn(100) });
            });
            churn(100);
            assert_eq!(wait(child), 0);
        }
    });
    drop(ledger);
}

fn long_child() {
    let ledger = start();
    with_busy_threads(Some(&ledger), || {
        for round in 0..50 {
            let child = fork(|| {
                leave(IN_CHILD);
                churn(1000);
                ledger.flush();
                ledger.collect();
                assert!(!ledger.stats().recording);
                assert!(ledger.snapshot().is_none());
                let second = Ledger::builder().trace_to_file("child.utrace").start();
                assert!(
                    matches!(&second, Err(error) if error.kind() == ErrorKind::ForkedChild),
                    "{second:?}"
                );
                std::thread::spawn(|| churn(100)).join().unwrap();
                if round % 2 == 0 {
                    std::process::exit(0);
                }
                // Nested, as a daemon does.
                assert_eq!(wait(fork(|| churn(100))), 0);
            });
            assert_eq!(wait(child), 0, "round {round}");
        }
    });
    drop(ledger);
}

/// A child that frees what its parent had, and forks again.
fn follows() {
    let ledger = match std::env::var_os("MEMLEDGER_TRACE") {
        Some(_) => Ledger::from_env(),
        None => builder().follow_forks(true).start().unwrap(),
    };
    leave(1_000_003);
    let inherited = black_box(vec![1_u8; 1_000_005]);
    let child = memledger::alloc_scope!("forking", {
        fork(|| {
            leave(IN_CHILD);
            drop(inherited);
            churn(10_000);
            assert!(ledger.stats().recording);
            std::thread::spawn(|| churn(1000)).join().unwrap();
            let grandchild = fork(|| {
                leave(IN_GRANDCHILD);
                std::process::exit(0);
            });
            assert_eq!(wait(grandchild), 0);
            println!("{} {grandchild}", std::process::id());
            std::process::exit(0);
        })
    });
    assert_eq!(wait(child), 0);
    churn(10_000);
    drop(ledger);
}

#[track_caller]
fn check_followed(outcome: &Outcome) {
    let parent = outcome.whole();
    let lefts = |report: &_| {
        [1_000_003, 1_000_005, IN_CHILD, IN_GRANDCHILD].map(|b| left(report, b as u64))
    };
    assert_eq!(lefts(&parent)[2..], [0, 0]);
    let (child, grandchild) = outcome.stdout.trim().split_once(' ').unwrap();
    for (pid, expected) in [(child, [1, 0, 1, 0]), (grandchild, [1, 0, 1, 1])] {
        let names = (format!("trace.{pid}.utrace"), format!("report.{pid}.json"));
        let report = outcome.whole_as(&names.0, &names.1);
        assert_eq!(lefts(&report), expected);
        assert_eq!(report.trace.from_process_start, Some(true));
        assert_eq!(report.trace.pid, Some(pid.parse().unwrap()));
        let block = report.largest_live.iter().find(|b| b.bytes == IN_CHILD as u64).unwrap();
        assert_eq!((&block.path[1][..], &block.thread[..]), ("forking", "main"));
    }
    assert_eq!(outcome.files().len(), 6);
}

fn follows_threads() {
    let ledger = Ledger::builder()
        .trace_to_file(TRACE)
        .report_on_exit(memledger::ReportTo::file(REPORT))
        .follow_forks(true)
        .start()
        .unwrap();
    leave(1_000_003);
    with_busy_threads(Some(&ledger), || {
        for _ in 0..15 {
            let child = fork(|| {
                leave(IN_CHILD);
                churn(1000);
                std::process::exit(0);
            });
            println!("{child}");
            assert_eq!(wait(child), 0);
        }
    });
    drop(ledger);
}

fn forks_beside() {
    let ledger = start();
    let late = ledger.trace_to_file("late.utrace").unwrap();
    let child = fork(|| {
        leave(IN_CHILD);
        late.stop();
        assert_eq!(late.status(), memledger::DestinationStatus::default());
        assert_eq!(ledger.destinations(), []);
        assert!(ledger.trace_to_file("other.utrace").is_err());
        std::process::exit(0);
    });
    assert_eq!(wait(child), 0);
    churn(1000);
    drop(ledger);
}

/// Without a ledger, so that nothing prepares the fork.
fn forks_while_registering() {
    let stop = AtomicBool::new(false);
    let register = |id| Track::named("a track with a name of some length", id).register();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for id in (0..1000).cycle().take_while(|_| !stop.load(Ordering::Relaxed)) {
                    register(id).unwrap();
                }
            });
        }
        for round in 0..200 {
            let child = fork(|| {
                for id in [round, 5000 + round] {
                    assert!(register(id).is_ok());
                }
            });
            assert_eq!(wait(child), 0, "round {round}");
        }
        stop.store(true, Ordering::Relaxed);
    });
}

fn fork_before_start() {
    let child = fork(|| churn(1000));
    assert_eq!(wait(child), 0);
    churn(1000);
    let _ledger = start();
    churn(1000);
}

fn daemon() {
    leave(1_000_003);
    let (sender, receiver) = std::sync::mpsc::channel::<()>();
    let ready = Arc::new(std::sync::Barrier::new(2));
    // A thread of the parent that the child does not have.
    let other = std::thread::spawn({
        let ready = Arc::clone(&ready);
        move || {
            churn(10);
            ready.wait();
            let _ = receiver.recv();
        }
    });
    ready.wait();
    let child = fork(|| {
        let ledger = start();
        // Longer than the worker takes to look for threads that are gone: the parent's are.
        let until = std::time::Instant::now() + std::time::Duration::from_millis(1300);
        while std::time::Instant::now() < until {
            churn(1000);
            ledger.flush();
        }
        let thread = std::thread::Builder::new().name("after the fork".into());
        let thread = thread.spawn(|| {
            churn(1000);
            leave(IN_CHILD);
        });
        thread.unwrap().join().unwrap();
        drop(ledger);
    });
    assert_eq!(wait(child), 0);
    drop(sender);
    other.join().unwrap();
}

fn fork_holds_no_lock() {
    let first = start();
    churn(1000);
    let child = fork(wait_for_the_end);
    drop(first);
    // The same files again, whose open descriptions the child shares.
    let second = start();
    assert_eq!(second.problems(), []);
    drop(second);
    kill(child, libc::SIGKILL);
    wait(child);
}

fn spawns() {
    let ledger = start();
    with_busy_threads(None, || {
        for round in 0..20 {
            let mut command = Command::new("true");
            if round % 2 == 0 {
                // SAFETY: it allocates after a fork, which is what the test is about; the allocator
                // permits it.
                #[expect(unsafe_code)]
                unsafe {
                    command.pre_exec(|| {
                        leave(IN_CHILD);
                        churn(100);
                        Ok(())
                    })
                };
            }
            assert!(command.status().unwrap().success());
        }
    });
    drop(ledger);
}

fn inherits() {
    churn(100);
    if std::env::var_os("TEST_INHERITED").is_none() {
        let mut command = Command::new(std::env::current_exe().unwrap());
        let mut child = command.env("TEST_INHERITED", "1").spawn().unwrap();
        println!("{}", child.id());
        assert!(child.wait().unwrap().success());
    }
    churn(100);
}
