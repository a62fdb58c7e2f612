//! Programs that the kernel's OOM killer ends, in a control group (cgroup) with a limit.
//!
//! Making one needs the right to: as root on a machine, seldom in a container. Where that is not so, each
//! test prints a line.

use crate::counts::{check, map_counts, reported};
use crate::harness::{Case, Run, case};
use memledger::alloc_scope;
use std::fs;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

pub(crate) const CASES: &[Case] = &[
    case("a program that the OOM killer ends has a report of all", fill, |run| {
        is_killed(run, false)
    }),
    case("its watcher, too, can be in the control group", fill, |run| is_killed(run, true)),
];

const LIMIT: &str = "100663296";

/// The variable with the file that a process writes its number to, to get into the group.
const GROUP: &str = "TEST_GROUP";

#[track_caller]
fn is_killed(run: Run, watcher_is_in_group: bool) {
    let group = match Group::new() {
        Ok(group) => group,
        Err(error) => {
            return eprintln!(
                "SKIPPED: no control group with a limit of memory can be made: {error}"
            );
        }
    };
    let mut run = run.tracked().env("MEMLEDGER_WATCH", "1");
    if watcher_is_in_group {
        // Enters the group before the program begins.
        let program = run.command.get_program().to_owned();
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", "echo $$ >\"$0\" && exec \"$1\""]).arg(group.0.join("cgroup.procs"));
        shell.arg(program).current_dir(run.folder.path());
        for (name, value) in run.command.get_envs() {
            match value {
                Some(value) => shell.env(name, value),
                None => shell.env_remove(name),
            };
        }
        run.command = shell;
    } else {
        run = run.env(GROUP, group.0.join("cgroup.procs"));
    }
    let outcome = reported(run.spawn());
    assert_eq!(outcome.status.signal(), Some(libc::SIGKILL), "{}", outcome.stderr);
    assert!(group.has_killed(), "the kernel has ended a process of the group");
    check(&outcome, true);
}

/// A control group with a limit, which is removed with this value.
struct Group(PathBuf);

impl Group {
    fn new() -> io::Result<Self> {
        let name = format!("memledger-test-{}-{}", std::process::id(), unique());
        let make = |folder: &str, limit: &str| {
            let path = Path::new(folder).join(&name);
            fs::create_dir(&path)?;
            let group = Self(path);
            // NOTE: not created, if the group has no limit.
            let file = fs::OpenOptions::new().write(true).open(group.0.join(limit));
            file.and_then(|mut file| io::Write::write_all(&mut file, LIMIT.as_bytes()))?;
            Ok(group)
        };
        make("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
            .or_else(|_: io::Error| make("/sys/fs/cgroup", "memory.max"))
    }

    fn has_killed(&self) -> bool {
        let read = |name| fs::read_to_string(self.0.join(name));
        let events = read("memory.oom_control").or_else(|_| read("memory.events")).unwrap();
        events.lines().any(|line| line.strip_prefix("oom_kill ").is_some_and(|count| count != "0"))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Not before its last process has ended.
        let until = Instant::now() + Duration::from_secs(60);
        while fs::remove_dir(&self.0).is_err() && self.0.exists() && Instant::now() < until {
            std::thread::yield_now();
        }
    }
}

fn unique() -> u32 {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Takes all memory that there is, on four threads.
fn fill() {
    let counts = map_counts();
    if let Some(group) = std::env::var_os(GROUP) {
        fs::write(group, std::process::id().to_string()).unwrap();
    }
    std::thread::scope(|scope| {
        for counts in &counts[..4] {
            scope.spawn(|| alloc_scope!("counted", { counts.fill(100_000) }));
        }
    });
}
