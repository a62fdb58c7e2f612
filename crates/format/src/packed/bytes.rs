//! Runs of bytes that are no events with a shape: type records, names, call stacks, logs.
//!
//! All runs of a chunk follow one another in a history. A run is coded as literal bytes, each by
//! the byte before it, and as matches: a number of bytes that are at a distance in the history.
//! The runs of a trace repeat the same records with other values in the same places, so a match
//! often has the distance of the last one.

use super::range::{Coder, Number, Prob, Tree};

/// The shortest match at a new distance, and at the last one.
const MIN_MATCH: usize = 5;
const MIN_AGAIN: usize = 2;
/// Bits of the hash by which the encoder finds matches.
const HASH_BITS: u32 = 16;
/// The earlier places that the encoder compares.
const MAX_TRIES: usize = 8;
/// A match of this size is not looked for a better one.
const GOOD_MATCH: usize = 64;

/// A literal byte if `size` is 0, otherwise a match.
#[derive(Clone, Copy, Default)]
struct Item {
    size: usize,
    distance: usize,
    byte: u8,
}

/// The history of a chunk, and the probabilities.
pub(super) struct Bytes {
    history: Vec<u8>,
    /// The distance of the last match.
    distance: usize,
    /// What the last item was: 0 a literal byte, 1 a match, 2 a match at the same distance.
    last: usize,
    is_match: [Prob; 3],
    is_again: [Prob; 3],
    sizes: [Number; 2],
    distances: Number,
    literals: Vec<Tree<256>>,
}

impl Bytes {
    pub(super) fn new() -> Self {
        Self {
            history: Vec::new(),
            distance: 0,
            last: 0,
            is_match: [Prob::HALF; 3],
            is_again: [Prob::HALF; 3],
            sizes: [const { Number::EVEN }; 2],
            distances: Number::EVEN,
            literals: vec![Tree::EVEN; 256],
        }
    }

    /// Begins a chunk.
    pub(super) fn clear(&mut self) {
        self.history.clear();
        (self.distance, self.last) = (0, 0);
        self.is_match = [Prob::HALF; 3];
        self.is_again = [Prob::HALF; 3];
        self.sizes = [const { Number::EVEN }; 2];
        self.distances = Number::EVEN;
        self.literals.fill(Tree::EVEN);
    }

    /// Reads a run of `out.len()` bytes. `None` if the code is damaged.
    pub(super) fn read(&mut self, coder: &mut impl Coder, out: &mut [u8]) -> Option<()> {
        let start = self.history.len();
        let end = start + out.len();
        while self.history.len() < end {
            let before = self.history.last().copied().unwrap_or_default();
            let Item { size, distance, byte } = self.item(coder, before, Item::default());
            if size == 0 {
                self.history.push(byte);
                continue;
            }
            let from = self.history.len().checked_sub(distance)?;
            if distance == 0 || size > end - self.history.len() {
                return None;
            }
            // A match may overlap itself: it then repeats.
            let mut left = size;
            while left > 0 {
                let part = left.min(self.history.len() - from);
                self.history.extend_from_within(from..from + part);
                left -= part;
            }
        }
        out.copy_from_slice(self.history.get(start..)?);
        Some(())
    }

    /// Codes an item that follows the byte `before`. Does not change the history.
    #[inline(always)]
    fn item(&mut self, coder: &mut impl Coder, before: u8, item: Item) -> Item {
        let Item { size, distance, byte } = item;
        let last = self.last;
        if !coder.bit(&mut self.is_match[last], size > 0) {
            self.last = 0;
            let byte = self.literals[usize::from(before)].code(coder, byte.into()) as u8;
            return Item { byte, ..Item::default() };
        }
        let again = coder.bit(&mut self.is_again[last], distance == self.distance);
        self.last = 1 + usize::from(again);
        let least = if again { MIN_AGAIN } else { MIN_MATCH };
        if !again {
            self.distance = self.distances.code(coder, distance as u64) as usize;
        }
        let more = self.sizes[usize::from(again)].code(coder, size.wrapping_sub(least) as u64);
        Item { size: (more as usize).saturating_add(least), distance: self.distance, byte: 0 }
    }
}

/// Finds matches in the history, for the encoder.
pub(super) struct Finder {
    /// By the hash of bytes: the last place in the history where they begin, plus 1.
    heads: Vec<u32>,
    /// By place: the place before with the same hash, plus 1.
    before: Vec<u32>,
}

impl Finder {
    pub(super) fn new() -> Self {
        Self { heads: vec![0; 1 << HASH_BITS], before: Vec::new() }
    }

