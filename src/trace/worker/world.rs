//! How far the order of events is known, and what time it was there.
//!
//! In each tick the worker comes to the world, in a new epoch. Every thread seen outside the hook
//! after that will find it there, and go on behind it: no event up to that epoch will come any
//! more. Of a thread that is inside the hook, events of its own epoch and later ones may.

use crate::platform::clock;
use crate::trace::write::slot::{Guard, ThreadSlot};
use crate::trace::write::{clocks, order, quiesce, registry};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// A hook takes some nanoseconds; a thread seen inside this often was interrupted there.
const LOOKS: usize = 1000;
/// A thread that has not come out of the hook for so long is not waited for. Its event stands
/// later in the order than it happened.
const STUCK: Duration = Duration::from_millis(200);

/// The worker's place in the world.
pub(super) struct World {
    /// The epoch in which the worker was there last.
    epoch: u64,
    /// Every event up to here has been committed.
    bound: u64,
    /// Since when the bound is behind the epoch.
    behind_since: Option<Instant>,
    /// When the worker was there, if the stream has not been told yet: epochs and cycles.
    moments: Vec<(u64, u64)>,
}

impl World {
    /// Events up to now happened after `start`, a time in cycles.
    pub(super) fn new(start: u64) -> Self {
        Self { epoch: 0, bound: 0, behind_since: None, moments: vec![(0, start)] }
    }

    /// Comes to the world; returns the epoch up to which every event has been committed. Waits
    /// for threads inside the hook for `patience`.
    pub(super) fn tick(&mut self, patience: Duration) -> u64 {
        // NOTE: a thread under a lease can get to a later epoch without coming to the world, when it
        // meets another such thread at a region.
        let is_behind = |slot: &ThreadSlot| slot.epoch() > self.epoch;
        if self.bound == self.epoch && clocks::is_quiet() && !registry::slots().any(is_behind) {
            // Nobody came since: whatever comes next happens after now.
            self.note(clock::now_since_start());
            return self.bound;
        }
        self.pulse();
        let deadline = Instant::now() + patience;
        loop {
            registry::slots().for_each(|slot| slot.revoke_lease());
            quiesce::barrier();
            self.bound =
                registry::slots().map(|slot| bound(slot, self.epoch)).min().unwrap_or(self.epoch);
            if self.bound >= self.epoch || Instant::now() >= deadline {
                break;
            }
            std::thread::yield_now();
        }
        if self.bound >= self.epoch {
            self.behind_since = None;
        } else if self.behind_since.get_or_insert_with(Instant::now).elapsed() >= STUCK {
            self.bound = self.epoch;
        }
        self.bound
    }

    /// Whether every event before the last tick was committed then.
    pub(super) fn is_settled(&self) -> bool {
        self.bound >= self.epoch
    }

    /// Comes to the world, so that what happens from now on is known to.
    pub(super) fn pulse(&mut self) {
        let now = clock::now_since_start();
        let latest = registry::slots().map(ThreadSlot::epoch).max().unwrap_or(0);
        self.epoch = clocks::begin_cycle(latest);
        self.note(now);
    }

    /// The time of the worker's last tick that the stream does not have yet; 0 for none.
    pub(super) fn last_moment(&self) -> u64 {
        self.moments.last().map_or(0, |(_, cycle)| *cycle)
    }

    pub(super) fn note(&mut self, cycle: u64) {
        match self.moments.last_mut() {
            Some((epoch, last)) if *epoch == self.epoch => *last = cycle,
            _ => self.moments.push((self.epoch, cycle)),
        }
    }

    /// The times between the events so far and those of `epoch` and later ones: the first and the
    /// last of them.
    pub(super) fn moments_before(&mut self, epoch: u64) -> impl Iterator<Item = u64> + use<> {
        let due = self.moments.iter().take_while(|(other, _)| *other < epoch).count();
        let mut due = self.moments.drain(..due).map(|(_, cycle)| cycle);
        let first = due.next();
        first.into_iter().chain(due.next_back())
    }

    /// Whether the stream can be told a time now, in which all events up to `bound` are.
    pub(super) fn has_moment_in(&self, bound: u64) -> bool {
        self.moments.first().is_some_and(|(epoch, _)| *epoch <= bound)
    }
}

/// No event of this thread up to the epoch returned will come any more, for a thread that was
/// inside the hook before the last barrier or will come to it after.
fn bound(slot: &ThreadSlot, epoch: u64) -> u64 {
    let outside = (0..LOOKS).any(|_| {
        std::hint::spin_loop();
        slot.guard.load(Ordering::Acquire) != Guard::IN
    });
    // It may have given itself a lease since leases were ended, and not look at the world.
    if outside && !slot.is_leased() {
        return epoch;
    }
    order::epoch(slot.stamp.load(Ordering::Acquire)).saturating_sub(1).min(epoch)
}
