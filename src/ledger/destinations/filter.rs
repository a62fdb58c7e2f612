//! The channels that a destination gets, and the filter before it if those are not all.

use super::destination::DestinationSpec;
use crate::alloc;
use crate::error::Error;
use crate::events::channel::{ChannelFilter, Cleared, FilteredSink, Needs};
use crate::ledger::problems;
#[cfg(feature = "perfetto")]
use crate::perfetto;
use crate::rss;
use crate::scopes::{self, events::TAG_SPEC};
use crate::stacks;
#[cfg(feature = "perfetto")]
use crate::trace::format::{encode::Declaration, stream_events};
use crate::trace::sink::Sink;

/// For each event type of the tracker's own channels, the channels that a stream must get before it
/// gets events of that type. If a type is in several entries, the last one counts.
static NEEDS: &[Needs] = &[
    (&[&alloc::CHANNEL], alloc::events::TYPES),
    (&[&alloc::CHANNEL], rss::TYPES),
    (&[&alloc::CHANNEL, &scopes::CHANNEL], scopes::events::TYPES),
    (&[&alloc::CHANNEL, &stacks::CHANNEL], stacks::events::TYPES),
    // Without `scope` all blocks are in the outermost context, whose name is in such an event.
    (&[&alloc::CHANNEL], &[&TAG_SPEC]),
    #[cfg(feature = "perfetto")]
    (&[&perfetto::TRACK], perfetto::EVENT_TYPES),
];

/// All event types of the tracker.
#[cfg(feature = "perfetto")]
pub(in crate::ledger) static TRACKER_TYPES: [&[&Declaration]; 6] = [
    stream_events::TYPES,
    alloc::events::TYPES,
    rss::TYPES,
    scopes::events::TYPES,
    stacks::events::TYPES,
    perfetto::EVENT_TYPES,
];

/// Allocations are in streams without call stacks, too, without this field's value.
static CLEARED: Cleared = (&stacks::CHANNEL, stacks::events::STACK_FIELD);

/// The channels that one destination of a configuration gets.
pub(in crate::ledger) fn of<L>(
    to: Option<&DestinationSpec<L>>,
) -> Result<Option<ChannelFilter>, Error> {
    parse(to.and_then(|to| to.channels.as_deref()))
}

/// Parses the channels of one destination; `None` means all.
pub(in crate::ledger) fn parse(channels: Option<&str>) -> Result<Option<ChannelFilter>, Error> {
    channels.map(ChannelFilter::parse).transpose()
}

/// `sink`, with a filter before it if it does not get all channels.
pub(in crate::ledger) fn apply(
    filter: Option<ChannelFilter>,
    sink: Box<dyn Sink>,
) -> Box<dyn Sink> {
    match filter {
        Some(filter) => {
            Box::new(FilteredSink::new(filter, NEEDS, &CLEARED, sink, problems::report))
        }
        None => sink,
    }
}

/// Whether the destination gets the channel `memory`, and so the live blocks.
pub(in crate::ledger) fn has_memory(filter: Option<&ChannelFilter>) -> bool {
    filter.is_none_or(|filter| filter.has(alloc::CHANNEL.id()))
}
