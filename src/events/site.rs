//! What a log site in a program is made of, whether its events are recorded or not.

use super::log::OpenScope;
use crate::events::channel::Channel;
use std::marker::PhantomData;

/// Whether all channels are enabled. Stops at the first one that is disabled.
#[doc(hidden)]
#[inline(always)]
pub fn are_enabled<const N: usize>(channels: [&'static Channel; N]) -> bool {
    channels.iter().all(|channel| channel.is_enabled())
}

/// Makes a guard not `Send`, so that it cannot move to another thread. The error of the compiler
/// contains this name.
#[derive(Debug)]
struct LeaveTheScopeOnTheThreadThatEnteredIt {
    _not_send: PhantomData<*const ()>,
}

/// A scope in the stream of this thread, closed when dropped. [`log_scope!`](crate::log_scope)
/// makes it.
///
/// A guard cannot be sent to another thread. If a guard is forgotten, or dropped while scopes
/// inside it are open, leaving the scope around it corrects this.
/// ```compile_fail,E0277
/// let scope = memledger::LogScope::closed();
/// std::thread::spawn(move || drop(scope));
/// ```
#[must_use = "the scope is left when this is dropped"]
#[derive(Debug)]
pub struct LogScope {
    open: OpenScope,
    _not_send: PhantomData<LeaveTheScopeOnTheThreadThatEnteredIt>,
}

impl LogScope {
    /// A guard without a scope, for a disabled channel.
    #[inline(always)]
    pub const fn closed() -> Self {
        Self::new(OpenScope::NONE)
    }

    pub(super) const fn new(open: OpenScope) -> Self {
        Self { open, _not_send: PhantomData }
    }
}

impl Drop for LogScope {
    #[inline]
    fn drop(&mut self) {
        self.open.close();
    }
}

#[doc(hidden)]
#[macro_export]
macro_rules! __event {
    ($($event:ident)::+ { $($field:ident : $value:expr),* }) => {
        <$($event)::+<'_> as $crate::events::Loggable>::empty()$(.$field($value))*
    };
}
