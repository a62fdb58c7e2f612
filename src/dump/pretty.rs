//! JSON as `serde_json` lays it out for people, for what a report is made of.
//!
//! NOTE: not `serde_json` itself. It implements `PartialEq<Value>` for the integers, strings and
//! `bool`, and every program that depends on this library would see that: in `assert_eq!(x, [])`
//! the compiler could no longer infer the type (19 such places in rayon's own tests).

use serde::ser::{self, Impossible, Serialize, SerializeMap, SerializeSeq};
use std::fmt::Display;
use std::io::{self, Write};

/// Writes `value` as one JSON document, without a line feed at the end.
pub(super) fn write(value: &impl Serialize, out: &mut dyn Write) -> io::Result<()> {
    value.serialize(&mut Writer { out, depth: 0 }).map_err(|error| error.0)
}

struct Writer<'a> {
    out: &'a mut dyn Write,
    depth: usize,
}

#[derive(Debug)]
struct Error(io::Error);

impl Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Error {}

impl ser::Error for Error {
    fn custom<T: Display>(message: T) -> Self {
        Self(io::Error::other(message.to_string()))
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self(error)
    }
}

impl<'a> Writer<'a> {
    fn line(&mut self) -> Result<(), Error> {
        self.out.write_all(b"\n")?;
        for _ in 0..self.depth {
            self.out.write_all(b"  ")?;
        }
        Ok(())
    }

    fn text(&mut self, text: &str) -> Result<(), Error> {
        self.out.write_all(b"\"")?;
        let mut plain = 0;
        for (at, byte) in text.bytes().enumerate() {
            if byte >= b' ' && byte != b'"' && byte != b'\\' {
                continue;
            }
            // What is escaped is ASCII, so these are boundaries of characters.
            self.out.write_all(text.get(plain..at).unwrap_or_default().as_bytes())?;
            plain = at + 1;
            match byte {
                b'"' | b'\\' => self.out.write_all(&[b'\\', byte])?,
                b'\n' => self.out.write_all(b"\\n")?,
                b'\r' => self.out.write_all(b"\\r")?,
                b'\t' => self.out.write_all(b"\\t")?,
                0x08 => self.out.write_all(b"\\b")?,
                0x0c => self.out.write_all(b"\\f")?,
                _ => write!(self.out, "\\u{byte:04x}")?,
            }
        }
        self.out.write_all(text.get(plain..).unwrap_or_default().as_bytes())?;
        Ok(self.out.write_all(b"\"")?)
    }
}

/// The entries of an array or an object.
struct Entries<'w, 'a> {
    writer: &'w mut Writer<'a>,
    close: &'static [u8],
    any: bool,
}

impl Entries<'_, '_> {
    fn next(&mut self) -> Result<(), Error> {
        if std::mem::replace(&mut self.any, true) {
            self.writer.out.write_all(b",")?;
        }
        self.writer.line()
    }

    fn close(self) -> Result<(), Error> {
        self.writer.depth -= 1;
        if self.any {
            self.writer.line()?;
        }
        Ok(self.writer.out.write_all(self.close)?)
    }
}

impl SerializeSeq for Entries<'_, '_> {
    type Ok = ();
    type Error = Error;

    fn serialize_element<T: ?Sized + Serialize>(&mut self, value: &T) -> Result<(), Error> {
        self.next()?;
        value.serialize(&mut *self.writer)
    }

    fn end(self) -> Result<(), Error> {
        self.close()
    }
}

impl SerializeMap for Entries<'_, '_> {
    type Ok = ();
    type Error = Error;

    fn serialize_key<T: ?Sized + Serialize>(&mut self, key: &T) -> Result<(), Error> {
        self.next()?;
        key.serialize(&mut *self.writer)
    }

    fn serialize_value<T: ?Sized + Serialize>(&mut self, value: &T) -> Result<(), Error> {
        self.writer.out.write_all(b": ")?;
        value.serialize(&mut *self.writer)
    }

    fn end(self) -> Result<(), Error> {
        self.close()
    }
}

/// Methods that print their argument as it is.
macro_rules! plain {
    ($($method:ident: $type:ty),+) => {
        $(fn $method(self, value: $type) -> Result<(), Error> {
            Ok(write!(self.out, "{value}")?)
        })+
    };
}

