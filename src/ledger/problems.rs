//! What did not go as asked: one line on stderr each, and kept for [`Ledger::problems`](super::Ledger::problems).

use crate::trace::os::{self, BlockedSignals};
use crate::trace::write::state;
use std::sync::{Mutex, MutexGuard, PoisonError};

static PROBLEMS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Tells of a problem. Only with the tracker's guard set.
///
/// NOTE: by a plain write. The program may hold the lock of its stderr for as long as it likes.
pub(super) fn add(sentence: String) {
    let _signals = BlockedSignals::new();
    let _ = os::write_all(2, format!("memledger: {sentence}\n").as_bytes());
    if let Some(mut problems) = lock() {
        problems.push(sentence);
    }
}

/// All problems so far: a copy that belongs to the program, so made without the guard.
pub(super) fn all() -> Vec<String> {
    lock().map_or_else(Vec::new, |problems| problems.clone())
}

/// The problems; `None` in the child of a fork whose parent was just telling one.
fn lock() -> Option<MutexGuard<'static, Vec<String>>> {
    if state::is_forked() {
        return PROBLEMS.try_lock().ok();
    }
    Some(PROBLEMS.lock().unwrap_or_else(PoisonError::into_inner))
}
