//! What the extras of an event do: which track it is on, and which fields it has.

use super::Event;
use super::interner::Interner;
use super::known_tracks::KnownTracks;
use super::values::{Value, Values};
use crate::perfetto::site::{EventKind, Role};
use crate::perfetto::tracker::registered;
use crate::perfetto::value::kind;
use memledger_format::protobuf::Message;
use memledger_format::protobuf::perfetto::track::{merge_by, named};
use memledger_format::protobuf::perfetto::{named_track_uuid, track_descriptor, track_event};
use std::borrow::Cow;

/// The descriptors of the tracks that an event names, but for those that were described.
pub(super) struct Descriptors<'a> {
    pub(super) known: &'a mut KnownTracks,
    pub(super) new: Vec<Described>,
}

/// A track: its uuid, a number that differs between tracks of one uuid, and its descriptor.
pub(super) type Described = (u64, u64, Vec<u8>);

impl Descriptors<'_> {
    pub(super) fn add(&mut self, uuid: u64, other: u64, write: impl FnOnce(&mut Message<'_>)) {
        if self.known.get(uuid) != Some(other) {
            let mut bytes = Vec::new();
            write(&mut Message::new(&mut bytes));
            self.new.push((uuid, other, bytes));
        }
    }

    /// The uuid of a registered track, which is described.
    pub(super) fn registered(&mut self, uuid: u64) -> u64 {
        if self.known.get(uuid).is_none() {
            let descriptor = registered::descriptor_of(uuid).map(<[u8]>::to_vec);
            self.new.extend(descriptor.map(|descriptor| (uuid, 0, descriptor)));
        }
        uuid
    }
}

/// What the extras of an event say of it, besides what is written into it one by one.
#[derive(Default)]
pub(super) struct Extras<'a> {
    pub(super) name: Option<&'a [u8]>,
    pub(super) category: Option<&'a [u8]>,
    pub(super) timestamp: Option<(u64, u64)>,
    pub(super) track: Option<u64>,
    pub(super) no_intern: bool,
    pub(super) flush: bool,
}

/// The value of a counter. An integer is only written in an event of that kind, as in the C library.
pub(super) fn count(value: Value<'_>, kind: EventKind, out: &mut Message<'_>) {
    match value.kind {
        kind::DOUBLE => out.double(track_event::DOUBLE_COUNTER_VALUE, f64::from_bits(value.word)),
        kind::FLOAT => {
            out.double(track_event::DOUBLE_COUNTER_VALUE, f32::from_bits(value.word as u32).into())
        }
        _ if kind == EventKind::Counter => out.int(track_event::COUNTER_VALUE, value.word as i64),
        _ => {}
    }
}

/// The roles after the `End` of what has begun before them; takes their values.
pub(super) fn skip_to_end(mut roles: &'static [Role], values: &mut Values<'_>) -> &'static [Role] {
    let mut open = 1;
    while let Some((role, rest)) = roles.split_first() {
        roles = rest;
        values.skip(role.values());
        match role {
            Role::Message(_)
            | Role::ProtoTrack
            | Role::Named(_)
            | Role::NamedText
            | Role::Nested => open += 1,
            Role::End => open -= 1,
            _ => {}
        }
        if open == 0 {
            break;
        }
    }
    roles
}

/// Writes the field of `role`; a message with all that is in it. Returns the roles after it.
pub(super) fn fields(
    role: Role,
    mut roles: &'static [Role],
    values: &mut Values<'_>,
    interner: &mut Interner,
    out: &mut Message<'_>,
) -> &'static [Role] {
    match role {
        Role::Field(field) => values.next().field(out, field),
        Role::InternedField(field, list) => {
            let text = values.next().text;
            out.uint(field, interner.id(list, text));
        }
        Role::Message(field) => out.nested(field, |message| {
            while let Some((role, rest)) = roles.split_first() {
                roles = rest;
                if *role == Role::End {
                    break;
                }
                roles = fields(*role, roles, values, interner, message);
            }
        }),
        Role::Order => values.next().field(out, track_descriptor::SIBLING_ORDER_RANK),
        Role::ChildOrder => values.next().field(out, track_descriptor::CHILD_ORDERING),
        Role::MergeBy => merge_by(out, values.next().text),
        _ => values.skip(role.values()),
    }
    roles
}

