//! Events of one's own, found by name: subscribe, and get typed fields.
//!
//! ```text
//! type announced ──► which subscriptions name it, where their fields are   once per type
//! event          ──► its routes ──► handler(state, occurrence, fields)     a look into a table
//!                └─► time, threads, scopes                                 surroundings.rs
//! ```
#![doc = include_str!("../../../../docs/analysis.md")]

mod field;
mod occurrence;
mod surroundings;

pub use field::{DefinitionRef, Elements, FieldError, FieldValue};
pub use occurrence::{Left, Occurrence, Thread};

use super::event::{Damage, Event, Hole, Stamp, Visitor};
use super::timebase::Timebase;
use crate::trace::format::schema::EventType;
use occurrence::Request;
use std::fmt;
use surroundings::{Says, Surroundings};

/// Problems kept; the others are only like them.
const MOST_PROBLEMS: usize = 32;

type OnEvent<'a, S> = Box<dyn FnMut(&mut S, &Occurrence<'_>, &[Option<usize>]) + Send + 'a>;
type OnLeave<'a, S> = Box<dyn FnMut(&mut S, &Left<'_>) + Send + 'a>;
type OnHole<'a, S> = Box<dyn FnMut(&mut S, Hole) + Send + 'a>;
type OnDamage<'a, S> = Box<dyn FnMut(&mut S, &Damage) + Send + 'a>;

enum Handler<'a, S> {
    Event(OnEvent<'a, S>),
    Leave(OnLeave<'a, S>),
}

/// What was asked for. In names, `*` stands for any text.
struct Subscription<'a, S> {
    logger: &'a str,
    event: &'a str,
    fields: Vec<&'a str>,
    handler: Handler<'a, S>,
    /// Whether the trace has declared such an event.
    found: bool,
    /// Its handler has unsubscribed.
    over: bool,
}

impl<S> Subscription<'_, S> {
    fn fits(&self, event_type: &EventType) -> bool {
        matches(self.logger, &event_type.logger) && matches(self.event, &event_type.event)
    }
}

/// Whether `name` is `pattern`, in which each `*` stands for any text, also for none.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut name) = name.strip_prefix(start) else { return false };
    let (middle, end) = rest.rsplit_once('*').unwrap_or(("", rest));
    // The first place of each part leaves the most for those behind it.
    for part in middle.split('*') {
        let Some((_, behind)) = name.split_once(part) else { return false };
        name = behind;
    }
    name.ends_with(end)
}

/// A subscription that wants the events of a type.
struct Route {
    subscription: usize,
    /// Where its fields are in this type.
    fields: Vec<Option<usize>>,
}

/// What is done with the events of a type.
#[derive(Default)]
struct Routes {
    says: Option<Says>,
    enter: Vec<Route>,
    leave: Vec<usize>,
}

/// Calls functions of yours for events that they name, with their fields, thread, time and scopes.
///
/// It is a [`Visitor`], so it reads what every reader reads, and several go over a trace in one
/// pass: `read(file, &mut (memory, requests))`, with an [`analysis::Analyzer`] and this one, say.
///
/// All handlers of one analyzer share a `state`, which is yours to take out again.
///
/// ```
/// use memledger::trace::read::{EventAnalyzer, read};
///
/// // How many bytes threads have asked for, but for the lower 3 bits of each size.
/// let mut sizes = EventAnalyzer::new(0_u64)
///     .on("Memory", "AllocSystem", ["Size"], |sum, event, [size]| {
///         assert!(event.thread().is_some());
///         *sum += size.u64().unwrap_or_default() << 3;
///     });
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/samples/mem-2t-40k.utrace");
/// read(std::fs::File::open(path)?, &mut sizes)?;
/// assert_eq!(sizes.problems(), [""; 0], "every name is there");
/// assert!(sizes.state > 1 << 20);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// An event that nobody asked for costs a look into a table, one that somebody did ask for the
/// handler's call. Memory holds the types, and 40 bytes or so for a thread and an open scope.
///
/// [`analysis::Analyzer`]: crate::analysis::Analyzer
pub struct EventAnalyzer<'a, S> {
    /// What every handler is given, to change.
    pub state: S,
    subscriptions: Vec<Subscription<'a, S>>,
    on_hole: Option<OnHole<'a, S>>,
    on_damage: Option<OnDamage<'a, S>>,
    /// By the index of the type.
    routes: Vec<Routes>,
    around: Surroundings,
    missing: Vec<String>,
    /// A handler has ended the pass.
    ended: bool,
}

