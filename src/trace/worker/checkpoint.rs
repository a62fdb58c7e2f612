//! Checkpoints: what a watcher needs to continue a recording whose process has ended.
//!
//! A checkpoint says how long the trace file was after a write, and which events of each thread it had. There
//! are two: the worker writes the one that is not active, and then makes it active. So the active one is
//! complete whenever the process ends. Until then, the buffers with events after it are not given to other
//! threads.
//!
//! ```text
//! file     | packets up to the checkpoint | packets after it: cut off, and written again
//! thread   | events in the file           | events up to its commit cursor: written by the watcher
//! ```
#![expect(unsafe_code, reason = "memory that a watcher shares")]

use super::threads::Progress;
use super::timeline::{Timeline, Trailer};
use crate::platform::chunk_table::Zeroed;
use crate::platform::os::executed::Executed;
use crate::trace::write::registry::MAX_THREADS;
use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU32, Ordering};

/// The most event providers of a recording.
const PROVIDERS: usize = 8;

/// What the worker and the watcher share, apart from logs, slots and buffers. Zeroed memory is valid.
#[repr(C)]
pub(crate) struct Checkpoints {
    /// The number of the active checkpoint, from 1; 0 for none.
    active: AtomicU32,
    /// See [`Stage`].
    stage: AtomicU32,
    pub(crate) executed: Executed,
    both: [UnsafeCell<Memory>; 2],
}

// SAFETY: only the session writes to a checkpoint, while it is not active; one that is active is only read,
// but for atomics.
unsafe impl Sync for Checkpoints {}
// SAFETY: zeros are valid for all of a checkpoint, and for entries that are not written.
unsafe impl Zeroed for Checkpoints {}

/// How far the end of the recording has come in the process itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Stage {
    Running = 0,
    /// The trace has its end; there is no report yet.
    Traced = 1,
    /// Nothing is left to do.
    Ended = 2,
}

/// One checkpoint in memory.
struct Memory {
    checkpoint: Checkpoint,
    /// The number of entries that are valid, from the first on.
    threads: usize,
    entries: [MaybeUninit<Entry>; MAX_THREADS],
}

/// A thread whose stream is open.
struct Entry {
    slot: u32,
    /// Whether the slot was given back since the checkpoint: another thread may have it.
    freed: AtomicU32,
    /// NOTE: buffers and slots are at the same addresses in the watcher.
    progress: Progress,
}

/// What a watcher needs to know beside the threads.
#[derive(Clone, Copy)]
pub(super) struct Checkpoint {
    /// Bytes of the file.
    pub(super) written: u64,
    pub(super) timeline: Timeline,
    /// The id of the process.
    pub(super) process: u32,
    pub(super) announced: Announced,
    /// The first stream that no thread has had.
    pub(super) fresh_stream: u16,
    /// Events that were lost and reported.
    pub(super) lost: u64,
    pub(super) trailer: Trailer,
}

/// What the announcer of a recording has announced.
#[derive(Clone, Copy)]
pub(super) struct Announced {
    /// How many types of the program.
    pub(super) types: usize,
    /// By provider: see [`EventProvider::position`](super::EventProvider::position).
    pub(super) positions: [u64; PROVIDERS],
}

impl Checkpoints {
    /// Notes how far the end of the recording has come.
    pub(crate) fn set_stage(&self, stage: Stage) {
        self.stage.store(stage as u32, Ordering::Release);
    }

    /// How far the end of the recording has come.
    pub(crate) fn stage(&self) -> Stage {
        match self.stage.load(Ordering::Acquire) {
            0 => Stage::Running,
            1 => Stage::Traced,
            _ => Stage::Ended,
        }
    }

    /// Makes a new checkpoint active.
    pub(super) fn write(
        &self,
        checkpoint: Checkpoint,
        threads: impl Iterator<Item = (u32, Progress)>,
    ) {
        let next = if self.active.load(Ordering::Relaxed) == 1 { 1 } else { 0 };
        let Some(memory) = self.both.get(next) else { return };
        // SAFETY: it is not active, so nothing else uses it.
        let memory = unsafe { &mut *memory.get() };
        (memory.checkpoint, memory.threads) = (checkpoint, 0);
        for (entry, (slot, progress)) in memory.entries.iter_mut().zip(threads) {
            entry.write(Entry { slot, freed: AtomicU32::new(0), progress });
            memory.threads += 1;
        }
        self.active.store(next as u32 + 1, Ordering::Release);
    }

    /// Makes no checkpoint active: the file is not written any more.
    pub(super) fn clear(&self) {
        self.active.store(0, Ordering::Release);
    }

