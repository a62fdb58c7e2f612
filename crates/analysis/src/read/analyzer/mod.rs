//! Analyzers that a program defines. They subscribe to events by name, and get the fields of the
//! events by name.
//!
//! ```text
//! type announced ──► the subscriptions that want it, and the indexes of their fields   once per type
//! event          ──► its routes ──► handler(state, occurrence, fields)                 a table lookup
//!                └─► time, threads, scopes                                             trace_state.rs
//! ```

mod field;
mod occurrence;
mod subscription;
mod trace_state;

pub use field::{DefinitionRef, Elements, FieldError, FieldValue};
pub use occurrence::{ClosedScope, Occurrence, Thread};

use super::event::{Damage, Event, Hole, Stamp, Visitor};
use super::timebase::Timebase;
use memledger_format::schema::EventType;
use occurrence::Request;
use std::fmt;
use subscription::{Handler, Subscription};
use trace_state::{StateEvent, TraceState};

/// The maximum number of problems that are kept.
const MAX_PROBLEMS: usize = 32;

type OnHole<'a, S> = Box<dyn FnMut(&mut S, Hole) + Send + 'a>;
type OnDamage<'a, S> = Box<dyn FnMut(&mut S, &Damage) + Send + 'a>;

/// A subscription that wants the events of a type.
struct Route {
    subscription: usize,
    /// The indexes of its fields in this type.
    fields: Vec<Option<usize>>,
}

/// The handlers that get the events of a type, and the effect of the events on the state of the
/// trace.
#[derive(Default)]
struct Routes {
    state_event: Option<StateEvent>,
    enter: Vec<Route>,
    leave: Vec<usize>,
}

