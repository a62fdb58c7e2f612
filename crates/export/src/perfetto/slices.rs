//! Scopes as slices, on the tracks of the threads that allocated in them.
//!
//! A trace has a scope where a thread allocates in it, and a time each 10 ms or so. So events are collected
//! for a *step*, from one time to the next. Within a step, all visits of one scope are one slice; slices
//! share the time of the step by their numbers of events. A slice continues in the next step if the
//! thread begins there in the same scope. The memory is that of the scopes of one step on each thread.

use memledger_format::protobuf::perfetto::sequence::{Sequence, intern};
use memledger_format::protobuf::perfetto::{
    clock, debug_annotation, interned_data, packet, track_event,
};
use std::collections::{BTreeMap, HashMap};

/// The number of steps of a trace, at most.
pub(super) const STEPS: u64 = 16_384;

/// The names of arguments: their numbers are their places, from 1.
const ARGUMENTS: [&str; 4] =
    ["allocated_bytes", "allocations", "inclusive_allocated_bytes", "inclusive_allocations"];
const CATEGORY: &str = "memledger.scope";
const CATEGORY_IID: u64 = 1;

/// The scope, and its name, of what was allocated in no scope that the trace says.
pub(super) const NO_SCOPE: u32 = 1;

/// A scope within another one. The first is around all others.
#[derive(Debug)]
struct Scope {
    name: u32,
    parent: u32,
}

/// What was allocated.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    bytes: i64,
    count: i64,
}

impl Sum {
    fn add(&mut self, other: Self) {
        self.bytes = self.bytes.wrapping_add(other.bytes);
        self.count = self.count.wrapping_add(other.count);
    }
}

/// A scope on a thread in one step.
#[derive(Debug, Default)]
struct Visited {
    scope: u32,
    /// In the order in which the thread first came to them.
    inner: Vec<u32>,
    own: Sum,
    events: u64,
}

/// A slice that has begun.
#[derive(Debug)]
struct Open {
    scope: u32,
    own: Sum,
    inner: Sum,
}

#[derive(Debug)]
struct Thread {
    track: ThreadTrack,
    sequence: Sequence,
    names: HashMap<u32, u64>,
    open: Vec<Open>,
    /// Of this step, the first around all others; by scope, in `numbers`.
    visited: Vec<Visited>,
    numbers: HashMap<u32, u32>,
    last: u32,
    /// The end of the last step in which the thread did something.
    until_ns: u64,
}

/// The track of a thread's slices, and the descriptors of the tracks that its sequence needs.
#[derive(Clone, Debug)]
pub(super) struct ThreadTrack {
    pub(super) uuid: u64,
    pub(super) descriptors: Vec<Vec<u8>>,
}

#[derive(Debug)]
pub(super) struct Slices {
    names: Vec<String>,
    name_numbers: HashMap<String, u32>,
    scopes: Vec<Scope>,
    /// By the scope around it, and its name.
    numbers: HashMap<(u32, u32), u32>,
    threads: BTreeMap<u32, Thread>,
    next_sequence: u32,
    step_from: Option<u64>,
    step_ns: u64,
}

impl Slices {
    /// The sequences of threads have the numbers from `first_sequence` on.
    pub(super) fn new(first_sequence: u32, step_ns: u64) -> Self {
        let scope = |name| Scope { name, parent: 0 };
        Self {
            names: vec![String::new(), "(no scope)".to_owned()],
            name_numbers: HashMap::from([(String::new(), 0)]),
            scopes: vec![scope(0), scope(NO_SCOPE)],
            numbers: HashMap::new(),
            threads: BTreeMap::new(),
            next_sequence: first_sequence,
            step_from: None,
            step_ns: step_ns.max(1),
        }
    }

