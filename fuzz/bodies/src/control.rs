//! Input from clients of the control server: bytes to lines to commands, and the hosts that a trace
//! may be sent to.

use crate::input::pieces;
use memledger::fuzzing::{admits, destination, lines};
use memledger::control::Command;

/// Parses `data` at once and in pieces; each line that is a command parses back from its own text.
pub fn run(data: &[u8]) {
    let (whole, too_long) = lines(std::iter::once(data));
    assert_eq!(lines(pieces(data, 7)), (whole.clone(), too_long), "however they come");
    if !too_long {
        let ends = |byte: &u8| matches!(byte, b'\r' | b'\n');
        let mut expected: Vec<_> = data.split(ends).collect();
        expected.pop();
        expected.retain(|line| !line.is_empty());
        assert_eq!(whole, expected);
    }
    for line in &whole {
        command(line);
    }
    command(data);
    if let Ok(text) = std::str::from_utf8(data) {
        assert_eq!(admits("correct-horse-battery", text), text == "correct-horse-battery");
    }
}

fn command(line: &[u8]) {
    let command = match Command::parse(line) {
        Ok(command) => command,
        Err(reason) => {
            assert!(!reason.is_empty() && !reason.contains(char::is_control), "{reason:?}");
            return;
        }
    };
    match &command {
        Command::SendTo(host) => {
            let allowed = ["build.example".to_owned(), "192.0.2.7:1980".to_owned()];
            match destination(&allowed, host) {
                Ok(to) => assert_eq!(destination(&allowed, &to), Ok(to.clone()), "{host:?}"),
                Err(reason) => assert!(!reason.contains(char::is_control), "{reason:?}"),
            }
        }
        // NOTE: an empty list cannot be written: its line would have one word less.
        Command::SetChannels { names, .. } if names.is_empty() => return,
        _ => {}
    }
    assert_eq!(Command::parse(command.to_string().as_bytes()), Ok(command));
}

/// A line of each command.
pub fn seeds() -> Vec<Vec<u8>> {
    [
        &b"Status\r\nStop\n"[..],
        b"ToggleChannels memory,scope 0\n",
        b"SendTo localhost:1980 memory\nSendTo [::1]:1981\nSendTo 192.0.2.7\nSendTo build.example",
        b"WriteTo run.utrace -memory\0scope\nToken correct-horse-battery\n",
        b"correct-horse-battery",
        b"GET / HTTP/1.1\r\n",
    ]
    .map(<[u8]>::to_vec)
    .to_vec()
}
