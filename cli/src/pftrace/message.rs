//! A message as a tree, with the names of the schema.

use super::schema::{Field, Kind, Schema};
use super::wire::{Fields, Raw, unpacked};
use memledger::dump::text::escape;
use serde_json::{Value as Json, json};
use std::fmt::Write;

/// How deep messages are decoded; what is deeper is shown as bytes.
const MAX_DEPTH: usize = 32;

/// A message.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Message {
    pub fields: Vec<(u32, Option<&'static str>, Value)>,
    /// The bytes at its end that cannot be read.
    pub unread_bytes: usize,
}

/// The value of a field.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Uint(u64),
    Int(i64),
    Flag(bool),
    Id(u64),
    Double(f64),
    Text(String),
    Bytes(Vec<u8>),
    /// A value with a name.
    Name(u64, &'static str),
    Message(Message),
}

impl Message {
    pub fn decode(bytes: &[u8], schema: &Schema) -> Self {
        Self::at_depth(bytes, schema, 0)
    }

    fn at_depth(bytes: &[u8], schema: &Schema, depth: usize) -> Self {
        let mut message = Self::default();
        for field in Fields::of(bytes) {
            let (number, raw) = match field {
                Ok(field) => field,
                Err(damaged) => {
                    message.unread_bytes = damaged.bytes;
                    break;
                }
            };
            let known = schema.field(number);
            let Some(Field(_, name, kind)) = known else {
                message.fields.push((number, None, unknown(raw)));
                continue;
            };
            match values(raw, *kind, depth) {
                Some(values) => {
                    let values = values.into_iter().map(|value| (number, Some(*name), value));
                    message.fields.extend(values);
                }
                None => message.fields.push((number, None, unknown(raw))),
            }
        }
        message
    }

    /// The first value of a field.
    pub fn get(&self, number: u32) -> Option<&Value> {
        self.all(number).next()
    }

    /// All values of a field.
    pub fn all(&self, number: u32) -> impl Iterator<Item = &Value> {
        self.fields.iter().filter(move |field| field.0 == number).map(|field| &field.2)
    }

    pub fn number(&self, field: u32) -> Option<u64> {
        // The last one counts.
        self.all(field).filter_map(Value::number).last()
    }

    pub fn numbers(&self, field: u32) -> impl Iterator<Item = u64> {
        self.all(field).filter_map(Value::number)
    }

    pub fn text(&self, field: u32) -> Option<&str> {
        self.all(field).find_map(|value| match value {
            Value::Text(text) => Some(text.as_str()),
            _ => None,
        })
    }

    pub fn message(&self, field: u32) -> Option<&Message> {
        self.messages(field).next()
    }

    pub fn messages(&self, field: u32) -> impl Iterator<Item = &Message> {
        self.all(field).filter_map(|value| match value {
            Value::Message(message) => Some(message),
            _ => None,
        })
    }

    /// Calls `visit` with this message and all within it, each with the name of its field.
    pub fn walk(&self, name: &'static str, visit: &mut impl FnMut(&'static str, &Message)) {
        visit(name, self);
        for (_, name, value) in &self.fields {
            if let (Some(name), Value::Message(message)) = (name, value) {
                message.walk(name, visit);
            }
        }
    }

    /// As `name=value name={..}`; fields without a name by their number.
    pub fn print(&self, out: &mut String) {
        for (nth, (number, name, value)) in self.fields.iter().enumerate() {
            if nth > 0 {
                out.push(' ');
            }
            match name {
                Some(name) => out.push_str(name),
                None => _ = write!(out, "#{number}"),
            }
            out.push('=');
            value.print(out);
        }
        if self.unread_bytes > 0 {
            _ = write!(out, " ({} bytes cannot be read)", self.unread_bytes);
        }
    }

    /// An object; a field that is there more than once is a list.
    pub fn json(&self) -> Json {
        let mut object = serde_json::Map::new();
        for (number, name, value) in &self.fields {
            let name = name.map_or_else(|| format!("#{number}"), str::to_owned);
            let value = value.json();
            match object.get_mut(&name) {
                None => _ = object.insert(name, value),
                Some(Json::Array(values)) => values.push(value),
                Some(first) => *first = json!([first.take(), value]),
            }
        }
        if self.unread_bytes > 0 {
            object.insert("unread_bytes".to_owned(), json!(self.unread_bytes));
        }
        Json::Object(object)
    }
}

