//! What a client of the control server may send, for the fuzzer.

use super::command::LONGEST_LINE;
use super::lines::{Lines, TooLong};
use super::rules::Rules;

/// The lines in `pieces`, taken one after the other as a connection gives them, and whether one was
/// too long.
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
    debug_assert!(found.iter().all(|line| line.len() <= LONGEST_LINE));
    (found, false)
}

/// Where a trace may be sent that a client wants to go to `host`, if these hosts are allowed.
pub fn destination(hosts: &[String], host: &str) -> Result<String, String> {
    Rules { hosts: hosts.to_vec(), ..Rules::default() }.destination(host)
}

/// Whether a client that shows this token comes in.
pub fn admits(token: &str, shown: &str) -> bool {
    Rules { token: Some(token.to_owned()), ..Rules::default() }.admits(shown)
}
