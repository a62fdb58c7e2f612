//! What is asked for channels by name, those of code that has not run yet among them.
//!
//! A wish stays for the life of the process, because a log site may just be reading it.
#![expect(unsafe_code, reason = "a list of entries that are never freed")]

use super::registry::{NEW, id};
use crate::trace::write::untracked;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU8, Ordering};

/// A name, and whether its channels are to be on.
pub(super) struct Wish {
    pub(super) id: u32,
    pub(super) name: String,
    /// ON, OFF, or NEW while nothing is asked for.
    state: AtomicU8,
    next: Option<&'static Wish>,
}

/// A list of them, the latest first, without a lock.
pub(super) struct Wishes(AtomicPtr<Wish>);

impl Wishes {
    pub(super) const fn new() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &'static Wish> {
        // SAFETY: what is stored there was leaked.
        let first = unsafe { self.0.load(Ordering::SeqCst).as_ref() };
        std::iter::successors(first, |wish| wish.next)
    }

    /// What is asked for channels with this id: ON, OFF, or NEW if nothing is.
    pub(super) fn state(&self, id: u32) -> u8 {
        let wish = self.iter().find(|wish| wish.id == id);
        wish.map_or(NEW, |wish| wish.state.load(Ordering::SeqCst))
    }

    /// Whether there is an entry for channels with this id.
    pub(super) fn has(&self, id: u32) -> bool {
        self.iter().any(|wish| wish.id == id)
    }

    /// Changes what is asked for a name; whether there is an entry for it.
    pub(super) fn change(&self, id: u32, state: u8) -> bool {
        let wish = self.iter().find(|wish| wish.id == id);
        wish.inspect(|wish| wish.state.store(state, Ordering::SeqCst)).is_some()
    }

    /// Asks for `state` for the channels of this name.
    pub(super) fn set(&self, name: &str, state: u8) {
        if self.change(id(name), state) {
            return;
        }
        untracked(|| {
            let wish = Wish { id: id(name), name: name.into(), state: state.into(), next: None };
            let wish = Box::leak(Box::new(wish));
            let mut first = self.0.load(Ordering::SeqCst);
            loop {
                // SAFETY: what is stored there was leaked.
                wish.next = unsafe { first.as_ref() };
                match self.0.compare_exchange(first, wish, Ordering::SeqCst, Ordering::SeqCst) {
                    Ok(_) => return,
                    // NOTE: another thread may have asked for the same name. Both entries are true
                    // to what their threads asked for, and later changes go to the first.
                    Err(other) => first = other,
                }
            }
        });
    }

    /// Forgets all of them.
    pub(super) fn clear(&self) {
        self.0.store(ptr::null_mut(), Ordering::SeqCst);
    }
}
