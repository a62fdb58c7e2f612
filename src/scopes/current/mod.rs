//! The current context of this thread.
//!
//! ```text
//! CURRENT (thread-local)   stack u32 | tag u32 | context u32  an allocation reads the context only
//!                          cache of nodes                     finds the number of an entered scope
//!                          overflow                           scopes that have no number
//! ```
//! Entering returns an [`Entered`]: the three numbers to restore, and the number of the entered
//! context. Leaving restores the three numbers if the thread is still in the entered context.
//! Otherwise something was left out of order, which is counted as a misuse.
//!
//! The state has no destructor, so it works at any moment in the life of a thread. It needs no
//! thread slot, so a thread that never allocates is not registered. Only the entry counts are
//! [shared](super::entries): the worker reads them.
//!
//! A guard can be skipped by code that jumps out of its function. If no scope around it is left later,
//! only the number of open scopes shows that: when 256 scopes without a node are open, and the thread's
//! call stack is no deeper than at the first of them, guards were skipped. That is checked where a
//! scope is new to its thread, never on the fast path.

mod cache;
#[cfg(feature = "containers")]
pub(crate) mod containers;
mod overflow;

use super::tree::{self, NONE, OTHER, ROOT};
use super::{entries, misuse};
use crate::platform::own_thread::{self, ValueOffset};
use cache::NodeCache;
use overflow::{OVERFLOW, Overflow, Skipped};
use std::cell::Cell;
use std::panic::Location;
use std::ptr;

/// A source location of the program.
pub(super) type Site = &'static Location<'static>;

/// Where the program has called the function that is running.
#[inline]
#[track_caller]
pub(super) fn here() -> Site {
    Location::caller()
}

/// The numbers of a scope stack, of a tag, and of the context of both.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ContextIds {
    pub(crate) stack: u32,
    pub(crate) tag: u32,
    pub(crate) context: u32,
}

impl ContextIds {
    /// The context of a thread that is in no scope and has no tag.
    pub(crate) const ROOT: Self = Self { stack: ROOT, tag: NONE, context: ROOT };

    /// The same stack without the tag.
    pub(super) fn untagged(self) -> Self {
        Self { tag: NONE, ..self }
    }
}

/// PERF: the three numbers are separate words, and each is always stored and loaded alone. If a
/// load had another width than the store before it, the processor could not forward the stored
/// value, and the load would wait a dozen cycles until the store has reached the cache.
struct ThreadContext {
    stack: Cell<u32>,
    tag: Cell<u32>,
    context: Cell<u32>,
    /// Whether the context was [captured](capture) since this flag was last cleared.
    captured: Cell<bool>,
    cache: NodeCache,
    overflow: Overflow,
}

own_thread::own_values! {
    static CURRENT: ThreadContext = const { ThreadContext {
        stack: Cell::new(ROOT),
        tag: Cell::new(NONE),
        context: Cell::new(ROOT),
        captured: Cell::new(false),
        cache: NodeCache::new(),
        overflow: Overflow::new(),
    } };
}

static PLACE: ValueOffset = ValueOffset::new();

#[inline(always)]
fn current() -> Option<&'static ThreadContext> {
    own_thread::get(&CURRENT, &PLACE)
}

/// The number of the current context. An allocation reads nothing else of the state.
#[inline(always)]
pub(crate) fn context() -> u32 {
    current().map_or(ROOT, |current| current.context.get())
}

pub(crate) fn stack() -> u32 {
    current().map_or(ROOT, |current| current.stack.get())
}

/// The context of this thread, to be entered later on any thread.
#[inline]
pub(crate) fn capture() -> ContextIds {
    let Some(current) = current() else { return ContextIds::ROOT };
    current.captured.set(true);
    current.ids()
}

/// Sets whether the context of this thread was captured; returns the previous value.
pub(crate) fn set_captured(captured: bool) -> bool {
    current().is_none_or(|current| current.captured.replace(captured))
}

