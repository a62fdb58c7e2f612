//! The memory that a watcher shares: the slots of all threads, their buffers, and what else the watcher needs.
#![expect(unsafe_code, reason = "gives the tables shared memory")]

use super::{buffer, registry, state};
use crate::platform::os;
use std::fs::File;
use std::io;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// The limit of all buffers together that the shared memory has room for, in bytes; 0 if nothing is shared.
static LIMIT: AtomicUsize = AtomicUsize::new(0);
/// Where the shared memory starts; null if there is none.
static START: AtomicPtr<u8> = AtomicPtr::new(ptr::null_mut());

/// Shares the slots and the buffers with the children of this process that are forked from now on; returns the start of
/// `more` bytes of zeroed memory that is shared, too.
///
/// # Errors
/// Those of the system. What is shared by then does no harm.
///
/// # Safety
/// No other thread of this process runs code of the tracker meanwhile.
pub(crate) unsafe fn share(more: usize, limit: usize) -> io::Result<NonNull<u8>> {
    let shared = START.load(Ordering::Acquire);
    if let Some(start) = NonNull::new(shared) {
        // An earlier recording was watched.
        return Ok(start);
    }
    if !os::has_usual_pages() {
        return Err(io::Error::other("the system has pages of another size than 4 KiB"));
    }
    os::forget_shared();
    let more = more.next_multiple_of(4096);
    let buffers = buffer::bytes_to_share(limit);
    let start = os::map_shared(more + registry::BYTES_TO_SHARE + buffers)?;
    // SAFETY: the parts are within the mapping, and the caller makes the same promise.
    unsafe {
        registry::share(start.add(more))?;
        buffer::share(start.add(more + registry::BYTES_TO_SHARE), limit)?;
        state::set_watched()?;
    }
    LIMIT.store(limit, Ordering::Release);
    START.store(start.as_ptr(), Ordering::Release);
    Ok(start)
}

/// The limit of buffers that is allowed instead of `limit`.
pub(super) fn most(limit: usize) -> usize {
    match LIMIT.load(Ordering::Acquire) {
        0 => limit,
        most => limit.min(most),
    }
}

/// In the child of a fork: the memory that the parent shares with its watcher becomes memory of the child, which is zeroed. Slots
/// and buffers are then as if they had never been used.
pub(crate) fn unshare_in_child() {
    if !START.swap(ptr::null_mut(), Ordering::AcqRel).is_null() {
        os::unshare_all();
        buffer::begin_anew();
        state::set_unwatched();
    }
}

/// In the child of a fork, after [`unshare_in_child`]: shares that memory again, with a watcher of the child. Where what [`share`] has
/// returned is, which is zeroed, and the file that the watcher maps.
///
/// # Errors
/// Those of the system.
pub(crate) fn share_in_child() -> io::Result<(NonNull<u8>, File)> {
    let (start, file) = os::share_again()?;
    START.store(start.as_ptr(), Ordering::Release);
    state::set_watched_again();
    Ok((start, file))
}
