//! The table of the pages of addresses with live blocks.
//!
//! An entry takes 16 bytes. Pages with neighbouring numbers have neighbouring entries: a contiguous
//! heap is contiguous in the table, and a program that accesses its memory in order accesses the
//! table in order. On a collision there is one alternative entry, half a table away, and then an
//! overflow area after the table, whose entries a hash map finds.

use super::chunks::SlabRef;
use crate::hash::IntMap;

/// The number of pages in a thread's heap, as a power of two. These heaps begin at multiples of 64
/// MiB.
const HEAP: u32 = 15;
/// The entries of each heap are shifted by this many more places than those of the heap before it.
/// The number is odd.
const HEAP_STRIDE: u64 = 2533;
/// The number of entries of the smallest table.
const MIN_SIZE: usize = 16;

/// The number of a free entry.
const FREE: u64 = u64::MAX;

/// A page with live blocks, or a free entry.
#[derive(Clone, Copy, Debug)]
pub(super) struct Page {
    number: u64,
    slab: u32,
    start: u16,
    /// The lower 12 bits: the number of blocks. The upper 4: the size class of the chunk.
    len: u16,
}

/// The bits of `len` that are the length.
const LEN: u16 = 0xfff;

impl Page {
    const FREE: Self = Self { number: FREE, slab: 0, start: 0, len: 0 };

    fn is_free(&self) -> bool {
        self.number == FREE
    }

    /// The number of its blocks.
    #[inline]
    pub(super) fn len(&self) -> usize {
        usize::from(self.len & LEN)
    }

    #[inline]
    pub(super) fn set_len(&mut self, len: usize) {
        self.len = self.len & !LEN | len as u16;
    }

    #[inline]
    pub(super) fn chunk(&self) -> SlabRef {
        SlabRef { slab: self.slab, start: self.start, class: (self.len >> 12) as u8 }
    }

    #[inline]
    pub(super) fn set_chunk(&mut self, chunk: SlabRef) {
        (self.slab, self.start) = (chunk.slab, chunk.start);
        self.len = self.len & LEN | u16::from(chunk.class) << 12;
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }
}

/// All pages with live blocks.
#[derive(Clone, Debug, Default)]
pub(super) struct Pages {
    /// The table, and after it the overflow area: pages whose two entries were taken.
    entries: Vec<Page>,
    /// Entries of the table: a power of two, or none.
    size: usize,
    /// The entries in the overflow area, by page.
    overflow: IntMap<u64, u32>,
    used: usize,
}

impl Pages {
    /// The first entry that a page may have.
    #[inline]
    fn home(&self, number: u64) -> usize {
        let shifted = number.wrapping_add(HEAP_STRIDE * (number >> HEAP));
        shifted as usize & self.size.wrapping_sub(1)
    }

    /// The entry of a page.
    #[inline]
    pub(super) fn find(&self, number: u64) -> Option<usize> {
        let home = self.home(number);
        let entry = self.entries.get(home)?;
        if entry.number == number { Some(home) } else { self.find_elsewhere(number, home) }
    }

    #[inline]
    fn find_elsewhere(&self, number: u64, home: usize) -> Option<usize> {
        let alternative = self.alternative(home);
        if self.entries.get(alternative)?.number == number {
            return Some(alternative);
        }
        if self.overflow.is_empty() { None } else { self.find_in_overflow(number) }
    }

    #[inline(never)]
    fn find_in_overflow(&self, number: u64) -> Option<usize> {
        self.overflow.get(&number).map(|&index| index as usize)
    }

    /// The other entry in the table that a page may have if `home` is its first one.
    #[inline]
    fn alternative(&self, home: usize) -> usize {
        home ^ (self.size / 2)
    }

    /// The entry of a page; `hint` is the result of an earlier search, or any number.
    #[inline]
    pub(super) fn find_with_hint(&self, number: u64, hint: usize) -> Option<usize> {
        let hinted = self.entries.get(hint);
        if hinted.is_some_and(|entry| entry.number == number) {
            Some(hint)
        } else {
            self.find(number)
        }
    }

