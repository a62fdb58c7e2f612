//! One request or one response.
//!
//! ```text
//! u32 size (little-endian, what follows)   0xbf   key value   key value ...   0xff
//! ```
//!
//! The map is written with an indefinite length, as by Unreal. Maps of definite length can also be read.

use crate::{Error, ErrorKind};
use ciborium::Value;

/// The maximum number of bytes of a request, without the size before it. Unreal's store has the
/// same limit.
pub const MAX_REQUEST: usize = 1024;
/// The maximum number of bytes of a response that the client accepts, without the size before it.
pub const MAX_RESPONSE: usize = 64 << 10;

/// The maximum nesting depth. Known writers nest no deeper than a map in a list in a field.
const MAX_DEPTH: usize = 8;
const MAP: u8 = 0xbf;
const END: u8 = 0xff;

/// A value in a [`Message`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MessageValue {
    /// A number.
    Integer(i64),
    /// A text.
    Text(String),
    /// Several texts.
    Texts(Vec<String>),
}

impl From<i64> for MessageValue {
    fn from(value: i64) -> Self {
        Self::Integer(value)
    }
}

impl From<u32> for MessageValue {
    fn from(value: u32) -> Self {
        Self::Integer(value.into())
    }
}

impl From<&str> for MessageValue {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

impl From<Vec<String>> for MessageValue {
    fn from(value: Vec<String>) -> Self {
        Self::Texts(value)
    }
}

/// A map with text keys, in the order in which they were set.
///
/// # Examples
/// ```
/// use memledger_store::Message;
///
/// let request = Message::request("v1/trace/info").with("index", 0_u32);
/// let bytes = request.encode();
/// assert_eq!(Message::decode(&bytes[4..])?, request);
/// # Ok::<(), memledger_store::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    fields: Vec<(String, MessageValue)>,
}

impl Message {
    /// A request.
    pub fn request(path: &str) -> Self {
        Self::default().with("$request", "GET").with("$path", path)
    }

    /// A response.
    pub fn response(status: u32) -> Self {
        Self::default().with("$status", status)
    }

    /// The message with one field more.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<MessageValue>) -> Self {
        self.fields.push((key.to_owned(), value.into()));
        self
    }

    /// The first field with this key.
    pub fn field(&self, key: &str) -> Option<&MessageValue> {
        self.fields.iter().find(|(known, _)| known == key).map(|(_, value)| value)
    }

    /// The number with this key.
    pub fn integer(&self, key: &str) -> Option<i64> {
        match self.field(key)? {
            MessageValue::Integer(value) => Some(*value),
            _ => None,
        }
    }

    /// The text with this key.
    pub fn text(&self, key: &str) -> Option<&str> {
        match self.field(key)? {
            MessageValue::Text(value) => Some(value),
            _ => None,
        }
    }

    /// The bytes on the wire, including the size before them.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0, 0, 0, 0, MAP];
        // NOTE: writing to memory cannot fail.
        let mut item = |value: Value| {
            let _ = ciborium::into_writer(&value, &mut bytes);
        };
        for (key, value) in &self.fields {
            item(Value::Text(key.clone()));
            item(match value {
                MessageValue::Integer(number) => Value::Integer((*number).into()),
                MessageValue::Text(text) => Value::Text(text.clone()),
                MessageValue::Texts(texts) => {
                    Value::Array(texts.iter().cloned().map(Value::Text).collect())
                }
            });
        }
        bytes.push(END);
        let size = (bytes.len() - 4) as u32;
        bytes[..4].copy_from_slice(&size.to_le_bytes());
        bytes
    }

    /// Decodes the bytes after the size. Ignores fields other than numbers, texts and lists of
    /// texts, because a newer peer may send fields of unknown types.
    ///
    /// Takes less memory than 64 times the size of `body`, whatever lengths `body` declares.
    /// Nesting deeper than 8 is an error.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidMessage`] with the reason.
    pub fn decode(body: &[u8]) -> Result<Self, Error> {
        let mut rest = body;
        let value = ciborium::de::from_reader_with_recursion_limit(&mut rest, MAX_DEPTH)
            .map_err(|error| wrong(body, error))?;
        if !rest.is_empty() {
            let (all, used) = (body.len(), body.len() - rest.len());
            return Err(Error::new(
                ErrorKind::InvalidMessage,
                format!("only {used} of its {all} bytes are a CBOR value"),
            ));
        }
        let Value::Map(pairs) = value else {
            return Err(Error::new(
                ErrorKind::InvalidMessage,
                "it is CBOR, but not a map".to_owned(),
            ));
        };
        let mut message = Self::default();
        for (key, value) in pairs {
            let Value::Text(key) = key else {
                return Err(Error::new(
                    ErrorKind::InvalidMessage,
                    "a key of its CBOR map is not a text".to_owned(),
                ));
            };
            let value = match value {
                Value::Integer(number) => match i64::try_from(i128::from(number)) {
                    Ok(number) => MessageValue::Integer(number),
                    Err(_) => {
                        return Err(Error::new(
                            ErrorKind::InvalidMessage,
                            "a number has more than 63 bits".to_owned(),
                        ));
                    }
                },
                Value::Text(text) => MessageValue::Text(text),
                Value::Array(values) => {
                    match values.into_iter().map(Value::into_text).collect::<Result<_, _>>() {
                        Ok(texts) => MessageValue::Texts(texts),
                        Err(_) => continue,
                    }
                }
                _ => continue,
            };
            message.fields.push((key, value));
        }
        Ok(message)
    }
}

