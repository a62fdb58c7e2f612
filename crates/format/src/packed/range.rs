//! A binary range coder with adaptive probabilities.
//!
//! Encoder and decoder are driven by the same code: [`Coder::bit`] takes a bit and returns it. The
//! encoder writes the bit that it is given; the decoder ignores that one and returns the one it
//! reads. So a model is written once, and the two sides cannot disagree.
//!
//! ```text
//! range  ├──── one ────┼──────────── zero ────────────┤   divided by the probability of a one
//! ```
//! The interval is 64 bits wide. When it is below 2^32, the highest 4 bytes of its start are
//! written, most significant first.

/// The range below which four bytes are moved out or in.
const LOW_RANGE: u64 = 1 << 32;
/// The most raw bits of one call.
const MAX_RAW_BITS: u32 = 16;

/// The probability that a bit is one: the mean of two estimates, one of which adapts faster.
#[derive(Clone, Copy)]
pub(super) struct Prob {
    fast: u16,
    slow: u16,
}

impl Prob {
    pub(super) const HALF: Self = Self { fast: 1 << 15, slow: 1 << 15 };
    const FAST_RATE: u32 = 4;
    const SLOW_RATE: u32 = 7;

    /// In units of 2^-16; at least 71, and as far from 2^16. NOTE: both estimates stop short of
    /// their limits, because a step is rounded down.
    #[inline(always)]
    fn of_one(self) -> u64 {
        (u64::from(self.fast) + u64::from(self.slow)) >> 1
    }

    #[inline(always)]
    fn update(&mut self, bit: bool) {
        // PERF: a mask, since no processor can predict the bits that matter.
        let target = u16::from(bit).wrapping_neg();
        let step = |p: u16, rate: u32| {
            let distance = p ^ target;
            (distance - (distance >> rate)) ^ target
        };
        self.fast = step(self.fast, Self::FAST_RATE);
        self.slow = step(self.slow, Self::SLOW_RATE);
    }
}

/// One direction of the coding.
pub(super) trait Coder {
    /// Codes a bit with an adaptive probability.
    fn bit(&mut self, prob: &mut Prob, bit: bool) -> bool;
    /// Codes at most [`MAX_RAW_BITS`] bits that are as often zero as one.
    fn raw(&mut self, count: u32, bits: u32) -> u32;

    /// Codes `count` bits, the highest first, each with the probability after the same bits before.
    /// `probs` are at least 2 to the power of `count`.
    #[inline(always)]
    fn bits(&mut self, probs: &mut [Prob], count: u32, bits: u32) -> u32 {
        let mut node = 1;
        for at in (0..count).rev() {
            let Some(prob) = probs.get_mut(node) else { break };
            let bit = self.bit(prob, bits >> at & 1 != 0);
            node = node << 1 | usize::from(bit);
        }
        (node - (1 << count)) as u32
    }
}

/// Writes.
pub(super) struct Encoder {
    low: u64,
    range: u64,
    pub out: Vec<u8>,
}

impl Encoder {
    pub(super) fn new() -> Self {
        Self { low: 0, range: u64::MAX, out: Vec::new() }
    }

    /// Moves the start of the interval up. A carry goes into the bytes that are written already.
    #[inline(always)]
    fn advance(&mut self, by: u64) {
        let (low, carry) = self.low.overflowing_add(by);
        self.low = low;
        if carry {
            self.carry();
        }
    }

    #[cold]
    fn carry(&mut self) {
        for byte in self.out.iter_mut().rev() {
            *byte = byte.wrapping_add(1);
            if *byte != 0 {
                break;
            }
        }
    }

    #[inline(always)]
    fn renew(&mut self) {
        if self.range < LOW_RANGE {
            self.out.extend_from_slice(&((self.low >> 32) as u32).to_be_bytes());
            self.low <<= 32;
            self.range <<= 32;
        }
    }

    /// Ends the code: as few bytes as a decoder needs that reads zeros after the end.
    pub(super) fn finish(&mut self) {
        // Some number in the interval has zeros in all but its highest bits.
        let zeros = self.range.ilog2();
        let low = self.low;
        self.advance((1_u64 << zeros) - 1);
        let mask = u64::MAX << zeros;
        let end = self.low & mask;
        debug_assert!(end.wrapping_sub(low) < self.range);
        self.out.extend_from_slice(&end.to_be_bytes());
        while self.out.last() == Some(&0) {
            self.out.pop();
        }
    }

