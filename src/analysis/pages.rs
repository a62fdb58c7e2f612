//! Which pages of addresses hold live blocks, and where these stand.
//!
//! A table of 16 bytes an entry, in which neighbours stand side by side: a heap that is one piece
//! takes one piece of the table, and a program that goes through its memory in order goes through
//! this in order. Where two heaps would meet, the page that comes later stands half a table farther;
//! where a third is there already, behind the table, and a map knows where.

use super::chunks::Spot;
use super::hash::IntMap;

/// Heaps of several threads begin at multiples of 64 MiB: so many pages, as a power of two.
const HEAP: u32 = 15;
/// How many entries lie between the ends of two such heaps that are full; odd.
const GAP: u64 = 2533;
/// The smallest table.
const LEAST: usize = 16;

/// The number of a free entry.
const FREE: u64 = u64::MAX;

/// A page with live blocks, or a free entry.
#[derive(Clone, Copy, Debug)]
pub(super) struct Page {
    number: u64,
    drawer: u32,
    start: u16,
    /// The lower 12 bits: how many blocks it holds. The upper 4: the shelf.
    len: u16,
}

/// The bits of `len` that are the length.
const LEN: u16 = 0xfff;

impl Page {
    const FREE: Self = Self { number: FREE, drawer: 0, start: 0, len: 0 };

    fn is_free(&self) -> bool {
        self.number == FREE
    }

    /// How many blocks it holds.
    #[inline]
    pub(super) fn len(&self) -> usize {
        usize::from(self.len & LEN)
    }

    #[inline]
    pub(super) fn set_len(&mut self, len: usize) {
        self.len = self.len & !LEN | len as u16;
    }

    /// Where they stand.
    #[inline]
    pub(super) fn spot(&self) -> Spot {
        Spot { drawer: self.drawer, start: self.start, shelf: (self.len >> 12) as u8 }
    }

    #[inline]
    pub(super) fn set_spot(&mut self, spot: Spot) {
        (self.drawer, self.start) = (spot.drawer, spot.start);
        self.len = self.len & LEN | u16::from(spot.shelf) << 12;
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }
}

/// All pages with live blocks.
#[derive(Clone, Debug, Default)]
pub(super) struct Pages {
    /// The table, and behind it the pages whose place in it was taken.
    entries: Vec<Page>,
    /// Entries of the table: a power of two, or none.
    size: usize,
    /// The entries behind the table, by page.
    behind: IntMap<u64, u32>,
    used: usize,
}

impl Pages {
    /// The place of a page in the table.
    #[inline]
    fn place(&self, number: u64) -> usize {
        let shifted = number.wrapping_add(GAP * (number >> HEAP));
        shifted as usize & self.size.wrapping_sub(1)
    }

    /// The entry of a page.
    #[inline]
    pub(super) fn find(&self, number: u64) -> Option<usize> {
        let place = self.place(number);
        let entry = self.entries.get(place)?;
        if entry.number == number { Some(place) } else { self.find_farther(number, place) }
    }

    #[inline]
    fn find_farther(&self, number: u64, place: usize) -> Option<usize> {
        let farther = self.farther(place);
        if self.entries.get(farther)?.number == number {
            return Some(farther);
        }
        if self.behind.is_empty() { None } else { self.find_behind(number) }
    }

    #[inline(never)]
    fn find_behind(&self, number: u64) -> Option<usize> {
        self.behind.get(&number).map(|&index| index as usize)
    }

    /// The other place in the table for what belongs to this one.
    #[inline]
    fn farther(&self, place: usize) -> usize {
        place ^ (self.size / 2)
    }

    /// The same, where it may be the entry that a search has found a moment ago.
    #[inline]
    pub(super) fn find_again(&self, number: u64, hint: usize) -> Option<usize> {
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
    pub(super) fn add(&mut self, number: u64, spot: Spot) -> bool {
        if (self.used + 1) * 3 > self.size * 2 {
            self.resize(2 * self.size);
        }
        let mut page = Page { number, len: 1, ..Page::FREE };
        page.set_spot(spot);
        let added = self.put(page);
        self.used += usize::from(added);
        added
    }

    fn put(&mut self, page: Page) -> bool {
        let place = self.place(page.number);
        let places = [place, self.farther(place)];
        let is_free = |&&place: &&usize| self.entries.get(place).is_some_and(Page::is_free);
        if let Some(&free) = places.iter().find(is_free) {
            self.entries[free] = page;
            return true;
        }
        // Grows by a sixteenth of the table's size instead of doubling the vector.
        if self.entries.len() == self.entries.capacity()
            && self.entries.try_reserve_exact(self.size / 16 + 1).is_err()
            || self.behind.try_reserve(1).is_err()
        {
            return false;
        }
        self.behind.insert(page.number, self.entries.len() as u32);
        self.entries.push(page);
        true
    }

    /// NOTE: if there is no memory for a table of this size, the present one stays in use.
    #[cold]
    fn resize(&mut self, size: usize) {
        let size = size.max(LEAST);
        let mut entries = Vec::new();
        // All pages of the overflow area may overflow in the new table, too.
        if entries.try_reserve_exact(size + self.behind.len()).is_err() {
            return;
        }
        entries.resize(size, Page::FREE);
        self.size = size;
        let old = std::mem::replace(&mut self.entries, entries);
        self.behind.clear();
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
            self.behind.remove(&page.number);
            if let Some(moved) = self.entries.get(index) {
                self.behind.insert(moved.number, index as u32);
            }
        }
        if self.used * 4 < self.size && self.size > 4 * LEAST {
            self.resize(self.size / 2);
        }
    }

    /// All pages, in an order that differs from run to run.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Page> {
        self.entries.iter().filter(|page| !page.is_free())
    }

    /// Bytes allocated for it.
    #[inline]
    pub(super) fn bytes(&self) -> usize {
        let behind = self.behind.capacity() * (size_of::<(u64, u32)>() + 1);
        self.entries.capacity() * size_of::<Page>() + behind
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
            // Neighbours, and heaps far from one another whose places meet.
            ops in vec(((0_u64..100, 0_u64..4).prop_map(|(i, heap)| i + (heap << 40)), any::<bool>()), 0..3000),
        ) {
            let mut pages = Pages::default();
            let mut model = HashMap::new();
            for (time, (number, adds)) in ops.into_iter().enumerate() {
                let found = pages.find(number);
                prop_assert_eq!(found.map(|index| pages.get(index).drawer), model.get(&number).copied());
                match found {
                    None if adds => {
                        pages.add(number, Spot { shelf: 1, drawer: time as u32, start: 7 });
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
