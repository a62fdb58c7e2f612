//! A context as a value that other threads can enter.

use super::current::{self, ContextIds};
use super::{Group, Name, ScopeGuard, Tag};
use std::thread::JoinHandle;

/// The scopes and the tag a thread is in, as a value. Another thread, a job of a pool or a callback
/// can enter it.
///
/// It has 12 bytes, is `Copy` and `Send`, and is valid for the life of the program. On the thread
/// that enters it, it replaces the whole context of the thread until the guard is dropped.
///
/// ```
/// use memledger::{ScopeContext, alloc_scope};
///
/// let pages = alloc_scope!("render", {
///     let context = ScopeContext::current();
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
/// [`spawn`] does this for a new thread, [`AllocScope`](crate::AllocScope) for a future, and
/// [`run`](Self::run) for a job of `rayon`.
#[derive(Clone, Copy, Debug)]
#[must_use = "a context does nothing until something runs in it"]
pub struct ScopeContext {
    pub(super) ids: ContextIds,
}

impl ScopeContext {
    /// The scopes and the tag this thread is in. Costs a read of thread-local storage.
    /// [`ScopeContext`] has an example.
    #[inline]
    pub fn current() -> Self {
        Self { ids: current::capture() }
    }

    /// Makes this the context of this thread until the guard is dropped. Costs 2 ns.
    ///
    /// The guard cannot be sent to another thread. A guard that is dropped out of order counts as
    /// one of `scope_misuses`, as the guard of a scope does.
    ///
    /// ```
    /// use memledger::{ScopeContext, alloc_scope};
    ///
    /// let context = alloc_scope!("load level", { ScopeContext::current() });
    /// let on_loaded = move || {
    ///     let _context = context.enter(); // on whichever thread, and in whichever scope, it is called
    ///     vec![0_u8; 100]
    /// };
    /// assert_eq!(on_loaded().len(), 100);
    /// ```
    #[inline]
    #[track_caller]
    pub fn enter(self) -> ScopeGuard {
        ScopeGuard::enter_context(self.ids)
    }

    /// Runs `body` in the context, on this thread.
    ///
    /// ```
    /// use memledger::{ScopeContext, alloc_scope};
    ///
    /// alloc_scope!("index");
    /// let context = ScopeContext::current();
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

/// Operations that futures and spans use.
impl ScopeContext {
    /// The context with one more scope inside.
    #[inline]
    pub(super) fn scope(self, name: Name) -> Self {
        Self { ids: current::with_scope(self.ids, name.as_str()) }
    }

    /// As [`scope`](Self::scope), with a tag of `group`.
    #[inline]
    pub(super) fn scope_in_group(self, group: &'static Group, name: Name) -> Self {
        let (tag, group) = group.unnamed();
        // The scope is added to a context without a tag. Otherwise the tree would get a node that
        // is never used, for the pair of the new scope and the old tag.
        let untagged = Self { ids: self.ids.untagged() }.scope(name);
        Self { ids: current::with_tag(untagged.ids, group, tag) }
    }

    /// The context with another tag.
    #[inline]
    pub(super) fn tagged(self, tag: Tag) -> Self {
        Self { ids: current::with_tag(self.ids, tag.group().node(), tag.name().as_str()) }
    }

    /// Runs `body` in the context. The context at the end of `body` replaces this one.
    #[inline]
    pub(super) fn resume<R>(&mut self, body: impl FnOnce() -> R) -> R {
        /// Restores the thread's context even if `body` panics.
        struct Suspend<'a> {
            context: &'a mut ScopeContext,
            outer: ContextIds,
        }
        impl Drop for Suspend<'_> {
            #[inline]
            fn drop(&mut self) {
                self.context.ids = current::swap(self.outer);
            }
        }
        let outer = current::swap(self.ids);
        let _suspend = Suspend { context: self, outer };
        body()
    }
}

/// As [`std::thread::spawn`], with the new thread in the context of this thread.
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
/// For threads that are made in other ways ([`std::thread::scope`], [`std::thread::Builder`],
/// pools), use a [`ScopeContext`].
///
/// # Panics
/// If the system cannot make a thread, as [`std::thread::spawn`].
#[track_caller]
pub fn spawn<F, T>(body: F) -> JoinHandle<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    let context = ScopeContext::current();
    std::thread::spawn(move || context.run(body))
}
