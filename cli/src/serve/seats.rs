//! A limit on simultaneous connections, and which connection is closed when one more arrives.
//!
//! ```text
//! enter ── silent ── speaks ──► known ── pauses ──► pausing ── speaks ──► known ...
//!            │                                         │
//!            └── may be asked to leave                 └── the same, once it has paused for 10 s
//! ```

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// Time for the first request, or the start of a trace, with a token if one is needed.
pub const FIRST: Duration = Duration::from_secs(10);

/// A limit on connections.
#[derive(Debug)]
pub struct Seats {
    most: usize,
    /// In order of arrival.
    taken: Mutex<Vec<Arc<Seat>>>,
}

#[derive(Debug)]
struct Seat {
    state: Mutex<State>,
    leave: Notify,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It has sent no complete request or trace start yet.
    Silent,
    /// It is being served.
    Busy,
    /// It has been served and has sent nothing since.
    Pausing(Instant),
}

impl Seats {
    /// A limit of this many connections at once.
    pub fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, taken: Mutex::default() })
    }

    /// A seat, if one is free. If none is, the oldest silent connection is asked to leave, else the
    /// one that has paused longest, if for at least 10 s.
    pub fn enter(self: &Arc<Self>) -> Option<Taken> {
        let mut taken = lock(&self.taken);
        if taken.len() >= self.most {
            let goes =
                taken.iter().enumerate().filter_map(|(index, seat)| match *lock(&seat.state) {
                    State::Silent => Some((None, index)),
                    State::Pausing(since) if since.elapsed() >= FIRST => Some((Some(since), index)),
                    _ => None,
                });
            let (_, index) = goes.min()?;
            taken.remove(index).leave.notify_one();
        }
        let seat = Arc::new(Seat { state: Mutex::new(State::Silent), leave: Notify::new() });
        taken.push(Arc::clone(&seat));
        Some(Taken { seats: Arc::clone(self), seat })
    }
}

/// A taken seat. It is free again when dropped.
#[derive(Debug)]
pub struct Taken {
    seats: Arc<Seats>,
    seat: Arc<Seat>,
}

impl Taken {
    /// The connection has sent its request, and is being served from here on.
    pub fn speaks(&self) {
        *lock(&self.seat.state) = State::Busy;
    }

    /// Marks the connection as served, unless it is silent; it may send another request.
    pub fn pauses(&self) {
        let mut state = lock(&self.seat.state);
        if *state != State::Silent {
            *state = State::Pausing(Instant::now());
        }
    }

    /// Whether the connection has not sent a request yet.
    pub fn is_silent(&self) -> bool {
        *lock(&self.seat.state) == State::Silent
    }

    /// Completes when another connection needs the seat.
    pub async fn has_to_leave(&self) {
        self.seat.leave.notified().await;
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        lock(&self.seats.taken).retain(|seat| !Arc::ptr_eq(seat, &self.seat));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No code that holds the lock panics between two changes.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has_to_leave(taken: &Taken) -> bool {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let now = async { tokio::time::timeout(Duration::ZERO, taken.has_to_leave()).await };
        runtime.block_on(now).is_ok()
    }

    #[test]
    fn the_oldest_silent_one_goes_first() {
        let seats = Seats::new(3);
        let [busy, first, second] = [(); 3].map(|()| seats.enter().unwrap());
        busy.speaks();
        let third = seats.enter().unwrap();
        assert!(has_to_leave(&first) && !has_to_leave(&second) && !has_to_leave(&busy));
        // A connection that leaves late frees no seat but its own.
        drop(first);
        let fourth = seats.enter().unwrap();
        assert!(has_to_leave(&second));
        third.speaks();
        fourth.speaks();
        assert!(seats.enter().is_none(), "all are served");
        // A connection that was just served keeps its seat for a while.
        third.pauses();
        assert!(seats.enter().is_none());
        *lock(&third.seat.state) = State::Pausing(Instant::now().checked_sub(FIRST).unwrap());
        let fifth = seats.enter().unwrap();
        assert!(has_to_leave(&third));
        assert_eq!(lock(&seats.taken).len(), 3);
        drop((busy, fourth, fifth));
        assert_eq!(lock(&seats.taken).len(), 0);
    }
}
