//! Futures that have a context of their own.
#![expect(unsafe_code, reason = "a pinned field")]

use super::current::{self, Site};
use super::{Group, Name, ScopeContext, Tag};
use std::mem::ManuallyDrop;
use std::pin::Pin;
use std::task::{self, Poll};

/// Gives scopes to futures, as [`alloc_scope!`](crate::alloc_scope) gives them to blocks of code.
///
/// A guard in an `async` block would stay on the scope stack of its thread while the task waits and
/// other tasks run there. So the compiler refuses such a guard where tasks can move to other
/// threads. The methods of this trait give the future a context of its own. It becomes the context
/// of the thread before each poll, on any thread, and is saved after the poll:
///
/// ```
/// use memledger::{AllocScope, alloc_scope};
/// # async fn receive() -> Vec<u8> { vec![1] }
///
/// async fn handle() -> usize {
///     let request = receive().alloc_scope("receive").await; // in .. / connection / receive
///     alloc_scope!("parse", { request.to_vec().len() }) // a block without `.await`
/// }
///
/// let task = alloc_scope!("server", { handle().alloc_scope("connection") });
/// // The task's memory is in GlobalScope / server / connection, on each thread that polls it.
/// # let mut task = std::pin::pin!(task);
/// # let mut context = std::task::Context::from_waker(std::task::Waker::noop());
/// # assert!(task.as_mut().poll(&mut context).is_ready());
/// ```
///
/// The scope is inside the scopes of the thread that *calls the method*: the task of the example is
/// inside `server` on every thread of an executor. Memory that the future allocates belongs to the
/// future's scopes until it is freed, even if another task frees or grows it.
///
/// # Costs
/// 1 to 2 ns for each poll, and 32 bytes in the future. Nothing without feature `enable`.
pub trait AllocScope: Future + Sized {
    /// Polls and drops this future in a scope of its own. [`AllocScope`] has an example.
    #[doc(alias = "instrument")]
    #[track_caller]
    fn alloc_scope(self, name: impl Into<Name>) -> Scoped<Self> {
        self.in_context(ScopeContext::current().scope(name.into()))
    }

    /// As [`alloc_scope`](Self::alloc_scope); the allocations of the future belong to `group`.
    ///
    /// ```
    /// use memledger::{AllocScope, group};
    ///
    /// group! { NETWORK = "Network"; }
    /// let task = async { vec![0_u8; 16] }.alloc_scope_in_group(&NETWORK, "receive");
    /// # drop(task);
    /// ```
    #[track_caller]
    fn alloc_scope_in_group(self, group: &'static Group, name: impl Into<Name>) -> Scoped<Self> {
        self.in_context(ScopeContext::current().scope_in_group(group, name.into()))
    }

    /// Gives each allocation of this future the tag `tag`, except those in an inner scope or tag
    /// that sets another tag. [`tagged`](crate::tagged) has an example.
    #[track_caller]
    fn alloc_tagged(self, tag: Tag) -> Scoped<Self> {
        self.in_context(ScopeContext::current().tagged(tag))
    }

    /// Polls and drops this future in `context`.
    ///
    /// ```
    /// use memledger::{AllocScope, ScopeContext, alloc_scope};
    ///
    /// let context = alloc_scope!("server", { ScopeContext::current() });
    /// // Made elsewhere, and in the scope `server` all the same.
    /// let task = async { vec![0_u8; 16] }.in_context(context);
    /// # drop(task);
    /// ```
    #[track_caller]
    fn in_context(self, context: ScopeContext) -> Scoped<Self> {
        Scoped { future: ManuallyDrop::new(self), context, first: context, site: current::here() }
    }
}

impl<F: Future> AllocScope for F {}

/// A future with a context of its own; the methods of [`AllocScope`], which has an example, make it.
///
/// Scopes that are open inside the future while it waits are saved with its context. So on
/// executors of one thread, where guards across `.await` compile, such guards are correct inside
/// this future. Its destructors run in its context. If a future ends in another context than the
/// one in which it began, because it has forgotten a guard or returned one, this counts as one of
/// `scope_misuses`.
#[must_use = "futures do nothing unless polled"]
#[derive(Debug)]
pub struct Scoped<F> {
    future: ManuallyDrop<F>,
    /// The context for the next poll.
    context: ScopeContext,
    first: ScopeContext,
    site: Site,
}

impl<F: Future> Future for Scoped<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, waker: &mut task::Context<'_>) -> Poll<F::Output> {
        // SAFETY: the inner future is never moved, and is dropped in place, so it is pinned as
        // `self` is. The other fields are not pinned.
        let this = unsafe { self.get_unchecked_mut() };
        // SAFETY: as above.
        let future = unsafe { Pin::new_unchecked(&mut *this.future) };
        let polled = this.context.resume(|| future.poll(waker));
        if polled.is_ready() {
            current::expect(this.context.ids, this.first.ids, this.site);
        }
        polled
    }
}

impl<F> Drop for Scoped<F> {
    fn drop(&mut self) {
        let future = &mut self.future;
        // SAFETY: the future is not used again. It is dropped in place, so it does not move.
        self.context.resume(|| unsafe { ManuallyDrop::drop(future) });
    }
}
