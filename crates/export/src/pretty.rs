//! JSON laid out for people, two spaces a level, as `serde_json` lays it out.
//!
//! NOTE: not `serde_json` itself. It implements `PartialEq<Value>` for the integers, strings and
//! `bool`, and every program that depends on this library would see that: in `assert_eq!(x, [])`
//! the compiler could no longer infer the type (19 such places in rayon's own tests). Writing JSON
//! takes one page of code; a reader would take much more.

use memledger_document::{FIGURES, Figure, Figures, MOVES, Moves, Unit};
use std::io::{self, Write};

/// What can be written as JSON.
pub trait Json {
    fn write(&self, value: Value<'_, '_>) -> io::Result<()>;
}

/// Writes values of each type as objects of these entries. In `..figures`, they are the columns of a row.
macro_rules! objects {
    ($($type:ty, $of:pat => {
        $($key:literal: $entry:expr,)*
        $(..$figures:expr, $($further:literal: $more:expr,)*)?
    })+) => {$(
        impl Json for $type {
            fn write(&self, value: Value<'_, '_>) -> io::Result<()> {
                let $of = self;
                value.object(|object| {
                    $(object.entry($key, &$entry)?;)*
                    $(
                        $crate::pretty::columns(object, &$figures)?;
                        $(object.entry($further, &$more)?;)*
                    )?
                    Ok(())
                })
            }
        }
    )+};
}
pub(crate) use objects;

/// Writes `value` as one JSON document, without a line feed at the end.
pub fn write(value: &impl Json, out: &mut dyn Write) -> io::Result<()> {
    value.write(Value(&mut Writer { out, depth: 0, on_one_line: false }))
}

struct Writer<'a> {
    out: &'a mut dyn Write,
    depth: usize,
    on_one_line: bool,
}

/// Where one value is written.
pub struct Value<'w, 'a>(&'w mut Writer<'a>);

/// An object that is being written.
pub struct Object<'w, 'a> {
    writer: &'w mut Writer<'a>,
    any: bool,
}

impl<'a> Value<'_, 'a> {
    /// Writes an object of the entries that `fill` adds.
    pub fn object(
        self,
        fill: impl FnOnce(&mut Object<'_, 'a>) -> io::Result<()>,
    ) -> io::Result<()> {
        self.0.out.write_all(b"{")?;
        self.0.depth += 1;
        let mut object = Object { writer: self.0, any: false };
        fill(&mut object)?;
        let Object { writer, any } = object;
        writer.close(any, b"}")
    }
}

#[cfg(feature = "html")]
impl Value<'_, '_> {
    /// Writes a string of what `fill` writes, in which nothing needs an escape.
    pub fn plain_text(self, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
        let Value(writer) = self;
        writer.out.write_all(b"\"")?;
        fill(&mut *writer.out)?;
        writer.out.write_all(b"\"")
    }
}

impl Object<'_, '_> {
    /// Adds an entry.
    #[inline]
    pub fn entry(&mut self, key: &str, value: &(impl Json + ?Sized)) -> io::Result<()> {
        self.any_entry(key, &value)
    }

    // PERF: compiled once, not for each type.
    fn any_entry(&mut self, key: &str, value: &dyn Json) -> io::Result<()> {
        self.writer.next(&mut self.any)?;
        self.writer.text(key)?;
        self.writer.out.write_all(b": ")?;
        value.write(Value(self.writer))
    }
}

impl Writer<'_> {
    fn line(&mut self) -> io::Result<()> {
        if self.on_one_line {
            return Ok(());
        }
        self.out.write_all(b"\n")?;
        (0..self.depth).try_for_each(|_| self.out.write_all(b"  "))
    }

    /// Begins the next entry of an array or object.
    fn next(&mut self, any: &mut bool) -> io::Result<()> {
        if std::mem::replace(any, true) {
            self.out.write_all(b",")?;
        }
        self.line()
    }

    fn close(&mut self, any: bool, bracket: &[u8]) -> io::Result<()> {
        self.depth -= 1;
        if any {
            self.line()?;
        }
        self.out.write_all(bracket)
    }

    fn text(&mut self, text: &str) -> io::Result<()> {
        self.out.write_all(b"\"")?;
        let mut plain = 0;
        for (at, byte) in text.bytes().enumerate() {
            if byte >= b' ' && byte != b'"' && byte != b'\\' {
                continue;
            }
            // Escaped bytes are ASCII, so these positions are boundaries of characters.
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
        self.out.write_all(b"\"")
    }
}

macro_rules! as_displayed {
    ($($type:ty),+) => {
        $(impl Json for $type {
            fn write(&self, value: Value<'_, '_>) -> io::Result<()> {
                write!(value.0.out, "{self}")
            }
        })+
    };
}

as_displayed!(bool, u32, u64, usize, i64, i128);

impl Json for str {
    fn write(&self, value: Value<'_, '_>) -> io::Result<()> {
        value.0.text(self)
    }
}

impl Json for String {
    fn write(&self, value: Value<'_, '_>) -> io::Result<()> {
        value.0.text(self)
    }
}

