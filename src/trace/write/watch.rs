//! The memory that a watcher shares: logs of what is added to tables, the slots of all threads, their
//! buffers, and what else the watcher needs.
#![expect(unsafe_code, reason = "gives the tables shared memory")]

use super::{buffer, registry, state};
use crate::platform::chunk_table::Zeroed;
use crate::platform::os;
use crate::platform::whole_pages::LARGEST_PAGE;
use std::fs::File;
use std::io;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// The limit of all buffers together that the shared memory has room for, in bytes; 0 if nothing is shared.
static LIMIT: AtomicUsize = AtomicUsize::new(0);
/// Where the shared memory starts; null if there is none.
static START: AtomicPtr<Logs> = AtomicPtr::new(ptr::null_mut());

/// What is added to tables while a watcher shares memory with this process. Zeroed memory is valid.
#[repr(C)]
pub(crate) struct Logs {
    /// The nodes of the tree of contexts.
    pub(crate) nodes: Log<5, NODES>,
    names_end: AtomicU32,
    names: [AtomicU8; 32 << 20],
    /// The types that the program logs.
    pub(crate) types: Log<1, TYPES>,
    /// The stacks of the last cycle. If more are added in it, the older ones have no frames in the trace.
    pub(crate) stacks: Log<STACK_WORDS, 2048>,
}

pub(crate) const NODES: usize = 1 << 18;
pub(crate) const TYPES: usize = 1 << 12;
pub(crate) const STACK_WORDS: usize = 1 << 8;

/// `WORDS` words for each number, the last `N` of them. A mark is stored last, so what it says is there,
/// whenever the process is killed.
#[repr(C)]
pub(crate) struct Log<const WORDS: usize, const N: usize> {
    /// By place, the remainder of a number by `N`: 0 for none, 2 (number + 1) while it is being written, and
    /// 1 more afterwards.
    marks: [AtomicU32; N],
    words: [[AtomicU64; WORDS]; N],
}

/// Shares logs, slots and buffers with the children of this process that are forked from now on; returns
/// further shared memory, which begins as zeros.
///
/// # Errors
/// Those of the system. What is shared by then does no harm.
///
/// # Safety
/// No other thread of this process runs code of the tracker meanwhile, and each call has the same type.
pub(crate) unsafe fn share<T: Zeroed>(limit: usize) -> io::Result<&'static T> {
    let logs = size_of::<Logs>().next_multiple_of(align_of::<T>());
    if let Some(shared) = NonNull::new(START.load(Ordering::Acquire)) {
        // An earlier recording was watched. This one numbers its stacks anew.
        // SAFETY: as below.
        let (shared, more) = unsafe { (shared.as_ref(), shared.byte_add(logs).cast().as_ref()) };
        shared.stacks.clear();
        return Ok(more);
    }
    if os::page_bytes() > LARGEST_PAGE {
        return Err(io::Error::other("the system has larger pages than the tracker is built for"));
    }
    os::forget_shared();
    let start = os::map_shared(logs + size_of::<T>())?;
    // SAFETY: both are within the mapping, which is zeroed and is never unmapped, and the caller makes the
    // same promise.
    let more = unsafe {
        registry::share()?;
        buffer::share(limit)?;
        state::set_watched()?;
        start.add(logs).cast().as_ref()
    };
    LIMIT.store(limit, Ordering::Release);
    START.store(start.as_ptr().cast(), Ordering::Release);
    Ok(more)
}

/// The limit of buffers: `limit`, or that of the shared memory if it is smaller.
pub(super) fn clamp_to_shared(limit: usize) -> usize {
    match LIMIT.load(Ordering::Acquire) {
        0 => limit,
        shared => limit.min(shared),
    }
}

/// In the child of a fork: the memory that the parent shares with its watcher becomes memory of the child,
/// which is zeroed. Slots and buffers are then as if they had never been used.
pub(crate) fn unshare_in_child() {
    if !START.swap(ptr::null_mut(), Ordering::AcqRel).is_null() {
        os::unshare_all();
        buffer::begin_anew();
        state::set_unwatched();
    }
}

