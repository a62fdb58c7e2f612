//! Log sites and bookmarks that write nothing, and evaluate no argument.

/// The scope of a guard.
#[derive(Debug)]
pub(super) struct OpenScope;

impl OpenScope {
    pub(super) const NONE: Self = Self;

    #[inline]
    pub(super) fn close(&self) {}
}

/// Logs an event, if its channel is enabled. Without the feature `enable`, does nothing and does
/// not evaluate the values.
#[macro_export]
macro_rules! log {
    ($($channel:path)|+, $($event:ident)::+ { $($field:ident : $value:expr),* $(,)? } $(,)?) => {
        if false {
            let _ = ([$(&$channel),+], $crate::__event!($($event)::+ { $($field: $value),* }));
        }
    };
}

/// Logs an event that opens a scope. Without the feature `enable`, only the block that is given, if
/// any, remains.
#[macro_export]
macro_rules! log_scope {
    (timed: $($scope:tt)+) => { $crate::log_scope! { $($scope)+ } };
    ($($channel:path)|+, $($event:ident)::+ { $($fields:tt)* }, $body:block) => {{
        $crate::log!($($channel)|+, $($event)::+ { $($fields)* });
        $body
    }};
    ($($channel:path)|+, $($event:ident)::+ { $($fields:tt)* } $(,)?) => {
        $crate::log!($($channel)|+, $($event)::+ { $($fields)* });
    };
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
