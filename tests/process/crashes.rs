//! Programs that crash, or end without `exit`, and have asked for their report before that.

use crate::allocator::CRASHES_AT;
use crate::counts::reported;
use crate::fork::{fork, wait};
use crate::harness::{Case, Run, builder, case, churn, leave, left};
use crate::start::IN_MAIN;
use libc::c_int;
use std::hint::black_box;
use std::os::unix::process::ExitStatusExt;
use std::sync::atomic::Ordering;
use std::time::Duration;

pub(crate) const CASES: &[Case] = &[
    case(
        "a program that aborts gives its report first",
        || crash(abort),
        |run| ends_by(run, libc::SIGABRT, ""),
    ),
    case(
        "a program that accesses no memory gives its report first",
        || crash(no_memory),
        |run| ends_by(run, libc::SIGSEGV, ""),
    ),
    case(
        "a program that accesses a cut file gives its report first",
        || crash(cut_file),
        |run| ends_by(run, libc::SIGBUS, ""),
    ),
    case(
        "a program without an instruction gives its report first",
        || crash(no_instruction),
        |run| ends_by(run, libc::SIGILL, ""),
    ),
    case(
        "a program that divides by zero gives its report first",
        || crash(by_zero),
        |run| ends_by(run, libc::SIGFPE, ""),
    ),
    // The runtime of Rust ends it by `abort`.
    case(
        "a program that overflows its stack gives its report first",
        || crash(overflow),
        |run| ends_by(run, libc::SIGABRT, "has overflowed its stack"),
    ),
    case(
        "a thread that overflows its stack, too",
        || on_thread(|| crash(overflow)),
        |run| ends_by(run, libc::SIGABRT, "has overflowed its stack"),
    ),
    case(
        "a thread that accesses no memory, too",
        || on_thread(|| crash(no_memory)),
        |run| ends_by(run, libc::SIGSEGV, ""),
    ),
    case("a crash inside the program's allocator, too", inside_allocator, |run| {
        ends_by(run, libc::SIGSEGV, "")
    }),
    case(
        "a signal of a crash that another process sends, too",
        || crash(sent),
        |run| ends_by(run, libc::SIGFPE, ""),
    ),
    case(
        "the environment can ask for that, too",
        || end_by(no_memory),
        |run| {
            let run = run.tracked().env("MEMLEDGER_REPORT_ON_SIGNALS", "1");
            ends_by(run.env("MEMLEDGER_WATCH", "0"), libc::SIGSEGV, "");
        },
    ),
    // The crashes are in `at_once`.
    case(
        "a crash at the first allocation in main has a report",
        || {},
        |run| {
            for _ in 0..50 {
                let run = Run::of(&run).tracked().env("MEMLEDGER_REPORT_ON_SIGNALS", "1");
                let run = run.env("MEMLEDGER_WATCH", "0").env(CRASHES_IN_MAIN, "allocation");
                let outcome = run.run();
                assert_eq!(outcome.status.signal(), Some(libc::SIGSEGV), "{}", outcome.status);
                assert_eq!(left(&outcome.whole(), FIRST_BLOCK as u64), 1);
            }
        },
    ),
    case(
        "a crash at the first statement of main has a report by a watcher",
        || {},
        |run| {
            for _ in 0..50 {
                let run = Run::of(&run).tracked().env("MEMLEDGER_REPORT_ON_SIGNALS", "1");
                let outcome = reported(run.env(CRASHES_IN_MAIN, "statement").spawn());
                assert_eq!(outcome.status.signal(), Some(libc::SIGSEGV), "{}", outcome.status);
                outcome.whole();
            }
        },
    ),
    case("a crash when the eighth thread starts has a report", in_eighth_thread, |run| {
        for number in 0..50 {
            let run = Run::of(&run).tracked().env("MEMLEDGER_REPORT_ON_SIGNALS", "1");
            let is_watched = number % 2 == 0;
            let outcome = match is_watched {
                true => reported(run.spawn()),
                false => run.env("MEMLEDGER_WATCH", "0").run(),
            };
            assert_eq!(outcome.status.signal(), Some(libc::SIGSEGV), "{}", outcome.status);
            assert_eq!(left(&outcome.whole(), IN_MAIN as u64), 1);
        }
    }),
    case(
        "the stack of main can overflow where the environment asks",
        || end_by(overflow),
        |run| {
            let run = run.tracked().env("MEMLEDGER_REPORT_ON_SIGNALS", "1");
            ends_by(run.env("MEMLEDGER_WATCH", "0"), libc::SIGABRT, "has overflowed its stack");
        },
    ),
    case("a handler of a crash before the start comes after the report", handler_before, |run| {
        let outcome = run.run();
        assert_eq!(outcome.status.code(), Some(9), "{}", outcome.status);
        assert_eq!(left(&outcome.whole(), IN_MAIN as u64), 1);
    }),
    case("a handler of a crash after the start stays", handler_after, |run| {
        // It ends the process at once.
        assert_eq!(run.run().status.code(), Some(9));
    }),
    case("a forked child that crashes ends at once", forked, |run| {
        run.run().quiet().whole();
    }),
    case("two threads that crash end the program once", two_threads, |run| {
        ends_by(run, libc::SIGSEGV, "")
    }),
    #[cfg(target_os = "linux")]
    case("a program that exits quickly gives its report", quick_exit, |run| {
        let outcome = run.run();
        outcome.exited(5);
        assert_eq!(left(&outcome.whole(), IN_MAIN as u64), 1);
    }),
];

