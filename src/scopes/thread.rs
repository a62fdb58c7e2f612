//! What a thread knows about the context it is in.
//!
//! Everything is in thread-local storage without a destructor, so it works at any moment in the
//! life of a thread, and needs no slot: a thread that never allocates is never registered. Only the
//! entry counts, which the worker reads, are [elsewhere](super::entries).
#![expect(unsafe_code, reason = "a pointer to a static")]

use super::context::{self, Kind, NONE, OTHER, ROOT};
use super::entries::{self, Counters, NO_COUNTERS};
use crate::trace::write::registry;
use std::cell::Cell;
use std::panic::Location;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// A power of two. Small enough to stay in the first-level cache beside the program's own data.
pub(super) const CACHE: usize = 64;

/// A scope stack and a tag, and the number of the two together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) stack: u32,
    pub(crate) tag: u32,
    pub(crate) context: u32,
}

impl Place {
    /// In no scope, without a tag.
    pub(crate) const ROOT: Self = Self { stack: ROOT, tag: NONE, context: ROOT };
}

/// Marks the context of a scope that has no node of its own: `BEYOND` plus the number of such scopes
/// that are open with it. No node has a number this large, so leaving the scope takes the slow path.
const BEYOND: u32 = 1 << 31;

/// This many open scopes without nodes mean that guards were skipped, if the thread's stack is no
/// deeper than at the first of them. Scopes of functions that call each other take more stack.
const SKIPPED: u32 = 256;
/// Bytes within which a loop or a `longjmp` comes back to the frame where the first was skipped.
const SAME_STACK: usize = 64 << 10;

/// One remembered answer of the table: the node for what `key` stands for.
#[derive(Clone, Copy)]
struct Remembered {
    question: u64,
    key: usize,
    node: u32,
}

/// PERF: where the thread is are three words, always read and written as such. Written in one
/// width and read in another they would have to reach the cache first, a dozen cycles.
struct Thread {
    stack: Cell<u32>,
    tag: Cell<u32>,
    context: Cell<u32>,
    /// Whether the place was asked for, perhaps to be entered elsewhere, since this was last cleared.
    taken: Cell<bool>,
    cache: [Cell<Remembered>; CACHE],
    /// The thread's counters, one word for each slot of `cache`. A node is cached only while the
    /// thread has counters of its own.
    counters: Cell<&'static Counters>,
    /// The thread ends: its counters were given back.
    ending: Cell<bool>,
    beyond: Cell<Beyond>,
}

/// The scopes of a thread that have no node of their own.
#[derive(Clone, Copy)]
struct Beyond {
    /// How many are open.
    open: u32,
    /// The scope stack that they are in.
    from: u32,
    /// The address on the thread's own stack at which the first was entered.
    address: usize,
}

const EMPTY: Remembered = Remembered { question: u64::MAX, key: 0, node: 0 };

thread_local! {
    static THREAD: Thread = const { Thread {
        stack: Cell::new(ROOT),
        tag: Cell::new(NONE),
        context: Cell::new(ROOT),
        taken: Cell::new(false),
        cache: [const { Cell::new(EMPTY) }; CACHE],
        counters: Cell::new(&NO_COUNTERS),
        ending: Cell::new(false),
        beyond: Cell::new(Beyond { open: 0, from: ROOT, address: 0 }),
    } };
}

/// What this thread knows.
#[inline(always)]
fn thread() -> Option<&'static Thread> {
    // PERF: out of the closure, which is inlined only as long as little is in it.
    let thread = THREAD.try_with(ptr::from_ref).ok()?;
    // SAFETY: it has no destructor, so it is there as long as the thread, which is the only one that
    // can use it: it is not `Sync`.
    Some(unsafe { &*thread })
}

static MISUSES: AtomicU64 = AtomicU64::new(0);
static FIRST_MISUSE: AtomicPtr<Location<'static>> = AtomicPtr::new(ptr::null_mut());

