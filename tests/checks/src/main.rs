//! Runs checks of the project:
//!
//! ```text
//! memledger-checks [change]              what a change can break, by its paths
//! memledger-checks full                  everything but what the list has by name only
//! memledger-checks NAME...               these, in full if `full` is before them
//! memledger-checks quick CRATE [GROUP]   the crate, in minutes; GROUP of tests/process, for memledger
//! memledger-checks --list | --plan       the checks; what `change` would run, and for which path
//! ```
//!
//! With `--keep-going`, the rest runs after a failure.

use memledger_checks::check::{Check, Tier, When};
use memledger_checks::needs::{self, Need};
use memledger_checks::paths::Change;
use memledger_checks::run::{Outcome, Run};
use memledger_checks::table::{CHECKS, QUICK};
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

const USAGE: &str = "usage: memledger-checks [--keep-going] [change | full | NAME... | quick CRATE [GROUP] | --list | --plan]";

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let words: Vec<_> = arguments.iter().map(|word| word.trim_start_matches("--")).collect();
    match start(&words) {
        Ok(passed) => ExitCode::from(u8::from(!passed)),
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}

fn root() -> PathBuf {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().unwrap_or(root)
}

fn start(words: &[&str]) -> Result<bool, String> {
    let keep_going = words.contains(&"keep-going");
    let words: Vec<_> = words.iter().copied().filter(|word| *word != "keep-going").collect();
    let mut run = Run {
        checks: Vec::new(),
        tier: Tier::Named,
        keep_going,
        variables: Vec::new(),
        root: root(),
    };
    let short = |value: &str| ("short", value.to_owned());
    match words[..] {
        ["list"] => {
            list();
            return Ok(true);
        }
        ["plan"] => {
            plan()?;
            return Ok(true);
        }
        [] | ["change"] => {
            run.checks = plan()?;
            run.tier = Tier::Change;
            run.variables = vec![short("--short"), ("CARGO_INCREMENTAL", "0".to_owned())];
        }
        ["full"] => {
            run.checks = CHECKS.iter().filter(|check| check.when != When::ByName).collect();
            run.tier = Tier::Full;
            run.variables = vec![short(""), ("CARGO_INCREMENTAL", "0".to_owned())];
        }
        ["quick", package] => quick(&mut run, package, ""),
        ["quick", package, group] => quick(&mut run, package, group),
        ["full", ref names @ ..] => {
            run.checks = named(names)?;
            run.variables = vec![short("")];
        }
        ref names => {
            run.checks = named(names)?;
            run.variables = vec![short("--short")];
        }
    }
    needs::install(&run.checks, run.tier != Tier::Change);
    let ended = run.all(&mut io::stdout()).map_err(|error| error.to_string())?;
    Ok(ended.iter().all(|it| !run.is_failure(it) && !matches!(it.outcome, Outcome::Stopped(_))))
}

fn named(names: &[&str]) -> Result<Vec<&'static Check>, String> {
    let unknown = names.iter().find(|name| CHECKS.iter().all(|check| check.name != **name));
    if let Some(name) = unknown {
        return Err(format!(
            "there is no check {name}; --list names all {}\n{USAGE}",
            CHECKS.len()
        ));
    }
    Ok(CHECKS.iter().filter(|check| names.contains(&check.name)).collect())
}

fn quick(run: &mut Run<'_>, package: &str, group: &str) {
    let package = if package.starts_with("memledger") {
        package.to_owned()
    } else {
        format!("memledger-{package}")
    };
    // The tests of whole processes take minutes: one group of them.
    let only = if package == "memledger" { "--lib" } else { "" };
    let group = if package == "memledger" && group.is_empty() { "exit" } else { group };
    run.checks = QUICK.iter().collect();
    run.variables =
        vec![("package", package), ("only", only.to_owned()), ("group", group.to_owned())];
}

/// What a change can break, printed.
fn plan() -> Result<Vec<&'static Check>, String> {
    let base = std::env::var("CI_BASE").ok().filter(|base| !base.is_empty());
    let change = Change::since(&root(), base.as_deref())?;
    match &change.base {
        Some(base) => println!("== {} paths differ from {:.12}", change.paths.len(), base),
        None => {
            println!("== there is no commit to compare with, so all that depends on paths runs")
        }
    }
    let checks = change.checks();
    for (check, path) in &checks {
        if let Some(path) = path {
            println!("{}, for {path}", check.name);
        }
    }
    Ok(checks.into_iter().map(|(check, _)| check).collect())
}

fn list() {
    for check in CHECKS {
        let needs: Vec<_> = check.needs.iter().map(Need::name).collect();
        println!(
            "{:18} {:?}, lane {:?}, at most {} min: {}",
            check.name,
            check.when,
            check.lane,
            check.deadline.as_secs() / 60,
            check.what
        );
        if !needs.is_empty() {
            println!("{:18} needs {}", "", needs.join(", "));
        }
    }
}
