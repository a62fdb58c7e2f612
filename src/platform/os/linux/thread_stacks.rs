//! Where the stacks of threads are: of those that live, and of those that have ended, which the C library
//! keeps for later threads.
#![expect(unsafe_code, reason = "system calls")]

use super::page_bytes;
#[cfg(c_mmap)]
use super::{is_filtered, thread_id};
use std::fs;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// At most this many stacks are remembered. Without an entry, the stack of a living thread is still found.
const MAX_STACKS: usize = 1 << 14;

static STACKS: [Entry; MAX_STACKS] = [const { Entry::new() }; MAX_STACKS];

struct Entry {
    /// Where it ends, which is also where it is taken from the table; 0 if the entry is free.
    end: AtomicU64,
    bytes: AtomicU64,
    /// The last thread that had it.
    thread: AtomicU32,
}

impl Entry {
    const fn new() -> Self {
        Self { end: AtomicU64::new(0), bytes: AtomicU64::new(0), thread: AtomicU32::new(0) }
    }
}

/// The stack of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ThreadStack {
    pub(super) end: u64,
    /// It has no more than this.
    pub(super) bytes: u64,
    pub(super) is_ended: bool,
}

impl ThreadStack {
    pub(super) fn start(&self) -> u64 {
        self.end.saturating_sub(self.bytes)
    }
}

/// The first page after an address in a thread's descriptor, which is at the end of its stack (glibc's
/// `allocate_stack`).
fn end_after(descriptor: u64) -> u64 {
    (descriptor + 1).next_multiple_of(page_bytes() as u64)
}

/// Remembers the stack of this new thread, which has as many bytes; 0 if the program has given it the memory.
#[cfg(c_mmap)]
pub(super) fn remember_stack(bytes: usize) {
    // A new thread may not ask for its number then.
    if is_filtered() {
        return;
    }
    // The C library maps whole pages.
    let bytes = bytes.next_multiple_of(page_bytes());
    // SAFETY: always allowed.
    let end = end_after(unsafe { libc::pthread_self() } as u64);
    // Stacks are a power of two apart, or nearly so.
    let hash = (end / page_bytes() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let first = (hash >> 32) as usize;
    for at in 0..MAX_STACKS {
        let entry = &STACKS[(first + at) % MAX_STACKS];
        let found = entry.end.compare_exchange(0, end, Ordering::AcqRel, Ordering::Acquire);
        if found.is_ok() || found == Err(end) {
            // A smaller one may have got a larger one that was kept.
            entry.bytes.fetch_max(bytes as u64, Ordering::Relaxed);
            entry.thread.store(thread_id(), Ordering::Release);
            return;
        }
    }
}

/// The stacks of all threads but the first, in the order of their ends.
pub(super) fn thread_stacks() -> Vec<ThreadStack> {
    let own = std::process::id();
    let threads = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let ids = threads.filter_map(|thread| thread.file_name().to_str()?.parse::<u32>().ok());
    let mut living: Vec<_> = ids.filter(|id| *id != own).collect();
    living.sort_unstable();
    let mut stacks = Vec::new();
    let mut known = Vec::new();
    for entry in &STACKS {
        let (end, thread) =
            (entry.end.load(Ordering::Acquire), entry.thread.load(Ordering::Acquire));
        if end != 0 {
            let is_ended = living.binary_search(&thread).is_err();
            let bytes = entry.bytes.load(Ordering::Relaxed);
            stacks.push(ThreadStack { end, bytes, is_ended });
            known.push(thread);
        }
    }
    known.sort_unstable();
    living.retain(|id| known.binary_search(id).is_err());
    // A stack goes down to the start of its mapping, because an inaccessible page is below it.
    let others = living.into_iter().filter_map(stack_end);
    stacks.extend(others.map(|end| ThreadStack { end, bytes: u64::MAX, is_ended: false }));
    // Of two at one place, the living one counts.
    stacks.sort_unstable_by_key(|stack| (stack.end, stack.is_ended));
    stacks.dedup_by_key(|stack| stack.end);
    stacks
}

/// Where the stack of a thread ends that was made without `pthread_create`, or by the tracker. Its list of
/// robust mutexes is in its descriptor. A thread of a C library that registers no such list is not found.
fn stack_end(id: u32) -> Option<u64> {
    let (mut head, mut size) = (0_u64, 0_usize);
    // SAFETY: both are valid for writing.
    let failed =
        unsafe { libc::syscall(libc::SYS_get_robust_list, id, &raw mut head, &raw mut size) != 0 };
    (!failed && head != 0).then(|| end_after(head))
}

#[cfg(all(test, c_mmap))]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn a_stack_is_remembered_after_its_thread() {
        let (began, wait_for_begin) = mpsc::channel();
        let (end, wait_for_end) = mpsc::channel::<()>();
        let thread = std::thread::Builder::new().stack_size(64 << 10).spawn(move || {
            remember_stack((64 << 10) - 100);
            // One that was kept for a thread of a smaller one.
            remember_stack(32 << 10);
            began.send((&raw const wait_for_end).addr() as u64).unwrap();
            wait_for_end.recv().unwrap_err();
        });
        let inside = wait_for_begin.recv().unwrap();
        let stack = || {
            let stacks = thread_stacks();
            assert!(stacks.is_sorted_by(|a, b| a.end < b.end));
            stacks.into_iter().find(|stack| (stack.start()..stack.end).contains(&inside)).unwrap()
        };
        let living = stack();
        assert_eq!((living.bytes, living.is_ended), (64 << 10, false));
        drop(end);
        thread.unwrap().join().unwrap();
        assert_eq!(stack(), ThreadStack { is_ended: true, ..living });
    }

    #[test]
    fn threads_that_nobody_remembers_are_found_while_they_live() {
        std::thread::spawn(|| {
            let stacks = thread_stacks();
            let inside = (&raw const stacks).addr() as u64;
            let own = stacks.iter().find(|stack| stack.end > inside);
            assert!(own.is_some_and(|own| !own.is_ended && own.bytes == u64::MAX), "{stacks:?}");
        })
        .join()
        .unwrap();
    }
}
