//! The token of the control server, and the file that it is in.

use crate::ledger::config::Secret;
use crate::platform::os;
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

/// Bytes of the longest token.
const MAX_TOKEN_BYTES: usize = 1024;

/// The token in the first line of a file that only its owner can read and write, or why there is
/// none.
pub(super) fn read_token(path: &Path) -> Result<Secret, String> {
    let failed = |error: std::io::Error| format!("it cannot be read: {error}");
    let metadata = fs::metadata(path).map_err(failed)?;
    // Reading a pipe could wait forever.
    if !metadata.is_file() {
        return Err("it is not a file".into());
    }
    if let Some(mode) = os::mode_for_others(&metadata) {
        return Err(format!(
            "other users can read or write that file (mode {mode:03o}); run chmod 600 on it first"
        ));
    }
    let mut text = String::new();
    let most = MAX_TOKEN_BYTES as u64 + 2;
    File::open(path).and_then(|file| file.take(most).read_to_string(&mut text)).map_err(failed)?;
    let token = text.lines().next().unwrap_or_default();
    check_token(token)?;
    Ok(Secret(token.to_owned()))
}

/// Whether it is one.
pub(crate) fn check_token(token: &str) -> Result<(), String> {
    let is_word = !token.contains(|c: char| c.is_whitespace() || c.is_control());
    if is_word && (1..=MAX_TOKEN_BYTES).contains(&token.len()) {
        return Ok(());
    }
    Err(format!(
        "the control server's token has {} bytes, but it must be one word of 1 to {MAX_TOKEN_BYTES}",
        token.len()
    ))
}
