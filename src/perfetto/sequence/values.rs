//! The values of an event, in the order of its site's roles.

use crate::perfetto::value::kind;
use crate::protobuf::Message;
use crate::protobuf::perfetto::debug_annotation;

/// The values of an event that were not taken yet.
#[derive(Clone, Copy)]
pub(in crate::perfetto) struct Values<'a> {
    /// Four bits each, the first one lowest: room for [`MAX_VALUES`](crate::perfetto::value::MAX_VALUES).
    pub(in crate::perfetto) kinds: u128,
    /// Eight bytes each, as in the event.
    pub(in crate::perfetto) words: &'a [u8],
    pub(in crate::perfetto) texts: &'a [&'a [u8]],
}

/// One value.
#[derive(Clone, Copy)]
pub(super) struct Value<'a> {
    pub(super) kind: u8,
    pub(super) word: u64,
    pub(super) text: &'a [u8],
}

impl<'a> Values<'a> {
    /// Takes the next value; 0 if there is none.
    #[inline]
    pub(super) fn next(&mut self) -> Value<'a> {
        let Some((word, words)) = self.words.split_first_chunk() else {
            return Value { kind: kind::UNSIGNED, word: 0, text: &[] };
        };
        let (kind, word) = (self.kinds as u8 & 0xf, u64::from_le_bytes(*word));
        (self.kinds, self.words) = (self.kinds >> 4, words);
        let mut text = &[][..];
        if kind == kind::TEXT
            && let Some((first, texts)) = self.texts.split_first()
        {
            (text, self.texts) = (first, texts);
        }
        Value { kind, word, text }
    }

    pub(super) fn skip(&mut self, count: usize) {
        for _ in 0..count {
            self.next();
        }
    }
}

impl Value<'_> {
    /// Writes it as a field, in the encoding of its kind.
    pub(super) fn field(self, message: &mut Message<'_>, field: u32) {
        match self.kind {
            kind::DOUBLE => message.double(field, f64::from_bits(self.word)),
            kind::FLOAT => message.float(field, f32::from_bits(self.word as u32)),
            kind::ZIGZAG => message.zigzag(field, self.word as i64),
            kind::FIXED64 => message.fixed64(field, self.word),
            kind::FIXED32 => message.fixed32(field, self.word as u32),
            kind::TEXT => message.bytes(field, self.text),
            _ => message.uint(field, self.word),
        }
    }

    /// Writes it as the value of a `DebugAnnotation`.
    #[inline]
    pub(super) fn annotation(self, message: &mut Message<'_>) {
        match self.kind {
            kind::BOOL => message.uint(debug_annotation::BOOL_VALUE, self.word),
            kind::SIGNED | kind::ZIGZAG => {
                message.int(debug_annotation::INT_VALUE, self.word as i64)
            }
            kind::DOUBLE => {
                message.double(debug_annotation::DOUBLE_VALUE, f64::from_bits(self.word))
            }
            kind::FLOAT => message
                .double(debug_annotation::DOUBLE_VALUE, f32::from_bits(self.word as u32).into()),
            kind::TEXT => {
                message.text(debug_annotation::STRING_VALUE, &String::from_utf8_lossy(self.text))
            }
            kind::POINTER => message.uint(debug_annotation::POINTER_VALUE, self.word),
            _ => message.uint(debug_annotation::UINT_VALUE, self.word),
        }
    }
}
