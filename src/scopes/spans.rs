//! Scopes from `tracing` spans.

#[cfg(tracking)]
use super::{
    Context, Name,
    current::{self, Entered},
    misuse,
};
#[cfg(tracking)]
use crate::trace::write::untracked;
#[cfg(tracking)]
use std::{cell::RefCell, fmt, panic::Location};
use tracing_core::Subscriber;
#[cfg(tracking)]
use tracing_core::field::{Field, Visit};
#[cfg(tracking)]
use tracing_core::span::{Attributes, Id, Record};
use tracing_subscriber::Layer;
use tracing_subscriber::registry::LookupSpan;

/// A layer of `tracing-subscriber` that makes a scope of each span: allocations inside a span are
/// in a scope with the span's name.
///
/// ```
/// use memledger::ScopeLayer;
/// use tracing_subscriber::prelude::*;
///
/// let layers = tracing_subscriber::registry().with(ScopeLayer::new().instance_field("file"));
/// tracing::subscriber::with_default(layers, || {
///     let mesh = tracing::info_span!("Mesh", file = "rock_07").in_scope(|| {
///         vec![0_f32; 3000] // in GlobalScope / Mesh / rock_07
///     });
///     # drop(mesh);
/// });
/// ```
///
/// The scope of a span with an explicit parent (`parent: ..`) is inside the parent's scope. The
/// scope of any other span is inside the current scopes of the thread that makes the span, whether
/// they are spans or [`alloc_scope!`](crate::alloc_scope). A thread enters this scope each time
/// that it enters the span. So an instrumented future is in the scope at each poll. Spans can be
/// entered within themselves and left in any order. A span that is made while the thread has a tag
/// keeps that tag, as a [`Context`](crate::Context) does; in any other span, the tag is that of the
/// thread that enters the span.
///
/// A span that a filter disables has no scope. If guards of `alloc_scope!` are open in an
/// instrumented future while it waits, their scopes stay on the thread;
/// [`AllocScope`](crate::AllocScope) saves them with the future instead.
///
/// # Costs
/// Entering and leaving a span costs 45 ns on top of `tracing` itself, most of it for a search in
/// the registry (`cargo bench -p memledger-benches --bench hook -- scopes`). The scope of a span is
/// found once: when the span is made, or when a value of the chosen field is recorded later. A
/// value is cut off after 256 bytes. Each new value is [interned](crate::Name::intern) for the life
/// of the program, so choose fields with thousands of values, not millions.
#[derive(Debug)]
pub struct ScopeLayer {
    #[cfg(tracking)]
    fields: Vec<&'static str>,
    #[cfg(tracking)]
    site: &'static Location<'static>,
}

impl ScopeLayer {
    /// A layer that makes a scope of each span.
    #[track_caller]
    pub fn new() -> Self {
        Self {
            #[cfg(tracking)]
            fields: Vec::new(),
            #[cfg(tracking)]
            site: Location::caller(),
        }
    }

    /// Makes a second scope, inside the scope of the span, from the value of this field. If a span
    /// has several of the chosen fields, only the first of them is used.
    #[must_use]
    pub fn instance_field(self, name: &'static str) -> Self {
        #[cfg(tracking)]
        {
            let Self { mut fields, site } = self;
            fields.push(name);
            Self { fields, site }
        }
        #[cfg(not(tracking))]
        {
            let _ = name;
            self
        }
    }
}

impl Default for ScopeLayer {
    #[track_caller]
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(not(tracking))]
impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for ScopeLayer {}

#[cfg(tracking)]
impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for ScopeLayer {
    fn on_new_span(&self, span: &Attributes<'_>, id: &Id, registry: Registry<'_, S>) {
        let Some(span_ref) = registry.span(id) else { return };
        let outer = match span_ref.parent() {
            Some(parent) if !span.is_contextual() => {
                let contexts =
                    parent.extensions().get::<SpanContexts>().map(|contexts| contexts.context);
                contexts.unwrap_or_else(Context::current)
            }
            None if span.is_root() => Context::OUTERMOST,
            _ => Context::current(),
        };
        let named = outer.scope(Name::new(span.metadata().name()));
        let mut value = Value::of(&self.fields);
        span.record(&mut value);
        span_ref.extensions_mut().replace(SpanContexts { named, context: value.inside(named) });
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, registry: Registry<'_, S>) {
        let mut value = Value::of(&self.fields);
        values.record(&mut value);
        if value.found
            && let Some(span) = registry.span(id)
            && let Some(contexts) = span.extensions_mut().get_mut::<SpanContexts>()
        {
            contexts.context = value.inside(contexts.named);
        }
    }

    fn on_enter(&self, id: &Id, registry: Registry<'_, S>) {
        if let Some(contexts) = contexts(id, &registry) {
            let _ = ENTERED_SPANS.try_with(|entered| entered.push(id, contexts.context));
        }
    }

    fn on_exit(&self, id: &Id, registry: Registry<'_, S>) {
        let was_entered = ENTERED_SPANS.try_with(|entered| entered.remove(id, self.site));
        if was_entered == Ok(false) && contexts(id, &registry).is_some() {
            // Another thread has entered the span.
            misuse::add(1, self.site);
        }
    }
}

