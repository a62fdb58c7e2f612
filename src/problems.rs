//! Problems: each is one line on stderr, and is kept for [`Ledger::problems`](crate::Ledger::problems). Under
//! `memledger run`, the program's stderr is left alone: the command gets them by a socket, and writes them
//! after the program has ended.

pub(crate) use crate::error::ProblemKind;
use crate::error::{Error, ErrorKind, NOT_LINKED, Problem};
use crate::platform::os::{self, BlockedSignals};
use crate::trace::entry::for_caller;
use crate::trace::worker;
use crate::trace::write::{state, untracked};
use memledger_format::words::escape;
use std::ffi::CStr;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

/// The most problems that are kept. A program that runs for months may report one each minute.
const MAX_KEPT: usize = 1_000;

/// The variable with the abstract name of that socket.
pub(crate) const SOCKET: &CStr = c"MEMLEDGER_PROBLEMS";

/// Its value when the program started.
static COMMAND: OnceLock<Vec<u8>> = OnceLock::new();

static PROBLEMS: Mutex<Vec<Problem>> = Mutex::new(Vec::new());

/// How many of them [`take_new`] has returned.
static TAKEN: AtomicUsize = AtomicUsize::new(0);

/// Notes where problems go. Called before `main`, when nothing changes the environment meanwhile.
pub(crate) fn prepare() {
    if let Some(name) = os::secure_env(SOCKET).filter(|name| !name.is_empty()) {
        let _ = COMMAND.set(name.into_encoded_bytes());
    }
}

/// Whether the command has got the sentence.
fn has_told_command(sentence: &str) -> bool {
    let Some(name) = COMMAND.get() else { return false };
    let line = format!("process {}: {sentence}", os::process_id());
    os::send_to_socket(name, line.as_bytes()).is_ok()
}

/// Reports an error. Only with the guard set.
pub(crate) fn report(error: Error) {
    add(kind_of(error.kind()), format!("{error:#}"));
}

/// What an error of this kind is about.
fn kind_of(kind: ErrorKind) -> ProblemKind {
    match kind {
        ErrorKind::File | ErrorKind::Destination | ErrorKind::Listen => ProblemKind::Output,
        ErrorKind::InvalidSetting
        | ErrorKind::InvalidChannels
        | ErrorKind::InvalidSession
        | ErrorKind::UnknownChannel
        | ErrorKind::ReadOnlyChannel
        | ErrorKind::StacksUnsupported
        | ErrorKind::TokenRequired
        | ErrorKind::AlreadyStarted => ProblemKind::Setting,
        _ => ProblemKind::Tracker,
    }
}

/// Reports a problem. Only with the guard set.
///
/// The sentence may quote the environment or another machine.
///
/// NOTE: not by std. The program may hold the lock of its stderr for any
/// length of time.
pub(crate) fn add(kind: ProblemKind, sentence: String) {
    let sentence = escape(&sentence);
    let _signals = BlockedSignals::new();
    if !has_told_command(&sentence) {
        let _ = os::write_to_stderr(format!("memledger: {sentence}\n").as_bytes());
    }
    add_quietly(kind, sentence);
}

/// The same, but only for [`Ledger::problems`](crate::Ledger::problems): the program's errors do not get the
/// sentence, because the report says it, or because it is what the user has asked for.
pub(crate) fn add_quietly(kind: ProblemKind, sentence: String) {
    if let Some(mut problems) = lock() {
        keep(&mut problems, Problem { kind, sentence });
    }
}

/// Reports that there was nothing to record.
pub(crate) fn add_unlinked() {
    let why = match os::copies::others().is_empty() {
        true => NOT_LINKED,
        false => "the program's global allocator is not that of this copy of memledger",
    };
    add(ProblemKind::Incomplete, format!("no allocation was recorded, because {why}"));
}

/// Reports that a file has another name than was asked for.
pub(crate) fn add_in_use(asked: &Path, used: &Path) {
    let (asked, used) = (asked.display(), used.display());
    add(ProblemKind::Output, format!("{asked} is in use, so {used} is written instead"));
}

fn keep(problems: &mut Vec<Problem>, problem: Problem) {
    match problems.len() {
        0..MAX_KEPT => problems.push(problem),
        MAX_KEPT => {
            let sentence = format!("further problems than these {MAX_KEPT} are on stderr only");
            problems.push(Problem { kind: ProblemKind::Incomplete, sentence });
        }
        _ => {}
    }
}

/// All problems so far, in memory of the program.
pub(crate) fn all() -> Vec<Problem> {
    // NOTE: the lock is held only with the guard set: without it, an allocation of this thread
    // could wait in the hook for the worker, while the worker waits for this lock.
    for_caller(untracked(|| lock().map_or_else(Vec::new, |problems| problems.clone())))
}

/// The problems that no earlier call has returned, in memory of the program.
pub(crate) fn take_new() -> Vec<Problem> {
    let mut all = all();
    let taken = TAKEN.swap(all.len(), Ordering::Relaxed).min(all.len());
    all.split_off(taken)
}

/// Locks the problems for a fork; `None` if the lock is not free within `timeout`.
pub(crate) fn lock_within(timeout: Duration) -> Option<MutexGuard<'static, Vec<Problem>>> {
    worker::lock_within(&PROBLEMS, timeout)
}

/// Locks the problems. `None` in the child of a fork during which the parent was reporting a
/// problem.
fn lock() -> Option<MutexGuard<'static, Vec<Problem>>> {
    if state::is_forked() {
        return PROBLEMS.try_lock().ok();
    }
    Some(PROBLEMS.lock().unwrap_or_else(PoisonError::into_inner))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_most_a_thousand_problems_are_kept() {
        let mut problems = Vec::new();
        for number in 0..3 * MAX_KEPT {
            keep(
                &mut problems,
                Problem { kind: ProblemKind::Setting, sentence: number.to_string() },
            );
        }
        let last = problems[MAX_KEPT - 1..].iter().map(Problem::to_string);
        assert!(last.eq(["999", "further problems than these 1000 are on stderr only"]));
    }
}