    pub(super) fn clear(&mut self) {
        self.heads.fill(0);
        self.before.clear();
    }

    /// Writes a run of bytes.
    pub(super) fn write(&mut self, bytes: &mut Bytes, coder: &mut impl Coder, run: &[u8]) {
        let mut at = bytes.history.len();
        bytes.history.extend_from_slice(run);
        while at < bytes.history.len() {
            let (size, distance) = self.find(bytes, at);
            let before = at.checked_sub(1).map_or(0, |before| bytes.history[before]);
            let byte = bytes.history[at];
            bytes.item(coder, before, Item { size, distance, byte });
            for place in at..at + size.max(1) {
                self.add(&bytes.history, place);
            }
            at += size.max(1);
        }
    }

    fn hash(bytes: &[u8]) -> Option<usize> {
        let word = u32::from_le_bytes(*bytes.first_chunk()?);
        let next = u32::from(*bytes.get(4)?);
        let mixed = (word ^ next << 13).wrapping_mul(0x9e37_79b1);
        Some((mixed >> (u32::BITS - HASH_BITS)) as usize)
    }

    fn add(&mut self, whole: &[u8], place: usize) {
        let head = Self::hash(&whole[place..]).map(|hash| &mut self.heads[hash]);
        let before = head.map_or(0, |head| std::mem::replace(head, place as u32 + 1));
        self.before.push(before);
    }

    /// The size and the distance of the best match at `at`; the size is 0 if there is none.
    fn find(&self, bytes: &Bytes, at: usize) -> (usize, usize) {
        let rest = &bytes.history[at..];
        let common = |from: usize| common(&bytes.history[from..], rest);
        let again = match at.checked_sub(bytes.distance) {
            Some(from) if bytes.distance > 0 => common(from),
            _ => 0,
        };
        let mut best = if again >= MIN_AGAIN { (again, bytes.distance) } else { (0, 0) };
        if best.0 >= GOOD_MATCH {
            return best;
        }
        let mut place = Self::hash(rest).map_or(0, |hash| self.heads[hash]) as usize;
        for _ in 0..MAX_TRIES {
            let Some(from) = place.checked_sub(1) else { break };
            let size = common(from);
            // A new distance takes some two bytes.
            if size >= MIN_MATCH.max(best.0 + if best.1 == bytes.distance { 3 } else { 1 }) {
                best = (size, at - from);
            }
            place = self.before.get(from).map_or(0, |before| *before as usize);
        }
        best
    }
}

/// How many bytes at the start of both are the same.
fn common(before: &[u8], now: &[u8]) -> usize {
    let words = before.as_chunks::<8>().0.iter().zip(now.as_chunks::<8>().0);
    let same = 8 * words.take_while(|(before, now)| before == now).count();
    let rest = before[same..].iter().zip(&now[same..]);
    same + rest.take_while(|(before, now)| before == now).count()
}

#[cfg(test)]
mod tests {
    use super::super::range::{Decoder, Encoder};
    use super::*;
    use proptest::prelude::*;

    fn round_trip(runs: &[Vec<u8>]) -> usize {
        let (mut bytes, mut finder, mut encoder) = (Bytes::new(), Finder::new(), Encoder::new());
        for run in runs {
            finder.write(&mut bytes, &mut encoder, run);
        }
        encoder.finish();
        let (mut bytes, mut decoder) = (Bytes::new(), Decoder::new(&encoder.out));
        for run in runs {
            let mut out = vec![0; run.len()];
            bytes.read(&mut decoder, &mut out).unwrap();
            assert_eq!(out, *run);
        }
        encoder.out.len()
    }

    #[test]
    fn records_that_differ_in_one_place_take_few_bytes() {
        let record =
            |i: u32| [&i.to_le_bytes()[..], b"the same in each record, ", &[0; 9]].concat();
        assert!(round_trip(&(0..1000).map(record).collect::<Vec<_>>()) < 2500);
        assert!(round_trip(&[vec![7; 100_000]]) < 20);
    }

    #[test]
    fn a_match_that_is_not_in_the_history_is_refused() {
        let (mut bytes, mut encoder) = (Bytes::new(), Encoder::new());
        bytes.item(&mut encoder, 0, Item { size: 9, distance: 1, byte: 0 });
        encoder.finish();
        assert_eq!(Bytes::new().read(&mut Decoder::new(&encoder.out), &mut [0; 20]), None);
    }

    proptest! {
        #[test]
        fn any_runs_come_back(runs in prop::collection::vec(prop::collection::vec(0_u8..4, 0..300), 0..9)) {
            round_trip(&runs);
        }
    }
}
