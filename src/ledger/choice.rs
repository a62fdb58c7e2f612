//! Which channels a destination gets, and what stands before it where that is not all.

use super::run::tell;
use crate::alloc;
use crate::error::Error;
use crate::scopes::{self, events::MEMORY_SCOPE, events::SCOPE_ENTRIES, events::TAG_SPEC};
use crate::trace::channel::Choice;
use crate::trace::sink::Sink;
use crate::trace::worker::{Filter, Needs};

/// The channels that a stream must have to have the events of the tracker's own channels.
static NEEDS: [Needs; 3] = [
    (&[&alloc::CHANNEL], alloc::events::TYPES),
    // Without `scope` all blocks are in the outermost context, which has its name here.
    (&[&alloc::CHANNEL], &[&TAG_SPEC]),
    (&[&alloc::CHANNEL, &scopes::CHANNEL], &[&MEMORY_SCOPE, &SCOPE_ENTRIES]),
];

/// Reads the channels of one destination; `None` are all.
pub(super) fn parse(channels: Option<&str>) -> Result<Option<Choice>, Error> {
    channels.map(Choice::parse).transpose()
}

/// `sink`, and what leaves out before it what is not wanted.
pub(super) fn apply(choice: Option<Choice>, sink: Box<dyn Sink>) -> Box<dyn Sink> {
    match choice {
        Some(choice) => Box::new(Filter::new(choice, &NEEDS, sink, tell)),
        None => sink,
    }
}

/// Whether the destination is to know what is alive.
pub(super) fn has_memory(choice: Option<&Choice>) -> bool {
    choice.is_none_or(|choice| choice.has(alloc::CHANNEL.id()))
}
