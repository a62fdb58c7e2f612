//! Checkpoints: what a watcher needs to continue a recording whose process has ended.
//!
//! A checkpoint says how long the trace file was after a write, and which events of each thread it had. There are two: the worker
//! writes the one that is not active, and then makes it active. So the active one is whole whenever the process ends. Until then,
//! the buffers with events after it are not given to other threads.
//!
//! ```text
//! file     | packets up to the checkpoint | packets after it: cut off, and written again
//! thread   | events in the file           | events up to its commit cursor: written by the watcher
//! ```
#![expect(unsafe_code, reason = "memory that a watcher shares")]

use super::buffer_cursor::ResumePoint;
use super::threads::Progress;
use crate::trace::write::buffer::Buffer;
use crate::trace::write::registry::MAX_THREADS;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// The most event providers of a recording.
const PROVIDERS: usize = 8;

/// What the worker and the watcher share, apart from slots and buffers. Zeroed memory is valid.
#[repr(C)]
pub(crate) struct Checkpoints {
    /// The number of the active checkpoint, from 1; 0 for none.
    active: AtomicU32,
    /// See [`Stage`].
    stage: AtomicU32,
    both: [Memory; 2],
}

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
#[repr(C)]
struct Memory {
    numbers: [AtomicU64; Numbers::COUNT],
    threads: AtomicUsize,
    entries: [Entry; MAX_THREADS],
}

/// A thread whose stream is open.
#[repr(C)]
#[derive(Debug)]
struct Entry {
    slot: AtomicU32,
    stream: AtomicU32,
    depth: AtomicU32,
    thread: AtomicU32,
    /// The slot was given back since the checkpoint: another thread may have it.
    freed: AtomicU32,
    buffer: AtomicUsize,
    offset: AtomicUsize,
    epoch: AtomicU64,
}

/// The numbers of a checkpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Numbers {
    /// Bytes of the file.
    pub(super) written: u64,
    pub(super) next_serial: u64,
    pub(super) settled: u64,
    pub(super) marked: u64,
    pub(super) marked_at: u64,
    /// How many types of the program were announced.
    pub(super) types: u64,
    /// The first stream that no thread has had.
    pub(super) fresh_stream: u64,
    /// Events that were lost and reported.
    pub(super) lost: u64,
    pub(super) overhead_bytes: u64,
    pub(super) scope_misuses: u64,
    pub(super) failed_allocations: u64,
    /// By provider: what it has announced.
    pub(super) positions: [u64; PROVIDERS],
}

impl Numbers {
    const COUNT: usize = 11 + PROVIDERS;

    fn to_words(self) -> [u64; Self::COUNT] {
        let mut words = [0; Self::COUNT];
        let fixed = [
            self.written,
            self.next_serial,
            self.settled,
            self.marked,
            self.marked_at,
            self.types,
            self.fresh_stream,
            self.lost,
            self.overhead_bytes,
            self.scope_misuses,
            self.failed_allocations,
        ];
        for (word, value) in words.iter_mut().zip(fixed.into_iter().chain(self.positions)) {
            *word = value;
        }
        words
    }

    fn from_words(words: [u64; Self::COUNT]) -> Self {
        let [written, next_serial, settled, marked, marked_at, types, rest @ ..] = words;
        let [fresh_stream, lost, overhead_bytes, scope_misuses, failed_allocations, positions @ ..] =
            rest;
        Self {
            written,
            next_serial,
            settled,
            marked,
            marked_at,
            types,
            fresh_stream,
            lost,
            overhead_bytes,
            scope_misuses,
            failed_allocations,
            positions,
        }
    }
}

impl Checkpoints {
    /// Checkpoints in memory that is shared.
    ///
    /// # Safety
    /// The memory is zeroed, has the bytes and the alignment of this type, and is never unmapped.
    pub(crate) unsafe fn at(memory: NonNull<u8>) -> &'static Self {
        // SAFETY: the caller's promise; all bytes are atomics, for which zeros are valid.
        unsafe { memory.cast().as_ref() }
    }

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

    /// Makes a new checkpoint active. With more threads than it has room for, there is none.
    pub(super) fn write(&self, numbers: Numbers, threads: impl Iterator<Item = (u32, Progress)>) {
        let next = if self.active.load(Ordering::Relaxed) == 1 { 1 } else { 0 };
        let Some(memory) = self.both.get(next) else { return };
        for (word, number) in memory.numbers.iter().zip(numbers.to_words()) {
            word.store(number, Ordering::Relaxed);
        }
        let mut count = 0;
        let mut entries = memory.entries.iter();
        for (slot, progress) in threads {
            let Some(entry) = entries.next() else { break };
            entry.store(slot, progress);
            count += 1;
        }
        memory.threads.store(count, Ordering::Relaxed);
        self.active.store(next as u32 + 1, Ordering::Release);
    }

    /// Makes no checkpoint active: the file is not written any more.
    pub(super) fn clear(&self) {
        self.active.store(0, Ordering::Release);
    }

    /// Notes that the slot is given back, before it is.
    pub(super) fn note_freed(&self, slot: u32) {
        let Some(memory) = self.active_memory() else { return };
        let count = memory.threads.load(Ordering::Relaxed);
        let mut entries = memory.entries.iter().take(count);
        if let Some(entry) = entries.find(|entry| entry.slot.load(Ordering::Relaxed) == slot) {
            entry.freed.store(1, Ordering::Release);
        }
    }

    fn active_memory(&self) -> Option<&Memory> {
        self.both.get(self.active.load(Ordering::Acquire).checked_sub(1)? as usize)
    }

    /// The active checkpoint: its numbers, and the threads with the numbers of their slots.
    pub(super) fn read(&self) -> Option<(Numbers, Vec<(u32, Progress)>)> {
        let memory = self.active_memory()?;
        let words = memory.numbers.each_ref().map(|word| word.load(Ordering::Relaxed));
        let entries = memory.entries.iter().take(memory.threads.load(Ordering::Relaxed));
        Some((Numbers::from_words(words), entries.filter_map(Entry::load).collect()))
    }
}

