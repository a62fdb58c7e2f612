//! The values of an event, in the order of its site's roles.

use crate::perfetto::value::kind;
use memledger_format::protobuf::Message;
use memledger_format::protobuf::perfetto::debug_annotation;

/// The values of an event that were not taken yet.
#[derive(Clone, Copy)]
pub(in crate::perfetto::tracker) struct Values<'a> {
    /// Four bits each, the first one lowest: room for `MAX_VALUES`.
    pub(in crate::perfetto::tracker) kinds: u128,
    /// Eight bytes each, as in the event.
    pub(in crate::perfetto::tracker) words: &'a [u8],
    pub(in crate::perfetto::tracker) texts: &'a [&'a [u8]],
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

    /// The word with this index; 0 if there is none.
    #[inline]
    pub(super) fn word(&self, index: usize) -> u64 {
        let word = self.words.get(8 * index..8 * index + 8).and_then(<[u8]>::first_chunk);
        word.copied().map_or(0, u64::from_le_bytes)
    }

    pub(super) fn kind(&self, index: usize) -> u8 {
        (self.kinds >> (4 * index)) as u8 & 0xf
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
        let field = annotation_field(self.kind);
        match self.kind {
            kind::DOUBLE => message.double(field, f64::from_bits(self.word)),
            kind::FLOAT => message.double(field, f32::from_bits(self.word as u32).into()),
            // PERF: `from_utf8_lossy` looks at each byte.
            kind::TEXT => match std::str::from_utf8(self.text) {
                Ok(text) => message.text(field, text),
                Err(_) => message.text(field, &String::from_utf8_lossy(self.text)),
            },
            _ => message.uint(field, self.word),
        }
    }
}

/// The field of a value of this kind in a `DebugAnnotation`.
#[inline]
pub(super) fn annotation_field(kind: u8) -> u32 {
    match kind {
        kind::BOOL => debug_annotation::BOOL_VALUE,
        kind::SIGNED | kind::ZIGZAG => debug_annotation::INT_VALUE,
        kind::DOUBLE | kind::FLOAT => debug_annotation::DOUBLE_VALUE,
        kind::TEXT => debug_annotation::STRING_VALUE,
        kind::POINTER => debug_annotation::POINTER_VALUE,
        _ => debug_annotation::UINT_VALUE,
    }
}