/// The number of scopes that were left while another was the innermost, or were never left.
pub(crate) fn misuses() -> u64 {
    MISUSES.load(Ordering::Relaxed)
}

/// Where the first scope was entered that was left out of order.
pub(crate) fn first_misuse() -> Option<&'static Location<'static>> {
    // SAFETY: only pointers to `'static` locations are stored there.
    unsafe { FIRST_MISUSE.load(Ordering::Acquire).as_ref() }
}

/// A new recording begins.
pub(crate) fn forget_misuses() {
    MISUSES.store(0, Ordering::Relaxed);
    FIRST_MISUSE.store(ptr::null_mut(), Ordering::Relaxed);
}

/// A scope was left out of order.
#[cold]
pub(crate) fn misuse(site: &'static Location<'static>) {
    misused(1, site);
}

/// Counts `scopes` that were left out of order, or never.
fn misused(scopes: u32, site: &'static Location<'static>) {
    MISUSES.fetch_add(scopes.into(), Ordering::Relaxed);
    let site = ptr::from_ref(site).cast_mut();
    let _ =
        FIRST_MISUSE.compare_exchange(ptr::null_mut(), site, Ordering::AcqRel, Ordering::Relaxed);
}

/// The number of the context this thread is in: all that an allocation looks at.
#[inline(always)]
pub(crate) fn context() -> u32 {
    thread().map_or(ROOT, |thread| thread.context.get())
}

/// Something entered: where the thread was before, and the context it came into.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Open {
    before: Place,
    inside: u32,
}

impl Open {
    /// Where there is no thread-local storage any more.
    const NOWHERE: Self = Self { before: Place::ROOT, inside: ROOT };

    /// Has it been entered from where `outer` was, which was left meanwhile.
    #[cfg(feature = "tracing")]
    pub(crate) fn skip(&mut self, outer: Self) {
        self.before = outer.before;
    }
}

/// Enters a scope. `site` is its place in the program, reported if other scopes turn out to have
/// been skipped.
#[inline(always)]
pub(crate) fn enter(name: &'static str, site: &'static Location<'static>) -> Open {
    let Some(thread) = thread() else { return Open::NOWHERE };
    match thread.known_under(thread.stack.get(), name) {
        Some(stack) => thread.enter(thread.place_of(stack, thread.tag.get())),
        None => thread.enter_new(name, None, site),
    }
}

/// Takes a tag for what follows on this thread.
#[inline(always)]
pub(crate) fn enter_tag(group: u32, name: &'static str) -> Open {
    let Some(thread) = thread() else { return Open::NOWHERE };
    thread.enter(thread.place_tagged(thread.place(), group, name))
}

/// Enters a scope and takes a tag.
#[inline(always)]
pub(crate) fn enter_with_tag(
    name: &'static str,
    group: u32,
    tag: &'static str,
    site: &'static Location<'static>,
) -> Open {
    let Some(thread) = thread() else { return Open::NOWHERE };
    match thread.known_under(thread.stack.get(), name) {
        Some(stack) => thread.enter(thread.place_of(stack, thread.tag_in(group, tag))),
        None => thread.enter_new(name, Some((group, tag)), site),
    }
}

/// Goes to another place altogether.
#[inline(always)]
pub(crate) fn enter_place(place: Place) -> Open {
    let Some(thread) = thread() else { return Open::NOWHERE };
    thread.enter(place)
}

/// Goes to another stack, with the tag of this thread where the place has none.
#[cfg(feature = "tracing")]
pub(crate) fn enter_stack(place: Place) -> Open {
    let Some(thread) = thread() else { return Open::NOWHERE };
    thread.enter(match place.tag {
        NONE => thread.place_of(place.stack, thread.tag.get()),
        _ => place,
    })
}

