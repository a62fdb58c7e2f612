//! Subscriptions: the names that a program gives, and the handler for their events.

use super::{ClosedScope, Occurrence};
use memledger_format::schema::EventType;

pub(super) type OnEvent<'a, S> =
    Box<dyn FnMut(&mut S, &Occurrence<'_>, &[Option<usize>]) + Send + 'a>;
pub(super) type OnLeave<'a, S> = Box<dyn FnMut(&mut S, &ClosedScope<'_>) + Send + 'a>;

pub(super) enum Handler<'a, S> {
    Event(OnEvent<'a, S>),
    Leave(OnLeave<'a, S>),
}

/// Events that the program wants, and their handler. A `*` in a name matches any text.
pub(super) struct Subscription<'a, S> {
    pub(super) logger: &'a str,
    pub(super) event: &'a str,
    pub(super) fields: Vec<&'a str>,
    pub(super) handler: Handler<'a, S>,
    /// Whether the trace has declared such an event.
    pub(super) found: bool,
    /// Whether its handler has unsubscribed.
    pub(super) over: bool,
}

impl<S> Subscription<'_, S> {
    pub(super) fn fits(&self, event_type: &EventType) -> bool {
        matches(self.logger, &event_type.logger) && matches(self.event, &event_type.event)
    }
}

/// Whether `name` matches `pattern`, in which each `*` matches any text, including the empty one.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut name) = name.strip_prefix(start) else { return false };
    let (middle, end) = rest.rsplit_once('*').unwrap_or(("", rest));
    // The first match of a part is taken, because it leaves the most text for the next parts.
    for part in middle.split('*') {
        let Some((_, rest)) = name.split_once(part) else { return false };
        name = rest;
    }
    name.ends_with(end)
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn a_star_stands_for_any_text_wherever_it_is() {
        for (pattern, fits, others) in [
            ("Alloc", &["Alloc"][..], &["", "AllocSystem", "alloc", "ReAlloc"][..]),
            ("*", &["", "Alloc", "ü"], &[]),
            ("Alloc*", &["Alloc", "AllocSystem"], &["ReallocAlloc", "Allo"]),
            ("*Spec", &["Spec", "TagSpec", "SpecSpec"], &["Specs", "pec"]),
            ("Re*Alloc*", &["ReallocAlloc", "ReAlloc", "ReallocAllocSystem"], &["Realloc", "Re"]),
            ("a*a", &["aa", "aba", "aaa"], &["a", "ab"]),
            ("a**b*c", &["abc", "axxbbyc"], &["acb", "ab", "abcd"]),
            ("*ab*ab*", &["abab", "xabyabz"], &["ab", "aab", "aba"]),
        ] {
            assert!(fits.iter().all(|name| matches(pattern, name)), "{pattern} {fits:?}");
            assert!(!others.iter().any(|name| matches(pattern, name)), "{pattern} {others:?}");
        }
    }
}
