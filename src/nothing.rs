//! Values and functions that replace those of the tracker in a build without it.

/// In the place of what that part keeps in a value.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Nothing;

/// Functions that do nothing, by their signatures with the types of their arguments. Each returns the default
/// of its type, or the value after its `=`.
macro_rules! does_nothing {
    () => {};
    ($visibility:vis fn $name:ident(&self $(, $argument:ty)*) $(-> $result:ty)? $(= $value:expr)?; $($rest:tt)*) => {
        #[inline]
        $visibility fn $name(&self $(, _: $argument)*) $(-> $result)? {
            $crate::nothing::does_nothing!(@value $($value)?)
        }
        $crate::nothing::does_nothing! { $($rest)* }
    };
    ($visibility:vis fn $name:ident(self $(, $argument:ty)*) $(-> $result:ty)? $(= $value:expr)?; $($rest:tt)*) => {
        #[inline]
        $visibility fn $name(self $(, _: $argument)*) $(-> $result)? {
            $crate::nothing::does_nothing!(@value $($value)?)
        }
        $crate::nothing::does_nothing! { $($rest)* }
    };
    ($visibility:vis fn $name:ident($($argument:ty),*) $(-> $result:ty)? $(= $value:expr)?; $($rest:tt)*) => {
        #[inline]
        $visibility fn $name($(_: $argument),*) $(-> $result)? {
            $crate::nothing::does_nothing!(@value $($value)?)
        }
        $crate::nothing::does_nothing! { $($rest)* }
    };
    (@value) => { ::core::default::Default::default() };
    (@value $value:expr) => { $value };
}
pub(crate) use does_nothing;
