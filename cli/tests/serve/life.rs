//! Starting where it cannot be, and stopping.

use super::harness::{Server, files, memledger, output, packets, run, told_bytes};
use rustix::process::Signal;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::Stdio;

fn fails(args: &[&str], status: i32, says: &[&str]) {
    let (got, out, err) = run(args);
    assert_eq!((got, &out[..]), (status, &b""[..]), "{args:?}: {err}");
    assert!(err.starts_with("memledger: ") && err.lines().count() == 1, "{err}");
    for part in says {
        assert!(err.contains(part), "{part} in {err}");
    }
}

#[test]
fn a_port_in_use_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let store = folder.path().to_str().unwrap();
    let place = format!("cannot listen on 127.0.0.1:{port}: another program does");
    let serve = ["serve", "--store", store];
    let args = |more: &[&'static str]| [&serve[..], more].concat();
    let recorder = [&args(&["--store-port", "0", "--recorder-port"])[..], &[&port]].concat();
    fails(&recorder, 1, &[&place, "--recorder-port"]);
    let both = format!("0,{port}");
    let second = [&args(&["--store-port", "0", "--recorder-port"])[..], &[&both]].concat();
    fails(&second, 1, &[&place]);
    let asked = [&args(&["--recorder-port", "0", "--store-port"])[..], &[&port]].concat();
    fails(&asked, 1, &[&place, "--store-port"]);
    assert!(files(folder.path()).is_empty());
}

#[test]
fn folders_that_cannot_hold_traces_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "precious").unwrap();
    let missing = folder.path().join("no/such");
    for (path, says) in [
        (missing.to_str().unwrap(), "the folder that it would be in does not exist"),
        (file.to_str().unwrap(), "it is a file, not a folder"),
        ("/proc", "no file can be created there"),
    ] {
        let says = format!("cannot keep traces in {path}: {says}");
        let ports = ["--recorder-port", "0", "--store-port", "0"];
        fails(&[&["serve", "--store", path][..], &ports].concat(), 1, &[&says]);
    }
    assert_eq!(std::fs::read(file).unwrap(), b"precious");
}

#[test]
fn one_folder_one_server() {
    let folder = tempfile::tempdir().unwrap();
    let first = Server::start(folder.path(), &[]);
    let path = folder.path().to_str().unwrap();
    let args = ["serve", "--store", path, "--recorder-port", "0", "--store-port", "0"];
    fails(&args, 1, &["memledger serve, process ", " is using it"]);
    drop(first);
    Server::start(folder.path(), &[]);
}

#[test]
fn wrong_usage_is_status_2() {
    for (args, says) in [
        (&["--max-trace", "much"][..], "a size is a number with KiB"),
        (&["--max-trace", "1023KiB"], "--max-trace must be at least 1.0 MiB, not 1023.0 KiB"),
        (&["--max-store", "0"], "--max-store must be at least 1.0 MiB, not 0 B"),
        (&["--listen", "0.0.0.0"], "--token-file"),
        (&["--listen", "everywhere"], "everywhere"),
        (&["--recorder-port", "70000"], "70000"),
        (&["--store-port", "-1"], "-1"),
        (&["--max-programs", "0"], "0 is not in 1..=100000"),
        (&["--idle-timeout", "soon"], "soon"),
        (&["extra"], "extra"),
    ] {
        fails(&[&["serve", "--store", "/no/such/folder"][..], args].concat(), 2, &[says]);
    }
    let token = ["--token-file", "/no/such/file"];
    fails(&[&["serve", "--listen", "::"][..], &token].concat(), 1, &["/no/such/file"]);
}

#[test]
fn ctrl_c_and_sigterm_end_it_and_keep_what_came() {
    for signal in [Signal::INT, Signal::TERM] {
        let folder = tempfile::tempdir().unwrap();
        let mut server = Server::start(folder.path(), &[]);
        let bytes = packets(20);
        let mut program = server.connect();
        let (first, last) = bytes.split_at(bytes.len() - 10_000);
        program.write_all(first).unwrap();
        server.notes(1, &["recording"]);
        // A reader, an asker and a program that has said nothing must not hold it up.
        let mut store = server.client();
        let id = store.traces().unwrap()[0].id;
        let reader = store.read(id).unwrap();
        let silent = server.connect();
        // All but the packet that is unfinished.
        while store.trace(id).unwrap().unwrap().size < 8 + 19 * 60_000 {}
        // Has been sent, and perhaps has not arrived.
        program.write_all(last).unwrap();
        server.signal(signal);
        let (status, told) = server.end();
        assert_eq!(status, Some(0), "{told:?}");
        assert!(told.iter().any(|note| note.contains(": the recorder stops, 1.1 MiB")), "{told:?}");
        assert!(files(folder.path())[0].1 == bytes);
        drop((program, reader, silent));
    }
}

#[test]
fn text_says_where_it_listens() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = memledger(&["serve", "--recorder-port", "0,0", "--store-port", "0"])
        .arg("--store")
        .arg(folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let lines: Vec<_> = (0..3).map(|_| lines.next().unwrap().unwrap()).collect();
    assert!(lines[0].starts_with("recording at  127.0.0.1:") && lines[0].contains(", 127.0.0.1:"));
    assert!(lines[1].starts_with("store at      127.0.0.1:"));
    let place = folder.path().canonicalize().unwrap();
    assert_eq!(lines[2], format!("traces in     {} (0 traces, 0 B)", place.display()));
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(told_bytes(output(child)).0, 0);
}

#[test]
fn the_default_folder_is_made() {
    let home = tempfile::tempdir().unwrap();
    for (key, place) in [("XDG_DATA_HOME", ""), ("HOME", ".local/share")] {
        let mut child = memledger(&["serve", "--recorder-port", "0", "--store-port", "0"])
            .env_remove("XDG_DATA_HOME")
            .env(key, home.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with("recording at"), "{line}");
        assert!(Path::new(&home.path().join(place).join("memledger/traces")).is_dir());
        rustix::process::kill_process(rustix::process::Pid::from_child(&child), Signal::INT)
            .unwrap();
        assert_eq!(told_bytes(output(child)).0, 0);
    }
}

#[test]
fn the_recorder_can_be_off() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let mixed = run(&["serve", "--folder", path, "--recorder-port", "off,1980"]);
    assert_eq!(mixed.0, 2);
    assert!(mixed.2.contains("not both"), "{}", mixed.2);
    let wrong = run(&["serve", "--folder", path, "--recorder-port", "on"]);
    assert!(wrong.0 == 2 && wrong.2.contains("write a port or off"), "{}", wrong.2);
    let mut child = memledger(&["serve", "--folder", path, "--format", "json"])
        .args(["--recorder-port", "off", "--store-port", "0"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    out.read_line(&mut line).unwrap();
    let ready: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(ready["recorder"], serde_json::json!([]));
    let status = memledger_store::Store::connect(ready["store"].as_str().unwrap())
        .unwrap()
        .status()
        .unwrap();
    assert_eq!(status.recorder_port, 0);
    child.kill().unwrap();
    child.wait().unwrap();
}