/// Reads what the extras say of the event, and the descriptors of the tracks that they name.
pub(super) fn extras_of<'a>(
    event: &Event<'a>,
    thread: u64,
    process: u64,
    descriptors: &mut Descriptors<'_>,
) -> Extras<'a> {
    let mut extras = Extras::default();
    let mut values = event.values;
    let mut roles = event.site.roles;
    while let Some((role, rest)) = roles.split_first() {
        roles = rest;
        match *role {
            Role::Name => extras.name = Some(values.next().text),
            Role::DynamicCategory => extras.category = Some(values.next().text),
            Role::Timestamp => {
                let (clock, time) = (values.next().word, values.next().word);
                extras.timestamp = Some((clock, time));
            }
            Role::NoIntern => extras.no_intern = true,
            Role::Flush => extras.flush = true,
            Role::Track => {
                descriptors.new.clear();
                extras.track = Some(descriptors.registered(values.next().word));
            }
            Role::NamedTrack(_) | Role::TextTrack => {
                descriptors.new.clear();
                let name = &*name_of(*role, &mut values);
                let (id, parent) = (values.next().word, values.next().word);
                let uuid = named_track_uuid(name, id, parent);
                let other = apart(parent, id);
                descriptors.add(uuid, other, |message| named(message, uuid, parent, name));
                extras.track = Some(uuid);
            }
            Role::ProtoTrack => {
                descriptors.new.clear();
                let uuid = values.next().word;
                let begin = |message: &mut Message<'_>| message.uint(track_descriptor::UUID, uuid);
                roles = described((uuid, 0), begin, roles, &mut values, descriptors);
                extras.track = Some(uuid);
            }
            Role::Nested => {
                descriptors.new.clear();
                let (after, track) = nested(roles, &mut values, (thread, process), descriptors);
                roles = after;
                extras.track = Some(track);
            }
            Role::Message(_) => roles = skip_to_end(roles, &mut values),
            _ => values.skip(role.values()),
        }
    }
    extras
}

/// The track that is named by roles up to an `End`, each within the one before; returns the roles after that,
/// too.
fn nested(
    mut roles: &'static [Role],
    values: &mut Values<'_>,
    (thread, process): (u64, u64),
    descriptors: &mut Descriptors<'_>,
) -> (&'static [Role], u64) {
    let mut around = 0;
    while let Some((role, rest)) = roles.split_first() {
        roles = rest;
        match *role {
            Role::End => break,
            Role::Thread => around = thread,
            Role::Process => around = process,
            Role::Track => around = descriptors.registered(values.next().word),
            Role::Named(_) | Role::NamedText => {
                let name = &*name_of(*role, values);
                let parent = around;
                let id = values.next().word;
                around = named_track_uuid(name, id, parent);
                let key = (around, apart(parent, id));
                let begin = |message: &mut Message<'_>| {
                    named(message, around, parent, name);
                };
                roles = described(key, begin, roles, values, descriptors);
            }
            Role::ProtoTrack => {
                let parent = around;
                around ^= values.next().word;
                let begin = |message: &mut Message<'_>| {
                    message.uint(track_descriptor::UUID, around);
                    message.uint(track_descriptor::PARENT_UUID, parent);
                };
                roles = described((around, 0), begin, roles, values, descriptors);
            }
            _ => values.skip(role.values()),
        }
    }
    (roles, around)
}

/// The name of a track: that of its role, or the next value.
fn name_of<'a>(role: Role, values: &mut Values<'a>) -> Cow<'a, str> {
    match role {
        Role::NamedTrack(name) | Role::Named(name) => Cow::Borrowed(name),
        _ => String::from_utf8_lossy(values.next().text),
    }
}

/// Tells tracks with names that have one uuid from each other: they have different parents or different
/// ids.
pub(super) fn apart(parent: u64, id: u64) -> u64 {
    parent.rotate_left(32) ^ id
}

/// Describes a track by fields of the program, which follow those that `begin` writes; returns the
/// roles after them.
pub(super) fn described(
    (uuid, other): (u64, u64),
    begin: impl FnOnce(&mut Message<'_>),
    mut roles: &'static [Role],
    values: &mut Values<'_>,
    descriptors: &mut Descriptors<'_>,
) -> &'static [Role] {
    if descriptors.known.get(uuid) == Some(other) {
        return skip_to_end(roles, values);
    }
    descriptors.add(uuid, other, |message| {
        begin(message);
        // Nothing is interned in a descriptor.
        let mut interner = Interner::default();
        while let Some((role, rest)) = roles.split_first() {
            roles = rest;
            if *role == Role::End {
                break;
            }
            roles = fields(*role, roles, values, &mut interner, message);
        }
    });
    roles
}