/// Methods for what a report has not.
macro_rules! absent {
    ($($method:ident($($type:ty),*) -> $ok:ty),+ $(,)?) => {
        $(fn $method(self, $(_: $type),*) -> Result<$ok, Error> {
            Err(ser::Error::custom("not part of a report"))
        })+
    };
}

type Absent = Impossible<(), Error>;

impl<'w, 'a> ser::Serializer for &'w mut Writer<'a> {
    type Ok = ();
    type Error = Error;
    type SerializeSeq = Entries<'w, 'a>;
    type SerializeMap = Entries<'w, 'a>;
    type SerializeTuple = Absent;
    type SerializeTupleStruct = Absent;
    type SerializeTupleVariant = Absent;
    type SerializeStruct = Absent;
    type SerializeStructVariant = Absent;

    plain!(
        serialize_bool: bool,
        serialize_i8: i8, serialize_i16: i16, serialize_i32: i32, serialize_i64: i64,
        serialize_u8: u8, serialize_u16: u16, serialize_u32: u32, serialize_u64: u64
    );

    absent!(
        serialize_f32(f32) -> (),
        serialize_f64(f64) -> (),
        serialize_char(char) -> (),
        serialize_bytes(&[u8]) -> (),
        serialize_unit_struct(&'static str) -> (),
        serialize_unit_variant(&'static str, u32, &'static str) -> (),
        serialize_tuple(usize) -> Absent,
        serialize_tuple_struct(&'static str, usize) -> Absent,
        serialize_tuple_variant(&'static str, u32, &'static str, usize) -> Absent,
        serialize_struct(&'static str, usize) -> Absent,
        serialize_struct_variant(&'static str, u32, &'static str, usize) -> Absent,
    );

    fn serialize_str(self, value: &str) -> Result<(), Error> {
        self.text(value)
    }

    fn serialize_none(self) -> Result<(), Error> {
        self.serialize_unit()
    }

    fn serialize_some<T: ?Sized + Serialize>(self, value: &T) -> Result<(), Error> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), Error> {
        Ok(self.out.write_all(b"null")?)
    }

    fn serialize_newtype_struct<T: ?Sized + Serialize>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: ?Sized + Serialize>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: &T,
    ) -> Result<(), Error> {
        Err(ser::Error::custom("not part of a report"))
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Entries<'w, 'a>, Error> {
        self.out.write_all(b"[")?;
        self.depth += 1;
        Ok(Entries { writer: self, close: b"]", any: false })
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Entries<'w, 'a>, Error> {
        self.out.write_all(b"{")?;
        self.depth += 1;
        Ok(Entries { writer: self, close: b"}", any: false })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn is_as_serde_json_writes(value: &impl Serialize) {
        let mut bytes = Vec::new();
        write(value, &mut bytes).unwrap();
        let expected = serde_json::to_string_pretty(value).unwrap();
        assert_eq!(String::from_utf8(bytes).unwrap(), expected);
    }

    #[test]
    fn values_are_as_serde_json_writes_them() {
        let all_ascii = (0..=127_u8).map(char::from).collect::<String>();
        for text in ["", "plain", "\"\\/", "é\n漢\u{1}", "\u{7f}\u{2028}", &all_ascii] {
            is_as_serde_json_writes(&text);
        }
        is_as_serde_json_writes(&vec![u64::MAX, 0, 1]);
        is_as_serde_json_writes(&vec![i64::MIN, -1]);
        let nested = BTreeMap::from([
            ("none", vec![None, Some(BTreeMap::from([("x\"y", true)]))]),
            ("empty", vec![]),
            ("an empty one", vec![Some(BTreeMap::new()), None]),
        ]);
        is_as_serde_json_writes(&nested);
        is_as_serde_json_writes(&BTreeMap::<&str, u8>::new());
    }

    #[test]
    fn a_report_is_as_serde_json_writes_it() {
        is_as_serde_json_writes(&crate::analysis::Analyzer::new().report());
    }

    #[test]
    fn what_a_report_has_not_is_an_error() {
        assert!(write(&1.5, &mut Vec::new()).is_err());
    }
}
