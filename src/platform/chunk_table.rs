//! A table that grows by chunks of mapped pages. It has no locks, so that the hook can use it.
#![expect(unsafe_code, reason = "entries are raw memory")]

use super::os;
use std::io;
use std::marker::PhantomData;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// At most `CHUNKS` chunks of `PER_CHUNK` entries. Entries are numbered from 0. Chunks are never
/// unmapped, so an entry can be read at any time, even after its owner has ended.
pub(crate) struct ChunkTable<T, const PER_CHUNK: usize, const CHUNKS: usize> {
    chunks: [AtomicPtr<u8>; CHUNKS],
    /// The number of entries that [`add`](Self::add) has returned.
    added: AtomicU32,
    /// There are no chunks from this number on.
    most: AtomicU32,
    entry: PhantomData<fn() -> T>,
}

/// A type that can be an entry of a [`ChunkTable`].
///
/// # Safety
/// Zeroed memory is a valid value, and several threads may read and write it through `&Self`.
pub(crate) unsafe trait Zeroed: Sync + 'static {}

impl<T: Zeroed, const PER_CHUNK: usize, const CHUNKS: usize> ChunkTable<T, PER_CHUNK, CHUNKS> {
    const CHUNK_BYTES: usize = PER_CHUNK * size_of::<T>();

    pub(crate) const fn new() -> Self {
        const { assert!(align_of::<T>() <= os::SMALLEST_PAGE && CHUNKS * PER_CHUNK < u32::MAX as usize) };
        Self {
            chunks: [const { AtomicPtr::new(ptr::null_mut()) }; CHUNKS],
            added: AtomicU32::new(0),
            most: AtomicU32::new(CHUNKS as u32),
            entry: PhantomData,
        }
    }

    /// A pointer to the entry, if its chunk is mapped. The pointer may be used for all bytes of the
    /// chunk.
    pub(crate) fn pointer(&self, number: u32) -> Option<NonNull<T>> {
        let chunk = self.chunks.get(number as usize / PER_CHUNK)?.load(Ordering::Acquire);
        let first = NonNull::new(chunk)?.cast::<T>();
        // SAFETY: the chunk has `PER_CHUNK` entries.
        Some(unsafe { first.add(number as usize % PER_CHUNK) })
    }