/// Leaves what was entered. If the thread is elsewhere by now, that is counted: what is still open
/// inside is closed with it, and what was closed already is left alone.
#[inline(always)]
pub(crate) fn leave(open: Open, site: &'static Location<'static>) {
    // PERF: its arguments fit registers, so that nothing is in memory for its sake.
    #[cold]
    #[inline(never)]
    fn out_of_order(
        stack: u32,
        tag: u32,
        context: u32,
        inside: u32,
        site: &'static Location<'static>,
    ) {
        let before = Place { stack, tag, context };
        if inside & BEYOND != 0 && self::stack() == OTHER {
            return left_beyond(before, inside & !BEYOND);
        }
        misuse(site);
        if inside & BEYOND == 0 && context::is_within(self::stack(), context::stack_of(inside)) {
            go(before);
        }
    }
    /// Not out of order: this scope has no node; it was number `number` of these.
    fn left_beyond(before: Place, number: u32) {
        if let Some(thread) = thread() {
            let beyond = thread.beyond.get();
            // A higher number is of scopes that were counted before others took their place here:
            // where those began is not known any more, so counting starts again.
            let open = if number > beyond.open { 0 } else { number.saturating_sub(1) };
            thread.beyond.set(Beyond { open, ..beyond });
            thread.go(before);
        }
    }
    let Some(thread) = thread() else { return };
    let Open { before, inside } = open;
    if thread.context.get() == inside {
        thread.go(before);
    } else {
        out_of_order(before.stack, before.tag, before.context, inside, site);
    }
}

/// Where this thread is, to go there again, from any thread and at any time.
#[inline]
pub(crate) fn place() -> Place {
    let Some(thread) = thread() else { return Place::ROOT };
    thread.taken.set(true);
    thread.place()
}

/// Says whether somebody may come back to where this thread is now; returns what was said before.
pub(crate) fn set_taken(taken: bool) -> bool {
    thread().is_none_or(|thread| thread.taken.replace(taken))
}

/// The stack this thread is in.
pub(crate) fn stack() -> u32 {
    thread().map_or(ROOT, |thread| thread.stack.get())
}

/// Enters the scope `node`, with the tag that the thread has.
pub(crate) fn enter_node(node: u32) -> Open {
    let Some(thread) = thread() else { return Open::NOWHERE };
    context::add_entries(node, 1);
    thread.enter(thread.place_of(node, thread.tag.get()))
}

/// Goes elsewhere; returns where the thread was.
#[inline]
pub(crate) fn go(place: Place) -> Place {
    let Some(thread) = thread() else { return place };
    let before = thread.place();
    thread.go(place);
    before
}

/// The place that [`enter`] would give at `place` instead of the thread's own. A future or a span
/// made for it counts one entry, however often it is resumed.
pub(crate) fn place_inside(place: Place, name: &'static str) -> Place {
    thread().map_or(place, |thread| thread.place_inside(place, name))
}

/// The same of [`enter_tag`].
pub(crate) fn place_tagged(place: Place, group: u32, name: &'static str) -> Place {
    thread().map_or(place, |thread| thread.place_tagged(place, group, name))
}

/// The tag of this thread; none if it has none.
pub(crate) fn tag() -> u32 {
    thread().map_or(NONE, |thread| thread.tag.get())
}

/// The node of a tag; none if the table is full.
#[inline]
pub(crate) fn tag_node(group: u32, name: &'static str) -> u32 {
    thread().map_or(NONE, |thread| thread.tag_in(group, name))
}

/// Runs `body`, which enters no scope, with the tag of this node.
#[inline]
pub(crate) fn with_tag<R>(tag: u32, body: impl FnOnce() -> R) -> R {
    /// Also where the body panics.
    struct Restore(Place);
    impl Drop for Restore {
        #[inline]
        fn drop(&mut self) {
            go(self.0);
        }
    }
    let elsewhere = thread().filter(|thread| thread.tag.get() != tag);
    let _restore = elsewhere.map(|thread| Restore(go(thread.place_of(thread.stack.get(), tag))));
    body()
}

impl Thread {
    #[inline(always)]
    fn place(&self) -> Place {
        Place { stack: self.stack.get(), tag: self.tag.get(), context: self.context.get() }
    }

