//! Sites whose events differ in their values only, and in a track at most: how such an event is written,
//! found out once.

use super::extras::apart;
use super::known_tracks::KnownTracks;
use super::values::{Value, Values, annotation_field};
use crate::perfetto::site::{EventKind, Role, Site};
use crate::perfetto::value::kind;
use memledger_format::protobuf::perfetto::{debug_annotation, fnv1a, track_event};
use memledger_format::protobuf::{FIXED64, Message, Prepared, VARINT, varint};

/// The most bytes of a field before its value. With a value of ten they are 16.
const MAX_START: usize = 6;

/// See the [module](self).
pub(super) struct Plain {
    /// Type, category and name.
    head: Prepared,
    track: Option<PlainTrack>,
    fields: Vec<Field>,
    /// The kinds of the values. An event with others is not written in this way.
    kinds: u128,
}

/// The track of an event. The other numbers are indices of values.
enum PlainTrack {
    Registered(usize),
    /// The hash of its name, its id and its parent.
    Named(u64, usize, usize),
}

/// What is written for a value.
struct Field {
    form: Form,
    /// The bytes before the value, the lowest first, and how many they are.
    start: u64,
    size: usize,
    /// The index of the value.
    value: usize,
}

enum Form {
    Number,
    /// A number in a message. Its size is added to the second byte of the field, the length.
    NumberIn,
    Fixed64,
    /// A debug annotation with a text; its name is the rest of `start`.
    Text,
}

impl Plain {
    /// How events of `site` with values of the kinds of `values` are written. Their first fields are `head`,
    /// and their arguments have names with the numbers `names`. `None` if that is not so simple.
    pub(super) fn of(
        site: &'static Site,
        head: Prepared,
        names: &[u64],
        values: Values<'_>,
    ) -> Option<Self> {
        let fixed64 = |field| Field::plain(Form::Fixed64, field, FIXED64);
        let (mut value, mut names, mut track) = (0, names.iter(), None);
        let mut fields = Vec::new();
        for role in site.roles {
            let kind = values.kind(value);
            let field = match *role {
                Role::Arg(_) => Some(Field::argument(*names.next()?, kind)?),
                Role::Count => Some(match (site.kind, kind) {
                    (_, kind::DOUBLE) => fixed64(track_event::DOUBLE_COUNTER_VALUE)?,
                    (EventKind::Counter, kind::SIGNED | kind::UNSIGNED) => {
                        Field::plain(Form::Number, track_event::COUNTER_VALUE, VARINT)?
                    }
                    _ => return None,
                }),
                Role::Flow => Some(fixed64(track_event::FLOW_IDS)?),
                Role::TerminatingFlow => Some(fixed64(track_event::TERMINATING_FLOW_IDS)?),
                // The last track counts.
                Role::Track => {
                    track = Some(PlainTrack::Registered(value));
                    None
                }
                Role::NamedTrack(name) => {
                    track = Some(PlainTrack::Named(fnv1a(name.as_bytes()), value, value + 1));
                    None
                }
                _ => return None,
            };
            fields.extend(field.map(|field| Field { value, ..field }));
            value += role.values();
        }
        Some(Self { head, track, fields, kinds: values.kinds })
    }

    /// The uuid of an event's track, if it has one; `None` if the event is not written in this way, or if
    /// that track must be described first.
    #[inline]
    pub(super) fn track(
        &self,
        values: Values<'_>,
        tracks: &mut KnownTracks,
    ) -> Option<Option<u64>> {
        if values.kinds != self.kinds {
            return None;
        }
        match self.track {
            None => Some(None),
            Some(PlainTrack::Registered(uuid)) => {
                let uuid = values.word(uuid);
                tracks.get(uuid).is_some().then_some(Some(uuid))
            }
            Some(PlainTrack::Named(hash, id, parent)) => {
                let (id, parent) = (values.word(id), values.word(parent));
                let uuid = parent ^ hash ^ id;
                (tracks.get(uuid) == Some(apart(parent, id))).then_some(Some(uuid))
            }
        }
    }

    /// Appends the fields of an event.
    #[inline]
    pub(super) fn write(&self, track: Option<u64>, values: Values<'_>, out: &mut Message<'_>) {
        out.prepared(&self.head);
        if let Some(uuid) = track {
            out.uint(track_event::TRACK_UUID, uuid);
        }
        let mut texts = values.texts.iter();
        for field in &self.fields {
            let (mut start, size) = (field.start, field.size);
            let word = values.word(field.value);
            let (value, value_size) = match field.form {
                Form::Number => varint(word),
                Form::NumberIn => {
                    let (value, value_size) = varint(word);
                    start += (value_size as u64) << 8;
                    (value, value_size)
                }
                Form::Fixed64 => (word.into(), 8),
                Form::Text => {
                    let text = texts.next().copied().unwrap_or_default();
                    out.nested(track_event::DEBUG_ANNOTATIONS, |annotation| {
                        annotation.few(start.into(), size);
                        Value { kind: kind::TEXT, word, text }.annotation(annotation);
                    });
                    continue;
                }
            };
            // PERF: at most 16 bytes, which are put together first.
            out.few(u128::from(start) | value << (8 * size), size + value_size);
        }
    }
}

impl Field {
    /// `None` if too many bytes are before the value.
    fn new(form: Form, start: &[u8]) -> Option<Self> {
        let mut bytes = [0; 8];
        bytes.iter_mut().zip(start).for_each(|(to, from)| *to = *from);
        let whole = Self { form, start: u64::from_le_bytes(bytes), size: start.len(), value: 0 };
        (start.len() <= MAX_START).then_some(whole)
    }

    /// A field with only a value.
    fn plain(form: Form, field: u32, wire: u64) -> Option<Self> {
        let mut start = Vec::new();
        Message::new(&mut start).key(field, wire);
        Self::new(form, &start)
    }

    /// The debug annotation of a value of this kind; `name` is the number of its name.
    fn argument(name: u64, kind: u8) -> Option<Self> {
        let mut start = Vec::new();
        let mut annotation = Message::new(&mut start);
        annotation.uint(debug_annotation::NAME_IID, name);
        let (form, wire, length) = match kind {
            kind::TEXT => return Self::new(Form::Text, &start),
            // A double is written for it.
            kind::FLOAT => return None,
            kind::DOUBLE => (Form::Fixed64, FIXED64, 8),
            _ => (Form::NumberIn, VARINT, 0),
        };
        annotation.key(annotation_field(kind), wire);
        let mut field = Vec::new();
        Message::new(&mut field).bytes(track_event::DEBUG_ANNOTATIONS, &start);
        // The length, of which the value is a part.
        if let Some(of_field) = field.get_mut(1) {
            *of_field += length;
        }
        Self::new(form, &field)
    }
}