/// The program ends by this signal, and its report has all up to then.
#[track_caller]
fn ends_by(run: Run, signal: c_int, words: &str) {
    let outcome = run.run();
    assert_eq!(outcome.status.signal(), Some(signal), "{}\n{}", outcome.status, outcome.stderr);
    assert!(outcome.stderr.contains(words), "{}", outcome.stderr);
    assert_eq!(outcome.stderr.is_empty(), words.is_empty(), "{}", outcome.stderr);
    let report = outcome.whole();
    assert_eq!(left(&report, IN_MAIN as u64), 1);
    assert_eq!(report.trace.from_process_start, Some(true));
}

/// Crashes while three other threads allocate.
fn crash(how: fn()) {
    let _ledger = builder().report_on_signals(true).start().unwrap();
    end_by(how);
}

fn end_by(how: fn()) {
    leave(IN_MAIN);
    for _ in 0..3 {
        std::thread::spawn(|| {
            // Not without a pause: on a busy machine, the report would have more than the worker reads in the
            // time that the crash waits for it.
            loop {
                churn(100);
                std::thread::sleep(Duration::from_millis(1));
            }
        });
    }
    churn(10_000);
    how();
}

fn on_thread(body: fn()) {
    std::thread::spawn(body).join().unwrap();
}

fn abort() {
    std::process::abort();
}

/// Names where [`at_once`] crashes.
const CRASHES_IN_MAIN: &str = "TEST_CRASHES_IN_MAIN";
const FIRST_BLOCK: usize = 2_000_003;

/// The first statement of `main`: crashes there, or after the first allocation, if the environment says so.
pub(crate) fn at_once() {
    if !is_to_crash() {
        return;
    }
    if std::env::var(CRASHES_IN_MAIN).unwrap() == "allocation" {
        leave(FIRST_BLOCK);
    }
    no_memory();
}

fn in_eighth_thread() {
    leave(IN_MAIN);
    for number in 1..=8 {
        std::thread::spawn(move || {
            if number == 8 {
                no_memory();
            }
            loop {
                std::thread::park();
            }
        });
    }
    loop {
        std::thread::park();
    }
}

fn inside_allocator() {
    crash(|| {
        CRASHES_AT.store(12_345, Ordering::Release);
        black_box(Vec::<u8>::with_capacity(12_345));
    });
}

#[expect(unconditional_recursion, reason = "it is to overflow the stack")]
pub(crate) fn overflow() {
    black_box([0_u8; 1000]);
    overflow();
    black_box(());
}

fn handler_before() {
    handle_by_exit(libc::SIGSEGV);
    crash(no_memory);
}

