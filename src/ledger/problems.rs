//! What did not go as asked: one line on stderr each, and kept for [`Ledger::problems`](super::Ledger::problems).

use crate::trace::os;
use std::sync::{Mutex, PoisonError};

static PROBLEMS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Tells of a problem. Only with the tracker's guard set.
///
/// NOTE: by a plain write. The program may hold the lock of its stderr for as long as it likes.
pub(super) fn add(sentence: String) {
    let _ = os::write_all(2, format!("memledger: {sentence}\n").as_bytes());
    PROBLEMS.lock().unwrap_or_else(PoisonError::into_inner).push(sentence);
}

/// All problems so far: a copy that belongs to the program, so made without the guard.
pub(super) fn all() -> Vec<String> {
    PROBLEMS.lock().unwrap_or_else(PoisonError::into_inner).clone()
}
