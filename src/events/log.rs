//! Log sites, which write events.

use super::site::LogScope;
use super::wire::WireEvent;
use super::write;
use crate::trace::write::declared::Logged;
use crate::trace::write::program::{self, OpenedScope};
use std::marker::PhantomData;

/// A log site, which is a static. Its type names the type of its events, so a log site does not
/// compile in a function that is generic over that type, whose instances would all share the
/// static.
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

/// Whether log sites write events.
pub const IS_WRITTEN: bool = true;

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
