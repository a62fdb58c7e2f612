//! `memledger traces` and `memledger fetch` as a user meets them.

use super::harness::{Server, memledger, output, packets, run, send, stream, told_bytes};
use memledger_store::Message;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::Stdio;
use std::thread;

fn json(server: &Server) -> serde_json::Value {
    let (status, out, err) = run(&["traces", "--store", &server.store, "--format", "json"]);
    assert_eq!((status, err.as_str()), (0, ""));
    serde_json::from_slice(&out).unwrap()
}

#[test]
fn traces_are_listed_as_text_and_json() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Server::start(folder.path(), &["--max-trace", "1MiB"]);
    let empty = run(&["traces", "--store", &server.store]);
    assert_eq!(empty, (0, b"there are no traces yet\n".to_vec(), String::new()));
    send(server.connect(), &stream(1, 20_000));
    server.notes(1, &["ended"]);
    let mut long = server.connect();
    let _ = long.write_all(&packets(20));
    server.notes(1, &["cut, because"]);
    let mut live = server.connect();
    live.write_all(&stream(2, 20_000)).unwrap();
    server.notes(3, &["recording"]);

    let list = json(&server);
    assert_eq!(list["schema"], "memledger.traces/1");
    let traces = list["traces"].as_array().unwrap();
    assert_eq!(traces.len(), 3);
    assert_eq!(traces[0]["bytes"], stream(1, 20_000).len());
    assert_eq!((&traces[0]["live"], &traces[0]["ended"]), (&false.into(), &().into()));
    assert_eq!(traces[1]["ended"], "it has reached the 1.0 MiB allowed for one trace");
    assert_eq!((&traces[2]["live"], &traces[2]["control_port"]), (&true.into(), &40_002.into()));
    let (status, out, err) = run(&["traces", "--store", &server.store]);
    assert_eq!((status, err.as_str()), (0, ""));
    let text = String::from_utf8(out).unwrap();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 4, "{text}");
    assert!(lines[0].starts_with("        id        size  last written"));
    assert!(lines[1].ends_with("  ended"), "{text}");
    assert!(lines[2].ends_with("  cut: it has reached the 1.0 MiB allowed for one trace"));
    assert!(lines[3].ends_with("  recording 127.0.0.1"), "{text}");
    for (line, trace) in lines[1..].iter().zip(traces) {
        assert!(line.contains(&trace["id"].to_string()), "{text}");
        assert!(line.contains(trace["name"].as_str().unwrap()), "{text}");
    }
}