    /// The entry, if its chunk is mapped.
    pub(crate) fn get(&self, number: u32) -> Option<&'static T> {
        // SAFETY: the chunk stays mapped, and `T` is valid when zeroed.
        self.pointer(number).map(|entry| unsafe { entry.as_ref() })
    }

    /// The number of a new entry, whose bytes are all 0. `None` if the table is full or the system
    /// has no memory.
    pub(crate) fn add(&self) -> Option<u32> {
        let mut number = self.added.load(Ordering::Acquire);
        loop {
            let chunk = number as usize / PER_CHUNK;
            if chunk >= self.most.load(Ordering::Relaxed) as usize {
                return None;
            }
            self.map_chunk(self.chunks.get(chunk)?)?;
            // NOTE: the entry is counted after its chunk is mapped, so a failure to map loses no
            // number.
            match self.added.compare_exchange_weak(
                number,
                number + 1,
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => return Some(number),
                Err(now) => number = now,
            }
        }
    }

    /// Maps the chunks of the first `entries` entries.
    #[cfg(c_filter)]
    pub(crate) fn map_ahead(&self, entries: u32) {
        let chunks = self.chunks.iter().take((entries as usize).div_ceil(PER_CHUNK));
        chunks.for_each(|chunk| _ = self.map_chunk(chunk));
    }

    fn map_chunk(&self, chunk: &AtomicPtr<u8>) -> Option<()> {
        if !chunk.load(Ordering::Acquire).is_null() {
            return Some(());
        }
        let pages = os::map(Self::CHUNK_BYTES)?;
        let stored = chunk.compare_exchange(
            ptr::null_mut(),
            pages.as_ptr(),
            Ordering::AcqRel,
            Ordering::Relaxed,
        );
        if stored.is_err() {
            os::unmap(pages, Self::CHUNK_BYTES);
        }
        Some(())
    }

    /// The number of entries so far.
    pub(crate) fn len(&self) -> u32 {
        self.added.load(Ordering::Acquire)
    }

    pub(crate) fn mapped_bytes(&self) -> u64 {
        (self.len() as usize).div_ceil(PER_CHUNK) as u64 * Self::CHUNK_BYTES as u64
    }

    /// From now on, the table has at most `chunks` chunks, in memory that is shared; those that it has
    /// already are made shared where they are.
    ///
    /// # Errors
    /// Those of the system.
    ///
    /// # Safety
    /// No other thread uses the table meanwhile.
    pub(crate) unsafe fn share(&self, chunks: usize) -> io::Result<()> {
        let memory = os::map_shared(Self::CHUNK_BYTES * chunks)?;
        for (number, chunk) in self.chunks.iter().enumerate().take(chunks) {
            match NonNull::new(chunk.load(Ordering::Acquire)) {
                // SAFETY: chunks are whole pages of the tracker, and no other thread uses them now.
                Some(pages) => unsafe { os::share_in_place(pages, Self::CHUNK_BYTES)? },
                None => {
                    let pages = memory.as_ptr().wrapping_add(number * Self::CHUNK_BYTES);
                    chunk.store(pages, Ordering::Release);
                }
            }
        }
        self.most.store(chunks.min(CHUNKS) as u32, Ordering::Relaxed);
        Ok(())
    }

    /// Adds all entries that fit, in a watcher: the process that added them has ended.
    pub(crate) fn take_all(&self) {
        let most = self.most.load(Ordering::Relaxed);
        self.added.store(most * PER_CHUNK as u32, Ordering::Release);
    }

    /// Removes all entries and zeroes their memory. Requires that no other thread uses the table.
    pub(crate) fn begin_anew(&self) {
        self.added.store(0, Ordering::Relaxed);
    }

    /// Skips the unused entries of the last chunk, so that the next entry is in a new chunk.
    /// Requires that no other thread uses the table, as in the child of a fork.
    pub(crate) fn skip_chunk(&self) {
        let next = self.added.load(Ordering::Relaxed).next_multiple_of(PER_CHUNK as u32);
        self.added.store(next, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    // SAFETY: zero is a valid number.
    unsafe impl Zeroed for AtomicU32 {}

    #[test]
    fn each_number_is_returned_once_and_its_entry_stays() {
        static TABLE: ChunkTable<AtomicU32, 1024, 3> = ChunkTable::new();
        assert!(TABLE.get(0).is_none());
        let add_all = || {
            let mut numbers = Vec::new();
            while let Some(number) = TABLE.add() {
                assert_eq!(TABLE.get(number).unwrap().swap(number + 1, Ordering::Relaxed), 0);
                numbers.push(number);
            }
            numbers
        };
        let numbers = std::thread::scope(|scope| {
            let threads = [(); 4].map(|()| scope.spawn(add_all));
            threads.map(|thread| thread.join().unwrap()).concat()
        });
        assert_eq!(numbers.len(), 3 * 1024);
        assert_eq!(numbers.iter().collect::<HashSet<_>>().len(), numbers.len());
        for number in 0..3 * 1024 {
            assert_eq!(TABLE.get(number).unwrap().load(Ordering::Relaxed), number + 1);
        }
        assert!(TABLE.get(3 * 1024).is_none());
        assert_eq!(TABLE.mapped_bytes(), 3 * 4096);
    }

    #[test]
    fn a_skipped_chunk_has_no_more_entries() {
        static TABLE: ChunkTable<AtomicU32, 1024, 2> = ChunkTable::new();
        assert_eq!(TABLE.add(), Some(0));
        TABLE.skip_chunk();
        assert_eq!(TABLE.add(), Some(1024));
    }
}
