//! The thread-local values that the hook uses.
//!
//! NOTE: not std's. On the target `x86_64-pc-windows-gnu` its values are boxes, which the first use takes
//! from the global allocator: that of the hook.
//!
//! Here a value is in pages of the tracker, and its address in one of the slots that the system keeps for
//! each thread. The first 64 slots are in the thread's own block (the "TEB", `TlsSlots` of `winternl.h`), so
//! to find a value takes a few instructions.

use super::KeepErrno;
use crate::platform::chunk_table::{ChunkTable, Zeroed};
use crate::platform::free_stack::FreeStack;
use std::cell::UnsafeCell;
use std::mem::{MaybeUninit, needs_drop};
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use windows_sys::Win32::System::Threading::{
    TLS_OUT_OF_INDEXES, TlsAlloc, TlsFree, TlsGetValue, TlsSetValue,
};

/// Values of one kind; as many threads can record at once (`registry::MAX_THREADS`).
const PER_CHUNK: usize = 64;
const CHUNKS: usize = 256;

/// No slot has been taken.
const NONE: u32 = u32::MAX;

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
        let place = in_block(self.slot.load(Ordering::Relaxed));
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
            let mut place = TlsGetValue(slot).cast::<Place<T>>().cast_const();
            if place.is_null() {
                let free = self.free.pop(|number| Some(&self.places.get(number)?.next_free));
                let number = free.or_else(|| self.places.add())?;
                let new = self.places.get(number)?;
                new.number.store(number, Ordering::Relaxed);
                (*new.value.get()).write((self.make)());
                if TlsSetValue(slot, ptr::from_ref(new).cast()) == 0 {
                    self.free.push(number, &new.next_free);
                    return None;
                }
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
        // SAFETY: takes and gives back a number.
        let new = unsafe { TlsAlloc() };
        if new == TLS_OUT_OF_INDEXES {
            return None;
        }
        match self.slot.compare_exchange(NONE, new, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => {
                note(ptr::from_ref(self).cast(), look::<T>);
                Some(new)
            }
            Err(slot) => {
                // SAFETY: as above; another thread was faster, and nothing uses this slot.
                unsafe { TlsFree(new) };
                Some(slot)
            }
        }
    }
}

/// The address in a slot, if it is one of the first 64 and has one.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn in_block(slot: u32) -> *const u8 {
    /// Where a thread's block has its slots, and how many.
    const SLOTS: usize = 0x1480;
    const COUNT: u32 = 64;
    if slot >= COUNT {
        return ptr::null();
    }
    let found: *const u8;
    // SAFETY: reads a word of the block that every thread has.
    unsafe {
        std::arch::asm!("mov {}, gs:[{} + 8 * {}]", out(reg) found, const SLOTS, in(reg) u64::from(slot),
            options(pure, readonly, nostack, preserves_flags));
    }
    found
}

/// Elsewhere the system's function is asked each time.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn in_block(_slot: u32) -> *const u8 {
    ptr::null()
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
        let place = TlsGetValue(slot).cast::<Place<T>>();
        if take && !place.is_null() {
            TlsSetValue(slot, ptr::null());
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