    /// The number of the scope with this path, outermost first.
    pub(super) fn scope<'p>(&mut self, path: impl IntoIterator<Item = &'p str>) -> u32 {
        let mut at = 0;
        for text in path {
            let name = match self.name_numbers.get(text) {
                Some(&name) => name,
                None => {
                    let name = self.names.len() as u32;
                    self.names.push(text.to_owned());
                    self.name_numbers.insert(text.to_owned(), name);
                    name
                }
            };
            let scopes = &mut self.scopes;
            at = *self.numbers.entry((at, name)).or_insert_with(|| {
                scopes.push(Scope { name, parent: at });
                scopes.len() as u32 - 1
            });
        }
        if at == 0 { NO_SCOPE } else { at }
    }

    /// Whether an event at this time begins another step.
    pub(super) fn begins_step(&self, at_ns: u64) -> bool {
        self.step_from.is_none_or(|from| at_ns.saturating_sub(from) >= self.step_ns)
    }

    /// Counts what a thread has allocated in a scope. `track` is called for a thread that has no sequence
    /// yet.
    pub(super) fn allocated(
        &mut self,
        thread: u32,
        scope: u32,
        (bytes, count): (i64, i64),
        track: impl FnOnce() -> ThreadTrack,
        out: &mut Vec<u8>,
    ) {
        let (next, from) = (&mut self.next_sequence, self.step_from.unwrap_or_default());
        let thread = self.threads.entry(thread).or_insert_with(|| {
            *next = next.saturating_add(1);
            Thread::begin(track(), *next - 1, from, out)
        });
        let number = thread.visit(scope, &self.scopes);
        thread.last = number;
        if let Some(visited) = thread.visited.get_mut(number as usize) {
            visited.own.add(Sum { bytes, count });
            visited.events += count.unsigned_abs().max(1);
        }
    }

    /// The step ends at this time, which is also the beginning of the next one.
    pub(super) fn step(&mut self, at_ns: u64, out: &mut Vec<u8>) {
        let from = self.step_from.unwrap_or(at_ns);
        let (scopes, names) = (&self.scopes, &self.names);
        let name = |scope: u32| {
            let number = scopes.get(scope as usize).map_or(0, |scope| scope.name);
            (number, names.get(number as usize).map_or("", String::as_str))
        };
        for thread in self.threads.values_mut() {
            thread.step(from, at_ns.max(from), &name, out);
        }
        self.step_from = Some(at_ns);
    }

    /// Ends all slices.
    pub(super) fn finish(&mut self, at_ns: u64, out: &mut Vec<u8>) {
        self.step(at_ns, out);
        for thread in self.threads.values_mut() {
            thread.close(0, thread.until_ns, out);
        }
    }

    /// Starts all sequences again: no later packet needs those before. Slices stay open.
    pub(super) fn restart(&mut self, at_ns: u64, out: &mut Vec<u8>) {
        for thread in self.threads.values_mut() {
            thread.restart(at_ns, out);
        }
    }

    /// Ends the slices of threads that have allocated nothing for this time, and forgets the threads.
    pub(super) fn rest(&mut self, at_ns: u64, idle_ns: u64, out: &mut Vec<u8>) {
        self.threads.retain(|_, thread| {
            let is_idle =
                thread.visited.is_empty() && at_ns.saturating_sub(thread.until_ns) > idle_ns;
            if is_idle {
                thread.close(0, thread.until_ns, out);
            }
            !is_idle
        });
    }
}

/// Begins the sequence of a thread: describes its track, and gives numbers to the names that all threads
/// need.
fn begin(track: &ThreadTrack, id: u32, at_ns: u64, out: &mut Vec<u8>) -> Sequence {
    let mut sequence = Sequence::new(id);
    sequence.begin(clock::OF_SEQUENCE, 1, at_ns);
    sequence.first(out, (at_ns, Some(clock::BOOTTIME)), |packet| {
        sequence.defaults(packet, track.uuid, at_ns);
    });
    for descriptor in &track.descriptors {
        sequence.packet(out, at_ns, |packet| packet.bytes(packet::TRACK_DESCRIPTOR, descriptor));
    }
    sequence.packet(out, at_ns, |packet| {
        packet.nested(packet::INTERNED_DATA, |data| {
            intern(data, interned_data::EVENT_CATEGORIES, CATEGORY_IID, CATEGORY.as_bytes());
            for (name, iid) in ARGUMENTS.iter().zip(1..) {
                intern(data, interned_data::DEBUG_ANNOTATION_NAMES, iid, name.as_bytes());
            }
        });
    });
    sequence
}

impl Thread {
    fn begin(track: ThreadTrack, sequence: u32, at_ns: u64, out: &mut Vec<u8>) -> Self {
        Self {
            sequence: begin(&track, sequence, at_ns, out),
            track,
            names: HashMap::new(),
            open: Vec::new(),
            visited: Vec::new(),
            numbers: HashMap::new(),
            last: 0,
            until_ns: at_ns,
        }
    }

    fn restart(&mut self, at_ns: u64, out: &mut Vec<u8>) {
        let at_ns = at_ns.min(self.until_ns);
        self.sequence = begin(&self.track, self.sequence.id(), at_ns, out);
        self.names.clear();
    }

    /// The number of a scope in this step.
    fn visit(&mut self, scope: u32, scopes: &[Scope]) -> u32 {
        if self.visited.is_empty() {
            self.visited.push(Visited::default());
        }
        // The scopes that are new, innermost first.
        let mut new = Vec::new();
        let mut at = scope;
        let mut number = 0;
        while at != 0 {
            if let Some(&known) = self.numbers.get(&at) {
                number = known;
                break;
            }
            new.push(at);
            at = scopes.get(at as usize).map_or(0, |scope| scope.parent);
        }
        for scope in new.into_iter().rev() {
            let next = self.visited.len() as u32;
            self.visited.push(Visited { scope, ..Visited::default() });
            if let Some(outer) = self.visited.get_mut(number as usize) {
                outer.inner.push(next);
            }
            self.numbers.insert(scope, next);
            number = next;
        }
        number
    }

