//! Whether events are recorded: one word that every hook loads.
//!
//! ```text
//!              start of the process
//!                      │
//!                 EARLY: recorded, not drained ──buffers full──► OFF
//!                      │ start                                    │ start
//!                      ▼                                          ▼
//!   OFF ◄─finish── PAUSED ◄──────stop────── RUNNING ◄──────── PAUSED (no thread inside a hook)
//! ```
//! [`quiesce`](super::quiesce) changes between paused and running.
#![expect(unsafe_code, reason = "a page of its own, which children do not have")]

use super::clocks;
use crate::platform::os;
use crate::platform::whole_pages::WholePages;
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};

/// Nothing is recorded, and nothing is about to be. The hook returns after one load.
pub(crate) const OFF: u32 = 0;
/// The hook's events are recorded.
pub(crate) const RECORD: u32 = 1;
/// Events that the program logs are recorded.
pub(crate) const LOG: u32 = 2;
/// Both kinds of events are recorded.
pub(crate) const ON: u32 = RECORD | LOG;
/// Beside the other bits: the hook takes call stacks. Paused and off are without it.
pub(crate) const STACKS: u32 = 4;
/// Beside the other bits: the hook writes frees in their scopes. Paused and off are without it. The sign
/// bit, so that a free needs one comparison.
pub(crate) const FREE_SCOPES: u32 = 1 << 31;
/// Nothing is recorded, but the tracker is at work: its own allocations are counted.
const PAUSED: u32 = 8;

/// What the state starts as: the report also covers the events before the program can start a
/// recording, and frees are written in their scopes in case that recording has the channel for that.
const EARLY_STATE: u32 = ON | FREE_SCOPES;

static PAGE: WholePages<StatePage> =
    WholePages::new(StatePage { state: AtomicU32::new(EARLY_STATE), watched: AtomicU32::new(0) });

/// NOTE: a page of its own. While a watcher shares the buffers, the kernel clears it in the child of each
/// fork, however that is made. So no hook in a child ever writes to the buffers of its parent.
struct StatePage {
    state: AtomicU32,
    /// Whether a watcher shares the buffers: 1, or 0.
    watched: AtomicU32,
}

/// The phase of the recording's life; loaded on cold paths only.
static PHASE: AtomicU32 = AtomicU32::new(EARLY);
const EARLY: u32 = 0;
const STOPPED: u32 = 1;
const RUNNING: u32 = 2;

/// As [`StatePage::watched`], but children have it, too.
static WATCHED: AtomicBool = AtomicBool::new(false);
static HAS_BARRIER: AtomicBool = AtomicBool::new(false);
/// Set in the child of a fork, which has no worker: nothing is ever recorded there again.
static FORKED: AtomicBool = AtomicBool::new(false);
/// Set when the tracker's own code holds blocks that only the hook can free.
static HOOK_STAYS_ACTIVE: AtomicBool = AtomicBool::new(false);
/// The id of the process that has started recording, 0 before that.
static PID: AtomicU32 = AtomicU32::new(0);

#[inline(always)]
pub(crate) fn load_relaxed() -> u32 {
    PAGE.state.load(Ordering::Relaxed)
}

#[inline(always)]
pub(crate) fn load() -> u32 {
    PAGE.state.load(Ordering::Acquire)
}

/// Whether events are kept for a recording that has not been started yet.
pub(crate) fn is_early() -> bool {
    PHASE.load(Ordering::Acquire) == EARLY
}

/// Whether a worker drains the buffers.
pub(crate) fn is_running() -> bool {
    PHASE.load(Ordering::Acquire) == RUNNING
}

/// Whether this is the child of a fork of a process that was being tracked. Compares the process id
/// too, since some ways to fork call no handler; but not where the kernel may not be asked.
pub(crate) fn is_forked() -> bool {
    let pid = PID.load(Ordering::Acquire);
    let is_other = || pid != 0 && !os::is_kernel_closed() && pid != os::process_id();
    FORKED.load(Ordering::Acquire) || is_other()
}

