//! Slices from `tracing` spans.

use super::category::DYNAMIC;
use std::fmt::{self, Write};
use tracing_core::Subscriber;
use tracing_core::field::{Field, Visit};
use tracing_core::{Event, span::Id};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

/// The most bytes of the message of an event.
const MAX_MESSAGE: usize = 256;

/// A layer of `tracing-subscriber` that makes slices of spans, and instants of events.
///
/// ```
/// use memledger::perfetto::SliceLayer;
/// use tracing_subscriber::prelude::*;
///
/// let layers = tracing_subscriber::registry().with(SliceLayer::new());
/// tracing::subscriber::with_default(layers, || {
///     tracing::info_span!("request", path = "/").in_scope(|| {
///         tracing::info!("answered"); // an instant in the slice
///     });
/// });
/// ```
/// A span is a slice on the track of each thread that enters it, from each entering to the leaving, so an
/// instrumented future has a slice for each poll. Its category is the target of the span, the path of the
/// module by default: `TrackEventConfig::default().enable("my_crate*")`. An event is an instant with its
/// message, of at most 256 bytes, as its name. Other fields are left out.
///
/// While no session runs, entering and leaving cost one relaxed load each. Otherwise they cost, on top of
/// `tracing` itself, what an event with texts does, because name and category are texts.
#[derive(Clone, Copy, Debug, Default)]
#[must_use = "it does nothing until a subscriber has it"]
pub struct SliceLayer(());

impl SliceLayer {
    /// A layer that makes a slice of each span. [`SliceLayer`] has an example.
    pub fn new() -> Self {
        Self::default()
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for SliceLayer {
    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        if DYNAMIC.is_enabled()
            && let Some(span) = context.span(id)
        {
            let (name, target) = (span.name(), span.metadata().target());
            crate::perfetto::track_event!(DYNAMIC, slice_begin(name), category(target));
        }
    }

    fn on_exit(&self, id: &Id, context: Context<'_, S>) {
        if DYNAMIC.is_enabled()
            && let Some(span) = context.span(id)
        {
            // A session that has not seen the begin must not see the end.
            crate::perfetto::track_event!(DYNAMIC, slice_end(), category(span.metadata().target()));
        }
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if DYNAMIC.is_enabled() {
            let mut message = Message { bytes: [0; MAX_MESSAGE], size: 0 };
            event.record(&mut message);
            let name = match message.text() {
                "" => event.metadata().name(),
                message => message,
            };
            crate::perfetto::track_event!(
                DYNAMIC,
                instant(name),
                category(event.metadata().target())
            );
        }
    }
}

/// The message of an event, cut off where there is no room.
struct Message {
    bytes: [u8; MAX_MESSAGE],
    size: usize,
}

impl Message {
    fn text(&self) -> &str {
        let bytes = self.bytes.get(..self.size).unwrap_or_default();
        str::from_utf8(bytes).unwrap_or_default()
    }
}

impl Write for Message {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = MAX_MESSAGE - self.size;
        let text = &text[..text.floor_char_boundary(room)];
        let end = self.size + text.len();
        if let Some(place) = self.bytes.get_mut(self.size..end) {
            place.copy_from_slice(text.as_bytes());
            self.size = end;
        }
        Ok(())
    }
}

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            let _ = write!(self, "{value:?}");
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "message" {
            let _ = self.write_str(value);
        }
    }
}