fn wrong(body: &[u8], error: ciborium::de::Error<std::io::Error>) -> Error {
    use ciborium::de::Error::{Io, RecursionLimitExceeded, Semantic, Syntax};
    Error::new(
        ErrorKind::InvalidMessage,
        match error {
            Io(_) => format!("its CBOR ends after {} bytes, inside a value", body.len()),
            Syntax(offset) => format!("its byte {offset} is not CBOR"),
            Semantic(_, what) => format!("its CBOR is invalid: {what}"),
            RecursionLimitExceeded => format!("its CBOR is nested more than {MAX_DEPTH} deep"),
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn exact_bytes() {
        let message = Message::request("v1/status").with("id", 300_u32).with("n", -1_i64);
        let bytes = message.encode();
        assert_eq!(bytes[..5], [40, 0, 0, 0, 0xbf]);
        assert_eq!(&bytes[5..18], b"\x68$request\x63GET");
        assert_eq!(&bytes[18..34], b"\x65$path\x69v1/status");
        assert_eq!(bytes[34..], [0x62, b'i', b'd', 0x19, 1, 44, 0x61, b'n', 0x20, 0xff]);
    }

    #[test]
    fn a_map_of_known_length_is_taken_too() {
        let message = Message::decode(b"\xa2\x67$status\x18\xc8\x65count\x03").unwrap();
        assert_eq!((message.integer("$status"), message.integer("count")), (Some(200), Some(3)));
    }

    #[test]
    fn unknown_kinds_are_left_out_and_the_first_of_two_counts() {
        let message = Message::decode(
            b"\xbf\x61a\xf5\x61b\xfb\0\0\0\0\0\0\0\0\x61c\x81\x01\x61d\x01\x61d\x02\xff",
        )
        .unwrap();
        assert_eq!(message, Message { fields: message.fields.clone() });
        assert_eq!(message.integer("d"), Some(1));
        assert_eq!([message.field("a"), message.field("b"), message.field("c")], [None; 3]);
        assert_eq!(message.text("d"), None, "it is a number");
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        let deep = [vec![0x81; 1000], vec![1]].concat();
        let deep_tags = vec![0xc1; 1024];
        for (body, says) in [
            (&b""[..], "ends after 0 bytes"),
            (b"GET / HTTP/1.1\r\n\r\n", "only 8 of its 18 bytes"),
            (b"\xbf\x61a\x01", "ends after 4 bytes"),
            (b"\xbf\x61a\xff", "is invalid"),
            (b"\x01", "not a map"),
            (b"\xa1\x01\x01", "not a text"),
            (b"\xa0\xa0", "only 1 of its 2 bytes"),
            // A text, an array, bytes and a map of 2^62 elements each, in nine bytes.
            (b"\xbf\x61a\x7b\x40\0\0\0\0\0\0\0", "ends after"),
            (b"\xbf\x61a\x9b\x40\0\0\0\0\0\0\0", "ends after"),
            (b"\xbf\x61a\x5b\x40\0\0\0\0\0\0\0", "ends after"),
            (b"\xbb\x40\0\0\0\0\0\0\0", "ends after"),
            (b"\xbf\x61a\x1b\xff\xff\xff\xff\xff\xff\xff\xff\xff", "more than 63 bits"),
            (b"\xbf\x61a\x62\xff\xff\xff", ""),
            (&deep, "more than 8 deep"),
            (&deep_tags, ""),
        ] {
            let error = Message::decode(body).unwrap_err().to_string();
            assert!(error.contains(says), "{body:?}: {error}");
        }
    }

    fn field() -> impl Strategy<Value = MessageValue> {
        prop_oneof![
            any::<i64>().prop_map(MessageValue::Integer),
            ".{0,40}".prop_map(MessageValue::Text),
            prop::collection::vec(".{0,8}", 0..4).prop_map(MessageValue::Texts),
        ]
    }

    proptest! {
        #[test]
        fn round_trip(fields in prop::collection::vec((".{0,8}", field()), 0..12)) {
            let message = Message { fields };
            let bytes = message.encode();
            let size = u32::from_le_bytes(bytes[..4].try_into().unwrap()) as usize;
            prop_assert_eq!(size, bytes.len() - 4);
            prop_assert_eq!(Message::decode(&bytes[4..]).unwrap(), message);
            for end in 4..bytes.len() {
                prop_assert!(Message::decode(&bytes[4..end]).is_err());
            }
        }

        #[test]
        fn anything_may_come(body in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Message::decode(&body);
            let _ = Message::decode(&[&[MAP][..], &body].concat());
        }
    }
}
