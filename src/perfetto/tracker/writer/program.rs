//! Other events of the program as track events: those of `log!` and `log_scope!`, and bookmarks.
//!
//! | in the stream | in the session |
//! |---|---|
//! | an event | an instant called `Logger.Event`, with its fields as arguments |
//! | a scope of the program | a slice, which begins with the event |
//! | a bookmark | an instant with its text |
//!
//! Its category is the name of its channel, and so are those of the channels of a session's configuration.
//! Only a timed scope has a time. Any other event has the last time that is known of its thread: that of
//! the event before it, or of the worker's last cycle, at most some 10 ms earlier.

use crate::events::channel::Channel;
use crate::trace::write::declared::Logged;
use memledger_format::protobuf::Message;
use memledger_format::protobuf::perfetto::{debug_annotation, track_event};
use memledger_format::schema::FieldType;

/// An event of the program.
#[derive(Clone, Copy)]
pub(in crate::perfetto::tracker) struct ProgramEvent<'a> {
    pub(super) fixed: &'a [u8],
    /// The bytes of its arrays, by the index of the field.
    pub(super) arrays: &'a [Vec<u8>],
}

/// What a session needs to know of a type of the program.
pub(in crate::perfetto::tracker) struct ProgramType {
    name: String,
    /// The names of its channels; empty if the session wants none of its events.
    pub(in crate::perfetto::tracker) categories: Vec<&'static str>,
    fields: Vec<ProgramField>,
    is_bookmark: bool,
}

struct ProgramField {
    name: &'static str,
    field_type: FieldType,
    /// The position among the fixed fields, or the index of its array.
    at: usize,
}

impl ProgramType {
    pub(super) fn of(logged: &Logged) -> Self {
        let declared = logged.declared();
        let mut offset = 0;
        let mut fields = Vec::new();
        for (index, field) in declared.fields().iter().enumerate() {
            let field_type = field.field_type;
            let at = if field_type.is_array() { index } else { offset };
            offset += field_type.fixed_size();
            fields.push(ProgramField { name: field.name, field_type, at });
        }
        let channels = logged.channels().iter();
        let categories = channels.filter_map(|id| Channel::by_id(*id)).map(Channel::name).collect();
        let name = declared.name();
        let is_bookmark = name == "Misc.Bookmark";
        Self { name, categories, fields, is_bookmark }
    }

    /// The name of an event, which is the text of a bookmark.
    pub(in crate::perfetto::tracker) fn name_of(&self, event: ProgramEvent<'_>) -> String {
        if !self.is_bookmark {
            return self.name.clone();
        }
        // One UTF-16 string with a NUL at its end, after two bytes.
        let bytes = event.arrays.get(2).map(Vec::as_slice).unwrap_or_default();
        let text = utf16(bytes.get(2..).unwrap_or_default());
        text.trim_end_matches('\0').to_owned()
    }

    /// Writes the fields as arguments; `name` gives the number of a name.
    pub(in crate::perfetto::tracker) fn arguments(
        &self,
        event: ProgramEvent<'_>,
        out: &mut Message<'_>,
        mut name: impl FnMut(&str) -> u64,
    ) {
        if self.is_bookmark {
            return;
        }
        for field in &self.fields {
            let size = field.field_type.element_size();
            let bytes = if field.field_type.is_array() {
                event.arrays.get(field.at).map(Vec::as_slice).unwrap_or_default()
            } else {
                event.fixed.get(field.at..field.at + size).unwrap_or_default()
            };
            out.nested(track_event::DEBUG_ANNOTATIONS, |annotation| {
                annotation.uint(debug_annotation::NAME_IID, name(field.name));
                match field.field_type {
                    FieldType::AnsiString => {
                        annotation
                            .text(debug_annotation::STRING_VALUE, &String::from_utf8_lossy(bytes));
                    }
                    FieldType::WideString => {
                        annotation.text(debug_annotation::STRING_VALUE, &utf16(bytes))
                    }
                    other if other.is_array() => {
                        for element in bytes.chunks_exact(size) {
                            annotation.nested(debug_annotation::ARRAY_VALUES, |value| {
                                number(other, element, value)
                            });
                        }
                    }
                    other => number(other, bytes, annotation),
                }
            });
        }
    }
}

/// Writes a number as the value of a `DebugAnnotation`.
fn number(field_type: FieldType, bytes: &[u8], out: &mut Message<'_>) {
    let mut word = [0; 8];
    word.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
    let word = u64::from_le_bytes(word);
    // The bits of a type: 0x40 a float, 0x10 a signed integer.
    let (bits, size) = (field_type as u8, bytes.len());
    match (bits & 0x40 != 0, bits & 0x10 != 0, size) {
        (true, _, 4) => {
            out.double(debug_annotation::DOUBLE_VALUE, f32::from_bits(word as u32).into())
        }
        (true, ..) => out.double(debug_annotation::DOUBLE_VALUE, f64::from_bits(word)),
        (_, true, 1..8) => {
            let unused = 64 - 8 * size as u32;
            out.int(debug_annotation::INT_VALUE, (word << unused) as i64 >> unused);
        }
        (_, true, _) => out.int(debug_annotation::INT_VALUE, word as i64),
        _ => out.uint(debug_annotation::UINT_VALUE, word),
    }
}

fn utf16(bytes: &[u8]) -> String {
    let units = bytes.chunks_exact(2).map(|unit| u16::from_le_bytes([unit[0], unit[1]]));
    char::decode_utf16(units).map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
}