    #[inline(always)]
    fn go(&self, place: Place) {
        self.stack.set(place.stack);
        self.tag.set(place.tag);
        self.context.set(place.context);
    }

    #[inline(always)]
    fn enter(&self, place: Place) -> Open {
        let before = self.place();
        self.go(place);
        Open { before, inside: place.context }
    }

    #[inline(always)]
    fn place_inside(&self, place: Place, name: &'static str) -> Place {
        self.place_of(self.stack_under(place.stack, name), place.tag)
    }

    #[inline(always)]
    fn place_tagged(&self, place: Place, group: u32, name: &'static str) -> Place {
        self.place_of(place.stack, self.tag_in(group, name))
    }

    /// The stack of the scope `name` inside `stack`. Counts one entry.
    #[inline(always)]
    fn stack_under(&self, stack: u32, name: &'static str) -> u32 {
        let key = (name.as_ptr().addr(), name.len());
        self.remembered(Kind::Scope, stack, key, move || context::stack_under(stack, name))
    }

    /// The same if this thread has it cached; otherwise enters nothing. PERF: a cached scope has a
    /// node, so the fast path needs no other check.
    #[inline(always)]
    fn known_under(&self, stack: u32, name: &'static str) -> Option<u32> {
        self.cached(Kind::Scope, stack, (name.as_ptr().addr(), name.len())).ok()
    }

