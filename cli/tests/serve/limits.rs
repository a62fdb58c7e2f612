//! What is bounded: traces, the store, programs, silence.

use super::harness::{DEADLINE, Server, files, packets, send, stream};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::thread;

#[test]
fn a_trace_that_reaches_its_quota_is_cut_behind_a_packet_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Server::start(folder.path(), &["--max-trace", "1MiB"]);
    let bytes = packets(50);
    let mut program = server.connect();
    let sending = bytes.clone();
    let sender = thread::spawn(move || {
        // The connection is closed before all of it is sent, or while it is under way.
        let _ = program.write_all(&sending);
        let _ = program.read(&mut [0]);
    });
    let note = server.notes(1, &["cut, because it has reached the 1.0 MiB"]).remove(0);
    sender.join().unwrap();
    let stored = files(folder.path());
    // The start, and 17 packets of 60 000 bytes.
    assert!(stored[0].1 == bytes[..8 + 17 * 60_000], "{note}, {} bytes", stored[0].1.len());
    let trace = server.client().traces().unwrap().remove(0);
    assert_eq!((trace.size, trace.live), (1_020_008, false));
    assert_eq!(trace.ended.unwrap(), "it has reached the 1.0 MiB allowed for one trace");
    // Another one has the same right.
    send(server.connect(), &stream(1, 20_000));
    server.notes(1, &["ended"]);
}

#[test]
fn a_full_store_says_so_and_keeps_what_it_has() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Server::start(folder.path(), &["--max-store", "1MiB"]);
    let mut first = server.connect();
    first.write_all(&packets(16)).unwrap();
    let (mut first_store, mut tries) = (server.client(), 0);
    while first_store.traces().unwrap().first().is_none_or(|trace| trace.size < 960_008) {
        tries += 1;
        assert!(tries < 100_000);
    }
    send(server.connect(), &packets(1));
    server.notes(1, &["nothing from", "the store is full: 937.5 KiB of 1.0 MiB are used"]);
    let _ = first.write_all(&packets(9)[8..]);
    server.notes(1, &["cut, because the store is full"]);
    let stored = files(folder.path());
    assert_eq!(stored.len(), 1);
    assert_eq!(stored[0].1.len(), 8 + 17 * 60_000);
    // Somebody makes room.
    std::fs::remove_file(folder.path().join(&stored[0].0)).unwrap();
    while !first_store.traces().unwrap().is_empty() {}
    send(server.connect(), &packets(1));
    server.notes(1, &["ended"]);
}

#[test]
fn one_program_too_many_is_turned_away() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Server::start(folder.path(), &["--max-programs", "2"]);
    let mut two = [server.connect(), server.connect()];
    for program in &mut two {
        program.write_all(&packets(1)).unwrap();
    }
    server.notes(2, &["recording"]);
    let mut third = server.connect();
    server.notes(1, &["is turned away: all 2 connections are in use"]);
    assert!(matches!(third.read(&mut [0]), Ok(0) | Err(_)), "closed");
    drop(two);
    server.notes(2, &["ended"]);
    send(server.connect(), &packets(1));
    server.notes(3, &["ended"]);
}

#[test]
fn a_program_that_falls_silent_is_let_go() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Server::start(folder.path(), &["--idle-timeout", "1"]);
    let mut program = server.connect();
    program.write_all(&packets(2)).unwrap();
    server.notes(1, &["closed after 1 s without data, 117.2 KiB"]);
    assert!(matches!(program.read(&mut [0]), Ok(0) | Err(_)), "closed");
    assert!(files(folder.path())[0].1 == packets(2));
}

