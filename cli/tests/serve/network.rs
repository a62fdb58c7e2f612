//! What needs a network of its own: there every port is free, an address that is not the loopback's
//! is one of this machine's, and no other can be reached.

use super::harness::{SAMPLE, Server, files, memledger, output, run, told_bytes};
use memledger_store::token_line;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

const TOKEN: &str = "correct-horse-battery";
const ADDRESS: &str = "10.99.0.1";
const INSIDE: &str = "MEMLEDGER_TEST_NETWORK";
const NETWORK: &str = "ip link set lo up && ip addr add 10.99.0.1/32 dev lo";

/// Runs a test of this file, which is ignored otherwise, in a network of its own.
fn in_own_network(test: &str) {
    let unshare = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["-rn", "sh", "-c", script]).stdin(Stdio::null());
        command
    };
    if !unshare(NETWORK).stderr(Stdio::null()).status().is_ok_and(|status| status.success()) {
        eprintln!("not tested: this machine gives no network of one's own (unshare, ip)");
        return;
    }
    let run = format!("{NETWORK} && exec \"$TEST\" --ignored --exact network::{test}");
    let child = unshare(&run)
        .env("TEST", std::env::current_exe().unwrap())
        .env(INSIDE, "1")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (status, out, err) = told_bytes(output(child));
    let out = String::from_utf8_lossy(&out);
    assert!(status == 0 && out.contains("1 passed"), "{out}\n{err}");
}

#[test]
fn other_machines_need_the_token() {
    in_own_network("token");
}

#[test]
fn the_ports_are_unreals() {
    in_own_network("ports");
}

fn token_file(path: &Path, token: &str) -> String {
    std::fs::write(path, format!("{token}\n")).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
#[ignore = "a child of the_ports_are_unreals"]
fn ports() {
    if std::env::var_os(INSIDE).is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let start = |name: &str| {
        memledger(&["serve", "--store"])
            .arg(folder.path().join(name))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let listens = |child: &mut Child| {
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        line
    };
    let stop = |child: Child| {
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        told_bytes(output(child))
    };
    // Port 1981 may be taken, by Unreal's own server perhaps.
    let taken = TcpListener::bind("127.0.0.1:1981").unwrap();
    let mut one = start("one");
    assert_eq!(listens(&mut one), "recording at  127.0.0.1:1980\n");
    let (status, _, err) = stop(one);
    assert_eq!(status, 0);
    let says = "memledger: continuing without port 1981: cannot listen on 127.0.0.1:1981: another";
    assert!(err.starts_with(says) && err.lines().count() == 1, "{err}");
    drop(taken);

    let mut both = start("both");
    assert_eq!(listens(&mut both), "recording at  127.0.0.1:1980, 127.0.0.1:1981\n");
    let (status, _, err) = told_bytes(output(start("other")));
    assert_eq!(status, 1);
    assert!(err.contains("cannot listen on 127.0.0.1:1980: another program does"), "{err}");
    let (status, out, err) = run(&["traces"]);
    assert_eq!((status, &out[..], err.as_str()), (0, &b"there are no traces yet\n"[..], ""));
    assert_eq!(stop(both).0, 0);
}

#[test]
#[ignore = "a child of other_machines_need_the_token"]
fn token() {
    if std::env::var_os(INSIDE).is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let right = token_file(&folder.path().join("right"), TOKEN);
    let wrong = token_file(&folder.path().join("wrong"), "wrong-horse-battery");
    let store = folder.path().join("store");
    let mut server = Server::start(&store, &["--listen", "0.0.0.0", "--token-file", &right]);
    let port = |address: &str| address.rsplit_once(':').unwrap().1.to_owned();
    let other = format!("{ADDRESS}:{}", port(&server.recorder));
    let trace = std::fs::read(SAMPLE).unwrap();
    let line = token_line(TOKEN).unwrap();
    for (token, says) in [
        ("", "a program on another machine must send a token first, and it sent none"),
        ("MEMLEDGER-TOKEN wrong-horse-battery\n", "its token is wrong"),
        (&format!("{}\n", &line[..line.len() - 2]), "its token is wrong"),
        ("MEMLEDGER-TOKEN \n", "its token is wrong"),
    ] {
        let mut program = TcpStream::connect(&other).unwrap();
        let _ = program.write_all(&[token.as_bytes(), &trace].concat());
        server.notes(1, &[&format!("nothing from {ADDRESS}:"), says]);
    }
    assert!(files(&store).is_empty());
    let mut program = TcpStream::connect(&other).unwrap();
    program.write_all(line.as_bytes()).unwrap();
    program.write_all(&trace).unwrap();
    drop(program);
    server.notes(1, &["ended"]);
    assert!(files(&store)[0].1 == trace);

    let asked = format!("{ADDRESS}:{}", port(&server.store));
    let (status, _, err) = run(&["traces", "--store", &asked]);
    assert_eq!(status, 1);
    assert!(err.contains("status 403: from another machine every request needs a token"), "{err}");
    let (status, _, err) = run(&["traces", "--store", &asked, "--token-file", &wrong]);
    assert_eq!(status, 1);
    assert!(err.contains("status 403: the token is wrong"), "{err}");
    let (status, out, err) = run(&["traces", "--store", &asked, "--token-file", &right]);
    assert_eq!((status, err.as_str()), (0, ""));
    let name = &files(&store)[0].0[.."20261121_134519_001".len()];
    assert!(String::from_utf8(out).unwrap().contains(name));
    let args = ["fetch", name, "--store", &asked, "--token-file", &right, "-o", "-"];
    let (status, out, err) = run(&args);
    assert_eq!((status, err.as_str()), (0, ""));
    assert!(out == trace);

    // This machine's own programs need none.
    let mut store =
        memledger_store::Store::connect(&format!("127.0.0.1:{}", port(&server.store))).unwrap();
    let id = store.traces().unwrap()[0].id;
    let mut read = Vec::new();
    store.read(id).unwrap().read_to_end(&mut read).unwrap();
    assert!(read == trace);
}
