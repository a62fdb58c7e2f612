//! Parsers of the input from clients of the control server, for the fuzzer.

use super::lines::{Lines, TooLong};
use super::rules::Rules;
use crate::control::command::MAX_LINE_BYTES;

/// The lines in `pieces`, which are read one after the other as from a connection, and whether a
/// line was too long.
pub fn lines<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> (Vec<Vec<u8>>, bool) {
    let (mut lines, mut found) = (Lines::default(), Vec::new());
    for mut piece in pieces {
        while !piece.is_empty() {
            let (now, later) = piece.split_at(piece.len().min(lines.room()));
            lines.push(now);
            piece = later;
            loop {
                match lines.next() {
                    Ok(Some(line)) => found.push(line),
                    Ok(None) => break,
                    Err(TooLong) => return (found, true),
                }
            }
        }
    }
    debug_assert!(found.iter().all(|line| line.len() <= MAX_LINE_BYTES));
    (found, false)
}

/// The address that a client's `send-to` to `host` resolves to, if these hosts are allowed.
pub fn destination(hosts: &[String], host: &str) -> Result<String, String> {
    Rules { hosts: hosts.to_vec(), ..Rules::default() }
        .destination(host)
        .map(|address| address.to_string())
}

/// Whether the server accepts a client with this token.
pub fn admits(token: &str, shown: &str) -> bool {
    Rules { token: Some(token.to_owned()), ..Rules::default() }.admits(shown)
}
