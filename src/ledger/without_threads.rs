//! A call of the program without the tracker's threads.

use super::operations::Paused;

/// Calls `body` while the process has no thread of the tracker.
///
/// Linux refuses some calls to a process that has a second thread, and glibc ends a program whose threads
/// have different rights when it changes its user: `unshare(CLONE_NEWUSER)`, `setns`, `setresgid` after
/// `capset`. The tracker has threads of its own. Here they end before `body` is called, and begin again from
/// the calling thread when it has returned. What other threads allocate meanwhile is recorded; what `body`
/// does should be short, because nothing is collected until it returns.
///
/// A program with `track_c_malloc!` does not need this for the functions of the C library: `setuid`,
/// `setgid`, `seteuid`, `setegid`, `setreuid`, `setregid`, `setresuid`, `setresgid`, `setgroups`,
/// `initgroups`, `unshare` and `setns`. Nor does a program under `memledger run`. It is for system calls that
/// are made without these functions.
///
/// ```
/// let user = memledger::without_threads(|| {
///     // Here the program leaves its user namespace, by a system call of its own.
///     0
/// });
/// assert_eq!(user, 0);
/// ```
///
/// It waits for at most 2 s until the threads have ended; with one that is stuck in a write, `body` is called
/// all the same. If no thread can be made afterwards, as in a process that has left its PID namespace, the
/// recording ends in this process; a watcher (`MEMLEDGER_WATCH=1`, `memledger run`) completes it.
pub fn without_threads<R>(body: impl FnOnce() -> R) -> R {
    let _paused = Paused::new();
    body()
}