impl<T: Json + ?Sized> Json for &T {
    fn write(&self, value: Value<'_, '_>) -> io::Result<()> {
        (**self).write(value)
    }
}

impl Json for Box<dyn Json + '_> {
    fn write(&self, value: Value<'_, '_>) -> io::Result<()> {
        (**self).write(value)
    }
}

impl<T: Json> Json for Option<T> {
    fn write(&self, value: Value<'_, '_>) -> io::Result<()> {
        match self {
            Some(some) => some.write(value),
            None => value.0.out.write_all(b"null"),
        }
    }
}

impl<T: Json> Json for Vec<T> {
    fn write(&self, value: Value<'_, '_>) -> io::Result<()> {
        List(self.iter()).write(value)
    }
}

/// A list of elements that are made while they are written.
#[derive(Debug)]
pub struct List<I>(pub I);

impl<T: Json, I: Iterator<Item = T> + Clone> Json for List<I> {
    fn write(&self, value: Value<'_, '_>) -> io::Result<()> {
        let Value(writer) = value;
        writer.out.write_all(b"[")?;
        writer.depth += 1;
        let mut any = false;
        for element in self.0.clone() {
            writer.next(&mut any)?;
            element.write(Value(writer))?;
        }
        writer.close(any, b"]")
    }
}

/// A value that is written on one line, because there are many such values in a document.
#[derive(Debug)]
pub struct OneLine<T>(pub T);

impl<T: Json> Json for OneLine<T> {
    fn write(&self, value: Value<'_, '_>) -> io::Result<()> {
        let Value(writer) = value;
        let around = std::mem::replace(&mut writer.on_one_line, true);
        let written = self.0.write(Value(writer));
        writer.on_one_line = around;
        written
    }
}

/// Adds the entry of a figure.
pub(crate) fn figure<T>(object: &mut Object<'_, '_>, figure: &Figure<T>, of: &T) -> io::Result<()> {
    let number = (figure.of)(of);
    match figure.unit {
        Unit::Flag => object.entry(figure.key, &number.map(|flag| flag == 1)),
        _ => object.entry(figure.key, &number),
    }
}

/// Adds an entry for each figure of a table.
pub(crate) fn figures<T: 'static>(
    object: &mut Object<'_, '_>,
    mut table: impl Iterator<Item = &'static Figure<T>>,
    of: &T,
) -> io::Result<()> {
    table.try_for_each(|entry| figure(object, entry, of))
}

/// Adds the columns of a row.
pub(crate) fn columns(object: &mut Object<'_, '_>, row: &Figures) -> io::Result<()> {
    figures(object, FIGURES.iter(), row)?;
    moves(object, [row.moved_in, row.moved_out])
}

/// Adds the figures of moved blocks, if any block moved.
pub(crate) fn moves(object: &mut Object<'_, '_>, moved: [Moves; 2]) -> io::Result<()> {
    if moved == <[Moves; 2]>::default() {
        return Ok(());
    }
    figures(object, MOVES.iter(), &moved)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(value: &impl Json) -> String {
        let mut bytes = Vec::new();
        write(value, &mut bytes).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    /// The same document, parsed and written by `serde_json`.
    fn again(text: &str) -> String {
        let value = serde_json::from_str::<serde_json::Value>(text).unwrap();
        serde_json::to_string_pretty(&value).unwrap()
    }

    #[test]
    fn values_are_as_serde_json_writes_them() {
        let all_ascii = (0..=127_u8).map(char::from).collect::<String>();
        for text in ["", "plain", "\"\\/", "é\n漢\u{1}", "\u{7f}\u{2028}", &all_ascii] {
            assert_eq!(written(&text), serde_json::to_string_pretty(text).unwrap());
        }
        let numbers = vec![u64::MAX, 0, 1];
        assert_eq!(written(&numbers), serde_json::to_string_pretty(&numbers).unwrap());
        let nested = vec![vec![Some(true), None], vec![]];
        assert_eq!(written(&nested), serde_json::to_string_pretty(&nested).unwrap());
    }

    #[test]
    fn many_values_can_be_on_one_line() {
        let lines = vec![OneLine(vec![1_u64, 2]), OneLine(vec![])];
        assert_eq!(written(&lines), "[\n  [1,2],\n  []\n]");
        assert_eq!(again(&written(&lines)), written(&vec![vec![1_u64, 2], vec![]]));
    }

    #[test]
    fn objects_are_as_serde_json_writes_them() {
        struct Sample(u32);
        impl Json for Sample {
            fn write(&self, value: Value<'_, '_>) -> io::Result<()> {
                value.object(|object| {
                    if self.0 > 0 {
                        object.entry("a \"key\"", &Sample(self.0 - 1))?;
                        object.entry("list", &vec![Sample(0), Sample(self.0 - 1)])?;
                    }
                    Ok(())
                })
            }
        }
        for depth in 0..4 {
            let text = written(&Sample(depth));
            assert_eq!(text, again(&text));
        }
    }
}
