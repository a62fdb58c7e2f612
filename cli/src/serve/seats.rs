//! How many may be connected at once, and who goes when one more comes.
//!
//! ```text
//! enter ── silent ── speaks ──► known ── pauses ──► pausing ── speaks ──► known ...
//!            │                                         │
//!            └── may be asked to leave                 └── the same, once it has paused for 10 s
//! ```

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// For the first request, or the start of a trace, with a token where one is needed.
pub const FIRST: Duration = Duration::from_secs(10);

/// A limit on connections.
#[derive(Debug)]
pub struct Seats {
    most: usize,
    /// In the order in which they came.
    taken: Mutex<Vec<Arc<Seat>>>,
}

#[derive(Debug)]
struct Seat {
    state: Mutex<State>,
    leave: Notify,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It has not said yet what it wants.
    Silent,
    /// It is being served.
    Busy,
    /// It has been served, and says nothing since.
    Pausing(Instant),
}

impl Seats {
    /// For so many at once.
    pub fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, taken: Mutex::default() })
    }

    /// A seat, if there is one. If there is none, the oldest silent one has to go, then the one that
    /// has paused for longest, if that is 10 s.
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

/// A seat that is taken. Free again when dropped.
#[derive(Debug)]
pub struct Taken {
    seats: Arc<Seats>,
    seat: Arc<Seat>,
}

impl Taken {
    /// It has said what it wants, and is served from here on.
    pub fn speaks(&self) {
        *lock(&self.seat.state) = State::Busy;
    }

    /// It has been served, if it was not silent, and may ask for more.
    pub fn pauses(&self) {
        let mut state = lock(&self.seat.state);
        if *state != State::Silent {
            *state = State::Pausing(Instant::now());
        }
    }

    /// Whether it has not said yet what it wants.
    pub fn is_silent(&self) -> bool {
        *lock(&self.seat.state) == State::Silent
    }

    /// Ends when somebody else needs the seat.
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
    // Nothing in here panics between two changes.
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
        // One that goes late takes nobody's seat with it.
        drop(first);
        let fourth = seats.enter().unwrap();
        assert!(has_to_leave(&second));
        third.speaks();
        fourth.speaks();
        assert!(seats.enter().is_none(), "all are served");
        // One that has just been served may think.
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
