//! Where blocks have ever been.

use std::collections::BTreeMap;

/// A window has 64 KiB, and a chunk of windows 1 GiB.
const WINDOW: u32 = 16;
const WINDOW_BYTES: u64 = 1 << WINDOW;
const CHUNK: u32 = 30;
const WORDS: usize = 1 << (CHUNK - WINDOW - 6);
/// At most this many chunks: 32 MiB.
const MAX_CHUNKS: usize = 1 << 14;

/// The number of windows that are found again without a look-up.
const RECENT: usize = 32;

/// In which windows of addresses a block has ever been: this includes freed memory that an allocator keeps.
#[derive(Clone, Debug, Default)]
pub(crate) struct Windows {
    chunks: Vec<[u64; WORDS]>,
    places: BTreeMap<u64, usize>,
    /// Windows that were noted last, plus one, by the lower bits of their numbers. PERF: most blocks are in
    /// one of them, and then nothing else is read.
    recent: [u64; RECENT],
    /// No more chunks are added.
    is_full: bool,
}

impl Windows {
    /// A block has been at these addresses.
    #[inline]
    pub(crate) fn note(&mut self, address: u64, bytes: u64) {
        let last = address.saturating_add(bytes.saturating_sub(1));
        let window = address >> WINDOW;
        if last >> WINDOW != window || self.recent[window as usize % RECENT] != window + 1 {
            self.note_slowly(address, last);
        }
    }

    #[inline(never)]
    fn note_slowly(&mut self, address: u64, last: u64) {
        for chunk in address >> CHUNK..=last >> CHUNK {
            if self.is_full {
                return;
            }
            let place = *self.places.entry(chunk).or_insert_with(|| {
                self.chunks.push([0; WORDS]);
                self.chunks.len() - 1
            });
            self.is_full = self.chunks.len() >= MAX_CHUNKS;
            for (word, mask) in words_within(chunk, address, last) {
                self.chunks[place][word] |= mask;
            }
        }
        let window = address >> WINDOW;
        self.recent[window as usize % RECENT] = window + 1;
    }

    /// How many bytes of these addresses are in such windows.
    pub(crate) fn covered(&self, start: u64, end: u64) -> u64 {
        let Some(last) = end.checked_sub(1).filter(|last| *last >= start) else { return 0 };
        let mut windows = 0;
        for (&chunk, &place) in self.places.range(start >> CHUNK..=last >> CHUNK) {
            let words = words_within(chunk, start, last);
            let words = words.map(|(word, mask)| self.chunks[place][word] & mask);
            windows += words.map(|word| u64::from(word.count_ones())).sum::<u64>();
        }
        let before = if self.has(start) { start % WINDOW_BYTES } else { 0 };
        let after = if self.has(last) { WINDOW_BYTES - 1 - last % WINDOW_BYTES } else { 0 };
        windows * WINDOW_BYTES - before - after
    }

    /// Whether a block has been in the window of an address.
    fn has(&self, address: u64) -> bool {
        let window = (address >> WINDOW) as usize;
        let place = self.places.get(&(address >> CHUNK));
        place
            .is_some_and(|&place| self.chunks[place][window / 64 % WORDS] >> (window % 64) & 1 != 0)
    }

    /// How many bytes all such windows have.
    pub(crate) fn bytes(&self) -> u64 {
        let words = self.chunks.iter().flatten();
        words.map(|word| u64::from(word.count_ones())).sum::<u64>() * WINDOW_BYTES
    }

    pub(crate) fn is_full(&self) -> bool {
        self.is_full
    }
}

/// The words of a chunk that have the windows of these addresses, and which bits of them have.
fn words_within(chunk: u64, first: u64, last: u64) -> impl Iterator<Item = (usize, u64)> {
    let number = |address: u64| (address >> WINDOW) as usize % (WORDS * 64);
    let from = if first >> CHUNK == chunk { number(first) } else { 0 };
    let to = if last >> CHUNK == chunk { number(last) } else { WORDS * 64 - 1 };
    (from / 64..=to / 64).map(move |word| {
        let low = from.saturating_sub(word * 64);
        let high = (to - word * 64).min(63);
        (word, u64::MAX << low & u64::MAX >> (63 - high))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn windows_are_those_of_a_set(
            blocks in proptest::collection::vec((0_u64..3 << 30, prop_oneof![0_u64..1 << 18, 0_u64..2 << 30]), 0..12),
            (start, bytes) in (0_u64..3 << 30, 0_u64..1 << 31),
        ) {
            let (mut windows, mut set) = (Windows::default(), BTreeSet::new());
            for (address, bytes) in blocks {
                windows.note(address, bytes);
                set.extend(address >> WINDOW..=(address + bytes.max(1) - 1) >> WINDOW);
            }
            let within = |window: &u64| {
                let from = window << WINDOW;
                (from + (1 << WINDOW)).min(start + bytes).saturating_sub(from.max(start))
            };
            prop_assert_eq!(windows.bytes(), set.len() as u64 * WINDOW_BYTES);
            prop_assert_eq!(windows.covered(start, start + bytes), set.iter().map(within).sum::<u64>());
        }
    }

    #[test]
    fn a_block_of_all_addresses_takes_little() {
        let mut windows = Windows::default();
        windows.note(1, u64::MAX);
        assert!(windows.is_full() && windows.chunks.len() <= MAX_CHUNKS);
        assert_eq!(windows.covered(1 << 20, (1 << 20) + 5), 5);
    }
}
