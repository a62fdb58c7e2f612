//! Log sites and bookmarks that write nothing, and evaluate no argument.

use super::LogScope;
use super::declare::Loggable;
use std::marker::PhantomData;

/// Whether log sites write events.
pub const IS_WRITTEN: bool = false;

/// A log site.
#[doc(hidden)]
#[derive(Debug)]
pub struct LogSite<E>(PhantomData<fn() -> E>);

impl<E: Loggable> LogSite<E> {
    pub const fn new(_: &'static [u32]) -> Self {
        Self(PhantomData)
    }

    #[inline(always)]
    pub fn log(&'static self, _: impl Loggable<Static = E>) {}

    #[inline(always)]
    pub fn enter(&'static self, _: impl Loggable<Static = E>, _: bool) -> LogScope {
        LogScope::closed()
    }
}

/// The scope of a guard.
#[derive(Debug)]
pub(super) struct OpenScope;

impl OpenScope {
    pub(super) const NONE: Self = Self;

    #[inline]
    pub(super) fn close(&self) {}
}

/// Names this moment. Without the feature `enable`, does nothing and does not evaluate the
/// arguments.
#[macro_export]
macro_rules! bookmark {
    ($($text:tt)+) => {
        if false {
            let _ = ::core::format_args!($($text)+);
        }
    };
}
