//! Reading a trace in a process of its own: this program again, selected by a variable. So the
//! reader's time and memory are its own, and the memory of a parent that measures others stays
//! small.

use memledger_analysis::read;
use memledger_analysis::{Analyzer, Report};
use serde::{Deserialize, Serialize};
use std::error::Error;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

const VARIABLE: &str = "MEMLEDGER_BENCH_ANALYZE";

/// What a trace or a report holds, as far as a check needs it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Account {
    /// Events the report is made from.
    pub events: u64,
    /// Allocations in all.
    pub allocations: u64,
    /// Frees in all.
    pub frees: u64,
    /// Reallocations in all.
    pub reallocations: u64,
    /// Allocations made by the loads of the benches.
    pub measured_allocations: u64,
    /// Frees of those.
    pub measured_frees: u64,
    /// What is missing or does not fit together: must be empty.
    pub problems: Vec<String>,
    /// What reading took.
    pub seconds: f64,
    /// The most memory the reading process had.
    pub peak_rss: u64,
}

impl Account {
    /// Takes out of a report what is to be checked.
    pub fn of(report: &Report) -> Self {
        let losses = &report.losses;
        let counts = [
            ("events lost", losses.lost_events),
            ("holes in the serials", losses.serial_holes),
            ("unmatched frees", losses.unmatched_frees),
            ("duplicate allocations", losses.duplicate_allocations),
            ("bytes that could not be read", losses.truncated_bytes),
        ];
        let mut problems = counts
            .iter()
            .filter(|(_, count)| *count > 0)
            .map(|(what, count)| format!("{count} {what}"))
            .collect::<Vec<_>>();
        if !report.trace.complete {
            problems.push("the report is not complete".to_owned());
        }
        let measured = report
            .by_scope
            .iter()
            .find(|row| row.path == ["GlobalScope", crate::bursts::SCOPE])
            .map(|row| row.figures)
            .unwrap_or_default();
        Self {
            events: report.trace.events,
            allocations: report.totals.allocations,
            frees: report.totals.frees,
            reallocations: report.totals.reallocations,
            measured_allocations: measured.allocations,
            measured_frees: measured.frees,
            problems,
            ..Self::default()
        }
    }
}

/// The first thing in `main`: does what [`in_child`] asks for and ends the process, if it is that
/// child.
pub fn if_asked() {
    let Some(path) = std::env::var_os(VARIABLE) else { return };
    match analyze(Path::new(&path)) {
        Ok(account) => println!("{}", serde_json::to_string(&account).expect("plain data")),
        Err(error) => {
            eprintln!("{}: {error:#}", path.display());
            std::process::exit(1);
        }
    }
    std::process::exit(0);
}

fn analyze(path: &Path) -> Result<Account, Box<dyn Error>> {
    let start = Instant::now();
    let mut analyzer = Analyzer::new();
    read::read(std::fs::File::open(path)?, &mut analyzer)?;
    let report = analyzer.report();
    let seconds = start.elapsed().as_secs_f64();
    Ok(Account { seconds, peak_rss: peak_rss()?, ..Account::of(&report) })
}

/// The most memory this process had since it was started. Unlike `getrusage`'s, it begins anew
/// with the program, not with the parent.
fn peak_rss() -> Result<u64, Box<dyn Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")).ok_or("no VmHWM")?;
    Ok(kib.trim().parse::<u64>()? << 10)
}

/// Reads the trace in a child.
///
/// # Errors
/// If the child cannot be run, or cannot read the trace.
pub fn in_child(path: &Path) -> Result<Account, Box<dyn Error>> {
    // NOTE: not its path, where another build may have put another program meanwhile.
    let mut child = Command::new("/proc/self/exe");
    child.env(VARIABLE, path).stdin(Stdio::null()).stderr(Stdio::inherit());
    let output = child.output()?;
    if !output.status.success() {
        return Err(format!("reading {} failed", path.display()).into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}
