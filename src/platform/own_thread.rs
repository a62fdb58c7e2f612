//! The thread-local values that the hook uses.
//!
//! They have no destructor, so a thread can use them at any time in its life.
//!
//! Code of a library asks the loader for the address of such a value (`__tls_get_addr`). If the program has
//! loaded other libraries since, the loader may call `malloc` there. In the library that defines `malloc`
//! (`preload/`), that would need the same value again: an endless recursion. But in a library that is loaded
//! with the program, a value has the same distance from each thread's control block, so it is enough to ask
//! once. Compilers call this the "initial exec" model, which stable Rust cannot ask for. Where the loader
//! gives threads such memory only when they use it (with `LD_AUDIT`), there are no values, so nothing is
//! recorded.
//!
//! On AArch64 a library gets the address by a call of the loader, too (a "TLS descriptor").
//!
//! On systems whose values of this kind are of no use to the hook, they are in slots of the system
//! (`os/own_values.rs`).
#![cfg_attr(not(own_values), expect(unsafe_code, reason = "pointers to thread-local values"))]

#[cfg(own_values)]
pub(crate) use crate::platform::os::own_values::{OwnKey, own_values};
#[cfg(not(own_values))]
pub(crate) use std::thread::LocalKey as OwnKey;
#[cfg(not(own_values))]
pub(crate) use std::thread_local as own_values;

/// *Hook.* The value of this thread.
#[cfg(own_values)]
#[inline(always)]
pub(crate) fn get<T>(key: &'static OwnKey<T>, _place: &ValueOffset) -> Option<&'static T> {
    key.value()
}

/// *Hook.* The value of this thread.
#[cfg(not(own_values))]
#[inline(always)]
pub(crate) fn get<T>(key: &'static OwnKey<T>, place: &ValueOffset) -> Option<&'static T> {
    use std::mem::needs_drop;
    use std::ptr;
    const { assert!(!needs_drop::<T>(), "the value exists as long as its thread") };
    // PERF: the closure is inlined only if it is small, so the rest of the code is outside of it.
    let value = place.find(|| key.try_with(ptr::from_ref).ok())?;
    // SAFETY: the value has no destructor, so it exists as long as its thread. Only this thread uses
    // the reference, unless `T` is `Sync`.
    Some(unsafe { &*value })
}

/// Where a value is, once that is known.
#[cfg(not(by_distance))]
pub(crate) struct ValueOffset;

#[cfg(not(by_distance))]
impl ValueOffset {
    pub(crate) const fn new() -> Self {
        Self
    }

    #[cfg(not(own_values))]
    #[inline(always)]
    fn find<T>(&self, find: impl FnOnce() -> Option<*const T>) -> Option<*const T> {
        find()
    }
}

#[cfg(by_distance)]
pub(crate) use by_distance::ValueOffset;

#[cfg(by_distance)]
mod by_distance {
    use crate::platform::os;
    use std::sync::atomic::{AtomicIsize, Ordering};

    /// The distance from a thread's control block to the value; 0 until it is known.
    pub(crate) struct ValueOffset(AtomicIsize);

    impl ValueOffset {
        pub(crate) const fn new() -> Self {
            Self(AtomicIsize::new(0))
        }

        #[inline(always)]
        pub(super) fn find<T>(&self, find: impl FnOnce() -> Option<*const T>) -> Option<*const T> {
            let distance = self.0.load(Ordering::Relaxed);
            if distance == 0 {
                if !os::has_static_thread_memory() {
                    return None;
                }
                let found = find()?;
                let distance = found.addr().wrapping_sub(os::control_block()) as isize;
                self.0.store(distance, Ordering::Relaxed);
                return Some(found);
            }
            Some(std::ptr::with_exposed_provenance(
                os::control_block().wrapping_add_signed(distance),
            ))
        }
    }
}
