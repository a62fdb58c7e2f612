//! The tracker's threads end for a moment, because the program is about to do what needs a process without
//! them.
//!
//! They cannot just wait: the kernel also counts a thread that waits, and such a thread keeps the rights that
//! it began with. The C library changes the user of all threads, and ends the program if one of them cannot
//! do what the others can. So the threads end, and begin again from the calling thread, with its rights and
//! in its namespaces.

use super::{signals, stop};
use crate::ledger::recording::{self, Recording};
use crate::platform::os::{self, AllBlocked, Packed};
use crate::problems::{self, ProblemKind};
use crate::trace::sink::queue;
use crate::trace::worker;
use crate::trace::write::{backpressure, state, untracked};
use std::io;
use std::mem::forget;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long a call of the program waits until the tracker's threads have ended. One that is stuck in a write
/// does not end.
const END_TIMEOUT: Duration = Duration::from_secs(2);

/// What the tracker's descriptors wait in, while the threads of this process are ended.
static PACKED: Mutex<Option<(u32, Packed)>> = Mutex::new(None);

/// The threads begin again when it is dropped, also after a panic.
pub(crate) struct Paused(bool);

impl Paused {
    pub(crate) fn new() -> Self {
        Self(pause())
    }
}

impl Drop for Paused {
    fn drop(&mut self) {
        if self.0 {
            resume();
        }
    }
}

/// Ends the threads; returns whether they have ended.
///
/// NOTE: with all signals blocked. A handler may call `exit`, which would wait for what this thread has
/// locked.
pub(crate) fn pause() -> bool {
    if os::is_kernel_closed() || state::is_forked() || !os::has_own_threads() {
        return false;
    }
    let _signals = AllBlocked::new();
    untracked(|| {
        if !os::close_gate(resume) {
            return false;
        }
        // NOTE: the lock is not held while threads end, because some of them may wait for it.
        let is_locked = recording::current_within(END_TIMEOUT).map(|current| dismiss(&current));
        let have_ended = is_locked.is_some() && os::wait_for_ends(os::table_threads(), END_TIMEOUT);
        let packed = if have_ended { os::pack().ok() } else { None };
        let is_paused = packed.is_some();
        match packed {
            Some(packed) => {
                os::wait_for_ends(0, END_TIMEOUT);
                *lock() = Some((os::process_id(), packed));
            }
            None => {
                os::open_gate();
                start();
            }
        }
        is_paused
    })
}

/// Starts the threads again, if this was not done yet.
pub(crate) fn resume() {
    let _signals = AllBlocked::new();
    untracked(|| {
        let Some((process, packed)) = lock().take() else { return };
        if process != os::process_id() {
            // The child of a fork that was made meanwhile: the threads, and the recording, are its parent's.
            return;
        }
        let unpacked = os::unpack(packed);
        os::open_gate();
        match unpacked {
            Ok(()) => start(),
            Err(error) => strand(&error),
        }
    });
}

fn lock() -> MutexGuard<'static, Option<(u32, Packed)>> {
    PACKED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Asks all threads to end.
fn dismiss(current: &Option<Recording>) {
    worker::dismiss();
    queue::pause_all();
    signals::dismiss();
    let control = current.as_ref().and_then(|recording| recording.control.as_ref());
    control.inspect(|control| control.server.pause());
}

/// Starts the threads that [`dismiss`] has ended.
fn start() {
    let current = recording::current();
    queue::resume_all();
    signals::start_again();
    let Some(recording) = current.as_ref() else { return };
    let control = recording.control.iter();
    control.for_each(|control| control.server.resume().unwrap_or_else(problems::report));
    if recording.has_worker
        && let Err(error) = worker::spawn(stop::left_alone)
    {
        drop(current);
        strand(&io::Error::other(format!("{error:#}")));
    }
}

/// Ends the threads for good, because the program is about to filter the system calls of all its threads.
#[cfg(c_filter)]
pub(crate) fn leave_to_watcher() {
    if pause() {
        let _signals = AllBlocked::new();
        untracked(|| {
            drop(lock().take());
            backpressure::allow_waiting(false);
            forget((recording::current().take(), worker::session().take()));
            os::open_gate();
        });
    }
}

/// Gives up the recording, of which nothing can be written here any more.
///
/// NOTE: not ended, and not dropped: a watcher completes it when this process has ended, with all that is in
/// the buffers.
fn strand(error: &io::Error) {
    let recording = recording::current().take();
    backpressure::allow_waiting(false);
    let is_watched = recording.as_ref().is_some_and(|recording| recording.watch.is_some());
    if recording.is_some() && !is_watched {
        problems::add(
            ProblemKind::Tracker,
            format!(
                "the recording ends here, because the tracker's threads cannot begin again: {error}"
            ),
        );
    }
    forget((recording, worker::session().take()));
}
