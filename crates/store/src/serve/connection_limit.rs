//! A limit on simultaneous connections, and which connection is closed when one more arrives.
//!
//! ```text
//! accepted ── new ── request ──► busy ── answered ──► idle ── request ──► busy ...
//!              │                                        │
//!              └── may be closed for another one        └── the same, after 10 s
//! ```

use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// Time for the first request, or for the start of a trace, with a token if one is needed.
pub const FIRST_REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// A limit on simultaneous connections.
#[derive(Debug)]
pub struct ConnectionLimit {
    max: usize,
    /// The connections with a permit, in order of arrival. Revoking a permit removes its
    /// connection.
    holders: Mutex<Vec<Holder>>,
}

/// A connection that holds a permit.
#[derive(Debug)]
struct Holder {
    state: State,
    revoked: Arc<Notify>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It has sent no complete request or trace start yet.
    New,
    /// It is being served.
    Busy,
    /// It was served, and has sent nothing since.
    Idle(Instant),
}

impl ConnectionLimit {
    /// A limit of `max` connections.
    pub fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { max, holders: Mutex::default() })
    }

    /// The maximum number of simultaneous connections.
    pub fn max(&self) -> usize {
        self.max
    }

    /// A permit for one more connection, if the limit allows it. At the limit, the permit of the
    /// oldest new connection is revoked, or else that of the connection that has been idle longest,
    /// if for at least 10 s.
    pub fn acquire(self: &Arc<Self>) -> Option<Permit> {
        let mut holders = self.lock();
        if holders.len() >= self.max {
            let revocable =
                holders.iter().enumerate().filter_map(|(index, holder)| match holder.state {
                    State::New => Some((None, index)),
                    State::Idle(since) if since.elapsed() >= FIRST_REQUEST_TIMEOUT => {
                        Some((Some(since), index))
                    }
                    _ => None,
                });
            let (_, index) = revocable.min()?;
            holders.remove(index).revoked.notify_one();
        }
        let revoked = Arc::new(Notify::new());
        holders.push(Holder { state: State::New, revoked: Arc::clone(&revoked) });
        Some(Permit { limit: Arc::clone(self), revoked })
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Holder>> {
        self.holders.lock()
    }
}

/// The right of one connection to stay open. Dropping it allows another connection.
#[derive(Debug)]
pub struct Permit {
    limit: Arc<ConnectionLimit>,
    revoked: Arc<Notify>,
}

impl Permit {
    /// Marks the connection as being served: its request has arrived. False if the permit was
    /// revoked.
    #[must_use]
    pub fn set_busy(&self) -> bool {
        self.update(|_| State::Busy)
    }

    /// Marks the connection as served, unless it is new; it may send another request. False if the
    /// permit was revoked.
    #[must_use]
    pub fn set_idle(&self) -> bool {
        self.update(|state| match state {
            State::New => State::New,
            _ => State::Idle(Instant::now()),
        })
    }

    /// Whether the connection has not sent a request yet.
    pub fn is_new(&self) -> bool {
        let holders = self.limit.lock();
        let holder = holders.iter().find(|holder| Arc::ptr_eq(&holder.revoked, &self.revoked));
        holder.is_some_and(|holder| holder.state == State::New)
    }

    /// Completes when the permit is revoked.
    pub async fn revoked(&self) {
        self.revoked.notified().await;
    }

    /// Changes the state. One lock decides whether the permit is still held.
    fn update(&self, next: impl FnOnce(State) -> State) -> bool {
        let mut holders = self.limit.lock();
        let holder = holders.iter_mut().find(|holder| Arc::ptr_eq(&holder.revoked, &self.revoked));
        holder.map(|holder| holder.state = next(holder.state)).is_some()
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.limit.lock().retain(|holder| !Arc::ptr_eq(&holder.revoked, &self.revoked));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicBool, Ordering};

    fn is_revoked(permit: &Permit) -> bool {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let now = async { tokio::time::timeout(Duration::ZERO, permit.revoked()).await };
        runtime.block_on(now).is_ok()
    }

    #[test]
    fn the_oldest_new_connection_is_closed_first() {
        let limit = ConnectionLimit::new(3);
        let [busy, first, second] = [(); 3].map(|()| limit.acquire().unwrap());
        assert!(busy.set_busy());
        let third = limit.acquire().unwrap();
        assert!(is_revoked(&first) && !is_revoked(&second) && !is_revoked(&busy));
        // A connection whose permit was revoked does not free a permit when it ends.
        drop(first);
        let fourth = limit.acquire().unwrap();
        assert!(is_revoked(&second) && !second.set_busy() && !second.set_idle());
        assert!(third.set_busy() && fourth.set_busy());
        assert!(limit.acquire().is_none(), "all are served");
        // A connection that was just served keeps its permit for a while.
        assert!(third.set_idle());
        assert!(limit.acquire().is_none());
        let idle_since = Instant::now().checked_sub(FIRST_REQUEST_TIMEOUT).unwrap();
        third.update(|_| State::Idle(idle_since));
        let fifth = limit.acquire().unwrap();
        assert!(is_revoked(&third));
        assert_eq!(limit.lock().len(), 3);
        drop((busy, fourth, fifth));
        assert_eq!(limit.lock().len(), 0);
    }

    #[test]
    fn a_permit_is_held_by_one_of_two() {
        const ROUNDS: usize = 20_000;
        let (start, end) = (Barrier::new(2), Barrier::new(2));
        let limit = ConnectionLimit::new(1);
        let held = Mutex::new(None);
        let busy = AtomicBool::new(false);
        let (mut served, mut wrong) = ([0; 2], 0);
        std::thread::scope(|threads| {
            threads.spawn(|| {
                for _ in 0..ROUNDS {
                    start.wait();
                    let one: Permit = held.lock().take().unwrap();
                    busy.store(one.set_busy(), Ordering::Relaxed);
                    // Handed back, so that the permit is held until the other thread has tried.
                    *held.lock() = Some(one);
                    end.wait();
                }
            });
            for _ in 0..ROUNDS {
                *held.lock() = Some(limit.acquire().unwrap());
                start.wait();
                let another = limit.acquire();
                end.wait();
                drop(held.lock().take());
                // Counted and not asserted: a panic here would leave the other thread at its
                // barrier.
                let is_served = busy.load(Ordering::Relaxed);
                wrong += usize::from(is_served == another.is_some());
                served[usize::from(is_served)] += 1;
            }
        });
        assert_eq!(wrong, 0, "one is served, or the other has its permit: never both or neither");
        assert!(served[0] > 0 && served[1] > 0, "{served:?}");
    }
}