#[test]
fn a_trace_is_fetched_by_id_and_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Server::start(folder.path(), &[]);
    let bytes = stream(1, 100_000);
    send(server.connect(), &bytes);
    server.notes(1, &["ended"]);
    let trace = json(&server)["traces"][0].clone();
    let (id, name) = (trace["id"].to_string(), trace["name"].as_str().unwrap().to_owned());
    let here = tempfile::tempdir().unwrap();
    let fetch = |args: &[&str]| {
        let child = memledger(&["fetch", "--store", &server.store])
            .args(args)
            .current_dir(here.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        told_bytes(output(child))
    };
    let done = (0, vec![], String::new());
    assert_eq!(fetch(&[&id]), done);
    let own = here.path().join(format!("{name}.utrace"));
    assert!(std::fs::read(&own).unwrap() == bytes);
    assert_eq!(fetch(&[&name, "-o", "named.utrace"]), done);
    assert!(std::fs::read(here.path().join("named.utrace")).unwrap() == bytes);
    let (status, out, err) = fetch(&[&name, "-o", "-"]);
    assert_eq!((status, err.as_str()), (0, ""));
    assert!(out == bytes);

    // What is there is kept, unless it is named.
    std::fs::write(&own, "precious").unwrap();
    let (status, _, err) = fetch(&[&id]);
    assert_eq!(status, 1);
    assert!(err.contains("already exists; choose another file with -o FILE"), "{err}");
    assert_eq!(std::fs::read(&own).unwrap(), b"precious");
    assert_eq!(fetch(&[&id, "-o", own.to_str().unwrap()]), done);
    assert!(std::fs::read(&own).unwrap() == bytes);

    for (args, status, says) in [
        (&["nothing"][..], 1, "has no trace nothing among its 1"),
        (&["../../etc/passwd"], 1, "has no trace ../../etc/passwd"),
        (&["1", "-o", "x"], 1, "has no trace 1 "),
        (&[&id, "-o", "no/such/folder"], 1, "cannot write no/such/folder: "),
        (&[&id, "-o", "/dev/full"], 1, "cannot write /dev/full: "),
        (&[], 2, "<ID>"),
        (&[&id, "--token-file", "/no/such"], 1, "cannot read the token from /no/such: "),
    ] {
        let (got, out, err) = fetch(args);
        assert_eq!((got, out), (status, vec![]), "{args:?}: {err}");
        assert!(err.contains(says) && err.lines().count() == 1, "{args:?}: {err}");
    }
    assert!(!here.path().join("x").exists());

    // The reader of the pipe closes it.
    let mut child = memledger(&["fetch", &id, "--store", &server.store, "-o", "-"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let (status, _, err) = told_bytes(output(child));
    assert_eq!((status, err.as_str()), (0, ""));
}

#[test]
fn no_store_is_one_sentence() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let free = listener.local_addr().unwrap().to_string();
    drop(listener);
    for command in [&["traces"][..], &["fetch", "1"]] {
        let args = [command, &["--store", &free]].concat();
        let (status, out, err) = run(&args);
        assert_eq!((status, out), (1, vec![]));
        let says = format!("memledger: cannot reach a store of traces at {free}: ");
        assert!(err.starts_with(&says) && err.lines().count() == 1, "{err}");
        // Without a port it is 1989.
        let (_, _, err) = run(&[command, &["--store", "127.77.1.2"]].concat());
        assert!(err.contains("traces at 127.77.1.2 (127.77.1.2:1989): "), "{err}");
        let (status, _, err) = run(&[command, &["--store", "nowhere:port"]].concat());
        assert_eq!(status, 1);
        assert!(err.contains("'nowhere:port' is not the address of a store"), "{err}");
    }
}

#[test]
fn a_store_cannot_choose_where_a_trace_goes() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let data = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = data.local_addr().unwrap().port();
    let store = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let info = Message::response(200)
            .with("id", 7_u32)
            .with("size", 3_u32)
            .with("live", 0_u32)
            .with("name", "../escaped\u{1b}[31m");
        loop {
            let mut size = [0; 4];
            if stream.read_exact(&mut size).is_err() {
                return;
            }
            let mut body = vec![0; u32::from_le_bytes(size) as usize];
            stream.read_exact(&mut body).unwrap();
            let request = Message::decode(&body).unwrap();
            let read = request.text("$path") == Some("v1/trace/read");
            let answer = if read {
                Message::response(200).with("port", u32::from(port))
            } else {
                info.clone()
            };
            stream.write_all(&answer.encode()).unwrap();
            if read {
                data.accept().unwrap().0.write_all(b"abc").unwrap();
            }
        }
    });
    let here = tempfile::tempdir().unwrap();
    let inner = here.path().join("inner");
    std::fs::create_dir(&inner).unwrap();
    let child = memledger(&["fetch", "7", "--store", &address])
        .current_dir(&inner)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    assert_eq!(told_bytes(output(child)), (0, vec![], String::new()));
    assert_eq!(std::fs::read(inner.join("trace-7.utrace")).unwrap(), b"abc");
    assert_eq!(names(here.path()), ["inner"]);
    store.join().unwrap();
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn a_trace_is_complete_if_its_program_has_said_so() {
    let sample = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/samples/memledger-small.utrace");
    let whole = std::fs::read(sample).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut server = Server::start(folder.path(), &[]);
    // One that has ended, one that was killed, and one that does not say: the last is in Unreal's
    // way.
    for (count, bytes) in [&whole[..], &whole[..whole.len() / 2], &packets(1)].iter().enumerate() {
        send(server.connect(), bytes);
        server.notes(count + 1, &[".utrace: ended"]);
    }
    let listed = json(&server);
    let complete: Vec<_> = (0..3).map(|index| &listed["traces"][index]["complete"]).collect();
    assert_eq!(complete, [&true.into(), &false.into(), &serde_json::Value::Null]);
    let (_, out, _) = run(&["traces", "--store", &server.store]);
    let text = String::from_utf8(out).unwrap();
    let ends = ["  complete", "  cut: the program was killed, or the connection broke", "  ended"];
    for (line, end) in text.lines().skip(1).zip(ends) {
        assert!(line.ends_with(end), "{text}");
    }
}

#[cfg(unix)]
#[test]
fn what_is_fetched_is_the_users_alone() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    let folder = tempfile::tempdir().unwrap();
    let mut server = Server::start(folder.path(), &[]);
    send(server.connect(), &stream(1, 20_000));
    server.notes(1, &["ended"]);
    let name = json(&server)["traces"][0]["name"].as_str().unwrap().to_owned();
    let here = tempfile::tempdir().unwrap();
    let there = here.path().join("there.utrace");
    std::fs::write(&there, "").unwrap();
    std::fs::set_permissions(&there, std::fs::Permissions::from_mode(0o644)).unwrap();
    let own = format!("{name}.utrace");
    for args in [&[][..], &["-o", "new.utrace"], &["-o", "there.utrace"]] {
        let mut command = memledger(&["fetch", &name, "--store", &server.store]);
        let child = command.args(args).current_dir(here.path()).stderr(Stdio::piped()).spawn();
        assert_eq!(told_bytes(output(child.unwrap())).0, 0);
        let file = here.path().join(args.last().unwrap_or(&&*own));
        assert_eq!(std::fs::metadata(file).unwrap().mode() & 0o777, 0o600, "{args:?}");
    }
}

#[test]
fn a_folder_is_no_store() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    for command in [&["traces"][..], &["fetch", "1"]] {
        let (status, _, err) = run(&[command, &["--store", path]].concat());
        assert_eq!(status, 2, "{err}");
        let says = format!("but {path} is a folder; memledger serve");
        assert!(err.contains(&says) && err.contains("serve --folder"), "{err}");
    }
}
