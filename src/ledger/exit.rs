//! The moments at which a recording ends by itself: exit, a panic that aborts, a fork.

use super::{fork, recording, stop};
use crate::platform::os;
#[cfg(panic = "abort")]
use crate::trace::write::is_untracked;
use crate::trace::write::{ReentrancyGuard, registry, state};
use std::sync::Once;

/// Registers what has to happen in the child of a fork; once.
///
/// Before `main`: a program may fork before it starts recording, to become a daemon.
pub(super) fn watch_forks() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| os::at_fork(fork::prepare, fork::in_parent, forked));
}

/// Registers what has to happen at the end of the process; once.
pub(super) fn prepare() {
    static ONCE: Once = Once::new();
    watch_forks();
    ONCE.call_once(|| {
        os::at_exit(exiting);
        #[cfg(panic = "abort")]
        {
            let previous = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |info| {
                previous(info);
                // A panic of our own code while it ends the recording must not wait for itself.
                if !is_untracked() {
                    stop::finish(None);
                }
            }));
        }
    });
}

/// Return from `main`, or `exit`: the ledger itself is not dropped any more.
extern "C" fn exiting() {
    stop::finish(None);
}

/// While something is recorded, and the child does not follow: it has no worker, and the file and the buffers are the
/// parent's. Otherwise the child may record itself, and what led to it belongs to that.
extern "C" fn forked() {
    let untracked = ReentrancyGuard::enter();
    if fork::in_child() {
        return;
    }
    if state::is_running() || !recording::is_idle() {
        state::turn_off_in_child();
        return;
    }
    drop(untracked);
    state::forget_process();
    registry::forget_threads();
}