    #[inline]
    pub(super) fn get(&self, index: usize) -> &Page {
        &self.entries[index]
    }

    #[inline]
    pub(super) fn get_mut(&mut self, index: usize) -> &mut Page {
        &mut self.entries[index]
    }

    /// Adds a page that is not in the table, with its first block; `false` if there is no memory
    /// for it.
    pub(super) fn add(&mut self, number: u64, chunk: SlabRef) -> bool {
        if (self.used + 1) * 3 > self.size * 2 {
            self.resize(2 * self.size);
        }
        let mut page = Page { number, len: 1, ..Page::FREE };
        page.set_chunk(chunk);
        let added = self.put(page);
        self.used += usize::from(added);
        added
    }

    fn put(&mut self, page: Page) -> bool {
        let home = self.home(page.number);
        let both = [home, self.alternative(home)];
        let is_free = |&&entry: &&usize| self.entries.get(entry).is_some_and(Page::is_free);
        if let Some(&free) = both.iter().find(is_free) {
            self.entries[free] = page;
            return true;
        }
        // The overflow area grows by a sixteenth of the table, instead of doubling the vector.
        if self.entries.len() == self.entries.capacity()
            && self.entries.try_reserve_exact(self.size / 16 + 1).is_err()
            || self.overflow.try_reserve(1).is_err()
        {
            return false;
        }
        self.overflow.insert(page.number, self.entries.len() as u32);
        self.entries.push(page);
        true
    }

    /// NOTE: if there is no memory for a table of this size, the present one stays in use.
    #[cold]
    fn resize(&mut self, size: usize) {
        let size = size.max(MIN_SIZE);
        let mut entries = Vec::new();
        // All pages of the overflow area may overflow in the new table, too.
        if entries.try_reserve_exact(size + self.overflow.len()).is_err() {
            return;
        }
        entries.resize(size, Page::FREE);
        self.size = size;
        let old = std::mem::replace(&mut self.entries, entries);
        self.overflow.clear();
        for page in old.into_iter().filter(|page| !page.is_free()) {
            self.put(page);
        }
    }

    /// Removes an entry.
    pub(super) fn remove(&mut self, index: usize) {
        self.used -= 1;
        if index < self.size {
            self.entries[index] = Page::FREE;
        } else {
            let page = self.entries.swap_remove(index);
            self.overflow.remove(&page.number);
            if let Some(moved) = self.entries.get(index) {
                self.overflow.insert(moved.number, index as u32);
            }
        }
        if self.used * 4 < self.size && self.size > 4 * MIN_SIZE {
            self.resize(self.size / 2);
        }
    }

    /// All pages, in an order that differs from run to run.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Page> {
        self.entries.iter().filter(|page| !page.is_free())
    }

    /// Bytes allocated for the table, the overflow area and its map.
    #[inline]
    pub(super) fn bytes(&self) -> usize {
        let overflow = self.overflow.capacity() * (size_of::<(u64, u32)>() + 1);
        self.entries.capacity() * size_of::<Page>() + overflow
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::collections::HashMap;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn it_is_a_map(
            // Neighbours, and heaps far from one another whose entries collide.
            ops in vec(((0_u64..100, 0_u64..4).prop_map(|(i, heap)| i + (heap << 40)), any::<bool>()), 0..3000),
        ) {
            let mut pages = Pages::default();
            let mut model = HashMap::new();
            for (time, (number, adds)) in ops.into_iter().enumerate() {
                let found = pages.find(number);
                prop_assert_eq!(found.map(|index| pages.get(index).slab), model.get(&number).copied());
                match found {
                    None if adds => {
                        pages.add(number, SlabRef { class: 1, slab: time as u32, start: 7 });
                        model.insert(number, time as u32);
                    }
                    Some(index) if !adds => {
                        pages.remove(index);
                        model.remove(&number);
                    }
                    _ => {}
                }
                prop_assert_eq!(pages.used, model.len());
            }
            prop_assert_eq!(pages.iter().count(), model.len());
        }
    }
}
