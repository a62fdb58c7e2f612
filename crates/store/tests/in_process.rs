//! A recorder and a store within the program that uses them.
#![cfg(feature = "serve")]

use memledger_store::Store;
use memledger_store::serve::{InProcess, Settings};
use std::io::{Read, Write};
use std::net::TcpStream;

const SAMPLE: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/samples/memledger-small.utrace");

#[test]
fn a_program_has_a_recorder_and_a_store_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let server = InProcess::start(Settings::in_folder(folder.path()).unwrap()).unwrap();
    let trace = std::fs::read(SAMPLE).unwrap();
    let mut program = TcpStream::connect(server.listening().recorder[0]).unwrap();
    program.write_all(&trace).unwrap();
    program.shutdown(std::net::Shutdown::Write).unwrap();
    // The recorder closes when it has all of it.
    assert_eq!(program.read(&mut [0]).unwrap_or(0), 0);
    let mut store = Store::connect(&server.listening().store.to_string()).unwrap();
    let traces = store.traces().unwrap();
    assert_eq!(traces.len(), 1);
    let mut stored = Vec::new();
    store.read(traces[0].id).unwrap().read_to_end(&mut stored).unwrap();
    assert!(stored == trace, "{} bytes of {}", stored.len(), trace.len());
    let address = server.listening().store;
    server.stop().unwrap();
    assert!(TcpStream::connect(address).is_err(), "it has ended");

    // Another gives the same traces, and records nothing.
    let mut settings = Settings::in_folder(folder.path()).unwrap();
    settings.recorder_ports.clear();
    let server = InProcess::start(settings).unwrap();
    assert_eq!(server.listening().recorder, []);
    let mut store = Store::connect(&server.listening().store.to_string()).unwrap();
    assert_eq!(store.traces().unwrap().len(), 1);
}