/// In the child of a fork, after [`unshare_in_child`]: shares that memory again, which is zeroed, with a
/// watcher of the child. Returns the file that the watcher maps.
///
/// # Errors
/// Those of the system.
pub(crate) fn share_in_child() -> io::Result<File> {
    let (start, file) = os::share_again()?;
    START.store(start.as_ptr().cast(), Ordering::Release);
    state::set_watched_again();
    Ok(file)
}

/// The logs, in a watcher.
pub(crate) fn logs() -> Option<&'static Logs> {
    // SAFETY: `share` has stored the start of such memory, which is never unmapped.
    unsafe { START.load(Ordering::Acquire).as_ref() }
}

/// *Hook.* The logs, if there is a watcher. NOTE: the child of a fork has other tables.
pub(crate) fn watched_logs() -> Option<&'static Logs> {
    if state::is_watched() { logs() } else { None }
}

impl Logs {
    /// The address of a copy of a name, and its size; `(other)` if there is no room.
    ///
    /// NOTE: the watcher may not have the memory of a name: of the allocator, or of a library that was loaded
    /// later.
    pub(crate) fn copy(&self, name: &str) -> [u64; 2] {
        let room = |end: u32| self.names.get(end as usize..end as usize + name.len());
        let next = |end| Some(end + room(end)?.len() as u32);
        let end = self.names_end.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        let copy = end.ok().and_then(room);
        for (byte, to) in name.bytes().zip(copy.into_iter().flatten()) {
            to.store(byte, Ordering::Relaxed);
        }
        let start = copy.map_or("(other)".as_ptr(), |copy| copy.as_ptr().cast());
        [start.expose_provenance() as u64, copy.map_or("(other)".len(), <[_]>::len) as u64]
    }
}

impl<const WORDS: usize, const N: usize> Log<WORDS, N> {
    fn clear(&self) {
        self.marks.iter().for_each(|mark| mark.store(0, Ordering::Relaxed));
    }

    /// *Hook.* Adds the words of a number, before anything refers to that; not where those of another one are
    /// being written.
    ///
    /// NOTE: two threads can add the same number, with the same words. Neither returns before they are there.
    #[cold]
    pub(crate) fn add(&self, number: u32, words: impl IntoIterator<Item = u64>) {
        let place = number as usize % N;
        let (Some(mark), Some(to)) = (self.marks.get(place), self.words.get(place)) else { return };
        let (writing, written) = (2 * (number + 1), 2 * (number + 1) + 1);
        let claimed = mark.fetch_update(Ordering::AcqRel, Ordering::Relaxed, |now| {
            let is_free = now == 0 || now == writing || now % 2 == 1 && now != written;
            is_free.then_some(writing)
        });
        if claimed.is_ok() {
            to.iter().zip(words).for_each(|(to, word)| to.store(word, Ordering::Relaxed));
            mark.store(written, Ordering::Release);
        }
    }

    /// In a watcher: visits what the process has left, by place.
    pub(crate) fn visit(&self, mut visit: impl FnMut(u32, [u64; WORDS])) {
        for (mark, words) in self.marks.iter().zip(&self.words) {
            let mark = mark.load(Ordering::Acquire);
            if mark % 2 == 1 {
                visit(mark / 2 - 1, words.each_ref().map(|word| word.load(Ordering::Relaxed)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_has_the_last_words_of_each_place_that_are_written() {
        let pages = os::map(size_of::<Log<2, 4>>()).unwrap();
        // SAFETY: zeroed pages, which are never unmapped.
        let log: &Log<2, 4> = unsafe { pages.cast().as_ref() };
        let all = || {
            let mut all = Vec::new();
            log.visit(|number, words| all.push((number, words)));
            all
        };
        (0..7).for_each(|number| log.add(number, [number.into(), 9]));
        assert_eq!(all(), [(4, [4, 9]), (5, [5, 9]), (6, [6, 9]), (3, [3, 9])]);
        // A thread was killed, or is, while it writes the words of 9.
        log.marks[1].store(20, Ordering::Relaxed);
        log.add(13, [13, 9]);
        assert_eq!(all(), [(4, [4, 9]), (6, [6, 9]), (3, [3, 9])]);
        log.add(9, [9, 9]);
        assert_eq!(all(), [(4, [4, 9]), (9, [9, 9]), (6, [6, 9]), (3, [3, 9])]);
    }
}
