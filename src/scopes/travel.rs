//! Contexts that go from one thread to another.

use super::ScopeGuard;
#[cfg(feature = "enable")]
use super::thread::{self, Place};
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

    /// Puts this thread into the context until the guard is dropped. About 2 ns, wherever the
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
