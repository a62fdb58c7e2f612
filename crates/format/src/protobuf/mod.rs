//! Messages of protocol buffers, appended to a buffer of the caller.
//!
//! A message is a row of fields. A field is a key, which is its number and the kind of its value, and the
//! value:
//!
//! ```text
//! 08 96 01                 field 1, kind 0: a varint, 150
//! 12 03 61 62 63           field 2, kind 2: 3 bytes, "abc"
//! 1a 02 08 01              field 3, kind 2: 2 bytes, a message of one field
//! └┬┘└──── value ────┘
//! key: number << 3 | kind, as a varint
//! ```
//!
//! Nothing here knows a schema: the caller has the numbers of fields. Nothing fails or panics, and nothing
//! is allocated but by the buffer.

#[cfg(feature = "perfetto")]
pub mod perfetto;

/// A number of seven bits a byte.
pub const VARINT: u64 = 0;
/// Eight bytes, the lowest first.
pub const FIXED64: u64 = 1;
/// Bytes, whose length precedes them.
const LENGTH_DELIMITED: u64 = 2;
/// Four bytes, the lowest first.
const FIXED32: u64 = 5;

/// A message that is being written: each call appends one field.
///
/// A field is written even if it is 0 or empty, because that differs from a field that is missing; only
/// [`nonzero`](Self::nonzero) leaves zeros out.
#[derive(Debug)]
pub struct Message<'a>(&'a mut Vec<u8>);

// Each of the two formats that use it needs only some kinds of fields.
#[allow(dead_code)]
impl<'a> Message<'a> {
    /// A message whose fields are appended to `out`.
    pub fn new(out: &'a mut Vec<u8>) -> Self {
        Self(out)
    }

    /// A number without a sign (`uint32`, `uint64`, an enum).
    #[inline]
    pub fn uint(&mut self, field: u32, value: u64) {
        self.key_and(u64::from(field) << 3 | VARINT, value);
    }

    /// A number with a sign in two's complement (`int32`, `int64`). A negative one takes ten bytes.
    #[inline]
    pub fn int(&mut self, field: u32, value: i64) {
        self.uint(field, value as u64);
    }

    /// A number with a sign, in zigzag order: 0, -1, 1, -2 (`sint32`, `sint64`).
    pub fn zigzag(&mut self, field: u32, value: i64) {
        self.uint(field, zigzag(value as u64));
    }

    pub fn flag(&mut self, field: u32, value: bool) {
        self.uint(field, value.into());
    }

    /// A number, unless it is 0.
    #[inline]
    pub fn nonzero(&mut self, field: u32, value: u64) {
        if value != 0 {
            self.uint(field, value);
        }
    }

