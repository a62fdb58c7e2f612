//! Many programs at once, some of which are killed, one of which talks nonsense, one says nothing.

use super::harness::{DEADLINE, Server, files, run, send, stream};
use memledger_analysis::read::{self, Event, Visitor};
use memledger_format::handshake::Handshake;
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::sync::{Barrier, mpsc};
use std::thread;

const PROGRAMS: u8 = 200;
const KILLED: u8 = 30;
/// What the server may have had at most: 64 KiB for each connection, and itself.
const MEMORY: u64 = 64 << 20;

const PORT: &str = "MEMLEDGER_TEST_PORT";
const NUMBER: &str = "MEMLEDGER_TEST_NUMBER";

/// What a program sends. Those with a low number are killed inside a packet.
fn sent_by(number: u8) -> Vec<u8> {
    let mut bytes = stream(number, 20_000 + usize::from(number) * 1500);
    if number < KILLED {
        bytes.truncate(bytes.len() - 1 - usize::from(number));
    }
    bytes
}

/// Not a test: a program that sends and then waits to be killed.
#[test]
#[ignore = "a child of two_hundred_programs_at_once"]
fn sender() {
    let (Ok(address), Ok(number)) = (std::env::var(PORT), std::env::var(NUMBER)) else { return };
    let mut connection = TcpStream::connect(address).unwrap();
    let bytes = sent_by(number.parse().unwrap());
    for piece in bytes.chunks(1777) {
        connection.write_all(piece).unwrap();
    }
    // Behind whatever the test harness has left on this line.
    println!("\nsent");
    let _ = std::io::stdin().read(&mut [0]);
}

struct Count(u64);

impl Visitor for Count {
    fn event(&mut self, _: &Event<'_>) {
        self.0 += 1;
    }
}

#[test]
fn two_hundred_programs_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Server::start(folder.path(), &[]);
    let silent = server.connect();
    // The connections are open, and begin to send all at once.
    let start = Barrier::new(usize::from(PROGRAMS - KILLED) + 2);
    let (killed, all_killed) = mpsc::channel();
    thread::scope(|scope| {
        for number in KILLED..PROGRAMS {
            let (start, mut connection) = (&start, server.connect());
            scope.spawn(move || {
                let bytes = sent_by(number);
                start.wait();
                for piece in bytes.chunks(1000 + usize::from(number) * 13) {
                    connection.write_all(piece).unwrap();
                }
            });
        }
        let (start, mut garbage) = (&start, server.connect());
        scope.spawn(move || {
            start.wait();
            // It is closed before all of it is sent.
            let _ = garbage.write_all(&vec![0xa5; 4 << 20]);
        });
        for number in 0..KILLED {
            let (killed, address) = (killed.clone(), server.recorder.clone());
            scope.spawn(move || {
                let mut child = Command::new(std::env::current_exe().unwrap())
                    .args(["--ignored", "--exact", "programs::sender", "--nocapture"])
                    .env(PORT, address)
                    .env(NUMBER, number.to_string())
                    .stdin(Stdio::piped())
                    .stdout(Stdio::piped())
                    .spawn()
                    .unwrap();
                let output = BufReader::new(child.stdout.take().unwrap());
                let sent = output.lines().map_while(Result::ok).any(|line| line == "sent");
                child.kill().unwrap();
                child.wait().unwrap();
                killed.send((number, sent)).unwrap();
            });
        }
        start.wait();
    });
    for _ in 0..KILLED {
        let (number, sent) = all_killed.recv_timeout(DEADLINE).unwrap();
        assert!(sent, "program {number} has sent all of it");
    }

    let ends = server.notes(usize::from(PROGRAMS), &[".utrace: ended, "]);
    assert_eq!(ends.len(), usize::from(PROGRAMS));
    server.notes(1, &["nothing from", "it begins with a5"]);
    server.notes(1, &["nothing from", "no start of a trace arrived within 10 s"]);
    drop(silent);
    let memory = server.peak_memory();
    assert!(memory < MEMORY, "{memory} bytes");

    let stored = files(folder.path());
    assert_eq!(stored.len(), usize::from(PROGRAMS));
    let mut by_program = HashMap::new();
    for (name, bytes) in stored {
        let (handshake, _) = Handshake::decode(&mut &bytes[..]).unwrap();
        let number = handshake.trace_guid.unwrap()[0];
        assert!(bytes == sent_by(number), "{name} is what program {number} has sent");
        let mut count = Count(0);
        let summary = read::read(&bytes[..], &mut count).unwrap();
        assert!(count.0 > 100, "{name} has events");
        assert_eq!(summary.skipped_bytes, 0);
        assert_eq!(summary.truncated_bytes > 0, number < KILLED, "{name}");
        by_program.insert(number, name);
    }
    assert_eq!(by_program.len(), usize::from(PROGRAMS));

    // And the store says the same.
    let mut store = server.client();
    let traces = store.traces().unwrap();
    assert_eq!(traces.len(), usize::from(PROGRAMS));
    assert!(traces.iter().all(|trace| !trace.live && trace.ended.is_none()));
    assert_eq!(store.sessions().unwrap(), []);
    for number in [0, KILLED, PROGRAMS - 1] {
        let trace = traces.iter().find(|trace| by_program[&number].starts_with(&trace.name));
        let mut bytes = Vec::new();
        store.read(trace.unwrap().id).unwrap().read_to_end(&mut bytes).unwrap();
        assert!(bytes == sent_by(number));
    }
    assert!(server.peak_memory() < MEMORY);
    println!("the server had {} KiB at most", memory >> 10);
}

/// A program of Unreal Engine 4 sends to port 1980 in any of the old transports. A file of an old recorder
/// has no magic number.
#[test]
fn what_engine_4_sends_is_kept_as_it_came() {
    let samples = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/samples/unreal4");
    let names =
        ["p0-raw", "p0-packet", "p1-tid", "p2-tid", "p3-tid", "p4-tid-ue426", "p4-tid-trc2"];
    let read = |name| std::fs::read(format!("{samples}/{name}.utrace")).unwrap();
    let mut sent = names.map(read).to_vec();
    sent.push(sent[0][4..].to_vec());
    let folder = tempfile::tempdir().unwrap();
    let mut server = Server::start(folder.path(), &[]);
    for (count, bytes) in sent.iter().enumerate() {
        send(server.connect(), bytes);
        server.notes(count + 1, &["ended"]);
    }
    let kept = files(folder.path());
    assert_eq!(kept.len(), sent.len());
    for (name, bytes) in &kept {
        assert!(sent.contains(bytes), "{name}: {} bytes", bytes.len());
        let path = folder.path().join(name);
        let (status, _, err) = run(&["report", path.to_str().unwrap()]);
        assert_eq!((status, err.as_str()), (0, ""), "{name}");
    }
}