fn handler_after() {
    let _ledger = builder().report_on_signals(true).start().unwrap();
    handle_by_exit(libc::SIGSEGV);
    no_memory();
}

fn forked() {
    let _ledger = builder().report_on_signals(true).start().unwrap();
    assert_eq!(wait(fork(no_memory)), libc::SIGSEGV);
    assert_eq!(wait(fork(abort)), libc::SIGABRT);
    churn(1000);
}

fn two_threads() {
    crash(|| {
        let crashing = || no_memory();
        let threads = [std::thread::spawn(crashing), std::thread::spawn(crashing)];
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[cfg(target_os = "linux")]
fn quick_exit() {
    let _ledger = builder().start().unwrap();
    leave(IN_MAIN);
    exit_quickly(5);
}

#[expect(unsafe_code, reason = "crashes")]
mod system {
    use libc::c_int;
    use std::hint::black_box;

    /// Whether [`at_once`](super::at_once) is to crash. Without an allocation.
    pub(super) fn is_to_crash() -> bool {
        // SAFETY: the name ends with a zero, and no other thread runs yet.
        !unsafe { libc::getenv(c"TEST_CRASHES_IN_MAIN".as_ptr()) }.is_null()
    }

    pub(crate) fn no_memory() {
        // SAFETY: none. This is the crash.
        unsafe { black_box(16 as *mut u8).write_volatile(1) };
    }

    pub(crate) fn no_instruction() {
        // SAFETY: none. This is the crash.
        unsafe {
            #[cfg(target_arch = "x86_64")]
            std::arch::asm!("ud2");
            #[cfg(target_arch = "aarch64")]
            std::arch::asm!("udf #0");
        }
    }

    /// AArch64 divides by zero without a signal.
    pub(crate) fn by_zero() {
        // SAFETY: none. This is the crash.
        unsafe {
            #[cfg(target_arch = "aarch64")]
            libc::raise(libc::SIGFPE);
            #[cfg(target_arch = "x86_64")]
            std::arch::asm!("div {zero:e}", zero = in(reg) 0_u32, inout("eax") 1 => _, inout("edx") 0 => _);
        }
    }

    pub(crate) fn cut_file() {
        use std::os::fd::AsRawFd;
        let file = std::fs::File::create_new("cut").unwrap();
        // SAFETY: none. The page is in the mapping and not in the file: this is the crash.
        unsafe {
            let flags = libc::MAP_SHARED;
            let at = libc::mmap(
                std::ptr::null_mut(),
                4096,
                libc::PROT_WRITE,
                flags,
                file.as_raw_fd(),
                0,
            );
            black_box(at.cast::<u8>()).write_volatile(1);
        }
    }

    pub(super) fn sent() {
        crate::harness::kill(std::process::id() as libc::pid_t, libc::SIGFPE);
        loop {
            std::thread::park();
        }
    }

    /// What handles the signal.
    pub(crate) fn action(signal: c_int) -> libc::sighandler_t {
        // SAFETY: the action is a local, for which zeros are valid.
        unsafe {
            let mut action = std::mem::zeroed::<libc::sigaction>();
            libc::sigaction(signal, std::ptr::null(), &raw mut action);
            action.sa_sigaction
        }
    }

    pub(super) fn handle_by_exit(signal: c_int) {
        extern "C" fn exit(_: c_int) {
            // SAFETY: may be called in a handler.
            unsafe { libc::_exit(9) };
        }
        // SAFETY: the handler has the form that is asked for.
        unsafe { libc::signal(signal, exit as extern "C" fn(c_int) as libc::sighandler_t) };
    }

    #[cfg(target_os = "linux")]
    pub(super) fn exit_quickly(status: c_int) -> ! {
        unsafe extern "C" {
            fn quick_exit(status: c_int) -> !;
        }
        // SAFETY: ends the process.
        unsafe { quick_exit(status) }
    }
}
#[cfg(target_os = "linux")]
use system::exit_quickly;
pub(crate) use system::{action, by_zero, cut_file, no_instruction, no_memory};
use system::{handle_by_exit, is_to_crash, sent};