#[cfg(tracking)]
type Registry<'a, S> = tracing_subscriber::layer::Context<'a, S>;

/// The contexts of a span, which the registry stores with it.
#[cfg(tracking)]
#[derive(Clone, Copy)]
struct SpanContexts {
    /// The context with the scope of the span's name.
    named: Context,
    /// The context that the span enters: `named`, and inside it the scope of the chosen field's
    /// value, if the span has one.
    context: Context,
}

#[cfg(tracking)]
fn contexts<S: Subscriber + for<'a> LookupSpan<'a>>(
    id: &Id,
    registry: &Registry<'_, S>,
) -> Option<SpanContexts> {
    registry.span(id)?.extensions().get::<SpanContexts>().copied()
}

#[cfg(tracking)]
thread_local! {
    static ENTERED_SPANS: EnteredSpans = const { EnteredSpans(RefCell::new(Vec::new())) };
}

/// The spans that this thread has entered; the last entered span is last.
#[cfg(tracking)]
struct EnteredSpans(RefCell<Vec<(Id, Entered)>>);

#[cfg(tracking)]
impl EnteredSpans {
    fn push(&self, id: &Id, context: Context) {
        let mut entered = self.0.borrow_mut();
        if entered.len() == entered.capacity() {
            // Memory of the tracker itself is not recorded.
            untracked(|| entered.reserve(16));
        }
        entered.push((id.clone(), context.enter_as_scope()));
    }

    /// Leaves a span; `false` if it was not entered.
    fn remove(&self, id: &Id, site: &'static Location<'static>) -> bool {
        let mut entered = self.0.borrow_mut();
        let Some(at) = entered.iter().rposition(|(one, _)| one == id) else { return false };
        let (_, entered_span) = entered.remove(at);
        match entered.get_mut(at) {
            // A span that was entered after this one is still open. When it is left, it must
            // restore the context from before this span.
            Some((_, inner)) => inner.skip(entered_span),
            None => current::leave(entered_span, site),
        }
        true
    }
}

#[cfg(tracking)]
impl Drop for EnteredSpans {
    fn drop(&mut self) {
        untracked(|| drop(self.0.take()));
    }
}

/// The text of the first of the chosen fields that a span has.
#[cfg(tracking)]
struct Value<'a> {
    fields: &'a [&'static str],
    found: bool,
    text: [u8; 256],
    size: usize,
}

#[cfg(tracking)]
impl<'a> Value<'a> {
    fn of(fields: &'a [&'static str]) -> Self {
        Self { fields, found: false, text: [0; 256], size: 0 }
    }

    fn inside(&self, named: Context) -> Context {
        let text = self.text.get(..self.size).unwrap_or_default();
        match str::from_utf8(text) {
            Ok(text) if self.found => named.scope(Name::intern(text)),
            _ => named,
        }
    }
}

#[cfg(tracking)]
impl Visit for Value<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if !self.found && self.fields.contains(&field.name()) {
            self.found = true;
            // An error means that the rest was cut off.
            let _ = fmt::write(self, format_args!("{value:?}"));
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }
}

#[cfg(tracking)]
impl fmt::Write for Value<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = self.text.get_mut(self.size..).unwrap_or_default();
        let fits = text.floor_char_boundary(room.len());
        for (to, from) in room.iter_mut().zip(text.as_bytes().iter().take(fits)) {
            *to = *from;
        }
        self.size += fits;
        if fits == text.len() { Ok(()) } else { Err(fmt::Error) }
    }
}

#[cfg(all(test, tracking))]
mod tests {
    use super::*;
    use std::fmt::Write;

    #[test]
    fn a_value_is_cut_off_between_characters() {
        for (texts, kept) in [
            (&["short"][..], "short".to_owned()),
            (&[], String::new()),
            (&["é".repeat(200).as_str()], "é".repeat(128)),
            (&["a", "é".repeat(200).as_str(), "b"], format!("a{}b", "é".repeat(127))),
        ] {
            let mut value = Value::of(&[]);
            let results = texts.iter().map(|text| value.write_str(text)).collect::<Vec<_>>();
            assert_eq!(str::from_utf8(&value.text[..value.size]).unwrap(), kept);
            let whole = texts.concat() == kept;
            assert_eq!(results.iter().all(Result::is_ok), whole);
        }
    }
}