/// Calls handlers for events by name, with their fields, thread, time and scopes.
///
/// A handler gets the state that all handlers of the analyzer share, the event as an [`Occurrence`], and the
/// fields that the subscription names, in that order. Names are looked up when the trace declares a type, and
/// not for each event. Events with a serial come in the order of their serials, over all threads; events
/// without one in the order of their thread.
///
/// ```
/// use memledger_analysis::read::{EventAnalyzer, read};
///
/// #[derive(Default)]
/// struct Tags {
///     names: Vec<String>,
///     largest: u64,
/// }
///
/// let mut tags = EventAnalyzer::new(Tags::default())
///     .on("Memory", "TagSpec", ["Display"], |tags, _, [display]| {
///         tags.names.push(display.text().unwrap_or_default().into_owned());
///     })
///     .on("Memory", "AllocSystem", ["Size", "Address"], |tags, event, [size, address]| {
///         let bytes = size.u64().unwrap_or_default() << 3; // without its lower 3 bits
///         if address.u64().is_ok_and(|address| address != 0) && event.thread().is_some() {
///             tags.largest = tags.largest.max(bytes);
///         }
///     })
///     .on_damage(|_, damage| eprintln!("{}", damage.what));
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/samples/mem-2t-40k.utrace");
/// let summary = read(std::fs::File::open(path)?, &mut tags)?;
/// for problem in tags.problems() {
///     eprintln!("{problem}"); // `the trace has not declared an event Memory.AllocSystem`
/// }
/// println!("{} tags, {} events", tags.state.names.len(), summary.counts.events);
/// # assert_eq!(tags.problems(), [""; 0], "every name is there");
/// # assert_eq!((tags.state.names.len(), tags.state.largest), (64, 4096));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A program's types can differ between versions, and within a trace: the fields are looked up again at each
/// declaration. Events of a type that lacks a field are delivered, with a field that does not
/// [exist](FieldValue::exists). Damage never stops a pass: [`on_hole`](Self::on_hole) and
/// [`on_damage`](Self::on_damage) report what is missing, and the [`Summary`](super::Summary) counts it.
///
/// # References
/// An event that others refer to has a key, [`Occurrence::definition`]. A field that refers to it has the
/// same key, [`FieldValue::reference`]. A `HashMap<DefinitionRef, T>` in the state connects them.
///
/// # Several analyzers, one pass
/// An analyzer is a [`Visitor`]. A tuple or a `Vec` of visitors and a reference to a visitor are visitors as
/// well, so one pass can compute the memory report and figures of your own:
///
/// ```
/// use memledger_analysis::Analyzer;
/// use memledger_analysis::read::{EventAnalyzer, Visitor, read};
///
/// let mut memory = Analyzer::new();
/// let mut allocations = EventAnalyzer::new(0_u64)
///     .on("Memory", "Alloc", [], |count, _, []| *count += 1)
///     .on("Memory", "AllocSystem", [], |count, _, []| *count += 1);
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/samples/mem-2t-40k.utrace");
/// read(std::fs::File::open(path)?, &mut (&mut memory, &mut allocations))?;
/// assert_eq!(memory.report().totals.allocations, allocations.state);
///
/// // Where the analyzers are chosen at run time:
/// let chosen: Vec<Box<dyn Visitor + '_>> = vec![Box::new(&mut memory), Box::new(&mut allocations)];
/// # drop(chosen);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Ending early
/// [`Occurrence::unsubscribe`] ends a subscription, [`Occurrence::end_pass`] the pass of this analyzer. When
/// all visitors of a pass are done, [`read`](super::read()) returns after the current packet. If input is
/// left then, `summary.stopped` is true, and the pass is not complete. [`Pass`](super::Pass) runs a pass on a
/// thread of its own, so handlers must be `Send`.
///
/// ```
/// use memledger_analysis::read::{EventAnalyzer, Pass};
///
/// let first_large = EventAnalyzer::new(None).on("Memory", "*Alloc*", ["Size"], |found, event, [size]| {
///     if size.u64().is_ok_and(|size| size >= 1 << 9) {
///         *found = event.nanoseconds();
///         event.end_pass();
///     }
/// });
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/samples/mem-2t-40k.utrace");
/// let pass = Pass::start(std::fs::File::open(path)?, first_large)?;
/// // The program does something else meanwhile.
/// let (first_large, summary) = pass.wait()?;
/// println!("at {:?} ns, {} bytes were read", first_large.state, summary.input_bytes);
/// # assert!(first_large.state.is_some());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Cost
/// An event without a subscription costs a table lookup. An event with a subscription costs a call
/// of its handler. The memory is that of the types, 24 bytes for each open scope, and about 100
/// bytes and a name for each thread. Threads that do not run at the same time can share them.
#[must_use = "it sees nothing until it has read a trace"]
pub struct EventAnalyzer<'a, S> {
    /// The value that each handler gets as `&mut`.
    pub state: S,
    subscriptions: Vec<Subscription<'a, S>>,
    on_hole: Option<OnHole<'a, S>>,
    on_damage: Option<OnDamage<'a, S>>,
    /// By the index of the type.
    routes: Vec<Routes>,
    trace: TraceState,
    missing_fields: Vec<String>,
    /// Whether a handler has ended the pass.
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
            trace: TraceState::default(),
            missing_fields: Vec::new(),
            ended: false,
        }
    }

    /// Calls `handler` for each event `logger.event`, with the fields of these names, in this
    /// order. A `*` in a name matches any text: `*`, `Alloc*`, `*Spec`, `Re*Alloc*`. A handler
    /// of many events looks into them with [`Occurrence::fields`].
    ///
    /// The fields are looked up when the trace declares the type, not for each event. If the type
    /// lacks one of them, because an older or newer program made the trace, its events are
    /// delivered with a field that does not [exist](FieldValue::exists), and
    /// [`problems`](Self::problems) names the field. If an event has several subscriptions, their
    /// handlers are called in the order in which the subscriptions were made. A handler that needs
    /// no more events calls [`Occurrence::unsubscribe`] or [`Occurrence::end_pass`].
    ///
    /// Subscribe first, then read: a subscription does not apply to types that the trace declared
    /// before it was made.
    pub fn on<const N: usize>(
        self,
        logger: &'a str,
        event: &'a str,
        fields: [&'a str; N],
        mut handler: impl FnMut(&mut S, &Occurrence<'_>, [FieldValue<'_>; N]) + Send + 'a,
    ) -> Self {
        let call = move |state: &mut S, occurrence: &Occurrence<'_>, indexes: &[Option<usize>]| {
            let value = |i: usize| FieldValue {
                occurrence,
                name: fields[i],
                index: indexes.get(i).copied().flatten(),
            };
            handler(state, occurrence, std::array::from_fn(value));
        };
        self.subscribe(logger, event, fields.to_vec(), Handler::Event(Box::new(call)))
    }

    /// Calls `handler` each time a scope closes that was opened by an event `logger.event`. A `*`
    /// in a name matches any text.
    ///
    /// If the end of a scope is in a lost packet, the scope stays open.
    pub fn on_leave(
        self,
        logger: &'a str,
        event: &'a str,
        handler: impl FnMut(&mut S, &ClosedScope<'_>) + Send + 'a,
    ) -> Self {
        self.subscribe(logger, event, Vec::new(), Handler::Leave(Box::new(handler)))
    }

    /// Calls `handler` where events are missing, after the last event before the hole and before
    /// the first event after it.
    pub fn on_hole(mut self, handler: impl FnMut(&mut S, Hole) + Send + 'a) -> Self {
        self.on_hole = Some(Box::new(handler));
        self
    }

    /// Calls `handler` where a part of the trace cannot be read.
    pub fn on_damage(mut self, handler: impl FnMut(&mut S, &Damage) + Send + 'a) -> Self {
        self.on_damage = Some(Box::new(handler));
        self
    }

    /// One sentence for each subscription whose event the trace has not declared so far, and for
    /// each field that its type lacks (the first 32).
    pub fn problems(&self) -> Vec<String> {
        let absent = self
            .subscriptions
            .iter()
            .filter(|s| !s.found)
            .map(|s| format!("the trace has not declared an event {}.{}", s.logger, s.event));
        absent.chain(self.missing_fields.iter().cloned()).collect()
    }

    /// The clock of the trace.
    pub fn timebase(&self) -> Timebase {
        self.trace.timebase
    }

    /// All types that the trace has declared so far, in order of their indexes.
    pub fn event_types(&self) -> &[EventType] {
        &self.trace.types
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

    /// Delivers an event that has a subscription, opens a scope or changes the state of the trace.
    #[inline(never)]
    fn deliver(&mut self, event: &Event<'_>) {
        let Self { state, subscriptions, routes, trace, ended, .. } = self;
        let Some(routes) = routes.get(event.type_index) else { return };
        if let Some(state_event) = routes.state_event {
            trace.learn(state_event, event);
        }
        trace.see(event.stream);
        let time = match event.enters_scope {
            true => trace.take_time(event.stream),
            false => trace.now,
        };
        let request = Request::default();
        let mut unsubscribed = false;
        for route in routes.enter.iter().take_while(|_| !request.ends_pass.get()) {
            let occurrence = Occurrence { event, trace, time, request: &request };
            let Some(subscription) = subscriptions.get_mut(route.subscription) else { continue };
            if let Handler::Event(call) = &mut subscription.handler {
                call(state, &occurrence, &route.fields);
                subscription.over = request.unsubscribes.take();
                unsubscribed |= subscription.over;
            }
        }
        *ended |= request.ends_pass.get();
        if event.enters_scope {
            trace.enter(event.stream, event.type_index, time);
        }
        if unsubscribed {
            self.remove_routes();
        }
    }

    /// Removes the routes to handlers that have unsubscribed.
    #[cold]
    fn remove_routes(&mut self) {
        let is_over = |number: usize| self.subscriptions.get(number).is_some_and(|s| s.over);
        for routes in &mut self.routes {
            routes.enter.retain(|route| !is_over(route.subscription));
            routes.leave.retain(|number| !is_over(*number));
        }
    }
}

impl<S> Visitor for EventAnalyzer<'_, S> {
    fn event_type(&mut self, index: usize, event_type: &EventType) {
        let mut routes = Routes { state_event: StateEvent::of(event_type), ..Routes::default() };
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
                    for (name, index) in subscription.fields.iter().zip(&fields) {
                        // A subscription with `*` fits many types, some of which may lack the
                        // field.
                        let named = !subscription.event.contains('*');
                        if named && index.is_none() && self.missing_fields.len() < MAX_PROBLEMS {
                            let names: Vec<_> =
                                event_type.fields.iter().map(|f| f.name.as_ref()).collect();
                            self.missing_fields.push(format!(
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
        // Types are announced in the order of their indexes.
        if index == self.routes.len() {
            self.routes.push(routes);
            self.trace.add_type(event_type);
        }
    }

    // PERF: an event without a subscription ends here.
    #[inline]
    fn event(&mut self, event: &Event<'_>) {
        let wanted = self.routes.get(event.type_index);
        let wanted = wanted.is_some_and(|r| r.state_event.is_some() || !r.enter.is_empty());
        if (event.enters_scope || wanted) && !self.ended {
            self.deliver(event);
        }
    }

    fn stamp(&mut self, stream: u16, stamp: Stamp) {
        self.trace.stamp(stream, stamp);
    }

    fn leave_scope(&mut self, stream: u16) {
        if self.ended {
            return;
        }
        let Self { state, subscriptions, routes, trace, ended, .. } = self;
        let time = trace.take_time(stream);
        let Some(scope) = trace.leave(stream) else { return };
        let Some(routes) = routes.get(scope.type_index) else { return };
        let Some(event_type) = trace.types.get(scope.type_index) else { return };
        let request = Request::default();
        let left = ClosedScope { scope, stream, event_type, trace, time, request: &request };
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
            self.remove_routes();
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
