//! Messages of protocol buffers: a field is its number, the kind of its value, and the value.

/// The kind of a number.
const VARINT: u64 = 0;
/// The kind of bytes: their length precedes them.
const LENGTH_DELIMITED: u64 = 2;

/// A message that is being written. A field that is 0, false or empty is left out, as the format says.
#[derive(Default)]
pub(super) struct Message(Vec<u8>);

impl Message {
    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    pub(super) fn number(&mut self, field: u32, value: u64) {
        if value != 0 {
            self.key(field, VARINT);
            self.varint(value);
        }
    }

    pub(super) fn flag(&mut self, field: u32, value: bool) {
        self.number(field, value.into());
    }

    /// An element of a repeated field, which is written though it is empty.
    pub(super) fn text(&mut self, field: u32, text: &str) {
        self.bytes(field, text.as_bytes());
    }

    /// An element of a repeated field, or a field that is there.
    pub(super) fn message(&mut self, field: u32, message: &Message) {
        self.bytes(field, &message.0);
    }

    /// The elements of a repeated field of numbers, of which zeros are written, too.
    pub(super) fn packed(&mut self, field: u32, values: impl IntoIterator<Item = u64>) {
        let mut packed = Message::default();
        values.into_iter().for_each(|value| packed.varint(value));
        if !packed.0.is_empty() {
            self.message(field, &packed);
        }
    }

    fn bytes(&mut self, field: u32, bytes: &[u8]) {
        self.key(field, LENGTH_DELIMITED);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn key(&mut self, field: u32, kind: u64) {
        self.varint(u64::from(field) << 3 | kind);
    }

    /// Seven bits a byte, the lowest first; all bytes but the last have the highest bit set.
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of the documentation of the encoding.
    #[test]
    fn fields_are_encoded_as_documented() {
        let mut message = Message::default();
        message.number(1, 150);
        message.text(2, "testing");
        message.packed(4, [3, 270, 86942]);
        message.number(5, 0);
        message.flag(6, false);
        let mut expected = vec![0x08, 0x96, 0x01, 0x12, 0x07];
        expected.extend_from_slice(b"testing");
        expected.extend_from_slice(&[0x22, 0x06, 0x03, 0x8e, 0x02, 0x9e, 0xa7, 0x05]);
        assert_eq!(message.into_bytes(), expected);

        let mut message = Message::default();
        message.number(1, u64::MAX);
        let mut expected = vec![0x08];
        expected.extend_from_slice(&[0xff; 9]);
        expected.push(0x01);
        assert_eq!(message.into_bytes(), expected);
    }
}
