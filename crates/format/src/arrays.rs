//! The data of array and string fields, and its encoding in pieces.
//!
//! ```text
//! u8 1 (important event) or 2 (on a thread's stream)   u5 index of the field   u19 bytes   data
//! ```
//! The data of one field can be in several pieces, one after the other, each with whole elements.

/// Bytes before the data of a piece.
pub const PIECE_HEAD: usize = 4;
/// Fields beyond the first 32 cannot be arrays: the wire has five bits for their index.
pub const MAX_INDEX: usize = 31;

/// The value of an array or string field.
#[derive(Clone, Copy, Debug)]
pub enum Aux<'a> {
    /// Nothing, or no such field.
    None,
    /// Elements as they are in memory, and the size of one element in bytes.
    Elements(&'a [u8], usize),
    /// UTF-16 text for a byte string: seven bits of each unit.
    Narrowed(&'a [u16]),
    /// UTF-8 text for a byte string: seven bits of each of its UTF-16 units.
    NarrowedText(&'a str),
    /// UTF-8 text for a UTF-16 string.
    Widened(&'a str),
}

impl Aux<'_> {
    /// Bytes of the data.
    pub fn size(self) -> usize {
        match self {
            Self::None => 0,
            Self::Elements(bytes, _) => bytes.len(),
            Self::Narrowed(units) => units.len(),
            Self::NarrowedText(text) => units_of(text),
            Self::Widened(text) => 2 * units_of(text),
        }
    }

    /// Bytes of one element. The size of a piece is a multiple of it.
    pub fn element(self) -> usize {
        match self {
            Self::None | Self::Narrowed(_) | Self::NarrowedText(_) => 1,
            Self::Elements(_, size) => size,
            Self::Widened(_) => 2,
        }
    }
}

/// UTF-16 units of a text.
fn units_of(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.encode_utf16().count() }
}

/// The head of a piece: `shift` is 1 on a thread's stream, 0 in an important event.
pub fn piece_head(index: usize, size: usize, shift: u32) -> [u8; PIECE_HEAD] {
    (1_u32 << shift | (index as u32) << 8 | (size as u32) << 13).to_le_bytes()
}

/// An iterator over the data of a field, in parts.
#[derive(Debug)]
pub enum Source<'a> {
    /// Bytes to be copied.
    Elements(std::slice::Iter<'a, u8>),
    /// See [`Aux::Narrowed`].
    Narrowed(std::slice::Iter<'a, u16>),
    /// See [`Aux::NarrowedText`].
    NarrowedText(std::str::EncodeUtf16<'a>),
    /// See [`Aux::Widened`].
    Widened(std::str::EncodeUtf16<'a>),
}

impl<'a> Source<'a> {
    /// All of `aux`.
    pub fn new(aux: Aux<'a>) -> Self {
        match aux {
            Aux::None => Self::Elements([].iter()),
            Aux::Elements(bytes, _) => Self::Elements(bytes.iter()),
            Aux::Narrowed(units) => Self::Narrowed(units.iter()),
            Aux::NarrowedText(text) if text.is_ascii() => Self::Elements(text.as_bytes().iter()),
            Aux::NarrowedText(text) => Self::NarrowedText(text.encode_utf16()),
            Aux::Widened(text) => Self::Widened(text.encode_utf16()),
        }
    }

    /// Fills `out`, whose length is a multiple of the element size, with the next bytes.
    pub fn fill(&mut self, out: &mut [u8]) {
        match self {
            Self::Elements(bytes) => {
                let (now, rest) = bytes.as_slice().split_at(out.len().min(bytes.len()));
                if let Some(out) = out.get_mut(..now.len()) {
                    out.copy_from_slice(now);
                }
                *bytes = rest.iter();
            }
            Self::Narrowed(units) => {
                out.iter_mut().zip(units).for_each(|(byte, unit)| *byte = *unit as u8 & 0x7f);
            }
            Self::NarrowedText(units) => {
                out.iter_mut().zip(units).for_each(|(byte, unit)| *byte = unit as u8 & 0x7f);
            }
            Self::Widened(units) => {
                for (pair, unit) in out.as_chunks_mut::<2>().0.iter_mut().zip(units) {
                    *pair = unit.to_le_bytes();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_division_gives_the_same_bytes() {
        let wide = "aé€𝄞z".encode_utf16().collect::<Vec<_>>();
        let utf16 = wide.iter().flat_map(|unit| unit.to_le_bytes()).collect::<Vec<_>>();
        let narrow = wide.iter().map(|unit| *unit as u8 & 0x7f).collect::<Vec<_>>();
        let numbers = (0..24).collect::<Vec<u8>>();
        for (aux, expected) in [
            (Aux::None, &[][..]),
            (Aux::Elements(&numbers, 8), &numbers),
            (Aux::Narrowed(&wide), &narrow),
            (Aux::NarrowedText("aé€𝄞z"), &narrow),
            (Aux::NarrowedText("all of it is ASCII"), b"all of it is ASCII"),
            (Aux::Widened("aé€𝄞z"), &utf16),
        ] {
            assert_eq!(aux.size(), expected.len());
            for elements in 1..10 {
                let mut source = Source::new(aux);
                let mut bytes = vec![0xaa; expected.len()];
                bytes.chunks_mut(elements * aux.element()).for_each(|piece| source.fill(piece));
                assert_eq!(bytes, expected);
            }
        }
    }

    #[test]
    fn exact_bytes_of_a_head() {
        assert_eq!(piece_head(3, 5, 1), [0x02, 0xa3, 0, 0]);
        assert_eq!(piece_head(31, (1 << 19) - 1, 0), [0x01, 0xff, 0xff, 0xff]);
    }
}
