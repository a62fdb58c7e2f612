//! Futures that carry their scopes with them.
#![expect(unsafe_code, reason = "a pinned field")]

use super::{Context, Group, Name, Tag};
use std::mem::ManuallyDrop;
#[cfg(feature = "enable")]
use std::panic::Location;
use std::pin::Pin;
use std::task::{self, Poll};

/// Scopes for futures: what [`alloc_scope!`](crate::alloc_scope) is for blocks.
///
/// A guard in an `async` block is on its thread's stack of scopes, and other tasks run on that thread
/// while this one waits. So the compiler refuses it wherever tasks can move to other threads. These
/// methods give the future a stack of its own, which is put in place whenever the future is
/// polled, on whichever thread, and put aside after it:
///
/// ```
/// use memledger::{AllocScope, alloc_scope};
/// # async fn receive() -> Vec<u8> { vec![1] }
///
/// async fn handle() -> usize {
///     let request = receive().alloc_scope("receive").await; // in .. / connection / receive
///     alloc_scope!("parse", { request.to_vec().len() }) // a block without `.await`: as everywhere
/// }
///
/// let task = alloc_scope!("server", { handle().alloc_scope("connection") });
/// // The task's memory is in GlobalScope / server / connection, wherever it is polled.
/// # let mut task = std::pin::pin!(task);
/// # let mut context = std::task::Context::from_waker(std::task::Waker::noop());
/// # assert!(task.as_mut().poll(&mut context).is_ready());
/// ```
///
/// The scope is inside those that the thread is in *where the method is called*, as tasks are
/// spawned: the example's task stays inside `server` on the threads of any executor. Memory that the
/// future allocates belongs to its scopes for good, whoever frees or grows it.
///
/// # Costs
/// 1 to 2 ns a poll, and 32 bytes in the future. Without feature `enable`: nothing.
pub trait AllocScope: Future + Sized {
    /// Polls and drops this future in a scope of its own.
    #[track_caller]
    fn alloc_scope(self, name: impl Into<Name>) -> Scoped<Self> {
        self.in_context(Context::current().scope(name.into()))
    }

    /// The same, with the allocations belonging to `group`.
    #[track_caller]
    fn alloc_scope_in_group(self, group: &'static Group, name: impl Into<Name>) -> Scoped<Self> {
        self.in_context(Context::current().scope_in_group(group, name.into()))
    }

    /// Has every allocation of this future carry `tag`, unless something inside says otherwise.
    #[track_caller]
    fn alloc_tagged(self, tag: Tag) -> Scoped<Self> {
        self.in_context(Context::current().tagged(tag))
    }

    /// Polls and drops this future in a context from elsewhere.
    #[track_caller]
    fn in_context(self, context: Context) -> Scoped<Self> {
        Scoped {
            future: ManuallyDrop::new(self),
            context,
            #[cfg(feature = "enable")]
            first: context,
            #[cfg(feature = "enable")]
            site: Location::caller(),
        }
    }
}

impl<F: Future> AllocScope for F {}

/// A future with scopes of its own; made by the methods of [`AllocScope`].
///
/// Scopes that are open inside the future while it waits are put aside with it. So on executors
/// of one thread, where guards across `.await` compile, they are right within such a future. Its
/// destructors run in its scopes, too. A future that ends in other scopes than it began in
/// (a guard was forgotten, or handed out) is counted as one of `scope_misuses`.
#[must_use = "futures do nothing unless polled"]
#[derive(Debug)]
pub struct Scoped<F> {
    future: ManuallyDrop<F>,
    /// Where the future goes on when it is polled.
    context: Context,
    #[cfg(feature = "enable")]
    first: Context,
    #[cfg(feature = "enable")]
    site: &'static Location<'static>,
}

impl<F: Future> Future for Scoped<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, waker: &mut task::Context<'_>) -> Poll<F::Output> {
        // SAFETY: the future within is pinned as this is: it is moved nowhere, and dropped in place.
        // The other fields are not.
        let this = unsafe { self.get_unchecked_mut() };
        // SAFETY: as above.
        let future = unsafe { Pin::new_unchecked(&mut *this.future) };
        let polled = this.context.go_on(|| future.poll(waker));
        #[cfg(feature = "enable")]
        if polled.is_ready() {
            this.context.expect(this.first, this.site);
        }
        polled
    }
}

impl<F> Drop for Scoped<F> {
    fn drop(&mut self) {
        let future = &mut self.future;
        // SAFETY: not used again, and not moved: what was pinned is dropped in place.
        self.context.go_on(|| unsafe { ManuallyDrop::drop(future) });
    }
}