/// Discards the early recording and stops it, because its buffers are full before a recording has
/// started.
///
/// It cannot be kept, because it is not continued: its blocks would be reported as leaks, even
/// those that are freed later.
pub(crate) fn discard_early() {
    if PHASE.compare_exchange(EARLY, STOPPED, Ordering::AcqRel, Ordering::Acquire).is_ok() {
        // NOTE: changes the state only if it is still the first one: a start may have paused the
        // recording already.
        if PAGE
            .state
            .compare_exchange(EARLY_STATE, OFF, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
        {
            clocks::stop();
        }
    }
}

/// Moves the state from `OFF` to `PAUSED` until the result is dropped, so that the tracker's own
/// allocations are counted, and [`linked`](crate::alloc::linked) can find out whether the tracker
/// is the allocator.
pub(crate) fn hook_active() -> HookActive {
    HookActive(activate_hook())
}

/// Moves the state from `OFF` to `PAUSED` until recording is next turned off; `false` if the state
/// was not `OFF`.
pub(crate) fn activate_hook() -> bool {
    PAGE.state.compare_exchange(OFF, PAUSED, Ordering::AcqRel, Ordering::Relaxed).is_ok()
}

/// See [`hook_active`].
pub(crate) struct HookActive(bool);

impl Drop for HookActive {
    fn drop(&mut self) {
        if self.0 && !HOOK_STAYS_ACTIVE.load(Ordering::SeqCst) {
            let _ = PAGE.state.compare_exchange(PAUSED, OFF, Ordering::SeqCst, Ordering::Relaxed);
            reactivate_hook();
        }
    }
}

/// Keeps the state from being `OFF` from now on, so that the allocator calls the hook at every
/// free.
pub(crate) fn keep_hook_active() {
    HOOK_STAYS_ACTIVE.store(true, Ordering::SeqCst);
    activate_hook();
}

/// Moves the state from `OFF` to `PAUSED` again, after it was turned off, if [`keep_hook_active`]
/// was called.
fn reactivate_hook() {
    if HOOK_STAYS_ACTIVE.load(Ordering::SeqCst) {
        activate_hook();
    }
}

/// Continues the early recording; `false` if it was discarded.
pub(crate) fn adopt_early() -> bool {
    PHASE.compare_exchange(EARLY, RUNNING, Ordering::AcqRel, Ordering::Acquire).is_ok()
}

/// Notes the process, and whether the system has a barrier on all threads.
pub(super) fn set_process(has_barrier: bool) {
    PID.store(os::process_id(), Ordering::Release);
    HAS_BARRIER.store(has_barrier, Ordering::Release);
}

/// Whether the system has a barrier on all threads.
pub(super) fn has_barrier() -> bool {
    HAS_BARRIER.load(Ordering::Acquire)
}

/// Stores that recording is paused.
pub(super) fn set_paused() {
    PHASE.store(STOPPED, Ordering::Release);
    PAGE.state.store(PAUSED, Ordering::SeqCst);
}

/// Stores that events are recorded: those the program logs, and the hook's if `hook`.
pub(super) fn set_running(hook: bool) {
    PHASE.store(RUNNING, Ordering::Release);
    let mode = if hook { ON } else { LOG };
    let _ = PAGE.state.fetch_update(Ordering::AcqRel, Ordering::Relaxed, |state| {
        Some(state & (STACKS | FREE_SCOPES) | mode)
    });
}

/// Sets or clears [`STACKS`] or [`FREE_SCOPES`], until recording is next paused.
pub(crate) fn set_option(option: u32, on: bool) {
    let _ = PAGE.state.fetch_update(Ordering::AcqRel, Ordering::Relaxed, |state| match state {
        // NOTE: the hook returns early only while no bit is set.
        OFF => None,
        _ => Some(if on { state | option } else { state & !option }),
    });
}

/// Turns recording off. The tracker has given back what it held.
pub(crate) fn turn_off() {
    let stays_active = HOOK_STAYS_ACTIVE.load(Ordering::SeqCst);
    PAGE.state.store(if stays_active { PAUSED } else { OFF }, Ordering::SeqCst);
    reactivate_hook();
}

/// Turns recording off in the child of a fork, which has no worker, and whose buffers are the
/// parent's.
pub(crate) fn turn_off_in_child() {
    FORKED.store(true, Ordering::Release);
    PHASE.store(STOPPED, Ordering::Release);
    turn_off();
    clocks::stop();
}

/// True in a forked child that has not yet detached from its parent's shared buffers: some ways to fork call
/// no handler.
pub(crate) fn is_unaware_child() -> bool {
    WATCHED.load(Ordering::Relaxed) && !is_watched()
}

/// Whether a watcher shares the buffers with this process, which is neither the watcher nor a child.
pub(crate) fn is_watched() -> bool {
    PAGE.watched.load(Ordering::Acquire) != 0
}

/// Notes that a watcher shares the buffers, and has the state cleared in all children.
///
/// # Safety
/// No other thread changes the state or the clocks meanwhile.
pub(crate) unsafe fn set_watched() -> io::Result<()> {
    let page = NonNull::from(&PAGE).cast();
    // SAFETY: the static is whole pages, which have nothing else; the caller makes the same promise.
    unsafe {
        os::clear_in_children(page, size_of_val(&PAGE))?;
        clocks::clear_in_children()?;
    }
    WATCHED.store(true, Ordering::Relaxed);
    PAGE.watched.store(1, Ordering::Release);
    Ok(())
}

/// As [`set_watched`], in the child of a fork of a process in which that was called: the kernel also clears
/// its children.
pub(crate) fn set_watched_again() {
    WATCHED.store(true, Ordering::Relaxed);
    PAGE.watched.store(1, Ordering::Release);
}

/// Notes that no watcher shares the buffers any more.
pub(crate) fn set_unwatched() {
    WATCHED.store(false, Ordering::Relaxed);
    PAGE.watched.store(0, Ordering::Release);
}

/// Lets the child of a fork record, if its parent records nothing.
pub(crate) fn reset_process() {
    PID.store(0, Ordering::Release);
}

/// Whether events of a kind ([`RECORD`] or [`LOG`]) are recorded, for a thread that has set its
/// guard and has found the STOP bit.
pub(super) fn is_recorded(kind: u32) -> bool {
    if !has_barrier() {
        // Orders the store of the guard before the load of the state. Where the system has a
        // barrier on all threads, that barrier orders them.
        fence(Ordering::SeqCst);
    }
    load() & kind != 0
}
