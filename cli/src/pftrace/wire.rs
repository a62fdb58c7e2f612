//! Protocol buffers without a schema: the fields of a message, one after the other.

use prost::encoding::{WireType, decode_key, decode_varint};

/// The value of a field, as it is on the wire.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Raw<'a> {
    Varint(u64),
    Fixed64(u64),
    Fixed32(u32),
    Bytes(&'a [u8]),
}

/// The fields of a message. The last one is an error where the rest cannot be read.
pub struct Fields<'a> {
    rest: &'a [u8],
}

/// Bytes that are no field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Damaged {
    /// The bytes from there to the end.
    pub bytes: usize,
}

impl<'a> Fields<'a> {
    pub fn of(message: &'a [u8]) -> Self {
        Self { rest: message }
    }

    fn take(&mut self, bytes: u64) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(usize::try_from(bytes).ok()?)?;
        self.rest = rest;
        Some(taken)
    }

    fn field(&mut self) -> Option<(u32, Raw<'a>)> {
        let (number, kind) = decode_key(&mut self.rest).ok()?;
        let value = match kind {
            WireType::Varint => Raw::Varint(decode_varint(&mut self.rest).ok()?),
            WireType::SixtyFourBit => {
                Raw::Fixed64(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
            }
            WireType::ThirtyTwoBit => {
                Raw::Fixed32(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
            }
            WireType::LengthDelimited => {
                let length = decode_varint(&mut self.rest).ok()?;
                Raw::Bytes(self.take(length)?)
            }
            // Groups, which Perfetto does not have.
            WireType::StartGroup | WireType::EndGroup => return None,
        };
        Some((number, value))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u32, Raw<'a>), Damaged>;

    fn next(&mut self) -> Option<Self::Item> {
        let bytes = self.rest.len();
        if bytes == 0 {
            return None;
        }
        let field = self.field();
        if field.is_none() {
            self.rest = &[];
        }
        Some(field.ok_or(Damaged { bytes }))
    }
}

/// The numbers of a packed field of varints; `None` if it is no such field.
pub fn unpacked(mut bytes: &[u8]) -> Option<Vec<u64>> {
    let mut values = Vec::new();
    while !bytes.is_empty() {
        values.push(decode_varint(&mut bytes).ok()?);
    }
    Some(values)
}
