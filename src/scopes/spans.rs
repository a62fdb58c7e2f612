//! Scopes from `tracing` spans.

#[cfg(feature = "enable")]
use super::{
    Context, Name,
    thread::{self, Open},
};
#[cfg(feature = "enable")]
use crate::trace::write::untracked;
#[cfg(feature = "enable")]
use std::{cell::RefCell, fmt, panic::Location};
use tracing_core::Subscriber;
#[cfg(feature = "enable")]
use tracing_core::field::{Field, Visit};
#[cfg(feature = "enable")]
use tracing_core::span::{Attributes, Id, Record};
use tracing_subscriber::Layer;
use tracing_subscriber::registry::LookupSpan;

/// A layer of `tracing-subscriber` that makes a scope of every span: what is allocated while a span
/// is entered is in a scope of its name.
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
/// A span's scope is inside that of its parent, if it was made with one (`parent: ..`); otherwise
/// inside the scopes that the thread is in when the span is made, be they spans or
/// [`alloc_scope!`](crate::alloc_scope). It goes with the span to every thread that enters it, as
/// often as it is entered: an instrumented future is in it at every poll. Spans may be
/// entered within themselves and left in any order. A tag goes along as with
/// [`Context`](crate::Context); a span made without one keeps the thread's.
///
/// Spans that a filter has turned off are no scopes. Guards of `alloc_scope!` are not put
/// aside when an instrumented future waits; [`AllocScope`](crate::AllocScope) does that.
///
/// # Costs
/// About 45 ns to enter and leave a span, most of which is finding what belongs to it in the
/// registry, beside what `tracing` itself takes (`cargo bench -p memledger-benches --bench hook -- scopes`). A
/// span is told once what its scope is: when it is made, or when a value of the chosen field is
/// recorded later. A value is text of at most 256 bytes, the rest is cut off, and each that is new is
/// kept for the life of the program as by [`Name::intern`](crate::Name::intern): choose
/// fields with thousands of values, not millions.
#[derive(Debug)]
pub struct ScopeLayer {
    #[cfg(feature = "enable")]
    fields: Vec<&'static str>,
    #[cfg(feature = "enable")]
    site: &'static Location<'static>,
}

impl ScopeLayer {
    /// Every span is a scope of its name.
    #[track_caller]
    pub fn new() -> Self {
        Self {
            #[cfg(feature = "enable")]
            fields: Vec::new(),
            #[cfg(feature = "enable")]
            site: Location::caller(),
        }
    }

    /// In spans that have a field of this name, its value is one scope more, inside that of the
    /// span: the kind and the instance. Of several such fields a span's first one counts.
    #[must_use]
    pub fn instance_field(self, name: &'static str) -> Self {
        #[cfg(feature = "enable")]
        {
            let Self { mut fields, site } = self;
            fields.push(name);
            Self { fields, site }
        }
        #[cfg(not(feature = "enable"))]
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

#[cfg(not(feature = "enable"))]
impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for ScopeLayer {}

#[cfg(feature = "enable")]
impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for ScopeLayer {
    fn on_new_span(&self, span: &Attributes<'_>, id: &Id, registry: Registry<'_, S>) {
        let Some(kept) = registry.span(id) else { return };
        let outer = match kept.parent() {
            Some(parent) if !span.is_contextual() => {
                let known = parent.extensions().get::<Known>().map(|known| known.context);
                known.unwrap_or_else(Context::current)
            }
            None if span.is_root() => Context::OUTERMOST,
            _ => Context::current(),
        };
        let named = outer.scope(Name::new(span.metadata().name()));
        let mut value = Value::of(&self.fields);
        span.record(&mut value);
        kept.extensions_mut().replace(Known { named, context: value.inside(named) });
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, registry: Registry<'_, S>) {
        let mut value = Value::of(&self.fields);
        values.record(&mut value);
        if value.found
            && let Some(span) = registry.span(id)
            && let Some(known) = span.extensions_mut().get_mut::<Known>()
        {
            known.context = value.inside(known.named);
        }
    }

    fn on_enter(&self, id: &Id, registry: Registry<'_, S>) {
        if let Some(known) = known(id, &registry) {
            let _ = ENTERED.try_with(|entered| entered.push(id, known.context));
        }
    }

    fn on_exit(&self, id: &Id, registry: Registry<'_, S>) {
        let was_entered = ENTERED.try_with(|entered| entered.remove(id, self.site));
        if was_entered == Ok(false) && known(id, &registry).is_some() {
            // On another thread than it was entered on.
            thread::misuse(self.site);
        }
    }
}

#[cfg(feature = "enable")]
type Registry<'a, S> = tracing_subscriber::layer::Context<'a, S>;

/// What is kept with a span: the scope of its name, and with its value.
#[cfg(feature = "enable")]
#[derive(Clone, Copy)]
struct Known {
    named: Context,
    context: Context,
}

#[cfg(feature = "enable")]
fn known<S: Subscriber + for<'a> LookupSpan<'a>>(
    id: &Id,
    registry: &Registry<'_, S>,
) -> Option<Known> {
    registry.span(id)?.extensions().get::<Known>().copied()
}

#[cfg(feature = "enable")]
thread_local! {
    static ENTERED: Entered = const { Entered(RefCell::new(Vec::new())) };
}

/// The spans that this thread has entered, and where from; the innermost last.
#[cfg(feature = "enable")]
struct Entered(RefCell<Vec<(Id, Open)>>);

#[cfg(feature = "enable")]
impl Entered {
    fn push(&self, id: &Id, context: Context) {
        let mut entered = self.0.borrow_mut();
        if entered.len() == entered.capacity() {
            // What the tracker needs for itself is in nobody's scope.
            untracked(|| entered.reserve(16));
        }
        entered.push((id.clone(), context.enter_as_scope()));
    }

    /// Leaves a span; `false` if it was not entered.
    fn remove(&self, id: &Id, site: &'static Location<'static>) -> bool {
        let mut entered = self.0.borrow_mut();
        let Some(at) = entered.iter().rposition(|(one, _)| one == id) else { return false };
        let (_, open) = entered.remove(at);
        match entered.get_mut(at) {
            // One that was entered later goes on. When it is left, this one is no more.
            Some((_, inner)) => inner.skip(open),
            None => thread::leave(open, site),
        }
        true
    }
}

#[cfg(feature = "enable")]
impl Drop for Entered {
    fn drop(&mut self) {
        untracked(|| drop(self.0.take()));
    }
}

/// The text of the first of the chosen fields that a span has.
#[cfg(feature = "enable")]
struct Value<'a> {
    fields: &'a [&'static str],
    found: bool,
    text: [u8; 256],
    size: usize,
}

#[cfg(feature = "enable")]
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

#[cfg(feature = "enable")]
impl Visit for Value<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if !self.found && self.fields.contains(&field.name()) {
            self.found = true;
            // An error says that the rest was cut off.
            let _ = fmt::write(self, format_args!("{value:?}"));
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }
}

#[cfg(feature = "enable")]
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

#[cfg(all(test, feature = "enable"))]
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