impl<'a, S> EventAnalyzer<'a, S> {
    /// An analyzer without subscriptions.
    pub fn new(state: S) -> Self {
        Self {
            state,
            subscriptions: Vec::new(),
            on_hole: None,
            on_damage: None,
            routes: Vec::new(),
            around: Surroundings::default(),
            missing: Vec::new(),
            ended: false,
        }
    }

    /// Calls `handler` for each event `logger.event`, with the fields of these names, in this
    /// order. A `*` in a name stands for any text: `*`, `Alloc*`, `*Spec`, `Re*Alloc*`. A handler
    /// of many events looks into them with [`Occurrence::fields`].
    ///
    /// The fields are looked up when the trace declares the type, not per event. A type without
    /// one of them is delivered all the same, with a field that does not
    /// [exist](FieldValue::exists): then the trace was made by an older or newer program, and it
    /// stands in [`problems`](Self::problems). Several subscriptions may name one event: all are
    /// called, in the order in which they were made. A handler that has seen enough calls
    /// [`Occurrence::unsubscribe`] or [`Occurrence::end_pass`].
    ///
    /// A type that the stream declared before the subscription was made is not looked at again,
    /// so subscribe first, then read.
    pub fn on<const N: usize>(
        self,
        logger: &'a str,
        event: &'a str,
        fields: [&'a str; N],
        mut handler: impl FnMut(&mut S, &Occurrence<'_>, [FieldValue<'_>; N]) + Send + 'a,
    ) -> Self {
        let call = move |state: &mut S, occurrence: &Occurrence<'_>, places: &[Option<usize>]| {
            let value = |i: usize| FieldValue {
                occurrence,
                name: fields[i],
                index: places.get(i).copied().flatten(),
            };
            handler(state, occurrence, std::array::from_fn(value));
        };
        self.subscribe(logger, event, fields.to_vec(), Handler::Event(Box::new(call)))
    }

    /// Calls `handler` when a scope closes that an event `logger.event` has opened. A `*` in a
    /// name stands for any text.
    ///
    /// Where packets were lost, a scope may stay open whose end was in them.
    pub fn on_leave(
        self,
        logger: &'a str,
        event: &'a str,
        handler: impl FnMut(&mut S, &Left<'_>) + Send + 'a,
    ) -> Self {
        self.subscribe(logger, event, Vec::new(), Handler::Leave(Box::new(handler)))
    }

    /// Calls `handler` where events are missing, between the events before and after them.
    pub fn on_hole(mut self, handler: impl FnMut(&mut S, Hole) + Send + 'a) -> Self {
        self.on_hole = Some(Box::new(handler));
        self
    }

    /// Calls `handler` where a part of the trace cannot be read.
    pub fn on_damage(mut self, handler: impl FnMut(&mut S, &Damage) + Send + 'a) -> Self {
        self.on_damage = Some(Box::new(handler));
        self
    }

    /// What was asked for and is not in the trace, one sentence each: events it has not declared
    /// so far, and fields that a type lacks (the first 32).
    pub fn problems(&self) -> Vec<String> {
        let absent = self
            .subscriptions
            .iter()
            .filter(|s| !s.found)
            .map(|s| format!("the trace has not declared an event {}.{}", s.logger, s.event));
        absent.chain(self.missing.iter().cloned()).collect()
    }

    /// How the clock of the trace runs.
    pub fn timebase(&self) -> Timebase {
        self.around.timebase
    }

    /// All types that the trace has declared so far, in order of their indexes.
    pub fn event_types(&self) -> &[EventType] {
        &self.around.types
    }

    fn subscribe(
        mut self,
        logger: &'a str,
        event: &'a str,
        fields: Vec<&'a str>,
        handler: Handler<'a, S>,
    ) -> Self {
        self.subscriptions.push(Subscription {
            logger,
            event,
            fields,
            handler,
            found: false,
            over: false,
        });
        self
    }

    /// Everything but looking whether anybody wants the event.
    #[inline(never)]
    fn deliver(&mut self, event: &Event<'_>) {
        let Self { state, subscriptions, routes, around, ended, .. } = self;
        let Some(routes) = routes.get(event.type_index) else { return };
        if let Some(says) = routes.says {
            around.learn(says, event);
        }
        around.see(event.stream);
        let time = match event.enters_scope {
            true => around.take_time(event.stream),
            false => around.now,
        };
        let request = Request::default();
        let mut unsubscribed = false;
        for route in routes.enter.iter().take_while(|_| !request.ends_pass.get()) {
            let occurrence = Occurrence { event, around, time, request: &request };
            let Some(subscription) = subscriptions.get_mut(route.subscription) else { continue };
            if let Handler::Event(call) = &mut subscription.handler {
                call(state, &occurrence, &route.fields);
                subscription.over = request.unsubscribes.take();
                unsubscribed |= subscription.over;
            }
        }
        *ended |= request.ends_pass.get();
        if event.enters_scope {
            around.enter(event.stream, event.type_index, time);
        }
        if unsubscribed {
            self.forget_routes();
        }
    }

    /// Forgets the ways to handlers that have unsubscribed.
    #[cold]
    fn forget_routes(&mut self) {
        let is_over = |number: usize| self.subscriptions.get(number).is_some_and(|s| s.over);
        for routes in &mut self.routes {
            routes.enter.retain(|route| !is_over(route.subscription));
            routes.leave.retain(|number| !is_over(*number));
        }
    }
}

