//! An event as JSON.

use super::field::FieldFormat;
use crate::commands::info::hex;
use memledger_analysis::read::{Event, Value};
use serde_json::Value as Json;
use std::io::{self, Write};

/// Writes an event as an element of an array.
pub fn write(
    event: &Event<'_>,
    thread: Option<u32>,
    fields: &[FieldFormat],
    bookmark: Option<&str>,
    stack: Option<&[String]>,
    first: bool,
    out: &mut dyn Write,
) -> io::Result<()> {
    let quoted = |text: &str| Json::from(text);
    let number = |number: Option<u64>| number.map_or(Json::Null, Into::into);
    // NOTE: written by hand, so that fields keep the order of their declaration.
    write!(
        out,
        "{}\n{{\"serial\":{},\"thread\":{},\"name\":{},\"enters_scope\":{},\"fields\":{{",
        if first { "" } else { "," },
        number(event.serial),
        number(thread.map(u64::from)),
        quoted(&event.event_type.name()),
        event.enters_scope
    )?;
    for (index, (field, format)) in event.event_type.fields.iter().zip(fields).enumerate() {
        if let Some(value) = event.value(index) {
            let value = value_json(&value, format);
            write!(out, "{}{}:{value}", if index > 0 { "," } else { "" }, quoted(&field.name))?;
        }
    }
    out.write_all(b"}")?;
    if !event.attachment().is_empty() {
        write!(out, ",\"attachment\":\"{}\"", hex(event.attachment()))?;
    }
    if let Some(text) = bookmark {
        write!(out, ",\"text\":{}", quoted(text))?;
    }
    if let Some(stack) = stack {
        write!(out, ",\"stack\":{}", Json::from(stack))?;
    }
    out.write_all(b"}")
}

fn value_json(value: &Value<'_>, field: &FieldFormat) -> Json {
    match value {
        Value::Unsigned(number) if field.is_address => format!("0x{number:x}").into(),
        Value::Unsigned(number) => (*number).into(),
        Value::Signed(number) if field.is_address => {
            format!("0x{:x}", field.address_of(*number)).into()
        }
        Value::Signed(number) => (*number).into(),
        // Not every float is a number in JSON.
        Value::Float(number) => (*number).into(),
        Value::Text(text) => text.as_ref().into(),
        Value::Array(values) => values.iter().map(|value| value_json(value, field)).collect(),
        _ => Json::Null,
    }
}
