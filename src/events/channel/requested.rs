//! The states that settings request for channels by name, including channels of code that has not
//! run yet.
//!
//! A request is never freed, because a log site may be reading it.
#![expect(unsafe_code, reason = "a list of entries that are never freed")]

use super::registry::NEW;
use crate::trace::write::untracked;
use memledger_format::channel::id;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU8, Ordering};

/// A name, and the state that is requested for its channel.
pub(super) struct Requested {
    pub(super) id: u32,
    pub(super) name: String,
    /// The requested state: ON, OFF, or NEW if no state is requested.
    state: AtomicU8,
    next: Option<&'static Requested>,
}

/// A list of requests without a lock, the latest first.
pub(super) struct RequestedStates(AtomicPtr<Requested>);

impl RequestedStates {
    pub(super) const fn new() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &'static Requested> {
        // SAFETY: all entries are leaked, so they are never freed.
        let first = unsafe { self.0.load(Ordering::SeqCst).as_ref() };
        std::iter::successors(first, |request| request.next)
    }

    /// The state that is requested for the channel with this id: ON, OFF, or NEW if none is.
    pub(super) fn state(&self, id: u32) -> u8 {
        let request = self.iter().find(|request| request.id == id);
        request.map_or(NEW, |request| request.state.load(Ordering::SeqCst))
    }

    /// Whether there is an entry for the channel with this id.
    pub(super) fn has(&self, id: u32) -> bool {
        self.iter().any(|request| request.id == id)
    }

    /// Changes the requested state if there is an entry; returns whether there is.
    pub(super) fn change(&self, id: u32, state: u8) -> bool {
        let request = self.iter().find(|request| request.id == id);
        request.inspect(|request| request.state.store(state, Ordering::SeqCst)).is_some()
    }

    /// Requests `state` for the channel of this name.
    pub(super) fn set(&self, name: &str, state: u8) {
        if self.change(id(name), state) {
            return;
        }
        untracked(|| {
            let request =
                Requested { id: id(name), name: name.into(), state: state.into(), next: None };
            let request = Box::leak(Box::new(request));
            let mut first = self.0.load(Ordering::SeqCst);
            loop {
                // SAFETY: all entries are leaked, so they are never freed.
                request.next = unsafe { first.as_ref() };
                match self.0.compare_exchange(first, request, Ordering::SeqCst, Ordering::SeqCst) {
                    Ok(_) => return,
                    // NOTE: another thread may have added the same name. Of two entries with the
                    // same name, the first in the list is read, and later changes are made to it.
                    Err(other) => first = other,
                }
            }
        });
    }

    /// Removes all requests. Their entries stay, for the next requests of these names.
    pub(super) fn clear(&self) {
        self.iter().for_each(|request| request.state.store(NEW, Ordering::SeqCst));
    }
}

#[cfg(test)]
mod tests {
    use super::super::registry::{OFF, ON};
    use super::*;

    #[test]
    fn a_name_has_one_entry_however_often_it_is_requested() {
        static REQUESTED: RequestedStates = RequestedStates::new();
        for round in 0..100 {
            for name in ["Memory", "scopes", "gameChannel"] {
                REQUESTED.set(name, if round % 2 == 0 { ON } else { OFF });
            }
            assert_eq!(REQUESTED.state(id("game")), if round % 2 == 0 { ON } else { OFF });
            REQUESTED.clear();
            assert_eq!((REQUESTED.state(id("game")), REQUESTED.iter().count()), (NEW, 3));
        }
    }
}