/// The values of a field of a kind; `None` if they are not of this kind.
fn values(raw: Raw<'_>, kind: Kind, depth: usize) -> Option<Vec<Value>> {
    let number = |number: u64| match kind {
        Kind::Uint => Some(Value::Uint(number)),
        Kind::Int => Some(Value::Int(number as i64)),
        Kind::Flag => Some(Value::Flag(number != 0)),
        Kind::Id => Some(Value::Id(number)),
        Kind::Name(names) => {
            let name = names.iter().find(|(value, _)| *value == number);
            Some(name.map_or(Value::Uint(number), |(_, name)| Value::Name(number, name)))
        }
        _ => None,
    };
    let fixed = |number: u64| match kind {
        Kind::Id => Some(Value::Id(number)),
        Kind::Double => Some(Value::Double(f64::from_bits(number))),
        _ => None,
    };
    match raw {
        Raw::Varint(value) => Some(vec![number(value)?]),
        Raw::Fixed64(value) => Some(vec![fixed(value)?]),
        Raw::Fixed32(_) => None,
        Raw::Bytes(bytes) => match kind {
            Kind::Text => match std::str::from_utf8(bytes) {
                Ok(text) => Some(vec![Value::Text(text.to_owned())]),
                Err(_) => Some(vec![Value::Bytes(bytes.to_owned())]),
            },
            Kind::Message(schema) if depth < MAX_DEPTH => {
                Some(vec![Value::Message(Message::at_depth(bytes, schema, depth + 1))])
            }
            Kind::Bytes | Kind::Message(_) => Some(vec![Value::Bytes(bytes.to_owned())]),
            // A packed field.
            Kind::Double => {
                let chunks = bytes.chunks_exact(8);
                let is_whole = chunks.remainder().is_empty();
                let values = chunks.map(|chunk| fixed(u64::from_le_bytes(chunk.try_into().ok()?)));
                is_whole.then(|| values.collect()).flatten()
            }
            _ => unpacked(bytes)?.into_iter().map(number).collect(),
        },
    }
}

fn unknown(raw: Raw<'_>) -> Value {
    match raw {
        Raw::Varint(value) => Value::Uint(value),
        Raw::Fixed64(value) => Value::Id(value),
        Raw::Fixed32(value) => Value::Uint(value.into()),
        Raw::Bytes(bytes) => Value::Bytes(bytes.to_owned()),
    }
}

/// The most bytes of a field that are printed.
const SHOWN_BYTES: usize = 32;

impl Value {
    pub fn number(&self) -> Option<u64> {
        match *self {
            Self::Uint(value) | Self::Id(value) | Self::Name(value, _) => Some(value),
            Self::Int(value) => Some(value as u64),
            Self::Flag(value) => Some(value.into()),
            _ => None,
        }
    }

    pub fn print(&self, out: &mut String) {
        _ = match self {
            Self::Uint(value) => write!(out, "{value}"),
            Self::Int(value) => write!(out, "{value}"),
            Self::Flag(value) => write!(out, "{value}"),
            Self::Id(value) => write!(out, "{value:#x}"),
            Self::Double(value) => write!(out, "{value}"),
            Self::Text(text) => write!(out, "\"{}\"", escape(text)),
            Self::Name(_, name) => write!(out, "{name}"),
            Self::Bytes(bytes) => {
                let digits = hex(bytes.get(..SHOWN_BYTES).unwrap_or(bytes));
                let more = if bytes.len() > SHOWN_BYTES { ".." } else { "" };
                write!(out, "{} bytes:{digits}{more}", bytes.len())
            }
            Self::Message(message) => {
                out.push('{');
                message.print(out);
                out.push('}');
                Ok(())
            }
        };
    }

    pub fn json(&self) -> Json {
        match self {
            Self::Uint(value) => json!(value),
            Self::Int(value) => json!(value),
            Self::Flag(value) => json!(value),
            Self::Id(value) => json!(format!("{value:#x}")),
            Self::Double(value) => json!(value),
            Self::Text(text) => json!(text),
            Self::Name(_, name) => json!(name),
            Self::Bytes(bytes) => json!({ "bytes": bytes.len(), "hex": hex(bytes) }),
            Self::Message(message) => message.json(),
        }
    }
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
