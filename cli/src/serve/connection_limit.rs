//! A limit on simultaneous connections, and which connection is closed when one more arrives.
//!
//! ```text
//! enter ── silent ── speaks ──► busy ─── pauses ──► pausing ── speaks ──► busy ...
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
    /// In order of arrival. A connection that is not in it any more was asked to leave.
    taken: Mutex<Vec<Seat>>,
}

#[derive(Debug)]
struct Seat {
    state: State,
    leave: Arc<Notify>,
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
        let mut taken = self.lock();
        if taken.len() >= self.most {
            let goes = taken.iter().enumerate().filter_map(|(index, seat)| match seat.state {
                State::Silent => Some((None, index)),
                State::Pausing(since) if since.elapsed() >= FIRST => Some((Some(since), index)),
                _ => None,
            });
            let (_, index) = goes.min()?;
            taken.remove(index).leave.notify_one();
        }
        let leave = Arc::new(Notify::new());
        taken.push(Seat { state: State::Silent, leave: Arc::clone(&leave) });
        Some(Taken { seats: Arc::clone(self), leave })
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Seat>> {
        // No code that holds the lock panics between two changes.
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A taken seat. It is free again when dropped.
#[derive(Debug)]
pub struct Taken {
    seats: Arc<Seats>,
    leave: Arc<Notify>,
}

impl Taken {
    /// The connection has sent its request, and is being served from here on. False if another one
    /// has its seat already.
    #[must_use]
    pub fn speaks(&self) -> bool {
        self.update(|_| State::Busy)
    }

    /// Marks the connection as served, unless it is silent; it may send another request. False if
    /// another one has its seat already.
    #[must_use]
    pub fn pauses(&self) -> bool {
        self.update(|state| match state {
            State::Silent => State::Silent,
            _ => State::Pausing(Instant::now()),
        })
    }

    /// Whether the connection has not sent a request yet.
    pub fn is_silent(&self) -> bool {
        let taken = self.seats.lock();
        let seat = taken.iter().find(|seat| Arc::ptr_eq(&seat.leave, &self.leave));
        seat.is_some_and(|seat| seat.state == State::Silent)
    }

    /// Completes when another connection needs the seat.
    pub async fn has_to_leave(&self) {
        self.leave.notified().await;
    }

    /// Changes the state, which decides under one lock whether the seat can be given to another.
    fn update(&self, next: impl FnOnce(State) -> State) -> bool {
        let mut taken = self.seats.lock();
        let seat = taken.iter_mut().find(|seat| Arc::ptr_eq(&seat.leave, &self.leave));
        seat.map(|seat| seat.state = next(seat.state)).is_some()
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.seats.lock().retain(|seat| !Arc::ptr_eq(&seat.leave, &self.leave));
    }
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
        assert!(busy.speaks());
        let third = seats.enter().unwrap();
        assert!(has_to_leave(&first) && !has_to_leave(&second) && !has_to_leave(&busy));
        // A connection that leaves late frees no seat but its own.
        drop(first);
        let fourth = seats.enter().unwrap();
        assert!(has_to_leave(&second) && !second.speaks() && !second.pauses());
        assert!(third.speaks() && fourth.speaks());
        assert!(seats.enter().is_none(), "all are served");
        // A connection that was just served keeps its seat for a while.
        assert!(third.pauses());
        assert!(seats.enter().is_none());
        third.update(|_| State::Pausing(Instant::now().checked_sub(FIRST).unwrap()));
        let fifth = seats.enter().unwrap();
        assert!(has_to_leave(&third));
        assert_eq!(seats.lock().len(), 3);
        drop((busy, fourth, fifth));
        assert_eq!(seats.lock().len(), 0);
    }

    #[test]
    fn a_seat_goes_to_one_of_two() {
        const ROUNDS: usize = 1_000;
        for _ in 0..ROUNDS {
            let seats = Seats::new(1);
            let one = seats.enter().unwrap();
            let (speaks, another) = std::thread::scope(|threads| {
                let speaks = threads.spawn(|| one.speaks());
                (seats.enter().is_some(), speaks.join().unwrap())
            });
            assert!(speaks != another, "one is served or the other has its seat");
        }
    }
}
