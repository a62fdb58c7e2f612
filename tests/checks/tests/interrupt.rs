//! Ctrl-C: alone in its program, because the signal is for the whole process.

use memledger_checks::check::{Check, Lane, Tier, When, minutes};
use memledger_checks::run::{Outcome, Run};
use rustix::process::{Signal, getpid, kill_process};
use std::fs::File;
use std::io::Read;
use std::process::Command;
use std::thread;

#[test]
fn a_signal_stops_all_children() {
    let folder = tempfile::tempdir().unwrap();
    let fifo = folder.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let check = |name, lane| Check {
        name,
        what: "runs until it is stopped",
        when: When::Always,
        lane,
        deadline: minutes(60),
        needs: &[],
        commands: &["exec 3>fifo; sleep 86400 & echo begun >&3; sleep 86400"],
    };
    let checks =
        [check("one", Lane::Own), check("two", Lane::Workspace), check("later", Lane::Own)];
    let interrupter = thread::spawn(move || {
        let mut reader = File::open(fifo).unwrap();
        let mut both = [0; 12];
        reader.read_exact(&mut both).unwrap();
        kill_process(getpid(), Signal::INT).unwrap();
        // To its end: each process that could write has ended.
        let mut rest = String::new();
        reader.read_to_string(&mut rest).unwrap();
        (both, rest)
    });
    let root = folder.path().to_owned();
    let checks = checks.iter().collect();
    let run = Run { checks, tier: Tier::Change, keep_going: true, variables: Vec::new(), root };
    let mut printed = Vec::new();
    let ended = run.all(&mut printed).unwrap();
    let stopped = Outcome::Stopped("a signal has ended the run");
    assert!(ended.len() == 3 && ended.iter().all(|it| it.outcome == stopped), "{ended:?}");
    assert_eq!(interrupter.join().unwrap(), (*b"begun\nbegun\n", String::new()));
    assert!(String::from_utf8(printed).unwrap().contains("SIGINT"));
}