    pub fn fixed32(&mut self, field: u32, value: u32) {
        self.key(field, FIXED32);
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    #[inline]
    pub fn fixed64(&mut self, field: u32, value: u64) {
        self.key(field, FIXED64);
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub fn float(&mut self, field: u32, value: f32) {
        self.fixed32(field, value.to_bits());
    }

    #[inline]
    pub fn double(&mut self, field: u32, value: f64) {
        self.fixed64(field, value.to_bits());
    }

    pub fn text(&mut self, field: u32, text: &str) {
        self.bytes(field, text.as_bytes());
    }

    /// Bytes, or a message that has been written elsewhere.
    #[inline]
    pub fn bytes(&mut self, field: u32, bytes: &[u8]) {
        self.key_and(u64::from(field) << 3 | LENGTH_DELIMITED, bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    /// A message within this one: `write` appends its fields.
    ///
    /// PERF: one byte is kept for the length, which is enough below 128 bytes. A longer message is moved
    /// by one to nine bytes when it ends.
    #[inline]
    pub fn nested(&mut self, field: u32, write: impl FnOnce(&mut Message<'_>)) {
        self.key_and(u64::from(field) << 3 | LENGTH_DELIMITED, 0);
        let at = self.0.len().saturating_sub(1);
        write(&mut Message(self.0));
        let length = self.0.len().saturating_sub(at + 1);
        match self.0.get_mut(at) {
            Some(byte) if length < 0x80 => *byte = length as u8,
            _ => self.lengthen(at, length),
        }
    }

    /// Makes room for the length of a message, of which one byte is there.
    #[cold]
    fn lengthen(&mut self, at: usize, length: usize) {
        let (bytes, size) = varint(length as u64);
        self.0.splice(at..at + 1, bytes.to_le_bytes().into_iter().take(size));
    }

    /// The numbers of a repeated field, one after the other, zeros too. None: no field.
    pub fn packed(&mut self, field: u32, values: impl IntoIterator<Item = u64>) {
        let mut values = values.into_iter().peekable();
        if values.peek().is_some() {
            self.nested(field, |packed| values.for_each(|value| push_varint(packed.0, value)));
        }
    }

    /// The numbers of a repeated field, eight bytes each. None: no field.
    pub fn packed_fixed64(&mut self, field: u32, values: impl IntoIterator<Item = u64>) {
        let mut values = values.into_iter().peekable();
        if values.peek().is_some() {
            self.nested(field, |packed| {
                values.for_each(|value| packed.0.extend_from_slice(&value.to_le_bytes()));
            });
        }
    }

    /// Appends fields that have been prepared.
    ///
    /// PERF: more bytes than needed are appended, and removed, because a copy of a fixed size is a store.
    #[inline]
    pub fn prepared(&mut self, fields: &Prepared) {
        let at = self.0.len();
        self.0.extend_from_slice(&fields.bytes);
        self.0.truncate(at + fields.size);
    }

    /// Fields that have been written elsewhere, keys and all.
    pub fn fields(&mut self, fields: &[u8]) {
        self.0.extend_from_slice(fields);
    }

    /// A key, and the number after it.
    ///
    /// PERF: most are a byte each, which is inlined without the rest; so is the encoding of a key that is
    /// known when this is compiled.
    #[inline]
    fn key_and(&mut self, key: u64, number: u64) {
        if key < 0x80 && number < 0x80 {
            self.0.extend_from_slice(&[key as u8, number as u8]);
        } else if key < 0x80 {
            self.start_and(key, 1, number);
        } else if key < 0x4000 {
            self.start_and(key & 0x7f | 0x80 | (key >> 7) << 8, 2, number);
        } else {
            let (key, size) = varint(key);
            self.start_and(key as u64, size, number);
        }
    }

    /// Up to six bytes, of which the first is the lowest of `start`, and a number.
    ///
    /// PERF: they are put together before they are appended.
    #[inline(never)]
    fn start_and(&mut self, start: u64, start_size: usize, number: u64) {
        let (number, size) = varint(number);
        self.few(u128::from(start) | number << (8 * start_size), start_size + size);
    }

    /// Appends the lowest `size` bytes of `bytes`, 16 at most.
    ///
    /// PERF: all bytes are appended, and those too many removed, because a copy of a fixed size is a store.
    #[inline]
    pub fn few(&mut self, bytes: u128, size: usize) {
        let at = self.0.len();
        self.0.extend_from_slice(&bytes.to_le_bytes());
        self.0.truncate(at + size);
    }

    /// The key of a field whose value follows.
    #[inline]
    pub fn key(&mut self, field: u32, kind: u64) {
        push_varint(self.0, u64::from(field) << 3 | kind);
    }
}

/// Fields that many messages have, written once.
#[derive(Clone, Copy, Debug)]
#[allow(dead_code)]
pub struct Prepared {
    bytes: [u8; 32],
    size: usize,
}

#[allow(dead_code)]
impl Prepared {
    /// The fields that `write` appends: 32 bytes at most.
    pub fn new(write: impl FnOnce(&mut Message<'_>)) -> Self {
        let mut fields = Vec::new();
        write(&mut Message(&mut fields));
        debug_assert!(fields.len() <= 32, "{} bytes", fields.len());
        let mut bytes = [0; 32];
        bytes.iter_mut().zip(&fields).for_each(|(to, from)| *to = *from);
        Self { bytes, size: fields.len().min(32) }
    }
}

/// Seven bits of each byte.
const SEVEN_BITS: u64 = 0x7f7f_7f7f_7f7f_7f7f;

/// The lower 56 bits, seven in each byte.
#[inline]
const fn spread(value: u64) -> u64 {
    // Two halves of 28 bits, each half into two of 14, each of these into two bytes.
    let value = value & 0x0fff_ffff | (value & 0x00ff_ffff_f000_0000) << 4;
    let value = value & 0x0000_3fff_0000_3fff | (value & 0x0fff_c000_0fff_c000) << 2;
    value & 0x007f_007f_007f_007f | (value & 0x3f80_3f80_3f80_3f80) << 1
}

/// How many bytes the varint of a number has whose highest bit is this one.
const SIZES: [u8; 64] = {
    let mut sizes = [0; 64];
    let mut bit = 0;
    while bit < 64 {
        sizes[bit] = (bit / 7 + 1) as u8;
        bit += 1;
    }
    sizes
};

/// The bytes of a varint, the lowest seven bits first, and how many they are: ten at most. All but the last
/// have the highest bit set.
///
/// PERF: without a loop over the bytes, which the processor would often predict wrong.
#[inline]
pub const fn varint(value: u64) -> (u128, usize) {
    let low = spread(value);
    if value >> 56 == 0 {
        let size = SIZES[(value | 1).ilog2() as usize];
        // All bytes but the last.
        let others = (1 << (8 * (size - 1))) - 1;
        ((low | !SEVEN_BITS & others) as u128, size as usize)
    } else {
        let high = value >> 56;
        let is_longest = high >> 7;
        let high = high & 0x7f | is_longest << 7 | is_longest << 8;
        ((low | !SEVEN_BITS) as u128 | (high as u128) << 64, 9 + is_longest as usize)
    }
}

/// The number of the varint that `bytes` begin with, which are then without it. `None` if they begin with no
/// varint.
pub fn take_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for (index, &byte) in bytes.iter().take(10).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            *bytes = &bytes[index + 1..];
            return Some(value);
        }
    }
    None
}

/// The zigzag code of a distance, which is small if the distance is small, whatever its sign: 0, -1, 1, -2
/// are 0, 1, 2, 3.
#[inline(always)]
pub const fn zigzag(distance: u64) -> u64 {
    distance << 1 ^ ((distance as i64) >> 63) as u64
}

/// The distance with this [`zigzag`] code.
#[inline(always)]
pub const fn unzigzag(code: u64) -> u64 {
    code >> 1 ^ (code & 1).wrapping_neg()
}

#[inline]
pub(crate) fn push_varint(out: &mut Vec<u8>, value: u64) {
    let (bytes, size) = varint(value);
    Message(out).few(bytes, size);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: impl FnOnce(&mut Message<'_>)) -> Vec<u8> {
        // What is there already stays.
        let mut out = vec![0xee];
        write(&mut Message::new(&mut out));
        assert_eq!(out.remove(0), 0xee);
        out
    }

    /// The examples of the documentation of the encoding.
    #[test]
    fn fields_are_encoded_as_documented() {
        let bytes = written(|message| {
            message.uint(1, 150);
            message.text(2, "testing");
            message.nested(3, |inner| inner.uint(1, 150));
            message.packed(4, [3, 270, 86942]);
        });
        let mut expected = vec![0x08, 0x96, 0x01, 0x12, 0x07];
        expected.extend_from_slice(b"testing");
        expected.extend_from_slice(&[0x1a, 0x03, 0x08, 0x96, 0x01]);
        expected.extend_from_slice(&[0x22, 0x06, 0x03, 0x8e, 0x02, 0x9e, 0xa7, 0x05]);
        assert_eq!(bytes, expected);
    }

    #[test]
    fn numbers_at_the_ends_of_their_ranges_are_whole() {
        let mut most = vec![0x08];
        most.extend_from_slice(&[0xff; 9]);
        most.push(0x01);
        assert_eq!(written(|message| message.uint(1, u64::MAX)), most);
        assert_eq!(written(|message| message.int(1, -1)), most);
        assert_eq!(written(|message| message.zigzag(1, i64::MIN)), most);
        for (value, byte) in [(0, 0), (-1, 1), (1, 2), (-2, 3), (2, 4), (-64, 127)] {
            assert_eq!(written(|message| message.zigzag(1, value)), [0x08, byte], "{value}");
        }
        for (value, bytes) in [
            (0, &[0x00][..]),
            (127, &[0x7f]),
            (128, &[0x80, 0x01]),
            (16_383, &[0xff, 0x7f]),
            (16_384, &[0x80, 0x80, 0x01]),
            (1 << 63, &[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01]),
        ] {
            let expected = [&[0x08], bytes].concat();
            assert_eq!(written(|message| message.uint(1, value)), expected, "{value}");
        }
        // The largest number of a field.
        let key = written(|message| message.flag((1 << 29) - 1, true));
        assert_eq!(key, [0xf8, 0xff, 0xff, 0xff, 0x0f, 0x01]);
    }

    #[test]
    fn varints_of_any_size_are_as_if_written_byte_by_byte() {
        for bit in 0..64 {
            for value in [1 << bit, (1 << bit) - 1, 1 << bit | 0x55, u64::MAX >> bit] {
                let (mut expected, mut rest) = (vec![0x08], value);
                while rest >= 0x80 {
                    expected.push(rest as u8 | 0x80);
                    rest >>= 7;
                }
                expected.push(rest as u8);
                assert_eq!(written(|message| message.uint(1, value)), expected, "{value:#x}");
            }
        }
    }

    #[test]
    fn fixed_sizes_have_the_lowest_byte_first() {
        let bytes = written(|message| {
            message.fixed32(1, 0x0403_0201);
            message.fixed64(2, 0x0807_0605_0403_0201);
            message.float(3, 1.0);
            message.double(4, -2.0);
            message.packed_fixed64(5, [1, u64::MAX]);
        });
        let expected = [
            &[0x0d, 1, 2, 3, 4][..],
            &[0x11, 1, 2, 3, 4, 5, 6, 7, 8],
            &[0x1d, 0, 0, 0x80, 0x3f],
            &[0x21, 0, 0, 0, 0, 0, 0, 0, 0xc0],
            &[0x2a, 16, 1, 0, 0, 0, 0, 0, 0, 0],
            &[0xff; 8],
        ];
        assert_eq!(bytes, expected.concat());
    }

    #[test]
    fn prepared_fields_are_as_if_written() {
        for write in [
            |_: &mut Message<'_>| (),
            |message: &mut Message<'_>| message.uint(1, 150),
            |message: &mut Message<'_>| message.bytes(7, &[0x55; 30]),
        ] {
            let prepared = Prepared::new(write);
            let twice = written(|message| {
                message.prepared(&prepared);
                message.prepared(&prepared);
            });
            assert_eq!(twice, written(write).repeat(2));
        }
    }

    /// One is different from nothing at all.
    #[test]
    fn empty_fields_are_written_and_empty_lists_are_not() {
        let bytes = written(|message| {
            message.uint(1, 0);
            message.flag(2, false);
            message.text(3, "");
            message.nested(4, |_| ());
            message.nonzero(5, 0);
            message.packed(6, []);
            message.packed_fixed64(7, []);
            message.packed(8, [0]);
            message.fields(&[]);
        });
        assert_eq!(bytes, [0x08, 0, 0x10, 0, 0x1a, 0, 0x22, 0, 0x42, 1, 0]);
    }

    /// Lengths around the sizes where theirs needs one more byte, at every depth.
    #[test]
    fn nested_messages_of_any_length_are_as_if_written_apart() {
        for length in [0, 1, 125, 126, 127, 128, 129, 16_380, 16_383, 16_384, 2_097_152] {
            let inner = vec![0x55; length];
            let nested = written(|message| {
                message.nested(1, |outer| {
                    outer.uint(9, 1);
                    outer.nested(2, |middle| middle.nested(3, |last| last.bytes(4, &inner)));
                    outer.uint(9, 2);
                });
                message.uint(9, 3);
            });
            let apart = |field, bytes: &[u8]| written(|message| message.bytes(field, bytes));
            let middle = apart(2, &apart(3, &apart(4, &inner)));
            let outer = [&[0x48, 1], &*middle, &[0x48, 2]].concat();
            assert_eq!(nested, [&*apart(1, &outer), &[0x48, 3]].concat(), "{length}");
        }
    }
}
