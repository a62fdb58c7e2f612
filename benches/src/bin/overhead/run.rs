//! Runs a program once in a mode: what it took, and whether everything was seen.
#![expect(unsafe_code, reason = "waits for a child and asks what it took")]

use crate::input::Input;
use crate::modes::{self, Mode};
use memledger_benches::analyze;
use programs::{Outcome, Program, Seen};
use serde_json::Value;
use std::error::Error;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The problem of a mode that this memledger does not have.
pub(crate) const NOT_OFFERED: &str = "not offered by this memledger";

/// A peer that takes this many times as long as plain is run only once.
const SLOW: f64 = 8.0;

/// What a run took and gave.
#[derive(Clone, Debug, Default)]
pub(crate) struct Run {
    pub(crate) wall: Duration,
    /// Of all threads.
    pub(crate) cpu: Duration,
    pub(crate) peak_rss: u64,
    pub(crate) events: Option<u64>,
    /// Of `cpu`, what the tracker's own thread took.
    pub(crate) worker: Option<Duration>,
    pub(crate) file_bytes: Option<u64>,
    /// Why its figures must not be used.
    pub(crate) problem: Option<String>,
}

/// A program with its input.
pub(crate) struct Runner<'a> {
    pub(crate) binaries: &'a Path,
    pub(crate) folder: &'a Path,
    pub(crate) program: Program,
    pub(crate) input: &'a Input,
}

impl Runner<'_> {
    /// All modes in turn, `rounds` times: for each round, the runs in the order of the modes. A
    /// mode that had a problem, or a peer that is very slow, is not run again.
    pub(crate) fn rotate(
        &self,
        modes: &[Mode],
        rounds: u32,
    ) -> Result<Vec<Vec<Option<Run>>>, Box<dyn Error>> {
        // Also brings the input into the system's cache.
        let (_, expected) = self.run(&modes::COUNTED)?;
        let mut skip = vec![false; modes.len()];
        let mut all = Vec::new();
        for round in 1..=rounds {
            let mut runs = Vec::<Option<Run>>::new();
            for (number, mode) in modes.iter().enumerate() {
                if skip[number] {
                    runs.push(None);
                    continue;
                }
                let name = self.program.name();
                eprint!("{name}, round {round} of {rounds}, {}: ", mode.name);
                let (mut run, outcome) = self.run(mode)?;
                run.problem = self.check(mode, &mut run, &outcome, &expected).err();
                eprintln!(
                    "{:.2} s {}",
                    run.wall.as_secs_f64(),
                    run.problem.as_deref().unwrap_or("")
                );
                let plain = runs.first().and_then(Option::as_ref).map_or(run.wall, |run| run.wall);
                let is_slow = mode.is_peer() && run.wall > plain.mul_f64(SLOW);
                skip[number] = run.problem.is_some() || is_slow;
                runs.push(Some(run));
            }
            all.push(runs);
        }
        Ok(all)
    }

    fn run(&self, mode: &Mode) -> Result<(Run, Outcome), Box<dyn Error>> {
        for left in ["trace.memledger", "trace.utrace", "report.json"] {
            let _ = fs::remove_file(self.folder.join(left));
        }
        let (out, errors) = (self.folder.join("stdout"), self.folder.join("stderr"));
        let mut command = Command::new(self.binaries.join(mode.binary));
        command.arg(self.program.name()).arg(&self.input.path).current_dir(self.folder);
        command.stdin(Stdio::null()).stdout(File::create(&out)?).stderr(File::create(&errors)?);
        mode.set(&mut command, self.folder);
        let (run, succeeded) = wait(&mut command)?;
        let said = fs::read_to_string(&errors).unwrap_or_default();
        if !succeeded {
            return Err(format!("{} as {}: {said}", self.program.name(), mode.name).into());
        }
        let out = fs::read_to_string(&out)?;
        let last = out.lines().last().ok_or("the program printed nothing")?;
        Ok((run, serde_json::from_str(last)?))
    }

    /// That the program did its work, and all of it was seen.
    fn check(
        &self,
        mode: &Mode,
        run: &mut Run,
        outcome: &Outcome,
        expected: &Outcome,
    ) -> Result<(), String> {
        if outcome.result != expected.result {
            return Err(format!("result {}, not {}", outcome.result, expected.result));
        }
        check_counts(&outcome.seen, &as_peers_count(&expected.seen), "its own account")?;
        if !mode.records() {
            return Ok(());
        }
        // Before what it recorded is judged: whether it was recording at all.
        if let Some(name) = mode.keeps_trace() {
            let path = self.folder.join(name);
            let Ok(file) = fs::metadata(&path) else {
                let said = fs::read_to_string(self.folder.join("stderr")).unwrap_or_default();
                if said.contains("not supported") {
                    return Err(NOT_OFFERED.to_owned());
                }
                return Err(format!("no trace: {}", said.lines().next().unwrap_or("nothing said")));
            };
            run.file_bytes = Some(file.len());
            let account = analyze::in_child(&path).map_err(|error| error.to_string())?;
            if !account.problems.is_empty() {
                return Err(format!("the trace has {}", account.problems.join(", ")));
            }
            let seen = Seen {
                allocations: Some(account.allocations),
                frees: Some(account.frees),
                reallocations: Some(account.reallocations),
                ..Seen::default()
            };
            check_counts(&seen, &expected.seen, "the trace")?;
            let _ = fs::remove_file(&path);
        }
        match outcome.seen.lost {
            Some(0) => {}
            Some(lost) => return Err(format!("{lost} events lost")),
            None => return Err("nothing was recorded".to_owned()),
        }
        run.events = outcome.seen.events;
        run.worker = outcome.seen.worker_ns.map(Duration::from_nanos);
        if mode.report { self.check_report(expected) } else { Ok(()) }
    }

    fn check_report(&self, expected: &Outcome) -> Result<(), String> {
        let text = fs::read_to_string(self.folder.join("report.json"));
        let text = text.map_err(|error| format!("no report: {error}"))?;
        let report = serde_json::from_str::<Value>(&text).map_err(|error| error.to_string())?;
        // Scopes do not occur in these programs; frees of blocks from before the start would.
        if let Some(losses) = report["losses"].as_object() {
            for (what, count) in losses {
                if count.as_u64() != Some(0) {
                    return Err(format!("the report has {count} {what}"));
                }
            }
        }
        if report["trace"]["complete"] != true {
            return Err("the report is not complete".to_owned());
        }
        let count = |name: &str| report["totals"][name].as_u64();
        let seen = Seen {
            allocations: count("allocations"),
            frees: count("frees"),
            reallocations: count("reallocations"),
            ..Seen::default()
        };
        check_counts(&seen, &expected.seen, "the report")
    }
}