    pub(super) fn clear(&mut self) {
        self.out.clear();
        (self.low, self.range) = (0, u64::MAX);
    }
}

impl Coder for Encoder {
    #[inline(always)]
    fn bit(&mut self, prob: &mut Prob, bit: bool) -> bool {
        let bound = (self.range >> 16) * prob.of_one();
        if bit {
            self.range = bound;
        } else {
            self.advance(bound);
            self.range -= bound;
        }
        prob.update(bit);
        self.renew();
        bit
    }

    #[inline(always)]
    fn raw(&mut self, count: u32, bits: u32) -> u32 {
        debug_assert!(count <= MAX_RAW_BITS && bits >> count == 0);
        self.range >>= count;
        self.advance(u64::from(bits) * self.range);
        self.renew();
        bits
    }
}

/// Reads; after the end of its bytes it reads zeros.
pub(super) struct Decoder<'a> {
    /// The position of the code in the interval.
    code: u64,
    range: u64,
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Decoder<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        let mut decoder = Self { code: 0, range: u64::MAX, bytes, at: 0 };
        for _ in 0..2 {
            decoder.code = decoder.code << 32 | u64::from(decoder.word());
        }
        decoder
    }

    /// Continues where [`position`](Self::position) was taken.
    pub(super) fn at(bytes: &'a [u8], (code, range, at): (u64, u64, usize)) -> Self {
        Self { code, range, bytes, at }
    }

    pub(super) fn position(&self) -> (u64, u64, usize) {
        (self.code, self.range, self.at)
    }

    #[inline(always)]
    fn word(&mut self) -> u32 {
        let word = match self.bytes.get(self.at..).and_then(<[u8]>::first_chunk) {
            Some(word) => u32::from_be_bytes(*word),
            None => self.last_word(),
        };
        self.at += 4;
        word
    }

    #[cold]
    fn last_word(&self) -> u32 {
        let mut word = [0; 4];
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        word[..rest.len()].copy_from_slice(rest);
        u32::from_be_bytes(word)
    }

    #[inline(always)]
    fn renew(&mut self) {
        if self.range < LOW_RANGE {
            self.code = self.code << 32 | u64::from(self.word());
            self.range <<= 32;
        }
    }
}

impl Coder for Decoder<'_> {
    #[inline(always)]
    fn bit(&mut self, prob: &mut Prob, _: bool) -> bool {
        let bound = (self.range >> 16) * prob.of_one();
        let bit = self.code < bound;
        if bit {
            self.range = bound;
        } else {
            self.code -= bound;
            self.range -= bound;
        }
        prob.update(bit);
        self.renew();
        bit
    }

    #[inline(always)]
    fn raw(&mut self, count: u32, _: u32) -> u32 {
        self.range >>= count;
        // Only a damaged code is beyond the interval.
        let bits = (self.code / self.range).min((1 << count) - 1);
        self.code -= bits * self.range;
        self.renew();
        bits as u32
    }

    /// PERF: the code and the range stay in registers, and no branch depends on a bit.
    #[inline(always)]
    fn bits(&mut self, probs: &mut [Prob], count: u32, _: u32) -> u32 {
        let Self { mut code, mut range, .. } = *self;
        let mut node = 1;
        for _ in 0..count {
            let Some(prob) = probs.get_mut(node) else { break };
            let bound = (range >> 16) * prob.of_one();
            let bit = code < bound;
            let zero = u64::from(bit).wrapping_sub(1);
            code -= bound & zero;
            range = bound ^ (bound ^ (range - bound)) & zero;
            prob.update(bit);
            node = node << 1 | usize::from(bit);
            if range < LOW_RANGE {
                code = code << 32 | u64::from(self.word());
                range <<= 32;
            }
        }
        (self.code, self.range) = (code, range);
        (node - (1 << count)) as u32
    }
}

/// The probabilities of the bits of a symbol, from its highest bit on, each by the bits before it.
#[derive(Clone, Copy)]
pub(super) struct Tree<const SYMBOLS: usize>([Prob; SYMBOLS]);

impl<const SYMBOLS: usize> Tree<SYMBOLS> {
    pub(super) const EVEN: Self = Self([Prob::HALF; SYMBOLS]);

    /// Codes a number below `SYMBOLS`, a power of 2.
    #[inline(always)]
    pub(super) fn code(&mut self, coder: &mut impl Coder, symbol: u32) -> u32 {
        coder.bits(&mut self.0, SYMBOLS.ilog2(), symbol)
    }
}

