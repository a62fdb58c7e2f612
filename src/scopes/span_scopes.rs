//! The scopes of spans, as they are made, entered and left.

use super::current::{self, ContextIds, Entered, Site};
use super::spans::ScopeLayer;
use super::{Name, ScopeContext, misuse};
use crate::trace::write::untracked;
use std::{cell::RefCell, fmt};
use tracing_core::Subscriber;
use tracing_core::field::{Field, Visit};
use tracing_core::span::{Attributes, Id, Record};
use tracing_subscriber::Layer;
use tracing_subscriber::registry::LookupSpan;

/// What a layer knows of the program.
#[derive(Debug)]
pub(super) struct SpanScopes {
    /// The fields whose values make a second scope.
    fields: Vec<&'static str>,
    /// Where the layer was made.
    site: Site,
}

impl SpanScopes {
    pub(super) fn new(site: Site) -> Self {
        Self { fields: Vec::new(), site }
    }

    pub(super) fn add_field(&mut self, name: &'static str) {
        self.fields.push(name);
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for ScopeLayer {
    fn on_new_span(&self, span: &Attributes<'_>, id: &Id, registry: Registry<'_, S>) {
        let Some(span_ref) = registry.span(id) else { return };
        let outer = match span_ref.parent() {
            Some(parent) if !span.is_contextual() => {
                let contexts =
                    parent.extensions().get::<SpanContexts>().map(|contexts| contexts.context);
                contexts.unwrap_or_else(ScopeContext::current)
            }
            None if span.is_root() => ScopeContext { ids: ContextIds::ROOT },
            _ => ScopeContext::current(),
        };
        let named = outer.scope(Name::new(span.metadata().name()));
        let mut value = Value::of(&self.scopes.fields);
        span.record(&mut value);
        span_ref.extensions_mut().replace(SpanContexts { named, context: value.inside(named) });
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, registry: Registry<'_, S>) {
        let mut value = Value::of(&self.scopes.fields);
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
        let was_entered = ENTERED_SPANS.try_with(|entered| entered.remove(id, self.scopes.site));
        if was_entered == Ok(false) && contexts(id, &registry).is_some() {
            // Another thread has entered the span.
            misuse::add(1, self.scopes.site);
        }
    }
}

type Registry<'a, S> = tracing_subscriber::layer::Context<'a, S>;

/// The contexts of a span, which the registry stores with it.
#[derive(Clone, Copy)]
struct SpanContexts {
    /// The context with the scope of the span's name.
    named: ScopeContext,
    /// The context that the span enters: `named`, and inside it the scope of the chosen field's
    /// value, if the span has one.
    context: ScopeContext,
}

fn contexts<S: Subscriber + for<'a> LookupSpan<'a>>(
    id: &Id,
    registry: &Registry<'_, S>,
) -> Option<SpanContexts> {
    registry.span(id)?.extensions().get::<SpanContexts>().copied()
}

thread_local! {
    static ENTERED_SPANS: EnteredSpans = const { EnteredSpans(RefCell::new(Vec::new())) };
}

/// The spans that this thread has entered; the last entered span is last.
struct EnteredSpans(RefCell<Vec<(Id, Entered)>>);

impl EnteredSpans {
    fn push(&self, id: &Id, context: ScopeContext) {
        let mut entered = self.0.borrow_mut();
        if entered.len() == entered.capacity() {
            // Memory of the tracker itself is not recorded.
            untracked(|| entered.reserve(16));
        }
        entered.push((id.clone(), current::enter_stack(context.ids)));
    }

    /// Leaves a span; `false` if it was not entered.
    fn remove(&self, id: &Id, site: Site) -> bool {
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

impl Drop for EnteredSpans {
    fn drop(&mut self) {
        untracked(|| drop(self.0.take()));
    }
}

/// The text of the first of the chosen fields that a span has.
struct Value<'a> {
    fields: &'a [&'static str],
    found: bool,
    text: [u8; 256],
    size: usize,
}

impl<'a> Value<'a> {
    fn of(fields: &'a [&'static str]) -> Self {
        Self { fields, found: false, text: [0; 256], size: 0 }
    }

    fn inside(&self, named: ScopeContext) -> ScopeContext {
        let text = self.text.get(..self.size).unwrap_or_default();
        match str::from_utf8(text) {
            Ok(text) if self.found => named.scope(Name::intern(text)),
            _ => named,
        }
    }
}

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

#[cfg(test)]
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
