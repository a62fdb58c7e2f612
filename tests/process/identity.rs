//! Programs that change their user, their groups and their namespaces: they do the same with the tracker as
//! without it, and their traces are whole.
//!
//! Each test runs this program again, as a child: first without a recording, then with one.
#![expect(unsafe_code, reason = "the functions of C")]

use libtest_mimic::{Arguments, Trial};
use memledger::TrackingAllocator;
use memledger_analysis::read::read;
use memledger_analysis::{Analyzer, CoverageWord};
use std::fs::{self, File};
use std::hint::black_box;
use std::io;
use std::process::{Command, Output, Stdio};

#[global_allocator]
static ALLOC: TrackingAllocator = TrackingAllocator::system();
memledger::track_c_malloc!();

const SCENARIO: &str = "TEST_SCENARIO";
const BLOCK: usize = 1_000_003;

/// The name of a test, and what its child does.
const fn case(name: &str, child: fn()) -> (&str, fn()) {
    (name, child)
}

const CASES: [(&str, fn()); 6] = [
    case("the user changes after a capability was kept", keep_capability),
    case("the user changes a hundred times while threads allocate", change_often),
    case("a user namespace is made", make_namespace),
    case("a user namespace is made by a system call without threads", make_without_threads),
    case("namespaces of users and processes are made in one call", make_both),
    case("a mount namespace is entered", enter_namespace),
];

fn main() {
    if let Ok(scenario) = std::env::var(SCENARIO) {
        let case = CASES.iter().find(|(name, _)| *name == scenario);
        return case.expect("a scenario").1();
    }
    let trials = CASES.map(|(name, _)| {
        Trial::test(format!("identity::{}", name.replace(' ', "_")), move || {
            check(name);
            Ok(())
        })
    });
    libtest_mimic::run(&Arguments::from_args(), trials.into()).exit();
}

fn check(name: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    // For the report of a program that has become another user.
    let all = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    fs::set_permissions(folder.path(), all).expect("the folder is ours");
    let run = |variables: &[(&str, &str)]| -> Output {
        let mut command = Command::new("timeout");
        command.arg("60").arg(std::env::current_exe().expect("a program"));
        let variables = variables.iter().copied().chain([(SCENARIO, name)]);
        command.envs(variables).current_dir(folder.path()).stdin(Stdio::null());
        command.output().expect("the child starts")
    };
    let plain = run(&[]);
    let tracked = run(&[
        ("MEMLEDGER_TRACE", "trace.utrace"),
        ("MEMLEDGER_REPORT", "report.txt"),
        ("MEMLEDGER_CONTROL", "0"),
        ("MEMLEDGER_WATCH", "1"),
    ]);
    let said = |output: &Output| {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status, text(&output.stdout), text(&output.stderr))
    };
    assert_eq!(said(&plain), said(&tracked));
    if !said(&plain).1.ends_with("done\n") {
        return eprintln!("{name}: the system allows this to no program here");
    }
    let report = fs::read_to_string(folder.path().join("report.txt")).expect("a report");
    assert!(report.contains(", complete"), "{report}");
    let mut analyzer = Analyzer::new();
    let file = File::open(folder.path().join("trace.utrace")).expect("a trace");
    read(file, &mut analyzer).expect("it can be read");
    let report = analyzer.report();
    // Who may not read its own memory is not weighed.
    assert!(report.trace.coverage.word != CoverageWord::Incomplete);
    // One from before and one from after.
    assert_eq!(report.largest_live.iter().filter(|block| block.bytes == BLOCK as u64).count(), 2);
}

/// Prints the result of a call, and ends the program if it has failed.
fn must(what: &str, result: i32) {
    if result != 0 {
        println!("{what}: {}", io::Error::last_os_error());
        std::process::exit(3);
    }
}

fn leave_block() {
    std::mem::forget(black_box(vec![1_u8; BLOCK]));
}

fn end() {
    leave_block();
    println!("done");
}

fn keep_capability() {
    leave_block();
    let capabilities = |effective: u32| {
        let header = [0x2008_0522_u32, 0];
        let data = [effective, effective, 0, 0, 0, 0];
        // SAFETY: the version has two of these structures of three words.
        must("capset", unsafe {
            libc::syscall(libc::SYS_capset, header.as_ptr(), data.as_ptr()) as i32
        });
    };
    // SAFETY: C's functions with numbers, here and below.
    unsafe {
        must("prctl", libc::prctl(libc::PR_SET_KEEPCAPS, 1, 0, 0, 0));
        must("setresuid", libc::setresuid(65534, 65534, 65534));
        // CAP_SETGID and CAP_SETUID.
        capabilities(1 << 6 | 1 << 7);
        must("setgroups", libc::setgroups(0, std::ptr::null()));
        must("setresgid", libc::setresgid(65534, 65534, 65534));
        println!("{} {}", libc::getuid(), libc::getgid());
    }
    end();
}

fn change_often() {
    leave_block();
    // SAFETY: as above.
    let user = unsafe { libc::geteuid() };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    (0..20_000).map(|size| black_box(vec![0_u8; size % 999]).len()).sum::<usize>()
                })
            })
            .collect();
        for _ in 0..100 {
            // SAFETY: as above.
            must("seteuid", unsafe { libc::seteuid(user) });
            drop(black_box(vec![1_u8; 100]));
        }
        let sum: usize = threads.into_iter().map(|thread| thread.join().expect("no panic")).sum();
        println!("{sum}");
    });
    end();
}

fn make_namespace() {
    leave_block();
    // SAFETY: as above.
    must("unshare", unsafe { libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNS) });
    end();
}

fn make_without_threads() {
    leave_block();
    let result = memledger::without_threads(|| {
        let threads = fs::read_dir("/proc/self/task").map_or(0, Iterator::count);
        // SAFETY: as above.
        (threads, unsafe { libc::syscall(libc::SYS_unshare, libc::CLONE_NEWUSER) as i32 })
    });
    must("unshare", result.1);
    println!("{} thread", result.0);
    end();
}

fn make_both() {
    leave_block();
    // SAFETY: as above.
    must("unshare", unsafe { libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWPID) });
    // The first process of the namespace.
    let status = Command::new("true").status();
    println!("{status:?}");
    end();
}

fn enter_namespace() {
    use std::os::fd::AsRawFd;
    leave_block();
    let own = File::open("/proc/self/ns/mnt").expect("a namespace");
    // SAFETY: as above.
    must("setns", unsafe { libc::setns(own.as_raw_fd(), 0) });
    end();
}
