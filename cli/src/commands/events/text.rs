//! An event as a line of text.

use super::field::FieldFormat;
use crate::commands::info::hex;
use memledger_analysis::read::{Event, Value};
use std::io::{self, Write};

/// Writes an event as one line.
pub fn write(
    event: &Event<'_>,
    thread: Option<u32>,
    name: &str,
    fields: &[FieldFormat],
    bookmark: Option<&str>,
    stack: Option<&[String]>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let or_none = |number: Option<String>| number.unwrap_or_else(|| "-".to_owned());
    let serial = or_none(event.serial.map(|serial| serial.to_string()));
    let thread = or_none(thread.map(|thread| thread.to_string()));
    write!(out, "{serial:>8} {thread:>5}  {name}")?;
    for (index, field) in fields.iter().enumerate() {
        if let Some(text) = bookmark.filter(|_| field.name == "FormatArgs") {
            write!(out, " Text=\"{}\"", text.escape_debug())?;
        } else if let Some(value) = event.value(index) {
            write!(out, " {}=", field.name)?;
            value_text(&value, field, out)?;
        }
    }
    if !event.attachment().is_empty() {
        write!(out, " attachment={}", hex(event.attachment()))?;
    }
    if let Some(stack) = stack {
        write!(out, " Stack=\"{}\"", stack.join(" < ").escape_debug())?;
    }
    writeln!(out, "{}", if event.enters_scope { " {" } else { "" })
}

fn value_text(value: &Value<'_>, field: &FieldFormat, out: &mut dyn Write) -> io::Result<()> {
    match value {
        Value::Unsigned(number) if field.is_address => write!(out, "0x{number:x}"),
        Value::Unsigned(number) => write!(out, "{number}"),
        Value::Signed(number) if field.is_address => {
            write!(out, "0x{:x}", field.address_of(*number))
        }
        Value::Signed(number) => write!(out, "{number}"),
        Value::Float(number) => write!(out, "{number}"),
        Value::Text(text) => write!(out, "\"{}\"", text.escape_debug()),
        Value::Array(values) => {
            out.write_all(b"[")?;
            for (index, value) in values.iter().enumerate() {
                out.write_all(if index > 0 { b", " } else { b"" })?;
                value_text(value, field, out)?;
            }
            out.write_all(b"]")
        }
        _ => out.write_all(b"?"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use memledger_export::text::escape;

    #[test]
    fn what_a_trace_says_cannot_reach_the_terminal() {
        assert_eq!(escape("a\u{1b}[2J\n\u{202e}"), "a\\u{1b}[2J\\n\\u{202e}");
        let mut out = Vec::new();
        let value = Value::Text("\u{7}\"\\".into());
        assert!(value_text(&value, &FieldFormat::default(), &mut out).is_ok());
        assert_eq!(String::from_utf8_lossy(&out), r#""\u{7}\"\\""#);
    }
}
