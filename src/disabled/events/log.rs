//! Log sites and bookmarks that write nothing, and evaluate no argument.

use super::{LogScope, Loggable};
use std::marker::PhantomData;

/// Whether log sites write events.
#[doc(hidden)]
pub const IS_WRITTEN: bool = false;

/// A log site.
#[doc(hidden)]
#[derive(Debug)]
pub struct NoLogSite<E>(PhantomData<fn() -> E>);

impl<E: Loggable> NoLogSite<E> {
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
