//! The moments at which a recording ends by itself: exit, a panic that aborts, a fork.

use super::{fork, stop};
use crate::ledger::recording::{self, watch};
use crate::platform::os;
#[cfg(panic = "abort")]
use crate::trace::write::is_untracked;
use crate::trace::write::watch::unshare_in_child;
use crate::trace::write::{ReentrancyGuard, registry, state};
use std::sync::Once;
#[cfg(redirects)]
use std::sync::atomic::{AtomicBool, Ordering};

/// Registers the handlers of forks, once.
///
/// Called before `main`, because a program may fork before it starts recording, to become a daemon.
pub(crate) fn watch_forks() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        #[cfg(redirects)]
        {
            os::in_children(forked_by_constructor);
            os::run_before_main(handle_forks);
        }
        #[cfg(not(redirects))]
        handle_forks();
    });
}

fn handle_forks() {
    #[cfg(redirects)]
    HAS_MAIN.store(true, Ordering::Release);
    os::at_fork(fork::prepare, fork::in_parent, forked);
}

/// Whether the handlers of forks are registered, and constructors have run.
#[cfg(redirects)]
static HAS_MAIN: AtomicBool = AtomicBool::new(false);

/// In the child of a fork that is not followed: one by a constructor of a library.
#[cfg(redirects)]
extern "C" fn forked_by_constructor() {
    if !HAS_MAIN.load(Ordering::Acquire) {
        forked();
    }
}

/// Registers the handlers of the end of the process, once.
pub(crate) fn prepare() {
    static ONCE: Once = Once::new();
    watch_forks();
    ONCE.call_once(|| {
        os::at_exit(exiting);
        os::at_quick_exit(exiting);
        #[cfg(panic = "abort")]
        {
            let previous = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |info| {
                previous(info);
                // If our own code panics while it ends the recording, ending it here would
                // deadlock.
                if !is_untracked() {
                    stop::finish(None);
                }
            }));
        }
    });
}

/// The process returns from `main`, or calls `exit` or `quick_exit`; the ledger itself may not be dropped.
extern "C" fn exiting() {
    // NOTE: a filter of the program may end it for any system call. The watcher ends the recording then.
    if !os::is_filtered() || !state::is_watched() {
        stop::finish(None);
    }
}

/// In the child of a fork. If the parent was recording, and the child does not follow, recording is
/// off in the child: it has no worker, and the file and the buffers are the parent's. If the parent
/// was not recording, the child may start a recording itself, which includes the early events
/// before the fork.
extern "C" fn forked() {
    let _errno = os::KeepErrno::new();
    if watch::is_watcher() {
        return;
    }
    if os::is_kernel_closed() {
        return state::turn_off_in_child();
    }
    os::forget_threads();
    os::forget_ends();
    unshare_in_child();
    let untracked = ReentrancyGuard::enter();
    if fork::in_child() {
        return;
    }
    if state::is_running() || !recording::is_idle() {
        state::turn_off_in_child();
        return;
    }
    drop(untracked);
    state::reset_process();
    registry::reset_threads();
}
