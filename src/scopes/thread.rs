//! What a thread knows about the context it is in.
//!
//! Everything is in thread-local storage without a destructor, so it works at any moment in the
//! life of a thread, and needs no slot: a thread that never allocates is never registered.
#![expect(unsafe_code, reason = "a pointer to a static")]

use super::context::{self, Kind, NONE, OTHER, ROOT};
use std::cell::Cell;
use std::panic::Location;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// Scopes within each other that have entries of their own; what is deeper is `(other)`.
pub(crate) const MAX_DEPTH: usize = 255;

/// A power of two. Small enough to stay in the first-level cache beside the program's own data.
const CACHE: usize = 64;

/// A scope stack and a tag, and the number of the two together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) stack: u32,
    pub(crate) tag: u32,
    pub(crate) context: u32,
}

/// One remembered answer of the table: the node under `parent` for what `key` stands for.
#[derive(Clone, Copy)]
struct Remembered {
    kind: u32,
    parent: u32,
    key: usize,
    size: usize,
    node: u32,
}

struct Thread {
    place: Cell<Place>,
    depth: Cell<u32>,
    /// Told to the next scope that is entered; never told twice.
    next_ticket: Cell<u32>,
    /// The tickets of the scopes that are open, outermost first.
    tickets: [Cell<u32>; MAX_DEPTH],
    cache: [Cell<Remembered>; CACHE],
}

const EMPTY: Remembered = Remembered { kind: u32::MAX, parent: 0, key: 0, size: 0, node: 0 };

thread_local! {
    static THREAD: Thread = const { Thread {
        place: Cell::new(Place { stack: ROOT, tag: NONE, context: ROOT }),
        depth: Cell::new(0),
        next_ticket: Cell::new(0),
        tickets: [const { Cell::new(0) }; MAX_DEPTH],
        cache: [const { Cell::new(EMPTY) }; CACHE],
    } };
}

static MISUSES: AtomicU64 = AtomicU64::new(0);
static FIRST_MISUSE: AtomicPtr<Location<'static>> = AtomicPtr::new(ptr::null_mut());

/// How many scopes were left while another was the innermost.
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

#[cold]
fn misuse(site: &'static Location<'static>) {
    MISUSES.fetch_add(1, Ordering::Relaxed);
    let site = ptr::from_ref(site).cast_mut();
    let _ =
        FIRST_MISUSE.compare_exchange(ptr::null_mut(), site, Ordering::AcqRel, Ordering::Relaxed);
}

/// The number of the context this thread is in: all that an allocation looks at.
#[inline(always)]
pub(crate) fn context() -> u32 {
    THREAD.try_with(|thread| thread.place.get().context).unwrap_or(ROOT)
}

/// An open scope: what it was entered from, and how to recognise it.
#[derive(Debug)]
pub(crate) struct Open {
    before: Place,
    level: u32,
    ticket: u32,
}

/// Enters a scope; with a tag, that becomes the thread's.
#[inline]
pub(crate) fn enter(name: &'static str, tag: Option<(&'static str, u32)>) -> Option<Open> {
    THREAD
        .try_with(|thread| {
            let before = thread.place.get();
            let level = thread.depth.get();
            let ticket = thread.next_ticket.get();
            thread.next_ticket.set(ticket.wrapping_add(1));
            thread.depth.set(level + 1);
            if let Some(entry) = thread.tickets.get(level as usize) {
                entry.set(ticket);
            }
            let stack = thread.stack_under(before.stack, name, level);
            let tag = tag.map_or(before.tag, |(name, group)| thread.tag_in(group, name));
            thread.place.set(thread.place_of(stack, tag));
            Open { before, level, ticket }
        })
        .ok()
}

/// Leaves a scope, wherever it is: what is still open inside it is closed with it, and one that
/// was closed already is left alone.
#[inline]
pub(crate) fn leave(open: &Open, site: &'static Location<'static>) {
    let _ = THREAD.try_with(|thread| {
        let innermost = thread.depth.get() == open.level + 1;
        let is_open = thread.depth.get() > open.level
            && thread
                .tickets
                .get(open.level as usize)
                .is_none_or(|entry| entry.get() == open.ticket);
        if !(innermost && is_open) {
            misuse(site);
        }
        if is_open {
            thread.depth.set(open.level);
            thread.place.set(open.before);
        }
    });
}

