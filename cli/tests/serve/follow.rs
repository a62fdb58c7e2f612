//! Traces that are read while they grow.

use super::harness::{Server, exactly, files, memledger, output, packets, stream, told_bytes};
use rustix::process::Signal;
use std::io::{Read, Write};
use std::process::Stdio;
use std::thread;

#[test]
fn a_live_trace_is_followed_to_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Server::start(folder.path(), &[]);
    let bytes = stream(7, 200_000);
    let mut program = server.connect();
    program.write_all(&bytes[..100_000]).unwrap();
    server.notes(1, &[".utrace: recording 127.0.0.1:"]);

    let mut store = server.client();
    let trace = store.traces().unwrap().remove(0);
    assert!(trace.live);
    let session = store.sessions().unwrap().remove(0);
    assert_eq!(session.trace_id, trace.id);
    assert_eq!(session.address.to_string(), "127.0.0.1");
    assert_eq!(session.control_port, Some(40_007));

    let mut early = store.read(trace.id).unwrap();
    let mut seen = exactly(&mut early, 90_000);
    assert!(seen == bytes[..90_000], "all but the packet that is unfinished can be there");
    let fetch = memledger(&["fetch", &trace.name, "--store", &server.store, "-o", "-"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let late = store.read(trace.id).unwrap();
    let late = thread::spawn(move || {
        let (mut late, mut seen) = (late, Vec::new());
        late.read_to_end(&mut seen).unwrap();
        seen
    });
    program.write_all(&bytes[100_000..150_000]).unwrap();
    seen.extend(exactly(&mut early, 50_000));
    assert!(seen == bytes[..140_000]);
    assert!(store.trace(trace.id).unwrap().unwrap().live);
    // Killed inside a packet: what has come is the trace.
    program.write_all(&bytes[150_000..bytes.len() - 3]).unwrap();
    drop(program);
    early.read_to_end(&mut seen).unwrap();
    let sent = &bytes[..bytes.len() - 3];
    assert!(seen == sent);
    assert!(late.join().unwrap() == sent);
    let (status, fetched, err) = told_bytes(output(fetch));
    assert_eq!((status, err.as_str()), (0, ""));
    assert!(fetched == sent);

    let now = store.trace(trace.id).unwrap().unwrap();
    assert!(!now.live && now.ended.is_none());
    assert_eq!(now.size, sent.len() as u64);
    assert_eq!(store.sessions().unwrap(), []);
}

#[test]
fn after_sigkill_every_trace_is_there_and_found_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Server::start(folder.path(), &[]);
    // A program that sends until its connection is closed.
    let start = packets(16);
    let (head, body) = start.split_at(8);
    let sent = |size: usize| [head, &body.repeat(size / body.len() + 1)].concat()[..size].to_vec();
    let done = stream(9, 30_000);
    super::harness::send(server.connect(), &done);
    server.notes(1, &["ended"]);
    let mut program = server.connect();
    let (head_sent, body_sent) = (head.to_vec(), body.to_vec());
    let sender = thread::spawn(move || {
        program.write_all(&head_sent).unwrap();
        while program.write_all(&body_sent).is_ok() {}
    });
    server.notes(2, &["recording"]);
    let mut store = server.client();
    let live = loop {
        let found = store.traces().unwrap().into_iter().find(|trace| trace.live).unwrap();
        if found.size > 1 << 20 {
            break found;
        }
    };
    let id = live.id.to_string();
    let fetched = folder.path().join(".fetched");
    let fetch = memledger(&["fetch", &id, "--store", &server.store, "-o"])
        .arg(&fetched)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    while std::fs::metadata(&fetched).map_or(0, |metadata| metadata.len()) == 0 {
        thread::yield_now();
    }
    server.signal(Signal::KILL);
    let (status, out, err) = told_bytes(output(fetch));
    assert_eq!((status, out), (1, vec![]));
    let fetched = std::fs::read(&fetched).unwrap();
    assert!(err.contains(&format!("has only the first {} bytes: ", fetched.len())), "{err}");
    assert_eq!(server.end().0, None);
    sender.join().unwrap();

    let stored = files(folder.path());
    assert_eq!(stored.len(), 2);
    assert!(stored[0].1 == done);
    assert!(stored[1].1.len() as u64 >= live.size, "what the store has told is there");
    assert!(stored[1].1 == sent(stored[1].1.len()));
    assert!(fetched == sent(fetched.len()));

    let again = Server::start(folder.path(), &[]);
    assert_eq!(again.traces, 2);
    let mut store = again.client();
    let found = store.traces().unwrap();
    assert_eq!(found[1].id, live.id);
    assert!(found.iter().all(|trace| !trace.live));
    let mut read = Vec::new();
    store.read(live.id).unwrap().read_to_end(&mut read).unwrap();
    assert!(read == stored[1].1);
}
