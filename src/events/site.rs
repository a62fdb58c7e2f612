//! `log!` and `log_scope!`, whether their events are written or not.

use super::log::OpenScope;
use crate::events::channel::Channel;
use std::marker::PhantomData;
use std::panic::{RefUnwindSafe, UnwindSafe};

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

/// A scope in the stream of this thread, closed when dropped. [`log_scope!`](crate::events::log_scope)
/// makes it.
///
/// A guard cannot be sent to another thread. If a guard is forgotten, or dropped while scopes
/// inside it are open, leaving the scope around it corrects this.
/// ```compile_fail,E0277
/// let scope = memledger::events::LogScope::closed();
/// std::thread::spawn(move || drop(scope));
/// ```
#[must_use = "the scope is left when this is dropped"]
#[derive(Debug)]
pub struct LogScope {
    open: OpenScope,
    _not_send: PhantomData<LeaveTheScopeOnTheThreadThatEnteredIt>,
}

// What is open differs with and without a tracker; the traits do not.
impl UnwindSafe for LogScope {}
impl RefUnwindSafe for LogScope {}

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

/// Logs an event, if its channel is enabled.
///
/// ```
/// memledger::events::channel! { GAME = "Game"; NETWORK = "Network"; }
/// memledger::events::event! { Spawned = "Game"."Spawned" { Id: u32, Name: WideString } }
///
/// memledger::events::log!(GAME, Spawned { Id: 7, Name: "Ümit" });
/// memledger::events::log!(GAME, Spawned { Id: 8 });               // no name: an empty one
/// # #[allow(non_snake_case)]
/// # let Id = 8;
/// memledger::events::log!(GAME, Spawned { Id });                   // the variable of that name
/// memledger::events::log!(GAME | NETWORK, Spawned { Id: 9 });      // only if both are enabled
/// ```
/// A channel is the path of a static, not a variable. A field that is given twice does not compile.
///
/// While the channel is disabled, this costs one relaxed load, and the values are not evaluated.
/// Otherwise all values are evaluated first, then the event is written in one piece. If the
/// expression of a value logs an event itself, directly or in a function that it calls, that event
/// is written first, and both are whole. If a signal handler logs while this thread is writing an
/// event, or is in the tracker's own code, the handler's event is lost and counted. Handlers must
/// not log important events, which take memory and a lock.
///
/// An event that has only numbers takes 2 to 4 ns; an event with strings or arrays takes about 50
/// ns, plus the time to copy them (`cargo bench -p memledger-benches --bench log`). Synchronised
/// events of several threads are in the order in which they were logged. For that, threads that log
/// at the same time contend for a shared word of memory; `NoSync` events do not use it.
///
/// An event can be as large as half of the buffers (4 MiB by default). An event that is larger, or
/// for which the buffers are too full for one second, is lost as a whole and counted.
///
/// Without the feature `enable`, nothing is written, and no value is evaluated.
#[doc(hidden)]
#[macro_export]
macro_rules! __events_log {
    ($($channel:path)|+, $($event:ident)::+ { $($fields:tt)* } $(,)?) => {
        if $crate::__private::IS_WRITTEN && $crate::__private::are_enabled([$(&$channel),+]) {
            $crate::__log_site! { $($channel)|+, $($event)::+ { $($fields)* } }
            __MEMLEDGER_LOG_SITE.log($crate::__event!($($event)::+ { $($fields)* }));
        }
    };
}

/// The static of a log site. A field that is given twice is one that is declared twice.
#[doc(hidden)]
#[macro_export]
macro_rules! __log_site {
    ($($channel:path)|+, $($event:ident)::+ { $($field:ident $(: $value:expr)?),* $(,)? }) => {
        #[allow(dead_code, non_snake_case)]
        struct __MemledgerFields { $($field: ()),* }
        static __MEMLEDGER_LOG_SITE: $crate::__private::LogSite<$($event)::+<'static>> =
            $crate::__private::LogSite::new(&[$($channel.id()),+]);
    };
}

/// Logs an event that opens a scope. The scope closes at the end of the enclosing block, or of the
/// block that is given.
///
/// ```
/// memledger::events::channel! { GAME = "Game"; }
/// memledger::events::event! { Frame = "Game"."Frame" [NoSync] { Number: u64 } }
///
/// let drawn = memledger::events::log_scope!(GAME, Frame { Number: 1 }, {
///     // Readers know that what this thread logs here belongs to frame 1.
///     3
/// });
/// # assert_eq!(drawn, 3);
///
/// memledger::events::log_scope!(timed: GAME, Frame { Number: 2 }); // with the time, here and where it ends
/// ```
/// The event cannot be `Important`. Entering costs about 17 ns, and so does leaving; with the time, each
/// costs twice as much.
#[doc(hidden)]
#[macro_export]
macro_rules! __events_log_scope {
    (timed: $($scope:tt)+) => { $crate::__log_scope! { true, $($scope)+ } };
    ($($scope:tt)+) => { $crate::__log_scope! { false, $($scope)+ } };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __log_scope {
    ($timed:literal, $($channel:path)|+, $($event:ident)::+ { $($fields:tt)* }, $body:block) => {{
        $crate::__log_scope! { $timed, $($channel)|+, $($event)::+ { $($fields)* } }
        $body
    }};
    ($timed:literal, $($channel:path)|+, $($event:ident)::+ { $($fields:tt)* } $(,)?) => {
        const _: () = $crate::__private::check_scope(
            <$($event)::+<'static> as $crate::__private::Loggable>::FLAGS,
        );
        let _memledger_log_scope = if $crate::__private::IS_WRITTEN
            && $crate::__private::are_enabled([$(&$channel),+])
        {
            $crate::__log_site! { $($channel)|+, $($event)::+ { $($fields)* } }
            __MEMLEDGER_LOG_SITE.enter($crate::__event!($($event)::+ { $($fields)* }), $timed)
        } else {
            $crate::events::LogScope::closed()
        };
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __event {
    ($($event:ident)::+ { $($field:ident $(: $value:expr)?),* $(,)? }) => {
        <$($event)::+<'_> as $crate::__private::Loggable>::empty()
            $(.$field($crate::__value!($field $($value)?)))*
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __value {
    ($field:ident) => {
        $field
    };
    ($field:ident $value:expr) => {
        $value
    };
}