impl Entry {
    fn store(&self, slot: u32, progress: Progress) {
        let (buffer, offset, epoch) =
            progress.drained.map_or((0, 0, 0), |at| (at.buffer.address(), at.offset, at.epoch));
        self.slot.store(slot, Ordering::Relaxed);
        self.stream.store(progress.stream.into(), Ordering::Relaxed);
        self.depth.store(progress.depth, Ordering::Relaxed);
        self.thread.store(progress.thread, Ordering::Relaxed);
        self.freed.store(0, Ordering::Relaxed);
        self.buffer.store(buffer, Ordering::Relaxed);
        self.offset.store(offset, Ordering::Relaxed);
        self.epoch.store(epoch, Ordering::Relaxed);
    }

    /// `None` if the slot was given back: all its events were in the file.
    fn load(&self) -> Option<(u32, Progress)> {
        if self.freed.load(Ordering::Acquire) != 0 {
            return None;
        }
        // SAFETY: the worker has stored the address of a buffer there, whose memory is shared at the same address.
        let buffer = unsafe { Buffer::at(self.buffer.load(Ordering::Relaxed)) };
        let drained = buffer.map(|buffer| ResumePoint {
            buffer,
            offset: self.offset.load(Ordering::Relaxed),
            epoch: self.epoch.load(Ordering::Relaxed),
        });
        let progress = Progress {
            stream: self.stream.load(Ordering::Relaxed) as u16,
            depth: self.depth.load(Ordering::Relaxed),
            thread: self.thread.load(Ordering::Relaxed),
            drained,
        };
        Some((self.slot.load(Ordering::Relaxed), progress))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::write::buffer;

    fn checkpoints() -> &'static Checkpoints {
        let pages = crate::platform::os::map(size_of::<Checkpoints>()).unwrap();
        // SAFETY: pages that are zeroed, and never unmapped.
        unsafe { Checkpoints::at(pages) }
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
            let mut numbers = Numbers { written, next_serial: 5, lost: 6, ..Numbers::default() };
            numbers.positions[PROVIDERS - 1] = written + 1;
            numbers.failed_allocations = 9;
            let threads = [(3, progress(7, None)), (9, progress(8, drained))];
            checkpoints.write(numbers, threads.into_iter());
            let (read, threads) = checkpoints.read().unwrap();
            assert_eq!(read, numbers);
            let expected = [(3, 7, 2, 107, None), (9, 8, 2, 108, Some((buffer, 77, 1 << 40)))];
            let parts = |(slot, of): (u32, Progress)| {
                let drained = of.drained.map(|at| (at.buffer, at.offset, at.epoch));
                (slot, of.stream, of.depth, of.thread, drained)
            };
            assert_eq!(threads.into_iter().map(parts).collect::<Vec<_>>(), expected);
        }
        // One that is being written does not count.
        let next = checkpoints.both.each_ref().map(|memory| &memory.numbers[0]);
        let active = checkpoints.active.load(Ordering::Relaxed) as usize - 1;
        next[1 - active].store(1_000, Ordering::Relaxed);
        assert_eq!(checkpoints.read().unwrap().0.written, 5);
        checkpoints.clear();
        assert!(checkpoints.read().is_none());
        buffer::give_back(buffer);
    }

    #[test]
    fn a_slot_that_was_given_back_is_of_another_thread() {
        let checkpoints = checkpoints();
        let threads = [(3, progress(7, None)), (9, progress(8, None))];
        checkpoints.write(Numbers::default(), threads.into_iter());
        checkpoints.note_freed(3);
        checkpoints.note_freed(4);
        let slots = |(_, threads): (Numbers, Vec<(u32, Progress)>)| {
            threads.into_iter().map(|(slot, _)| slot).collect::<Vec<_>>()
        };
        assert_eq!(slots(checkpoints.read().unwrap()), [9]);
        checkpoints.write(Numbers::default(), threads.into_iter());
        assert_eq!(slots(checkpoints.read().unwrap()), [3, 9]);
    }
}