/// The adaptive bits of a number after its highest one.
const ADAPTIVE_BITS: u32 = 3;

/// Sizes in bits from this one on take a second symbol.
const LARGE: u32 = 15;

/// The probabilities of a number: those of its size in bits, and of the bits after the highest.
#[derive(Clone)]
pub(super) struct Number {
    sizes: Tree<16>,
    large: Tree<64>,
    tops: [Tree<{ 1 << ADAPTIVE_BITS }>; 64],
}

impl Number {
    pub(super) const EVEN: Self =
        Self { sizes: Tree::EVEN, large: Tree::EVEN, tops: [Tree::EVEN; 64] };

    /// Codes any number; one of 63 bits and more takes 64 raw bits.
    #[inline(never)]
    pub(super) fn code(&mut self, coder: &mut impl Coder, number: u64) -> u64 {
        let whole = (u64::BITS - number.leading_zeros()).min(63);
        let mut size = self.sizes.code(coder, whole.min(LARGE));
        if size == LARGE {
            size = self.large.code(coder, whole);
        }
        if size < 2 {
            return size.into();
        }
        if size == 63 {
            return raw(coder, 64, number);
        }
        let below = size - 1;
        let adaptive = below.min(ADAPTIVE_BITS);
        let rest = below - adaptive;
        let bits = (number >> rest) as u32 & !(u32::MAX << adaptive);
        let bits = coder.bits(&mut self.tops[size as usize % 64].0, adaptive, bits);
        let top = u64::from(1 << adaptive | bits) << rest;
        top | raw(coder, rest, number & !(u64::MAX << rest))
    }
}

/// Codes `count` raw bits, at most 64.
fn raw(coder: &mut impl Coder, mut count: u32, bits: u64) -> u64 {
    let mut whole = 0;
    while count > 0 {
        let part = count.min(MAX_RAW_BITS);
        count -= part;
        let mask = !(u64::MAX << part);
        whole = whole << part | u64::from(coder.raw(part, (bits >> count & mask) as u32));
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Codes each number with one of three models.
    fn all(coder: &mut impl Coder, numbers: &[u64]) -> Vec<u64> {
        let (mut number, mut tree, mut prob) = (Number::EVEN, Tree::<256>::EVEN, Prob::HALF);
        let mut code = |value: u64| match value % 3 {
            0 => number.code(coder, value),
            1 => tree.code(coder, value as u32 & 0xff).into(),
            _ => {
                u64::from(coder.bit(&mut prob, value & 4 != 0)) << 16 | u64::from(coder.raw(16, 0))
            }
        };
        numbers.iter().map(|value| code(*value)).collect()
    }

    fn round_trip(numbers: &[u64]) -> usize {
        let mut encoder = Encoder::new();
        let direct = |coder: &mut Encoder| {
            let mut number = Number::EVEN;
            numbers.iter().map(|value| number.code(coder, *value)).collect::<Vec<_>>()
        };
        assert_eq!(direct(&mut encoder), numbers);
        encoder.finish();
        let mut decoder = Decoder::new(&encoder.out);
        let mut number = Number::EVEN;
        for value in numbers {
            assert_eq!(number.code(&mut decoder, 0), *value);
        }
        encoder.out.len()
    }

    #[test]
    fn numbers_of_all_sizes_come_back() {
        let numbers: Vec<u64> = (0..=64)
            .flat_map(|bits| [0, 1, 2].map(|less| (u64::MAX >> (64_u32 - bits).min(63)) - less % 2))
            .chain([0, 1, u64::MAX, 1 << 62, 1 << 63])
            .collect();
        round_trip(&numbers);
    }

    #[test]
    fn what_repeats_takes_few_bytes() {
        assert!(round_trip(&[7; 100_000]) < 400);
        assert_eq!(round_trip(&[]), 0);
    }

    #[test]
    fn any_bytes_decode_without_an_end() {
        let mut decoder = Decoder::new(&[0xff; 5]);
        all(&mut decoder, &(0..10_000).collect::<Vec<_>>());
    }

    proptest! {
        #[test]
        fn any_numbers_come_back(numbers: Vec<u64>, shift in 0_u32..64) {
            let numbers: Vec<u64> = numbers.iter().map(|number| number >> shift).collect();
            round_trip(&numbers);
        }
    }
}
