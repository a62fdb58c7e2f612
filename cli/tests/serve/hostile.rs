//! Requests that no client sends: each refused with a status and a reason, and nothing done.

use super::harness::{Server, files, send, stream};
use memledger_store::{MAX_REQUEST, MAX_RESPONSE, Message};
use std::io::{Read, Write};
use std::net::TcpStream;

fn request(path: &str) -> Message {
    Message::request(path)
}

/// Sends the bytes and reads one answer.
fn answer(connection: &mut TcpStream, bytes: &[u8]) -> Message {
    let _ = connection.write_all(bytes);
    let mut size = [0; 4];
    connection.read_exact(&mut size).unwrap();
    let size = u32::from_le_bytes(size) as usize;
    assert!(size <= MAX_RESPONSE);
    let mut body = vec![0; size];
    connection.read_exact(&mut body).unwrap();
    Message::decode(&body).unwrap()
}

fn framed(body: &[u8]) -> Vec<u8> {
    [&(body.len() as u32).to_le_bytes(), body].concat()
}

#[test]
fn hostile_requests_are_refused_with_a_reason() {
    let folder = tempfile::tempdir().unwrap();
    let secret = folder.path().join("secret");
    std::fs::write(&secret, "secret").unwrap();
    let store = folder.path().join("store");
    std::fs::create_dir(&store).unwrap();
    std::os::unix::fs::symlink(&secret, store.join("link.utrace")).unwrap();
    let mut server = Server::start(&store, &[]);
    send(server.connect(), &stream(1, 20_000));
    server.notes(1, &["ended"]);
    let before = files(&store);

    // A status, a part of the reason, and whether the connection stays open.
    let deep = [&[0xbf, 0x61, b'a'][..], &[0x81; 1000], &[1, 0xff]].concat();
    let text = |key: &str, value: &str| request("v1/trace/read").with(key, value).encode();
    let number = |path: &str, key: &str, value: i64| request(path).with(key, value).encode();
    let cases: Vec<(Vec<u8>, i64, &str, bool)> = vec![
        (text("id", "../../../../etc/passwd"), 400, "needs an 'id'", true),
        (text("name", "../secret"), 400, "needs an 'id'", true),
        (text("id", "link"), 400, "needs an 'id'", true),
        (number("v1/trace/read", "id", 1), 404, "no such trace", true),
        (number("v1/trace/read", "id", i64::MAX), 400, "needs an 'id'", true),
        (number("v1/trace/info", "id", -5), 404, "no such trace", true),
        (number("v1/trace/info", "index", 1), 404, "no such trace", true),
        (number("v1/trace/info", "index", i64::MAX), 404, "no such trace", true),
        (number("v1/trace/info", "index", i64::MIN), 400, "an 'index' or an 'id'", true),
        (number("v1/session/info", "index", 0), 404, "no such session", true),
        (request("v1/session/info").encode(), 400, "needs an 'index'", true),
        (
            request("v1/session/info").with("trace_guid", "../../x").encode(),
            400,
            "32 hexadecimal digits",
            true,
        ),
        (request("v1/../../etc/passwd").encode(), 404, "no such path", true),
        (request("").encode(), 404, "no such path", true),
        (request("v1/trace/delete").encode(), 404, "no such path", true),
        (
            request("v1/settings/write").with("StoreDir", "/etc").encode(),
            403,
            "settings are given on the command line",
            true,
        ),
        (Message::default().with("$request", "GET").encode(), 400, "no '$path'", true),
        (
            Message::default().with("$request", "PUT").with("$path", "v1/status").encode(),
            400,
            "'$request' can be 'GET' only",
            true,
        ),
        (framed(b"\x9f\xff"), 400, "not a map", true),
        (framed(b"\xff"), 400, "no", true),
        (framed(&deep), 400, "nested more than 8 deep", true),
        (framed(b"\xbf\x61a\x9b\x40\0\0\0\0\0\0\0"), 400, "CBOR ends after 12 bytes", true),
        (framed(b"\xbf\x61a\x7b\x40\0\0\0\0\0\0\0"), 400, "CBOR ends after 12 bytes", true),
        (framed(b"{\"$path\": \"v1/status\"}"), 400, "CBOR", true),
        (framed(&vec![0xa0; MAX_REQUEST]), 400, "only 1 of its 1024 bytes are", true),
        (vec![0; 4], 400, "this one announces 0", false),
        (framed(&vec![0; MAX_REQUEST + 1]), 400, "this one announces 1025", false),
        (vec![0xff; 1 << 20], 400, "this one announces 4294967295", false),
        (b"GET /v1/status HTTP/1.1\r\nHost: x\r\n\r\n".to_vec(), 400, "this is HTTP", false),
        (b"POST / HTTP/1.1\r\n\r\n".to_vec(), 400, "this is HTTP", false),
        (b"2CRT\x00\x00\x04\x07".to_vec(), 400, "announces 1414677298", false),
    ];
    let mut connection = TcpStream::connect(&server.store).unwrap();
    for (bytes, status, reason, goes_on) in cases {
        let shown = &bytes[..bytes.len().min(40)];
        let said = answer(&mut connection, &bytes);
        assert_eq!(said.integer("$status"), Some(status), "{shown:?}: {said:?}");
        let told = said.text("reason").unwrap_or_default();
        assert!(told.contains(reason), "{shown:?}: {told}");
        if !goes_on {
            let mut rest = Vec::new();
            let _ = connection.read_to_end(&mut rest);
            assert_eq!(rest, b"", "{shown:?}: it is closed behind the answer");
            connection = TcpStream::connect(&server.store).unwrap();
        }
        let version = answer(&mut connection, &request("v1/version").encode());
        assert_eq!(version.integer("$status"), Some(200), "after {shown:?}");
        assert_eq!(version.integer("major"), Some(1));
    }
    // Beginnings of requests whose ends never come.
    let unfinished: Vec<_> = [&[5][..], &[5, 0, 0, 0], &[0, 4, 0, 0, 0xbf, 0x61]]
        .into_iter()
        .map(|bytes| {
            let mut connection = TcpStream::connect(&server.store).unwrap();
            connection.write_all(bytes).unwrap();
            connection
        })
        .collect();
    assert_eq!(server.client().traces().unwrap().len(), 1, "the link is none");
    drop(unfinished);

    assert!(server.is_running());

    assert!(files(&store) == before, "nothing is written");
    assert_eq!(std::fs::read(&secret).unwrap(), b"secret");
    assert!(server.peak_memory() < 64 << 20);
}

