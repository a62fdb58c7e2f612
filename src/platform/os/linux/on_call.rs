//! A thread that runs short functions for others, and how they wait for it.

use super::{is_thread_alive, now, thread_id, wait, wake_all};
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};

/// How long a thread waits until a thread on call has started, or begins with what it is asked for.
const ANSWER_TIMEOUT: u64 = 5_000_000_000;

/// How often a thread that waits looks whether it still has to.
const LOOK_INTERVAL: u64 = 100_000_000;

/// The longest sleep of a thread on call; it is woken before.
const LONG: u64 = u64::MAX >> 1;

/// How often a thread on call did not do what it was asked for.
static UNANSWERED: AtomicU32 = AtomicU32::new(0);

/// Takes how often that happened since the last call.
pub(crate) fn take_unanswered() -> u32 {
    UNANSWERED.swap(0, Ordering::AcqRel)
}

/// Waits until `word` is no longer `value`; `false` if it still is after `timeout`. While the whole process
/// is stopped, the timeout is, too.
fn wait_while(word: &AtomicU32, value: u32, timeout: u64) -> bool {
    let mut left = timeout;
    while word.load(Ordering::Acquire) == value {
        if left == 0 {
            return false;
        }
        let (begin, most) = (now(), left.min(LOOK_INTERVAL));
        wait(word, value, most);
        left -= now().saturating_sub(begin).min(most);
    }
    true
}

/// A lock that the child of a fork can open.
pub(super) struct Lock(AtomicU32);

impl Lock {
    pub(super) const fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// Whether this thread has it now; it waits for it at most for `timeout`.
    pub(super) fn lock(&self, timeout: u64) -> bool {
        while self.0.swap(1, Ordering::Acquire) != 0 {
            if !wait_while(&self.0, 1, timeout) {
                return false;
            }
        }
        true
    }

    pub(super) fn unlock(&self) {
        self.0.store(0, Ordering::Release);
        wake_all(&self.0);
    }

    /// In the child of a fork.
    pub(super) fn open(&self) {
        self.0.store(0, Ordering::Release);
    }
}

/// A thread that runs short functions for others, one after another.
///
/// ```text
/// ABSENT ─► STARTING ─► IDLE ─► ASKED ─► BUSY ─► DONE ─► IDLE
///    ▲          │        │▲       │        │
///    │       FAILED      │└───────┘        │   it has not begun in time: not asked any more
///    └──────────┴────────┘                 ▼
///               DISMISSED                 LOST     it did not start in time, or has ended while it was asked
/// ```
pub(super) struct OnCall {
    /// Held by the thread that asks.
    turn: Lock,
    state: AtomicU32,
    /// The function: a pointer to a reference in the frame of the thread that asks.
    work: AtomicPtr<c_void>,
    thread: AtomicUsize,
    /// The thread's id in the kernel.
    id: AtomicU32,
}

const ABSENT: u32 = 0;
const STARTING: u32 = 1;
const IDLE: u32 = 2;
const ASKED: u32 = 3;
const BUSY: u32 = 4;
const DONE: u32 = 5;
const DISMISSED: u32 = 6;
const FAILED: u32 = 7;
const LOST: u32 = 8;

pub(super) type Work<'a> = &'a mut (dyn FnMut() + Send);

/// What has become of a request to a thread on call.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    Done,
    /// There is no such thread.
    Absent,
    /// It has not begun with it in time, or has ended: counted.
    Missing,
}

impl OnCall {
    pub(super) const fn new() -> Self {
        Self {
            turn: Lock::new(),
            state: AtomicU32::new(ABSENT),
            work: AtomicPtr::new(ptr::null_mut()),
            thread: AtomicUsize::new(0),
            id: AtomicU32::new(0),
        }
    }

    fn set(&self, state: u32) {
        self.state.store(state, Ordering::Release);
        wake_all(&self.state);
    }

    /// Sets the state if it is `from`; returns whether it was.
    fn change(&self, from: u32, to: u32) -> bool {
        let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
        let changed = self.state.compare_exchange(from, to, success, failure).is_ok();
        if changed {
            wake_all(&self.state);
        }
        changed
    }