/// The result of entering a scope, tag or context: the context to restore, and the number of the
/// entered context.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entered {
    before: ContextIds,
    inside: u32,
}

impl Entered {
    /// For a thread whose thread-local storage no longer exists.
    const NOWHERE: Self = Self { before: ContextIds::ROOT, inside: ROOT };

    /// Makes this restore the context that `outer` would have restored, because `outer` was left
    /// first.
    #[cfg(feature = "tracing")]
    pub(super) fn skip(&mut self, outer: Self) {
        self.before = outer.before;
    }
}

/// Enters a scope. `site` is the source location of the caller in the program; it is reported if
/// skipped scopes are detected.
#[inline(always)]
pub(crate) fn enter(name: &'static str, site: &'static Location<'static>) -> Entered {
    let Some(current) = current() else { return Entered::NOWHERE };
    match current.cache.cached_scope(current.stack.get(), name) {
        Some(stack) => current.enter(current.ids_of(stack, current.tag.get())),
        None => current.enter_uncached(name, None, site),
    }
}

/// Enters a tag, which allocations have until it is left.
#[inline(always)]
pub(crate) fn enter_tag(group: u32, name: &'static str) -> Entered {
    let Some(current) = current() else { return Entered::NOWHERE };
    current.enter(current.with_tag(current.ids(), group, name))
}

#[inline(always)]
pub(crate) fn enter_with_tag(
    name: &'static str,
    group: u32,
    tag: &'static str,
    site: &'static Location<'static>,
) -> Entered {
    let Some(current) = current() else { return Entered::NOWHERE };
    match current.cache.cached_scope(current.stack.get(), name) {
        Some(stack) => current.enter(current.ids_of(stack, current.cache.tag(group, tag))),
        None => current.enter_uncached(name, Some((group, tag)), site),
    }
}

/// Enters a captured context in place of this thread's own.
#[inline(always)]
pub(crate) fn enter_context(ids: ContextIds) -> Entered {
    let Some(current) = current() else { return Entered::NOWHERE };
    current.enter(ids)
}

/// Enters the stack of a captured context, and its tag if it has one.
#[cfg(feature = "tracing")]
pub(crate) fn enter_stack(ids: ContextIds) -> Entered {
    let Some(current) = current() else { return Entered::NOWHERE };
    current.enter(match ids.tag {
        NONE => current.ids_of(ids.stack, current.tag.get()),
        _ => ids,
    })
}

/// Enters the scope `node`.
pub(crate) fn enter_node(node: u32) -> Entered {
    let Some(current) = current() else { return Entered::NOWHERE };
    entries::add(node, 1);
    current.enter(current.ids_of(node, current.tag.get()))
}

/// Leaves a scope, tag or context that was entered at `site`. If the thread is in another context
/// now, the call is out of order and counts as a misuse. Then it also leaves everything that was
/// entered later and is still open, or changes nothing if `entered` was left already.
#[inline(always)]
pub(crate) fn leave(entered: Entered, site: &'static Location<'static>) {
    // PERF: the arguments fit in registers, so the caller writes none of them to memory.
    #[cold]
    #[inline(never)]
    fn leave_slow(
        stack: u32,
        tag: u32,
        context: u32,
        inside: u32,
        site: &'static Location<'static>,
    ) {
        let before = ContextIds { stack, tag, context };
        if inside & OVERFLOW != 0 && self::stack() == OTHER {
            // This scope has no node, and is left in order.
            if let Some(current) = current() {
                current.overflow.leave(inside & !OVERFLOW);
                current.set(before);
            }
            return;
        }
        misuse::add(1, site);
        if inside & OVERFLOW == 0 && tree::is_within(self::stack(), tree::stack_of(inside)) {
            swap(before);
        }
    }
    let Some(current) = current() else { return };
    let Entered { before, inside } = entered;
    if current.context.get() == inside {
        current.set(before);
    } else {
        leave_slow(before.stack, before.tag, before.context, inside, site);
    }
}