#[test]
fn garbage_for_the_recorder_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Server::start(folder.path(), &[]);
    for (bytes, says) in [
        (&b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"[..], "it begins with 47 45 54 20"),
        (b"\x7fELF\x02\x01\x01\0", "this is not a trace: it is a program"),
        (b"2CRT", "it closed after 4 bytes, inside the start of a trace"),
        (b"2CRT\xff\xff\0\0\0", "it closed after 9 bytes"),
        (b"", "it closed after 0 bytes"),
        (&[0xbf; 2 << 20], "it begins with bf bf bf bf"),
    ] {
        let mut connection = server.connect();
        let _ = connection.write_all(bytes);
        drop(connection);
        server.notes(1, &["nothing from 127.0.0.1:", says]);
    }
    assert!(files(folder.path()).is_empty());
    assert_eq!(server.client().traces().unwrap(), []);
    // It still does its work.
    send(server.connect(), &stream(3, 20_000));
    server.notes(1, &["ended"]);
}

#[test]
fn every_beginning_of_a_request_may_be_all_that_comes() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    let whole = request("v1/trace/info").with("index", 0_u32).encode();
    for end in 0..whole.len() {
        let mut connection = TcpStream::connect(&server.store).unwrap();
        connection.write_all(&whole[..end]).unwrap();
        connection.shutdown(std::net::Shutdown::Write).unwrap();
        let mut rest = Vec::new();
        connection.read_to_end(&mut rest).unwrap();
        assert_eq!(rest, b"", "{end}");
    }
    assert_eq!(server.client().status().unwrap().store_port.to_string(), server.store[10..]);
}