    /// Makes the thread with `make`, which calls [`serve`](Self::serve) or [`fail`](Self::fail), and waits
    /// until it is ready; returns whether it is.
    pub(super) fn start(&self, make: impl FnOnce() -> Result<libc::pthread_t, c_int>) -> bool {
        if !self.change(ABSENT, STARTING) {
            return false;
        }
        let Ok(thread) = make() else {
            self.set(ABSENT);
            return false;
        };
        self.thread.store(thread as usize, Ordering::Release);
        if !wait_while(&self.state, STARTING, ANSWER_TIMEOUT) && self.change(STARTING, LOST) {
            return false;
        }
        let is_ready = self.state.load(Ordering::Acquire) == IDLE;
        if !is_ready {
            self.join();
        }
        is_ready
    }

    fn join(&self) {
        let thread = self.thread.load(Ordering::Acquire) as libc::pthread_t;
        // SAFETY: the thread was made joinable, is about to end, and is joined once.
        unsafe { libc::pthread_join(thread, ptr::null_mut()) };
        self.set(ABSENT);
    }

    /// Runs `work` on the thread, and waits.
    pub(super) fn ask(&self, mut work: Work<'_>) -> Answer {
        let mut answer = Answer::Missing;
        if self.turn.lock(ANSWER_TIMEOUT) {
            answer = self.ask_in_turn(&mut work);
            self.turn.unlock();
        }
        if answer == Answer::Missing {
            UNANSWERED.fetch_add(1, Ordering::AcqRel);
        }
        answer
    }

    fn ask_in_turn(&self, work: &mut Work<'_>) -> Answer {
        match self.state.load(Ordering::Acquire) {
            IDLE => {}
            LOST => return Answer::Missing,
            _ => return Answer::Absent,
        }
        self.work.store(ptr::from_mut(work).cast(), Ordering::Release);
        self.set(ASKED);
        if !wait_while(&self.state, ASKED, ANSWER_TIMEOUT) && self.change(ASKED, IDLE) {
            self.look();
            return Answer::Missing;
        }
        // NOTE: what has begun uses this thread's frame. It is waited for as if this thread ran it: all that
        // it waits for has a deadline.
        while !wait_while(&self.state, BUSY, LOOK_INTERVAL) {
            if !self.look() {
                return Answer::Missing;
            }
        }
        self.set(IDLE);
        Answer::Done
    }

    /// Whether the thread exists. The program can end it, by a filter of system calls that ends the thread
    /// that makes one.
    fn look(&self) -> bool {
        let exists = is_thread_alive(self.id.load(Ordering::Acquire));
        if !exists {
            self.set(LOST);
        }
        exists
    }

    /// Ends the thread, if there is one, and waits until it has ended. One that does not answer stays.
    pub(super) fn dismiss(&self) {
        if !self.turn.lock(ANSWER_TIMEOUT) {
            return;
        }
        if self.change(IDLE, DISMISSED) {
            self.join();
        }
        self.turn.unlock();
    }

    /// The thread cannot do its part.
    pub(super) fn fail(&self) {
        self.change(STARTING, FAILED);
    }

    /// What the thread does.
    pub(super) fn serve(&self) {
        self.id.store(thread_id(), Ordering::Release);
        if !self.change(STARTING, IDLE) {
            // What has started it waits no longer.
            return;
        }
        loop {
            match self.state.load(Ordering::Acquire) {
                ASKED if self.change(ASKED, BUSY) => {
                    let work = self.work.load(Ordering::Acquire).cast::<Work<'_>>();
                    // SAFETY: the thread that asks waits until this is done.
                    unsafe { (*work)() };
                    self.set(DONE);
                }
                DISMISSED => return,
                other => wait(&self.state, other, LONG),
            }
        }
    }

    /// In the child of a fork, which does not have the thread.
    pub(super) fn forget(&self) {
        self.turn.open();
        self.state.store(ABSENT, Ordering::Release);
    }
}