/// To the peers, a reallocation is an allocation (and a free).
fn as_peers_count(seen: &Seen) -> Seen {
    let with_moves = |count: Option<u64>| Some(count? + seen.reallocations?);
    Seen {
        allocations: with_moves(seen.allocations),
        frees: with_moves(seen.frees),
        ..Seen::default()
    }
}

/// Compares with an independent count of the same program. What begins before `main` and ends after
/// it differs a little, as does what waits for a lock.
fn check_counts(seen: &Seen, expected: &Seen, whose: &str) -> Result<(), String> {
    let counts = [
        ("allocations", seen.allocations, expected.allocations),
        ("frees", seen.frees, expected.frees),
        ("reallocations", seen.reallocations, expected.reallocations),
    ];
    for (what, seen, expected) in counts {
        if let (Some(seen), Some(expected)) = (seen, expected)
            && seen.abs_diff(expected) > 100 + expected / 10_000
        {
            return Err(format!("{whose} has {seen} {what}, not {expected}"));
        }
    }
    Ok(())
}

/// Runs a child to its end. Whether it succeeded, and what the system says it took.
fn wait(command: &mut Command) -> Result<(Run, bool), Box<dyn Error>> {
    let start = Instant::now();
    let child = command.spawn()?;
    let pid = libc::pid_t::try_from(child.id())?;
    let mut status = 0;
    // SAFETY: a `rusage` is plain numbers.
    let mut usage = unsafe { std::mem::zeroed::<libc::rusage>() };
    loop {
        // SAFETY: both are valid for writing, and no other code waits for this child.
        let ended = unsafe { libc::wait4(pid, &raw mut status, 0, &raw mut usage) };
        if ended == pid {
            break;
        }
        let error = std::io::Error::last_os_error();
        if error.kind() != std::io::ErrorKind::Interrupted {
            return Err(error.into());
        }
    }
    let wall = start.elapsed();
    let time = |time: libc::timeval| Duration::new(time.tv_sec as u64, time.tv_usec as u32 * 1_000);
    let run = Run {
        wall,
        cpu: time(usage.ru_utime) + time(usage.ru_stime),
        // In KiB. It begins with this process's own, which is why this one stays small.
        peak_rss: (usage.ru_maxrss as u64) << 10,
        ..Run::default()
    };
    Ok((run, libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0))
}