    /// Notes that the slot is given back, before it is.
    pub(super) fn note_freed(&self, slot: u32) {
        if let Some((_, mut entries)) = self.active()
            && let Some(entry) = entries.find(|entry| entry.slot == slot)
        {
            entry.freed.store(1, Ordering::Release);
        }
    }

    fn active(&self) -> Option<(Checkpoint, impl Iterator<Item = &Entry>)> {
        let active = self.active.load(Ordering::Acquire).checked_sub(1)?;
        // SAFETY: it is active, so nothing writes to it, and it has the entries that it counts.
        let memory = unsafe { &*self.both.get(active as usize)?.get() };
        let entries = memory.entries.iter().take(memory.threads);
        // SAFETY: as above.
        Some((memory.checkpoint, entries.map(|entry| unsafe { entry.assume_init_ref() })))
    }

    /// The active checkpoint, and the threads with the numbers of their slots. Without the slots that were
    /// given back: all their events were in the file.
    pub(super) fn read(&self) -> Option<(Checkpoint, Vec<(u32, Progress)>)> {
        let (checkpoint, entries) = self.active()?;
        let entries = entries.filter(|entry| entry.freed.load(Ordering::Acquire) == 0);
        Some((checkpoint, entries.map(|entry| (entry.slot, entry.progress)).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::worker::buffer_cursor::ResumePoint;
    use crate::trace::write::buffer;

    fn checkpoints() -> &'static Checkpoints {
        let pages = crate::platform::os::map(size_of::<Checkpoints>()).unwrap();
        // SAFETY: pages that are zeroed, and never unmapped.
        unsafe { pages.cast().as_ref() }
    }

    fn checkpoint(written: u64) -> Checkpoint {
        Checkpoint {
            written,
            timeline: Timeline::new(false),
            process: 4,
            announced: Announced { types: 0, positions: [written + 1; PROVIDERS] },
            fresh_stream: 5,
            lost: 6,
            trailer: Trailer { overhead_bytes: 7, scope_misuses: 8, failed_allocations: 9 },
        }
    }

    fn progress(stream: u16, drained: Option<ResumePoint>) -> Progress {
        Progress { stream, depth: 2, thread: u32::from(stream) + 100, drained }
    }

    #[test]
    fn the_last_whole_checkpoint_is_read() {
        let checkpoints = checkpoints();
        assert!(checkpoints.read().is_none());
        let buffer = buffer::take(buffer::SMALL).unwrap();
        let drained = Some(ResumePoint { buffer, offset: 77, epoch: 1 << 40 });
        for written in 1..6 {
            let threads = [(3, progress(7, None)), (9, progress(8, drained))];
            checkpoints.write(checkpoint(written), threads.into_iter());
            let (read, threads) = checkpoints.read().unwrap();
            assert_eq!((read.written, read.announced.positions[7]), (written, written + 1));
            assert_eq!((read.fresh_stream, read.trailer.failed_allocations), (5, 9));
            let expected = [(3, 7, 2, 107, None), (9, 8, 2, 108, Some((buffer, 77, 1 << 40)))];
            let parts = |(slot, of): (u32, Progress)| {
                let drained = of.drained.map(|at| (at.buffer, at.offset, at.epoch));
                (slot, of.stream, of.depth, of.thread, drained)
            };
            assert_eq!(threads.into_iter().map(parts).collect::<Vec<_>>(), expected);
        }
        // One that is being written does not count.
        let active = checkpoints.active.load(Ordering::Relaxed) as usize - 1;
        // SAFETY: no other thread has these checkpoints.
        unsafe { (*checkpoints.both[1 - active].get()).checkpoint.written = 1_000 };
        assert_eq!(checkpoints.read().unwrap().0.written, 5);
        checkpoints.clear();
        assert!(checkpoints.read().is_none());
        buffer::give_back(buffer);
    }

    #[test]
    fn a_slot_that_was_given_back_is_of_another_thread() {
        let checkpoints = checkpoints();
        let threads = [(3, progress(7, None)), (9, progress(8, None))];
        checkpoints.write(checkpoint(1), threads.into_iter());
        checkpoints.note_freed(3);
        checkpoints.note_freed(4);
        let slots = |(_, threads): (Checkpoint, Vec<(u32, Progress)>)| {
            threads.into_iter().map(|(slot, _)| slot).collect::<Vec<_>>()
        };
        assert_eq!(slots(checkpoints.read().unwrap()), [9]);
        checkpoints.write(checkpoint(1), threads.into_iter());
        assert_eq!(slots(checkpoints.read().unwrap()), [3, 9]);
    }
}
