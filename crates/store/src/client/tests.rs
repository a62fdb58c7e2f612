//! A client, and a store whose answers the test defines.

use super::super::message::MAX_RESPONSE;
use super::*;
use std::io::{self, Read, Write};
use std::net::TcpListener;
use std::thread::{self, JoinHandle};

/// Runs a store that gives these answers, whatever the requests are; returns the requests.
fn store(answers: Vec<Vec<u8>>) -> (String, JoinHandle<Vec<Message>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let thread = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut requests = Vec::new();
        for answer in answers {
            let mut size = [0; 4];
            stream.read_exact(&mut size).unwrap();
            let mut body = vec![0; u32::from_le_bytes(size) as usize];
            stream.read_exact(&mut body).unwrap();
            requests.push(Message::decode(&body).unwrap());
            stream.write_all(&answer).unwrap();
        }
        requests
    });
    (address, thread)
}

fn ok() -> Message {
    Message::response(200)
}

fn status(serial: u32) -> Vec<u8> {
    let status = ok().with("recorder_port", 1981_u32).with("change_serial", serial);
    status.with("store_dir", "/traces").encode()
}

fn info(id: u32) -> Message {
    let ticks = UNIX_EPOCH_TICKS + 15_000_001;
    ok().with("id", id).with("size", 7_u32).with("timestamp", ticks).with("name", "a")
}

#[test]
fn a_list_that_changes_meanwhile_is_asked_for_again() {
    let count = |count: u32| ok().with("count", count).encode();
    let (address, thread) = store(vec![
        status(1),
        count(2),
        info(5).with("live", 1_u32).encode(),
        info(5).with("live", 1_u32).encode(),
        status(2),
        status(2),
        count(2),
        info(5).with("live", 1_u32).encode(),
        info(u32::MAX).with("live", 0_u32).with("ended", "quota").encode(),
        status(2),
    ]);
    let mut store = Store::connect(&address).unwrap();
    let traces = store.traces().unwrap();
    let modified = SystemTime::UNIX_EPOCH + Duration::from_nanos(1_500_000_100);
    let first = StoredTrace {
        id: 5,
        name: "a".into(),
        size: 7,
        modified,
        live: true,
        ended: None,
        complete: None,
    };
    let second =
        StoredTrace { id: u32::MAX, live: false, ended: Some("quota".into()), ..first.clone() };
    assert_eq!(traces, [first, second]);
    let requests = thread.join().unwrap();
    assert_eq!(requests[3].integer("index"), Some(1));
}

#[test]
fn unreals_answers_are_understood() {
    let session = ok().with("id", 9_u32).with("trace_id", 5_u32);
    let (address, thread) = store(vec![
        info(5).encode(),
        session.encode(),
        info(5).encode(),
        Message::response(400).encode(),
        Message::response(400).encode(),
    ]);
    let mut store = Store::connect(&address).unwrap();
    assert!(store.trace(5).unwrap().unwrap().live);
    assert!(!store.trace(5).unwrap().unwrap().live);
    assert_eq!(store.trace(6).unwrap(), None);
    let requests = thread.join().unwrap();
    assert_eq!(requests[1].text("$path"), Some("v1/session/info"));
    assert_eq!(requests[1].integer("trace_id"), Some(5));
}

#[test]
fn refusals_and_nonsense_are_one_sentence() {
    let refusal = Message::response(403).with("reason", "the token is missing");
    let huge = (MAX_RESPONSE as u32 + 1).to_le_bytes().to_vec();
    for (answer, says) in [
        (refusal.encode(), "refuses v1/status with status 403: the token is missing"),
        (ok().encode(), "answers without a sensible 'recorder_port'"),
        (ok().with("recorder_port", 70_000_u32).encode(), "without a sensible 'recorder_port'"),
        (b"HTTP/1.1 400 Bad Request".to_vec(), "it announces 1347703880 bytes"),
        (huge, "it announces 65537 bytes, but only 1 to 65536 are allowed"),
        (vec![0; 4], "it announces 0 bytes"),
        (vec![1, 0, 0, 0, 0xff], "is invalid"),
        (vec![9, 0, 0], "it has closed the connection"),
    ] {
        let (address, thread) = store(vec![answer]);
        let mut store = Store::connect(&address).unwrap();
        let error = store.status().unwrap_err().to_string();
        assert!(error.contains(says) && error.contains(&address), "{error}");
        thread.join().unwrap();
    }
}

#[test]
fn nothing_is_asked_after_a_failure() {
    let (address, thread) = store(vec![vec![0; 4]]);
    let mut store = Store::connect(&address).unwrap();
    store.status().unwrap_err();
    store.status().unwrap_err();
    assert_eq!(thread.join().unwrap().len(), 1);
}

#[test]
fn a_trace_is_read_from_the_port_that_is_told() {
    let data = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = u32::from(data.local_addr().unwrap().port());
    let (address, thread) = store(vec![
        ok().with("port", port).encode(),
        Message::response(404).with("reason", "there is no such trace").encode(),
    ]);
    let mut store = Store::connect(&address).unwrap();
    let mut trace = store.read(5).unwrap();
    let (mut stream, _) = data.accept().unwrap();
    trace.set_timeout(Some(Duration::from_millis(1))).unwrap();
    let error = trace.read(&mut [0]).unwrap_err();
    assert!(matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut));
    assert!(
        matches!(trace.set_timeout(Some(Duration::ZERO)), Err(error) if error.kind() == ErrorKind::InvalidTimeout)
    );
    trace.set_timeout(None).unwrap();
    stream.write_all(b"2CRT").unwrap();
    drop(stream);
    let mut bytes = Vec::new();
    trace.read_to_end(&mut bytes).unwrap();
    assert_eq!(bytes, b"2CRT");
    let error = store.read(6).unwrap_err().to_string();
    assert!(error.contains("refuses v1/trace/read with status 404: there is no such"), "{error}");
    let requests = thread.join().unwrap();
    assert_eq!(requests[0].text("$path"), Some("v1/trace/read"));
    assert_eq!(requests[0].integer("id"), Some(5));
}

#[test]
fn the_token_goes_with_each_request() {
    let (address, thread) = store(vec![status(1)]);
    let store = Store::connect(&address).unwrap();
    store.with_token("correct-horse-battery").unwrap().status().unwrap();
    assert_eq!(thread.join().unwrap()[0].text("$token"), Some("correct-horse-battery"));
}

#[test]
fn times_before_1970_are_1970() {
    for ticks in [i64::MIN, 0, UNIX_EPOCH_TICKS - 1] {
        assert_eq!(time(ticks), SystemTime::UNIX_EPOCH);
    }
    assert!(time(i64::MAX) > SystemTime::now());
}