/// Takes a tag for what follows on this thread; returns the tag before.
pub(crate) fn set_tag(group: u32, name: &'static str) -> u32 {
    THREAD
        .try_with(|thread| {
            let before = thread.place.get();
            thread.place.set(thread.place_of(before.stack, thread.tag_in(group, name)));
            before.tag
        })
        .unwrap_or(NONE)
}

/// Takes back what [`set_tag`] did.
pub(crate) fn restore_tag(tag: u32) {
    let _ = THREAD.try_with(|thread| {
        let stack = thread.place.get().stack;
        thread.place.set(thread.place_of(stack, tag));
    });
}

/// The tag of this thread; none if it has none.
pub(crate) fn tag() -> u32 {
    THREAD.try_with(|thread| thread.place.get().tag).unwrap_or(NONE)
}

/// The node of a tag; none if the table is full.
#[inline]
pub(crate) fn tag_node(group: u32, name: &'static str) -> u32 {
    THREAD.try_with(|thread| thread.tag_in(group, name)).unwrap_or(NONE)
}

/// Runs `body`, which enters no scope, with the tag of this node.
#[inline]
pub(crate) fn with_tag<R>(tag: u32, body: impl FnOnce() -> R) -> R {
    /// Also where the body panics.
    struct Restore(Place);
    impl Drop for Restore {
        fn drop(&mut self) {
            let _ = THREAD.try_with(|thread| thread.place.set(self.0));
        }
    }
    let before = THREAD.try_with(|thread| {
        let before = thread.place.get();
        if before.tag == tag {
            return None;
        }
        thread.place.set(thread.place_of(before.stack, tag));
        Some(Restore(before))
    });
    let _restore = before.ok().flatten();
    body()
}

impl Thread {
    #[inline]
    fn stack_under(&self, stack: u32, name: &'static str, level: u32) -> u32 {
        if level as usize >= MAX_DEPTH || stack == OTHER {
            context::refuse();
            return OTHER;
        }
        let node = self.remembered(Kind::Scope, stack, name.as_ptr().addr(), name.len(), || {
            context::find_or_add(Kind::Scope, stack, NONE, name)
        });
        node.unwrap_or(OTHER)
    }

    /// The tag's node; none if the table is full, so that what it would own is untagged.
    #[inline]
    fn tag_in(&self, group: u32, name: &'static str) -> u32 {
        let node = self.remembered(Kind::Tag, group, name.as_ptr().addr(), name.len(), || {
            context::find_or_add(Kind::Tag, group, NONE, name)
        });
        node.unwrap_or(NONE)
    }

    #[inline]
    fn place_of(&self, stack: u32, tag: u32) -> Place {
        let context = if tag == NONE {
            stack
        } else {
            let node = self.remembered(Kind::Context, stack, tag as usize, 0, || {
                context::find_or_add_context(stack, tag)
            });
            node.unwrap_or(stack)
        };
        Place { stack, tag, context }
    }

    /// The cached answer to a question to the table, asking it if there is none.
    #[inline]
    fn remembered(
        &self,
        kind: Kind,
        parent: u32,
        key: usize,
        size: usize,
        ask: impl FnOnce() -> Option<u32>,
    ) -> Option<u32> {
        let mixed = key as u64 ^ u64::from(parent) << 20 ^ (kind as u64) << 3;
        let mixed = mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let entry = self.cache.get((mixed >> (u64::BITS - CACHE.trailing_zeros())) as usize)?;
        let found = entry.get();
        if found.key == key
            && found.parent == parent
            && found.size == size
            && found.kind == kind as u32
        {
            return Some(found.node);
        }
        let node = ask()?;
        entry.set(Remembered { kind: kind as u32, parent, key, size, node });
        Some(node)
    }
}
