//! The step in which each block became live, where that does not follow from its first allocation.

use crate::analysis::hash::IntMap;

/// Where a block is: its root heap, and its address.
pub(super) type Place = (u8, u64);

/// The fewest bits of the filter: 8 KiB.
const MIN_BITS: usize = 1 << 16;

/// A table of few blocks, of which every block that ends is asked.
#[derive(Clone, Debug, Default)]
pub(super) struct Begun {
    steps: IntMap<Place, u32>,
    /// PERF: a bit by address, set for each block in the table. Most blocks are not in it, and this finds out without
    /// a search.
    filter: Vec<u64>,
    /// How many blocks may be added until the filter is made anew.
    room: usize,
}

impl Begun {
    #[inline]
    fn bit(&self, address: u64) -> (usize, u64) {
        // The upper half of a product depends on all bits of the address that differ.
        let hash = (address >> 4).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let bit = hash as usize & (self.filter.len() * 64 - 1);
        (bit / 64, 1 << (bit % 64))
    }

    /// Whether a block may be in the table.
    #[inline]
    fn may_have(&self, (_, address): Place) -> bool {
        if self.steps.is_empty() {
            return false;
        }
        let (word, bit) = self.bit(address);
        self.filter[word] & bit != 0
    }

    #[inline]
    pub(super) fn get(&self, place: Place) -> Option<u32> {
        self.may_have(place).then(|| self.steps.get(&place).copied()).flatten()
    }

    #[inline]
    pub(super) fn remove(&mut self, place: Place) -> Option<u32> {
        self.may_have(place).then(|| self.steps.remove(&place)).flatten()
    }

    pub(super) fn insert(&mut self, place: Place, step: u32) {
        self.steps.insert(place, step);
        if self.room == 0 {
            return self.fill();
        }
        self.room -= 1;
        let (word, bit) = self.bit(place.1);
        self.filter[word] |= bit;
    }

    /// Makes the filter of what is in the table, with 16 bits for each block.
    #[cold]
    fn fill(&mut self) {
        let bits = (self.steps.len() * 16).next_power_of_two().max(MIN_BITS);
        self.filter.clear();
        self.filter.resize(bits / 64, 0);
        self.room = bits / 16;
        let places: Vec<u64> = self.steps.keys().map(|&(_, address)| address).collect();
        for address in places {
            let (word, bit) = self.bit(address);
            self.filter[word] |= bit;
        }
    }

    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut u32> {
        self.steps.values_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_has_what_was_added_and_not_removed() {
        let mut begun = Begun::default();
        assert_eq!((begun.get((0, 16)), begun.remove((0, 16))), (None, None));
        // More than the filter has room for, in two heaps.
        let blocks = || (0..100_000_u64).map(|number| ((number % 2) as u8, number * 48));
        for (number, place) in blocks().enumerate() {
            begun.insert(place, number as u32);
            if number % 3 == 0 {
                assert_eq!(begun.remove(place), Some(number as u32));
            }
        }
        begun.values_mut().for_each(|step| *step += 1);
        for (number, place) in blocks().enumerate() {
            let expected = (number % 3 > 0).then_some(number as u32 + 1);
            assert_eq!((begun.get(place), begun.get((7, place.1))), (expected, None));
            assert_eq!(begun.remove(place), expected);
        }
        assert_eq!(begun.steps.len(), 0);
    }
}
