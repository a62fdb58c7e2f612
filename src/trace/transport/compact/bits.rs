//! Bits, from the low end of each byte, in steps of up to 56.

use super::{LARGEST, SLACK};

/// Most bits one step writes, and one look sees.
pub(super) const STEP: u32 = 56;

/// The lowest `count` bits; `count` is below 64.
#[inline(always)]
pub(super) fn low(value: u64, count: u32) -> u64 {
    value & !(u64::MAX << count)
}

/// Room for the bytes of a packet or a payload, and for what is touched behind the last one.
pub(super) type Buffer = [u8; LARGEST + SLACK];

/// Where the next bits go. PERF: two words, which go into functions and come back in registers.
#[derive(Clone, Copy, Default)]
pub(super) struct Cursor {
    /// Bits so far.
    at: usize,
    /// Those of them that fill no byte yet.
    pending: u64,
}

impl Cursor {
    /// Whole bytes so far.
    #[inline(always)]
    pub(super) fn bytes(self) -> usize {
        self.at / 8
    }

    /// Appends the `count` low bits of `value`, at most [`STEP`], above which it is 0.
    #[inline(always)]
    pub(super) fn put(self, bytes: &mut Buffer, value: u64, count: u32) -> Self {
        debug_assert!(count <= STEP && value >> count == 0);
        let before = self.at as u32 & 7;
        let pending = self.pending | value << before;
        // PERF: the mask shows the compiler that it fits; the caller stops long before.
        let byte = self.bytes() & (LARGEST - 1);
        bytes[byte..byte + 8].copy_from_slice(&pending.to_le_bytes());
        Self { at: self.at + count as usize, pending: pending >> ((before + count) & !7) }
    }

    /// Appends 64 bits.
    pub(super) fn put_64(self, bytes: &mut Buffer, value: u64) -> Self {
        self.put(bytes, low(value, 32), 32).put(bytes, value >> 32, 32)
    }

    /// Appends whole bytes, behind bits up to a whole byte.
    pub(super) fn put_bytes(self, bytes: &mut Buffer, new: &[u8]) -> Self {
        let start = self.align(bytes).bytes();
        if let Some(room) = bytes.get_mut(start..start + new.len()) {
            room.copy_from_slice(new);
        }
        Self { at: (start + new.len()) * 8, pending: 0 }
    }

    /// Fills the last byte.
    pub(super) fn align(self, bytes: &mut Buffer) -> Self {
        match self.at as u32 & 7 {
            0 => self,
            used => self.put(bytes, 0, 8 - used),
        }
    }
}

/// Bits to be read. Behind the end come zeros.
pub(super) struct Bits {
    bytes: Box<Buffer>,
    size: usize,
}

impl Bits {
    pub(super) fn new() -> Self {
        Self { bytes: zeroed(), size: 0 }
    }

    /// Takes `bytes`, at most [`LARGEST`], in.
    pub(super) fn load(&mut self, bytes: &[u8]) {
        let bytes = bytes.get(..LARGEST).unwrap_or(bytes);
        // PERF: a copy, so that each look needs no check for the end.
        self.bytes[..bytes.len()].copy_from_slice(bytes);
        self.bytes[bytes.len()..bytes.len() + SLACK].fill(0);
        self.size = bytes.len();
    }

    /// At least [`STEP`] bits from bit `at` on, the first one lowest.
    #[inline(always)]
    pub(super) fn peek(&self, at: usize) -> u64 {
        let byte = (at / 8) & (LARGEST - 1);
        let mut word = [0; 8];
        word.copy_from_slice(&self.bytes[byte..byte + 8]);
        u64::from_le_bytes(word) >> (at & 7)
    }

    /// The `count` bits from `at` on, at most [`STEP`]; `at` moves behind them.
    #[inline(always)]
    pub(super) fn take(&self, at: &mut usize, count: u32) -> u64 {
        let bits = low(self.peek(*at), count);
        *at += count as usize;
        bits
    }

    /// The next 64 bits.
    pub(super) fn take_64(&self, at: &mut usize) -> u64 {
        let lower = self.take(at, 32);
        lower | self.take(at, 32) << 32
    }

    /// The next `size` whole bytes, behind bits up to a whole byte; `None` if they are not there.
    pub(super) fn take_bytes(&self, at: &mut usize, size: usize) -> Option<&[u8]> {
        let start = at.div_ceil(8);
        *at = (start + size) * 8;
        self.bytes.get(..self.size)?.get(start..start + size)
    }

    /// How many there are.
    #[inline(always)]
    pub(super) fn count(&self) -> usize {
        self.size * 8
    }
}

/// Zeros, without a detour over the stack.
pub(super) fn zeroed() -> Box<Buffer> {
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
        let mut bytes = zeroed();
        let cursor =
            Cursor::default().put(&mut bytes, 0b101, 3).put(&mut bytes, 0b11_0000_1111, 10);
        let cursor = cursor.put_bytes(&mut bytes, &[0xaa]).put(&mut bytes, 1, 1).align(&mut bytes);
        assert_eq!(bytes[..cursor.bytes()], [0b0111_1101, 0b0001_1000, 0xaa, 1]);
    }

    #[test]
    fn what_was_written_is_read_whatever_the_counts() {
        let counts = || {
            (0..2000_u32).map(|i| (i * 31 % 57, u64::from(i).wrapping_mul(0x9e37_79b9_7f4a_7c15)))
        };
        let (mut bytes, mut bits, mut at) = (zeroed(), Bits::new(), 0);
        let cursor = counts().fold(Cursor::default(), |cursor, (count, value)| {
            cursor.put(&mut bytes, low(value, count), count)
        });
        let size = cursor.align(&mut bytes).bytes();
        bits.load(&bytes[..size]);
        for (count, value) in counts() {
            assert_eq!(bits.take(&mut at, count), low(value, count));
        }
        assert_eq!(at.div_ceil(8) * 8, bits.count());
        assert_eq!(bits.take(&mut at, 56), 0);
        assert!(at > bits.count() && bits.take_bytes(&mut at, 1).is_none());
    }
}