impl<S> Visitor for EventAnalyzer<'_, S> {
    fn event_type(&mut self, index: usize, event_type: &EventType) {
        let mut routes = Routes { says: Says::of(event_type), ..Routes::default() };
        for (number, subscription) in self.subscriptions.iter_mut().enumerate() {
            if !subscription.fits(event_type) {
                continue;
            }
            subscription.found = true;
            if subscription.over {
                continue;
            }
            match subscription.handler {
                Handler::Leave(_) => routes.leave.push(number),
                Handler::Event(_) => {
                    let fields: Vec<_> =
                        subscription.fields.iter().map(|name| event_type.field(name)).collect();
                    for (name, place) in subscription.fields.iter().zip(&fields) {
                        // Who asks for any event expects that many lack the field.
                        let named = !subscription.event.contains('*');
                        if named && place.is_none() && self.missing.len() < MOST_PROBLEMS {
                            let names: Vec<_> =
                                event_type.fields.iter().map(|f| f.name.as_ref()).collect();
                            self.missing.push(format!(
                                "{} has no field {name}; its fields are: {}",
                                event_type.name(),
                                names.join(", ")
                            ));
                        }
                    }
                    routes.enter.push(Route { subscription: number, fields });
                }
            }
        }
        // Types come in the order of their indexes.
        if index == self.routes.len() {
            self.routes.push(routes);
            self.around.types.push(event_type.clone());
        }
    }

    // PERF: what nobody asked for ends here.
    #[inline]
    fn event(&mut self, event: &Event<'_>) {
        let wanted = self.routes.get(event.type_index);
        let wanted = wanted.is_some_and(|r| r.says.is_some() || !r.enter.is_empty());
        if (event.enters_scope || wanted) && !self.ended {
            self.deliver(event);
        }
    }

    fn stamp(&mut self, stream: u16, stamp: Stamp) {
        self.around.stamp(stream, stamp);
    }

    fn leave_scope(&mut self, stream: u16) {
        if self.ended {
            return;
        }
        let Self { state, subscriptions, routes, around, ended, .. } = self;
        let time = around.take_time(stream);
        let Some(scope) = around.leave(stream) else { return };
        let Some(routes) = routes.get(scope.type_index) else { return };
        let Some(event_type) = around.types.get(scope.type_index) else { return };
        let request = Request::default();
        let left = Left { scope, stream, event_type, around, time, request: &request };
        let mut unsubscribed = false;
        for &number in routes.leave.iter().take_while(|_| !request.ends_pass.get()) {
            let Some(subscription) = subscriptions.get_mut(number) else { continue };
            if let Handler::Leave(call) = &mut subscription.handler {
                call(state, &left);
                subscription.over = request.unsubscribes.take();
                unsubscribed |= subscription.over;
            }
        }
        *ended |= request.ends_pass.get();
        if unsubscribed {
            self.forget_routes();
        }
    }

    fn is_done(&self) -> bool {
        self.ended
    }

    fn hole(&mut self, hole: Hole) {
        if let Some(call) = self.on_hole.as_mut().filter(|_| !self.ended) {
            call(&mut self.state, hole);
        }
    }

    fn damage(&mut self, damage: &Damage) {
        if let Some(call) = self.on_damage.as_mut().filter(|_| !self.ended) {
            call(&mut self.state, damage);
        }
    }
}

impl<S: fmt::Debug> fmt::Debug for EventAnalyzer<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventAnalyzer")
            .field("state", &self.state)
            .field("subscriptions", &self.subscriptions.len())
            .finish_non_exhaustive()
    }
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
