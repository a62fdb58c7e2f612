//! Log sites: `log!` and `log_scope!`.

use super::site::LogScope;
use super::wire::WireEvent;
use super::write;
use crate::trace::write::declared::Logged;
use crate::trace::write::program::{self, OpenedScope};
use std::marker::PhantomData;

/// A log site, which is a static. Its type names the type of its events, so a log site does not
/// compile in a function that is generic over that type, whose instances would all share the
/// static.
#[doc(hidden)]
#[derive(Debug)]
pub struct LogSite<E> {
    logged: Logged,
    _event: PhantomData<fn() -> E>,
}

impl<E: WireEvent> LogSite<E> {
    /// A log site on the channels with these ids.
    pub const fn new(channels: &'static [u32]) -> Self {
        Self { logged: Logged::new(E::declared, channels), _event: PhantomData }
    }

    /// Logs an event of this type.
    #[inline(always)]
    pub fn log(&'static self, event: impl WireEvent<Static = E>) {
        write::log(&self.logged, event);
    }

    /// Opens a scope that begins with an event of this type.
    #[inline]
    pub fn enter(&'static self, event: impl WireEvent<Static = E>, timed: bool) -> LogScope {
        LogScope::new(OpenScope { opened: write::enter(&self.logged, event, timed), timed })
    }
}

#[derive(Debug)]
pub(super) struct OpenScope {
    opened: Option<OpenedScope>,
    timed: bool,
}

impl OpenScope {
    pub(super) const NONE: Self = Self { opened: None, timed: false };

    #[inline]
    pub(super) fn close(&self) {
        if let Some(opened) = self.opened {
            program::leave_scope(opened, self.timed);
        }
    }
}

/// Logs an event, if its channel is enabled.
///
/// ```
/// memledger::channel! { GAME = "Game"; NETWORK = "Network"; }
/// memledger::event! { Spawned = "Game"."Spawned" { Id: u32, Name: WideString } }
///
/// memledger::log!(GAME, Spawned { Id: 7, Name: "Ümit" });
/// memledger::log!(GAME, Spawned { Id: 8 });               // no name: an empty one
/// memledger::log!(GAME | NETWORK, Spawned { Id: 9 });      // only if both are enabled
/// ```
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
#[macro_export]
macro_rules! log {
    ($($channel:path)|+, $($event:ident)::+ { $($field:ident : $value:expr),* $(,)? } $(,)?) => {
        if $crate::events::are_enabled([$(&$channel),+]) {
            $crate::__log_site! { $($channel)|+, $($event)::+ }
            __MEMLEDGER_LOG_SITE.log($crate::__event!($($event)::+ { $($field: $value),* }));
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __log_site {
    ($($channel:path)|+, $($event:ident)::+) => {
        static __MEMLEDGER_LOG_SITE: $crate::events::LogSite<$($event)::+<'static>> =
            $crate::events::LogSite::new(&[$($channel.id()),+]);
    };
}

/// Logs an event that opens a scope. The scope closes at the end of the enclosing block, or of the
/// block that is given.
///
/// ```
/// memledger::channel! { GAME = "Game"; }
/// memledger::event! { Frame = "Game"."Frame" [NoSync] { Number: u64 } }
///
/// let drawn = memledger::log_scope!(GAME, Frame { Number: 1 }, {
///     // Readers know that what this thread logs here belongs to frame 1.
///     3
/// });
/// # assert_eq!(drawn, 3);
///
/// memledger::log_scope!(timed: GAME, Frame { Number: 2 }); // with the time, here and where it ends
/// ```
/// Entering costs about 17 ns, and so does leaving; with the time, each costs twice as much.
#[macro_export]
macro_rules! log_scope {
    (timed: $($scope:tt)+) => { $crate::__log_scope! { true, $($scope)+ } };
    ($($scope:tt)+) => { $crate::__log_scope! { false, $($scope)+ } };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __log_scope {
    ($timed:literal, $($channel:path)|+, $($event:ident)::+ { $($field:ident : $value:expr),* $(,)? }, $body:block) => {{
        $crate::__log_scope! { $timed, $($channel)|+, $($event)::+ { $($field: $value),* } }
        $body
    }};
    ($timed:literal, $($channel:path)|+, $($event:ident)::+ { $($field:ident : $value:expr),* $(,)? } $(,)?) => {
        let _memledger_log_scope = if $crate::events::are_enabled([$(&$channel),+]) {
            $crate::__log_site! { $($channel)|+, $($event)::+ }
            __MEMLEDGER_LOG_SITE.enter($crate::__event!($($event)::+ { $($field: $value),* }), $timed)
        } else {
            $crate::LogScope::closed()
        };
    };
}
