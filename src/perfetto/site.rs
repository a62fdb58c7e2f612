//! What a `track_event!` says that is known when the program is compiled.

use super::category::Category;
use super::value::MAX_VALUES;
use std::marker::PhantomData;
use std::sync::atomic::AtomicU32;

/// What a track event is. The numbers are those of Perfetto's `TrackEvent.type`.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    SliceBegin = 1,
    SliceEnd = 2,
    Instant = 3,
    Counter = 4,
    State = 5,
}

/// What an extra of a track event does. Each takes the next values of the event: as many as the
/// comment says, otherwise one.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The name of the event, as a text.
    Name,
    /// A debug annotation.
    Arg(&'static str),
    /// The name of a debug annotation, and its value.
    NamedArg,
    /// The value of a counter.
    Count,
    /// The uuid of a registered track.
    Track,
    /// The id of a track with a name, and the uuid of its parent.
    NamedTrack(&'static str),
    /// The name of a track, its id, and the uuid of its parent.
    TextTrack,
    /// The clock, and the time on it.
    Timestamp,
    /// The category, as a text.
    DynamicCategory,
    Flow,
    TerminatingFlow,
    /// A number or a text.
    Correlation,
    /// The name is not interned. No value.
    NoIntern,
    /// What the thread has emitted is written to the file. No value.
    Flush,
    /// A field of `TrackEvent`, of the descriptor of a track, or of the message around it.
    Field(u32),
    /// A field whose text is interned: its number, and that of the list in `InternedData`.
    InternedField(u32, u32),
    /// The fields up to `End` are those of this field's message. No value.
    Message(u32),
    /// The uuid of a track; the fields up to `End` are those of its descriptor.
    ProtoTrack,
    /// The tracks up to `End` are nested in one another; the event is on the last. No value.
    Nested,
    /// In `Nested`: the id of a track with a name; the fields up to `End` are those of its
    /// descriptor.
    Named(&'static str),
    /// The same, after the name of the track.
    NamedText,
    /// In the descriptor of a track: its rank among its siblings, the order of its children, the key that it
    /// is merged by.
    Order,
    ChildOrder,
    MergeBy,
    /// In `Nested`: the track of the thread, and of the process. No value.
    Thread,
    Process,
    /// No value.
    End,
}

impl Role {
    /// How many values it takes.
    pub(super) const fn values(self) -> usize {
        match self {
            Self::TextTrack => 3,
            Self::NamedTrack(_) | Self::Timestamp | Self::NamedArg | Self::NamedText => 2,
            Self::NoIntern | Self::Flush | Self::Message(_) | Self::Nested => 0,
            Self::Thread | Self::Process | Self::End => 0,
            _ => 1,
        }
    }
}

/// One `track_event!` of the program, which is a static.
#[doc(hidden)]
#[derive(Debug)]
pub struct Site {
    pub(crate) category: &'static Category,
    pub(crate) kind: EventKind,
    pub(crate) name: Option<&'static str>,
    pub(crate) roles: &'static [Role],
    /// Its entry in the table and 1, or 0.
    pub(crate) number: AtomicU32,
}

impl Site {
    /// A site. Fails to compile if an extra is not possible where it is.
    pub const fn new(
        category: &'static Category,
        kind: EventKind,
        name: Option<&'static str>,
        roles: &'static [Role],
    ) -> Self {
        check(roles);
        Self { category, kind, name, roles, number: AtomicU32::new(0) }
    }
}

/// What the extras at some place of an event belong to.
#[derive(Clone, Copy)]
enum ExtraTarget {
    Event,
    /// `nested_tracks[..]`.
    Tracks,
    /// The descriptor of a track.
    Descriptor,
    /// A message in the descriptor of a track.
    DescriptorMessage,
    /// A message in the event.
    Message,
}

/// The most messages in one another.
const MAX_DEPTH: usize = 16;

/// Whether an extra is possible at this place.
const fn fits(place: ExtraTarget, role: &Role) -> bool {
    match place {
        ExtraTarget::Event => !matches!(
            role,
            Role::Named(_)
                | Role::NamedText
                | Role::Order
                | Role::ChildOrder
                | Role::MergeBy
                | Role::Thread
                | Role::Process
                | Role::End
        ),
        ExtraTarget::Tracks => matches!(
            role,
            Role::Track
                | Role::Named(_)
                | Role::NamedText
                | Role::ProtoTrack
                | Role::Thread
                | Role::Process
                | Role::End
        ),
        ExtraTarget::Descriptor => matches!(
            role,
            Role::Field(_)
                | Role::Message(_)
                | Role::Order
                | Role::ChildOrder
                | Role::MergeBy
                | Role::End
        ),
        ExtraTarget::DescriptorMessage => {
            matches!(role, Role::Field(_) | Role::Message(_) | Role::End)
        }
        ExtraTarget::Message => {
            matches!(role, Role::Field(_) | Role::InternedField(..) | Role::Message(_) | Role::End)
        }
    }
}

/// Panics if an extra is not possible where it is, so that a reader could not understand the event.
const fn check(roles: &[Role]) {
    let (mut places, mut depth, mut at) = ([ExtraTarget::Event; MAX_DEPTH + 1], 0, 0);
    let mut values = 0;
    while at < roles.len() {
        let (place, role) = (places[depth], &roles[at]);
        assert!(fits(place, role), "an extra that is not possible here");
        if let Role::Field(number) | Role::Message(number) | Role::InternedField(number, _) = role {
            assert!(is_field(*number), "the number of a field is 1 to 536870911");
        }
        if let Role::InternedField(_, list) = role {
            assert!(is_field(*list), "the number of a list is 1 to 536870911");
        }
        let inner = match (role, place) {
            (Role::Message(_), ExtraTarget::Event) => Some(ExtraTarget::Message),
            (Role::Message(_), ExtraTarget::Descriptor) => Some(ExtraTarget::DescriptorMessage),
            (Role::Message(_), _) => Some(place),
            (Role::ProtoTrack | Role::Named(_) | Role::NamedText, _) => {
                Some(ExtraTarget::Descriptor)
            }
            (Role::Nested, _) => Some(ExtraTarget::Tracks),
            _ => None,
        };
        if let Some(inner) = inner {
            assert!(depth < MAX_DEPTH, "more than 16 messages in one another");
            depth += 1;
            places[depth] = inner;
        } else if matches!(role, Role::End) {
            depth -= 1;
        }
        values += role.values();
        at += 1;
    }
    assert!(depth == 0, "a begin without an end");
    assert!(values <= MAX_VALUES, "a track event has 32 values at most");
}

const fn is_field(number: u32) -> bool {
    number > 0 && number < 1 << 29
}

/// Makes a guard not `Send`. The error of the compiler contains this name.
#[derive(Debug)]
struct EndTheSliceOnTheThreadThatBeganIt {
    _not_send: PhantomData<*const ()>,
}

/// A slice that ends when this is dropped, if its category is still enabled.
/// [`slice!`](crate::perfetto::slice) makes it.
///
/// [`slice!`](crate::perfetto::slice) has an example.
#[must_use = "the slice ends when this is dropped"]
#[derive(Debug)]
pub struct Slice {
    end: Option<&'static Site>,
    _not_send: PhantomData<EndTheSliceOnTheThreadThatBeganIt>,
}

impl Slice {
    #[doc(hidden)]
    #[inline(always)]
    pub const fn new(end: Option<&'static Site>) -> Self {
        Self { end, _not_send: PhantomData }
    }
}

impl Drop for Slice {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(end) = self.end
            && end.category.is_enabled()
        {
            end.emit(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extras_are_possible_only_where_they_have_a_meaning() {
        use Role::*;
        let is_possible = |roles: &[Role]| std::panic::catch_unwind(|| check(roles)).is_ok();
        for roles in [
            &[Arg("a"), Track, Field(1), Message(2), InternedField(3, 4), Message(5), End, End][..],
            &[Nested, Process, Named("a"), Field(1), End, ProtoTrack, Message(2), End, End, End],
            &[ProtoTrack, Message((1 << 29) - 1), Field(1), End, End, NoIntern],
            &[Nested, Named("a"), ChildOrder, End, NamedText, Order, MergeBy, End, End],
            &[Flow; 32],
        ] {
            assert!(is_possible(roles), "{roles:?}");
        }
        for roles in [
            &[End][..],
            &[Nested],
            &[Message(1), Field(2)],
            &[Thread],
            &[Named("a"), End],
            &[Nested, Arg("a"), End],
            &[Nested, Message(1), End, End],
            &[ProtoTrack, InternedField(1, 2), End],
            &[ProtoTrack, Message(1), InternedField(1, 2), End, End],
            &[Message(1), Flow, End],
            &[Order],
            &[Nested, MergeBy, End],
            &[ProtoTrack, Message(1), ChildOrder, End, End],
            &[Field(0)],
            &[Message(1 << 29), End],
            &[InternedField(1, 0)],
            &[[Message(1); 17], [End; 17]].concat(),
            &[Flow; 33],
        ] {
            assert!(!is_possible(roles), "{roles:?}");
        }
    }
}