    /// Enters a scope that this thread has not cached, with a tag if there is one.
    #[cold]
    #[inline(never)]
    fn enter_new(
        &self,
        name: &'static str,
        tag: Option<(u32, &'static str)>,
        site: &'static Location<'static>,
    ) -> Open {
        let (mut stack, mut beyond) = (self.stack_under(self.stack.get(), name), 0);
        let address = ptr::from_ref(&beyond).addr();
        while stack == OTHER && beyond == 0 {
            if self.has_skipped(address, site) {
                stack = self.stack_under(self.stack.get(), name);
            } else {
                beyond = BEYOND | self.beyond.get().open;
            }
        }
        let tag = match tag {
            Some((group, tag)) => self.tag_in(group, tag),
            None => self.tag.get(),
        };
        let mut open = self.enter(self.place_of(stack, tag));
        if beyond != 0 {
            open.inside = beyond;
        }
        open
    }

    /// Counts one more scope without a node, entered at this address of the thread's own stack. If
    /// this shows that such scopes were skipped (a loop forgot guards, or a `longjmp` skipped them),
    /// counts them and goes back to the stack where that began, without a tag, since the tag may
    /// belong to a skipped scope.
    ///
    /// NOTE: does not detect a scope that is skipped now and then inside scopes that are left, which
    /// put that right, nor does it know the stacks of coroutines. More than 511 guards that are kept
    /// in one place on purpose look the same.
    fn has_skipped(&self, address: usize, site: &'static Location<'static>) -> bool {
        let mut beyond = self.beyond.get();
        if self.stack.get() != OTHER || beyond.open == 0 {
            beyond = Beyond { open: 0, from: self.stack.get(), address };
        }
        // Farther away is another stack, where a recursion may continue as deep as it likes.
        let no_deeper = address.wrapping_sub(beyond.address) < SAME_STACK;
        let skipped = beyond.open >= SKIPPED && no_deeper;
        if skipped {
            let (base, closed) = context::before_repeats(beyond.from);
            misused(closed + beyond.open, site);
            self.go(Place { stack: base, tag: NONE, context: base });
            beyond.open = 0;
        } else {
            beyond.open = (beyond.open + 1).min(!BEYOND);
        }
        self.beyond.set(beyond);
        skipped
    }

    /// The tag's node; none if the table is full, so that what it would own is untagged.
    #[inline(always)]
    fn tag_in(&self, group: u32, name: &'static str) -> u32 {
        let key = (name.as_ptr().addr(), name.len());
        self.remembered(Kind::Tag, group, key, move || {
            context::find_or_add(Kind::Tag, group, NONE, name).ok_or(NONE)
        })
    }

    #[inline(always)]
    fn place_of(&self, stack: u32, tag: u32) -> Place {
        if tag == NONE {
            return Place { stack, tag, context: stack };
        }
        let context = self.remembered(Kind::Context, stack, (tag as usize, 0), move || {
            context::find_or_add_context(stack, tag).ok_or(stack)
        });
        Place { stack, tag, context }
    }

    /// The cached answer to a question to the table, asking it if there is none. What stands in for
    /// an answer is not kept. A lookup of a scope counts one entry of it.
    #[inline(always)]
    fn remembered(
        &self,
        kind: Kind,
        parent: u32,
        key: (usize, usize),
        ask: impl FnOnce() -> Result<u32, u32>,
    ) -> u32 {
        match self.cached(kind, parent, key) {
            Ok(node) => node,
            Err((index, question)) => self.learn(index, kind, question, key.0, ask),
        }
    }

    /// The cached answer to a question. Counts one entry if it is a scope.
    ///
    /// # Errors
    /// Where the answer is to be kept, and the question in short.
    #[inline(always)]
    fn cached(
        &self,
        kind: Kind,
        parent: u32,
        (key, size): (usize, usize),
    ) -> Result<u32, (usize, u64)> {
        let (index, question) = Self::entry(kind, parent, (key, size));
        let found = self.cache[index].get();
        if found.key != key || found.question != question {
            return Err((index, question));
        }
        if kind == Kind::Scope {
            self.counters.get().count(index);
        }
        Ok(found.node)
    }

    /// Where the answer to a question is kept, and the question in short.
    #[inline(always)]
    fn entry(kind: Kind, parent: u32, (key, size): (usize, usize)) -> (usize, u64) {
        // Sizes have the bits that are left, and a text of 512 MiB is no name.
        let question = u64::from(parent) | ((size as u64) << 3 | kind as u64) << 32;
        let mixed = key as u64 ^ u64::from(parent) << 20 ^ (kind as u64) << 3;
        let mixed = mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        // The upper bits, so always below the size of the cache.
        ((mixed >> (u64::BITS - CACHE.trailing_zeros())) as usize, question)
    }

    #[cold]
    #[inline(never)]
    fn learn(
        &self,
        index: usize,
        kind: Kind,
        question: u64,
        key: usize,
        ask: impl FnOnce() -> Result<u32, u32>,
    ) -> u32 {
        let answer = ask();
        let (Ok(node) | Err(node)) = answer;
        // A measurement that replaces a scope does not count an entry.
        let is_entry = kind == Kind::Scope && (answer.is_ok() || node == OTHER);
        match self.own_counters().filter(|_| answer.is_ok()) {
            Some(counters) => {
                // NOTE: in this order, because a signal handler may enter a scope in between.
                self.cache[index].set(EMPTY);
                counters.turn(index, if is_entry { node } else { NONE });
                self.cache[index].set(Remembered { question, key, node });
                if is_entry {
                    counters.count(index);
                }
            }
            None if is_entry => context::add_entries(node, 1),
            None => {}
        }
        node
    }

    /// The counters of this thread, taken at first use; none when the thread is ending, or if the
    /// system has no memory.
    fn own_counters(&self) -> Option<&'static Counters> {
        if ptr::eq(self.counters.get(), &raw const NO_COUNTERS) {
            if self.ending.get() {
                return None;
            }
            self.counters.set(entries::take()?);
            registry::at_thread_end(give_back_counters);
        }
        Some(self.counters.get())
    }
}

/// At the end of this thread: adds its entries to the nodes. Later entries of this thread are added
/// to the nodes directly.
extern "C" fn give_back_counters() {
    let Some(thread) = thread() else { return };
    thread.ending.set(true);
    thread.cache.iter().for_each(|answer| answer.set(EMPTY));
    thread.counters.replace(&NO_COUNTERS).give_back();
}

#[cfg(test)]
mod tests;
