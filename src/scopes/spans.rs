//! Scopes from `tracing` spans.

use super::current;
use super::span_scopes::SpanScopes;

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
/// keeps that tag, as a [`ScopeContext`](crate::ScopeContext) does; in any other span, the tag is that of the
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
#[must_use = "it does nothing until a subscriber has it"]
pub struct ScopeLayer {
    pub(super) scopes: SpanScopes,
}

impl ScopeLayer {
    /// A layer that makes a scope of each span. [`ScopeLayer`] has an example.
    #[track_caller]
    pub fn new() -> Self {
        Self { scopes: SpanScopes::new(current::here()) }
    }

    /// Makes a second scope, inside the scope of the span, from the value of this field. If a span
    /// has several of the chosen fields, only the first of them is used.
    ///
    /// ```
    /// use memledger::ScopeLayer;
    /// use tracing_subscriber::prelude::*;
    ///
    /// let layer = ScopeLayer::new().instance_field("user").instance_field("file");
    /// tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
    ///     let request = tracing::info_span!("request", user = tracing::field::Empty);
    ///     request.record("user", "Ümit"); // known later than the span
    ///     let answer = request.in_scope(|| vec![0_u8; 100]); // in GlobalScope / request / Ümit
    ///     # drop(answer);
    /// });
    /// ```
    pub fn instance_field(mut self, name: &'static str) -> Self {
        self.scopes.add_field(name);
        self
    }
}

impl Default for ScopeLayer {
    #[track_caller]
    fn default() -> Self {
        Self::new()
    }
}
