//! The descriptors of registered tracks.
//!
//! NOTE: without a lock. The child of a fork has a lock as it was in its parent, and the thread that held it there does
//! not exist in the child, which would wait for ever. So what is in the table is never freed.
#![expect(unsafe_code, reason = "a table of pointers that are never freed")]

use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// The most tracks that a program can register. One that is registered with another description counts again.
pub(super) const MAX_TRACKS: usize = 1 << 16;
/// At most half of the table is taken, so tracks are found near the place that their uuid gives.
const ENTRIES: usize = 2 * MAX_TRACKS;

struct Registered {
    uuid: u64,
    descriptor: Vec<u8>,
}

static TABLE: [AtomicPtr<Registered>; ENTRIES] =
    [const { AtomicPtr::new(ptr::null_mut()) }; ENTRIES];
/// The descriptors that are kept.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// The entries where the track with this uuid can be, the most probable first.
fn entries(uuid: u64) -> impl Iterator<Item = &'static AtomicPtr<Registered>> {
    // The upper bits of a product depend on all bits of the uuid.
    let first = (uuid.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize % ENTRIES;
    let (before, after) = TABLE.split_at(first);
    after.iter().chain(before)
}

/// Keeps the descriptor of a track in the place of its last one; returns whether there was room for it.
pub(super) fn register(uuid: u64, descriptor: Vec<u8>) -> bool {
    let new = Box::new(Registered { uuid, descriptor });
    if descriptor_of(uuid).is_some_and(|known| known == new.descriptor) {
        return true;
    }
    if COUNT.fetch_add(1, Ordering::Relaxed) >= MAX_TRACKS {
        COUNT.fetch_sub(1, Ordering::Relaxed);
        return false;
    }
    let new = Box::into_raw(new);
    for entry in entries(uuid) {
        let free = ptr::null_mut();
        let Err(known) = entry.compare_exchange(free, new, Ordering::AcqRel, Ordering::Acquire)
        else {
            return true;
        };
        // SAFETY: what is in the table is never freed.
        if unsafe { &*known }.uuid == uuid {
            // NOTE: the one before stays, because another thread can be reading it.
            entry.store(new, Ordering::Release);
            return true;
        }
    }
    unreachable!("half of the table is free")
}

/// The descriptor of a registered track.
pub(super) fn descriptor_of(uuid: u64) -> Option<&'static [u8]> {
    let known = entries(uuid).map(|entry| entry.load(Ordering::Acquire));
    // SAFETY: what is in the table is never freed.
    let mut known = known.map_while(|known| unsafe { known.as_ref() });
    known.find(|known| known.uuid == uuid).map(|known| &*known.descriptor)
}
