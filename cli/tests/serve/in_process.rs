//! A recorder and a store within the program that uses them.

use super::harness::{run, stream};
use memledger::remote::store::Store;
use memledger_cli::serve::{InProcess, Settings};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Stdio;

#[test]
fn a_program_has_a_recorder_and_a_store_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let server = InProcess::start(Settings::in_folder(folder.path()).unwrap()).unwrap();
    let trace = stream(7, 20_000);
    let mut program = TcpStream::connect(server.recorder()[0]).unwrap();
    program.write_all(&trace).unwrap();
    program.shutdown(std::net::Shutdown::Write).unwrap();
    // The recorder closes when it has all of it.
    assert_eq!(program.read(&mut [0]).unwrap_or(0), 0);
    let mut store = Store::connect(&server.store().to_string()).unwrap();
    let traces = store.traces().unwrap();
    assert_eq!(traces.len(), 1);
    let mut stored = Vec::new();
    store.read(traces[0].id).unwrap().read_to_end(&mut stored).unwrap();
    assert!(stored == trace, "{} bytes of {}", stored.len(), trace.len());
    let address = server.store();
    server.stop().unwrap();
    assert!(TcpStream::connect(address).is_err(), "it has ended");

    // Another gives the same traces, and records nothing.
    let mut settings = Settings::in_folder(folder.path()).unwrap();
    settings.recorder_ports.clear();
    let server = InProcess::start(settings).unwrap();
    assert_eq!(server.recorder(), []);
    let mut store = Store::connect(&server.store().to_string()).unwrap();
    assert_eq!(store.traces().unwrap().len(), 1);
}

#[test]
fn the_recorder_can_be_off() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let mixed = run(&["serve", "--folder", path, "--recorder-port", "off,1980"]);
    assert_eq!(mixed.0, 2);
    assert!(mixed.2.contains("but not both"), "{}", mixed.2);
    let wrong = run(&["serve", "--folder", path, "--recorder-port", "on"]);
    assert!(wrong.0 == 2 && wrong.2.contains("no port, and not off"), "{}", wrong.2);
    let mut child = super::harness::memledger(&["serve", "--folder", path, "--format", "json"])
        .args(["--recorder-port", "off", "--store-port", "0"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut out = std::io::BufReader::new(child.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut out, &mut line).unwrap();
    let ready: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(ready["recorder"], serde_json::json!([]));
    let status = Store::connect(ready["store"].as_str().unwrap()).unwrap().status().unwrap();
    assert_eq!(status.recorder_port, 0);
    child.kill().unwrap();
    child.wait().unwrap();
}
