//! The watermark, which is the epoch up to which all events are committed, and the times of the
//! epochs.
//!
//! In each cycle the worker joins the global clock in a new epoch. A thread that the worker then
//! sees outside the hook finds this epoch at the global clock at its next event, and advances to a
//! later one, so it commits no more events up to this epoch. A thread inside the hook holds the
//! watermark before its own epoch.

use crate::platform::clock;
use crate::platform::os::Instant;
use crate::trace::write::slot::{Guard, ThreadSlot};
use crate::trace::write::{clocks, order, quiesce, registry};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// A hook takes some nanoseconds, so a thread that is inside it at this many checks in a row was
/// interrupted there.
const GUARD_CHECKS: usize = 1000;
/// A thread inside the hook holds the watermark for at most this long. After that, the watermark
/// passes the thread's epoch, and the thread's event is later in the order than it happened.
const STUCK_TIMEOUT: Duration = Duration::from_millis(200);

/// The worker's view of the epochs.
pub(super) struct Watermark {
    /// The epoch in which the worker joined the global clock last.
    epoch: u64,
    /// Every event up to this epoch is committed.
    watermark: u64,
    /// The time since which the watermark has been below `epoch`; `None` if the watermark has
    /// reached `epoch`.
    stuck_since: Option<Instant>,
    /// The times that the stream does not have yet: each is an epoch of the worker, and its time in
    /// cycles.
    times: Vec<(u64, u64)>,
}

impl Watermark {
    /// Events from now on happen after `start`, a time in cycles.
    pub(super) fn new(start: u64) -> Self {
        Self { epoch: 0, watermark: 0, stuck_since: None, times: vec![(0, start)] }
    }

    /// Advances and returns the watermark. Waits for threads inside the hook, at most for
    /// `timeout`.
    pub(super) fn advance(&mut self, timeout: Duration) -> u64 {
        // NOTE: a thread under a lease can advance to a later epoch without the global clock, when
        // it synchronises with another such thread at a region clock.
        let is_later = |slot: &ThreadSlot| slot.epoch() > self.epoch;
        if self.is_current() && clocks::is_quiet() && !registry::slots().any(is_later) {
            // There were no events since the last cycle, so the next event happens after now.
            self.note_time(clock::now_since_start());
            return self.watermark;
        }
        self.join_global();
        let deadline = Instant::now() + timeout;
        loop {
            registry::slots().for_each(|slot| slot.revoke_lease());
            quiesce::barrier();
            let committed = registry::slots().map(|slot| committed_epoch(slot, self.epoch));
            self.watermark = committed.min().unwrap_or(self.epoch);
            if self.is_current() || Instant::now() >= deadline {
                break;
            }
            std::thread::yield_now();
        }
        if self.is_current() {
            self.stuck_since = None;
        } else if self.stuck_since.get_or_insert_with(Instant::now).elapsed() >= STUCK_TIMEOUT {
            self.watermark = self.epoch;
        }
        self.watermark
    }

    /// Whether every event before the last cycle was committed then.
    pub(super) fn is_current(&self) -> bool {
        self.watermark >= self.epoch
    }

    /// Joins the global clock, so that events from now on have a time after now.
    pub(super) fn join_global(&mut self) {
        let now = clock::now_since_start();
        let latest = registry::slots().map(ThreadSlot::epoch).max().unwrap_or(0);
        self.epoch = clocks::begin_cycle(latest);
        self.note_time(now);
    }

    /// The last time that the stream does not have yet, in cycles; 0 for none.
    pub(super) fn last_time(&self) -> u64 {
        self.times.last().map_or(0, |(_, cycle)| *cycle)
    }

    /// Notes this time, in cycles, for the worker's epoch. It replaces an earlier time of the same
    /// epoch.
    pub(super) fn note_time(&mut self, cycle: u64) {
        match self.times.last_mut() {
            Some((epoch, last)) if *epoch == self.epoch => *last = cycle,
            _ => self.times.push((self.epoch, cycle)),
        }
    }

    /// Takes the times of all epochs before `epoch`; returns the first and the last of them, in
    /// cycles.
    pub(super) fn take_times_before(&mut self, epoch: u64) -> impl Iterator<Item = u64> + use<> {
        let due = self.times.iter().take_while(|(other, _)| *other < epoch).count();
        let mut due = self.times.drain(..due).map(|(_, cycle)| cycle);
        let first = due.next();
        first.into_iter().chain(due.next_back())
    }

    /// Whether there is a time to write once the stream has all events up to `epoch`.
    pub(super) fn has_time_in(&self, epoch: u64) -> bool {
        self.times.first().is_some_and(|(first, _)| *first <= epoch)
    }
}

/// The epoch up to which this thread commits no more events. NOTE: must be called after a barrier.
/// A thread that entered the hook before the barrier is then seen inside, and one that enters after
/// it sees the worker's epoch at the global clock.
fn committed_epoch(slot: &ThreadSlot, epoch: u64) -> u64 {
    let outside = (0..GUARD_CHECKS).any(|_| {
        std::hint::spin_loop();
        slot.guard.load(Ordering::Acquire) != Guard::IN
    });
    // A thread outside the hook may have taken a lease since the leases were revoked; under that
    // lease it does not check the global clock.
    if outside && !slot.is_leased() {
        return epoch;
    }
    order::epoch(slot.stamp.load(Ordering::Acquire)).saturating_sub(1).min(epoch)
}