#[test]
fn a_token_line_is_taken_and_not_stored() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Server::start(folder.path(), &[]);
    let bytes = packets(1);
    let line = memledger_store::token_line("correct-horse-battery").unwrap();
    let mut program = server.connect();
    for piece in [line.as_bytes(), &bytes].concat().chunks(7001) {
        program.write_all(piece).unwrap();
    }
    drop(program);
    server.notes(1, &["ended"]);
    assert!(files(folder.path())[0].1 == bytes);
    for (nonsense, says) in [
        (&b"MEMLEDGER-TOKEN"[..], "it closed after 15 bytes, inside"),
        (b"MEMORY\n", "it begins with 4d 45 4d 4f"),
        (b"MEMLEDGER-TOKE\n", "it begins with 4d 45 4d 4c"),
        (&[b"MEMLEDGER-TOKEN ", &[b'x'; 5000][..]].concat(), "no end within 273 bytes"),
        (b"MEMLEDGER-TOKEN correct-horse-battery\nGET / HTTP/1.1", "it begins with 47 45 54 20"),
    ] {
        send(server.connect(), nonsense);
        server.notes(1, &["nothing from", says]);
    }
    assert_eq!(files(folder.path()).len(), 1);
}

#[test]
fn too_few_descriptors_cost_some_programs_and_not_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n 40; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_memledger")]);
    command.stdin(Stdio::null());
    let mut server = Server::start_by(command, folder.path(), &[]);
    server.notes(1, &["the system allows fewer open files than the 2320 that"]);
    let bytes = packets(1);
    let mut programs: Vec<_> = (0..60).map(|_| server.connect()).collect();
    for program in &mut programs {
        // Those that could not be taken are closed.
        let _ = program.write_all(&bytes);
    }
    server.notes(1, &["a connection cannot be accepted: "]);
    drop(programs);
    // They waited in the queue, and each gets a file or a refusal.
    let outcomes = server.notes(60, &["127.0.0.1:"]);
    let kept = outcomes.iter().filter(|note| note.contains(".utrace: recording")).count();
    let refused = outcomes.iter().filter(|note| note.contains("no file can be created")).count();
    assert!(kept > 0 && kept + refused == 60, "{outcomes:#?}");
    server.notes(kept, &[".utrace: ended, 58.6 KiB"]);
    // And when they are gone it is as before.
    send(server.connect(), &stream(5, 20_000));
    server.notes(kept + 1, &[".utrace: ended"]);
    let stored = files(folder.path());
    assert_eq!(stored.len(), kept + 1);
    let (last, others) = stored.split_last().unwrap();
    assert!(last.1 == stream(5, 20_000));
    assert!(others.iter().all(|(_, stored)| *stored == bytes));
}

#[test]
fn silent_askers_do_not_keep_others_out() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--max-readers", "4"]);
    let mut silent: Vec<_> = (0..4).map(|_| TcpStream::connect(&server.store).unwrap()).collect();
    // Neither does one that never ends its request, nor one whose requests make no sense.
    silent[1].write_all(&[100, 0, 0, 0, 0xbf]).unwrap();
    silent[2].write_all(&[1, 0, 0, 0, 0xff]).unwrap();
    assert!(silent[2].read(&mut [0; 100]).unwrap() > 4, "it gets an answer");
    let mut four: Vec<_> = (0..4).map(|_| server.client()).collect();
    for client in &mut four {
        assert_eq!(client.traces().unwrap(), []);
    }
    for mut one in silent {
        let mut rest = Vec::new();
        assert!(matches!(one.read_to_end(&mut rest), Ok(_) | Err(_)), "closed");
    }
    // Those that have just asked stay.
    assert!(server.client().status().is_err());
    assert!(four.iter_mut().all(|client| client.status().is_ok()));
}

#[test]
fn one_that_never_asks_is_let_go_after_10_s() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    let mut silent = TcpStream::connect(&server.store).unwrap();
    let mut slow = TcpStream::connect(&server.store).unwrap();
    slow.write_all(&[1, 0, 0, 0, 0xff]).unwrap();
    let mut asked = server.client();
    asked.status().unwrap();
    // Five minutes without a first request, before.
    for one in [&mut silent, &mut slow] {
        one.set_read_timeout(Some(DEADLINE)).unwrap();
        let ended = one.read_to_end(&mut Vec::new());
        assert!(ended.is_ok(), "{ended:?}");
    }
    asked.status().unwrap();
}
