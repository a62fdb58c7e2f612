//! Bits, from the low end of each byte, in steps of up to 56.

use super::{LARGEST, SLACK};

/// Most bits one step writes, and one look sees.
pub(super) const STEP: u32 = 56;

/// The lowest `count` bits; `count` is below 64.
#[inline(always)]
pub(super) fn low(value: u64, count: u32) -> u64 {
    value & !(u64::MAX << count)
}

/// Writes bits into a buffer that is as large as a packet can be.
pub(super) struct BitWriter {
    bytes: Box<[u8; LARGEST + SLACK]>,
    at: usize,
    /// Bits that fill no byte yet, and how many: fewer than 8.
    pending: u64,
    count: u32,
}

impl BitWriter {
    pub(super) fn new() -> Self {
        Self { bytes: zeroed(), at: 0, pending: 0, count: 0 }
    }

    pub(super) fn clear(&mut self) {
        (self.at, self.pending, self.count) = (0, 0, 0);
    }

    /// Whole bytes so far.
    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        self.at
    }

    /// Appends the `count` low bits of `value`, at most [`STEP`], above which it is 0.
    #[inline(always)]
    pub(super) fn put(&mut self, value: u64, count: u32) {
        debug_assert!(count <= STEP && value >> count == 0);
        self.pending |= value << self.count;
        // PERF: the mask shows the compiler that it fits; the caller stops long before.
        let at = self.at & (LARGEST - 1);
        self.bytes[at..at + 8].copy_from_slice(&self.pending.to_le_bytes());
        let count = self.count + count;
        self.at += count as usize / 8;
        self.pending >>= count & !7;
        self.count = count & 7;
    }

    /// Appends whole bytes, behind bits up to a whole byte.
    pub(super) fn put_bytes(&mut self, bytes: &[u8]) {
        self.align();
        if let Some(room) = self.bytes.get_mut(self.at..self.at + bytes.len()) {
            room.copy_from_slice(bytes);
        }
        self.at += bytes.len();
    }

    fn align(&mut self) {
        if self.count > 0 {
            self.put(0, 8 - self.count);
        }
    }

    /// All that was written, filled up to a whole byte; `None` if that is more than fits.
    pub(super) fn finish(&mut self) -> Option<&[u8]> {
        self.align();
        self.bytes.get(..self.at)
    }
}

/// Reads bits out of a buffer. Behind the end come zeros.
pub(super) struct BitReader {
    bytes: Box<[u8; LARGEST + SLACK]>,
    size: usize,
    /// In bits.
    at: usize,
}

impl BitReader {
    pub(super) fn new() -> Self {
        Self { bytes: zeroed(), size: 0, at: 0 }
    }

    /// Takes `bytes`, at most [`LARGEST`], in.
    pub(super) fn load(&mut self, bytes: &[u8]) {
        let bytes = bytes.get(..LARGEST).unwrap_or(bytes);
        // PERF: a copy, so that each look needs no check for the end.
        self.bytes[..bytes.len()].copy_from_slice(bytes);
        self.bytes[bytes.len()..bytes.len() + SLACK].fill(0);
        (self.size, self.at) = (bytes.len(), 0);
    }

    /// At least [`STEP`] bits, the next one lowest.
    #[inline(always)]
    pub(super) fn peek(&self) -> u64 {
        let at = (self.at / 8) & (LARGEST - 1);
        let mut word = [0; 8];
        word.copy_from_slice(&self.bytes[at..at + 8]);
        u64::from_le_bytes(word) >> (self.at & 7)
    }

    /// Passes over bits.
    #[inline(always)]
    pub(super) fn skip(&mut self, count: u32) {
        self.at += count as usize;
    }

    /// The next `count` bits, at most [`STEP`].
    #[inline(always)]
    pub(super) fn take(&mut self, count: u32) -> u64 {
        let bits = low(self.peek(), count);
        self.skip(count);
        bits
    }

    /// The next `size` whole bytes, behind bits up to a whole byte; `None` if they are not there.
    pub(super) fn take_bytes(&mut self, size: usize) -> Option<&[u8]> {
        let start = self.at.div_ceil(8);
        self.at = (start + size) * 8;
        self.bytes.get(..self.size)?.get(start..start + size)
    }

    /// Whether no more was read than there is.
    #[inline(always)]
    pub(super) fn is_inside(&self) -> bool {
        self.at <= self.size * 8
    }

    /// Whether everything was read but what fills the last byte.
    pub(super) fn is_at_end(&self) -> bool {
        self.at.div_ceil(8) == self.size
    }
}

/// Zeros, without a detour over the stack.
pub(super) fn zeroed() -> Box<[u8; LARGEST + SLACK]> {
    match vec![0; LARGEST + SLACK].into_boxed_slice().try_into() {
        Ok(bytes) => bytes,
        Err(_) => Box::new([0; LARGEST + SLACK]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_bytes_from_the_low_end() {
        let mut writer = BitWriter::new();
        writer.put(0b101, 3);
        writer.put(0b11_0000_1111, 10);
        writer.put_bytes(&[0xaa]);
        writer.put(1, 1);
        assert_eq!(writer.finish().unwrap(), [0b0111_1101, 0b0001_1000, 0xaa, 1]);
    }

    #[test]
    fn what_was_written_is_read_whatever_the_counts() {
        let counts = || {
            (0..2000_u32).map(|i| (i * 31 % 57, u64::from(i).wrapping_mul(0x9e37_79b9_7f4a_7c15)))
        };
        let (mut writer, mut reader) = (BitWriter::new(), BitReader::new());
        counts().for_each(|(count, value)| writer.put(low(value, count), count));
        reader.load(writer.finish().unwrap());
        for (count, value) in counts() {
            assert_eq!(reader.take(count), low(value, count));
        }
        assert!(reader.is_inside() && reader.is_at_end());
        assert_eq!(reader.take(56), 0);
        assert!(!reader.is_inside() && reader.take_bytes(1).is_none());
    }
}