    /// Writes the slices of a step.
    fn step<'n>(
        &mut self,
        from: u64,
        to: u64,
        name: &impl Fn(u32) -> (u32, &'n str),
        out: &mut Vec<u8>,
    ) {
        let mut visited = std::mem::take(&mut self.visited);
        self.numbers.clear();
        if visited.is_empty() {
            return;
        }
        let stays = stays(&mut visited, self.last);
        let mut continued = 0;
        let mut at = 0_usize;
        while let Some(open) = self.open.get(continued)
            && let Some(&first) = visited[at].inner.first()
            && visited[first as usize].scope == open.scope
        {
            at = first as usize;
            continued += 1;
        }
        self.close(continued, self.until_ns, out);
        let all = visited.iter().map(|visited| visited.events).sum::<u64>().max(1);
        let time = |events: u64| {
            let share = u128::from(to.saturating_sub(from)) * u128::from(events) / u128::from(all);
            from.saturating_add(share as u64)
        };
        let mut events = 0;
        // From the outermost scope inwards: a scope, and which of the scopes within it is next.
        let mut around = vec![(0_usize, 0_usize)];
        while let Some(depth) = around.len().checked_sub(1) {
            let (number, next) = around[depth];
            let now = &visited[number];
            if next == 0 && depth > 0 {
                if self.open.len() < depth {
                    self.open(now.scope, time(events), name, out);
                }
                if let Some(open) = self.open.get_mut(depth - 1) {
                    open.own.add(now.own);
                }
                events += now.events;
            }
            if let Some(&inner) = now.inner.get(next) {
                around[depth].1 += 1;
                around.push((inner as usize, 0));
                continue;
            }
            around.pop();
            if depth > 0 && !stays[number] {
                self.close(depth - 1, time(events), out);
            }
        }
        self.until_ns = to;
    }

    /// Begins a slice.
    fn open<'n>(
        &mut self,
        scope: u32,
        at_ns: u64,
        name: &impl Fn(u32) -> (u32, &'n str),
        out: &mut Vec<u8>,
    ) {
        let (number, text) = name(scope);
        let next = self.names.len() as u64 + 1;
        let iid = *self.names.entry(number).or_insert(next);
        self.sequence.packet(out, at_ns, |packet| {
            packet.nested(packet::TRACK_EVENT, |event| {
                event.uint(track_event::TYPE, track_event::SLICE_BEGIN);
                event.uint(track_event::CATEGORY_IIDS, CATEGORY_IID);
                event.uint(track_event::NAME_IID, iid);
            });
            if iid == next {
                packet.nested(packet::INTERNED_DATA, |data| {
                    intern(data, interned_data::EVENT_NAMES, iid, text.as_bytes());
                });
            }
        });
        self.open.push(Open { scope, own: Sum::default(), inner: Sum::default() });
    }

    /// Ends slices, innermost first, until `length` are left.
    fn close(&mut self, length: usize, at_ns: u64, out: &mut Vec<u8>) {
        while self.open.len() > length
            && let Some(Open { own, inner, .. }) = self.open.pop()
        {
            let mut inclusive = own;
            inclusive.add(inner);
            if let Some(outer) = self.open.last_mut() {
                outer.inner.add(inclusive);
            }
            let values = [own.bytes, own.count, inclusive.bytes, inclusive.count];
            self.sequence.packet(out, at_ns, |packet| {
                packet.nested(packet::TRACK_EVENT, |event| {
                    event.uint(track_event::TYPE, track_event::SLICE_END);
                    for (value, iid) in values.into_iter().zip(1..) {
                        event.nested(track_event::DEBUG_ANNOTATIONS, |argument| {
                            argument.uint(debug_annotation::NAME_IID, iid);
                            argument.int(debug_annotation::INT_VALUE, value);
                        });
                    }
                });
            });
        }
    }
}

/// Which slices stay open: those around the last event. Each becomes the last one of those beside it.
fn stays(visited: &mut [Visited], last: u32) -> Vec<bool> {
    let mut stays = vec![false; visited.len()];
    if let Some(last) = stays.get_mut(last as usize) {
        *last = true;
    }
    // Inner scopes have larger numbers than outer ones.
    for number in (0..visited.len()).rev() {
        let inner = &mut visited[number].inner;
        if let Some(at) = inner.iter().position(|&inner| stays[inner as usize]) {
            stays[number] = true;
            let last = inner.remove(at);
            inner.push(last);
        }
    }
    stays
}
