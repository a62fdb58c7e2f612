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

/// A power of two. Small enough to stay in the first-level cache beside the program's own data.
const CACHE: usize = 64;

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
    cache: [Cell<Remembered>; CACHE],
}

const EMPTY: Remembered = Remembered { kind: u32::MAX, parent: 0, key: 0, size: 0, node: 0 };

thread_local! {
    static THREAD: Thread = const { Thread {
        place: Cell::new(Place::ROOT),
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

/// Something entered: where the thread was before, and the context it came into.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Open {
    pub(crate) before: Place,
    inside: u32,
}

/// Enters a scope; with a tag, that becomes the thread's.
#[inline]
pub(crate) fn enter(name: &'static str, tag: Option<(&'static str, u32)>) -> Open {
    enter_with(|thread, before| {
        let stack = thread.stack_under(before.stack, name);
        let tag = tag.map_or(before.tag, |(name, group)| thread.tag_in(group, name));
        thread.place_of(stack, tag)
    })
}

/// Takes a tag for what follows on this thread.
#[inline]
pub(crate) fn enter_tag(group: u32, name: &'static str) -> Open {
    enter_with(|thread, before| thread.place_of(before.stack, thread.tag_in(group, name)))
}

/// Goes to another place altogether.
#[inline]
pub(crate) fn enter_place(place: Place) -> Open {
    enter_with(|_, _| place)
}

#[inline(always)]
fn enter_with(find: impl FnOnce(&Thread, Place) -> Place) -> Open {
    THREAD
        .try_with(|thread| {
            let before = thread.place.get();
            let place = find(thread, before);
            thread.place.set(place);
            Open { before, inside: place.context }
        })
        .unwrap_or(Open { before: Place::ROOT, inside: ROOT })
}

/// Leaves what was entered. If the thread is elsewhere by now, that is counted: what is still open
/// inside is closed with it, and what was closed already is left alone.
#[inline]
pub(crate) fn leave(open: Open, site: &'static Location<'static>) {
    #[cold]
    #[inline(never)]
    fn out_of_order(thread: &Thread, open: Open, site: &'static Location<'static>) {
        misuse(site);
        let now = thread.place.get();
        let (stack, tag) = context::parts(open.inside);
        if context::is_within(now.stack, stack) {
            // A tag that came meanwhile goes when its own end comes.
            let tag = if now.tag == tag { open.before.tag } else { now.tag };
            thread.place.set(thread.place_of(open.before.stack, tag));
        }
    }
    let _ = THREAD.try_with(|thread| {
        if thread.place.get().context == open.inside {
            thread.place.set(open.before);
        } else {
            out_of_order(thread, open, site);
        }
    });
}

/// Where this thread is.
#[inline]
pub(crate) fn place() -> Place {
    THREAD.try_with(|thread| thread.place.get()).unwrap_or(Place::ROOT)
}

impl Thread {
    #[inline]
    fn stack_under(&self, stack: u32, name: &'static str) -> u32 {
        let key = name.as_ptr().addr();
        self.remembered(Kind::Scope, stack, key, name.len(), || context::stack_under(stack, name))
            .unwrap_or(OTHER)
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
