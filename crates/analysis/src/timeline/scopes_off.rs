//! When the channel `scope` was off: allocations made then count in the outermost scope.

use memledger_document::{TimeSpan, made};

/// The channel of scopes, as the stream announces it.
pub(crate) const SCOPE_CHANNEL: &str = "Scope";
/// The channel of the scopes of frees, as the stream announces it.
pub(crate) const FREE_SCOPE_CHANNEL: &str = "FreeScope";
/// The channel of allocations and frees, as the stream announces it.
pub(crate) const MEMORY_CHANNEL: &str = "Memory";

/// Spans that are kept; after this many, the last one is extended.
const MAX_SPANS: usize = 1000;

/// The state of the channel `scope` over time.
#[derive(Clone, Debug, Default)]
pub(crate) struct ScopesOff {
    id: Option<u32>,
    since: Option<u64>,
    spans: Vec<TimeSpan>,
}

impl ScopesOff {
    /// The stream announces the id of the channel.
    pub(crate) fn announced(&mut self, id: u32, is_on: bool, now: u64) {
        self.id = Some(id);
        self.toggled(id, is_on, now);
    }

    /// The channel is on or off from here on.
    pub(crate) fn toggled(&mut self, id: u32, is_on: bool, now: u64) {
        if self.id != Some(id) {
            return;
        }
        if is_on {
            self.spans = self.spans_until(now);
            self.since = None;
        } else {
            self.since.get_or_insert(now);
        }
    }

    /// The stream joined a recording and begins here: changes so far describe the time before it.
    pub(crate) fn begin(&mut self, now: u64) {
        self.spans.clear();
        self.since = self.since.map(|_| now);
    }

    /// Whether the channel is announced and on.
    pub(crate) fn is_on(&self) -> bool {
        self.id.is_some() && self.since.is_none()
    }

    /// The spans up to now, in order of time.
    pub(crate) fn spans_until(&self, now: u64) -> Vec<TimeSpan> {
        let mut spans = self.spans.clone();
        if let Some(from_ns) = self.since.filter(|since| *since < now) {
            let full = spans.len() >= MAX_SPANS;
            match spans.last_mut().filter(|last| full || last.to_ns == from_ns) {
                Some(last) => last.to_ns = now,
                None => spans.push(made!(TimeSpan { from_ns, to_ns: now })),
            }
        }
        spans
    }
}