/// Sets the context of this thread; returns the previous one.
#[inline]
pub(crate) fn swap(ids: ContextIds) -> ContextIds {
    let Some(current) = current() else { return ids };
    let before = current.ids();
    current.set(ids);
    before
}

/// Counts a misuse if this is another context than `expected`.
pub(super) fn expect(ids: ContextIds, expected: ContextIds, site: Site) {
    if ids.context != expected.context {
        misuse::add(1, site);
    }
}

/// The context of the scope `name` inside `ids`. Counts one entry; resuming the future or span that
/// has the context counts no more entries.
pub(super) fn with_scope(ids: ContextIds, name: &'static str) -> ContextIds {
    let Some(current) = current() else { return ids };
    current.ids_of(current.cache.scope(ids.stack, name), ids.tag)
}

/// The context `ids` with another tag.
pub(crate) fn with_tag(ids: ContextIds, group: u32, name: &'static str) -> ContextIds {
    current().map_or(ids, |current| current.with_tag(ids, group, name))
}

/// At the end of this thread: moves its entry counts to the nodes.
extern "C" fn end_thread() {
    if let Some(current) = current() {
        current.cache.end_thread();
    }
}

impl ThreadContext {
    #[inline(always)]
    fn ids(&self) -> ContextIds {
        ContextIds { stack: self.stack.get(), tag: self.tag.get(), context: self.context.get() }
    }

    #[inline(always)]
    fn set(&self, ids: ContextIds) {
        self.stack.set(ids.stack);
        self.tag.set(ids.tag);
        self.context.set(ids.context);
    }

    #[inline(always)]
    fn ids_of(&self, stack: u32, tag: u32) -> ContextIds {
        if tag == NONE {
            return ContextIds { stack, tag, context: stack };
        }
        ContextIds { stack, tag, context: self.cache.context(stack, tag) }
    }

    #[inline(always)]
    fn with_tag(&self, ids: ContextIds, group: u32, name: &'static str) -> ContextIds {
        self.ids_of(ids.stack, self.cache.tag(group, name))
    }

    #[inline(always)]
    fn enter(&self, ids: ContextIds) -> Entered {
        let before = self.ids();
        self.set(ids);
        Entered { before, inside: ids.context }
    }

    /// Enters a scope that this thread has not cached, and a tag if there is one.
    #[cold]
    #[inline(never)]
    fn enter_uncached(
        &self,
        name: &'static str,
        tag: Option<(u32, &'static str)>,
        site: &'static Location<'static>,
    ) -> Entered {
        let (mut stack, mut overflow) = (self.cache.scope(self.stack.get(), name), 0);
        let address = ptr::from_ref(&overflow).addr();
        while stack == OTHER && overflow == 0 {
            if self.detect_skipped(address, site) {
                stack = self.cache.scope(self.stack.get(), name);
            } else {
                overflow = OVERFLOW | self.overflow.count();
            }
        }
        let tag = match tag {
            Some((group, tag)) => self.cache.tag(group, tag),
            None => self.tag.get(),
        };
        let mut entered = self.enter(self.ids_of(stack, tag));
        if overflow != 0 {
            entered.inside = overflow;
        }
        entered
    }

    /// Counts a scope without a node. If the number of open scopes shows that scopes were skipped,
    /// counts these as misuses, sets the thread back to the stack outside them, and returns `true`.
    /// The thread then has no tag, because a skipped scope may have set the tag.
    fn detect_skipped(&self, address: usize, site: &'static Location<'static>) -> bool {
        let Err(Skipped { count, base }) = self.overflow.enter(self.stack.get(), address) else {
            return false;
        };
        misuse::add(count, site);
        self.set(ContextIds { stack: base, tag: NONE, context: base });
        true
    }
}

#[cfg(test)]
mod tests;
