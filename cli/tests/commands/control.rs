//! `memledger control` against a program that is played by the test.

use memledger_test_support::command::ran;
use memledger_test_support::memledger;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::process::Output;
use std::thread::JoinHandle;

fn memledger(args: &[&str]) -> Output {
    ran(memledger!([&["control"], args].concat()))
}

/// A program that answers each line with the next of `answers` and then hangs up; the lines it got.
fn program(answers: &'static [&'static str]) -> (String, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let thread = std::thread::spawn(move || {
        let mut stream = BufReader::new(listener.accept().unwrap().0);
        let mut lines = Vec::new();
        for answer in answers {
            let mut line = String::new();
            stream.read_line(&mut line).unwrap();
            lines.push(line);
            stream.get_mut().write_all(answer.as_bytes()).unwrap();
        }
        lines
    });
    (address, thread)
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[test]
fn each_command_is_one_line_of_unreals_grammar() {
    for (args, line) in [
        (&["status"][..], "Status\n"),
        (&["channels", "game,net", "on"], "ToggleChannels game,net 1\n"),
        (&["channels", "game", "off"], "ToggleChannels game 0\n"),
        (&["send-to", "[::1]:1981"], "SendTo [::1]:1981\n"),
        (&["write-to", "late.utrace"], "WriteTo late.utrace\n"),
        (&["stop"], "Stop\n"),
        (&["stop", "--all"], "StopAll\n"),
        (&["start"], "Start\n"),
    ] {
        let (address, program) = program(&["pid 42\ndestination sending 7 bytes x\nok\n"]);
        let output = memledger(&[&[&*address], args].concat());
        assert_eq!(program.join().unwrap(), [line]);
        assert_eq!(text(&output.stdout), "pid 42\ndestination sending 7 bytes x\n");
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), ""), "{args:?}");
    }
}

#[test]
fn the_answer_as_json() {
    let (address, program) = program(&["pid 42\nrecording yes\nok\n"]);
    let output = memledger(&[&address, "status", "--format", "json"]);
    program.join().unwrap();
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["schema"], "memledger.control/1");
    assert_eq!(json["address"], address);
    assert_eq!(json["answer"][1], serde_json::json!({ "name": "recording", "value": "yes" }));
}

#[test]
fn a_token_is_said_first() {
    // Only its user can read it.
    let file = tempfile::NamedTempFile::new().unwrap();
    let file = file.path();
    std::fs::write(file, "s3cr3t\nmore\n").unwrap();
    let (address, program) = program(&["ok\n", "ok\n"]);
    let output = memledger(&[&address, "--token-file", file.to_str().unwrap(), "stop"]);
    assert_eq!(program.join().unwrap(), ["Token s3cr3t\n", "Stop\n"]);
    assert_eq!(output.status.code(), Some(0));
    std::fs::write(file, "\n").unwrap();
    let output = memledger(&["1", "--token-file", file.to_str().unwrap(), "stop"]);
    assert!(text(&output.stderr).contains("its first line must be one word; it has 0 bytes"));
}

#[test]
fn what_goes_wrong_is_one_sentence_and_status_1() {
    let unanswered = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let (refusing, refuser) = program(&[
        "refused: the program has no folder for traces; set MEMLEDGER_CONTROL_FOLDER or call LedgerBuilder::control_folder\n",
    ]);
    let (broken, breaker) = program(&["pid 4"]);
    for (address, says) in [
        (&*unanswered, "cannot be reached"),
        (
            &refusing,
            "refuses: the program has no folder for traces; set MEMLEDGER_CONTROL_FOLDER or call LedgerBuilder::control_folder",
        ),
        (&broken, "does not answer: it closed the connection"),
        ("no address:x", "is not an address"),
    ] {
        let output = memledger(&[address, "write-to", "a.utrace"]);
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        assert!(stderr.contains(says) && stderr.lines().count() == 1, "{stderr}");
        assert_eq!(text(&output.stdout), "");
    }
    refuser.join().unwrap();
    breaker.join().unwrap();
}

#[test]
fn what_would_be_no_line_is_not_sent() {
    for args in [
        &["write-to", "a b"][..],
        &["write-to", "a\nStop"],
        &["channels", "a b", "on"],
        &["channels", "a", "maybe"],
        &["write-to", ""],
    ] {
        let output = memledger(&[&["127.0.0.1:1"], args].concat());
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", text(&output.stderr));
    }
}

#[test]
fn what_is_no_command_is_told_which_there_are() {
    let output = memledger(&["1985", "frob"]);
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2));
    let says =
        "'frob' is not a command; there are status, channels, send-to, write-to, perfetto, stop";
    assert!(stderr.contains(says) && stderr.lines().count() == 1, "{stderr}");
}

#[test]
fn an_answer_does_not_steer_the_terminal() {
    let (address, program) = program(&["program \u{1b}[31mred\nok\n"]);
    let output = memledger(&[&address, "status"]);
    program.join().unwrap();
    assert_eq!(text(&output.stdout), "program \\u{1b}[31mred\n");
}
