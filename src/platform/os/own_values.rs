//! The thread-local values that the hook uses, where std's are no good for it.
//!
//! NOTE: on the target `x86_64-pc-windows-gnu`, std's values are boxes, which the first use takes from the
//! global allocator: that of the hook. On macOS the first use of one takes memory from C's `malloc`, and the
//! loader gives it back in the first of a thread's rounds of destructors: what the thread allocates after
//! that would find new values (dyld's `ThreadLocalVariables.cpp`).
//!
//! Here a value is in pages of the tracker, and its address in one of the slots that the system keeps for
//! each thread (`slots.rs` of its folder).
#![expect(unsafe_code, reason = "pointers to thread-local values")]

use super::slots::{self, NONE};
use super::{KeepErrno, await_thread_end};
use crate::platform::chunk_table::{ChunkTable, Zeroed};
use crate::platform::free_stack::FreeStack;
use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::mem::{MaybeUninit, needs_drop};
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// Values of one kind; as many threads can record at once (`registry::MAX_THREADS`).
const PER_CHUNK: usize = 64;
const CHUNKS: usize = 256;

/// Declares such values, as std's `thread_local` does.
macro_rules! own_values {
    ($($(#[$meta:meta])* static $name:ident: $type:ty = const $init:expr;)+) => {
        $($(#[$meta])* static $name: $crate::platform::own_thread::OwnKey<$type> =
            $crate::platform::own_thread::OwnKey::new(|| $init);)+
    };
}
pub(crate) use own_values;

/// A value of each thread that uses it.
pub(crate) struct OwnKey<T: 'static> {
    /// The slot that has the address of a thread's value, or [`NONE`].
    slot: AtomicU32,
    make: fn() -> T,
    places: ChunkTable<Place<T>, PER_CHUNK, CHUNKS>,
    free: FreeStack,
}

struct Place<T> {
    value: UnsafeCell<MaybeUninit<T>>,
    number: AtomicU32,
    slot: AtomicU32,
    next_free: AtomicU32,
}

// SAFETY: a value is used by one thread at a time, from when that takes the place until it gives it back.
unsafe impl<T> Sync for Place<T> {}
// SAFETY: zeros are no value yet, and the numbers are valid.
unsafe impl<T: 'static> Zeroed for Place<T> {}

impl<T: 'static> OwnKey<T> {
    pub(crate) const fn new(make: fn() -> T) -> Self {
        const { assert!(!needs_drop::<T>(), "nothing drops the value") };
        Self { slot: AtomicU32::new(NONE), make, places: ChunkTable::new(), free: FreeStack::new() }
    }

    /// *Hook.* The value of this thread; `None` if the system has no slot or no memory left.
    #[inline(always)]
    pub(crate) fn value(&'static self) -> Option<&'static T> {
        let place = slots::find(self.slot.load(Ordering::Relaxed));
        if place.is_null() {
            return self.find_or_make();
        }
        // SAFETY: only initialised places of this key are stored in its slot.
        Some(unsafe { (*(*place.cast::<Place<T>>()).value.get()).assume_init_ref() })
    }

    #[cold]
    #[inline(never)]
    fn find_or_make(&'static self) -> Option<&'static T> {
        let _errno = KeepErrno::new();
        let slot = self.take_slot()?;
        // SAFETY: as above; the slot exists.
        unsafe {
            let mut place = slots::value(slot).cast::<Place<T>>().cast_const();
            if place.is_null() {
                let free = self.free.pop(|number| Some(&self.places.get(number)?.next_free));
                let number = free.or_else(|| self.places.add())?;
                let new = self.places.get(number)?;
                new.number.store(number, Ordering::Relaxed);
                new.slot.store(slot, Ordering::Relaxed);
                (*new.value.get()).write((self.make)());
                if !slots::set_value(slot, ptr::from_ref(new).cast()) {
                    self.free.push(number, &new.next_free);
                    return None;
                }
                await_thread_end();
                place = new;
            }
            Some((*(*place).value.get()).assume_init_ref())
        }
    }

    /// The slot; the first call takes one.
    fn take_slot(&'static self) -> Option<u32> {
        let slot = self.slot.load(Ordering::Acquire);
        if slot != NONE {
            return Some(slot);
        }
        let new = slots::take(keep::<T>)?;
        match self.slot.compare_exchange(NONE, new, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => {
                note(ptr::from_ref(self).cast(), look::<T>);
                Some(new)
            }
            Err(slot) => {
                // Another thread was faster, and nothing uses this slot.
                slots::give_back(new);
                Some(slot)
            }
        }
    }
}

/// Called at the end of a thread, where the system takes a value out of its slot: puts it back, since what
/// runs later can need it.
extern "C" fn keep<T>(place: *mut c_void) {
    // SAFETY: only places of this type are stored in slots with this function.
    let slot = unsafe { (*place.cast::<Place<T>>()).slot.load(Ordering::Relaxed) };
    slots::set_value(slot, place.cast_const().cast());
}

/// The keys that are in use, and how the value of a thread is found.
static KEYS: [(AtomicPtr<u8>, AtomicPtr<u8>); 8] =
    [const { (AtomicPtr::new(ptr::null_mut()), AtomicPtr::new(ptr::null_mut())) }; 8];

/// Returns whether this thread has a value of a key; takes it away if the second argument is set.
type Look = unsafe fn(*const u8, bool) -> bool;

/// NOTE: a key for which there is no room keeps the value of each thread.
fn note(key: *const u8, look: Look) {
    for (of, function) in &KEYS {
        let (none, key) = (ptr::null_mut(), key.cast_mut());
        if of.compare_exchange(none, key, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            return function.store(look as *mut u8, Ordering::Release);
        }
    }
}

fn look_at_all(take: bool) -> bool {
    let mut any = false;
    for (key, function) in &KEYS {
        let function = function.load(Ordering::Acquire);
        if !function.is_null() {
            // SAFETY: `note` has stored a function of this type, and the key that it is for.
            any |= unsafe {
                let look = std::mem::transmute::<*mut u8, Look>(function);
                look(key.load(Ordering::Relaxed), take)
            };
        }
    }
    any
}

/// Whether this thread has any value.
#[cfg(windows)]
pub(super) fn has_any() -> bool {
    look_at_all(false)
}

/// At the end of this thread: gives back its values.
pub(super) fn give_back_all() {
    look_at_all(true);
}

/// # Safety
/// `key` is an `OwnKey<T>` in a static.
unsafe fn look<T: 'static>(key: *const u8, take: bool) -> bool {
    // SAFETY: the caller's promise; the slot has null or a place of this key, which only this thread uses.
    unsafe {
        let key = &*key.cast::<OwnKey<T>>();
        let slot = key.slot.load(Ordering::Acquire);
        let place = slots::value(slot).cast::<Place<T>>();
        if take && !place.is_null() {
            slots::set_value(slot, ptr::null());
            key.free.push((*place).number.load(Ordering::Relaxed), &(*place).next_free);
        }
        !place.is_null()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn each_thread_has_its_own_value_and_the_place_of_one_that_has_ended_is_used_again() {
        static KEY: OwnKey<Cell<u32>> = OwnKey::new(|| Cell::new(7));
        let address = |expected: u32| {
            let value = KEY.value().unwrap();
            assert_eq!(value.replace(expected + 1), expected);
            ptr::from_ref(value).addr()
        };
        let own = address(7);
        let in_thread = || std::thread::spawn(move || address(7)).join().unwrap();
        let others = [in_thread(), in_thread()];
        assert_eq!((own, others[0]), (address(8), others[1]));
        assert_ne!(own, others[0]);
    }
}
