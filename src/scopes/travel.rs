//! Contexts that go from one thread to another.

use super::{Group, Name, ScopeGuard, Tag};
#[cfg(feature = "enable")]
use super::{
    context::NONE,
    thread::{self, Place},
};
#[cfg(feature = "enable")]
use std::panic::Location;
use std::thread::JoinHandle;

/// The scopes and the tag a thread is in, to be entered elsewhere: on another thread, in a job of
/// a pool, in a callback.
///
/// 12 bytes, to be copied and sent freely; it stays good for the life of the program. Entered on
/// any thread, it is that thread's whole context: where the thread was before does not matter until
/// the guard is dropped.
///
/// ```
/// use memledger::{Context, alloc_scope};
///
/// let pages = alloc_scope!("render", {
///     let context = Context::current();
///     std::thread::scope(|threads| {
///         let page = threads.spawn(move || {
///             let _context = context.enter();
///             alloc_scope!("page", { vec![0_u8; 4096] }) // in GlobalScope / render / page
///         });
///         page.join().unwrap()
///     })
/// });
/// # drop(pages);
/// ```
///
/// [`spawn`] does this for plain threads, [`AllocScope`](crate::AllocScope) for futures. A job of
/// `rayon` takes a context along in [`run`](Self::run).
#[derive(Clone, Copy, Debug)]
pub struct Context {
    #[cfg(feature = "enable")]
    place: Place,
}

impl Context {
    /// The scopes and the tag this thread is in. A read of thread-local storage.
    #[inline]
    pub fn current() -> Self {
        Self {
            #[cfg(feature = "enable")]
            place: thread::place(),
        }
    }

    /// Puts this thread into the context until the guard is dropped. 2 ns, wherever the
    /// context comes from.
    ///
    /// What is true of scopes is true here: the guard belongs to its thread, and one that is
    /// dropped out of order is counted as `scope_misuses`.
    #[inline]
    #[track_caller]
    pub fn enter(self) -> ScopeGuard {
        #[cfg(feature = "enable")]
        return ScopeGuard::enter_place(self.place);
        #[cfg(not(feature = "enable"))]
        ScopeGuard::enter("")
    }

    /// Runs `body` in the context, on this thread.
    ///
    /// ```
    /// use memledger::{Context, alloc_scope};
    ///
    /// alloc_scope!("index");
    /// let context = Context::current();
    /// let words: Vec<String> = std::thread::spawn(move || {
    ///     context.run(|| "one two".split(' ').map(String::from).collect())
    /// })
    /// .join()
    /// .unwrap();
    /// # assert_eq!(words.len(), 2);
    /// ```
    #[inline]
    #[track_caller]
    pub fn run<R>(self, body: impl FnOnce() -> R) -> R {
        let _entered = self.enter();
        body()
    }
}

/// What futures and spans make of contexts.
#[cfg(feature = "enable")]
impl Context {
    /// In no scope, without a tag.
    #[cfg(feature = "tracing")]
    pub(super) const OUTERMOST: Self = Self { place: Place::ROOT };

    /// Enters the scopes; the tag stays if these have none.
    #[cfg(feature = "tracing")]
    pub(super) fn enter_as_scope(self) -> thread::Open {
        thread::enter_stack(self.place)
    }

    /// With one scope more inside.
    pub(super) fn scope(self, name: Name) -> Self {
        Self { place: thread::place_inside(self.place, name.as_str()) }
    }

    /// The same, with what is allocated there belonging to `group`.
    pub(super) fn scope_in_group(self, group: &'static Group, name: Name) -> Self {
        let (tag, group) = group.unnamed();
        // Without the tag of before, which has no memory there.
        let stack = Self { place: Place { tag: NONE, ..self.place } }.scope(name);
        Self { place: thread::place_tagged(stack.place, group, tag) }
    }

    /// With another tag.
    pub(super) fn tagged(self, tag: Tag) -> Self {
        Self { place: thread::place_tagged(self.place, tag.group().node(), tag.name().as_str()) }
    }

    /// Runs `body` in the context, which then is where `body` has come to.
    #[inline]
    pub(super) fn go_on<R>(&mut self, body: impl FnOnce() -> R) -> R {
        /// Also where `body` panics.
        struct Out<'a> {
            context: &'a mut Context,
            outer: Place,
        }
        impl Drop for Out<'_> {
            #[inline]
            fn drop(&mut self) {
                self.context.place = thread::go(self.outer);
            }
        }
        let outer = thread::go(self.place);
        let _out = Out { context: self, outer };
        body()
    }

    /// Counts a misuse if this is not `expected`.
    pub(super) fn expect(self, expected: Self, site: &'static Location<'static>) {
        if self.place.context != expected.place.context {
            thread::misuse(site);
        }
    }
}

#[cfg(not(feature = "enable"))]
impl Context {
    pub(super) fn scope(self, _: Name) -> Self {
        self
    }

    pub(super) fn scope_in_group(self, _: &'static Group, _: Name) -> Self {
        self
    }

    pub(super) fn tagged(self, _: Tag) -> Self {
        self
    }

    pub(super) fn go_on<R>(&mut self, body: impl FnOnce() -> R) -> R {
        body()
    }
}

/// [`std::thread::spawn`], with the new thread in the context of this one.
///
/// ```
/// use memledger::alloc_scope;
///
/// let worker = alloc_scope!("thumbnails", {
///     memledger::spawn(|| vec![0_u8; 65_536]) // in GlobalScope / thumbnails
/// });
/// # assert_eq!(worker.join().unwrap().len(), 65_536);
/// ```
///
/// Threads made in other ways ([`std::thread::scope`], [`std::thread::Builder`], pools) take a
/// [`Context`] along.
///
/// # Panics
/// If the system cannot make a thread, as [`std::thread::spawn`].
#[track_caller]
pub fn spawn<F, T>(body: F) -> JoinHandle<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    let context = Context::current();
    std::thread::spawn(move || context.run(body))
}
