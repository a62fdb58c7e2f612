//! A recorder and a store within the program that uses them.

use super::harness::{run, stream};
use memledger_store::Store;
use memledger_store::serve::{InProcess, Settings};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Stdio;

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
